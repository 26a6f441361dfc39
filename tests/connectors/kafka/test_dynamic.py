"""Streams over two clusters: read together, clusters and topics that come, go and come back, checkpoints, failures."""

from __future__ import annotations

import itertools
import threading
import time
import uuid

import pytest

from connectors.kafka.streams_in_file import Streams
from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.common import SimpleStringSchema, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction
from millstream.datastream.connectors.dynamic_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    KafkaMetadataService,
    KafkaRecordDeserializationSchema,
    KafkaStream,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer
from millstream.testing import FailurePoint, MiniCluster, check_source
from millstream.testing.source_run import SourceRun

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def name():
    return f"topic-{uuid.uuid4().hex[:12]}"


def numbers(count, start=0):
    return [f"{place}" for place in range(start, start + count)]


def source(
    service, *, ids=("clicks",), pattern=None, unbounded=False, starts=EARLIEST, stops=LATEST, **properties
):
    builder = DynamicKafkaSource.builder().set_kafka_metadata_service(service)
    builder.set_value_only_deserializer(SimpleStringSchema()).set_starting_offsets(starts)
    builder = builder.set_stream_pattern(pattern) if pattern else builder.set_stream_ids(set(ids))
    if unbounded:
        builder.set_property("stream-metadata-discovery-interval-ms", "50")
    else:
        builder.set_bounded(stops)
    return builder.set_properties({key.replace("_", "."): each for key, each in properties.items()}).build()


@pytest.fixture
def both(kafka, other_kafka):
    """A topic of each cluster, under one name, with two partitions in the first and one in the second."""
    topic = name()
    kafka.create_topic(topic, 2)
    other_kafka.create_topic(topic, 1)
    for partition in range(2):
        kafka.produce(topic, numbers(20, 20 * partition), partition=partition)
    other_kafka.produce(topic, numbers(20, 40))
    return topic


def values(run):
    return sorted(itertools.chain.from_iterable(run.read), key=int)


def until(run, wanted, seconds=20):
    """Run epochs until that many records have come."""
    deadline = time.monotonic() + seconds
    while len(run.records) < wanted:
        assert time.monotonic() < deadline, run.read
        run.epoch(int(time.time() * 1000))
        time.sleep(0.01)


# One after the other


@pytest.mark.parametrize(
    ("parallelisms", "budgets"), [((3,), (7,)), pytest.param((1, 2, 4), (3, 100), marks=pytest.mark.long)]
)
def test_stream_over_two_clusters_keeps_the_contract(streams, both, parallelisms, budgets):
    streams.put(clicks={"west": [both], "east": [both]}, other={"east": ["not-there"]})
    check_source(source(streams), expected=numbers(60), parallelisms=parallelisms, budgets=budgets)


@pytest.mark.long
def test_stream_without_end_keeps_the_contract(streams, both):
    streams.put(clicks={"west": [both], "east": [both]})
    check_source(source(streams, unbounded=True), expected=numbers(60), parallelisms=(2,), budgets=(7,))


def test_partitions_of_clusters_are_splits_with_names_of_their_own(streams, both):
    streams.put(clicks={"west": [both], "east": [both]})
    run = SourceRun(source(streams), 2, 1_000)
    run.run()
    assert set(run.splits) == {f"west/{both}-0", f"west/{both}-1", f"east/{both}-0"}
    assert values(run) == numbers(60)


def test_cluster_that_comes_later_is_read_from_its_first_record(streams, both):
    streams.put(clicks={"west": [both]})
    run = SourceRun(source(streams, unbounded=True, starts=EARLIEST), 2, 1_000)
    until(run, 40)
    streams.put(clicks={"west": [both], "east": [both]})
    until(run, 60)
    assert values(run) == numbers(60)


def test_what_comes_later_is_not_skipped_by_a_source_that_begins_with_the_latest(
    streams, both, kafka, other_kafka
):
    streams.put(clicks={"west": [both]})
    run = SourceRun(source(streams, unbounded=True, starts=LATEST), 2, 1_000)
    run.epoch()
    kafka.produce(both, ["100"])
    streams.put(clicks={"west": [both], "east": [both]})
    until(run, 21)
    assert values(run) == [*numbers(20, 40), "100"]


