"""From the records of a stream to messages: topic, key, value, headers, timestamp, partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, MillstreamError, SinkError, TypeMismatchError, shorten
from millstream.operators.user_code import attach_element
from millstream.spi.serialization import SerializationSchema
from millstream.types.row import Row, RowKind

__all__ = [
    "Headers",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
    "Messages",
    "Partitioner",
]

Headers = Sequence[tuple[str, bytes | None]]
Partitioner = Callable[[Any, bytes | None, bytes | None, str, Sequence[int]], int]
HeaderProvider = Callable[[Any], Headers | None]

_DROPPED = RowKind.UPDATE_BEFORE
_TOMBSTONES = (RowKind.DELETE,)
_MESSAGE_TYPES = frozenset({bytes, type(None)})


@dataclass(slots=True)
class Messages:
    """Messages of one batch, column by column.

    Attributes:
        topics: Of each, or one name for all.
        values: Bytes; None for a tombstone.
        keys: Bytes or None of each; None if none has a key.
        headers: Of each; None if none has any.
        timestamps: Epoch milliseconds or None of each; None if none has one.
        partitions: Of each; None if keys decide.
    """

    topics: str | list[str]
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    headers: list[Headers | None] | None = None
    timestamps: list[int] | None = None
    partitions: list[int] | None = None

    @property
    def has_details(self) -> bool:
        """Whether messages have more than key and value."""
        return not (self.headers is None and self.timestamps is None and self.partitions is None)

    def topic_names(self) -> Iterable[str]:
        """Return the topics, each once, in order of their first message."""
        return (self.topics,) if isinstance(self.topics, str) else dict.fromkeys(self.topics)

    def topic(self, index: int) -> str:
        """Return a message's topic."""
        return self.topics if isinstance(self.topics, str) else self.topics[index]

    def part(self, start: int, stop: int) -> Messages:
        """Return some of them."""
        there = slice(start, stop)
        return Messages(
            self.topics if isinstance(self.topics, str) else self.topics[there],
            self.values[there],
            self.keys and self.keys[there],
            self.headers and self.headers[there],
            self.timestamps and self.timestamps[there],
            self.partitions and self.partitions[there],
        )


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record.

    Example:
        >>> from millstream.datastream.connectors.kafka import KafkaTopicSelector
        >>> class ByCountry(KafkaTopicSelector):
        ...     def apply(self, data):
        ...         return f"orders-{data['country']}"
        >>> ByCountry().apply({"country": "fr"})
        'orders-fr'
    """

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic that a record goes to."""


