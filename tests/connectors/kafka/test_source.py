"""The Kafka source against a broker: the contract, where it begins and ends, gaps in offsets, records that are lost."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import TopicPartition

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.common import DeserializationSchema, Row, SimpleStringSchema, Types
from millstream.connectors.kafka import fetcher
from millstream.datastream.connectors.base import MalformedPolicy
from millstream.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)
from millstream.datastream.formats.json import JsonRowDeserializationSchema
from millstream.spi.source import PlanRequest, RangeEnd
from millstream.testing import check_source
from millstream.testing.source_run import SourceRun

FEW = {"parallelisms": (3,), "budgets": (3,)}
MORE = {"parallelisms": (1, 3), "budgets": (3, 100)}


def read(source, parallelism=2, budget=1_000):
    """Return what a bounded source gives, or an unbounded one before it falls silent."""
    run = SourceRun(source, parallelism, budget)
    return run.run(until=lambda: run.is_silent)


# The contract


@pytest.mark.parametrize("numbers", [FEW, pytest.param(MORE, marks=pytest.mark.long)])
def test_bounded_source_keeps_the_contract(kafka, new_topic, source_of, numbers):
    topic = new_topic(partitions=3)
    values = [f"{place}" for place in range(30)]
    for partition in range(2):  # one partition stays empty
        kafka.produce(topic, values[partition::2], partition=partition)
    check_source(source_of(topic), expected=values, **numbers)


@pytest.mark.parametrize("numbers", [FEW, pytest.param(MORE, marks=pytest.mark.long)])
def test_bounded_source_of_an_empty_topic_keeps_the_contract(new_topic, source_of, numbers):
    check_source(source_of(new_topic()), expected=[], **numbers)


def test_unbounded_source_keeps_the_contract(kafka, new_topic, source_of):
    topic = new_topic(partitions=2)
    values = [f"{place}" for place in range(20)]
    for partition in range(2):
        kafka.produce(topic, values[partition::2], partition=partition)
    check_source(source_of(topic, unbounded=True), expected=values, parallelisms=(2,), budgets=(4,))


def test_large_topic_is_read_whole(kafka, new_topic, source_of):
    topic = new_topic(partitions=4)
    values = [f"{place}" for place in range(100_000)]
    for partition in range(4):
        kafka.produce(topic, values[partition::4], partition=partition)
    assert sorted(read(source_of(topic), budget=7_000), key=int) == values


def test_what_is_in_partitions_and_not_read_is_pending(kafka, new_topic, source_of):
    topic = new_topic(partitions=3)
    values = [f"{place}" for place in range(90)]
    for partition in range(3):
        kafka.produce(topic, values[partition::3], partition=partition)
    enumerator = source_of(topic, unbounded=True).build_enumerator(2, None)

    def planned(expected):
        """Plan until what is pending is known: a broker may take its time to tell where partitions end."""
        deadline = time.monotonic() + 60
        while True:
            plan = enumerator.plan(PlanRequest(2, 20, 0))
            found = sum(enumerator.pending().records.values())
            if found == expected or time.monotonic() > deadline:
                assert found == expected
                return [each for ranges in plan.ranges.values() for each in ranges]

    try:
        ends = [RangeEnd(each.split_id, each.start + 7, False, 7) for each in planned(90)]
        assert len(ends) == sum(enumerator.pending().splits.values()) == 3
        enumerator.advance(ends)
        assert sum(enumerator.pending().records.values()) == 90 - 21
        for partition in range(3):
            kafka.produce(topic, ["more"], partition=partition)
        planned(90 - 21 + 3)
    finally:
        enumerator.close()


def test_partitions_that_run_ahead_are_parked_and_lose_nothing(kafka, new_topic, source_of, monkeypatch):
    monkeypatch.setattr(fetcher, "_PARKED_RECORDS", 200)
    topic = new_topic(partitions=3)
    values = [f"{place}" for place in range(9_000)]
    for partition in range(3):
        kafka.produce(topic, values[partition::3], partition=partition)
    run = SourceRun(source_of(topic), 1, 700)
    run.run()
    for partition in range(3):
        assert [value for value, _ in run.splits[f"{topic}-{partition}"]] == [
            repr(value) for value in values[partition::3]
        ]


@pytest.mark.parametrize("parallelism", [2, pytest.param(1, marks=pytest.mark.long)])
def test_values_are_read_as_columns_where_the_schema_makes_them(kafka, new_topic, source_of, parallelism):
    topic = new_topic()
    kafka.produce(topic, [f'{{"n": {place}}}' for place in range(30)] + [None])
    rows = Types.ROW_NAMED(["n"], [Types.LONG()])
    schema = JsonRowDeserializationSchema.builder().type_info(rows).build()
    source = source_of(topic, schema=KafkaRecordDeserializationSchema.value_only(schema))
    check_source(
        source, expected=[Row(n=place) for place in range(30)], parallelisms=(parallelism,), budgets=(8,)
    )


# Gaps in offsets


LATER = [pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2)]


@pytest.mark.parametrize("seed", [0, *LATER])
def test_offsets_without_records_do_not_matter(kafka, new_topic, source_of, seed):
    """Transactions are committed and aborted in random order, some records are written without one.

    offsets    0 1 2 | 3 4 5 6 | 7 | 8 9 …
               a b C   x x x A   c   d C       C, A: control records that end a transaction
    """
    chance = random.Random(seed)
    topic = new_topic(partitions=2)
    producer = kafka.producer({"transactional.id": topic, "retry.backoff.ms": "10"})
    producer.init_transactions(30)
    expected: list[str] = []
    for transaction in range(25):
        partition, count = chance.randrange(2), chance.randrange(5)
        values = [f"{transaction}-{place}" for place in range(count)]
        kind = chance.choice(["commit", "abort", "plain"])
        if kind == "plain":
            kafka.produce(topic, values, partition=partition)
        else:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value, partition=partition)
            producer.flush(30)
            producer.commit_transaction(30) if kind == "commit" else producer.abort_transaction(30)
        expected += values if kind != "abort" else []
    for budget in (1, 4, 1_000):
        assert sorted(read(source_of(topic), budget=budget)) == sorted(expected)
    check_source(source_of(topic), expected=expected, parallelisms=(2,), budgets=(7,))


def test_open_transaction_hides_what_is_behind_it_until_it_ends(kafka, new_topic, source_of):
    topic = new_topic()
    producer = kafka.producer({"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "hidden", partition=0)
    producer.flush(30)
    kafka.produce(topic, ["plain"])
    run = SourceRun(source_of(topic, unbounded=True), 1, 100)
    run.epoch()
    assert run.records == []
    assert read(source_of(topic, unbounded=True, isolation_level="read_uncommitted")) == ["hidden", "plain"]
    producer.commit_transaction(30)
    run.run(until=lambda: run.is_silent)
    assert run.read == [["hidden", "plain"]]


def test_compacted_topic_is_read_as_it_is(kafka, new_topic, source_of):
    topic = new_topic(
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.01,
        max_compaction_lag_ms=100,
    )
    for turn in range(4):
        kafka.produce(topic, [f"{turn}-{key}" for key in range(20)], keys=[f"{key}" for key in range(20)])
        time.sleep(0.15)  # segments end by time
    kafka.produce(topic, ["end"], keys=["end"])
    deadline = time.monotonic() + 40
    while len(kafka.messages(topic)) > 40 and time.monotonic() < deadline:
        time.sleep(0.5)
    there = [message.value().decode() for message in kafka.messages(topic)]
    assert len(there) < 81, "the broker compacted nothing"
    for budget in (3, 1_000):
        assert read(source_of(topic), budget=budget) == there


# Where it begins and stops


def test_older_source_begins_at_the_offsets_of_the_group(kafka, new_topic):
    topic = new_topic()
    kafka.produce(topic, ["a", "b", "c"])
    reader = kafka.consumer(f"group-of-{topic}")
    reader.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    reader.close()
    properties = {"bootstrap.servers": kafka.bootstrap, "auto.offset.reset": "earliest"}
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), properties)
    assert read(consumer) == ["a", "b", "c"]
    assert read(consumer.set_start_from_latest()) == []
    assert read(
        FlinkKafkaConsumer([topic], SimpleStringSchema(), {**properties, "group.id": f"group-of-{topic}"})
    ) == ["c"]


def test_reading_begins_and_stops_where_it_is_told_to(kafka, new_topic, source_of):
    topic = new_topic()
    values = [f"{place}" for place in range(10)]
    kafka.produce(topic, values, timestamps=[1_000 * (1 + place) for place in range(10)])
    place = KafkaTopicPartition(topic, 0)
    at = KafkaOffsetsInitializer
    assert read(source_of(topic, starts=at.latest())) == []
    assert read(source_of(topic, starts=at.offsets({place: 4}))) == values[4:]
    assert read(source_of(topic, stops=at.offsets({place: 4}))) == values[:4]
    assert read(source_of(topic, starts=at.timestamp(2_500), stops=at.timestamp(5_000))) == values[2:4]
    assert read(source_of(topic, starts=at.timestamp(99_000_000))) == []
    assert (
        read(source_of(topic, starts=at.offsets({place: 99}))) == values
    )  # EARLIEST unless it is told otherwise
    none = at.offsets({place: 99}, KafkaOffsetResetStrategy.NONE)
    with pytest.raises(SourceError, match="nowhere to begin"):
        read(source_of(topic, starts=none))


def test_reading_begins_at_committed_offsets(kafka, new_topic, source_of):
    topic, at = new_topic(partitions=2), KafkaOffsetsInitializer
    kafka.produce(topic, ["a", "b", "c"])
    kafka.produce(topic, ["d", "e"], partition=1)
    group = f"group-of-{topic}"
    reader = kafka.consumer(group)
    reader.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    reader.close()
    with pytest.raises(SourceError, match="committed no offset"):
        read(source_of(topic, starts=at.committed_offsets(), group_id=group))
    earliest = at.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    latest = at.committed_offsets(KafkaOffsetResetStrategy.LATEST)
    assert sorted(read(source_of(topic, starts=earliest, group_id=group))) == ["c", "d", "e"]
    assert read(source_of(topic, starts=latest, group_id=group)) == ["c"]
    assert sorted(read(source_of(topic, stops=earliest, group_id=group))) == ["a", "b"]
    with pytest.raises(ConfigurationError, match="there is no group"):
        read(source_of(topic, starts=earliest))


def test_partitions_and_patterns_choose_what_is_read(kafka, new_topic, source_of):
    topic, other = new_topic(partitions=3), new_topic()
    for partition in range(3):
        kafka.produce(topic, [f"p{partition}"], partition=partition)
    kafka.produce(other, ["other"])
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap)
    builder.set_partitions({KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 2)})
    builder.set_deserializer(KafkaRecordDeserializationSchema.records())
    source = builder.set_bounded(KafkaOffsetsInitializer.latest()).build()
    assert sorted(record.value for record in read(source)) == [b"p0", b"p2"]
    pattern = f"({topic}|{other})"
    assert sorted(read(source_of(pattern=pattern))) == ["other", "p0", "p1", "p2"]
    assert sorted(read(source_of(topic, other))) == ["other", "p0", "p1", "p2"]
    with pytest.raises(SourceError, match="nothing to read"):
        read(source_of(pattern="no-such-.*"))


def test_unbounded_source_can_stop(kafka, new_topic):
    topic = new_topic()
    kafka.produce(topic, ["a", "b"])
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(topic)
    builder.set_deserializer(KafkaRecordDeserializationSchema.records())
    run = SourceRun(builder.set_unbounded(KafkaOffsetsInitializer.latest()).build(), 1, 10)
    kafka.produce(topic, ["later"])
    assert [record.value for record in run.run()] == [b"a", b"b"]


# Records


class KeyAndHeader(KafkaRecordDeserializationSchema):
    """Gives key, offset and a header; records without a value are left out."""

    def deserialize(self, record):
        if record.value is None:
            return None
        return record.key, record.offset, dict(record.headers).get("from"), record.topic, record.partition


def test_schema_of_records_sees_all_that_they_have(kafka, new_topic, source_of):
    topic = new_topic(partitions=2)
    producer = kafka.producer()
    producer.produce(topic, "v", key="k", partition=1, headers=[("from", b"x"), ("other", None)], timestamp=5)
    producer.produce(topic, None, key="k", partition=1, timestamp=6)
    producer.produce(topic, "w", partition=1, timestamp=7)
    producer.flush(30)
    assert read(source_of(topic, schema=KeyAndHeader())) == [
        (b"k", 0, b"x", topic, 1),
        (None, 2, None, topic, 1),
    ]
    records = read(source_of(topic, schema=KafkaRecordDeserializationSchema.records()))
    assert [(each.offset, each.timestamp, each.value) for each in records] == [
        (0, 5, b"v"),
        (1, 6, None),
        (2, 7, b"w"),
    ]
    assert records[0].headers == (("from", b"x"), ("other", None))


def test_values_alone_are_read_without_tombstones_with_the_timestamps_of_kafka(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, ["a", None, "b"], keys=["k", "k", "k"], timestamps=[5, 6, 7])
    run = SourceRun(source_of(topic), 1, 100)
    run.run()
    assert run.records == [("'a'", 5), ("'b'", 7)]


class Numbers(DeserializationSchema):
    def deserialize(self, message):
        return int(message)


def test_record_that_does_not_parse_is_named(kafka, new_topic):
    topic = new_topic()
    kafka.produce(topic, ["1", "2", "x", "4"])
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(topic)
    builder.set_value_only_deserializer(Numbers()).set_bounded(KafkaOffsetsInitializer.latest())
    with pytest.raises(
        MalformedRecordError,
        match=f"topic '{topic}', partition 0, offset 2, does not parse(?s:.)*invalid literal",
    ):
        read(builder.build())
    assert read(builder.set_malformed_policy(MalformedPolicy.skip()).build()) == [1, 2, 4]


# Records that are lost


def snapshot_at(source, records):
    """Return a source's snapshot behind so many records."""
    run = SourceRun(source, 1, 1)
    while len(run.records) < records:
        run.epoch()
    kept = run.snapshot()
    run.close()
    return kept


