"""One consumer for all partitions of a subtask, kept open between epochs, and what it has fetched beyond a range.

A range is read from what is there already; only if that does not do is the consumer asked for more, which gives records
of any of its partitions::

    consumer ──► partition 0   [ 17 18 20 21 │ 25 26 27        front = 17, covered = 28
                                  range up to 25
             ──► partition 1   [ 4                             covered = 9: aborted up to 9, says the EOF event

`covered` is the offset up to which all records there are have come: behind the last one, or where the EOF event says
that the partition ended. Only by that is it known that a range is complete: records are missing from offsets wherever
transactions were aborted or the topic was compacted, and control records never come.

A partition of which much is here that nobody reads is parked: taken from the consumer until it is wanted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from itertools import groupby
from types import NoneType
from typing import Any

from millstream.base.clock import Clock
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.offsets import no_answer
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.records import column

__all__ = ["Buffer", "Fetcher", "OffsetGoneError"]

Message = Any  # of the client library, which types offsets as if there were none

_AT_ONCE = 1_000  # more of them at once leave the processor's cache before they are used
_PARKED_RECORDS = 50_000
_PARKED_BYTES = 32 << 20
_POLL_S = 0.1
_PATIENT_S = 1.0
_IMPATIENT_S = 0.02
_GONE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})


class OffsetGoneError(Exception):
    """A partition has no such offset (any more)."""

    def __init__(self, partition: KafkaTopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition


class Buffer:
    """What has been fetched of a partition and not been read.

    Attributes:
        covered: All records before this offset have come.
        records: How many wait here.
        size: About how many bytes they take.
        assigned: Whether the consumer fetches more.
        silent_since: Since when somebody waits for records that do not come; monotonic seconds.
        lost: Whether the consumer found that the offset it was to read is not there.
    """

    def __init__(self, partition: KafkaTopicPartition) -> None:
        self.partition = partition
        self.covered = -1
        self.records = 0
        self.size = 0
        self.assigned = False
        self.silent_since: float | None = None
        self.lost = False
        self._front = -1
        self._chunks: deque[list[Message]] = deque()

    def begins_at(self, offset: int) -> bool:
        """Return whether the next record that is taken is the first one at or behind an offset."""
        return self._front == offset

    def reset(self, offset: int) -> None:
        """Begin at an offset, with nothing."""
        self._front = self.covered = offset
        self._chunks.clear()
        self.records = self.size = 0
        self.lost = False

    def add(self, messages: list[Message]) -> None:
        """Add records; those that have come before, of an assignment that has ended, are left out."""
        if messages[0].offset() < self.covered:
            messages = [each for each in messages if each.offset() >= self.covered]
            if not messages:
                return
        self._chunks.append(messages)
        self.covered = _offset(messages[-1]) + 1
        self.records += len(messages)
        self.size += len(messages) * len(messages[0].value() or b"")
        self.silent_since = None

    def cover(self, offset: int) -> None:
        """Learn that the partition ends at an offset, for now."""
        if offset > self.covered:
            self.covered = offset
            self.silent_since = None

    def take(self, stop: int, most: int) -> list[Message]:
        """Take records before an offset out, at most so many; nothing if there are none here."""
        if not self._chunks:
            return []
        chunk = self._chunks[0]
        end = len(chunk) if _offset(chunk[-1]) < stop else bisect_left(chunk, stop, key=_offset)
        end = min(end, most)
        if end == len(chunk):
            taken = self._chunks.popleft()
        else:
            taken, self._chunks[0] = chunk[:end], chunk[end:]
        if taken:
            share = len(taken) / self.records
            self.records -= len(taken)
            self.size -= int(self.size * share)
            self._front = _offset(taken[-1]) + 1
        return taken

    def skip_to(self, offset: int) -> None:
        """Learn that a range was read up to an offset, in front of which nothing is left."""
        self._front = offset


def _offset(message: Message) -> int:
    offset: int = message.offset()
    return offset


class Fetcher:
    """A consumer and what it has fetched; one thread calls it.

    Args:
        cluster: Where the partitions are.
        clock: What time it is.
        settings: The consumer's, beside the cluster's.
    """

    def __init__(self, cluster: Cluster, clock: Clock, settings: dict[str, Any]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._consumer: Any = cluster.consumer(**settings)
        self._buffers: dict[KafkaTopicPartition, Buffer] = {}
        self._place: Callable[..., Any] = confluent_kafka().TopicPartition

    def buffer(self, partition: KafkaTopicPartition, start: int) -> Buffer:
        """Return a partition's buffer, to be read from an offset on."""
        buffer = self._buffers.get(partition)
        if buffer is None:
            buffer = self._buffers[partition] = Buffer(partition)
        if not buffer.begins_at(start):
            self._park(buffer)
            buffer.reset(start)
        return buffer

    def fetch(self, buffer: Buffer) -> bool:
        """Wait for records of a partition, not for long; return whether something came of it.

        Raises:
            OffsetGoneError: If the offset to be read next is not there.
            SourceError: If the brokers refuse, or have been silent for too long.
        """
        if not buffer.assigned:
            self._consumer.incremental_assign(
                [self._place(buffer.partition.topic, buffer.partition.partition, buffer.covered)]
            )
            buffer.assigned = True
        began = self._clock.monotonic()
        waits_s = _PATIENT_S if buffer.silent_since is None else _IMPATIENT_S
        before = buffer.covered
        while True:
            self._receive(waits_s)
            if buffer.lost:
                self._park(buffer)
                raise OffsetGoneError(buffer.partition)
            self._park_others(buffer)
            now = self._clock.monotonic()
            if buffer.covered > before:
                return True
            if now - began >= waits_s:
                self._be_silent(buffer, began, now)
                return False

    def finish(self, partition: KafkaTopicPartition) -> None:
        """Forget a partition: nothing more is read of it."""
        buffer = self._buffers.pop(partition, None)
        if buffer is not None:
            self._park(buffer)

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def _receive(self, waits_s: float) -> None:
        messages = self._consumer.consume(_AT_ONCE, 0)
        if not messages:
            message = self._consumer.poll(min(waits_s, _POLL_S))
            if message is None:
                return
            messages = [message, *self._consumer.consume(_AT_ONCE, 0)]
        self._sort(messages)

    def _sort(self, messages: list[Message]) -> None:
        """Put records into the buffers of their partitions."""
        if set(map(type, column(messages, "error"))) == {NoneType}:
            self._add_all(messages)
            return
        for is_error, run in groupby(messages, key=_is_error):
            if is_error:
                for message in run:
                    self._hear(message, message.error())
            else:
                self._add_all(list(run))

    def _add_all(self, messages: list[Message]) -> None:
        """Add records of several partitions, which come in long runs."""
        places = column(messages, "partition")
        if len({each.topic for each in self._buffers}) > 1:
            places = list(zip(column(messages, "topic"), places, strict=True))
        if places.count(places[0]) == len(places):
            self._add(messages)
            return
        start = 0
        for _, run in groupby(places):
            stop = start + sum(1 for _ in run)
            self._add(messages[start:stop])
            start = stop

    def _add(self, messages: list[Message]) -> None:
        buffer = self._buffers.get(KafkaTopicPartition(messages[0].topic(), messages[0].partition()))
        if buffer is not None and buffer.assigned:
            buffer.add(messages)

    def _hear(self, message: Message, error: Any) -> None:
        """Take note of what the consumer says of a partition."""
        topic, partition = message.topic(), message.partition()
        known = None
        if topic is not None and partition is not None and partition >= 0:
            known = self._buffers.get(KafkaTopicPartition(topic, partition))
        name = error.name()
        if known is None:
            if topic is None and not self._cluster.is_passing(error):
                raise self._cluster.explain(error, "Kafka could not be read")
        elif name == "_PARTITION_EOF":
            if known.assigned:
                known.cover(_offset(message))
        elif name in _GONE:
            known.lost = True
        elif not self._cluster.is_passing(error):
            raise self._cluster.explain(error, f"partition {known.partition} could not be read")

    def _be_silent(self, buffer: Buffer, began: float, now: float) -> None:
        if buffer.silent_since is None:
            buffer.silent_since = began
        error = no_answer()
        gives_up = now - buffer.silent_since >= self._cluster.patience.total_s
        if gives_up or not self._cluster.is_passing(error):
            raise self._cluster.explain(
                error, f"partition {buffer.partition} could not be read behind offset {buffer.covered}"
            )

    def _park_others(self, wanted: Buffer) -> None:
        for buffer in self._buffers.values():
            if buffer is not wanted and buffer.assigned and _is_much(buffer):
                self._park(buffer)

    def _park(self, buffer: Buffer) -> None:
        if buffer.assigned:
            self._consumer.incremental_unassign(
                [self._place(buffer.partition.topic, buffer.partition.partition)]
            )
            buffer.assigned = False


def _is_much(buffer: Buffer) -> bool:
    return buffer.records > _PARKED_RECORDS or buffer.size > _PARKED_BYTES


def _is_error(message: Message) -> bool:
    return message.error() is not None
