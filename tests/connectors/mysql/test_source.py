"""Tables and queries of a real server, read in parts: whole, restored, while the server goes away and rows change."""

from __future__ import annotations

import datetime
import logging
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pymysql
import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.common import Duration, Instant, WatermarkStrategy
from millstream.connectors.mysql.source import MySqlSource, MySqlSourceBuilder
from millstream.table import DataTypes
from millstream.testing import FailurePoint, MiniCluster, check_source
from millstream.testing.source_run import SourceRun
from servers.mariadb import MariaDbDatabase


def reading(database: MariaDbDatabase, table: str | None = None) -> MySqlSourceBuilder:
    builder = (
        MySqlSource.builder()
        .set_url("mysql://localhost?sslMode=disabled")  # connections begin sooner
        .set_host(database.host, database.port)
        .set_database(database.name)
        .set_username(database.user)
        .set_password(database.password)
        .set_patience(Duration.of_seconds(20))
    )
    return builder if table is None else builder.set_table(table)


def check_in_two_parts(source: MySqlSource, expected: list[Any]) -> None:
    """See that all rows come once, some before a checkpoint, the rest behind it."""
    first = SourceRun(source, 2, 5)
    first.epoch()
    first.epoch()
    kept, before = first.snapshot(), [row for rows in first.read for row in rows]
    first.close()
    assert len(before) in range(min(10, len(expected)), 21)
    after = SourceRun(source, 3, 4, restored=kept, columns=True).run()
    assert sorted(map(repr, before + after)) == sorted(map(repr, expected))


def rows_of(source: MySqlSource) -> list[Any]:
    return SourceRun(source, 1, 100_000).run()


def sorted_rows(source: MySqlSource) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in SourceRun(source, 2, 100_000).run())


KEYS = {
    "negative": ("id int PRIMARY KEY", "CAST(seq AS SIGNED) - 20"),
    "huge": ("id bigint unsigned PRIMARY KEY", "(seq + 5) * 400000000000000000"),
    "text": (
        "id varchar(50) PRIMARY KEY",
        "CONCAT(CASE seq % 3 WHEN 0 THEN '''' WHEN 1 THEN '\\\\' ELSE '\u00e9\U0001f600' END, seq)",
    ),
    "another character set": ("id varchar(50) CHARACTER SET latin1 PRIMARY KEY", "CONCAT('\u00e9%', seq)"),
    "decimal": ("id decimal(20,9) PRIMARY KEY", "seq / 7.0"),
    "double": ("id double PRIMARY KEY", "seq / 7e0"),
    "float": ("id float PRIMARY KEY", "seq / 7e0"),
    "moment": ("id timestamp(6) PRIMARY KEY", "'2024-01-01' + INTERVAL seq * 1.000001 SECOND"),
    "date": ("id date PRIMARY KEY", "'2024-01-01' + INTERVAL seq DAY"),
    "time": ("id time PRIMARY KEY", "SEC_TO_TIME(seq * 700)"),
    "bytes": ("id varbinary(20) PRIMARY KEY", "UNHEX(LPAD(HEX(seq), 4, '0'))"),
    "bits": ("id bit(40) PRIMARY KEY", "seq * 65537"),
    "enum": (
        f"id enum({', '.join(repr(str(n)) for n in range(40, 0, -1))}) PRIMARY KEY",
        "CAST(seq AS CHAR)",
    ),
    "unique, not the first column": ("id varchar(9), number int NOT NULL UNIQUE", "seq % 5, seq"),
    "compound": ("id int, name char(3), PRIMARY KEY (id, name)", "seq % 5, CHAR(60 + seq)"),
    "compound of three": ("a int, b varchar(9), c int, PRIMARY KEY (c, a, b)", "seq % 3, seq, seq % 2"),
    "of a part of a text": ("id varchar(50), PRIMARY KEY (id(3))", "LPAD(seq, 3, '0')"),
    "none": ("id int, t text", "seq % 7, IF(seq % 2, 'x', NULL)"),
    "one with gaps": ("id int UNIQUE", "NULLIF(seq, 3)"),
}


_OFTEN = ("text", "compound", "none")


