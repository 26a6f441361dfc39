"""Look-ups in another system: a database that is read while a stream runs by."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta

import pytest

from millstream.base.errors import ConfigurationError, JobExecutionError, TypeMismatchError
from millstream.common import Duration
from millstream.datastream import AsyncDataStream, AsyncRetryStrategy
from millstream.datastream.connectors.base import AsyncLookup, LookupCache
from millstream.testing import FailurePoint, MiniCluster

MINUTE = timedelta(minutes=1)
PLACES = {number: f"place {number}" for number in range(0, 100, 2)}


class Places(AsyncLookup):
    """Reads a table of SQLite by many keys at a time; takes note of what it is asked."""

    calls: list[list] = []
    opened = closed = 0
    fails = 0

    def __init__(self, path):
        self.path = path

    async def open(self):
        Places.opened += 1

    async def lookup(self, keys):
        Places.calls.append(list(keys))
        if Places.fails:
            Places.fails -= 1
            raise ConnectionError("the database is away")
        return await asyncio.to_thread(self.read, keys)

    def read(self, keys):
        marks = ", ".join("?" * len(keys))
        connection = sqlite3.connect(self.path)
        try:
            return dict(connection.execute(f"SELECT id, name FROM places WHERE id IN ({marks})", list(keys)))
        finally:
            connection.close()

    async def close(self):
        Places.closed += 1


@pytest.fixture
def places(tmp_path):
    path = str(tmp_path / "places.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE places (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO places VALUES (?, ?)", PLACES.items())
    connection.commit()
    connection.close()
    Places.calls, Places.opened, Places.closed, Places.fails = [], 0, 0, 0
    return Places(path)


def asked():
    return [key for call in Places.calls for key in call]


def looked_up(lookup, keys, *, way=AsyncDataStream.ordered_lookup, parallelism=1, fail_at=None, **how):
    with MiniCluster(parallelism=parallelism, options={"millstream.epoch.fixed-records": 40}) as cluster:
        if fail_at is not None:
            cluster.fail_at(fail_at, 2)
        stream = cluster.environment().from_collection(keys)
        return list(cluster.collect(way(stream, lookup, lambda key: key, how.pop("timeout", MINUTE), **how)))


@pytest.mark.parametrize("way", [AsyncDataStream.ordered_lookup, AsyncDataStream.unordered_lookup])
def test_each_record_gets_its_row_or_none(places, way):
    found = looked_up(places, list(range(100)), way=way)
    assert sorted(found) == [(number, PLACES.get(number)) for number in range(100)]
    assert (Places.opened, Places.closed) == (1, 1)


def test_results_are_in_order_and_joined_as_the_program_likes(places):
    found = looked_up(places, [4, 3, 2, 4], join=lambda key, name: f"{key}: {name}")
    assert found == ["4: place 4", "3: None", "2: place 2", "4: place 4"]


def test_a_call_asks_for_each_key_once_and_for_no_more_records_than_a_batch_has(places):
    looked_up(places, [1, 2, 1, 2, 3, 3, 3, 4], batch_size=4)
    assert Places.calls == [[1, 2], [3, 4]]


def test_what_was_found_is_kept_and_what_was_not_as_well(places):
    looked_up(places, [1, 2] * 100, cache=LookupCache(), batch_size=2, capacity=2)
    assert Places.calls == [[1, 2]]


def test_what_was_not_found_need_not_be_kept(places):
    looked_up(places, [1, 2] * 3, cache=LookupCache(keeps_missing=False), batch_size=2, capacity=2)
    assert Places.calls == [[1, 2], [1], [1]]


def test_what_was_used_last_stays(places):
    looked_up(places, [2, 4, 2, 6, 2, 4], cache=LookupCache(max_rows=2), batch_size=1, capacity=1)
    assert asked() == [2, 4, 6, 4]


def test_what_is_too_old_is_asked_for_again(places):
    class Slow(Places):
        async def lookup(self, keys):
            await asyncio.sleep(0.02)
            return await super().lookup(keys)

    brief, long = Duration.of_millis(10), Duration.of_minutes(5)
    for length, expected in ((brief, [2, 4, 2]), (long, [2, 4])):
        Places.calls.clear()
        looked_up(
            Slow(places.path), [2, 4, 2], cache=LookupCache(time_to_live=length), batch_size=1, capacity=1
        )
        assert asked() == expected


def test_a_call_that_failed_is_repeated_as_the_strategy_says(places):
    Places.fails = 2
    again = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ConnectionError))
    assert looked_up(places, [2], async_retry_strategy=again, cache=LookupCache()) == [(2, "place 2")]
    assert Places.calls == [[2]] * 3


def test_a_call_that_fails_for_good_fails_the_job_and_is_closed(places):
    Places.fails = 1
    with MiniCluster(options={"restart-strategy.type": "none"}) as cluster:
        stream = cluster.environment().from_collection([2])
        result = AsyncDataStream.ordered_lookup(stream, places, lambda key: key, MINUTE)
        with pytest.raises(JobExecutionError, match="the database is away"):
            cluster.collect(result)
    assert (Places.opened, Places.closed) == (1, 1)


def test_a_call_that_takes_too_long_fails_the_job(places):
    class Endless(Places):
        async def lookup(self, keys):
            await asyncio.sleep(60)

    with MiniCluster(options={"restart-strategy.type": "none"}) as cluster:
        stream = cluster.environment().from_collection([2])
        brief, lookup = timedelta(milliseconds=20), Endless(places.path)
        result = AsyncDataStream.unordered_lookup(stream, lookup, lambda key: key, brief)
        with pytest.raises(JobExecutionError, match="did not end within its timeout"):
            cluster.collect(result)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_that_fails_loses_and_doubles_nothing(places, parallelism):
    keys = list(range(400))
    found = looked_up(
        places,
        keys,
        parallelism=parallelism,
        fail_at=FailurePoint.AFTER_EPOCH,
        cache=LookupCache(max_rows=50),
    )
    assert sorted(found) == [(key, PLACES.get(key)) for key in keys]
    assert Places.opened == Places.closed == 2 * parallelism


def test_mistakes_are_named_where_they_are_made(places):
    with MiniCluster() as cluster:
        stream = cluster.environment().from_collection([1])

        class Blocking(AsyncLookup):
            def lookup(self, keys):
                return {}

        with pytest.raises(
            TypeMismatchError, match="method lookup of Blocking is not declared with async def"
        ):
            AsyncDataStream.ordered_lookup(stream, Blocking(), lambda key: key, MINUTE)
        with pytest.raises(TypeMismatchError, match="not an AsyncLookup"):
            AsyncDataStream.unordered_lookup(stream, print, lambda key: key, MINUTE)
        with pytest.raises(TypeMismatchError, match="not a LookupCache"):
            AsyncDataStream.unordered_lookup(stream, places, lambda key: key, MINUTE, cache=10)
    with pytest.raises(ConfigurationError, match="max_rows of a LookupCache is 0"):
        LookupCache(0)
    with pytest.raises(ConfigurationError, match="must be greater than zero"):
        LookupCache(time_to_live=timedelta(0))


class Wrong(AsyncLookup):
    async def lookup(self, keys):
        return list(keys)


@pytest.mark.parametrize(
    "keys, lookup, said",
    [([1], Wrong(), "lookup of Wrong gave a list, not a dict"), ([[1]], Wrong(), "cannot be hashed")],
)
def test_mistakes_of_a_lookup_are_named(keys, lookup, said):
    with MiniCluster(options={"restart-strategy.type": "none"}) as cluster:
        stream = cluster.environment().from_collection(keys)
        result = AsyncDataStream.ordered_lookup(stream, lookup, lambda key: key, MINUTE)
        with pytest.raises(JobExecutionError) as raised:
            cluster.collect(result)
    assert said in str(raised.value.__cause__ or raised.value) + str(raised.value)
