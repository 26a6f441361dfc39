"""Kafka (PyFlink's `pyflink.datastream.connectors.kafka`)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.kafka.consumer import FlinkKafkaConsumer, FlinkKafkaConsumerBase
from millstream.connectors.kafka.legacy import FlinkKafkaProducer, FlinkKafkaProducerBase, Semantic
from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.records import (
    ConsumerRecord,
    ConsumerRecords,
    KafkaRecordDeserializationSchema,
)
from millstream.connectors.kafka.serialization import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from millstream.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from millstream.connectors.kafka.source import KafkaSource, KafkaSourceBuilder

__all__ = [
    "ConsumerRecord",
    "ConsumerRecords",
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]