@pytest.mark.parametrize(
    "kind", [kind if kind in _OFTEN else pytest.param(kind, marks=pytest.mark.long) for kind in KEYS]
)
def test_tables_by_their_keys(mariadb: MariaDbDatabase, kind: str) -> None:
    columns, values = KEYS[kind]
    mariadb.execute(f"CREATE TABLE keyed ({columns})")
    mariadb.execute(f"INSERT INTO keyed SELECT {values} FROM seq_1_to_40")
    source = reading(mariadb, "keyed").set_split_size(7).build()
    expected = rows_of(reading(mariadb, "keyed").build())
    assert len(expected) == 40
    check_in_two_parts(source, expected)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["negative", "text", "compound", "none"])
def test_what_sources_have_to_keep_to(mariadb: MariaDbDatabase, kind: str) -> None:
    columns, values = KEYS[kind]
    mariadb.execute(f"CREATE TABLE keyed ({columns})")
    mariadb.execute(f"INSERT INTO keyed SELECT {values} FROM seq_1_to_40")
    source = reading(mariadb, "keyed").set_split_size(7).build()
    check_source(
        source,
        expected=rows_of(reading(mariadb, "keyed").build()),
        parallelisms=(2,),
        budgets=(7,),
    )


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("columns", ["id int PRIMARY KEY", "id int"])
def test_tables_of_hardly_any_rows(mariadb: MariaDbDatabase, number: int, columns: str) -> None:
    mariadb.execute(f"CREATE TABLE small ({columns})")
    mariadb.execute(f"INSERT INTO small SELECT seq FROM seq_1_to_40 WHERE seq <= {number}")
    source = reading(mariadb, "small").build()
    check_in_two_parts(source, rows_of(source))


@pytest.mark.long
@pytest.mark.parametrize("column", ["a", "b", "c"])
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_another_column_to_split_by(mariadb: MariaDbDatabase, column: str, key: str) -> None:
    mariadb.execute(f"CREATE TABLE other (id int, a int NOT NULL, b varchar(20), c double{key})")
    mariadb.execute("INSERT INTO other SELECT seq, seq % 3, NULLIF(seq % 4, 2), seq / 10 FROM seq_1_to_60")
    source = reading(mariadb, "other").set_split_column(column).set_number_of_splits(5).build()
    check_in_two_parts(source, rows_of(reading(mariadb, "other").build()))


