"""Which topics of which clusters a stream is made of, and who tells (Flink's `KafkaMetadataService`)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError, TypeMismatchError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.offsets import KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import TopicPattern
from millstream.connectors.kafka.properties import KafkaProperties

__all__ = [
    "ClusterMetadata",
    "KafkaMetadataService",
    "KafkaStream",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
    "clusters_of",
]


@dataclass(frozen=True, init=False)
class ClusterMetadata:
    """What belongs to a stream in one cluster.

    Attributes:
        topics: The topics.
        properties: Kafka's, of this cluster: `bootstrap.servers`, security; they win over those of the source.
        starting_offsets_initializer: Where this cluster is begun; None for what the source says.
        stopping_offsets_initializer: Where it ends; None for what the source says.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import ClusterMetadata
        >>> cluster = ClusterMetadata({"orders"}, {"bootstrap.servers": "north:9092"})
        >>> sorted(cluster.topics)
        ['orders']
    """

    topics: frozenset[str]
    properties: KafkaProperties
    starting_offsets_initializer: KafkaOffsetsInitializer | None = field(compare=False)
    stopping_offsets_initializer: KafkaOffsetsInitializer | None = field(compare=False)

    def __init__(
        self,
        topics: Iterable[str],
        properties: Mapping[str, Any],
        starting_offsets_initializer: KafkaOffsetsInitializer | None = None,
        stopping_offsets_initializer: KafkaOffsetsInitializer | None = None,
    ) -> None:
        if isinstance(topics, str):
            raise TypeMismatchError(f"topics of a cluster are {topics!r}, must be a set of names")
        object.__setattr__(self, "topics", frozenset(topics))
        object.__setattr__(self, "properties", KafkaProperties(properties))
        object.__setattr__(self, "starting_offsets_initializer", starting_offsets_initializer)
        object.__setattr__(self, "stopping_offsets_initializer", stopping_offsets_initializer)


@dataclass(frozen=True)
class KafkaStream:
    """A stream: topics in clusters.

    Attributes:
        stream_id: Names it.
        cluster_metadata_map: What belongs to it, by the id of the cluster.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import ClusterMetadata, KafkaStream
        >>> orders = KafkaStream("orders", {"west": ClusterMetadata({"orders"}, {"bootstrap.servers": "west:9092"})})
    """

    stream_id: str
    cluster_metadata_map: Mapping[str, ClusterMetadata]

    def __hash__(self) -> int:
        return hash(self.stream_id)


class KafkaMetadataService(ABC):
    """Tells which topics of which clusters streams are made of; derive from it, or take the one for a single cluster.

    Called on the driver, when the job starts and then at intervals, on a thread of its own. It travels with the source:
    it has to be picklable. An id of a cluster means the same cluster for ever: positions are kept under it.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import ClusterMetadata, KafkaMetadataService
        >>> from millstream.datastream.connectors.dynamic_kafka import KafkaStream
        >>> class OneTopicEach(KafkaMetadataService):
        ...     def __init__(self, topics, servers):
        ...         self.topics, self.servers = topics, servers
        ...     def get_all_streams(self):  # asked again and again: it may read a file, or ask a service
        ...         cluster = {"bootstrap.servers": self.servers}
        ...         return {KafkaStream(each, {"west": ClusterMetadata({each}, cluster)}) for each in self.topics}
        >>> service = OneTopicEach(["orders", "returns"], "west:9092")
        >>> sorted(stream.stream_id for stream in service.get_all_streams())
        ['orders', 'returns']
    """

    def __init__(self, j_metadata_service: Any = None) -> None:
        if j_metadata_service is not None:
            raise NotSupportedError(
                "a KafkaMetadataService was given an object of a JVM",
                hint="Derive a class, and implement get_all_streams.",
            )

    @abstractmethod
    def get_all_streams(self) -> set[KafkaStream]:
        """Return all streams there are now."""

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        """Return streams by their ids; those that are not there now are left out.

        By default they are looked for among all streams.
        """
        return {each.stream_id: each for each in self.get_all_streams() if each.stream_id in stream_ids}

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Return whether a cluster is to answer: if not, that it does not is no error.

        By default those are active that a stream is in.
        """
        return any(cluster_id in each.cluster_metadata_map for each in self.get_all_streams())

    def close(self) -> None:
        """Release what it holds; called at the end of each attempt of the job. It may be asked again."""


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """The topics of one cluster as streams: the stream's id is the topic's name.

    Args:
        kafka_cluster_id: Names the cluster.
        properties: Kafka's, with `bootstrap.servers`.

    Raises:
        ConfigurationError: If no brokers are named.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import SingleClusterTopicMetadataService
        >>> service = SingleClusterTopicMetadataService("north", {"bootstrap.servers": "north:9092"})
    """

    def __init__(self, kafka_cluster_id: str, properties: Mapping[str, Any]) -> None:
        super().__init__()
        self._cluster_id = kafka_cluster_id
        self._properties = KafkaProperties(properties)
        Cluster(self._properties, SourceError)

    def get_all_streams(self) -> set[KafkaStream]:
        """Ask the cluster for its topics."""
        return set(self._streams(lambda _: True).values())

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        """Ask the cluster which of the topics it has."""
        return self._streams(lambda topic: topic in stream_ids)

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Return whether it is the cluster."""
        return cluster_id == self._cluster_id

    def _streams(self, wanted: Any) -> dict[str, KafkaStream]:
        cluster = Cluster(self._properties, SourceError)
        try:
            topics = TopicPattern(".*").find(cluster)
        finally:
            cluster.close()
        return {
            topic: KafkaStream(topic, {self._cluster_id: ClusterMetadata({topic}, self._properties)})
            for topic in topics
            if wanted(topic)
        }


class KafkaStreamSubscriber(ABC):
    """Chooses the streams that are read; picklable.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import KafkaStreamSubscriber
        >>> class OfTeam(KafkaStreamSubscriber):
        ...     def get_subscribed_streams(self, kafka_metadata_service):
        ...         streams = kafka_metadata_service.get_all_streams()
        ...         return {each for each in streams if each.stream_id.startswith("team-a.")}
    """

    def __init__(self, j_kafka_stream_subscriber: Any = None) -> None:
        if j_kafka_stream_subscriber is not None:
            raise NotSupportedError(
                "a KafkaStreamSubscriber was given an object of a JVM",
                hint="Derive a class, and implement get_subscribed_streams.",
            )

    @abstractmethod
    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> set[KafkaStream]:
        """Return the streams that are to be read now."""


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Some streams.

    Args:
        stream_ids: Their ids.

    Raises:
        ConfigurationError: If there is none.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import KafkaStreamSetSubscriber
        >>> # builder.set_kafka_stream_subscriber(subscriber)
        >>> subscriber = KafkaStreamSetSubscriber({"orders", "payments"})
    """

    def __init__(self, stream_ids: Collection[str]) -> None:
        super().__init__()
        if isinstance(stream_ids, str) or not stream_ids:
            raise ConfigurationError(f"ids of streams are {stream_ids!r}, must be a set of names")
        self._stream_ids = frozenset(stream_ids)

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> set[KafkaStream]:
        """Return those of them that are there."""
        return set(kafka_metadata_service.describe_streams(self._stream_ids).values())

    def __repr__(self) -> str:
        return f"named {', '.join(sorted(self._stream_ids))}"


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """All streams in whose id a regular expression is found, also later ones.

    Args:
        stream_pattern: The expression, Python's; `^...$` for whole ids.

    Raises:
        ConfigurationError: If it is none.

    Example:
        >>> from millstream.datastream.connectors.dynamic_kafka import StreamPatternSubscriber
        >>> subscriber = StreamPatternSubscriber("^orders-.*$")  # builder.set_kafka_stream_subscriber(subscriber)
    """

    def __init__(self, stream_pattern: str) -> None:
        super().__init__()
        try:
            self._pattern = re.compile(stream_pattern)
        except re.error as error:
            raise ConfigurationError(
                f"stream pattern {stream_pattern!r} is no regular expression: {error}",
                hint="Patterns are Python's; nearly all of Java's mean the same.",
            ) from error

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> set[KafkaStream]:
        """Return those that match now."""
        streams = kafka_metadata_service.get_all_streams()
        return {each for each in streams if self._pattern.search(each.stream_id) is not None}

    def __repr__(self) -> str:
        return f"named like {self._pattern.pattern!r}"


def clusters_of(streams: Iterable[KafkaStream]) -> dict[str, ClusterMetadata]:
    """Return what is to be read in each cluster, for all streams together.

    Raises:
        SourceError: If streams do not agree on a cluster's properties.
    """
    clusters: dict[str, ClusterMetadata] = {}
    for stream in sorted(streams, key=lambda each: each.stream_id):
        for cluster_id, metadata in stream.cluster_metadata_map.items():
            known = clusters.get(cluster_id)
            if known is not None and known.properties != metadata.properties:
                raise SourceError(
                    f"streams give Kafka cluster {cluster_id!r} different properties",
                    detail=f"{stream.stream_id!r} gives {metadata.properties}, another one {known.properties}.",
                    hint="One id is one cluster: the metadata service has to tell the same of it everywhere.",
                )
            topics = metadata.topics if known is None else known.topics | metadata.topics
            first = known or metadata
            clusters[cluster_id] = ClusterMetadata(
                topics,
                metadata.properties,
                first.starting_offsets_initializer,
                first.stopping_offsets_initializer,
            )
    return {cluster_id: each for cluster_id, each in clusters.items() if each.topics}