def test_topic_that_moves_to_another_cluster_is_read_on_there_and_back(streams, both, kafka, other_kafka):
    streams.put(clicks={"west": [both]})
    run = SourceRun(source(streams, unbounded=True), 2, 1_000)
    until(run, 40)
    streams.put(clicks={"east": [both]})
    until(run, 60)
    kafka.produce(both, numbers(5, 60))  # nobody reads it there now
    other_kafka.produce(both, numbers(5, 65))
    until(run, 65)
    assert values(run) == [*numbers(60), *numbers(5, 65)]
    streams.put(clicks={"east": [both], "west": [both]})  # it goes on where it was
    until(run, 70)
    assert values(run) == numbers(70)
    assert run.splits.keys() >= {f"west/{both}-0", f"west/{both}-0#1", f"east/{both}-0"}


def test_topic_that_is_added_to_a_cluster_and_taken_out_of_it(streams, both, kafka):
    more = kafka.create_topic(name())
    kafka.produce(more, numbers(5, 60))
    streams.put(clicks={"west": [both]})
    run = SourceRun(source(streams, unbounded=True, partition_discovery_interval_ms="-1"), 2, 1_000)
    until(run, 40)
    streams.put(clicks={"west": [both, more]})
    until(run, 45)
    streams.put(clicks={"west": [more]})
    ended = {f"west/{both}-0", f"west/{both}-1"}
    deadline = time.monotonic() + 20
    while ended:
        assert time.monotonic() < deadline
        plan = run.epoch(int(time.time() * 1000))
        for each in itertools.chain.from_iterable(plan.ranges.values()):
            if each.split.settings is None:
                ended.discard(each.split_id)
    kafka.produce(both, ["1000"])
    kafka.produce(more, ["65"])
    until(run, 46)
    assert values(run) == numbers(40) + numbers(6, 60)


def test_snapshot_goes_on_with_other_clusters_than_it_was_made_of(streams, both):
    streams.put(clicks={"west": [both]})
    declared = source(streams, unbounded=True)
    first = SourceRun(declared, 2, 10)
    first.epoch()
    read = len(first.records)
    assert 0 < read < 40
    streams.put(clicks={"east": [both]})
    second = SourceRun(declared, 3, 10, restored=first.snapshot())
    until(second, 20)
    streams.put(clicks={"east": [both], "west": [both]})
    third = SourceRun(declared, 1, 10, restored=second.snapshot())
    until(third, 40 - read)
    assert sorted(values(first) + values(second) + values(third), key=int) == numbers(60)


def test_streams_by_pattern_and_later_ones(streams, both, kafka, other_kafka):
    streams.put(clicks={"west": [both]}, other={"east": [both]})
    run = SourceRun(source(streams, unbounded=True, pattern="^clicks"), 1, 1_000)
    until(run, 40)
    streams.put(**{"clicks": {"west": [both]}, "clicks-2": {"east": [both]}})
    until(run, 60)
    assert values(run) == numbers(60)


def test_single_cluster_has_its_topics_as_streams(kafka, both):
    service = SingleClusterTopicMetadataService("west", {"bootstrap.servers": kafka.bootstrap})
    run = SourceRun(source(service, ids=(both,)), 2, 1_000)
    run.run()
    assert values(run) == numbers(40)
    found = service.describe_streams({both, "not-there"})
    assert found == {
        both: KafkaStream(both, {"west": ClusterMetadata({both}, {"bootstrap.servers": kafka.bootstrap})})
    }
    assert both in {each.stream_id for each in service.get_all_streams()}
    assert (service.is_cluster_active("west"), service.is_cluster_active("east")) == (True, False)


# Jobs


def test_job_that_fails_at_every_place_gives_each_record_once(streams, both):
    streams.put(clicks={"west": [both], "east": [both]})
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 10}) as cluster:
        for point in FailurePoint:
            cluster.fail_at(point, 2)
        stream = cluster.environment().from_source(source(streams), NO_WATERMARKS, "clicks").uid("clicks")
        assert stream.get_type() == Types.STRING()
        assert sorted(cluster.collect(stream), key=int) == numbers(60)
        assert len(cluster.failures) >= 3


