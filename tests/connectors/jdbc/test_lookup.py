"""Rows of databases, looked up by key."""

from __future__ import annotations

import asyncio
import datetime
import threading
from decimal import Decimal
from typing import Any

import pytest

from connectors.jdbc.conftest import Target
from millstream.base.errors import ConfigurationError, SourceError
from millstream.common import Row
from millstream.common.time import Time
from millstream.datastream import AsyncDataStream
from millstream.datastream.connectors.jdbc import JdbcLookup
from millstream.spi.lookup import LookupCache
from millstream.table import DataTypes
from millstream.testing import MiniCluster, check_lookup

USERS = "CREATE TABLE {} (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(50), town CHAR(10))"


def builder(target: Target, wait_s: float = 20, password: str | None = None) -> Any:
    new = JdbcLookup.builder().set_db_url(target.url).set_connection_check_timeout_seconds(wait_s)
    user, right = target._login
    if user is not None:
        new.set_username(user).set_password(password or right)
    return new


def ask(lookup: JdbcLookup, *keys: object) -> Any:
    async def run() -> object:
        await lookup.open()
        try:
            return await lookup.lookup(keys)
        finally:
            await lookup.close()

    return asyncio.run(run())


@pytest.fixture
def users(target: Target) -> str:
    table = target.new_table(USERS)
    rows = ", ".join(f"({n}, 'N{n} \U0001f600', 'town{n % 3}')" for n in range(40))
    target.execute(f"INSERT INTO {table} VALUES {rows}")
    return table


def test_lookup_keeps_the_contract(target: Target, users: str) -> None:
    lookup = builder(target).set_table(users, "id").set_columns("name").set_request_size(7).build()
    check_lookup(lookup, {n: Row(name=f"N{n} \U0001f600") for n in range(40)}, unknown=[-1, 40])


def test_query_keys_of_parts_and_lists_of_rows(target: Target, users: str) -> None:
    two = builder(target).set_sql(f"SELECT name AS n FROM {users} WHERE id = ? AND town LIKE ?  -- both;")
    assert ask(two.build(), (4, "town1%"), (4, "town2%"), (None, "a")) == {
        (4, "town1%"): Row(n="N4 \U0001f600")
    }

    lists = builder(target).set_table(users, "town").set_columns("id").set_gives_lists().build()
    found = ask(lists, "town0", "nowhere")
    assert sorted(row.id for row in found.pop("town0")) == list(range(0, 40, 3)) and not found

    one = builder(target).set_table(users, "town").build()
    with pytest.raises(SourceError, match="(?s)'town0' has several rows.*set_gives_lists"):
        ask(one, "town0")


def test_keys_find_what_the_database_takes_for_equal(mariadb_target: Target) -> None:
    table = mariadb_target.new_table("CREATE TABLE {} (name VARCHAR(20) PRIMARY KEY, n INT)")
    mariadb_target.execute(f"INSERT INTO {table} VALUES ('Ada', 1)")
    lookup = builder(mariadb_target).set_table(table, "name").set_columns("n").build()

    assert ask(lookup, "ada", "ADA ", "bob") == {"ada": Row(n=1), "ADA ": Row(n=1)}


def test_declared_types_and_function_of_rows(sqlite_target: Target) -> None:
    table = sqlite_target.new_table("CREATE TABLE {} (id INTEGER PRIMARY KEY, price TEXT, day TEXT)")
    sqlite_target.execute(f"INSERT INTO {table} VALUES (1, '2.5', '2024-02-29')")
    row_type = DataTypes.ROW(
        [DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2)), DataTypes.FIELD("day", DataTypes.DATE())]
    )
    new = builder(sqlite_target).set_sql(f"SELECT price, day FROM {table} WHERE id = ?")
    assert ask(new.set_row_type(row_type).build(), 1) == {
        1: Row(price=Decimal("2.50"), day=datetime.date(2024, 2, 29))
    }
    assert ask(new.set_result_extractor(lambda row: row.day.year).build(), 1) == {1: 2024}


