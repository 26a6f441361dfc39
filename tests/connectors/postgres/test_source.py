"""Tables and queries of a real server, read in parts: whole, restored, while the server goes away and rows change."""

from __future__ import annotations

import logging
import pickle
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SourceError
from millstream.common import Duration, WatermarkStrategy
from millstream.connectors.postgres import reader
from millstream.connectors.postgres.copying import Copying
from millstream.connectors.postgres.source import PostgresSource, PostgresSourceBuilder
from millstream.testing import FailurePoint, MiniCluster, check_source
from millstream.testing.source_run import SourceRun
from servers.postgres import PostgresDatabase


def reading(database: PostgresDatabase, table: str | None = None) -> PostgresSourceBuilder:
    builder = (
        PostgresSource.builder()
        .set_host(database.host, database.port)
        .set_database(database.name)
        .set_username(database.user)
        .set_password(database.password)
        .set_patience(Duration.of_seconds(20))
    )
    return builder if table is None else builder.set_table(table)


def check(source: PostgresSource, expected: list[Any]) -> None:
    check_source(source, expected=expected, parallelisms=(2,), budgets=(7,))


def check_in_two_parts(source: PostgresSource, expected: list[Any]) -> None:
    """See that all rows come once, some before a checkpoint, the rest behind it."""
    first = SourceRun(source, 2, 5)
    first.epoch()
    first.epoch()
    kept, before = first.snapshot(), [row for rows in first.read for row in rows]
    first.close()
    assert len(before) in range(min(10, len(expected)), 21)
    after = SourceRun(source, 3, 4, restored=kept, columns=True).run()
    assert sorted(map(repr, before + after)) == sorted(map(repr, expected))


def all_rows(source: PostgresSource, **how: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in SourceRun(source, 2, 100_000, **how).run())


def rows_of(database: PostgresDatabase, table: str) -> list[Any]:
    source = PostgresSource.builder().set_url(database.url).set_table(table).build()
    return SourceRun(source, 1, 100_000).run()


