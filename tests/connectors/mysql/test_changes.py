"""Changes of tables of a real server: what they make of an empty table is the table."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest

from connectors.mysql.test_source import VALUES, insert_values, make_values
from millstream.base.errors import (
    ConfigurationError,
    LostInputError,
    MillstreamError,
    NotSupportedError,
    SourceError,
)
from millstream.common import Duration, RowKind, WatermarkStrategy
from millstream.connectors.mysql import moments
from millstream.connectors.mysql.change_source import MySqlChangeSource, MySqlChangeSourceBuilder
from millstream.datastream.functions import MapFunction
from millstream.testing import FailurePoint, MiniCluster
from millstream.testing.source_run import SourceRun
from servers.mariadb import MariaDbDatabase


def url_of(database: MariaDbDatabase) -> str:
    login = f"{database.user}:{database.password}"
    return f"mysql://{login}@{database.host}:{database.port}/{database.name}?sslMode=disabled"


def reading(database: MariaDbDatabase, *tables: str) -> MySqlChangeSourceBuilder:
    return (
        MySqlChangeSource.builder()
        .set_url(url_of(database))
        .set_tables(*tables)
        .set_patience(Duration.of_seconds(20))
    )


@pytest.fixture
def accounts(mariadb: MariaDbDatabase) -> MariaDbDatabase:
    mariadb.execute("CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(200), cents decimal(12,2))")
    mariadb.execute("INSERT INTO accounts SELECT seq, CONCAT('owner ', seq), seq FROM seq_1_to_100")
    return mariadb


def until_silent(run: SourceRun, epochs: int = 6) -> SourceRun:
    """Read until nothing came in a few epochs."""
    silent, before = 0, -1
    while silent < epochs:
        run.epoch()
        count = sum(map(len, run.read))
        silent, before = (silent + 1 if count == before else 0), count
    return run


def until_same(run: SourceRun, database: MariaDbDatabase, table: str = "accounts") -> SourceRun:
    """Read until the changes make the table."""
    expected, deadline = there(database, table), time.monotonic() + 30
    while made_of(records(run)) != expected and time.monotonic() < deadline:
        run.epoch()
    until_silent(run, 3)
    assert exactly(records(run)) == there(database, table)
    return run


def made_of(found: Iterable[Any]) -> list[Any]:
    """Apply changes to an empty table."""
    return sorted(counted(found).elements(), key=repr)


def exactly(found: Iterable[Any]) -> list[Any]:
    """As `made_of`; nothing went that did not come."""
    table = counted(found)
    assert min(table.values(), default=0) >= 0
    return sorted(table.elements(), key=repr)


def counted(found: Iterable[Any]) -> Counter[Any]:
    table: Counter[Any] = Counter()
    for row in found:
        table[tuple(row)] += 1 if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    return table


def there(database: MariaDbDatabase, table: str = "accounts") -> list[Any]:
    return sorted(database.execute(f"SELECT * FROM {table}"), key=repr)


def records(run: SourceRun) -> list[Any]:
    return [row for rows in run.read for row in rows]


def change(database: MariaDbDatabase, first: int = 0) -> None:
    with database.server.connect(database.name) as connection:
        change_by(connection, first)


def change_by(connection: Any, first: int) -> None:
    connection.begin()
    cursor = connection.cursor()
    cursor.execute("UPDATE accounts SET cents = cents + 1, owner = CONCAT(owner, '\"x\",') WHERE id % 3 = 0")
    cursor.execute("DELETE FROM accounts WHERE id % 5 = 0")
    cursor.execute("DELETE FROM accounts WHERE id < 0")
    cursor.execute("UPDATE accounts SET id = -id WHERE id % 7 = 0")
    connection.commit()
    cursor.execute(
        f"INSERT IGNORE INTO accounts SELECT seq, NULL, NULL FROM seq_{1000 + first}_to_{1010 + first}"
    )


@pytest.mark.parametrize("columns", [False, True])
def test_tables_and_then_their_changes(accounts: MariaDbDatabase, columns: bool) -> None:
    source = reading(accounts, "accounts").set_split_size(30).build()
    run = SourceRun(source, 2, 50, columns=columns)
    change(accounts)
    run.epoch()
    change(accounts, 200)
    until_same(run, accounts)
    change(accounts, 100)
    until_same(run, accounts)
    run.close()


def test_kinds_of_rows(accounts: MariaDbDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").set_changes_only().build(), 1, 50)
    accounts.execute("INSERT INTO accounts VALUES (500, 'Ada', 1.50)")
    accounts.execute("UPDATE accounts SET cents = 2 WHERE id = 500")
    accounts.execute("DELETE FROM accounts WHERE id = 500")
    until_silent(run)
    assert [(str(row.get_row_kind()), row.owner, str(row.cents)) for row in records(run)] == [
        ("+I", "Ada", "1.50"),
        ("-U", "Ada", "1.50"),
        ("+U", "Ada", "2.00"),
        ("-D", "Ada", "2.00"),
    ]
    run.close()


def test_values_in_changes_are_those_that_a_table_is_read_with(mariadb: MariaDbDatabase) -> None:
    expected = make_values(mariadb)
    mariadb.execute("DELETE FROM valued")
    run = SourceRun(reading(mariadb, "valued").build(), 1, 50)
    run.epoch()
    insert_values(mariadb)
    until_silent(run)
    full, empty = records(run)
    assert list(full)[1:] == expected
    assert list(empty)[1:] == [None] * len(VALUES)
    run.close()


@pytest.mark.parametrize(
    "budget", [7, pytest.param(1, marks=pytest.mark.long), pytest.param(100_000, marks=pytest.mark.long)]
)
def test_from_the_snapshot_of_any_epoch_the_changes_behind_it_follow(
    accounts: MariaDbDatabase, budget: int
) -> None:
    source = reading(accounts, "accounts").set_changes_only().build()
    run = SourceRun(source, 1, budget)
    for round_ in range(2):
        change(accounts, 100 * round_)
    kept = []
    while len(kept) < 12:
        run.epoch()
        kept.append((len(records(run)), run.snapshot()))
    until_silent(run)
    run.close()
    whole = records(run)
    assert len(whole) > 100
    for count, snapshot in kept[:: max(1, len(kept) // 4)]:
        again = until_silent(SourceRun(source, 2, 50, restored=snapshot))
        again.close()
        assert whole[:count] + records(again) == whole


KEYED = {
    "number": ("id int PRIMARY KEY", "seq"),
    "text, in no order of its characters": (
        "id varchar(20) COLLATE utf8mb4_german2_ci PRIMARY KEY",
        "CONCAT(ELT(seq % 4 + 1, 'a', 'B', '\u00e4', 'Z'), seq)",
    ),
    "text of another character set": (
        "id varchar(20) CHARACTER SET latin1 PRIMARY KEY",
        "CONCAT(ELT(seq % 3 + 1, '\u00e9', 'E', 'f'), seq)",
    ),
    "several": ("id date, n int, PRIMARY KEY (n, id)", "'2024-01-01' + INTERVAL seq DAY, seq % 3"),
    "one that is not compared here": ("id varbinary(9) PRIMARY KEY", "UNHEX(LPAD(HEX(seq), 4, '0'))"),
    "none": ("id int", "seq"),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KEYED)
def test_rows_change_while_tables_are_read_and_the_job_is_restored(
    mariadb: MariaDbDatabase, kind: str
) -> None:
    columns, values = KEYED[kind]
    mariadb.execute(f"CREATE TABLE t ({columns.replace(', PRIMARY', ', v int, PRIMARY')}"
                    f"{'' if ', PRIMARY' in columns else ', v int'})")  # fmt: skip
    mariadb.execute(f"INSERT INTO t SELECT {values}, 0 FROM seq_1_to_100")
    source = reading(mariadb, "t").set_split_size(15).build()
    run = SourceRun(source, 2, 12)
    before: list[Any] = []
    for round_ in range(4):
        run.epoch()
        mariadb.execute(f"UPDATE t SET v = v + 1 WHERE MOD(v + {round_}, 2) = 0 ORDER BY id LIMIT 40")
        mariadb.execute("DELETE FROM t ORDER BY RAND() LIMIT 3")
        mariadb.execute(
            f"INSERT IGNORE INTO t SELECT {values}, 7 FROM seq_{90 + 5 * round_}_to_{99 + 5 * round_}"
        )
        if round_ == 2:
            before, kept = records(run), run.snapshot()
            run.close()
            run = SourceRun(source, 3, 12, restored=kept)
    expected, deadline = there(mariadb, "t"), time.monotonic() + 30
    while made_of(before + records(run)) != expected and time.monotonic() < deadline:
        run.epoch()
    until_silent(run, 3)
    assert exactly(before + records(run)) == expected
    run.close()


def test_several_tables_in_the_order_of_their_commits(accounts: MariaDbDatabase) -> None:
    accounts.execute("CREATE TABLE `Ord.ers` (n int, at timestamp)")
    run = SourceRun(reading(accounts, "accounts", f"{accounts.name}.`Ord.ers`").build(), 2, 1000)
    until_silent(run)
    for n in range(5):
        with accounts.server.connect(accounts.name) as connection:
            connection.begin()
            cursor = connection.cursor()
            cursor.execute("INSERT INTO accounts VALUES (%s, 'a', 1)", (1000 + n,))
            cursor.execute("INSERT INTO `Ord.ers` VALUES (%s, now())", (n,))
            cursor.execute("DELETE FROM accounts WHERE id = %s", (n + 1,))
            connection.commit()
    until_silent(run)
    found = records(run)
    names = [f"{accounts.name}.accounts", f"{accounts.name}.Ord.ers", f"{accounts.name}.accounts"]
    assert [name for name, _ in found[100:]] == names * 5
    assert exactly(row for name, row in found if name.endswith(".accounts")) == there(accounts)
    run.close()


@pytest.mark.long
def test_two_jobs_at_once_and_one_big_transaction(accounts: MariaDbDatabase) -> None:
    runs = [SourceRun(reading(accounts, "accounts").build(), 1, 5_000) for _ in range(2)]
    for run in runs:
        until_silent(run, 3)
    accounts.execute("INSERT INTO accounts SELECT seq, 'many', seq FROM seq_1000_to_30000")
    for run in runs:
        until_same(run, accounts)
        run.close()


@pytest.mark.long
def test_the_server_is_killed_in_the_middle(accounts: MariaDbDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").build(), 1, 20)
    until_silent(run)
    change(accounts)
    run.epoch()
    accounts.server.restart()
    change(accounts, 100)
    until_same(run, accounts)
    run.close()


@pytest.mark.long
def test_the_server_is_away_while_changes_are_waited_for(accounts: MariaDbDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").build(), 1, 1000)
    until_silent(run)
    change(accounts)
    accounts.server.stop()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(until_silent, run)
        time.sleep(1.5)
        accounts.server.start()
        waiting.result(40)
    until_same(run, accounts)
    run.close()


class Disturb(MapFunction):
    """Changes the table while a job reads it: in each attempt at some of the records."""

    def __init__(self, port: int, database: str) -> None:
        self.place = (port, database)
        self.seen = 0

    def map(self, value: Any) -> Any:
        self.seen += 1
        if self.seen in (20, 90, 150):
            port, database = self.place
            with pymysql.connect(
                host="127.0.0.1",
                port=port,
                user=MariaDbDatabase.user,
                password=MariaDbDatabase.password,
                database=database,
                autocommit=True,
            ) as connection:
                change_by(connection, self.seen)
        return value


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "occurrence"),
    [
        (FailurePoint.BEFORE_EPOCH, 1),
        (FailurePoint.BEFORE_EPOCH, 3),
        (FailurePoint.AFTER_EPOCH, 5),
        (FailurePoint.AFTER_CHECKPOINT, 5),
    ],
)
def test_a_job_that_fails_and_is_restored(
    accounts: MariaDbDatabase, point: FailurePoint, occurrence: int
) -> None:
    source = reading(accounts, "accounts").set_split_size(30).build()
    options = {"millstream.execution.stop-when-idle": "2 s", "millstream.epoch.fixed-records": 40}
    with MiniCluster(parallelism=2, options=options) as cluster:
        cluster.fail_at(point, occurrence)
        environment = cluster.environment()
        stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "accounts").uid(
            "accounts"
        )
        disturbed = stream.map(Disturb(accounts.port, accounts.name)).set_parallelism(1)
        found = cluster.collect(disturbed)
    assert len(found) > 200
    assert exactly(found) == there(accounts)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thousands_of_random_changes_while_the_job_is_killed_and_restored(
    accounts: MariaDbDatabase, seed: int
) -> None:
    chance = random.Random(seed)
    source = reading(accounts, "accounts").set_split_size(20).build()
    made = 0
    read: list[Any] = []
    kept = None
    run = SourceRun(source, 2, 30)
    with accounts.server.connect(accounts.name) as connection, connection.cursor() as cursor:
        while made < 2_000:
            connection.begin()
            for _ in range(chance.randrange(1, 40)):
                first = chance.randrange(300)
                cursor.execute(
                    chance.choice(
                        [
                            f"INSERT IGNORE INTO accounts VALUES ({first}, 'x', {made})",
                            f"UPDATE accounts SET cents = {made} WHERE id = {first}",
                            f"UPDATE IGNORE accounts SET id = {chance.randrange(300)} WHERE id = {first}",
                            f"DELETE FROM accounts WHERE id = {first}",
                        ]
                    )
                )
                made += 1
            connection.commit() if chance.random() < 0.9 else connection.rollback()
            run.epoch()
            if chance.random() < 0.2:  # a checkpoint
                kept, read = run.snapshot(), read + records(run)
                run.close()
                run = SourceRun(source, chance.choice([1, 2, 3]), chance.choice([7, 30]), restored=kept)
            elif kept is not None and chance.random() < 0.2:  # killed: what came since is forgotten
                run.close()
                run = SourceRun(source, chance.choice([1, 2, 3]), chance.choice([7, 30]), restored=kept)
    deadline = time.monotonic() + 60
    while made_of(read + records(run)) != there(accounts) and time.monotonic() < deadline:
        run.epoch()
    until_silent(run, 3)
    run.close()
    assert exactly(read + records(run)) == there(accounts)


def test_what_is_missing_is_said_with_a_hint(accounts: MariaDbDatabase) -> None:
    accounts.execute("CREATE VIEW seen AS SELECT * FROM accounts")
    accounts.execute("CREATE TABLE plain (id int PRIMARY KEY) ENGINE = MyISAM")
    accounts.execute("CREATE TABLE greek (id int PRIMARY KEY, t text CHARACTER SET greek)")
    cases: list[tuple[str, type[MillstreamError], str]] = [
        ("seen", NotSupportedError, "it is a view"),
        ("plain", NotSupportedError, "it is of engine MyISAM"),
        ("greek", NotSupportedError, "in character set greek"),
        ("nobody", SourceError, "there is no table nobody"),
    ]
    for table, error, message in cases:
        with pytest.raises(error, match=message) as raised:
            reading(accounts, table).build().build_enumerator(1, None)
        assert accounts.password not in str(raised.value)
    with pytest.raises(ConfigurationError, match="named twice"):
        reading(accounts, "accounts", f"{accounts.name}.accounts").build().build_enumerator(1, None)
    with pytest.raises(ConfigurationError, match="not named|no tables"):
        MySqlChangeSource.builder().set_url(url_of(accounts)).build()
    accounts.execute("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    try:
        with pytest.raises(SourceError, match="binlog_row_metadata is 'NO_LOG'"):
            reading(accounts, "accounts").build().build_enumerator(1, None)
    finally:
        accounts.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_a_log_that_is_purged_is_noticed(accounts: MariaDbDatabase) -> None:
    source = reading(accounts, "accounts").set_changes_only().build()
    run = SourceRun(source, 1, 1000)
    kept = run.snapshot()
    run.close()
    waiting = SourceRun(source, 1, 1000, restored=kept)
    accounts.execute("FLUSH BINARY LOGS")
    file = accounts.execute("SHOW MASTER STATUS")[0][0]
    deadline = time.monotonic() + 10
    while len(accounts.execute("SHOW BINARY LOGS")) > 1 and time.monotonic() < deadline:
        accounts.execute(f"PURGE BINARY LOGS TO '{file}'")  # not while it is in use
        time.sleep(0.05)
    change(accounts)
    with pytest.raises(LostInputError, match="has not got the changes behind"):
        until_silent(waiting)
    waiting.close()
    with pytest.raises(LostInputError, match="any more") as raised:
        source.build_enumerator(1, kept)
    assert "anew" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("TRUNCATE accounts", "was truncated"),
        ("RENAME TABLE accounts TO others", "was renamed"),
        ("DROP TABLE accounts", "was dropped"),
        ("ALTER TABLE accounts DROP COLUMN owner", "column 'owner' .* is gone"),
        ("ALTER TABLE accounts MODIFY cents bigint", "column 'cents' .*, which was of type decimal"),
        ("SET STATEMENT binlog_format = 'STATEMENT' FOR DELETE FROM accounts WHERE id = 1", "by a statement"),
    ],
)
def test_changes_of_the_table_itself(accounts: MariaDbDatabase, statement: str, message: str) -> None:
    run = SourceRun(reading(accounts, "accounts").build(), 1, 1000)
    until_silent(run, 3)
    accounts.execute(statement)
    if message.startswith("column"):
        accounts.execute("UPDATE accounts SET id = 2000 WHERE id = 1")
    with pytest.raises(SourceError, match=message) as raised:
        until_silent(run)
    assert raised.value.hint is not None
    run.close()


def test_further_columns_do_not_matter(accounts: MariaDbDatabase) -> None:
    accounts.execute("CREATE TABLE others (id int)")
    run = SourceRun(reading(accounts, "accounts").build(), 1, 1000)
    until_silent(run, 3)
    accounts.execute("ALTER TABLE accounts ADD COLUMN more int DEFAULT 7 FIRST, MODIFY owner text")
    accounts.execute("ALTER TABLE accounts MODIFY owner varchar(500)")
    accounts.execute("TRUNCATE others")
    accounts.execute("INSERT INTO accounts VALUES (1, 1000, 'x', 1)")
    until_silent(run)
    assert [tuple(row)[:2] for row in records(run)[100:]] == [(1000, "x")]
    run.close()


def test_transactions_of_two_phases_are_refused(accounts: MariaDbDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").set_changes_only().build(), 1, 1000)
    with accounts.server.connect(accounts.name) as connection, connection.cursor() as cursor:
        for statement in (
            "XA START 'a'",
            "DELETE FROM accounts WHERE id = 1",
            "XA END 'a'",
            "XA PREPARE 'a'",
        ):
            cursor.execute(statement)
        cursor.execute("XA ROLLBACK 'a'")
    with pytest.raises(NotSupportedError, match="of two phases"):
        until_silent(run)
    run.close()


def test_a_server_that_does_not_tell_the_position_of_a_snapshot(
    accounts: MariaDbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "_status", lambda connection: {})  # as MySQL
    run = SourceRun(reading(accounts, "accounts").set_split_size(30).build(), 2, 20)
    run.epoch()
    change(accounts)
    until_same(run, accounts)
    run.close()
