"""Streams over several Kafka clusters: declared, not yet built (`pyflink.datastream.connectors.dynamic_kafka`)."""

from __future__ import annotations

from millstream.base.not_yet import NotYet
from millstream.connectors.kafka.records import KafkaRecordDeserializationSchema

__all__ = [
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]


class _DynamicKafka(NotYet):
    _reason = "KafkaSource, of the extra millstream[kafka], reads one cluster."
    _hint = "Use a KafkaSource for each cluster, and union(...)."


class DynamicKafkaSource(_DynamicKafka):
    """Reads streams of several clusters."""


class DynamicKafkaSourceBuilder(_DynamicKafka):
    """Makes a DynamicKafkaSource."""


class KafkaMetadataService(_DynamicKafka):
    """Tells topics and clusters of a stream."""


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """Topics of one cluster as streams."""


class KafkaStreamSubscriber(_DynamicKafka):
    """Chooses streams."""


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Chooses streams by id."""


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """Chooses streams by pattern."""
