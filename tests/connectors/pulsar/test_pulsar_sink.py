"""Topics of Pulsar as a sink, a real server; jobs from a topic to another one whose server is killed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from millstream.base.errors import SinkError
from millstream.common import Duration, WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.pulsar import (
    DeliveryGuarantee,
    MessageDelayer,
    Patience,
    PulsarSink,
    PulsarSinkBuilder,
    PulsarSource,
    StopCursor,
    TopicRoutingMode,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.pulsar import PulsarServer, PulsarTopic

pytestmark = pytest.mark.long

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=240)
RECORDS = 4_000


def builder(topic: PulsarTopic) -> PulsarSinkBuilder:
    new = PulsarSink.builder().set_service_url(topic.server.url).set_topics(topic.name).set_patience(LONG)
    new.set_admin_url(topic.server.admin_url).set_config("pulsar.client.operationTimeoutMs", 2_000)
    return new.set_serialization_schema(SimpleStringSchema())


def exactly_once(topic: PulsarTopic, directory: Path) -> PulsarSinkBuilder:
    new = builder(topic).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    return new.set_staging_directory(str(directory))


def write(sink: PulsarSink, *values: Any, timestamps: list[int] | None = None) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
    writer.open()
    try:
        writer.write(Rows(list(values), timestamps), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    finally:
        writer.close()


def test_sink_that_is_at_least_once_keeps_the_contract(pulsar):
    def new_target() -> SinkTarget:
        topic = pulsar.new_topic()
        return SinkTarget(builder(topic).build(), topic.read)

    check_sink(new_target, parallelisms=((2, 1),))


@pytest.mark.timeout(600)
def test_sink_that_is_exactly_once_keeps_the_contract(pulsar, tmp_path_factory):
    def new_target() -> SinkTarget:
        topic, directory = pulsar.new_topic(partitions=2), tmp_path_factory.mktemp("staged")
        sink = exactly_once(topic, directory).build()
        return SinkTarget(sink, topic.read, staged=lambda: list(directory.glob("*.waiting")))

    check_sink(new_target, key=str, parallelisms=((2, 1),))


def test_keys_properties_and_times(pulsar):
    topic = pulsar.new_topic(partitions=3)
    sink = (
        builder(topic)
        .set_key(lambda value: value[0])
        .set_message_properties(lambda value: {"length": len(value)})
        .set_topic_routing_mode(TopicRoutingMode.MESSAGE_KEY_HASH)
        .set_producer_name("tills")
    )
    write(sink.build(), "tea", "milk", "toast", timestamps=[1, 2, 3])

    found = {each.data(): each for each in topic.messages()}
    assert found[b"tea"].topic_name() == found[b"toast"].topic_name()
    milk = found[b"milk"]
    assert (milk.partition_key(), milk.properties(), milk.event_timestamp()) == ("m", {"length": "4"}, 2)
    assert milk.producer_name().startswith("tills-")


def test_router_and_several_topics(pulsar):
    first, second = pulsar.new_topic(), pulsar.new_topic()
    sink = builder(first).set_topics([first.name, second.name])
    write(sink.build(), *"abcd")
    write(sink.set_topic_router(lambda value, key, partitions: partitions[value == "f"]).build(), *"ef")

    assert (first.read(), second.read()) == (["a", "c", "e"], ["b", "d", "f"])


def test_many_and_large_messages_stay_in_order(pulsar):
    topic = pulsar.new_topic()
    values = [str(number) for number in range(12_000)] + ["x" * 900_000] * 8
    write(builder(topic).set_config("pulsar.producer.compressionType", "LZ4").build(), *values)

    assert topic.read() == values


def test_delayed_messages(pulsar):
    topic = pulsar.new_topic()
    write(builder(topic).delay_sending_message(MessageDelayer.fixed(Duration.of_seconds(1))).build(), "a")

    assert topic.read() == ["a"]  # readers do not wait


class TestTrouble:
    def test_topics_that_are_not_there(self, pulsar):
        nowhere = PulsarTopic(pulsar, "persistent://public/nowhere/a")
        with pytest.raises(SinkError, match="TopicNotFound"):
            builder(nowhere).build().check()
        with pytest.raises(SinkError, match="TopicNotFound"):
            write(builder(nowhere).build(), "a")

    def test_topic_that_does_not_deduplicate(self, pulsar, tmp_path):
        namespace = pulsar.new_namespace(deduplication=False)
        with pytest.raises(SinkError, match="does not deduplicate"):
            exactly_once(pulsar.new_topic(0, namespace), tmp_path).build().check()
        exactly_once(pulsar.new_topic(), tmp_path).build().check()

    @pytest.mark.parametrize("guarantee", ["at least once", "exactly once"])
    def test_message_that_is_too_large(self, pulsar, tmp_path, guarantee):
        topic = pulsar.new_topic()
        sink = builder(topic) if guarantee == "at least once" else exactly_once(topic, tmp_path)
        with pytest.raises(SinkError, match="MessageTooBig"):
            writer = sink.build().build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
            writer.open()
            writer.write(Rows(["a", "x" * 6_000_000, "b"]), watermark_ms=0, now_ms=0)
            committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
            committer = sink.build().build_committer()
            assert committer is not None
            committer.commit(writer.number_committables(committables, 1))
        assert "b" not in topic.read()

    def test_server_that_is_down_is_named_without_its_token(self):
        sink = (
            PulsarSink.builder()
            .set_service_url("pulsar://127.0.0.1:1")
            .set_topics("a")
            .set_serialization_schema(SimpleStringSchema())
            .set_authentication("token", "token:secret-word")
            .set_config("pulsar.client.operationTimeoutMs", 1_000)
            .set_patience(SHORT)
            .build()
        )
        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        assert "secret-word" not in str(failed.value) + repr(sink) + repr(failed.value.__cause__)


def copy_numbers(numbers: PulsarTopic, sink: PulsarSink, cluster: MiniCluster) -> None:
    """Run a job that copies a topic to another one."""
    environment = cluster.environment()
    source = (
        PulsarSource.builder()
        .set_service_url(numbers.server.url)
        .set_subscription_name("copy")
        .set_topics(numbers.name)
        .set_deserialization_schema(SimpleStringSchema())
        .set_bounded_stop_cursor(StopCursor.latest())
        .set_config("pulsar.client.operationTimeoutMs", 2_000)
        .set_patience(LONG)
        .build()
    )
    environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    environment.execute()


def kill_while_running(server: PulsarServer, job: threading.Thread, most: int = 3) -> int:
    """Kill it again and again; from this thread, as servers end with the thread that started them."""
    kills = 0
    job.join(1)
    while job.is_alive() and kills < most:
        server.stop()
        time.sleep(0.2)
        server.start()
        kills += 1
        job.join(2)
    job.join()
    return kills


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", [None, FailurePoint.BEFORE_COMMIT, FailurePoint.AFTER_COMMIT])
def test_nothing_is_lost_or_doubled_when_server_and_slots_are_killed(pulsar, tmp_path, point):
    numbers, copied = pulsar.new_topic(2), pulsar.new_topic(2)
    numbers.add(range(RECORDS // 2))
    numbers.add(range(RECORDS // 2, RECORDS), partition=1, batched=True)
    sink = exactly_once(copied, tmp_path).build()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 50}) as cluster:
        if point is not None:
            cluster.fail_at(point, 5)
        job = threading.Thread(target=copy_numbers, args=(numbers, sink, cluster))
        job.start()
        assert kill_while_running(pulsar, job) > 0

    assert sorted(map(int, copied.read())) == list(range(RECORDS))


@pytest.mark.timeout(400)
def test_nothing_is_lost_at_least_once_when_the_server_is_killed(pulsar):
    numbers, copied = pulsar.new_topic(), pulsar.new_topic()
    numbers.add(range(RECORDS))
    with MiniCluster(parallelism=1, options={"millstream.epoch.fixed-records": 20}) as cluster:
        job = threading.Thread(target=copy_numbers, args=(numbers, builder(copied).build(), cluster))
        job.start()
        assert kill_while_running(pulsar, job) > 0

    assert sorted(set(map(int, copied.read()))) == list(range(RECORDS))
