"""Streams of Kinesis as a sink, by kinesalite; jobs from a stream to another one whose server is killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from millstream.base.errors import SinkError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.kinesis import (
    KinesisStreamsSink,
    KinesisStreamsSinkBuilder,
    KinesisStreamsSource,
    PartitionKeyGenerator,
    Patience,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.aws_front import AwsFront, refuse
from servers.kinesis import KinesisServer, KinesisStream, aws_properties

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=30)
RECORDS = 3_000


def builder(stream: KinesisStream, endpoint: str | None = None) -> KinesisStreamsSinkBuilder:
    return (
        KinesisStreamsSink.builder()
        .set_kinesis_client_properties(aws_properties(endpoint or stream.server.endpoint))
        .set_stream_name(stream.name)
        .set_serialization_schema(SimpleStringSchema())
        .set_partition_key_generator(PartitionKeyGenerator.random())
        .set_patience(SHORT)
    )


def write(sink: KinesisStreamsSink, *values: Any, subtask: int = 0) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", subtask, 1, 0, began_ms=5))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    finally:
        writer.close()


def in_part(request, ask):
    """Take every second record."""
    status, answer = ask({**request, "Records": request["Records"][::2]})
    taken = iter(answer["Records"])
    error = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"}
    told = [error if index % 2 else next(taken) for index in range(len(request["Records"]))]
    return status, {"FailedRecordCount": len(told) // 2, "Records": told}


def take_none(request, ask):
    error = {"ErrorCode": "InternalFailure", "ErrorMessage": "Internal service failure."}
    return 200, {"FailedRecordCount": len(request["Records"]), "Records": [error] * len(request["Records"])}


@pytest.mark.long
def test_sink_keeps_the_contract(kinesis):
    def new_target() -> SinkTarget:
        stream = kinesis.new_stream()
        return SinkTarget(builder(stream).set_patience(LONG).build(), stream.values)

    check_sink(new_target, parallelisms=((2, 1),))


class TestRecords:
    def test_all_are_put(self, kinesis):
        stream = kinesis.new_stream(2)
        values = [str(number) for number in range(1_100)]
        write(builder(stream).build(), *values)

        assert sorted(stream.values(), key=int) == values
        assert {shard for shard, _, _ in stream.read()} == {"shardId-000000000000", "shardId-000000000001"}

    @pytest.mark.long
    def test_large_ones_are_put_in_small_batches(self, kinesis):
        stream = kinesis.new_stream()
        values = [str(number) + "x" * 900_000 for number in range(8)]
        write(builder(stream).build(), *values)

        assert sorted(stream.values()) == values

    def test_one_batch_at_a_time_keeps_them_in_order(self, kinesis):
        stream = kinesis.new_stream()
        values = [str(number) for number in range(700)]
        sink = builder(stream).set_partition_key_generator(lambda value: "k").set_max_in_flight_requests(1)
        write(sink.set_max_batch_size(100).build(), *values)

        assert stream.values() == values

    def test_partition_keys(self, kinesis):
        stream = kinesis.new_stream(2)
        write(
            builder(stream).set_partition_key_generator(PartitionKeyGenerator.fixed()).build(),
            1,
            2,
            subtask=7,
        )
        write(builder(stream).set_partition_key_generator(lambda value: f"key {value}").build(), 3)

        assert sorted((key, data) for _, key, data in stream.read()) == [
            ("7", b"1"),
            ("7", b"2"),
            ("key 3", b"3"),
        ]

    @pytest.mark.parametrize("key", ["", "k" * 257, 7])
    def test_keys_that_are_none(self, kinesis, key):
        sink = builder(kinesis.new_stream()).set_partition_key_generator(lambda value: key).build()
        with pytest.raises(SinkError, match="partition key"):
            write(sink, "a")

    def test_record_that_is_too_large(self, kinesis):
        sink = builder(kinesis.new_stream()).set_max_record_size_in_bytes(100).build()
        with pytest.raises(SinkError, match=r"(?s)record of 150 bytes.*100"):
            write(sink, "x" * 118)  # and a key of 32


class TestTrouble:
    def test_records_that_are_not_taken_are_put_again(self, kinesis):
        stream = kinesis.new_stream()
        values = [str(number) for number in range(100)]
        with AwsFront(kinesis.port) as front:
            front.react("PutRecords", in_part, take_none, in_part)
            write(builder(stream, front.endpoint).set_patience(LONG).build(), *values)

        assert sorted(stream.values(), key=int) == values

    def test_records_that_are_not_taken_fail_the_job_if_it_says_so(self, kinesis):
        with AwsFront(kinesis.port) as front:
            front.react("PutRecords", in_part)
            sink = builder(kinesis.new_stream(), front.endpoint).set_fail_on_error(True).build()
            with pytest.raises(SinkError, match="ProvisionedThroughputExceededException: Rate exceeded"):
                write(sink, "a", "b", "c")

    def test_patience_ends_when_nothing_is_taken(self, kinesis):
        with AwsFront(kinesis.port) as front:
            front.react("PutRecords", *[take_none] * 100)
            with pytest.raises(SinkError, match="InternalFailure"):
                write(builder(kinesis.new_stream(), front.endpoint).build(), "a")

    def test_request_that_is_throttled_is_repeated(self, kinesis):
        stream = kinesis.new_stream()
        with AwsFront(kinesis.port) as front:
            front.react("PutRecords", *[refuse("ProvisionedThroughputExceededException")] * 2)
            write(builder(stream, front.endpoint).set_patience(LONG).build(), "a")
        assert stream.values() == ["a"]

    def test_no_stream(self, kinesis):
        sink = builder(KinesisStream(kinesis, "nowhere")).build()
        with pytest.raises(SinkError, match=r"(?s)ResourceNotFoundException.*make it before the job starts"):
            sink.check()
        with pytest.raises(SinkError, match="ResourceNotFoundException"):
            write(sink, "a")

    def test_who_may_not_look_may_write(self, kinesis):
        stream = kinesis.new_stream()
        with AwsFront(kinesis.port) as front:
            front.react("DescribeStreamSummary", refuse("AccessDeniedException"))
            builder(stream, front.endpoint).build().check()
            front.react("PutRecords", refuse("AccessDeniedException", "may not"))
            with pytest.raises(
                SinkError, match=r"(?s)AccessDeniedException: may not.*Have somebody allow it"
            ):
                write(builder(stream, front.endpoint).build(), "a")

    def test_server_that_is_down_is_named_without_secrets(self, kinesis):
        sink = builder(KinesisStream(kinesis, "s"), "http://127.0.0.1:1").build()
        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        for secret in (kinesis.access_key, kinesis.secret_key):
            assert secret not in str(failed.value) + repr(sink) + repr(failed.value.__cause__)


def copy_numbers(numbers: KinesisStream, copied: KinesisStream, cluster: MiniCluster) -> None:
    """Run a job that copies a stream to another one."""
    config = {
        **numbers.server.properties,
        "flink.stream.initpos": "TRIM_HORIZON",
        "flink.shard.getrecords.intervalmillis": 0,
    }
    source = (
        KinesisStreamsSource.builder()
        .set_stream_names(numbers.name)
        .set_source_config(config)
        .set_deserialization_schema(SimpleStringSchema())
        .set_bounded()
        .set_patience(LONG)
        .build()
    )
    environment = cluster.environment()
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stream.sink_to(builder(copied).set_patience(LONG).build())
    environment.execute()


def kill_while_running(server: KinesisServer, job: threading.Thread) -> int:
    """Kill it again and again; from this thread, as servers end with the thread that started them."""
    kills = 0
    job.join(0.2)
    while job.is_alive():
        server.stop()
        time.sleep(0.2)
        server.start()
        kills += 1
        job.join(1)
    return kills


@pytest.mark.long
@pytest.mark.parametrize("point", [None, FailurePoint.BEFORE_COMMIT, FailurePoint.AFTER_CHECKPOINT])
def test_nothing_is_lost_when_server_and_slots_are_killed(kinesis, point):
    numbers, copied = kinesis.new_stream(2), kinesis.new_stream(2)
    numbers.add(range(RECORDS // 2))
    numbers.split(0)
    numbers.add(range(RECORDS // 2, RECORDS))
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 50}) as cluster:
        if point is not None:
            cluster.fail_at(point, 5)
        job = threading.Thread(target=copy_numbers, args=(numbers, copied, cluster))
        job.start()
        assert kill_while_running(kinesis, job) > 0

    counted = Counter(map(int, copied.values()))
    assert sorted(counted) == list(range(RECORDS))
