"""Changes of tables of a real server: what they make of an empty table is the table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg
import pytest

from millstream.base.errors import ConfigurationError, LostInputError, NotSupportedError, SourceError
from millstream.common import Duration, RowKind, WatermarkStrategy
from millstream.connectors.postgres.change_source import PostgresChangeSource, PostgresChangeSourceBuilder
from millstream.datastream.functions import MapFunction
from millstream.testing import FailurePoint, MiniCluster
from millstream.testing.source_run import SourceRun
from servers.postgres import PostgresDatabase


def reading(database: PostgresDatabase, *tables: str) -> PostgresChangeSourceBuilder:
    return (
        PostgresChangeSource.builder()
        .set_url(database.url)
        .set_tables(*tables)
        .set_slot_name(f"slot_{database.name}")
        .set_patience(Duration.of_seconds(5))
    )


@pytest.fixture
def accounts(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.execute("CREATE TABLE accounts (id int PRIMARY KEY, owner text, cents numeric(12,2))")
    postgres.execute("ALTER TABLE accounts REPLICA IDENTITY FULL")
    postgres.execute("INSERT INTO accounts SELECT n, 'owner ' || n, n FROM generate_series(1, 100) n")
    return postgres


def until_silent(run: SourceRun, epochs: int = 8) -> SourceRun:
    """Read until nothing came in a few epochs."""
    silent, before = 0, -1
    while silent < epochs:
        run.epoch()
        count = sum(map(len, run.read))
        silent, before = (silent + 1 if count == before else 0), count
    return run


def made_of(records: Iterable[Any], *, in_order: bool = True) -> list[Any]:
    """Apply changes to an empty table; `in_order`: what goes was there."""
    table: Counter[Any] = Counter()
    for row in records:
        is_there = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        table[tuple(row)] += 1 if is_there else -1
        assert table[tuple(row)] >= 0 or not in_order
    assert min(table.values()) >= 0
    return sorted(table.elements(), key=repr)


def there(database: PostgresDatabase, table: str = "accounts") -> list[Any]:
    return sorted(database.execute(f"SELECT * FROM {table}"), key=repr)


def records(run: SourceRun) -> list[Any]:
    return [row for rows in run.read for row in rows]


def change(database: PostgresDatabase, first: int = 0) -> None:
    change_at(database.url, first)


def change_at(url: str, first: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE accounts SET cents = cents + 1, owner = owner || '\"x\",' WHERE id % 3 = 0"
        )
        connection.execute("DELETE FROM accounts WHERE id % 5 = 0")
        connection.execute("DELETE FROM accounts WHERE id < 0")
        connection.execute("UPDATE accounts SET id = -id WHERE id % 7 = 0")
        connection.commit()
        connection.execute(
            "INSERT INTO accounts SELECT n, NULL, NULL FROM generate_series(%s::int, %s::int) n ON CONFLICT DO NOTHING",
            (1000 + first, 1010 + first),
        )


@pytest.mark.parametrize("columns", [False, True])
def test_tables_and_then_their_changes(accounts: PostgresDatabase, columns: bool) -> None:
    source = reading(accounts, "accounts").set_split_size(30).build()
    run = SourceRun(source, 2, 50, columns=columns)
    change(accounts)  # before anything is read, behind the snapshot
    until_silent(run)
    assert len(records(run)) > 200
    assert made_of(records(run), in_order=False) == there(accounts)
    change(accounts, 100)
    until_silent(run)
    assert made_of(records(run), in_order=False) == there(accounts)
    run.close()


def test_kinds_of_rows(accounts: PostgresDatabase) -> None:
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


def test_a_key_that_changes_is_a_row_that_goes_and_one_that_comes(accounts: PostgresDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").set_changes_only().build(), 1, 50)
    accounts.execute("UPDATE accounts SET id = 500, owner = 'Ada' WHERE id = 7")
    until_silent(run)
    assert [(str(row.get_row_kind()), row.id, row.owner) for row in records(run)] == [
        ("-D", 7, "owner 7"),
        ("+I", 500, "Ada"),
    ]
    run.close()


@pytest.mark.parametrize("budget", [1, 7, 100_000])
def test_from_the_snapshot_of_any_epoch_the_changes_behind_it_follow(
    accounts: PostgresDatabase, budget: int
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


def test_what_a_checkpoint_completed_is_kept_no_longer(accounts: PostgresDatabase) -> None:
    source = reading(accounts, "accounts").build()
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    run = SourceRun(source, 1, 1000, restored=enumerator.snapshot())
    enumerator.close()
    until_silent(run)
    old = run.snapshot()
    change(accounts)
    until_silent(run)
    position = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    before = accounts.execute(position, (f"slot_{accounts.name}",))
    run._readers[0].checkpoint_completed(1)
    deadline = time.monotonic() + 5
    while accounts.execute(position, (f"slot_{accounts.name}",)) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert accounts.execute(position, (f"slot_{accounts.name}",)) != before
    run.close()
    with pytest.raises(LostInputError, match="behind the checkpoint's position"):
        source.build_enumerator(1, old)
    reader.close()


def test_several_tables_in_the_order_of_their_commits(accounts: PostgresDatabase) -> None:
    accounts.execute('CREATE TABLE "Ord.ers" (n int, at timestamptz)')
    accounts.execute('ALTER TABLE "Ord.ers" REPLICA IDENTITY FULL')
    run = SourceRun(reading(accounts, "accounts", '"Ord.ers"').build(), 2, 1000)
    for n in range(5):
        with accounts.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO accounts VALUES (%s, 'a', 1)", (1000 + n,))
            connection.execute('INSERT INTO "Ord.ers" VALUES (%s, now())', (n,))
            connection.execute("DELETE FROM accounts WHERE id = %s", (n + 1,))
    until_silent(run)
    found = records(run)
    assert [name for name, _ in found[100:]] == ["public.accounts", 'public."Ord.ers"', "public.accounts"] * 5
    assert made_of(row for name, row in found if name == "public.accounts") == there(accounts)
    run.close()


def test_the_server_is_killed_in_the_middle(accounts: PostgresDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").build(), 1, 20)
    until_silent(run)
    change(accounts)
    run.epoch()
    accounts.server.restart()
    change(accounts, 100)
    until_silent(run)
    assert made_of(records(run)) == there(accounts)
    run.close()


def test_restored_while_tables_are_read_changes_may_come_twice_and_are_right_by_key(
    accounts: PostgresDatabase,
) -> None:
    source = reading(accounts, "accounts").set_split_size(30).build()
    run = SourceRun(source, 2, 20)
    run.epoch()
    change(accounts)
    run.epoch()
    kept, before = run.snapshot(), records(run)
    run.close()
    assert 20 < len(before) < 100
    change(accounts, 100)
    after = until_silent(SourceRun(source, 1, 20, restored=kept))
    after.close()
    table: dict[int, Any] = {}
    for row in before + records(after):
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            table[row.id] = tuple(row)
        else:
            table.pop(row.id, None)
    assert sorted(table.values(), key=repr) == there(accounts)


class Disturb(MapFunction):
    """Changes the table while a job reads it: in each attempt at some of the records."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen = 0

    def map(self, value: Any) -> Any:
        self.seen += 1
        if self.seen in (20, 90, 150):
            change_at(self.url, self.seen)
        return value