def test_records_that_are_deleted_before_they_are_read_fail_the_job(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, [f"{place}" for place in range(10)])
    kept = snapshot_at(source_of(topic), 3)
    kafka.delete_records(topic, 0, 6)
    with pytest.raises(
        SourceError, match=rf"partition 0 of topic '{topic}' was to be read from offset 3"
    ) as raised:
        SourceRun(source_of(topic), 1, 100, restored=kept)
    assert "[6, 10)" in raised.value.detail
    assert "auto.offset.reset" in raised.value.hint
    earliest = SourceRun(source_of(topic, auto_offset_reset="earliest"), 1, 100, restored=kept)
    assert earliest.run() == ["6", "7", "8", "9"]
    assert SourceRun(source_of(topic, auto_offset_reset="latest"), 1, 100, restored=kept).run() == []


def test_records_that_are_deleted_while_the_job_runs_fail_it(kafka, new_topic, source_of):
    topic = new_topic()
    kafka.produce(topic, [f"{place}" for place in range(10)])
    run = SourceRun(source_of(topic), 1, 100)
    kafka.delete_records(topic, 0, 6)
    with pytest.raises(SourceError, match="was to be read from offset 0"):
        run.run()
    again = SourceRun(source_of(topic, auto_offset_reset="earliest"), 1, 100)
    assert again.run() == ["6", "7", "8", "9"]


@pytest.mark.parametrize("records", [1, 20])
def test_topic_that_is_made_anew_fails_the_job(kafka, new_topic, source_of, records):
    topic = new_topic()
    kafka.produce(topic, [f"{place}" for place in range(10)])
    kept = snapshot_at(source_of(topic, unbounded=True), 3)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, [f"new-{place}" for place in range(records)])
    with pytest.raises(SourceError, match=rf"topic '{topic}' was deleted and made anew"):
        SourceRun(source_of(topic, unbounded=True), 1, 100, restored=kept)
    run = SourceRun(source_of(topic, unbounded=True, auto_offset_reset="earliest"), 1, 100, restored=kept)
    run.run(until=lambda: run.is_silent)
    assert run.read == [[f"new-{place}" for place in range(records)]]
