"""Topics of Pulsar as a source, from a real server."""

from __future__ import annotations

import time
from typing import Any

import pulsar as client_library
import pytest

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream import OutputTag
from millstream.datastream.connectors.pulsar import (
    MalformedPolicy,
    Patience,
    PulsarMessage,
    PulsarSource,
    PulsarSourceBuilder,
    RangeGenerator,
    StartCursor,
    StopCursor,
)
from millstream.testing import MiniCluster, SourceRun, check_source
from servers.pulsar import PulsarServer, PulsarTopic

pytestmark = pytest.mark.long

LATEST = StopCursor.latest()
SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=60)
NEW = "pulsar.source.partitionDiscoveryIntervalMs"


def at(server: PulsarServer) -> PulsarSourceBuilder:
    new = PulsarSource.builder().set_service_url(server.url).set_subscription_name("job")
    new.set_config("pulsar.client.operationTimeoutMs", 2_000).set_patience(LONG)
    return new.set_deserialization_schema(SimpleStringSchema())


def builder(topic: PulsarTopic) -> PulsarSourceBuilder:
    return at(topic.server).set_topics(topic.name)


def texts(*numbers: int) -> list[str]:
    return list(map(str, numbers))


def read_all(source: PulsarSource, restored: Any = None) -> list[Any]:
    return SourceRun(source, 1, 1_000, restored=restored).run()


def test_bounded_source_keeps_the_contract(pulsar):
    topic = pulsar.new_topic(partitions=3)
    topic.add(range(20))
    topic.add(range(20, 45), batched=True)
    topic.add(range(45, 60), partition=1)

    source = builder(topic).set_bounded_stop_cursor(LATEST).build()
    check_source(source, expected=texts(*range(60)), parallelisms=(1, 2))


