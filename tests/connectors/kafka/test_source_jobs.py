"""Jobs that read Kafka: brokers that go and come, partitions that are added, offsets that others see."""

from __future__ import annotations

import itertools
import logging
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.base.errors import ConfigurationError, SourceError
from millstream.common import DeserializationSchema, Duration, SimpleStringSchema, Time, WatermarkStrategy
from millstream.datastream import OutputTag
from millstream.datastream.connectors.base import MalformedPolicy
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.testing import FailurePoint, MiniCluster
from millstream.testing.source_run import SourceRun
from servers.kafka import KafkaServer

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def stream_of(cluster, source, strategy=NO_WATERMARKS, **more):
    return cluster.environment(**more).from_source(source, strategy, "kafka").uid("kafka")


def numbers(count, start=0):
    return [f"{place}" for place in range(start, start + count)]


def test_partition_that_is_added_while_the_job_runs_is_read_from_its_first_record(
    kafka, new_topic, source_of
):
    topic = new_topic()
    kafka.produce(topic, numbers(5))
    source = source_of(topic, unbounded=True, partition_discovery_interval_ms="100")
    with MiniCluster(parallelism=2) as cluster, stream_of(cluster, source).execute_and_collect() as results:
        assert sorted(itertools.islice(results, 5)) == numbers(5)
        kafka.add_partitions(topic, 3)
        kafka.produce(topic, ["a"], partition=1)
        kafka.produce(topic, ["b"], partition=2)
        assert sorted(itertools.islice(results, 2)) == ["a", "b"]


def test_topic_that_is_made_later_is_found_by_its_pattern(kafka, new_topic, source_of):
    prefix = new_topic()
    source = source_of(pattern=f"{prefix}-.*", unbounded=True, partition_discovery_interval_ms="100")
    with MiniCluster() as cluster, stream_of(cluster, source).execute_and_collect() as results:
        threading.Timer(0.5, lambda: kafka.produce(kafka.create_topic(f"{prefix}-later"), ["x", "y"])).start()
        assert list(itertools.islice(results, 2)) == ["x", "y"]


def test_offsets_of_complete_checkpoints_are_committed(kafka, new_topic, source_of):
    topic = new_topic(partitions=2)
    kafka.produce(topic, numbers(7))
    kafka.produce(topic, numbers(3), partition=1)
    with MiniCluster() as cluster:
        assert len(cluster.collect(stream_of(cluster, source_of(topic, group_id=f"group-{topic}")))) == 10
        quiet = source_of(topic, group_id=f"quiet-{topic}", commit_offsets_on_checkpoint="false")
        assert len(cluster.collect(stream_of(cluster, quiet))) == 10
    assert kafka.committed(f"group-{topic}", topic) == {0: 7, 1: 3}
    assert kafka.committed(f"quiet-{topic}", topic) == {}


def test_offsets_of_a_job_without_end_are_committed_while_it_runs(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, numbers(7))
    source = source_of(topic, group_id=f"group-{topic}", unbounded=True)
    with MiniCluster() as cluster, stream_of(cluster, source).execute_and_collect() as results:
        list(itertools.islice(results, 7))
        deadline = time.monotonic() + 20
        while kafka.committed(f"group-{topic}", topic) != {0: 7}:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_commit_that_fails_does_not_fail_the_job(kafka, new_topic, source_of, caplog):
    topic = new_topic()
    kafka.produce(topic, numbers(7))
    member = kafka.consumer(f"group-{topic}")  # others may not set offsets of a group with members
    member.subscribe([topic])
    while not member.assignment():
        member.poll(0.1)
    with MiniCluster() as cluster:
        assert cluster.collect(stream_of(cluster, source_of(topic, group_id=f"group-{topic}"))) == numbers(7)
    member.close()
    assert f"the offsets of group 'group-{topic}' could not be committed" in caplog.text


@pytest.mark.parametrize("after", [1, 3])
def test_job_goes_on_from_a_savepoint_at_another_parallelism(kafka, new_topic, source_of, after, tmp_path):
    topic = new_topic(partitions=4)
    for partition in range(4):
        kafka.produce(topic, numbers(50, 50 * partition), partition=partition)
    options = {"millstream.epoch.fixed-records": 7}
    saved = []
    with MiniCluster(parallelism=2, options=options) as cluster:
        source = source_of(topic, unbounded=True)
        cluster.do_after(40, lambda: saved.append(cluster.job().savepoint(str(tmp_path), stop=True)))
        stream = stream_of(cluster, source).map(cluster.tap())
        first = cluster.collect(stream)
        path = saved[0].result(30)
        restored = {"execution.savepoint.path": path}
        with stream_of(cluster, source, parallelism=after, options=restored).execute_and_collect() as results:
            second = list(itertools.islice(results, 200 - len(first)))
    assert 40 <= len(first) < 200
    assert sorted(first + second, key=int) == numbers(200)


