"""Strings and hashes of Redis, looked up by key: a real server."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError, NotSupportedError, SourceError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.redis import Patience, RedisLookup, RedisLookupBuilder
from millstream.spi.serialization import ByteArraySchema
from millstream.testing import check_lookup
from servers.redis import RedisDatabase, RedisServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=20)


def builder(database: RedisDatabase, patience: Patience = SHORT) -> RedisLookupBuilder:
    return RedisLookup.builder().set_url(database.url).set_patience(patience)


def ask(lookup: RedisLookup, *keys: object) -> Any:
    async def run() -> object:
        await lookup.open()
        try:
            return await lookup.lookup(keys)
        finally:
            await lookup.close()

    return asyncio.run(run())


def test_strings_keep_the_contract(redis_database):
    rows = {f"c/{n} ä": f"name {n}" for n in range(40)}
    redis_database.client().mset({f"customer:{key}": name for key, name in rows.items()})
    lookup = builder(redis_database).set_key_prefix("customer:").set_strings().set_request_size(7)

    check_lookup(lookup.build(), rows, unknown=["c40", ""])


def test_hashes_keep_the_contract(redis_database):
    rows = {n: {"name": f"name {n}", "n": str(n)} for n in range(40)}
    client = redis_database.client()
    for key, row in rows.items():
        client.hset(f"customer:{key}", mapping=row)
    hashes = builder(redis_database).set_key_prefix("customer:")

    check_lookup(hashes.set_hashes().build(), rows, unknown=[40])
    names = {key: {"name": row["name"]} for key, row in rows.items()}
    check_lookup(hashes.set_hashes("name", "other").build(), names, unknown=[40])


def test_keys_of_parts_and_by_function(redis_database):
    redis_database.client().mset({"a:1": "x", "true": "yes", "K-7": "z"})
    strings = builder(redis_database).set_strings()

    assert ask(strings.build(), ("a", 1), True, ("a", 2)) == {("a", 1): "x", True: "yes"}
    assert ask(strings.set_key(lambda key: f"K-{key}").build(), 7, 8) == {7: "z"}


def test_schemas(redis_database):
    redis_database.client().mset({"a": b'{"n": 1}', "b": b"\xff"})
    assert ask(builder(redis_database).set_strings(ByteArraySchema()).build(), "b") == {"b": b"\xff"}
    with pytest.raises(MalformedRecordError, match="(?s)key 'b' does not parse.*ByteArraySchema"):
        ask(builder(redis_database).set_strings(SimpleStringSchema()).build(), "b")


class TestTrouble:
    def test_key_of_another_type(self, redis_database):
        redis_database.client().rpush("list", 1)
        with pytest.raises(SourceError, match="(?s)WRONGTYPE.*belongs to something else"):
            ask(builder(redis_database).set_hashes().build(), "list")
        assert ask(builder(redis_database).set_strings().build(), "list") == {}

    def test_server_that_is_down_is_named_without_its_password(self, caplog):
        lookup = RedisLookup.builder().set_url("redis://me:secret-word@127.0.0.1:1/0").set_patience(SHORT)
        with pytest.raises(SourceError, match=r"(?s)127\.0\.0\.1:1.*can be reached") as failed:
            ask(lookup.set_strings().build(), "a")
        assert "secret-word" not in str(failed.value) + repr(lookup.build()) + caplog.text

    def test_server_that_is_killed_in_the_middle_and_comes_back(self, redis_database):
        redis_database.client().set("a", "x")
        lookup = builder(redis_database, LONG).set_strings().build()

        async def run() -> list[Any]:
            await lookup.open()
            found = [await lookup.lookup(["a"])]
            redis_database.server.stop()
            asked = asyncio.ensure_future(lookup.lookup(["a"]))
            await asyncio.sleep(0.3)
            redis_database.server.start()
            found.append(await asked)
            await lookup.close()
            return found

        assert asyncio.run(run()) == [{"a": "x"}] * 2

    def test_server_that_answers_nothing_for_a_while(self, redis_database):
        redis_database.client().set("a", "x")
        lookup = builder(redis_database, LONG).set_strings().build()
        redis_database.server.pause()
        timer = threading.Timer(0.5, redis_database.server.go_on)
        timer.start()
        assert ask(lookup, "a") == {"a": "x"}
        timer.join()

    def test_cluster(self, tmp_path):
        server = RedisServer(tmp_path, "--cluster-enabled", "yes", "--databases", "1")
        server.start()
        try:
            lookup = RedisLookup.builder().set_url(server.url()).set_patience(SHORT).set_strings().build()
            with pytest.raises(NotSupportedError, match="part of a cluster"):
                ask(lookup, "a")
        finally:
            server.stop()

    def test_arguments_that_do_not_fit(self, redis_database):
        for declare, said in (
            (lambda: RedisLookup.builder().set_strings().build(), "no URL"),
            (lambda: builder(redis_database).build(), "not said what"),
            (lambda: builder(redis_database).set_strings("json"), "no DeserializationSchema"),
            (lambda: RedisLookup.builder().set_url("http://a"), "begins with http://"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                declare()