def test_offsets_are_committed_in_each_cluster(streams, both, kafka, other_kafka):
    streams.put(clicks={"west": [both], "east": [both]})
    declared = source(streams, group_id=f"group-{both}")
    with MiniCluster() as cluster:
        stream = cluster.environment().from_source(declared, NO_WATERMARKS, "clicks")
        assert len(cluster.collect(stream)) == 60
    assert kafka.committed(f"group-{both}", both) == {0: 20, 1: 20}
    assert other_kafka.committed(f"group-{both}", both) == {0: 20}


def test_watermark_is_not_held_back_by_a_cluster_that_was_taken_out(streams, both, kafka, other_kafka):
    """Event time of the stream is the minimum over its partitions, also when one is not read any more."""
    topic = name()
    for server in (kafka, other_kafka):
        server.create_topic(topic)
    other_kafka.produce(topic, ["1"], timestamps=[1_000])
    kafka.produce(topic, ["2"], timestamps=[50_000])
    streams.put(clicks={"west": [topic], "east": [topic]})
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with MiniCluster() as cluster:
        stream = cluster.environment().from_source(source(streams, unbounded=True), strategy, "clicks")
        ends = stream.key_by(lambda _: 0).process(TimerAt(2_000))
        with ends.execute_and_collect() as results:
            threading.Timer(1.0, lambda: streams.put(clicks={"west": [topic]})).start()
            assert next(iter(results)) == "fired"


@pytest.mark.long
def test_cluster_that_is_taken_out_may_be_stopped(streams, both, kafka, other_kafka):
    streams.put(clicks={"west": [both], "east": [both]})
    declared = source(streams, unbounded=True, default_api_timeout_ms="3000", group_id=f"group-{both}")
    with MiniCluster(parallelism=2) as cluster:
        stream = cluster.environment().from_source(declared, NO_WATERMARKS, "clicks")
        with stream.execute_and_collect() as results:
            assert sorted(itertools.islice(results, 60), key=int) == numbers(60)
            streams.put(clicks={"west": [both]})
            time.sleep(1)
            other_kafka.stop()
            try:
                time.sleep(6)
                kafka.produce(both, ["60"])
                assert next(iter(results)) == "60"
            finally:
                other_kafka.start()
        assert not cluster.failures


@pytest.mark.long
def test_cluster_that_is_away_and_not_active_is_no_error(streams, both, other_kafka, tmp_path):
    streams.put(clicks={"west": [both], "east": [both]})
    passive = Passive(streams.path, streams.servers)
    declared = source(passive, unbounded=True, default_api_timeout_ms="1000")
    run = SourceRun(declared, 1, 1_000)
    until(run, 60)
    other_kafka.stop()
    try:
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            run.epoch(int(time.time() * 1000))
            time.sleep(0.05)
    finally:
        other_kafka.start()


class Passive(Streams):
    def is_cluster_active(self, cluster_id):
        return cluster_id != "east"


class TimerAt(KeyedProcessFunction):
    def __init__(self, timestamp):
        self.timestamp = timestamp

    def process_element(self, value, ctx):
        if value == "1":
            ctx.timer_service().register_event_time_timer(self.timestamp)
        return ()

    def on_timer(self, timestamp, ctx):
        yield "fired"


# What goes wrong


class Failing(KafkaMetadataService):
    def get_all_streams(self):
        raise OSError("the shop is closed")


class Several(KafkaStreamSubscriber):
    def get_subscribed_streams(self, kafka_metadata_service):
        return {
            each for each in kafka_metadata_service.get_all_streams() if len(each.cluster_metadata_map) > 1
        }


def test_service_that_fails_says_so():
    with pytest.raises(
        SourceError, match="metadata service of Kafka streams Failing failed: OSError: the shop"
    ):
        SourceRun(source(Failing()), 1, 10)


def test_failures_of_the_service_are_counted(streams, both):
    streams.put(clicks={"west": [both]})
    declared = source(streams, unbounded=True, **{"stream-metadata-discovery-failure-threshold": "3"})
    run = SourceRun(declared, 1, 1_000)
    until(run, 40)
    streams.path.write_text("no json")
    with pytest.raises(SourceError, match="Streams failed: JSONDecodeError"):
        until(run, 1_000)
    assert run._enumerator._failures == 3