def test_job_that_fails_at_every_place_gives_each_record_once(kafka, new_topic, source_of):
    topic = new_topic(partitions=3)
    for partition in range(3):
        kafka.produce(topic, numbers(100, 100 * partition), partition=partition)
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 30}) as cluster:
        for point in FailurePoint:
            cluster.fail_at(point, 2)
        cluster.fail_after(50, 70, 90)
        stream = stream_of(cluster, source_of(topic)).map(cluster.tap())
        assert sorted(cluster.collect(stream), key=int) == numbers(300)
        assert len(cluster.failures) >= 6


def test_records_that_do_not_parse_are_in_a_side_output(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, ["1", "x", "3"], timestamps=[5, 6, 7])
    dead = OutputTag("dead")
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(topic)
    builder.set_value_only_deserializer(Numbers()).set_malformed_policy(MalformedPolicy.dead_letters(dead))
    with MiniCluster() as cluster:
        cluster.fail_at(FailurePoint.AFTER_EPOCH, 1)
        stream = stream_of(cluster, builder.set_bounded(KafkaOffsetsInitializer.latest()).build())
        both = stream.map(str).union(stream.get_side_output(dead).map(lambda letter: letter.position))
        assert sorted(cluster.collect(both)) == ["1", "3", f"topic '{topic}', partition 0, offset 1"]


class Numbers(DeserializationSchema):
    def deserialize(self, message):
        return int(message)


# Watermarks


def sums(stream):
    windows = stream.map(lambda _: 1).window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windows.reduce(lambda one, other: one + other)


def test_each_partition_has_a_watermark_of_its_own(kafka, new_topic, source_of):
    """One partition is read far ahead of the other; none of the other's records is late."""
    topic = new_topic(partitions=2)
    kafka.produce(topic, numbers(1_000), timestamps=[1_000 * place for place in range(1, 1_001)])
    kafka.produce(topic, numbers(20), partition=1, timestamps=[1_000 * place for place in range(1, 21)])
    with MiniCluster(options={"millstream.epoch.fixed-records": 300}) as cluster:
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        counts = cluster.collect(sums(stream_of(cluster, source_of(topic), strategy)))
    assert counts == [2] * 20 + [1] * 980


def test_partition_without_records_holds_the_watermark_back_until_it_is_idle(kafka, new_topic, source_of):
    topic = new_topic(partitions=2)
    kafka.produce(topic, numbers(3), timestamps=[1_000, 1_500, 5_000])
    source = source_of(topic, unbounded=True)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with MiniCluster(options={"millstream.execution.stop-when-idle": "1 s"}) as cluster:
        waiting = sums(stream_of(cluster, source, strategy)).map(lambda count: (count, time.monotonic()))
        began = time.monotonic()
        (first, first_at), _ = cluster.collect(waiting)
        assert first == 2
        assert first_at - began >= 1  # only the end of the job released it
    with MiniCluster() as cluster:
        idle = strategy.with_idleness(Duration.of_millis(200))
        with sums(stream_of(cluster, source, idle)).execute_and_collect() as results:
            # If all of them are silent nobody knows anything: one has to go on.
            later = threading.Timer(0.7, kafka.produce, [topic, ["more"]], {"timestamps": [6_000]})
            later.start()
            later.join()
            assert next(iter(results)) == 2


# Trouble


@pytest.mark.long
def test_broker_that_is_killed_and_comes_back_costs_nothing(kafka, new_topic, source_of, caplog):
    topic = new_topic(partitions=2)
    for partition in range(2):
        kafka.produce(topic, numbers(100, 100 * partition), partition=partition)
    source = source_of(topic, unbounded=True, group_id=f"group-{topic}")
    with MiniCluster(parallelism=2) as cluster, stream_of(cluster, source).execute_and_collect() as results:
        found = list(itertools.islice(results, 200))
        kafka.stop()
        time.sleep(1.5)
        kafka.start()
        for partition in range(2):
            kafka.produce(topic, numbers(100, 200 + 100 * partition), partition=partition)
        found += itertools.islice(results, 200)
    assert "failed and is repeated" not in caplog.text
    assert sorted(found, key=int) == numbers(400)
    said = [record.message for record in caplog.records if record.name.endswith("kafka.ends")]
    assert len(said) == 2, said
    assert "trying again for 60 s" in said[0]
    assert "answers again" in said[1]


@pytest.fixture
def own_broker(tmp_path):
    """A broker of the test's own that has not been started."""
    server = KafkaServer(tmp_path / "kafka")
    server.directory.mkdir()
    yield server
    server.stop()


