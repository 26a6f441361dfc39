"""Subjects of NATS as a sink, a real server; jobs from a stream to another one whose server is killed."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from millstream.base.errors import NotSupportedError, SinkError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.nats import (
    DeliveryGuarantee,
    NatsOffsetsInitializer,
    NatsSink,
    NatsSinkBuilder,
    NatsStreamSource,
    Patience,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.nats import NatsServer, NatsStream

SHORT = Patience(total_s=0.3)
RECORDS = 4_000


def builder(stream: NatsStream, subject: str = "out") -> NatsSinkBuilder:
    new = NatsSink.builder().set_servers(stream.url).set_subject(f"{stream.name}.{subject}")
    return new.set_value_serialization_schema(SimpleStringSchema()).set_patience(SHORT)


def write(sink: NatsSink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    finally:
        writer.close()


def values_of(stream: NatsStream) -> list[str]:
    return [data.decode() for _, data, _ in stream.read()]


@pytest.mark.slow
def test_sink_keeps_the_contract(nats):
    def new_target() -> SinkTarget:
        stream = nats.new_stream()
        seen: list[str] = []

        def read() -> list[str]:
            seen.extend(data.decode() for _, data, _ in stream.read(behind=len(seen)))
            return list(seen)

        return SinkTarget(builder(stream).build(), read)

    check_sink(new_target, parallelisms=((2, 1),))


def test_subjects_headers_and_ids(nats):
    stream = nats.new_stream()
    sink = (
        builder(stream)
        .set_subject(lambda value: f"{stream.name}.{value[0]}")
        .set_headers(lambda value: {"length": str(len(value))})
        .set_message_id(lambda value: value)
    )
    write(sink.build(), "tea", "milk", "tea")

    assert stream.read() == [
        (f"{stream.name}.t", b"tea", {"length": "3", "Nats-Msg-Id": "tea"}),
        (f"{stream.name}.m", b"milk", {"length": "4", "Nats-Msg-Id": "milk"}),
    ]


def test_many_and_large_messages_stay_in_order(nats):
    stream = nats.new_stream()
    values = [str(number) for number in range(2_500)] + ["x" * 900_000] * 8
    write(builder(stream).build(), *values)

    assert values_of(stream) == values


def test_exactly_once_is_refused(nats):
    with pytest.raises(NotSupportedError, match=r"(?s)not exactly once.*2\.12"):
        builder(nats.new_stream()).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


class TestTrouble:
    def test_subject_that_no_stream_stores(self, nats):
        nowhere = NatsStream(nats, "nowhere")
        with pytest.raises(SinkError, match='no stream stores the NATS subject "nowhere.out"'):
            builder(nowhere).build().check()
        with pytest.raises(SinkError, match='no stream stores the NATS subject "nowhere.out"'):
            write(builder(nowhere).build(), "a")

    def test_stream_refuses_messages(self, nats):
        stream = nats.new_stream(max_msg_size=10)
        builder(stream).build().check()
        with pytest.raises(SinkError, match="message size exceeds maximum"):
            write(builder(stream).build(), "x" * 100)
        with pytest.raises(SinkError, match="maximum payload exceeded"):
            write(builder(stream).build(), "x" * 2_000_000)

    def test_stream_that_is_full(self, nats):
        stream = nats.new_stream(max_msgs=2, discard="new")
        with pytest.raises(SinkError, match="maximum messages exceeded"):
            write(builder(stream).build(), "a", "b", "c")

    def test_server_that_is_down_is_named_without_its_password(self, nats):
        sink = builder(nats.new_stream()).set_servers("nats://me:secret-word@127.0.0.1:1").build()
        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        assert "secret-word" not in str(failed.value) + repr(sink) + repr(failed.value.__cause__)


def copy_numbers(numbers: NatsStream, copied: NatsStream, cluster: MiniCluster) -> None:
    """Run a job that copies a stream to another one; the ids of messages keep out what comes twice."""
    environment = cluster.environment()
    source = (
        NatsStreamSource.builder()
        .set_servers(numbers.url)
        .set_stream(numbers.name)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bounded(NatsOffsetsInitializer.latest())
        .set_patience(Patience(total_s=30))
        .build()
    )
    sink = builder(copied).set_message_id(str).set_patience(Patience(total_s=30)).build()
    environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    environment.execute()


def kill_while_running(server: NatsServer, job: threading.Thread) -> int:
    """Kill it again and again; from this thread, as servers end with the thread that started them."""
    kills = 0
    job.join(0.2)
    while job.is_alive():
        server.stop()
        time.sleep(0.2)
        server.start()
        kills += 1
        job.join(0.5)
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("point", [None, FailurePoint.BEFORE_COMMIT])
def test_nothing_is_lost_or_doubled_when_server_and_slots_are_killed(nats, point):
    numbers, copied = nats.new_stream(), nats.new_stream()
    numbers.add(range(RECORDS))
    with MiniCluster(parallelism=1, options={"millstream.epoch.fixed-records": 50}) as cluster:
        if point is not None:
            cluster.fail_at(point, 5)
        job = threading.Thread(target=copy_numbers, args=(numbers, copied, cluster))
        job.start()
        assert kill_while_running(nats, job) > 0

    assert values_of(copied) == list(map(str, range(RECORDS)))