class KafkaRecordSerializationSchema(SerializationSchema):
    """Makes messages of records; built by `builder()`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import KafkaRecordSerializationSchema
        >>> schema = (
        ...     KafkaRecordSerializationSchema.builder()
        ...     .set_topic("sold")
        ...     .set_key_serialization_schema(SimpleStringSchema())
        ...     .set_value_serialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
        >>> schema.serialize("tea")
        b'tea'
    """

    def __init__(
        self,
        topic: str | KafkaTopicSelector | Callable[[Any], str],
        value_schema: SerializationSchema,
        *,
        key_schema: SerializationSchema | None = None,
        header_provider: HeaderProvider | None = None,
        partitioner: Partitioner | None = None,
        upsert: bool = False,
        writes_timestamps: bool = True,
    ) -> None:
        self.topic = topic if isinstance(topic, str) else None
        self._select = None if isinstance(topic, str) else _function_of(topic)
        self._value_schema = value_schema
        self._key_schema = key_schema
        self._header_provider = header_provider
        self.partitioner = partitioner
        self._upsert = upsert
        self._writes_timestamps = writes_timestamps

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin to build one."""
        return KafkaRecordSerializationSchemaBuilder()

    def serialize(self, value: Any) -> bytes:
        """Return the value's bytes, without key."""
        return self._value_schema.serialize(value)

    def messages(
        self,
        values: Sequence[Any],
        timestamps: Sequence[int] | None,
        partitions_of: Callable[[str], Sequence[int]],
    ) -> Messages:
        """Return the messages of a batch.

        Args:
            values: The records.
            timestamps: Their event times, None if they have none.
            partitions_of: Gives the partitions of a topic; asked only if there is a partitioner.
        """
        if self._upsert:
            values, timestamps = _without_old_values(values, timestamps)
        topics: str | list[str] = self.topic or ""
        if self._select is not None:
            topics = _each(self._select, values, "topic selector")
            for topic, value in zip(topics, values, strict=True):
                if not isinstance(topic, str) or not topic:
                    error = TypeMismatchError(f"the topic selector gave {shorten(topic)}, not a topic's name")
                    attach_element(error, value)
                    raise error
        messages = Messages(topics, self._value_bytes(values))
        if self._key_schema is not None:
            messages.keys = _bytes_of(self._key_schema, values, "key")
        if self._header_provider is not None:
            messages.headers = _each(self._headers_of, values, "header provider")
        if timestamps is not None and self._writes_timestamps:
            # Java's sink leaves out what is before 1970 as well: the broker's time, or none, is used.
            messages.timestamps = [each if each >= 0 else 0 for each in timestamps]
        if self.partitioner is not None:
            messages.partitions = self._partitions(values, messages, partitions_of)
        return messages

    def _headers_of(self, value: Any) -> Headers | None:
        """Return a record's headers, in bytes as they are in a message."""
        assert self._header_provider is not None
        headers = self._header_provider(value)
        if not headers:
            return None
        if not all(type(name) is str and (type(each) is bytes or each is None) for name, each in headers):
            return [_header(*each) for each in headers]
        return headers

    def _value_bytes(self, values: Sequence[Any]) -> list[bytes | None]:
        if not self._upsert:
            return _bytes_of(self._value_schema, values, "value")
        stays = [not _is_tombstone(value) for value in values]
        kept = [value for value, stay in zip(values, stays, strict=True) if stay]
        found = iter(_bytes_of(self._value_schema, kept, "value"))
        return [next(found) if stay else None for stay in stays]

    def _partitions(
        self, values: Sequence[Any], messages: Messages, partitions_of: Callable[[str], Sequence[int]]
    ) -> list[int]:
        partitioner = self.partitioner
        assert partitioner is not None
        chosen = []
        for index, value in enumerate(values):
            topic, key = messages.topic(index), None if messages.keys is None else messages.keys[index]
            there = partitions_of(topic)
            try:
                partition = partitioner(value, key, messages.values[index], topic, there)
                if partition not in there:
                    raise SinkError(
                        f"the partitioner gave partition {shorten(partition)} of topic {topic!r}",
                        detail=f"It has the partitions {list(there)}.",
                    )
            except BaseException as error:
                attach_element(error, value)
                raise
            chosen.append(int(partition))
        return chosen


