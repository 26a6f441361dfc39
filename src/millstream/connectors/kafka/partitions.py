"""Which partitions a source reads: topics by name, by pattern, or partitions one by one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.kafka.clients import Cluster, confluent_kafka

__all__ = [
    "FoundTopic",
    "KafkaTopicPartition",
    "NamedTopics",
    "Subscription",
    "TopicPartitions",
    "TopicPattern",
]

_ANSWER_S = 10.0
# Kafka's own topics, which no pattern is meant for; brokers do not mark them in the list of all topics.
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True, order=True, init=False)
class KafkaTopicPartition:
    """A partition of a topic.

    >>> from millstream.datastream.connectors.kafka import KafkaTopicPartition
    >>> KafkaTopicPartition("clicks", 0)
    clicks-0
    """

    topic: str
    partition: int

    def __init__(self, topic: str, partition: int) -> None:
        """Name a partition.

        Raises:
            ConfigurationError: If the partition is negative.
        """
        if partition < 0:
            raise ConfigurationError(f"partition {partition} of topic {topic!r} is negative")
        object.__setattr__(self, "topic", topic)
        object.__setattr__(self, "partition", partition)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the cluster has it.

    Attributes:
        topic_id: Given to it when it was made; another topic of the same name has another one. Empty if the brokers
            are too old to have any.
        partitions: Those that are read.
    """

    topic_id: str
    partitions: frozenset[KafkaTopicPartition]


class Subscription(ABC):
    """Says which partitions are read; picklable."""

    @abstractmethod
    def find(self, cluster: Cluster) -> dict[str, FoundTopic]:
        """Ask the cluster for the partitions there are now, by topic.

        Raises:
            SourceError: If no broker answers, or a topic or partition that was named does not exist.
        """


@dataclass(frozen=True)
class NamedTopics(Subscription):
    """All partitions of some topics."""

    topics: tuple[str, ...]

    def find(self, cluster: Cluster) -> dict[str, FoundTopic]:
        """Ask for the topics."""
        return _describe(cluster, self.topics)


@dataclass(frozen=True)
class TopicPattern(Subscription):
    """All partitions of all topics whose whole name matches a regular expression."""

    pattern: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            compiled = re.compile(self.pattern)
        except re.error as error:
            raise ConfigurationError(
                f"topic pattern {self.pattern!r} is no regular expression: {error}",
                hint="Patterns are Python's; nearly all of Java's mean the same.",
            ) from error
        object.__setattr__(self, "_compiled", compiled)

    def find(self, cluster: Cluster) -> dict[str, FoundTopic]:
        """Ask for all topics, then for those that match; there may be none yet."""
        names = cluster.topics(None, f"topics that match {self.pattern!r} could not be looked for").topics
        matching = sorted(
            name for name in names if name not in _INTERNAL and self._compiled.fullmatch(name) is not None
        )
        return _describe(cluster, matching) if matching else {}


@dataclass(frozen=True)
class TopicPartitions(Subscription):
    """Some partitions."""

    partitions: frozenset[KafkaTopicPartition]

    def find(self, cluster: Cluster) -> dict[str, FoundTopic]:
        """Ask for their topics."""
        topics = _describe(cluster, sorted({each.topic for each in self.partitions}))
        there = {each for topic in topics.values() for each in topic.partitions}
        missing = sorted(self.partitions - there)
        if missing:
            has = len(topics[missing[0].topic].partitions)
            raise SourceError(
                f"partition {missing[0].partition} of topic {missing[0].topic!r} does not exist",
                detail=f"The topic has {has} partitions, from 0 on.",
                hint="Check set_partitions(...), or read all partitions with set_topics(...).",
            )
        return {
            name: FoundTopic(topic.topic_id, topic.partitions & self.partitions)
            for name, topic in topics.items()
        }


def _describe(cluster: Cluster, names: tuple[str, ...] | list[str]) -> dict[str, FoundTopic]:
    what = f"topic {names[0]!r}" if len(names) == 1 else f"topics {', '.join(map(repr, names))}"
    doing = f"the partitions of {what} could not be looked up"
    cluster.reach(doing)  # says at once if the login is refused
    described = cluster.call(lambda: _ask(cluster, names), doing)
    return {name: _found(name, description) for name, description in described.items()}


def _ask(cluster: Cluster, names: tuple[str, ...] | list[str]) -> Mapping[str, Any]:
    collection = confluent_kafka().TopicCollection(list(names))
    futures = cluster.ask(lambda admin: admin.describe_topics(collection, request_timeout=_ANSWER_S))
    return {name: future.result() for name, future in futures.items()}


def _found(name: str, description: Any) -> FoundTopic:
    partitions = frozenset(KafkaTopicPartition(name, each.id) for each in description.partitions)
    return FoundTopic(str(description.topic_id), partitions)