@pytest.mark.parametrize(
    ("point", "occurrence"),
    [(FailurePoint.BEFORE_EPOCH, 1), (FailurePoint.AFTER_EPOCH, 5), (FailurePoint.AFTER_CHECKPOINT, 5)],
)
def test_a_job_that_fails_and_is_restored(
    accounts: PostgresDatabase, point: FailurePoint, occurrence: int
) -> None:
    source = reading(accounts, "accounts").set_split_size(1000).build()
    options = {"millstream.execution.stop-when-idle": "2 s", "millstream.epoch.fixed-records": 40}
    with MiniCluster(parallelism=2, options=options) as cluster:
        cluster.fail_at(point, occurrence)
        environment = cluster.environment()
        stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "accounts").uid(
            "accounts"
        )
        found = cluster.collect(stream.map(Disturb(accounts.url)).set_parallelism(1))
    assert len(found) > 200
    assert made_of(found, in_order=False) == there(accounts)


def test_what_is_missing_is_said_with_a_hint(accounts: PostgresDatabase) -> None:
    accounts.execute("CREATE TABLE plain (id int PRIMARY KEY)")
    accounts.execute("CREATE TABLE parted (id int) PARTITION BY RANGE (id)")
    with pytest.raises(SourceError) as raised:
        reading(accounts, "plain").build().build_enumerator(1, None)
    assert raised.value.hint == "ALTER TABLE public.plain REPLICA IDENTITY FULL"
    with pytest.raises(NotSupportedError, match="cannot be read"):
        reading(accounts, "parted").build().build_enumerator(1, None)
    accounts.execute("CREATE PUBLICATION other FOR TABLE plain")
    with pytest.raises(SourceError, match="has not got table public.accounts"):
        reading(accounts, "accounts").set_publication("other").build().build_enumerator(1, None)
    with pytest.raises(ConfigurationError, match="not named"):
        PostgresChangeSource.builder().set_url(accounts.url).build()


