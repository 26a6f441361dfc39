"""Records of Kafka with all that they have, and schemas that make values of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from millstream.base.errors import TypeMismatchError
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.types.basic import TypeInformation

Message = Any  # of the client library, which types offsets as if there were none
__all__ = [
    "AsMessages",
    "ConsumerRecord",
    "ConsumerRecords",
    "KafkaRecordDeserializationSchema",
    "ValueOnly",
    "column",
]

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """One record of a topic.

    Attributes:
        topic: The topic.
        partition: The partition in it.
        offset: Its place in the partition.
        timestamp: Epoch milliseconds, from its producer or the broker, as the topic is set up.
        key: The key's bytes; None if it has none.
        value: The value's bytes; None for a tombstone, which says that the key is deleted.
        headers: Names and values; a name may come more than once.

    Example:
        >>> from millstream.datastream.connectors.kafka import ConsumerRecord
        >>> record = ConsumerRecord("orders", 0, 17, 1_000, key=b"ann", value=b"tea")
        >>> record.key, record.offset
        (b'ann', 17)
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def __bytes__(self) -> bytes:
        """Return the value: what a dead letter has of the record."""
        return self.value or b""


def column(messages: Sequence[Message], name: str) -> list[Any]:
    """Return what a method gives of each message; it is looked up once, and called without a frame of Python."""
    return list(map(getattr(type(messages[0]), name), messages)) if messages else []


class ConsumerRecords(Sequence[ConsumerRecord]):
    """Records of one partition, in order of their offsets: as records, or column by column, which costs less.

    Example:
        >>> from millstream.datastream.connectors.kafka import ConsumerRecords
        >>> from millstream.datastream.connectors import kafka
        >>> class KeysAndValues(kafka.KafkaRecordDeserializationSchema):
        ...     def deserialize(self, record):
        ...         return record.key, record.value
        ...     def deserialize_all(self, records: ConsumerRecords):
        ...         return list(zip(records.keys, records.values, strict=True))  # faster: whole columns
        >>> builder = kafka.KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders")
        >>> source = builder.set_deserializer(KeysAndValues()).build()
    """

    def __init__(self, partition: KafkaTopicPartition, messages: Sequence[Message]) -> None:
        self._partition = partition
        self._messages = messages

    @property
    def topic(self) -> str:
        """The topic of all records."""
        return self._partition.topic

    @property
    def partition(self) -> int:
        """The partition of all records."""
        return self._partition.partition

    @cached_property
    def values(self) -> list[bytes | None]:
        """The value of each record; None for a tombstone."""
        return column(self._messages, "value")

    @cached_property
    def keys(self) -> list[bytes | None]:
        """The key of each record, or None."""
        return column(self._messages, "key")

    @cached_property
    def offsets(self) -> list[int]:
        """The offset of each record."""
        return column(self._messages, "offset")

    @cached_property
    def timestamps(self) -> list[int]:
        """The timestamp of each record, epoch milliseconds."""
        return [timestamp for _, timestamp in column(self._messages, "timestamp")]

    @cached_property
    def headers(self) -> list[Headers]:
        """The headers of each record."""
        return [tuple(headers or ()) for headers in column(self._messages, "headers")]

    def place(self, index: int) -> str:
        """Return where a record is, for messages."""
        return f"topic {self.topic!r}, partition {self.partition}, offset {self._messages[index].offset()}"

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ConsumerRecords(self._partition, self._messages[index])
        message = self._messages[index]
        return ConsumerRecord(
            self._partition.topic,
            self._partition.partition,
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        topic, partition = self._partition.topic, self._partition.partition
        columns = (self.offsets, self.timestamps, self.keys, self.values, self.headers)
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            yield ConsumerRecord(topic, partition, offset, timestamp, key, value, headers)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, ConsumerRecord) and value in list(self)


class KafkaRecordDeserializationSchema(ABC):
    """Makes a value of a record with its key, headers, topic, partition and offset (`set_deserializer`).

    Override `deserialize`; for speed `deserialize_all`, which is given whole batches, and `columns_of`.

    Example:
        >>> from millstream.datastream.connectors import kafka
        >>> class WithKey(kafka.KafkaRecordDeserializationSchema):
        ...     def deserialize(self, record):
        ...         return record.key.decode(), record.value.decode()
        >>> WithKey().deserialize(kafka.ConsumerRecord("orders", 0, 17, 1_000, key=b"ann", value=b"tea"))
        ('ann', 'tea')
    """

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the value of a record; None leaves it out.

        Raises:
            ValueError: If the record does not parse.
        """

    def deserialize_all(self, records: ConsumerRecords) -> list[Any]:
        """Return the value of each record, None for those to leave out; called with batches of one partition."""
        return list(map(self.deserialize, records))

    def columns_of(self, records: ConsumerRecords) -> Any | None:
        """Return a `pyarrow.RecordBatch` whose records are what `deserialize_all` would return, one for each record.

        None if these records, or all of this schema, have to be deserialized as values; so it is by default.
        """
        return None

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the values; None, by default, if it is not known."""
        return None

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Make a schema of one for values: keys and headers do not matter, tombstones are left out.

        Raises:
            TypeMismatchError: If it is no DeserializationSchema.
        """
        return ValueOnly(deserialization_schema)

    @staticmethod
    def records() -> KafkaRecordDeserializationSchema:
        """Make a schema whose values are the records themselves: `ConsumerRecord`s, tombstones as well."""
        return _Records()


class ValueOnly(KafkaRecordDeserializationSchema):
    """What a schema makes of the values.

    Args:
        schema: The schema of values.
    """

    def __init__(self, schema: DeserializationSchema) -> None:
        if not isinstance(schema, DeserializationSchema):
            raise TypeMismatchError(
                f"a Kafka source was given a {type(schema).__name__} for its values, not a DeserializationSchema"
            )
        self.schema = schema

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return what the schema makes of the value."""
        return None if record.value is None else self.schema.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the schema tells."""
        return produced_type_of(self.schema)


class _Records(KafkaRecordDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> ConsumerRecord:
        return record

    def deserialize_all(self, records: ConsumerRecords) -> list[Any]:
        return list(records)


class AsMessages(DeserializationSchema):
    """A schema of records where one of messages is asked for: its messages are records.

    Args:
        schema: The schema of records.
    """

    def __init__(self, schema: KafkaRecordDeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, message: Any) -> Any:
        """Return what the schema makes of a record."""
        return self._schema.deserialize(message)

    def deserialize_all(self, messages: Any) -> list[Any]:
        """Return what the schema makes of records; a batch of which some are known to be malformed comes in pieces."""
        if isinstance(messages, ConsumerRecords):
            return self._schema.deserialize_all(messages)
        return list(map(self._schema.deserialize, messages))

    def columns_of(self, messages: Any) -> Any | None:
        """Return what the schema makes of records as columns."""
        return self._schema.columns_of(messages)
