"""Kafka (PyFlink's `pyflink.datastream.connectors.kafka`); sinks are declared, not yet built."""

from __future__ import annotations

from enum import Enum

from millstream.base.not_yet import NotYet
from millstream.connectors.kafka.consumer import FlinkKafkaConsumer, FlinkKafkaConsumerBase
from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.records import (
    ConsumerRecord,
    ConsumerRecords,
    KafkaRecordDeserializationSchema,
)
from millstream.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from millstream.datastream.connectors.base import DeliveryGuarantee

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


class _Kafka(NotYet):
    _reason = "The Kafka connector comes with a later release, as the extra millstream[kafka]."
    _hint = "Until then use FileSource, FileSink or a Source of your own (millstream.spi.source)."


class Semantic(Enum):
    """What the older sink guarantees."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class KafkaSink(_Kafka):
    """Writes to topics."""


class KafkaSinkBuilder(_Kafka):
    """Makes a KafkaSink."""


class KafkaRecordSerializationSchema(_Kafka):
    """Records into messages."""


class KafkaRecordSerializationSchemaBuilder(_Kafka):
    """Makes a KafkaRecordSerializationSchema."""


class KafkaTopicSelector(_Kafka):
    """Chooses the topic of a record."""


class FlinkKafkaProducerBase(_Kafka):
    """The older sink, base."""


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """The older sink."""
