"""Rows of Cassandra, looked up by key: a real node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SourceError
from millstream.common import Row
from millstream.common.time import Time
from millstream.datastream import AsyncDataStream
from millstream.datastream.connectors.cassandra import (
    CassandraLookup,
    ClusterBuilder,
    ConsistencyLevel,
    Patience,
)
from millstream.spi.lookup import LookupCache
from millstream.testing import MiniCluster, check_lookup
from servers.cassandra import CassandraServer

pytestmark = pytest.mark.long

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=90)
EVENTS = "CREATE TABLE {} (shop text, day date, id int, cents int, PRIMARY KEY ((shop, day), id))"


def of(server: CassandraServer, patience: Patience = LONG) -> Any:
    builder = ClusterBuilder("127.0.0.1", port=server.port, username="cassandra", password="cassandra")
    return CassandraLookup.builder().set_cluster_builder(builder).set_patience(patience)


def ask(lookup: CassandraLookup, *keys: object) -> Any:
    async def run() -> object:
        await lookup.open()
        try:
            return await lookup.lookup(keys)
        finally:
            await lookup.close()

    return asyncio.run(run())


@pytest.fixture
def words(new_table, fill):
    table = new_table()
    fill(table, "id, word", *[(number, f"w{number}") for number in range(40)])
    return table


@pytest.mark.timeout(600)
def test_lookup_keeps_the_contract(cassandra, words):
    rows = {number: Row(id=number, word=f"w{number}") for number in range(40)}
    check_lookup(of(cassandra).set_table(words).set_request_size(7).build(), rows, unknown=[-1, None])


def test_keys_of_parts_columns_and_lists(cassandra, new_table, fill):
    table = new_table(EVENTS)
    fill(table, "shop, day, id, cents", *[("a", "2024-02-29", n, n * 10) for n in range(3)])
    level = of(cassandra).set_table(table).set_consistency_level(ConsistencyLevel.ALL)
    one = level.set_columns("cents").build()
    assert ask(one, ("a", "2024-02-29", 2), ("a", "2024-02-29", 3)) == {("a", "2024-02-29", 2): Row(cents=20)}

    day = level.set_columns("id").set_key_columns("shop", "day")
    with pytest.raises(SourceError, match="(?s)several rows.*set_gives_lists"):
        ask(day.build(), ("a", "2024-02-29"))
    assert ask(day.set_gives_lists().build(), ("a", "2024-02-29"), ("b", "2024-02-29")) == {
        ("a", "2024-02-29"): [Row(id=0), Row(id=1), Row(id=2)]
    }


def test_query(cassandra, words):
    lookup = of(cassandra).set_query(f"SELECT word AS name FROM {words} WHERE id = ?;").build()
    assert ask(lookup, 7, 99) == {7: Row(name="w7")}


def test_job_with_a_cache_asks_once_for_a_key(cassandra, words):
    with MiniCluster(parallelism=1) as cluster:
        orders = cluster.environment().from_collection([1, 99] * 30)
        stream = AsyncDataStream.ordered_lookup(
            orders,
            of(cassandra).set_table(words).build(),
            lambda order: order,
            Time.seconds(30),
            lambda order, row: row and row.word,
            cache=LookupCache(),
        )
        assert cluster.collect(stream) == ["w1", None] * 30


class TestTrouble:
    def test_what_is_named_is_not_there(self, cassandra, words):
        for new, message in (
            (of(cassandra).set_table("tests.nothing"), "table tests.nothing is not there"),
            (of(cassandra).set_table(words).set_columns("words"), "has no column 'words'"),
            (of(cassandra).set_table(words).set_key_columns("word"), "ALLOW FILTERING"),
            (of(cassandra).set_query(f"SELECT * FROM {words}"), "no parameter for the key"),
        ):
            with pytest.raises(SourceError, match=message):
                ask(new.build(), 1)

    def test_keys_that_do_not_fit(self, cassandra, words, new_table):
        with pytest.raises(SourceError, match="(?s)key 'one' does not fit.*key selector"):
            ask(of(cassandra).set_table(words).build(), "one")
        with pytest.raises(SourceError, match="has 3 columns"):
            ask(of(cassandra).set_table(new_table(EVENTS)).build(), ("a", 1))

    def test_cluster_that_is_away(self, cassandra, words):
        lookup = of(cassandra, SHORT).set_table(words).build()
        cassandra.stop()
        with pytest.raises(SourceError, match="did not answer, connecting"):
            ask(lookup, 1)

    def test_node_that_is_killed_in_the_middle_and_comes_back(self, cassandra, words):
        lookup = of(cassandra).set_table(words).build()

        async def run() -> list[Any]:
            await lookup.open()
            found = [await lookup.lookup([1])]
            cassandra.stop()
            asked = asyncio.ensure_future(lookup.lookup([1, 2]))
            await asyncio.sleep(0.5)
            cassandra.start()  # from this thread, as servers end with the thread that started them
            found.append(await asked)
            await lookup.close()
            return found

        row = Row(id=1, word="w1")
        assert asyncio.run(run()) == [{1: row}, {1: row, 2: Row(id=2, word="w2")}]


def test_arguments_that_do_not_fit():
    new = CassandraLookup.builder().set_host("h")
    for declare, said in (
        (lambda: CassandraLookup.builder().set_table("s.t").build(), "has no cluster"),
        (lambda: new.build(), "is not said"),
        (lambda: CassandraLookup.builder().set_host("h").set_table("t").build(), "keyspace.table"),
        (
            lambda: CassandraLookup.builder().set_host("h").set_query("SELECT").set_columns("a").build(),
            "named twice",
        ),
    ):
        with pytest.raises(ConfigurationError, match=said):
            declare()