def test_unbounded_source_with_keys_keeps_the_contract(pulsar):
    topic = pulsar.new_topic(partitions=2)
    for number in range(0, 80, 10):
        topic.add(range(number, number + 10), partition=number % 20 // 10, partition_key="ab"[number // 40])
    source = builder(topic).set_range_generator(RangeGenerator.fixed_key(keys="b")).build()

    check_source(source, expected=texts(*range(40, 80)), parallelisms=(1, 2), budgets=(3, 1_000))


def test_nothing_to_read(pulsar):
    assert read_all(builder(pulsar.new_topic(2)).set_bounded_stop_cursor(LATEST).build()) == []


def test_large_messages_come_in_small_batches(pulsar):
    topic = pulsar.new_topic()
    topic.add([b"x" * 200_000] * 100)
    sizes: list[int] = []
    run = SourceRun(builder(topic).set_bounded_stop_cursor(LATEST).build(), 1, 1_000)
    read = run.run()
    sizes = [len(each) for each in read]

    assert sizes == [200_000] * 100


class TestCursors:
    """alone  0 1 2 3 4   in a batch  5 6 7 8 9"""

    @pytest.fixture
    def topic(self, pulsar) -> PulsarTopic:
        topic: PulsarTopic = pulsar.new_topic()
        self.ids = topic.add(range(5)) + topic.add(range(5, 10), batched=True)
        return topic

    def start(self, topic: PulsarTopic, cursor: StartCursor) -> list[str]:
        return read_all(builder(topic).set_start_cursor(cursor).set_bounded_stop_cursor(LATEST).build())

    def stop(self, topic: PulsarTopic, cursor: StopCursor) -> list[str]:
        return read_all(builder(topic).set_unbounded_stop_cursor(cursor).build())

    def test_start(self, topic):
        assert self.start(topic, StartCursor.earliest()) == texts(*range(10))
        assert self.start(topic, StartCursor.latest()) == []
        assert self.start(topic, StartCursor.from_publish_time(0)) == texts(*range(10))

    @pytest.mark.parametrize("number", [0, 2, 4, 5, 7, 9])
    def test_message_ids(self, topic, number):
        message_id = self.ids[number]
        assert self.start(topic, StartCursor.from_message_id(message_id)) == texts(*range(number, 10))
        behind = StartCursor.from_message_id(message_id, inclusive=False)
        assert self.start(topic, behind) == texts(*range(number + 1, 10))
        assert self.stop(topic, StopCursor.at_message_id(message_id)) == texts(*range(number))
        assert self.stop(topic, StopCursor.after_message_id(message_id)) == texts(*range(number + 1))

    def test_publish_times(self, topic):
        time.sleep(0.02)
        middle = int(time.time() * 1_000)
        time.sleep(0.02)
        topic.add(range(10, 13))

        assert self.start(topic, StartCursor.from_publish_time(middle)) == texts(10, 11, 12)
        assert self.stop(topic, StopCursor.at_publish_time(middle)) == texts(*range(10))

    def test_event_times(self, pulsar):
        topic = pulsar.new_topic()
        for number in range(5):
            topic.add([number], event_timestamp=100 + number)

        assert self.stop(topic, StopCursor.at_event_time(102)) == texts(0, 1)
        assert self.stop(topic, StopCursor.after_event_time(102)) == texts(0, 1, 2)

    def test_what_comes_later_is_read_too(self, topic):
        run = SourceRun(builder(topic).set_start_cursor(StartCursor.latest()).build(), 1, 100)
        run.epoch()
        topic.add(range(10, 13))
        run.epoch()
        run.close()

        assert run.read[0] == texts(10, 11, 12)


class TestTopics:
    def test_new_partitions_and_topics_are_found(self, pulsar):
        namespace = pulsar.new_namespace()
        first = pulsar.new_topic(1, namespace)
        first.add(range(3))
        source = at(pulsar).set_admin_url(pulsar.admin_url).set_config(NEW, 1)
        run = SourceRun(source.set_topic_pattern(f"persistent://{namespace}/t.*").build(), 2, 100)
        run.epoch()
        first.extend(2)
        second = pulsar.new_topic(0, namespace)
        first.add(range(3, 6), partition=1)
        second.add(range(6, 9))
        for _ in range(3):
            run.epoch()
        run.close()

        assert sorted(run.read[0] + run.read[1]) == texts(*range(9))

    def test_pattern_that_nothing_fits(self, pulsar):
        source = at(pulsar).set_admin_url(pulsar.admin_url).set_topic_pattern("nothing-.*")
        with pytest.raises(SourceError, match="no Pulsar topic like"):
            source.set_bounded_stop_cursor(LATEST).build().build_enumerator(1, None)

    def test_single_partition(self, pulsar):
        topic = pulsar.new_topic(2)
        topic.add(range(3))
        topic.add(range(3, 6), partition=1)
        source = at(pulsar).set_topics(topic.partitions[1]).set_bounded_stop_cursor(LATEST)

        assert read_all(source.build()) == texts(3, 4, 5)


class TestRecords:
    def test_metadata_and_times(self, pulsar):
        topic = pulsar.new_topic()
        before = int(time.time() * 1_000)
        (message_id,) = topic.add(
            ["tea"], partition_key="k", ordering_key="o", properties={"from": "Assam"}, event_timestamp=77
        )
        topic.add(["milk"])
        run = SourceRun(builder(topic).set_with_metadata().set_bounded_stop_cursor(LATEST).build(), 1, 100)
        tea, milk = run.run()

        assert tea == PulsarMessage(
            "tea",
            "k",
            "o",
            {"from": "Assam"},
            topic.name,
            message_id,
            tea.publish_time_ms,
            77,
            tea.producer_name,
        )
        assert before <= tea.publish_time_ms <= milk.publish_time_ms <= before + 60_000
        assert (milk.key, milk.ordering_key, milk.properties, milk.event_time_ms) == (None, None, {}, None)
        assert [stamp for _, stamp in run.splits[topic.name]] == [77, milk.publish_time_ms]

    def test_malformed_messages(self, pulsar):
        topic = pulsar.new_topic()
        topic.add([0, b"\xff", 1])
        source = builder(topic).set_bounded_stop_cursor(LATEST)
        with pytest.raises(MalformedRecordError, match=rf"Pulsar topic {topic.name}, message \d+:1"):
            read_all(source.build())

        assert read_all(source.set_malformed_policy(MalformedPolicy.skip()).build()) == texts(0, 1)

    def test_dead_letters(self, pulsar):
        topic = pulsar.new_topic()
        topic.add([0, b"\xff"])
        tag = OutputTag("malformed")
        source = builder(topic).set_malformed_policy(MalformedPolicy.dead_letters(tag))
        with MiniCluster(parallelism=1) as cluster:
            no_watermarks = WatermarkStrategy.no_watermarks()
            bounded = source.set_bounded_stop_cursor(LATEST).build()
            numbers = cluster.environment().from_source(bounded, no_watermarks, "numbers")
            (letter,) = cluster.collect(numbers.get_side_output(tag))

        assert letter.message == b"\xff"


class TestSubscription:
    def test_it_follows_checkpoints_and_keeps_the_last_message(self, pulsar):
        topic = pulsar.new_topic()
        topic.add(range(5))
        enumerator = builder(topic).build().build_enumerator(1, None)
        begin = topic.cursor("job")
        enumerator.close()
        assert begin is not None and begin.endswith(":-1")
        with MiniCluster(parallelism=1, options={"millstream.epoch.fixed-records": 2}) as cluster:
            source = builder(topic).set_bounded_stop_cursor(LATEST).build()
            numbers = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
            assert sorted(cluster.collect(numbers)) == texts(*range(5))

        cursor = topic.cursor("job")
        assert cursor is not None and cursor.endswith(":3")

    def test_messages_that_are_gone_are_missed(self, pulsar, caplog):
        topic = pulsar.new_topic()
        topic.add(range(5))
        run = SourceRun(builder(topic).build(), 1, 1_000)
        run.epoch()
        snapshot = run.snapshot()
        run.close()
        topic.remove()
        pulsar.admin("PUT", topic.path)
        topic.add(range(5, 9))

        with pytest.raises(SourceError, match="may have been lost: message"):
            SourceRun(builder(topic).build(), 1, 1_000, restored=snapshot).epoch()
        warning = builder(topic).set_config("pulsar.source.verifyInitialOffsets", "WARN_ON_MISMATCH")
        run = SourceRun(warning.build(), 1, 1_000, restored=snapshot)
        run.epoch()
        run.close()
        assert run.read[0] == texts(5, 6, 7, 8)
        assert "may have been lost" in caplog.text

    def test_subscription_of_somebody_else(self, pulsar):
        topic = pulsar.new_topic()

        def look(client: Any) -> None:
            client.subscribe(topic.name, "job", client_library.ConsumerType.Exclusive)
            with pytest.raises(SourceError, match=r"(?s)ConsumerBusy.*one of its own"):
                builder(topic).set_patience(SHORT).build().build_enumerator(1, None)

        pulsar.run(look)


class TestTrouble:
    def test_server_that_is_down_is_named_without_its_token(self):
        source = (
            PulsarSource.builder()
            .set_service_url("pulsar://127.0.0.1:1")
            .set_subscription_name("job")
            .set_topics("a")
            .set_deserialization_schema(SimpleStringSchema())
            .set_authentication("token", "token:secret-word")
            .set_config("pulsar.client.operationTimeoutMs", 1_000)
            .set_patience(SHORT)
            .build()
        )
        with pytest.raises(SourceError, match="127.0.0.1:1") as failed:
            source.build_enumerator(1, None)
        assert "secret-word" not in str(failed.value) + repr(source) + repr(failed.value.__cause__)

    def test_topics_that_are_not_there(self, pulsar):
        for name in ("persistent://nobody/default/a", "persistent://public/nowhere/a"):
            with pytest.raises(SourceError, match="TopicNotFound"):
                at(pulsar).set_topics(name).build().build_enumerator(1, None)
        closed = pulsar.new_namespace(autoTopicCreation={"allowAutoTopicCreation": False})
        with pytest.raises(SourceError, match="TopicNotFound"):
            at(pulsar).set_topics(f"{closed}/a").build().build_enumerator(1, None)

    def test_server_is_restarted_in_the_middle(self, pulsar):
        topic = pulsar.new_topic()
        topic.add(range(5))
        run = SourceRun(builder(topic).build(), 1, 100)
        run.epoch()
        pulsar.stop()
        pulsar.start()
        topic.add(range(5, 8))
        while len(run.read[0]) < 8:
            run.epoch()
        run.close()

        assert run.read[0] == texts(*range(8))

    def test_server_that_is_silent_is_missed(self, pulsar):
        topic = pulsar.new_topic()
        topic.add(range(5))
        run = SourceRun(builder(topic).set_patience(SHORT).build(), 1, 100)
        run.epoch()
        pulsar.pause()
        try:
            with pytest.raises(SourceError, match="looking for the end"):
                run.epoch()
        finally:
            pulsar.go_on()
            run.close()
