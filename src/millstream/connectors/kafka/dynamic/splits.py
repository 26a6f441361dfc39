"""What a source of streams keeps between its driver's side and its slots: splits of clusters, with their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.positions import KafkaSnapshot, KafkaSplit
from millstream.connectors.kafka.settings import SourceSettings

__all__ = [
    "ClusterPartition",
    "ClusterVersion",
    "DynamicSnapshot",
    "DynamicSplit",
    "inner_id",
    "only_topics",
    "with_newer",
]


class ClusterPartition(NamedTuple):
    """A partition of a topic of a cluster.

    >>> ClusterPartition("west", KafkaTopicPartition("clicks", 0)).split_id({})
    'west/clicks-0'
    """

    cluster_id: str
    partition: KafkaTopicPartition

    def split_id(self, retired: Mapping[ClusterPartition, int]) -> str:
        """Return the id of its split: another one each time when it is read again after it was taken out."""
        times = retired.get(self, 0)
        return f"{self.cluster_id}/{self.partition}" + (f"#{times}" if times else "")


def inner_id(split_id: str) -> tuple[str, str]:
    """Return the cluster of a split, and what it is called there.

    >>> inner_id("west/clicks-0#2")
    ('west', 'clicks-0')
    """
    cluster_id, _, rest = split_id.rpartition("/")
    return cluster_id, rest.partition("#")[0]


class ClusterVersion(NamedTuple):
    """A cluster as it is described now; each change makes another version."""

    cluster_id: str
    version: int


class DynamicSplit(NamedTuple):
    """What a reader is told of a split.

    Attributes:
        cluster: Where it is.
        settings: What is read there; None if the split is only to end: it was taken out of its stream.
        split: The partition.
        current: All clusters that are read now: readers of others are not needed any more.
    """

    cluster: ClusterVersion
    settings: SourceSettings | None
    split: KafkaSplit
    current: frozenset[ClusterVersion]


@dataclass(frozen=True)
class DynamicSnapshot:
    """A source's part of a checkpoint.

    Attributes:
        clusters: How far partitions were read, by the id of their cluster; also those that are not read any more, so
            that one that comes back goes on.
        leaving: Partitions that were taken out of their stream; their splits have not been told to end.
        out: Those whose splits have ended.
        retired: How often a partition's split was told to end because of that.
    """

    clusters: dict[str, KafkaSnapshot]
    leaving: frozenset[ClusterPartition]
    out: frozenset[ClusterPartition]
    retired: dict[ClusterPartition, int]


def only_topics(snapshot: KafkaSnapshot, topics: frozenset[str]) -> KafkaSnapshot:
    """Return what a snapshot has of some topics."""
    return KafkaSnapshot(
        {each: split for each, split in snapshot.positions.items() if each.topic in topics},
        {name: topic_id for name, topic_id in snapshot.topic_ids.items() if name in topics},
    )


def with_newer(kept: KafkaSnapshot | None, snapshot: KafkaSnapshot) -> KafkaSnapshot:
    """Return a snapshot, with what an older one has beside."""
    if kept is None:
        return snapshot
    return KafkaSnapshot(kept.positions | snapshot.positions, kept.topic_ids | snapshot.topic_ids)