class KafkaRecordSerializationSchemaBuilder:
    """Builds a `KafkaRecordSerializationSchema`: a topic and a schema for values are needed.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import KafkaRecordSerializationSchema
        >>> builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda row: row.split()[0])
        >>> builder.set_value_serialization_schema(SimpleStringSchema()).build().serialize("sold tea")
        b'sold tea'
    """

    def __init__(self) -> None:
        self._topic: str | KafkaTopicSelector | Callable[[Any], str] | None = None
        self._key_schema: SerializationSchema | None = None
        self._value_schema: SerializationSchema | None = None
        self._header_provider: HeaderProvider | None = None
        self._partitioner: Partitioner | None = None
        self._upsert = False

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Set the topic of all records."""
        self._set_topic(topic)
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set what chooses the topic of each record: a selector, or a function of the record."""
        self._set_topic(topic_selector)
        return self

    def _set_topic(self, topic: str | KafkaTopicSelector | Callable[[Any], str]) -> None:
        if self._topic is not None:
            raise ConfigurationError("a topic or a topic selector is set already")
        if not topic:
            raise ConfigurationError("the topic has no name")
        self._topic = topic

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set what makes a record's key; without it messages have none."""
        self._key_schema = _checked_schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set what makes a message's value; where it returns None, the message is a tombstone."""
        self._value_schema = _checked_schema(value_serialization_schema)
        return self

    def set_header_provider(self, header_provider: HeaderProvider) -> KafkaRecordSerializationSchemaBuilder:
        """Set a function of the record that gives its headers: a list of (name, bytes), or None."""
        self._header_provider = header_provider
        return self

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Set what chooses the partition: a function (record, key, value, topic, partitions) -> partition.

        Without it the hash of the key decides, as in Kafka's own producer; records without key are spread.
        """
        self._partitioner = partitioner
        return self

    def set_upsert(self) -> KafkaRecordSerializationSchemaBuilder:
        """Take records as changes of what their keys have, for compacted topics; a key's schema is needed.

        A row of the kind DELETE, and None, become tombstones; rows of the kind UPDATE_BEFORE are left out.
        """
        self._upsert = True
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema.

        Raises:
            ConfigurationError: If something is missing.
        """
        if self._topic is None:
            raise ConfigurationError("no topic is set", hint="Use set_topic or set_topic_selector.")
        if self._value_schema is None:
            raise ConfigurationError(
                "no schema for values is set",
                hint="Use set_value_serialization_schema(SimpleStringSchema()).",
            )
        if self._upsert and self._key_schema is None:
            raise ConfigurationError(
                "set_upsert needs keys: it is by key that records replace and delete one another",
                hint="Use set_key_serialization_schema.",
            )
        return KafkaRecordSerializationSchema(
            self._topic,
            self._value_schema,
            key_schema=self._key_schema,
            header_provider=self._header_provider,
            partitioner=self._partitioner,
            upsert=self._upsert,
        )


def _checked_schema(schema: Any) -> SerializationSchema:
    if not isinstance(schema, SerializationSchema):
        raise ConfigurationError(f"{type(schema).__name__} is no SerializationSchema")
    return schema


def _function_of(selector: KafkaTopicSelector | Callable[[Any], str]) -> Callable[[Any], str]:
    return selector.apply if isinstance(selector, KafkaTopicSelector) else selector


def _is_tombstone(value: Any) -> bool:
    return value is None or (isinstance(value, Row) and value.get_row_kind() in _TOMBSTONES)


def _without_old_values(
    values: Sequence[Any], timestamps: Sequence[int] | None
) -> tuple[Sequence[Any], Sequence[int] | None]:
    kept = [
        index
        for index, value in enumerate(values)
        if not (isinstance(value, Row) and value.get_row_kind() is _DROPPED)
    ]
    if len(kept) == len(values):
        return values, timestamps
    return [values[index] for index in kept], None if timestamps is None else [timestamps[i] for i in kept]


def _bytes_of(schema: SerializationSchema, values: Sequence[Any], what: str) -> list[bytes | None]:
    """Serialise a batch; if that fails, one by one, to tell which record it was."""
    try:
        found: list[bytes | None] = list(schema.serialize_all(values))
    except Exception:
        _each(schema.serialize, values, what)
        raise
    if len(found) != len(values):
        raise SinkError(
            f"the {what} schema {type(schema).__name__} made {len(found)} messages of {len(values)} records"
        )
    if not _MESSAGE_TYPES.issuperset(map(type, found)):
        for index, each in enumerate(found):
            if each is not None and type(each) is not bytes:
                found[index] = _as_bytes(each, schema, values[index])
    return found


def _header(name: Any, value: Any) -> tuple[str, bytes | None]:
    if isinstance(name, str):
        if isinstance(value, str):
            return name, value.encode()
        if isinstance(value, (bytes, bytearray, memoryview)):
            return name, bytes(value)
        if value is None:
            return name, None
    raise TypeMismatchError(f"the header provider gave {shorten((name, value))}, no pair of text and bytes")


def _as_bytes(given: Any, schema: SerializationSchema, value: Any) -> bytes:
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    error = TypeMismatchError(f"{type(schema).__name__} gave {shorten(given)}, not bytes")
    attach_element(error, value)
    raise error


def _each(function: Callable[[Any], Any], values: Sequence[Any], what: str) -> list[Any]:
    results = []
    for value in values:
        try:
            results.append(function(value))
        except MillstreamError:
            raise
        except BaseException as error:
            attach_element(error, value)
            raise
    return results