@pytest.mark.parametrize("column", [None, "half"])
def test_queries(mariadb: MariaDbDatabase, column: str | None) -> None:
    mariadb.execute("CREATE TABLE numbers (n int PRIMARY KEY, document json)")
    mariadb.execute("INSERT INTO numbers SELECT seq, '{\"a\":1}' FROM seq_1_to_60")
    builder = reading(mariadb).set_query(
        "SELECT n DIV 4 AS half, 'same' AS same, document FROM numbers WHERE n > 20 -- those\n"
    )
    if column is not None:
        builder.set_split_column(column).set_split_size(6)
    source = builder.build()
    assert sorted_rows(source) == [(n // 4, "same", '{"a":1}') for n in range(21, 61)]
    check_in_two_parts(source, rows_of(source))


def test_views_and_names_that_need_quotes(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE `Ta``b.le` (`I d` int PRIMARY KEY, `SELECT` text, k0 int, q int)")
    mariadb.execute("INSERT INTO `Ta``b.le` SELECT seq, seq, seq, seq FROM seq_1_to_9")
    mariadb.execute("CREATE VIEW seen AS SELECT `I d` FROM `Ta``b.le` WHERE `I d` % 2")
    builder = reading(mariadb, f"{mariadb.name}.`Ta``b.le`").set_columns("SELECT", "k0", "q")
    assert sorted_rows(builder.set_split_size(2).build()) == [(str(n), n, n) for n in range(1, 10)]
    assert sorted_rows(reading(mariadb, "seen").build()) == [(1,), (3,), (5,), (7,), (9,)]


VALUES: dict[str, tuple[str, Any]] = {
    "bool": ("1", True),
    "tinyint": ("-128", -128),
    "tinyint unsigned": ("255", 255),
    "smallint unsigned": ("65535", 65535),
    "mediumint": ("-8388608", -8388608),
    "mediumint unsigned": ("16777215", 16777215),
    "int unsigned": ("4294967295", 4294967295),
    "bigint": ("-9223372036854775808", -(2**63)),
    "bigint unsigned": ("18446744073709551615", Decimal(2**64 - 1)),
    "float": ("0.1", 0.10000000149011612),
    "double": ("0.1", 0.1),
    "decimal(38,10)": (
        "-1234567890123456789012345678.0123456789",
        Decimal("-1234567890123456789012345678.0123456789"),
    ),
    "decimal(5,0) unsigned": ("99999", Decimal(99999)),
    "decimal(65,30)": ("1.5", "1.500000000000000000000000000000"),
    "date": ("'9999-12-31'", datetime.date(9999, 12, 31)),
    "time(3)": ("'23:59:59.123'", datetime.time(23, 59, 59, 123000)),
    "datetime": ("'1000-01-01 00:00:00'", datetime.datetime(1000, 1, 1)),
    "datetime(6)": ("'2024-02-29 12:00:00.000001'", datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
    "timestamp(3) null": ("'2024-01-01 00:00:00.5'", Instant.of_epoch_milli(1704067200500)),
    "year": ("1999", 1999),
    "char(5)": ("'ab '", "ab"),
    "varchar(20)": ("'\u00e9\\0\\'\"\\\\\\n'", "\u00e9\0'\"\\\n"),
    "longtext": ("REPEAT('\U0010ffff', 50000)", "\U0010ffff" * 50_000),
    "text character set latin1": ("'\u00e9\u20ac'", "\u00e9\u20ac"),
    "varchar(9) character set utf8mb3": ("'\uffee'", "\uffee"),
    "json": ("'{\"a\": [1, null]}'", '{"a": [1, null]}'),
    "binary(4)": ("X'00FF'", b"\0\xff\0\0"),
    "varbinary(9)": ("X'00FF00'", b"\0\xff\0"),
    "blob": ("''", b""),
    "longblob": ("REPEAT(X'00FF', 50000)", b"\0\xff" * 50_000),
    "bit(1)": ("b'1'", True),
    "bit(9)": ("b'100000001'", b"\x01\x01"),
    "enum('x','y,z')": ("'y,z'", "y,z"),
    "set('a','b','c')": ("'c,a'", "a,c"),
    "set('d','e')": ("''", ""),
}


def make_values(mariadb: MariaDbDatabase) -> list[Any]:
    """Make a table that has them, and a row without any; return what is to be read of the first."""
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(VALUES))
    mariadb.execute(f"CREATE TABLE valued (id int PRIMARY KEY, {columns})")
    insert_values(mariadb)
    return [expected for _, expected in VALUES.values()]


def insert_values(mariadb: MariaDbDatabase) -> None:
    literals = ", ".join(literal for literal, _ in VALUES.values())
    mariadb.execute("SET time_zone = '+00:00'")
    mariadb.execute(f"INSERT INTO valued VALUES (1, {literals})")
    mariadb.execute("INSERT INTO valued (id) VALUES (2)")


def test_values_of_all_types(mariadb: MariaDbDatabase) -> None:
    expected = make_values(mariadb)
    full, empty = rows_of(reading(mariadb, "valued").build())
    assert list(full)[1:] == expected
    assert list(empty)[1:] == [None] * len(VALUES)


@pytest.mark.long
def test_all_of_unicode(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE texts (n int PRIMARY KEY, t varchar(100))")
    words = ["".join(map(chr, range(first, first + 64))) for first in range(0, 0xD800, 64)]
    words += ["".join(map(chr, range(first, first + 64))) for first in range(0xE000, 0x110000, 64)]
    with mariadb.server.connect(mariadb.name) as connection:
        connection.cursor().executemany("INSERT INTO texts VALUES (%s, %s)", list(enumerate(words)))
    assert [row.t for row in rows_of(reading(mariadb, "texts").build())] == words


def test_declared_types_and_values_that_do_not_fit(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE odd (id int PRIMARY KEY, t time, d varchar(20))")
    mariadb.execute("INSERT INTO odd VALUES (1, '-30:00:00', '1.25')")
    declared = DataTypes.ROW(
        [DataTypes.FIELD("d", DataTypes.DECIMAL(5, 2)), DataTypes.FIELD("t", DataTypes.STRING())]
    )
    (row,) = rows_of(reading(mariadb, "odd").set_row_type(declared).build())
    assert tuple(row) == (Decimal("1.25"), "-30:00:00")
    with pytest.raises(MalformedRecordError, match=r"column 't' of .* of type time"):
        run_to_end(reading(mariadb, "odd").build())
    mariadb.execute("CREATE TABLE places (id int, g geometry)")
    with pytest.raises(SourceError, match="column 'g' is of type geometry"):
        reading(mariadb, "places").build().read_row_type()


def run_to_end(source: MySqlSource) -> None:
    run = SourceRun(source, 1, 100)
    try:
        run.run()
    finally:
        run.close()


def test_a_subtask_reads_one_moment(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
    mariadb.execute("INSERT INTO accounts SELECT seq, 100 FROM seq_1_to_1000")
    run = SourceRun(reading(mariadb, "accounts").set_split_size(100).build(), 2, 50)
    run.epoch()
    for _ in range(3):
        mariadb.execute("UPDATE accounts SET balance = balance + 1 WHERE id % 2 = 0")
        mariadb.execute("UPDATE accounts SET id = -id WHERE id % 7 = 0")
        mariadb.execute("DELETE FROM accounts WHERE id % 5 = 0")
        run.epoch()
    assert sorted(map(tuple, run.run())) == [(n, 100) for n in range(1, 1001)]


@pytest.mark.long
def test_restored_a_source_reads_each_unchanged_row_once(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
    mariadb.execute("INSERT INTO accounts SELECT seq, 100 FROM seq_1_to_1000")
    source = reading(mariadb, "accounts").set_split_size(100).build()
    first = SourceRun(source, 2, 130)
    for _ in range(3):
        first.epoch()
    kept, before = first.snapshot(), [tuple(row) for rows in first.read for row in rows]
    first.close()
    assert 300 < len(before) < 1000
    mariadb.execute("UPDATE accounts SET balance = 7")
    mariadb.execute("INSERT INTO accounts VALUES (5000, 0)")
    after = [tuple(row) for row in SourceRun(source, 3, 100, restored=kept).run()]
    assert sorted(row[0] for row in before + after) == [*range(1, 1001), 5000]
    assert {row[1] for row in before} == {100}


@pytest.mark.long
def test_the_server_is_killed_and_comes_back_in_the_middle(
    mariadb: MariaDbDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    mariadb.execute("CREATE TABLE numbers (id int PRIMARY KEY, words text)")
    mariadb.execute("INSERT INTO numbers SELECT seq, REPEAT('x', 500) FROM seq_1_to_40000")
    run = SourceRun(reading(mariadb, "numbers").set_split_size(9_000).build(), 2, 2_000)
    run.epoch()
    run.epoch()
    server = mariadb.server
    server.stop()
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor() as pool:
        found = pool.submit(run.run)
        time.sleep(1)
        server.start()
        assert sorted(row.id for row in found.result(30)) == list(range(1, 40001))
    assert "what is left is read as it is then" in caplog.text
    assert mariadb.password not in caplog.text


@pytest.mark.long
def test_a_server_that_stays_away_is_an_error(mariadb: MariaDbDatabase) -> None:
    builder = reading(mariadb, "numbers").set_patience(Duration.of_millis(300))
    mariadb.server.stop()
    with pytest.raises(SourceError) as raised:
        builder.build().build_enumerator(1, None)
    assert "is away, and was waited for 0.3 s" in raised.value.message
    assert raised.value.hint is not None


@pytest.mark.long
def test_a_table_that_is_read_cannot_be_altered_and_can_be_behind_it(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE numbers (id int PRIMARY KEY, words text)")
    mariadb.execute("INSERT INTO numbers SELECT seq, seq FROM seq_1_to_100")
    source = reading(mariadb, "numbers").build()
    run = SourceRun(source, 1, 10)
    run.epoch()
    with mariadb.server.connect(mariadb.name) as other, other.cursor() as cursor:
        cursor.execute("SET lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
            cursor.execute("ALTER TABLE numbers DROP COLUMN words")
    kept = run.snapshot()
    run.close()
    mariadb.execute("ALTER TABLE numbers DROP COLUMN words")
    with pytest.raises(SourceError, match=r"has no column .words. any more"):
        source.build_enumerator(1, kept)
    mariadb.execute("ALTER TABLE numbers ADD COLUMN words int")
    with pytest.raises(SourceError, match="was of type text when reading began, and is of type int"):
        source.build_enumerator(1, kept)


def test_what_is_not_there_is_an_error_that_names_it(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE numbers (id int PRIMARY KEY, document json, f float)")
    cases = {
        "there is no table nobody": reading(mariadb, "nobody"),
        "'a.b.c.d' is no name of a table": reading(mariadb, "a.b.c.d"),
        "has no column 'name'": reading(mariadb, "numbers").set_columns("id", "name"),
        "has no column 'name' to be split by": reading(mariadb, "numbers").set_split_column("name"),
        "does not take the query": reading(mariadb).set_query("SELECT 1 FROM nowhere"),
        "cannot be split by column 'f'": reading(mariadb, "numbers").set_split_column("f"),
    }
    for message, builder in cases.items():
        with pytest.raises(SourceError) as raised:
            builder.build().build_enumerator(1, None)
        assert message in raised.value.message
        assert mariadb.password not in str(raised.value)


def test_who_is_refused_is_told_so(mariadb: MariaDbDatabase) -> None:
    source = reading(mariadb, "numbers").set_password("wrong-secret").build()
    with pytest.raises(SourceError) as raised:
        source.build_enumerator(1, None)
    assert "refused the connection" in raised.value.message
    assert "Access denied" in (raised.value.detail or "")
    assert "wrong-secret" not in str(raised.value) + repr(raised.value.__dict__)


def test_passwords_are_in_no_text_and_no_checkpoint(mariadb: MariaDbDatabase) -> None:
    mariadb.execute("CREATE TABLE numbers (id int PRIMARY KEY)")
    url = f"mysql://{mariadb.user}:{mariadb.password}@127.0.0.1:{mariadb.port}/{mariadb.name}"
    source = MySqlSource.builder().set_url(url).set_table("numbers").build()
    enumerator = source.build_enumerator(1, None)
    kept = pickle.dumps(enumerator.snapshot())
    enumerator.close()
    assert mariadb.password.encode() not in kept
    assert mariadb.password not in repr(source) + repr(source.__dict__)
    for url in ("mysql//u:se-cret@h/d", "mysql://u:se-cret@h:port/d", "postgresql://u:se-cret@h/d"):
        with pytest.raises(ConfigurationError) as raised:
            MySqlSource.builder().set_url(url).set_table("t").build()
        assert "cret" not in str(raised.value)


def test_settings_that_exclude_each_other(mariadb: MariaDbDatabase) -> None:
    for builder, message in [
        (reading(mariadb), "what to read is not said"),
        (reading(mariadb, "a").set_query("SELECT 1"), "what to read is said twice"),
        (reading(mariadb, "a").set_split_size(1).set_number_of_splits(1), "both a size and a number"),
        (reading(mariadb, "a").set_url("mysql://h/d?sslMode=maybe"), "sslMode is 'maybe'"),
        (reading(mariadb, "a").set_url("mysql://h/d?other=1"), "has the parameter 'other'"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            builder.build()
    with pytest.raises(ConfigurationError, match="must be positive"):
        reading(mariadb).set_split_size(0)


@pytest.mark.long
@pytest.mark.parametrize("point", list(FailurePoint))
def test_jobs_that_fail_give_each_row_once(mariadb: MariaDbDatabase, point: FailurePoint) -> None:
    mariadb.execute("CREATE TABLE numbers (id varchar(50) PRIMARY KEY, n int)")
    mariadb.execute("INSERT INTO numbers SELECT SHA1(seq), seq FROM seq_1_to_3000")
    source = reading(mariadb, "numbers").set_split_size(500).build()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 200}) as cluster:
        cluster.fail_at(point, 3)
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        assert sorted(cluster.collect(stream.map(lambda row: row.n))) == list(range(1, 3001))


def test_a_large_table_with_dense_keys_is_cut_evenly(
    mariadb: MariaDbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.connectors.mysql.splits._DENSE_ROWS", 1_000)
    mariadb.execute("CREATE TABLE numbers (id int PRIMARY KEY)")
    mariadb.execute("INSERT INTO numbers SELECT CAST(seq AS SIGNED) - 50 FROM seq_1_to_5000")
    mariadb.execute("ANALYZE TABLE numbers")
    run = SourceRun(reading(mariadb, "numbers").set_split_size(1000).build(), 2, 100_000)
    assert sorted(row.id for row in run.run()) == list(range(-49, 4951))
    assert len(run.splits) == 5
