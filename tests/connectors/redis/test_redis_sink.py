"""Redis as a sink, a real server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from millstream.base.errors import LostOutputError, NotSupportedError, SinkError, TypeMismatchError
from millstream.common import Row
from millstream.datastream.connectors.redis import (
    DeliveryGuarantee,
    Patience,
    RedisCommand,
    RedisSink,
    RedisSinkBuilder,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import SinkTarget, check_sink
from servers.ports import free_port
from servers.redis import RedisDatabase, RedisServer

SHORT = Patience(total_s=0.3)
EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE
NAMES = itertools.count()


def builder(url: str, command: RedisCommand, guarantee: Any = EXACTLY_ONCE) -> RedisSinkBuilder:
    new = RedisSink.builder().set_url(url).set_command(command)
    return new.set_delivery_guarantee(guarantee).set_patience(SHORT)


def values_of(database: RedisDatabase, stream: str) -> list[str]:
    return [fields[b"value"].decode() for _, fields in database.client().xrange(stream)]


class Attempt:
    """One attempt of a job with one subtask."""

    def __init__(self, sink: RedisSink, number: int = 0) -> None:
        self.writer = sink.build_writer(WriterContext("job", "sink", 0, 1, number, began_ms=5))
        self.committer = sink.build_committer()
        if number:
            self.writer.restore([], others=[])
        self.writer.open()

    def stage(self, *values: Any) -> list[Any]:
        self.writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        return self.writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)

    def close(self) -> None:
        self.writer.close()
        if self.committer is not None:
            self.committer.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stream", "list_item"])
def test_exactly_once_sink_keeps_the_contract(redis_database, kind):
    def new_target() -> SinkTarget:
        key = f"out-{next(NAMES)}"
        prefix = f"ms-{key}"
        sink = builder(redis_database.url, getattr(RedisCommand, kind)(key)).set_key_prefix(prefix).build()
        client = redis_database.client()

        def read() -> list[str]:
            if kind == "stream":
                return [fields[b"value"].decode() for _, fields in client.xrange(key)]
            return [item.decode() for item in client.lrange(key, 0, -1)]

        return SinkTarget(sink, read, lambda: client.keys(f"{prefix}:staged*"))

    check_sink(new_target, parallelisms=((1, 1), (2, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stream", "hash"])
def test_at_least_once_sink_keeps_the_contract(redis_database, kind):
    def new_target() -> SinkTarget:
        key, client = f"out-{next(NAMES)}", redis_database.client()
        if kind == "stream":
            command = RedisCommand.stream(key)
        else:
            command = RedisCommand.hash(lambda _: key, fields=lambda value: {value: 1})

        def read() -> list[str]:
            if kind == "stream":
                return [fields[b"value"].decode() for _, fields in client.xrange(key)]
            return [name.decode() for name in client.hkeys(key)]

        return SinkTarget(builder(redis_database.url, command, DeliveryGuarantee.AT_LEAST_ONCE).build(), read)

    check_sink(new_target, parallelisms=((2, 1),))


class TestCommands:
    def write(self, database: RedisDatabase, command: RedisCommand, *values: Any) -> Any:
        attempt = Attempt(builder(database.url, command).build())
        attempt.committer.commit(attempt.stage(*values))
        attempt.close()
        return database.client()

    def test_fields_of_dicts_and_rows(self, redis_database):
        client = self.write(
            redis_database, RedisCommand.stream("s"), {"a": 1, "b": None}, Row(c=2.5, d=True), b"\xff"
        )

        assert [fields for _, fields in client.xrange("s")] == [
            {b"a": b"1"},
            {b"c": b"2.5", b"d": b"true"},
            {b"value": b"\xff"},
        ]

    def test_stream_is_trimmed(self, redis_database):
        client = self.write(redis_database, RedisCommand.stream("s", max_length=100), *range(1_000))

        assert 100 <= client.xlen("s") < 300

    def test_hashes_strings_sets_and_lists(self, redis_database):
        record = {"id": 7, "name": "Ada"}
        client = self.write(redis_database, RedisCommand.hash(lambda r: f"user:{r['id']}"), record)
        self.write(redis_database, RedisCommand.string(lambda r: f"text:{r}", expire_s=100), "x")
        self.write(redis_database, RedisCommand.set_member("all"), "x", "y", "x")
        self.write(redis_database, RedisCommand.list_item("list"), "x", "y", "x")

        assert client.hgetall("user:7") == {b"id": b"7", b"name": b"Ada"}
        assert client.get("text:x") == b"x" and 0 < client.ttl("text:x") <= 100
        assert client.smembers("all") == {b"x", b"y"}
        assert client.lrange("list", 0, -1) == [b"x", b"y", b"x"]

    def test_record_without_fields_is_refused(self, redis_database):
        with pytest.raises(TypeMismatchError, match="no names of fields"):
            self.write(redis_database, RedisCommand.hash(lambda r: "key"), 5)

    def test_large_transactions_are_whole(self, redis_database):
        client = self.write(redis_database, RedisCommand.list_item("list"), *range(30_000))

        assert client.lrange("list", 0, -1) == [b"%d" % number for number in range(30_000)]


class TestExactlyOnce:
    def test_zombie_stages_nothing_any_more(self, redis_database):
        sink = builder(redis_database.url, RedisCommand.stream("s")).build()
        zombie = Attempt(sink)
        records = [str(number) for number in range(600)]
        zombie.writer.write(Rows(records), watermark_ms=0, now_ms=0)
        Attempt(sink, 1).close()

        with pytest.raises(LostOutputError, match="another attempt"):
            zombie.stage(*records)
        assert redis_database.client().keys("*") == []

    def test_commit_of_what_was_lost_fails(self, redis_database):
        attempt = Attempt(builder(redis_database.url, RedisCommand.stream("s")).build())
        staged = attempt.stage("a", "b")
        redis_database.client().flushdb()

        with pytest.raises(LostOutputError, match="not there any more"):
            attempt.committer.recover(staged)
        attempt.close()

    def test_older_commit_is_skipped_after_newer_ones(self, redis_database):
        sink = builder(redis_database.url, RedisCommand.stream("s")).build()
        attempt = Attempt(sink)
        first = attempt.stage("a")
        attempt.committer.commit(first)
        attempt.committer.commit(attempt.stage("b"))
        attempt.committer.commit(first)
        attempt.close()

        assert values_of(redis_database, "s") == ["a", "b"]

    def test_key_of_another_type_leaves_all_as_it_was(self, redis_database):
        client = redis_database.client()
        client.set("bad", "1")
        sink = builder(redis_database.url, RedisCommand.list_item(lambda value: value)).build()
        attempt = Attempt(sink)
        staged = attempt.stage("good", "bad")

        with pytest.raises(SinkError, match="WRONGTYPE key 'bad' holds a string"):
            attempt.committer.commit(staged)
        assert not client.exists("good")
        client.delete("bad")
        attempt.committer.recover(staged)
        attempt.close()
        assert client.lrange("good", 0, -1) == [b"good"] and client.lrange("bad", 0, -1) == [b"bad"]

    def test_command_that_fails_on_the_way_is_gone_on_with(self, redis_database):
        client = redis_database.client()
        client.xadd("full", {"value": "0"}, id=f"{2**64 - 1}-{2**64 - 1}")
        sink = builder(redis_database.url, RedisCommand.stream(lambda value: value)).build()
        attempt = Attempt(sink)
        staged = attempt.stage("good", "full", "better")

        with pytest.raises(SinkError, match="refused"):
            attempt.committer.commit(staged)
        assert values_of(redis_database, "good") == ["good"]
        client.delete("full")
        attempt.committer.commit(staged)
        attempt.close()
        assert [values_of(redis_database, key) for key in ("good", "full", "better")] == [
            ["good"],
            ["full"],
            ["better"],
        ]

    def test_server_is_killed_between_staging_and_commit(self, redis_database):
        sink = builder(redis_database.url, RedisCommand.stream("s")).build()
        attempt = Attempt(sink)
        staged = attempt.stage("a", "b")
        redis_database.server.stop()
        with pytest.raises(SinkError, match="Check that the server runs"):
            attempt.committer.commit(staged)
        redis_database.server.start()
        attempt.committer.recover(staged)
        attempt.committer.recover(staged)
        attempt.close()

        assert values_of(redis_database, "s") == ["a", "b"]


class TestTrouble:
    def test_server_that_is_down_is_named_without_its_password(self):
        sink = builder("redis://me:secret-word@127.0.0.1:1/0", RedisCommand.stream("s")).build()

        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        assert "secret-word" not in str(failed.value) + repr(sink)

    def test_server_that_is_full(self, tmp_path):
        server = RedisServer(tmp_path, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
        server.start()
        try:
            client = server.client()
            sink = builder(server.url(), RedisCommand.list_item("list")).build()
            attempt = Attempt(sink)
            staged = attempt.stage("a", "b")
            client.config_set("maxmemory", "1mb")
            plain = builder(server.url(), RedisCommand.list_item("list"), DeliveryGuarantee.AT_LEAST_ONCE)
            with pytest.raises(SinkError, match="maxmemory"):
                Attempt(plain.build()).stage("x")
            with pytest.raises(SinkError, match="maxmemory"):
                Attempt(sink).stage("x")
            with pytest.raises(SinkError, match="maxmemory"):
                attempt.committer.commit(staged)
            client.config_set("maxmemory", "0")
            attempt.committer.commit(staged)
            assert client.lrange("list", 0, -1) == [b"a", b"b"]
        finally:
            server.stop()

    def test_replica(self, redis_database):
        client = redis_database.client()
        client.replicaof("127.0.0.1", "1")
        try:
            for guarantee in (EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
                sink = builder(redis_database.url, RedisCommand.list_item("list"), guarantee).build()
                with pytest.raises(SinkError, match="replica"):
                    Attempt(sink).stage("x")
        finally:
            client.replicaof("NO", "ONE")

    def test_user_who_may_not_write(self, redis_database):
        client = redis_database.client()
        client.acl_setuser("reader", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@read"])
        url = redis_database.url.replace("//", "//reader:pw@")
        sink = builder(url, RedisCommand.list_item("list"), DeliveryGuarantee.AT_LEAST_ONCE).build()
        sink.check()

        with pytest.raises(SinkError, match="ACL SETUSER"):
            Attempt(sink).stage("x")

    def test_wrong_type(self, redis_database):
        redis_database.client().set("s", "1")
        sink = builder(redis_database.url, RedisCommand.stream("s"), DeliveryGuarantee.AT_LEAST_ONCE).build()

        with pytest.raises(SinkError, match="belongs to something else"):
            Attempt(sink).stage("x")

    def test_server_is_restarted_in_the_middle(self, redis_database):
        sink = builder(redis_database.url, RedisCommand.stream("s"), DeliveryGuarantee.AT_LEAST_ONCE)
        attempt = Attempt(sink.set_patience(Patience(total_s=20)).build())
        attempt.stage("a")
        redis_database.server.stop()
        redis_database.server.start()
        attempt.stage("b")
        attempt.close()

        assert values_of(redis_database, "s") == ["a", "b"]

    def test_cluster_is_refused(self, tmp_path):
        bus = str(free_port())
        server = RedisServer(tmp_path, "--cluster-enabled", "yes", "--cluster-port", bus, "--databases", "1")
        server.start()
        try:
            with pytest.raises(NotSupportedError, match="part of a cluster"):
                builder(server.url(), RedisCommand.stream("s")).build().check()
        finally:
            server.stop()