KEYS = {
    "negative": ("id int PRIMARY KEY", "n - 20"),
    "huge": ("id bigint PRIMARY KEY", "(n - 20) * 400000000000000000"),
    "uuid": ("id uuid PRIMARY KEY", "md5(n::text)::uuid"),
    "text": ("id text PRIMARY KEY", "CASE n % 3 WHEN 0 THEN '''' WHEN 1 THEN '\\' ELSE '\u00e9\"' END || n"),
    "decimal": ("id numeric PRIMARY KEY", "round(n / 7.0, 9)"),
    "float": ("id float8 PRIMARY KEY", "n / 7.0::float8"),
    "moment": ("id timestamptz PRIMARY KEY", "'2024-01-01'::timestamptz + n * interval '1.000001 s'"),
    "date": ("id date PRIMARY KEY", "'2024-01-01'::date + n"),
    "bytes": ("id bytea PRIMARY KEY", "decode(lpad(to_hex(n), 4, '0'), 'hex')"),
    "unique, not the first column": ("id text, number int NOT NULL UNIQUE", "n % 5, n"),
    "compound": ("id int, name char(3), PRIMARY KEY (id, name)", "n % 5, chr(60 + n)"),
    "compound, another order": (
        "id int, name text, at date, PRIMARY KEY (at, id)",
        "n % 7, n, '2024-01-01'::date + n / 7",
    ),
    "none": ("id int", "n % 7"),
    "one with gaps": ("id int UNIQUE", "nullif(n, 3)"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_tables_by_their_keys(postgres: PostgresDatabase, kind: str) -> None:
    columns, values = KEYS[kind]
    postgres.execute(f"CREATE TABLE keyed ({columns})")
    postgres.execute(f"INSERT INTO keyed SELECT {values} FROM generate_series(1, 40) n")
    expected = rows_of(postgres, "keyed")
    assert len(expected) == 40
    source = reading(postgres, "keyed").set_split_size(7).build()
    if kind in ("negative", "none"):
        check(source, expected)
    else:
        check_in_two_parts(source, expected)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("columns", ["id int PRIMARY KEY", "id int"])
def test_tables_of_hardly_any_rows(postgres: PostgresDatabase, number: int, columns: str) -> None:
    postgres.execute(f"CREATE TABLE small ({columns})")
    postgres.execute(f"INSERT INTO small SELECT n FROM generate_series(1, {number}) n")
    check_in_two_parts(reading(postgres, "small").build(), rows_of(postgres, "small"))


@pytest.mark.parametrize("column", ["a", "b", "c"])
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_another_column_to_split_by(postgres: PostgresDatabase, column: str, key: str) -> None:
    postgres.execute(f"CREATE TABLE other (id int, a int NOT NULL, b text, c float4{key})")
    postgres.execute(
        "INSERT INTO other SELECT n, n % 3, nullif((n % 4)::text, '2'), n / 10.0 FROM generate_series(1, 60) n"
    )
    source = reading(postgres, "other").set_split_column(column).set_number_of_splits(5).build()
    check_in_two_parts(source, rows_of(postgres, "other"))


@pytest.mark.parametrize("column", [None, "half"])
def test_queries(postgres: PostgresDatabase, column: str | None) -> None:
    postgres.execute("CREATE TABLE numbers (n int PRIMARY KEY, document json)")
    postgres.execute("INSERT INTO numbers SELECT n, '{\"a\":1}' FROM generate_series(1, 60) n")
    builder = reading(postgres).set_query(
        "SELECT n / 4 AS half, 'same' AS same, document FROM numbers WHERE n > 20 -- those\n"
    )
    if column is not None:
        builder.set_split_column(column).set_split_size(6)
    source = builder.build()
    found = all_rows(source)
    assert found == [(n // 4, "same", '{"a":1}') for n in range(21, 61)]
    rows = SourceRun(source, 1, 100).run()
    if column is None:
        check_in_two_parts(source, rows)
    else:
        check(source, rows)


def test_views_partitions_and_tables_that_inherit(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE parted (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    postgres.execute("CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (20)")
    postgres.execute("CREATE TABLE high PARTITION OF parted FOR VALUES FROM (20) TO (100)")
    postgres.execute("INSERT INTO parted SELECT n, n FROM generate_series(1, 40) n")
    postgres.execute("CREATE VIEW seen AS SELECT * FROM parted WHERE id % 2 = 0")
    postgres.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM parted")
    postgres.execute("CREATE TABLE base (id int PRIMARY KEY, name text)")
    postgres.execute("CREATE TABLE derived (more int) INHERITS (base)")
    postgres.execute("INSERT INTO base SELECT n, n FROM generate_series(1, 10) n")
    postgres.execute("INSERT INTO derived SELECT n, n, n FROM generate_series(5, 15) n")
    rows = [(n, str(n)) for n in range(1, 41)]
    for table, expected in {"parted": rows, "seen": rows[1::2], "kept": rows}.items():
        source = reading(postgres, table).set_split_size(7).build()
        assert all_rows(source) == expected
    inherited = reading(postgres, "base").build()
    assert all_rows(inherited) == sorted([(n, str(n)) for n in [*range(1, 11), *range(5, 16)]])
    check_in_two_parts(inherited, SourceRun(inherited, 1, 100).run())


def test_names_that_need_quotes(postgres: PostgresDatabase) -> None:
    postgres.execute('CREATE SCHEMA "Odd.Schema"')
    postgres.execute(
        'CREATE TABLE "Odd.Schema"."Ta""ble" ("I d" int PRIMARY KEY, "SELECT" text, "k0" int, q int)'
    )
    postgres.execute('INSERT INTO "Odd.Schema"."Ta""ble" SELECT n, n, n, n FROM generate_series(1, 9) n')
    source = (
        reading(postgres, '"Odd.Schema"."Ta""ble"').set_columns("SELECT", "k0", "q").set_split_size(2).build()
    )
    assert all_rows(source) == [(str(n), n, n) for n in range(1, 10)]


def test_a_job_reads_what_is_there_and_no_change_of_meanwhile(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
    postgres.execute("INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 1000) n")
    run = SourceRun(reading(postgres, "accounts").set_split_size(100).build(), 2, 50)
    run.epoch()
    for _ in range(3):
        postgres.execute("UPDATE accounts SET balance = balance + 1 WHERE id % 2 = 0")
        postgres.execute("UPDATE accounts SET id = -id WHERE id % 7 = 0")
        postgres.execute("DELETE FROM accounts WHERE id % 5 = 0")
        run.epoch()
    assert sorted(map(tuple, run.run())) == [(n, 100) for n in range(1, 1001)]


def test_restored_a_source_reads_each_unchanged_row_once(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
    postgres.execute("INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 1000) n")
    source = reading(postgres, "accounts").set_split_size(100).build()
    first = SourceRun(source, 2, 130)
    for _ in range(3):
        first.epoch()
    kept, before = first.snapshot(), [tuple(row) for rows in first.read for row in rows]
    first.close()
    assert 300 < len(before) < 1000
    postgres.execute("UPDATE accounts SET balance = 7")
    postgres.execute("INSERT INTO accounts VALUES (5000, 0)")
    after = [tuple(row) for row in SourceRun(source, 3, 100, restored=kept).run()]
    assert sorted(row[0] for row in before + after) == [*range(1, 1001), 5000]
    assert {row[1] for row in before} == {100}


def test_the_server_is_killed_and_comes_back_in_the_middle(
    postgres: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    postgres.execute("CREATE TABLE numbers (id int PRIMARY KEY, words text)")
    postgres.execute("INSERT INTO numbers SELECT n, repeat('x', 500) FROM generate_series(1, 40000) n")
    run = SourceRun(reading(postgres, "numbers").set_split_size(9_000).build(), 2, 2_000)
    run.epoch()
    run.epoch()
    server = postgres.server
    server.stop()
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor() as pool:
        found = pool.submit(run.run)
        time.sleep(1)
        server.start()
        assert sorted(row.id for row in found.result(30)) == list(range(1, 40001))
    assert "what is left is read in another snapshot" in caplog.text
    assert postgres.password not in caplog.text


def test_a_server_that_stays_away_is_an_error(postgres: PostgresDatabase) -> None:
    builder = reading(postgres, "numbers").set_patience(Duration.of_millis(300))
    postgres.server.stop()
    with pytest.raises(SourceError) as raised:
        builder.build().build_enumerator(1, None)
    assert "is away, and was waited for 0.3 s" in raised.value.message
    assert raised.value.hint is not None


def test_a_table_that_is_read_cannot_be_altered_and_can_be_behind_it(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE numbers (id int PRIMARY KEY, words text)")
    postgres.execute("INSERT INTO numbers SELECT n, n FROM generate_series(1, 100) n")
    source = reading(postgres, "numbers").build()
    run = SourceRun(source, 1, 10)
    run.epoch()
    with postgres.connect() as other:
        other.execute("SET lock_timeout = 300")
        for statement in ("ALTER TABLE numbers DROP COLUMN words", "TRUNCATE numbers"):
            with pytest.raises(Exception, match="lock timeout"):
                other.execute(statement)
    kept = run.snapshot()
    run.close()
    postgres.execute("ALTER TABLE numbers DROP COLUMN words")
    with pytest.raises(SourceError, match="has no column .words. any more"):
        source.build_enumerator(1, kept)
    postgres.execute("ALTER TABLE numbers ADD COLUMN words int")
    with pytest.raises(SourceError, match="was of type text when reading began, and is of type integer"):
        source.build_enumerator(1, kept)


def test_what_is_not_there_is_an_error_that_names_it(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE numbers (id int PRIMARY KEY, document json)")
    cases = {
        "there is no table nobody": reading(postgres, "nobody"),
        "'a.b.c.d' is no name of a table": reading(postgres, "a.b.c.d"),
        "has no column 'name'": reading(postgres, "numbers").set_columns("id", "name"),
        "has no column 'name' to be split by": reading(postgres, "numbers").set_split_column("name"),
        "does not take the query": reading(postgres).set_query("SELECT 1 FROM nowhere"),
        "cannot be cut into splits": reading(postgres, "numbers").set_split_column("document"),
    }
    for message, builder in cases.items():
        with pytest.raises(SourceError) as raised:
            builder.build().build_enumerator(1, None)
        assert message in raised.value.message
        assert postgres.password not in str(raised.value)


def test_who_is_refused_is_told_so(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE numbers (id int)")
    source = reading(postgres, "numbers").set_password("wrong-secret").build()
    with pytest.raises(SourceError) as raised:
        source.build_enumerator(1, None)
    assert "refused the connection" in raised.value.message
    assert "password authentication failed" in (raised.value.detail or "")
    assert "wrong-secret" not in str(raised.value) + repr(raised.value.__dict__)
    user = f"reader_{postgres.name}"
    postgres.execute(f"CREATE USER {user} PASSWORD 'p'")
    try:
        other = reading(postgres, "numbers").set_username(user).set_password("p").build()
        with pytest.raises(SourceError, match="may not read"):
            other.build_enumerator(1, None)
    finally:
        postgres.execute(f"DROP USER {user}")


def test_passwords_are_in_no_text_and_no_checkpoint(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE numbers (id int PRIMARY KEY)")
    source = PostgresSource.builder().set_url(postgres.url).set_table("numbers").build()
    enumerator = source.build_enumerator(1, None)
    kept = pickle.dumps(enumerator.snapshot())
    enumerator.close()
    assert postgres.password.encode() not in kept
    assert postgres.password not in repr(source) + repr(source.__dict__)
    with pytest.raises(ConfigurationError) as raised:
        PostgresSource.builder().set_url("postgresql://u:se cret@h/d x").set_table("t").build()
    assert "cret" not in str(raised.value)


def test_settings_that_exclude_each_other(postgres: PostgresDatabase) -> None:
    for builder, message in [
        (reading(postgres), "what to read is not said"),
        (reading(postgres, "a").set_query("SELECT 1"), "what to read is said twice"),
        (reading(postgres, "a").set_split_size(1).set_number_of_splits(1), "both a size and a number"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            builder.build()
    with pytest.raises(ConfigurationError, match="must be positive"):
        reading(postgres).set_split_size(0)


@pytest.mark.parametrize("point", list(FailurePoint))
def test_jobs_that_fail_give_each_row_once(postgres: PostgresDatabase, point: FailurePoint) -> None:
    postgres.execute("CREATE TABLE numbers (id uuid PRIMARY KEY, n int)")
    postgres.execute("INSERT INTO numbers SELECT gen_random_uuid(), n FROM generate_series(1, 3000) n")
    source = reading(postgres, "numbers").set_split_size(500).build()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 200}) as cluster:
        cluster.fail_at(point, 3)
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        assert sorted(cluster.collect(stream.map(lambda row: row.n))) == list(range(1, 3001))


def test_a_large_table_is_cut_by_a_sample(
    postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.connectors.postgres.splits._SAMPLED_PAGES", 10)
    postgres.execute("CREATE TABLE numbers (id uuid PRIMARY KEY, words text)")
    postgres.execute(
        "INSERT INTO numbers SELECT gen_random_uuid(), repeat('x', 300) FROM generate_series(1, 5000)"
    )
    source = reading(postgres, "numbers").set_number_of_splits(6).build()
    run = SourceRun(source, 2, 100_000)
    assert len({row.id for row in run.run()}) == 5000
    assert len(run.splits) in (5, 6)
    assert uuid.UUID(run.read[0][0].id)


def test_a_turn_that_ends_in_one_range_does_not_begin_the_next(
    postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    class Counted(Copying):
        def __init__(self, connection: Any, statement: str, name: str) -> None:
            begun.append(statement)
            super().__init__(connection, statement, name)

    monkeypatch.setattr(reader, "Copying", Counted)
    postgres.execute("CREATE TABLE numbers (id int PRIMARY KEY)")
    postgres.execute("INSERT INTO numbers SELECT generate_series(1, 1000)")
    run = SourceRun(reading(postgres, "numbers").set_split_size(100).build(), 1, 20)
    while sum(map(len, run.read)) < 1000:
        run.epoch()
    run.close()
    assert len(begun) == 10