def test_streams_that_are_not_there_are_waited_for_only_if_they_are_looked_for(streams, both):
    streams.put(other={"west": [both]})
    with pytest.raises(SourceError, match="no stream is named clicks"):
        SourceRun(source(streams), 1, 10)
    run = SourceRun(source(streams, unbounded=True), 1, 1_000)
    run.epoch()
    streams.put(clicks={"west": [both]})
    until(run, 40)


def test_topic_that_is_not_there_is_named(streams):
    streams.put(clicks={"west": ["not-there"]})
    with pytest.raises(SourceError, match="not-there"):
        SourceRun(source(streams), 1, 10)


def test_streams_that_do_not_agree_on_a_cluster_are_refused(kafka):
    class Disagreeing(KafkaMetadataService):
        def get_all_streams(self):
            return {
                KafkaStream(each, {"west": ClusterMetadata({"a"}, {"bootstrap.servers": f"{each}:1"})})
                for each in ("one", "two")
            }

    with pytest.raises(SourceError, match="different properties"):
        source(Disagreeing(), ids=("one", "two")).build_enumerator(1, None)


def test_subscriber_of_a_user_chooses(streams, both):
    streams.put(one={"west": [both]}, two={"west": [both], "east": [both]})
    builder = DynamicKafkaSource.builder().set_kafka_metadata_service(streams).set_bounded(LATEST)
    builder.set_deserializer(KafkaRecordDeserializationSchema.value_only(SimpleStringSchema()))
    run = SourceRun(builder.set_kafka_stream_subscriber(Several()).build(), 2, 1_000)
    run.run()
    assert values(run) == numbers(60)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda b: b.set_stream_ids(set()), ConfigurationError, "ids of streams"),
        (lambda b: b.set_stream_ids("clicks"), ConfigurationError, "ids of streams"),
        (lambda b: b.set_stream_pattern("("), ConfigurationError, "no regular expression"),
        (lambda b: b.set_stream_ids({"a"}).set_stream_pattern("a"), ConfigurationError, "was told to read"),
        (lambda b: b.set_kafka_metadata_service(3), TypeError, "not a KafkaMetadataService"),
        (lambda b: b.set_kafka_stream_subscriber(3), TypeError, "not a KafkaStreamSubscriber"),
        (lambda b: b.set_deserializer(SimpleStringSchema()), TypeError, "not a KafkaRecordDeserialization"),
        (lambda b: b.set_starting_offsets(3), TypeError, "not a KafkaOffsetsInitializer"),
        (lambda b: b.build(), ConfigurationError, "has no streams"),
        (lambda b: b.set_stream_ids({"a"}).build(), ConfigurationError, "has no metadata service"),
        (
            lambda b: ready(b).set_property("stream-metadata-discovery-interval-ms", "1 s").build(),
            ConfigurationError,
            "must be an integer",
        ),
        (
            lambda b: ready(b).set_property("isolation.level", "x").build(),
            ConfigurationError,
            "read_committed or",
        ),
        (lambda b: SingleClusterTopicMetadataService("a", {}), ConfigurationError, "no Kafka brokers"),
        (lambda b: KafkaStreamSetSubscriber(set()), ConfigurationError, "ids of streams"),
        (lambda b: StreamPatternSubscriber("("), ConfigurationError, "no regular expression"),
        (lambda b: Failing(object()), NotSupportedError, "object of a JVM"),
        (lambda b: Several(object()), NotSupportedError, "object of a JVM"),
        (lambda b: ClusterMetadata("a", {}), TypeError, "must be a set"),
    ],
)
def test_source_that_is_declared_wrong_says_so(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong(DynamicKafkaSource.builder())


def ready(builder):
    builder.set_stream_ids({"a"}).set_value_only_deserializer(SimpleStringSchema())
    return builder.set_kafka_metadata_service(Failing())


def test_secrets_of_clusters_are_not_shown():
    shown = repr(KafkaStream("a", {"b": ClusterMetadata({"c"}, {"sasl.password": "s3cr3t"})}))
    assert "s3cr3t" not in shown