def test_a_slot_in_use_and_one_that_is_gone(accounts: PostgresDatabase) -> None:
    source = reading(accounts, "accounts").set_patience(Duration.of_millis(200)).build()
    run = SourceRun(source, 1, 1000)
    until_silent(run)
    kept = run.snapshot()
    with pytest.raises(SourceError, match="is in use"):
        source.build_enumerator(1, None)
    second = SourceRun(source, 1, 1000, restored=kept)
    with pytest.raises(SourceError, match="is in use"):
        second.epoch()
    second.close()
    run.close()
    deadline = time.monotonic() + 5
    while accounts.execute("SELECT 1 FROM pg_replication_slots WHERE active") and time.monotonic() < deadline:
        time.sleep(0.05)
    accounts.execute("SELECT pg_drop_replication_slot(%s)", (f"slot_{accounts.name}",))
    with pytest.raises(LostInputError, match="is gone"):
        source.build_enumerator(1, kept)


def test_changes_of_the_table_itself(accounts: PostgresDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").build(), 1, 1000)
    until_silent(run)
    accounts.execute("ALTER TABLE accounts ADD COLUMN more int DEFAULT 7")
    accounts.execute("INSERT INTO accounts VALUES (1000, 'x', 1, 2)")
    until_silent(run)
    assert records(run)[-1].id == 1000
    assert len(records(run)[-1]) == 3
    kept = run.snapshot()
    accounts.execute("ALTER TABLE accounts DROP COLUMN owner")
    accounts.execute("INSERT INTO accounts VALUES (1001, 1, 2)")
    with pytest.raises(SourceError, match="column 'owner' of table public.accounts is gone"):
        until_silent(run)
    run.close()
    assert kept is not None


def test_a_table_that_is_truncated_is_an_error_that_names_it(accounts: PostgresDatabase) -> None:
    run = SourceRun(reading(accounts, "accounts").set_changes_only().build(), 1, 1000)
    accounts.execute("TRUNCATE accounts")
    with pytest.raises(SourceError, match="table public.accounts was truncated"):
        until_silent(run)
    run.close()


def test_large_values_that_an_update_left_alone(accounts: PostgresDatabase) -> None:
    accounts.execute("ALTER TABLE accounts ALTER COLUMN owner SET STORAGE EXTERNAL")
    accounts.execute("UPDATE accounts SET owner = repeat('\u00e9\"', 100000) WHERE id = 1")
    run = SourceRun(reading(accounts, "accounts").set_changes_only().build(), 1, 1000)
    accounts.execute("UPDATE accounts SET cents = 5 WHERE id = 1")
    until_silent(run)
    before, after = records(run)
    assert before.owner == after.owner == '\u00e9"' * 100000
    assert (str(before.cents), str(after.cents)) == ("1.00", "5.00")
    run.close()
