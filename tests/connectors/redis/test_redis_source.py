"""Redis streams as a source, from a real server."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.common import Row, Types, WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream import OutputTag
from millstream.datastream.connectors.redis import (
    MalformedPolicy,
    Patience,
    RedisOffsetsInitializer,
    RedisStreamSource,
    RedisStreamSourceBuilder,
)
from millstream.spi.source import PlanRequest, SourceReaderContext
from millstream.testing import MiniCluster, SourceRun, check_source
from servers.redis import RedisDatabase, RedisServer

LATEST = RedisOffsetsInitializer.latest()
SHORT = Patience(total_s=0.3)


def builder(database: RedisDatabase, *streams: str) -> RedisStreamSourceBuilder:
    new = RedisStreamSource.builder().set_url(database.url).set_streams(*(streams or ("numbers",)))
    return new.set_value_only_deserializer(SimpleStringSchema()).set_patience(SHORT)


def texts(*numbers: int) -> list[str]:
    return list(map(str, numbers))


def read_all(source: RedisStreamSource, restored: Any = None) -> list[Any]:
    return SourceRun(source, 1, 1_000, restored=restored).run()


@pytest.mark.slow
def test_bounded_source_keeps_the_contract(redis_database):
    redis_database.add("a", range(70))
    redis_database.add("b", range(100, 130))
    redis_database.client().xgroup_create("empty", "nobody", mkstream=True)
    source = builder(redis_database, "a", "empty", "b").set_bounded(LATEST).build()

    check_source(source, expected=texts(*range(70), *range(100, 130)), parallelisms=(1, 2, 4))


@pytest.mark.slow
def test_unbounded_source_keeps_the_contract(redis_database):
    redis_database.add("numbers", range(90))

    check_source(
        builder(redis_database).build(),
        expected=texts(*range(90)),
        parallelisms=(1, 2),
        budgets=(3, 1_000),
    )


def test_nothing_to_read(redis_database):
    redis_database.client().xgroup_create("numbers", "nobody", mkstream=True)

    assert read_all(builder(redis_database).set_bounded(LATEST).build()) == []


def test_large_entries_come_in_small_batches(redis_database):
    client = redis_database.client()
    for _ in range(200):
        client.xadd("numbers", {"value": "x" * 200_000})
    sizes = []
    reader = builder(redis_database).build()
    enumerator = reader.build_enumerator(1, None)
    (planned,) = enumerator.plan(PlanRequest(1, 1_000, 0)).ranges[0]
    running = reader.build_reader(0, 1)
    running.context = SourceReaderContext()
    running.open()
    running.read(planned, lambda batch: sizes.append(len(batch)) or True)

    assert sum(sizes) == 200
    assert max(sizes) <= 64


class TestOffsets:
    @pytest.mark.parametrize(
        ("start", "wanted"),
        [
            (RedisOffsetsInitializer.earliest(), [0, 1, 2, 3]),
            (RedisOffsetsInitializer.ids({"numbers": "2-0"}), [2, 3]),
            (RedisOffsetsInitializer.timestamp(2), [1, 2, 3]),
            (RedisOffsetsInitializer.timestamp(0), [0, 1, 2, 3]),
            (RedisOffsetsInitializer.timestamp(99), []),
            (LATEST, []),
        ],
        ids=["earliest", "id", "timestamp", "zero", "future", "latest"],
    )
    def test_start(self, redis_database, start, wanted):
        redis_database.add("numbers", range(4))

        assert read_all(
            builder(redis_database).set_starting_offsets(start).set_bounded(LATEST).build()
        ) == texts(*wanted)

    @pytest.mark.parametrize(
        ("stop", "wanted"),
        [
            (RedisOffsetsInitializer.ids({"numbers": "2-0"}), [0, 1]),
            (RedisOffsetsInitializer.timestamp(3), [0, 1]),
        ],
        ids=["id", "timestamp"],
    )
    def test_stop(self, redis_database, stop, wanted):
        redis_database.add("numbers", range(4))

        assert read_all(builder(redis_database).set_unbounded(stop).build()) == texts(*wanted)

    def test_what_comes_later_is_read_too(self, redis_database):
        redis_database.add("numbers", range(2))
        run = SourceRun(builder(redis_database).set_starting_offsets(LATEST).build(), 1, 100)
        run.epoch()
        redis_database.add("numbers", range(2, 5))
        run.epoch()
        run.close()

        assert run.read[0] == texts(2, 3, 4)

    def test_stream_that_does_not_exist_is_waited_for(self, redis_database):
        run = SourceRun(builder(redis_database).build(), 1, 100)
        run.epoch()
        redis_database.add("numbers", range(3))
        run.epoch()
        run.close()

        assert run.read[0] == texts(0, 1, 2)

    def test_stream_that_does_not_exist_has_no_end(self, redis_database):
        with pytest.raises(SourceError, match='there is no stream "numbers"'):
            builder(redis_database).set_bounded(LATEST).build().build_enumerator(1, None)

    def test_stream_is_added_to_a_job_that_goes_on(self, redis_database):
        redis_database.add("numbers", range(3))
        redis_database.add("more", range(10, 12))
        before = SourceRun(builder(redis_database).build(), 1, 100)
        before.epoch()
        snapshot = before.snapshot()
        before.close()

        both = builder(redis_database, "numbers", "more").set_unbounded(LATEST).build()
        run = SourceRun(both, 1, 100, restored=snapshot)
        run.epoch()
        run.close()
        assert run.read[0] == texts(10, 11)


class TestRecords:
    def test_dicts(self, redis_database):
        redis_database.client().xadd("s", {"name": "Ada", "age": 36})
        source = RedisStreamSource.builder().set_url(redis_database.url).set_streams("s").set_bounded(LATEST)

        assert read_all(source.build()) == [{"name": "Ada", "age": "36"}]

    def test_rows_and_timestamps(self, redis_database):
        redis_database.client().xadd("s", {"name": "Ada", "age": 36, "x": "?"}, id="1700000000000-5")
        redis_database.client().xadd("s", {"name": "Bob", "paid": "true"})
        kind = Types.ROW_NAMED(["name", "age", "paid"], [Types.STRING(), Types.INT(), Types.BOOLEAN()])
        source = RedisStreamSource.builder().set_url(redis_database.url).set_streams("s").set_row_type(kind)
        run = SourceRun(source.set_bounded(LATEST).build(), 1, 100)

        assert run.run() == [
            Row(name="Ada", age=36, paid=None),
            Row(name="Bob", age=None, paid=True),
        ]
        assert run.splits["s"][0][1] == 1700000000000

    def test_number_that_is_none_names_stream_and_entry(self, redis_database):
        redis_database.client().xadd("s", {"age": 36}, id="7-0")
        redis_database.client().xadd("s", {"age": "old"}, id="8-0")
        kind = Types.ROW_NAMED(["age"], [Types.INT()])
        source = RedisStreamSource.builder().set_url(redis_database.url).set_streams("s").set_row_type(kind)

        with pytest.raises(MalformedRecordError, match='entry 8-0 of the Redis stream "s"'):
            read_all(source.set_bounded(LATEST).build())

    @pytest.mark.parametrize("fields", [{"other": "1"}, {"value": b"\xff"}], ids=["no field", "not UTF-8"])
    def test_entry_that_does_not_parse_is_named(self, redis_database, fields):
        redis_database.client().xadd("numbers", {"value": "1"}, id="7-0")
        redis_database.client().xadd("numbers", fields, id="8-0")

        with pytest.raises(MalformedRecordError, match="entry 8-0"):
            read_all(builder(redis_database).set_bounded(LATEST).build())

    def test_malformed_fields_are_skipped_or_dead_letters(self, redis_database):
        redis_database.add("numbers", range(3))
        redis_database.client().xadd("numbers", {"value": b"\xff"}, id="8-0")
        tag = OutputTag("malformed")
        source = builder(redis_database).set_malformed_policy(MalformedPolicy.dead_letters(tag))
        with MiniCluster(parallelism=1) as cluster:
            environment = cluster.environment()
            no_watermarks = WatermarkStrategy.no_watermarks()
            stream = environment.from_source(source.set_bounded(LATEST).build(), no_watermarks, "numbers")
            (letter,) = cluster.collect(stream.get_side_output(tag))

        assert (letter.position, letter.message) == ("entry 8-0", b"\xff")
        skipping = builder(redis_database).set_malformed_policy(MalformedPolicy.skip())
        assert read_all(skipping.set_bounded(LATEST).build()) == texts(0, 1, 2)


class TestLoss:
    """added  0 … 9 │ 10 … 19          read up to 10 when something happens to the rest"""

    def position(self, database: RedisDatabase) -> Any:
        database.add("numbers", range(10))
        run = SourceRun(builder(database).build(), 1, 1_000)
        run.epoch()
        snapshot = run.snapshot()
        run.close()
        return snapshot

    def go_on(self, database: RedisDatabase, snapshot: Any, **kwargs: bool) -> list[Any]:
        source = builder(database).set_fail_on_data_loss(kwargs.get("fail", True)).build()
        run = SourceRun(source, 1, 1_000, restored=snapshot)
        run.epoch()
        run.close()
        return run.read[0]

    def test_entries_that_were_read_may_go(self, redis_database):
        snapshot = self.position(redis_database)
        redis_database.add("numbers", range(10, 20))
        redis_database.client().xtrim("numbers", maxlen=10, approximate=False)

        assert self.go_on(redis_database, snapshot) == texts(*range(10, 20))

    def test_entries_that_were_trimmed_are_missed(self, redis_database):
        snapshot = self.position(redis_database)
        redis_database.add("numbers", range(10, 20))
        redis_database.client().xtrim("numbers", maxlen=7, approximate=False)

        with pytest.raises(SourceError, match="3 entries were removed before they were read"):
            self.go_on(redis_database, snapshot)

    def test_entry_that_was_deleted_is_missed(self, redis_database):
        snapshot = self.position(redis_database)
        redis_database.add("numbers", range(10, 20))
        redis_database.client().xdel("numbers", "15-0")

        with pytest.raises(SourceError, match="1 entries were removed before they were read"):
            self.go_on(redis_database, snapshot)

    def test_whoever_wants_it_goes_on_without_them(self, redis_database, caplog):
        snapshot = self.position(redis_database)
        redis_database.add("numbers", range(10, 20))
        redis_database.client().xtrim("numbers", maxlen=7, approximate=False)

        assert self.go_on(redis_database, snapshot, fail=False) == texts(*range(13, 20))
        assert "3 entries were removed" in caplog.text

    def test_stream_that_was_removed_is_missed(self, redis_database):
        snapshot = self.position(redis_database)
        redis_database.client().delete("numbers")

        with pytest.raises(SourceError, match="not there any more"):
            self.go_on(redis_database, snapshot)

    @pytest.mark.parametrize("entries", [5, 15])
    def test_stream_that_was_made_anew_is_noticed(self, redis_database, entries):
        snapshot = self.position(redis_database)
        redis_database.client().delete("numbers")
        redis_database.add("numbers", range(100, 100 + entries))

        with pytest.raises(SourceError, match="were lost"):
            self.go_on(redis_database, snapshot)

    def test_server_that_lost_its_data_is_noticed(self, tmp_path):
        server = RedisServer(tmp_path, persistent=False)
        server.start()
        try:
            database = server.new_database()
            snapshot = self.position(database)
            server.stop()
            server.start()
            with pytest.raises(SourceError, match="were lost"):
                self.go_on(database, snapshot)
        finally:
            server.stop()


class TestTrouble:
    def test_server_that_is_down_is_named_without_its_password(self, redis_database):
        source = builder(redis_database).set_url("redis://me:secret-word@127.0.0.1:1/0").build()

        with pytest.raises(SourceError, match="127.0.0.1:1") as failed:
            source.build_enumerator(1, None)
        assert "secret-word" not in str(failed.value) + repr(source) + repr(failed.value.__cause__)

    def test_server_is_restarted_in_the_middle(self, redis_database, caplog):
        redis_database.add("numbers", range(5))
        source = builder(redis_database).set_patience(Patience(total_s=20)).build()
        run = SourceRun(source, 1, 100)
        run.epoch()
        redis_database.server.stop()
        redis_database.server.start()
        redis_database.add("numbers", range(5, 8))
        run.epoch()
        run.close()

        assert run.read[0] == texts(*range(8))

    def test_key_of_another_type(self, redis_database):
        redis_database.client().set("numbers", "1")

        with pytest.raises(SourceError, match="WRONGTYPE"):
            builder(redis_database).build().build_enumerator(1, None)

    def test_login(self, tmp_path):
        server = RedisServer(tmp_path, "--requirepass", "secret-word")
        server.start()
        try:
            wrong = server.url().replace("//", "//default:false-word@")
            right = server.url().replace("//", "//default:secret-word@")
            for url in (server.url(), wrong):
                source = RedisStreamSource.builder().set_url(url).set_streams("s").build()
                with pytest.raises(SourceError, match="user and password in the URL") as failed:
                    source.build_enumerator(1, None)
                assert "false-word" not in str(failed.value)
            RedisStreamSource.builder().set_url(right).set_streams("s").build().build_enumerator(1, None)
        finally:
            server.stop()
