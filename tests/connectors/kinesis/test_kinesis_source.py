"""Streams of Kinesis as a source, from kinesalite."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream import OutputTag
from millstream.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisShardAssigner,
    KinesisStreamsSource,
    KinesisStreamsSourceBuilder,
    MalformedPolicy,
    Patience,
)
from millstream.spi.source import PlanRequest
from millstream.testing import FailurePoint, MiniCluster, SourceRun, check_source
from servers.aws_front import AwsFront, refuse
from servers.kinesis import KinesisServer, KinesisStream, aws_properties

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=30)
AT_ONCE = {"flink.shard.getrecords.intervalmillis": 0, "flink.shard.discovery.intervalmillis": 0}


def builder(stream: KinesisStream, start: str = "TRIM_HORIZON", **config: Any) -> KinesisStreamsSourceBuilder:
    properties = {**stream.server.properties, **AT_ONCE, "flink.stream.initpos": start, **config}
    new = KinesisStreamsSource.builder().set_stream_names(stream.name).set_source_config(properties)
    return new.set_deserialization_schema(SimpleStringSchema()).set_patience(SHORT)


def texts(*numbers: int) -> list[str]:
    return list(map(str, numbers))


def read_all(source: KinesisStreamsSource, restored: Any = None) -> list[Any]:
    return SourceRun(source, 1, 1_000, restored=restored).run()


def by_shards(run: SourceRun) -> dict[str, list[Any]]:
    """Return what was read of each shard, by its number."""
    return {name[-1]: [int(text.strip("'")) for text, _ in records] for name, records in run.splits.items()}


def epochs(run: SourceRun, count: int) -> list[Any]:
    for _ in range(count):
        run.epoch()
    return run.read[0]


def resharded(kinesis: KinesisServer) -> KinesisStream:
    """A stream of two shards, of which one was split, and a half of it merged with the other one."""
    stream = kinesis.new_stream(2)
    stream.add(range(20))
    stream.split(0)
    stream.add(range(20, 40))
    stream.merge(3, 1)
    stream.add(range(40, 60))
    return stream


class Everything(KinesisDeserializationSchema):
    def deserialize(self, record_value, partition_key, seq_num, approx_arrival_timestamp, stream, shard_id):
        return record_value, partition_key, int(seq_num) > 0, approx_arrival_timestamp, stream, shard_id


@pytest.mark.long
def test_bounded_source_keeps_the_contract(kinesis):
    stream = kinesis.new_stream(2)
    stream.add(range(20))
    stream.split(0)
    stream.add(range(20, 40))

    source = builder(stream).set_bounded().build()
    check_source(source, expected=texts(*range(40)), parallelisms=(1, 2), budgets=(9,))


@pytest.mark.long
def test_resharded_stream_keeps_the_contract(kinesis):
    source = builder(resharded(kinesis)).set_bounded().build()
    check_source(source, expected=texts(*range(60)), parallelisms=(1, 2, 3))


@pytest.mark.long
def test_nothing_to_read_keeps_the_contract(kinesis):
    check_source(builder(kinesis.new_stream(2)).set_bounded().build(), expected=[], parallelisms=(1, 2))


@pytest.mark.long
def test_much_is_read(kinesis):
    stream = kinesis.new_stream(2)
    stream.add(range(25_000))
    run = SourceRun(builder(stream).set_bounded().build(), 2, 7_000)

    assert sorted(map(int, run.run())) == list(range(25_000))


class TestStart:
    def test_latest_begins_with_what_is_put_after_the_start(self, kinesis):
        stream = kinesis.new_stream(2)
        stream.add(range(4))
        run = SourceRun(builder(stream, "LATEST").build(), 1, 100)
        stream.add(range(4, 9))
        read = epochs(run, 3)
        run.close()

        assert sorted(read) == texts(*range(4, 9))

    @pytest.mark.long
    def test_latest_of_a_job_that_failed_before_it_read_anything(self, kinesis):
        """started │ put 4 … 8 │ restored: the start is remembered, by its second"""
        stream = kinesis.new_stream()
        stream.add(range(4))
        time.sleep(1.1)
        run = SourceRun(builder(stream, "LATEST").build(), 1, 100)
        snapshot = run.snapshot()
        run.close()
        stream.add(range(4, 9))

        restored = SourceRun(builder(stream, "LATEST").build(), 1, 100, restored=snapshot)
        read = epochs(restored, 2)
        restored.close()
        assert read == texts(*range(4, 9))

    @pytest.mark.long
    @pytest.mark.parametrize("as_text", [str, lambda time_s: f"{_iso(time_s)}"], ids=["seconds", "ISO 8601"])
    def test_timestamp(self, kinesis, as_text):
        stream = kinesis.new_stream()
        stream.add(range(3))
        time.sleep(0.02)
        middle = time.time()
        time.sleep(0.02)
        stream.add(range(3, 6))

        start = {"flink.stream.initpos.timestamp": as_text(middle)}
        assert read_all(builder(stream, "AT_TIMESTAMP", **start).set_bounded().build()) == texts(3, 4, 5)

    def test_what_comes_later_is_read_too(self, kinesis):
        stream = kinesis.new_stream()
        run = SourceRun(builder(stream).build(), 1, 100)
        epochs(run, 2)
        stream.add(range(5))
        read = epochs(run, 2)
        run.close()

        assert read == texts(*range(5))


def _iso(time_s: float) -> str:
    whole, part = divmod(round(time_s * 1_000), 1_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{part:03}+00:00"


class TestResharding:
    def test_children_come_after_their_parents(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(5), key="k")
        stream.split(0)
        stream.add(range(5, 10), key="k")
        stream.merge(1, 2)
        stream.add(range(10, 15), key="k")

        run = SourceRun(builder(stream).set_bounded().build(), 3, 4)
        order: list[str] = []
        while not run.has_ended:
            run.epoch()
            order += [name[-1] for name, records in run.splits.items() if records and name[-1] not in order]
        run.close()
        found = by_shards(run)
        assert found["0"] == list(range(5))
        assert found["3"] == list(range(10, 15))
        assert order[0] == "0" and order[-1] == "3"

    def test_stream_is_resharded_while_it_is_read(self, kinesis):
        stream = kinesis.new_stream(2)
        run = SourceRun(builder(stream).build(), 2, 7)
        for step in range(6):
            stream.add(range(step * 50, step * 50 + 50))
            if step in (1, 2):
                stream.split(step - 1)
            if step == 4:
                stream.merge(2, 3)
            run.epoch()
        while not run.is_silent:
            run.epoch()
        run.close()

        read = sorted(int(value) for values in run.read for value in values)
        assert read == list(range(300))

    @pytest.mark.long
    def test_snapshot_in_the_middle_goes_on_with_children(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(10))
        run = SourceRun(builder(stream).build(), 1, 4)
        read = list(epochs(run, 1))
        snapshot = run.snapshot()
        run.close()
        stream.split(0)
        stream.add(range(10, 20))

        restored = SourceRun(builder(stream).build(), 2, 4, restored=snapshot)
        while not restored.is_silent:
            restored.epoch()
        restored.close()
        later = [value for values in restored.read for value in values]
        assert len(read) == 4
        assert sorted(map(int, read + later)) == list(range(20))

    @pytest.mark.long
    def test_latest_reads_shards_that_are_new_from_their_beginnings(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(5))
        run = SourceRun(builder(stream, "LATEST").build(), 1, 100)
        stream.split(0)
        stream.add(range(5, 15))
        while not run.is_silent:
            run.epoch()
        run.close()

        assert sorted(map(int, run.read[0])) == list(range(5, 15))

    @pytest.mark.long
    @pytest.mark.parametrize(
        "assigner",
        [
            KinesisShardAssigner.default_shard_assigner(),
            KinesisShardAssigner.uniform_shard_assigner(),
            lambda shard, subtasks: int(shard.shard_id[-1]),
        ],
        ids=["default", "uniform", "function"],
    )
    def test_assigners_share_shards_out(self, kinesis, assigner):
        stream = kinesis.new_stream(4)
        source = builder(stream).set_kinesis_shard_assigner(assigner).build()
        enumerator = source.build_enumerator(4, None)
        planned = enumerator.plan(PlanRequest(4, 100, 0)).ranges

        assert sorted(len(ranges) for ranges in planned.values()) == [1, 1, 1, 1]


class TestRecords:
    def test_metadata_and_times(self, kinesis):
        stream = kinesis.new_stream()
        before = int(time.time() * 1_000)
        stream.add(["tea"], key="drinks")
        source = builder(stream).set_deserialization_schema(Everything()).set_bounded().build()
        run = SourceRun(source, 1, 100)
        ((value, key, has_number, arrival_ms, name, shard),) = run.run()

        assert before <= arrival_ms <= before + 10_000
        assert run.splits[f"{name}/{shard}"][0][1] == arrival_ms
        assert (value, key, has_number, name, shard) == (
            b"tea",
            "drinks",
            True,
            stream.name,
            "shardId-000000000000",
        )

    def test_malformed_records(self, kinesis):
        stream = kinesis.new_stream()
        stream.add([0, 1, b"\xff", 2], key="k")
        source = builder(stream).set_bounded()
        with pytest.raises(
            MalformedRecordError, match=f"(?s)stream {stream.name}, shardId-0*, sequence number"
        ):
            read_all(source.build())

        assert read_all(source.set_malformed_policy(MalformedPolicy.skip()).build()) == texts(0, 1, 2)

    def test_dead_letters(self, kinesis):
        stream = kinesis.new_stream()
        stream.add([0, b"\xff"], key="k")
        tag = OutputTag("malformed")
        source = builder(stream).set_malformed_policy(MalformedPolicy.dead_letters(tag)).set_bounded()
        with MiniCluster(parallelism=1) as cluster:
            no_watermarks = WatermarkStrategy.no_watermarks()
            numbers = cluster.environment().from_source(source.build(), no_watermarks, "numbers")
            (letter,) = cluster.collect(numbers.get_side_output(tag))

        assert letter.message == b"\xff"


class TestReads:
    def test_shard_is_read_no_more_often_than_is_allowed(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(10))
        with AwsFront(kinesis.port) as front:
            run = self.run(stream, front, **{"flink.shard.getrecords.intervalmillis": 100_000})
            read = epochs(run, 10)
            run.close()
            asked = front.asked["GetRecords"]

        assert read == texts(*range(10))
        assert asked == 1

    def test_throttled_reads_are_repeated_less_and_less_often(self, kinesis, caplog):
        stream = kinesis.new_stream()
        stream.add(range(10))
        waits = {"flink.shard.getrecords.backoff.base": 4, "flink.shard.getrecords.backoff.max": 20}
        with AwsFront(kinesis.port) as front:
            front.react("GetRecords", *[refuse("ProvisionedThroughputExceededException")] * 4)
            run = self.run(stream, front, **waits)
            began = time.monotonic()
            while not run.read[0]:
                run.epoch()
                time.sleep(0.002)
            took_s = time.monotonic() - began
            run.close()

        assert run.read[0] == texts(*range(10))
        assert took_s >= 0.016  # the waits are 2 … 4, 3 … 6, 4.5 … 9, 6.75 … 13.5 ms
        assert caplog.text.count("it is read less often") == 1

    def test_iterator_that_has_expired_is_made_anew(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(4))
        with AwsFront(kinesis.port) as front:
            run = self.run(stream, front)
            epochs(run, 1)
            front.react("GetRecords", refuse("ExpiredIteratorException"))
            stream.add(range(4, 8))
            read = epochs(run, 3)
            run.close()

        assert read == texts(*range(8))

    @pytest.mark.long
    def test_answers_are_as_small_as_kinesis_allows(self, kinesis):
        stream = kinesis.new_stream()
        stream.add([b"%06d" % number + b"x" * 50_000 for number in range(30)], key="k")
        config = {"flink.shard.adaptivereads": "true", "flink.shard.getrecords.maxrecordcount": 10}
        limits: list[int] = []

        def note(request, ask):
            limits.append(request["Limit"])
            return ask(request)

        with AwsFront(kinesis.port) as front:
            front.react("GetRecords", *[note] * 10)
            interval = {"flink.shard.getrecords.intervalmillis": 100}
            run = self.run(stream, front, **config, **interval)
            while len(run.read[0]) < 14:
                run.epoch()
                time.sleep(0.02)
            run.close()

        assert limits[:2] == [10, 4]  # of 50 kB each there are 4 in a tenth of 2 MB

    def run(self, stream: KinesisStream, front: AwsFront, **config: Any) -> SourceRun:
        properties = {**aws_properties(front.endpoint), **config}
        return SourceRun(builder(stream, **properties).build(), 1, 100)


class TestTrouble:
    def test_server_that_is_down_is_named_without_secrets(self, kinesis):
        config = {"aws.endpoint": "http://127.0.0.1:1"}
        source = builder(KinesisStream(kinesis, "s"), **config).build()

        with pytest.raises(SourceError, match="127.0.0.1:1") as failed:
            source.build_enumerator(1, None)
        for secret in (kinesis.access_key, kinesis.secret_key):
            assert secret not in str(failed.value) + repr(source) + repr(failed.value.__cause__)

    def test_login_that_is_refused(self, kinesis):
        stream = kinesis.new_stream()
        message = f"The security token of {kinesis.access_key} is invalid."
        with AwsFront(kinesis.port) as front:
            front.react("DescribeStreamSummary", refuse("UnrecognizedClientException", message))
            config = {"aws.endpoint": front.endpoint}
            with pytest.raises(SourceError, match="Check the credentials") as failed:
                builder(stream, **config).set_patience(LONG).build().build_enumerator(1, None)
        assert kinesis.access_key not in str(failed.value)

    def test_no_stream(self, kinesis):
        with pytest.raises(SourceError, match='no Kinesis stream "nowhere"'):
            builder(KinesisStream(kinesis, "nowhere")).build().build_enumerator(1, None)

    @pytest.mark.long
    def test_stream_that_was_made_anew_or_removed(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(3))
        run = SourceRun(builder(stream).build(), 1, 100)
        epochs(run, 1)
        snapshot = run.snapshot()
        stream.remove()
        with pytest.raises(SourceError, match="no Kinesis stream"):
            run.epoch()
        run.close()
        time.sleep(1.1)  # the time when it was made has seconds
        stream.make()
        with pytest.raises(SourceError, match="made anew"):
            SourceRun(builder(stream).build(), 1, 100, restored=snapshot)

    def test_server_is_restarted_in_the_middle(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(5))
        run = SourceRun(builder(stream).set_patience(LONG).build(), 1, 100)
        epochs(run, 1)
        kinesis.stop()
        kinesis.start()
        stream.add(range(5, 8))
        read = epochs(run, 2)
        run.close()

        assert read == texts(*range(8))

    def test_server_that_is_down_at_the_start_is_waited_for(self, kinesis):
        stream = kinesis.new_stream()
        stream.add(range(5))
        kinesis.stop()
        found: list[Any] = []
        source = builder(stream).set_patience(LONG).set_bounded().build()
        reading = threading.Thread(target=lambda: found.extend(read_all(source)))
        reading.start()
        time.sleep(0.5)
        kinesis.start()  # by this thread: servers end with the thread that started them
        reading.join(30)

        assert found == texts(*range(5))


class TestConsumer:
    def consumer(self, stream: KinesisStream, **config: Any) -> FlinkKinesisConsumer:
        properties = {**stream.server.properties, "flink.stream.initpos": "TRIM_HORIZON", **config}
        return FlinkKinesisConsumer(stream.name, SimpleStringSchema(), properties)

    def test_job_reads_several_streams(self, kinesis):
        first, second = kinesis.new_stream(), kinesis.new_stream(2)
        first.add(range(5))
        second.add(range(5, 20))
        properties = {**kinesis.properties, "flink.stream.initpos": "TRIM_HORIZON"}
        consumer = FlinkKinesisConsumer([first.name, second.name], SimpleStringSchema(), properties)
        with MiniCluster(parallelism=2) as cluster:
            stream = cluster.environment().add_source(consumer)
            with stream.execute_and_collect() as results:
                read = sorted(int(next(results)) for _ in range(20))

        assert read == list(range(20))

    def test_watermarks_of_shards_are_those_of_the_strategy(self, kinesis):
        stream = kinesis.new_stream()
        consumer = self.consumer(stream, **{"flink.shard.idle.interval": 2_000})
        consumer.set_periodic_watermark_assigner(WatermarkStrategy.for_monotonous_timestamps())
        strategy = consumer.watermark_strategy()

        assert strategy.generator == WatermarkStrategy.for_monotonous_timestamps().generator
        assert strategy.idle_timeout_ms == 2_000

    def test_event_time_windows_close_as_shards_go_on(self, kinesis):
        """A shard's watermark is its last arrival; the window of what came before closes while the job runs."""
        stream = kinesis.new_stream()
        stream.add(range(3))
        consumer = self.consumer(stream, **AT_ONCE)
        consumer.set_periodic_watermark_assigner(WatermarkStrategy.for_monotonous_timestamps())
        from millstream.common import Time
        from millstream.datastream.window import TumblingEventTimeWindows

        with MiniCluster(parallelism=1) as cluster:
            counts = (
                cluster.environment()
                .add_source(consumer)
                .map(lambda value: ("all", 1))
                .key_by(lambda pair: pair[0])
                .window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
                .reduce(lambda a, b: (a[0], a[1] + b[1]))
            )
            with counts.execute_and_collect() as results:
                time.sleep(0.2)
                stream.add([9])
                total = 0
                while total < 3:
                    total += next(results)[1]

        assert total == 3


def copy(stream: KinesisStream, cluster: MiniCluster) -> list[int]:
    source = builder(stream).set_bounded().set_patience(LONG).build()
    numbers = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    return sorted(map(int, cluster.collect(numbers)))


@pytest.mark.slow
@pytest.mark.parametrize("point", [FailurePoint.BEFORE_COMMIT])
def test_job_that_fails_reads_every_record_once(kinesis, point):
    stream = kinesis.new_stream(2)
    stream.add(range(100))
    stream.split(0)
    stream.add(range(100, 200))
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 10}) as cluster:
        cluster.fail_at(point, 5)
        assert copy(stream, cluster) == list(range(200))
