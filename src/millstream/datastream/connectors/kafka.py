"""Kafka under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.kafka`)."""

from __future__ import annotations

from enum import Enum

from millstream.base.not_yet import NotYet
from millstream.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
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


class KafkaOffsetResetStrategy(Enum):
    """Where to go on if an offset is gone."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class Semantic(Enum):
    """What the older sink guarantees."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class KafkaSource(_Kafka):
    """Reads topics."""


class KafkaSourceBuilder(_Kafka):
    """Makes a KafkaSource."""


class KafkaTopicPartition(_Kafka):
    """A partition of a topic."""


class KafkaOffsetsInitializer(_Kafka):
    """Where reading starts and stops."""


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


class FlinkKafkaConsumerBase(_Kafka):
    """The older source, base."""


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """The older source."""


class FlinkKafkaProducerBase(_Kafka):
    """The older sink, base."""


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """The older sink."""
