"""Streams over several Kafka clusters (`pyflink.datastream.connectors.dynamic_kafka`)."""

from millstream.connectors.kafka.dynamic.metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)
from millstream.connectors.kafka.dynamic.source import DynamicKafkaSource, DynamicKafkaSourceBuilder
from millstream.connectors.kafka.records import KafkaRecordDeserializationSchema

__all__ = [
    "ClusterMetadata",
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStream",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]
