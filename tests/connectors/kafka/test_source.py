"""The Kafka source against a broker: the contract, where it begins and ends, gaps in offsets."""

from __future__ import annotations

import pytest

from millstream.common import SimpleStringSchema
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.testing import check_source
from millstream.testing.source_run import SourceRun


@pytest.fixture
def source_of(kafka):
    """Build sources of strings: `source_of(topic, starts=…, stops=…, unbounded=…)`."""

    def build(*topics, starts=None, stops=None, unbounded=False, **properties):
        builder = (
            KafkaSource.builder()
            .set_bootstrap_servers(kafka.bootstrap)
            .set_value_only_deserializer(SimpleStringSchema())
            .set_starting_offsets(starts or KafkaOffsetsInitializer.earliest())
            .set_properties({key.replace("_", "."): value for key, value in properties.items()})
        )
        if topics:
            builder.set_topics(*topics)
        if not unbounded:
            builder.set_bounded(stops or KafkaOffsetsInitializer.latest())
        return builder.build()

    return build


def test_bounded_source_keeps_the_contract(kafka, new_topic, source_of):
    topic = new_topic(partitions=3)
    values = [f"{place}" for place in range(60)]
    for partition in range(2):  # one partition stays empty
        kafka.produce(topic, values[partition::2], partition=partition)
    check_source(source_of(topic), expected=values)


def test_bounded_source_of_an_empty_topic_keeps_the_contract(new_topic, source_of):
    check_source(source_of(new_topic()), expected=[])


def test_unbounded_source_keeps_the_contract(kafka, new_topic, source_of):
    topic = new_topic(partitions=2)
    values = [f"{place}" for place in range(40)]
    for partition in range(2):
        kafka.produce(topic, values[partition::2], partition=partition)
    check_source(source_of(topic, unbounded=True), expected=values)


def test_large_topic_is_read_whole(kafka, new_topic, source_of):
    topic = new_topic(partitions=4)
    values = [f"{place}" for place in range(100_000)]
    for partition in range(4):
        kafka.produce(topic, values[partition::4], partition=partition)
    assert sorted(SourceRun(source_of(topic), 2, 7_000).run(), key=int) == values
