"""The older Kafka sink of Flink, `FlinkKafkaProducer`, on top of `KafkaSink`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common.functions import SinkFunction
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from millstream.connectors.kafka.sink import KafkaSink
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["FlinkKafkaProducer", "FlinkKafkaProducerBase", "Semantic"]


class Semantic(Enum):
    """What the older sink guarantees.

    Example:
        >>> from millstream.datastream.connectors.kafka import Semantic
        >>> [semantic.name for semantic in Semantic]
        ['EXACTLY_ONCE', 'AT_LEAST_ONCE', 'NONE']
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class FlinkKafkaProducerBase(SinkFunction, Sink):
    """What both forms of the older sink share; given to `add_sink`.

    Example:
        >>> from millstream.datastream.connectors.kafka import FlinkKafkaProducerBase
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import FlinkKafkaProducer
        >>> servers = {"bootstrap.servers": "localhost:9092"}
        >>> isinstance(FlinkKafkaProducer("sold", SimpleStringSchema(), servers), FlinkKafkaProducerBase)
        True
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        semantic: Semantic,
    ) -> None:
        if not isinstance(semantic, Semantic):
            raise ConfigurationError(f"{semantic!r} is no Semantic")
        self._topic = topic
        self._serialization_schema = serialization_schema
        self._properties = KafkaProperties(producer_config)
        self._semantic = semantic
        self._writes_timestamps = False

    def set_log_failures_only(self, log_failures_only: bool) -> None:
        """Keep: a record that is not written fails the job.

        Raises:
            NotSupportedError: If it is to be logged only: it would be lost.
        """
        if log_failures_only:
            raise NotSupportedError(
                "a Kafka sink that only logs what it could not write is not there",
                hint="Filter what may not be written before the sink.",
            )

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> None:
        """Set whether checkpoints wait for records to be written; without it there is no guarantee."""
        if self._semantic is not Semantic.EXACTLY_ONCE:
            self._semantic = Semantic.AT_LEAST_ONCE if flush_on_checkpoint else Semantic.NONE

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> None:
        """Set whether messages have the event time of their records; else the time at which they are written."""
        self._writes_timestamps = write_timestamp_to_kafka

    def invoke(self, value: Any, context: Any) -> None:
        """Never called: `add_sink` takes the sink that this is.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError("FlinkKafkaProducer writes batches", hint="Give it to add_sink.")

    def check(self) -> None:
        """See whether the brokers and the topic are there."""
        self._sink().check()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return self._sink().build_writer(context)

    def build_committer(self) -> Committer | None:
        """Make the committer, if the sink is exactly once."""
        return self._sink().build_committer()

    def _sink(self) -> KafkaSink:
        schema = KafkaRecordSerializationSchema(
            self._topic, self._serialization_schema, writes_timestamps=self._writes_timestamps
        )
        prefix = re.sub(r"[^A-Za-z0-9._-]", "-", f"flink-kafka-producer-{self._topic}")[:150]
        return KafkaSink(self._properties, schema, DeliveryGuarantee[self._semantic.name], prefix)


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes records to a topic, without keys.

    With `Semantic.EXACTLY_ONCE` two jobs that write to the same topic meet: use `KafkaSink` with a transactional id
    prefix for each.

    Args:
        topic: The topic.
        serialization_schema: Makes a message's value of a record.
        producer_config: Kafka's properties, with `bootstrap.servers`.
        kafka_producer_pool_size: Taken for the sake of programs: there is no pool.
        semantic: What is guaranteed.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import FlinkKafkaProducer, Semantic
        >>> servers = {"bootstrap.servers": "localhost:9092"}
        >>> guarantee = Semantic.AT_LEAST_ONCE
        >>> producer = FlinkKafkaProducer("sold", SimpleStringSchema(), servers, semantic=guarantee)
        >>> producer.set_write_timestamp_to_kafka(True)
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        super().__init__(topic, serialization_schema, producer_config, semantic)

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Return the sink itself: its transactions do not outlast a commit, so none times out between two."""
        return self
