"""What a source of streams reads and how: the declared half, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, MillstreamError, SourceError
from millstream.connectors.kafka.dynamic.metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStreamSubscriber,
    clusters_of,
)
from millstream.connectors.kafka.offsets import KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import NamedTopics
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.settings import SourceOptions, SourceSettings

__all__ = ["DynamicSettings"]

_INTERVAL = "stream-metadata-discovery-interval-ms"
_FAILURES = "stream-metadata-discovery-failure-threshold"
_DEFAULTS = {_INTERVAL: -1, _FAILURES: 1}


@dataclass(frozen=True)
class DynamicSettings:
    """What is read.

    Attributes:
        subscriber: Which streams.
        service: Who knows their topics and clusters.
        properties: Kafka's and the source's, for all clusters.
        starts: Where clusters begin that are there at first.
        stops: Where they end; None for never.
        interval_ms: How often the service is asked; None for once.
        failures: After how many failures in a row of asking it the job fails.
    """

    subscriber: KafkaStreamSubscriber
    service: KafkaMetadataService
    properties: KafkaProperties
    starts: KafkaOffsetsInitializer
    stops: KafkaOffsetsInitializer | None
    interval_ms: int | None
    failures: int

    @staticmethod
    def of(
        subscriber: KafkaStreamSubscriber,
        service: KafkaMetadataService,
        properties: Mapping[str, Any],
        starts: KafkaOffsetsInitializer,
        stops: KafkaOffsetsInitializer | None,
    ) -> DynamicSettings:
        """Read the options among the properties.

        Raises:
            ConfigurationError: If one has a value that does not fit.
        """
        text = KafkaProperties(properties)
        numbers = {key: _integer(text, key) for key in _DEFAULTS}
        others = KafkaProperties({key: text[key] for key in text if key not in _DEFAULTS})
        SourceOptions.of(others)
        interval_ms = numbers[_INTERVAL]
        return DynamicSettings(
            subscriber,
            service,
            others,
            starts,
            stops,
            interval_ms if interval_ms > 0 and stops is None else None,
            max(numbers[_FAILURES], 1),
        )

    @property
    def is_bounded(self) -> bool:
        """Whether clusters have ends."""
        return self.stops is not None

    def look(self) -> dict[str, ClusterMetadata]:
        """Ask the service what is to be read in each cluster now.

        Raises:
            SourceError: If it does not tell.
        """
        try:
            return clusters_of(self.subscriber.get_subscribed_streams(self.service))
        except MillstreamError:
            raise
        except Exception as error:
            raise SourceError(
                f"the metadata service of Kafka streams {type(self.service).__name__} failed: "
                f"{type(error).__name__}: {error}"
            ) from error

    def of_cluster(
        self, cluster_id: str, metadata: ClusterMetadata, *, is_new: bool = False
    ) -> SourceSettings:
        """Return what is read of a cluster.

        Args:
            cluster_id: The cluster.
            metadata: What the service tells of it.
            is_new: Whether it was not there when the job started: it is read from its first records.

        Raises:
            ConfigurationError: If properties do not fit.
        """
        properties = self.properties.updated(metadata.properties)
        if not properties.get("bootstrap.servers"):
            raise ConfigurationError(
                f"no brokers are named of Kafka cluster {cluster_id!r}",
                hint='The metadata service has to give its properties "bootstrap.servers".',
            )
        prefix = properties.get("client.id.prefix") or properties.get("group.id")
        if prefix:
            properties = properties.updated({"client.id.prefix": f"{prefix}-{cluster_id}"})
        options = SourceOptions.of(properties)
        starts = metadata.starting_offsets_initializer
        if starts is None:
            starts = KafkaOffsetsInitializer.earliest() if is_new else self.starts
        return SourceSettings(
            options,
            NamedTopics(tuple(sorted(metadata.topics))),
            starts,
            metadata.stopping_offsets_initializer or self.stops if self.is_bounded else None,
            None if self.is_bounded else options.discovery_interval_ms,
            adds_subscribed=not self.is_bounded,
        )


def _integer(properties: Mapping[str, str], key: str) -> int:
    value = properties.get(key, str(_DEFAULTS[key]))
    try:
        return int(value)
    except ValueError as error:
        raise ConfigurationError(
            f"property {key!r} of a Kafka source is {value!r}, must be an integer"
        ) from error