def source_at(bootstrap, topic="topic", **properties):
    builder = KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(topic)
    builder.set_value_only_deserializer(SimpleStringSchema())
    builder.set_properties({key.replace("_", "."): value for key, value in properties.items()})
    return builder.set_bounded(KafkaOffsetsInitializer.latest()).build()


@pytest.mark.long
def test_job_waits_for_a_broker_that_starts_later(own_broker):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(SourceRun, source_at(own_broker.bootstrap, "missing"), 1, 10)
        time.sleep(1)
        own_broker.start()
        own_broker.produce(own_broker.create_topic("topic"), ["a"])
        with pytest.raises(SourceError, match="topic 'missing' .* does not exist") as raised:
            waiting.result()
    assert "Create the topic" in raised.value.hint
    assert SourceRun(source_at(own_broker.bootstrap), 1, 10).run() == ["a"]


def test_broker_that_stays_away_is_named(own_broker):
    began = time.monotonic()
    with MiniCluster() as cluster, pytest.raises(SourceError) as raised:
        cluster.collect(stream_of(cluster, source_at(own_broker.bootstrap, default_api_timeout_ms="1000")))
    assert "no broker could be reached" in str(raised.value)
    assert own_broker.bootstrap in str(raised.value)
    assert time.monotonic() - began < 20


@pytest.mark.long
def test_broker_that_goes_and_stays_away_fails_the_job(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, numbers(10))
    source = source_of(topic, unbounded=True, default_api_timeout_ms="1000")
    run = SourceRun(source, 1, 5)
    run.epoch()
    kafka.stop()
    try:
        with pytest.raises(SourceError, match="could not be read: no broker"):
            while True:
                run.epoch()
                time.sleep(0.05)
    finally:
        kafka.start()


def test_login_that_is_refused_is_an_error_at_once_and_nobody_sees_the_password(kafka, new_topic, caplog):
    topic = new_topic()
    kafka.produce(topic, ["a"])
    right = source_at(kafka.sasl_bootstrap, topic, **kafka.login)
    assert SourceRun(right, 1, 10).run() == ["a"]
    wrong = {key: value.replace(kafka.password, "not-the-pass-word") for key, value in kafka.login.items()}
    source = source_at(kafka.sasl_bootstrap, topic, **wrong)
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with pytest.raises(SourceError, match="the broker refused the login") as raised:
        SourceRun(source, 1, 10)
    assert time.monotonic() - began < 10
    run = SourceRun(right, 1, 10)
    seen = [str(raised.value), repr(source), repr(source.__dict__), str(vars(source)), caplog.text]
    seen.append(repr(pickle.dumps(run.snapshot())))
    for text in seen:
        assert "not-the-pass-word" not in text
        assert kafka.password not in text


def test_topic_that_is_deleted_while_the_job_runs_fails_it(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, numbers(3))
    run = SourceRun(source_of(topic, unbounded=True), 1, 10)
    run.epoch()
    kafka.delete_topic(topic)
    with pytest.raises(SourceError, match=f"{topic}-0.* does not exist"):
        while True:
            run.epoch()
            time.sleep(0.05)


# What is declared wrong


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda builder: builder.build(), "has no topics"),
        (lambda builder: builder.set_topics("a").build(), "has no deserializer"),
        (lambda builder: builder.set_topics(), "was given no topic"),
        (lambda builder: builder.set_topics("a").set_topic_pattern("a"), "was told to read"),
        (lambda builder: builder.set_topic_pattern("("), "no regular expression"),
        (lambda builder: builder.set_starting_offsets(3), "not a KafkaOffsetsInitializer"),
        (
            lambda builder: builder.set_deserializer(SimpleStringSchema()),
            "not a KafkaRecordDeserializationSchema",
        ),
        (lambda builder: builder.set_value_only_deserializer(str), "not a DeserializationSchema"),
        (lambda builder: ready(builder).set_property("isolation.level", "none").build(), "read_committed or"),
        (
            lambda builder: ready(builder).set_property("auto.offset.reset", "x").build(),
            "earliest, latest or none",
        ),
        (
            lambda builder: ready(builder).set_property("partition.discovery.interval.ms", "1 s").build(),
            "milliseconds",
        ),
        (lambda builder: ready(builder).set_bootstrap_servers("").build(), "has no bootstrap servers"),
    ],
)
def test_source_that_is_declared_wrong_says_so(wrong, message):
    builder = KafkaSource.builder().set_bootstrap_servers("localhost:9")
    with pytest.raises((ConfigurationError, TypeError), match=message):
        wrong(builder)


def ready(builder):
    return builder.set_topics("a").set_value_only_deserializer(SimpleStringSchema())
