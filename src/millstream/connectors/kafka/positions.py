"""What a source keeps between its driver's side and its slots: partitions with their positions."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from millstream.connectors.kafka.partitions import KafkaTopicPartition

__all__ = ["KafkaSnapshot", "KafkaSplit", "SplitPosition", "owner_of"]


@dataclass(frozen=True, slots=True)
class KafkaSplit:
    """What a reader is told of a partition.

    Attributes:
        partition: Which one.
        end: Offset behind the last record that will ever be read; None if reading never ends.
    """

    partition: KafkaTopicPartition
    end: int | None


@dataclass(slots=True)
class SplitPosition:
    """How far a partition has been read.

    Attributes:
        position: The next offset to be read.
        end: Offset behind the last record that will ever be read; None if reading never ends.
    """

    position: int
    end: int | None

    @property
    def finished(self) -> bool:
        """Whether all has been read."""
        return self.end is not None and self.position >= self.end


@dataclass(frozen=True)
class KafkaSnapshot:
    """A source's part of a checkpoint.

    Attributes:
        positions: How far each partition has been read, also those that are finished: they are not found anew.
        topic_ids: Which topics these were: one that is made anew has another id.
    """

    positions: dict[KafkaTopicPartition, SplitPosition]
    topic_ids: dict[str, str]


def owner_of(partition: KafkaTopicPartition, parallelism: int) -> int:
    """Return the subtask that reads a partition: those of one topic go round.

    >>> [owner_of(KafkaTopicPartition("clicks", number), 2) for number in range(4)]
    [1, 0, 1, 0]
    """
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % parallelism
