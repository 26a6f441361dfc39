"""What is kept of a partition between ranges, and what properties mean: without a broker."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError
from millstream.connectors.kafka.fetcher import Buffer
from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.positions import owner_of
from millstream.connectors.kafka.records import ConsumerRecords
from millstream.connectors.kafka.settings import SourceOptions


class Message:
    """As the client library has it: it makes none with an offset of the caller's."""

    def __init__(self, offset):
        self._offset = offset

    def offset(self):
        return self._offset

    def value(self):
        return b"0123456789"


PLACE = KafkaTopicPartition("clicks", 3)


def buffer_of(*offsets, start=0):
    buffer = Buffer(PLACE)
    buffer.reset(start)
    buffer.assigned = True
    if offsets:
        buffer.add([Message(offset) for offset in offsets])
    return buffer


def taken(buffer, stop, most=100):
    return [message.offset() for message in buffer.take(stop, most)]


def test_records_are_taken_up_to_the_stop_or_the_budget():
    buffer = buffer_of(0, 1, 5, 6, 9)
    assert taken(buffer, 6) == [0, 1, 5]
    assert buffer.begins_at(6)
    assert taken(buffer, 100, 1) == [6]
    assert taken(buffer, 9) == []
    assert taken(buffer, 10) == [9]
    assert taken(buffer, 10) == []
    assert (buffer.records, buffer.size, buffer.covered) == (0, 0, 10)


def test_records_that_came_before_are_left_out():
    buffer = buffer_of(0, 1, 2)
    buffer.add([Message(1), Message(2), Message(3)])
    buffer.add([Message(2)])
    assert taken(buffer, 3) == [0, 1, 2]
    assert taken(buffer, 9) == [3]


def test_end_of_the_partition_covers_offsets_without_records():
    """0 1 | . . . . EOF 6      a range up to 6 is complete, though nothing came behind 1"""
    buffer = buffer_of(0, 1)
    buffer.cover(6)
    assert buffer.covered == 6
    buffer.cover(4)
    assert buffer.covered == 6


def test_partition_is_told_by_topic_and_number():
    assert PLACE == KafkaTopicPartition("clicks", 3) != KafkaTopicPartition("clicks", 2)
    assert pickle.loads(pickle.dumps(PLACE)) == PLACE
    assert len({PLACE, KafkaTopicPartition("clicks", 3)}) == 1
    with pytest.raises(ConfigurationError, match="negative"):
        KafkaTopicPartition("clicks", -1)
    assert {owner_of(KafkaTopicPartition("clicks", number), 3) for number in range(3)} == {0, 1, 2}


def test_records_know_their_place():
    records = ConsumerRecords(PLACE, [Message(7), Message(9)])
    assert records.place(1) == "topic 'clicks', partition 3, offset 9"
    assert records.offsets == [7, 9]
    assert len(records[1:]) == 1


def test_options_of_the_source_are_not_given_to_the_client():
    options = SourceOptions.of(
        {
            "bootstrap.servers": "a:1",
            "partition.discovery.interval.ms": 0,
            "commit.offsets.on.checkpoint": False,
            "client.id.prefix": "me",
            "auto.offset.reset": "earliest",
            "default.api.timeout.ms": 5_000,
            "fetch.min.bytes": 7,
        }
    )
    assert dict(options.client) == {
        "bootstrap.servers": "a:1",
        "auto.offset.reset": "earliest",
        "fetch.min.bytes": "7",
    }
    assert (options.discovery_interval_ms, options.commits_offsets) == (None, False)
    assert options.reset is KafkaOffsetResetStrategy.EARLIEST
    assert (options.patience_s, options.isolation, options.group) == (5, "read_committed", None)