def test_what_others_write_meanwhile_is_seen(target: Target, users: str) -> None:
    lookup = builder(target).set_table(users, "id").set_columns("name").set_connections(1).build()

    async def run() -> list[Any]:
        await lookup.open()
        before = await lookup.lookup([1])
        target.execute(f"UPDATE {users} SET name = 'new' WHERE id = 1")
        after = await lookup.lookup([1])
        await lookup.close()
        return [before[1].name, after[1].name]

    assert asyncio.run(run()) == ["N1 \U0001f600", "new"]


def test_job_with_a_cache_asks_once_for_a_key(target: Target, users: str) -> None:
    with MiniCluster(parallelism=1) as cluster:
        orders = cluster.environment().from_collection([(1, 10), (99, 20)] * 30)
        stream = AsyncDataStream.ordered_lookup(
            orders,
            builder(target).set_table(users, "id").build(),
            lambda order: order[0],
            Time.seconds(20),
            lambda order, row: (order[1], row and row.name),
            cache=LookupCache(),
        )
        assert cluster.collect(stream) == [(10, "N1 \U0001f600"), (20, None)] * 30


class TestTrouble:
    def test_no_such_table_column_or_key(self, target: Target, users: str) -> None:
        for new in (
            builder(target).set_table("nowhere", "id"),
            builder(target).set_table(users, "nothing"),
            builder(target).set_sql(f"SELECT FROM WHERE {users} = ?"),
        ):
            with pytest.raises(SourceError, match="does not give the rows"):
                ask(new.build(), 1)
        with pytest.raises(SourceError, match="the query has 2 question marks"):
            ask(builder(target).set_table(users, "id", "town").build(), 1)

    def test_server_that_is_away(self, mariadb: Any, mariadb_target: Target) -> None:
        table = mariadb_target.new_table(USERS)
        mariadb_target.disconnect()
        mariadb.server.stop()
        with pytest.raises(SourceError, match="is away"):
            ask(builder(mariadb_target, 0.3).set_table(table, "id").build(), 1)

    def test_server_that_is_killed_in_the_middle_and_comes_back(
        self, mariadb: Any, mariadb_target: Target
    ) -> None:
        table = mariadb_target.new_table(USERS)
        mariadb_target.execute(f"INSERT INTO {table} VALUES (1, 'Ada', 'x')")
        mariadb_target.disconnect()
        lookup = builder(mariadb_target).set_table(table, "id").set_columns("name").build()

        async def run() -> list[Any]:
            await lookup.open()
            found = [await lookup.lookup([1])]
            mariadb.server.stop()
            asked = asyncio.ensure_future(lookup.lookup([1]))
            await asyncio.sleep(0.3)
            mariadb.server.start()  # from this thread, as servers end with the thread that started them
            found.append(await asked)
            await lookup.close()
            return found

        assert asyncio.run(run()) == [{1: Row(name="Ada")}] * 2

    def test_wrong_password_is_not_shown(self, mariadb_target: Target, caplog: Any) -> None:
        lookup = builder(mariadb_target, 0.3, "secret-word").set_table("t", "id").build()
        with pytest.raises(SourceError, match="(?i)access denied") as failed:
            ask(lookup, 1)
        assert "secret-word" not in str(failed.value) + repr(lookup) + caplog.text

    def test_arguments_that_do_not_fit(self, sqlite_target: Target) -> None:
        for declare, said in (
            (lambda new: new.build(), "is not said"),
            (lambda new: new.set_table("t", "a").set_sql("SELECT ?").build(), "said twice"),
            (lambda new: new.set_table("t"), "are not named"),
            (lambda new: new.set_sql("SELECT 1").build(), "no question mark"),
            (lambda new: JdbcLookup.builder().set_table("t", "a").build(), "no URL"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                declare(builder(sqlite_target))


def test_threads_end_with_the_look_up(sqlite_target: Target) -> None:
    table = sqlite_target.new_table(USERS)
    before = threading.active_count()
    ask(builder(sqlite_target).set_table(table, "id").set_request_size(1).build(), *range(20))
    assert not [each for each in threading.enumerate() if each.name.startswith("JdbcLookup")] or (
        threading.active_count() <= before + 4
    )
