"""From records of Kinesis to records of a job."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.spi.batch import Batch
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation

__all__ = ["KinesisDeserializationSchema", "KinesisMessage", "RecordDecoder", "schema_of"]


@dataclass(frozen=True, slots=True)
class KinesisMessage:
    """A record of a shard.

    Attributes:
        data: Its bytes.
        partition_key: What chose its shard.
        sequence: Its number in the shard; those that were packed into one have the same.
        arrival_ms: When Kinesis stored it, about, in epoch milliseconds.
        stream: The stream.
        shard_id: The shard.
    """

    data: bytes
    partition_key: str = field(repr=False)
    sequence: str = field(repr=False)
    arrival_ms: int = field(repr=False)
    stream: str = field(repr=False)
    shard_id: str = field(repr=False)

    def __bytes__(self) -> bytes:
        return self.data


class KinesisDeserializationSchema(ABC):
    """Makes records with what Kinesis tells of them; yours is derived from it, and implements `deserialize`.

    Example:
        >>> from millstream.datastream.connectors.kinesis import KinesisDeserializationSchema
        >>> class Keyed(KinesisDeserializationSchema):
        ...     def deserialize(self, record_value, partition_key, seq_num, approx_arrival_timestamp, stream, shard_id):
        ...         return partition_key, record_value.decode()
    """

    def __init__(self, j_kinesis_deserialization_schema: Any = None) -> None:
        if j_kinesis_deserialization_schema is not None:
            raise NotSupportedError(
                "a KinesisDeserializationSchema was given an object of a JVM",
                hint="Derive a class, and implement deserialize.",
            )

    def deserialize(
        self,
        record_value: bytes,
        partition_key: str,
        seq_num: str,
        approx_arrival_timestamp: int,
        stream: str,
        shard_id: str,
    ) -> Any:
        """Return the value of a record; None if it has none: nothing is emitted then.

        Args:
            record_value: Its bytes.
            partition_key: What chose its shard.
            seq_num: Its sequence number.
            approx_arrival_timestamp: When Kinesis stored it, about, in epoch milliseconds.
            stream: The stream.
            shard_id: The shard.

        Raises:
            ValueError: If it does not parse.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override deserialize(...)")

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the values; None, by default, if it is not known."""
        return None


class _Adapted(DeserializationSchema):
    """A `KinesisDeserializationSchema` as any other, for messages that are `KinesisMessage`s."""

    def __init__(self, schema: KinesisDeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, message: Any) -> Any:
        return self._schema.deserialize(
            message.data,
            message.partition_key,
            message.sequence,
            message.arrival_ms,
            message.stream,
            message.shard_id,
        )

    def get_produced_type(self) -> TypeInformation | None:
        return produced_type_of(self._schema)


def schema_of(schema: Any) -> DeserializationSchema:
    """Return a schema of either kind as a `DeserializationSchema`.

    Raises:
        ConfigurationError: If it is neither.
    """
    if isinstance(schema, KinesisDeserializationSchema):
        return _Adapted(schema)
    if isinstance(schema, DeserializationSchema):
        return schema
    raise ConfigurationError(
        f"{type(schema).__name__} is no DeserializationSchema and no KinesisDeserializationSchema"
    )


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """How records of Kinesis become records; picklable.

    Attributes:
        schema: Makes a value of one.
        policy: What becomes of those that do not parse.
    """

    schema: DeserializationSchema
    policy: MalformedPolicy

    def opened(self, context: SourceReaderContext, *, columns: bool) -> OpenDecoder:
        """Return what decodes in a reader."""
        return OpenDecoder(self, context, columns=columns)


class OpenDecoder:
    """Decodes records in a reader."""

    def __init__(self, decoder: RecordDecoder, context: SourceReaderContext, *, columns: bool) -> None:
        self._decoder = decoder
        self._context = context
        self._columns = columns
        self._with_metadata = isinstance(decoder.schema, _Adapted)
        self._by_stream: dict[str, MessageDecoder] = {}

    def decode(self, stream: str, messages: Sequence[KinesisMessage]) -> Batch:
        """Return the records of messages of one stream, with the times of these.

        Raises:
            MalformedRecordError: If one does not parse, and that is to fail the job.
        """
        decoder = self._by_stream.get(stream)
        if decoder is None:
            decoder = self._by_stream[stream] = MessageDecoder(
                self._decoder.schema,
                self._decoder.policy,
                self._context,
                source=f"the Kinesis stream {stream}",
                columns=self._columns and not self._with_metadata,
            )

        def where(index: int) -> str:
            return f"{messages[index].shard_id}, sequence number {messages[index].sequence}"

        times = [message.arrival_ms for message in messages]
        data: Sequence[Any] = messages if self._with_metadata else [message.data for message in messages]
        return decoder.decode(data, where, times)
