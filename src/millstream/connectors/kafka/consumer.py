"""The older Kafka source (PyFlink's `FlinkKafkaConsumer`): the same source, described in another way."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import NamedTopics
from millstream.connectors.kafka.records import ValueOnly
from millstream.connectors.kafka.settings import SourceOptions, SourceSettings
from millstream.connectors.kafka.source import KafkaSource
from millstream.connectors.messages import MalformedPolicy
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import Boundedness

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaConsumerBase"]


class FlinkKafkaConsumerBase(KafkaSource, ABC):
    """What the older source can be told; each method changes the source and returns it.

    Example:
        >>> from millstream.datastream.connectors.kafka import FlinkKafkaConsumerBase
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import FlinkKafkaConsumer
        >>> properties = {"bootstrap.servers": "localhost:9092"}
        >>> consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), properties)
        >>> consumer = consumer.set_start_from_timestamp(1_700_000_000_000)
        >>> isinstance(consumer, FlinkKafkaConsumerBase)
        True
    """

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Say whether offsets are committed to the consumer group when a checkpoint is complete, as by default."""
        options = replace(self._settings.options, commits_offsets=commit_on_checkpoints)
        return self._with(options=options)

    def set_start_from_earliest(self) -> Self:
        """Begin with the first records."""
        return self._with(starts=KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> Self:
        """Begin behind the last records."""
        return self._with(starts=KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Begin with the first records whose timestamps are not before this one, epoch milliseconds."""
        return self._with(starts=KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        """Begin at the offsets of the group, or where the property `auto.offset.reset` says; the default."""
        return self._with(starts=_group_offsets(self._settings.options))

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Go on reading partitions of a checkpoint whose topics are not subscribed any more."""
        return self._with(drops_unsubscribed=False)

    def _with(self, **changes: Any) -> Self:
        self._settings = replace(self._settings, **changes)
        return self


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics without end, from the offsets of the group on unless it is told otherwise.

    Give it to `add_source`, or to `from_source` with a watermark strategy: each partition has a watermark of its own.
    New code takes `KafkaSource`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import FlinkKafkaConsumer
        >>> properties = {"bootstrap.servers": "localhost:9092", "group.id": "shop"}
        >>> consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), properties)
        >>> consumer = consumer.set_start_from_earliest()
        >>> consumer.get_boundedness().name
        'CONTINUOUS_UNBOUNDED'
    """

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, Any],
    ) -> None:
        """Describe the source.

        Args:
            topics: A topic, or several.
            deserialization_schema: Makes records of the values.
            properties: Kafka's properties of consumers.

        Raises:
            ConfigurationError: If a property has a value that does not fit.
        """
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        options = SourceOptions.of(_in_new_terms(properties))
        settings = SourceSettings(
            options,
            NamedTopics(names),
            _group_offsets(options),
            None,
            options.discovery_interval_ms if options.is_discovery_set else None,
            drops_unsubscribed=True,
        )
        super().__init__(
            settings,
            ValueOnly(deserialization_schema),
            MalformedPolicy.fail(),
            Boundedness.CONTINUOUS_UNBOUNDED,
        )


def _in_new_terms(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties with the newer source's name for how often partitions are looked for."""
    renamed = {"flink.partition-discovery.interval-millis": "partition.discovery.interval.ms"}
    return {renamed.get(key, key): value for key, value in properties.items()}


def _group_offsets(options: SourceOptions) -> KafkaOffsetsInitializer:
    reset = options.reset if options.is_reset_set else KafkaOffsetResetStrategy.LATEST
    if options.group is None:  # as a Kafka consumer without a group: there are no offsets to begin from
        return _BEGINNINGS[reset]()
    return KafkaOffsetsInitializer.committed_offsets(reset)


_BEGINNINGS = {
    KafkaOffsetResetStrategy.EARLIEST: KafkaOffsetsInitializer.earliest,
    KafkaOffsetResetStrategy.LATEST: KafkaOffsetsInitializer.latest,
    KafkaOffsetResetStrategy.NONE: KafkaOffsetsInitializer.committed_offsets,
}
