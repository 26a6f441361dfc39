"""From values to bytes and back (PyFlink's `pyflink.common.serialization`)."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.types.arrow_values import records_of
from millstream.types.basic import TypeInformation
from millstream.types.row import Row
from millstream.types.typeinfo import Types

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "ProducesType",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
    "check_charset",
    "produced_type_of",
]


def check_charset(name: str) -> str:
    """Return the charset's Python name.

    Raises:
        ConfigurationError: If Python has no such charset.
    """
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        raise ConfigurationError(
            f"charset {name!r} does not exist",
            hint='Use a name that Python knows, such as "UTF-8" or "ISO-8859-1".',
        ) from error


class SerializationSchema(ABC):
    """Turns a value into a message.

    Example:
        >>> from millstream.common import SerializationSchema
        >>> class Semicolons(SerializationSchema):
        ...     def serialize(self, value):
        ...         return ";".join(map(str, value)).encode()
        >>> Semicolons().serialize_all([("tea", 3), ("cake", 5)])
        [b'tea;3', b'cake;5']
    """

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the value's bytes."""

    def serialize_all(self, values: Sequence[Any]) -> list[bytes]:
        """Return the bytes of each value; called with whole batches."""
        return list(map(self.serialize, values))


class ProducesType(Protocol):
    """What knows the type of the values it makes."""

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type; None if it is not known."""


class DeserializationSchema(ABC):
    """Turns a message into a value.

    Attributes:
        gives_many: Whether a message may have several records: then `deserialize_many` is called.

    Example:
        >>> from millstream.common import DeserializationSchema, Types
        >>> class Numbers(DeserializationSchema):
        ...     def deserialize(self, message):
        ...         return int(message)
        ...     def get_produced_type(self):
        ...         return Types.LONG()
        >>> Numbers().deserialize_all([b"12", b"7"])
        [12, 7]
    """

    gives_many: bool = False

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the value of a message; None if it has none: nothing is emitted then.

        Raises:
            ValueError: If the message does not parse.
        """

    def deserialize_many(self, message: bytes) -> Sequence[Any]:
        """Return the values of a message, if `gives_many`.

        Raises:
            ValueError: If the message does not parse.
        """
        value = self.deserialize(message)
        return () if value is None else (value,)

    def deserialize_all(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the value of each message, None for those that have none; called with whole batches."""
        return list(map(self.deserialize, messages))

    def columns_of(self, messages: Sequence[bytes]) -> Any | None:
        """Return messages as a `pyarrow.RecordBatch` whose records are what `deserialize_all` would return.

        None if these messages, or all of this schema, have to be deserialized as values; so it is by default.
        """
        return None

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the values; None if they have none in common, or it is not known: so it is by default."""
        return None


_MAKES = ("deserialize", "deserialize_many", "deserialize_all", "columns_of")


def produced_type_of(schema: ProducesType) -> TypeInformation | None:
    """Return the type of the values that a schema makes; None if it does not tell.

    A class that derives from a schema and makes values in a way of its own may make others: what its base says of them
    does not count.

    >>> class Lengths(SimpleStringSchema):
    ...     def deserialize(self, message):
    ...         return len(message)
    >>> produced_type_of(SimpleStringSchema()), produced_type_of(Lengths())
    (String, None)
    """
    told, *made = (_place(type(schema), name) for name in ("get_produced_type", *_MAKES))
    return schema.get_produced_type() if told <= min(made) else None


def _place(kind: type, name: str) -> int:
    """Return how many classes are asked before the one that defines a method."""
    places = (place for place, each in enumerate(kind.__mro__) if name in vars(each))
    return next(places, len(kind.__mro__))


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text as bytes of a charset.

    >>> from millstream.common import SimpleStringSchema
    >>> SimpleStringSchema().deserialize(SimpleStringSchema().serialize("ä"))
    'ä'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = check_charset(charset)

    def serialize(self, value: Any) -> bytes:
        """Encode `str(value)`."""
        return str(value).encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """Decode a message."""
        return message.decode(self._charset)

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    r"""Bytes as they are.

    Example:
        >>> from millstream.common import ByteArraySchema
        >>> ByteArraySchema().deserialize(b"\x00\x01"), ByteArraySchema().serialize(b"\x02")
        (b'\x00\x01', b'\x02')
    """

    def serialize(self, value: Any) -> bytes:
        """Return the bytes."""
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes."""
        return message

    def deserialize_all(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return the messages."""
        return list(messages)


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which holds bytes already: the key or the value of a Kafka record.

    >>> RowFieldExtractorSchema(0).serialize(Row(b"key", b"value"))
    b'key'
    """

    def __init__(self, field_index: int) -> None:
        """Take the field at that position.

        Raises:
            ConfigurationError: If it is negative.
        """
        if field_index < 0:
            raise ConfigurationError(f"the field index is {field_index}", detail="It must not be negative.")
        self._field_index = field_index

    def serialize(self, value: Any) -> bytes:
        """Return the field.

        Raises:
            TypeMismatchError: If the row has no such field, or it is not bytes.
        """
        if not isinstance(value, Row) or len(value) <= self._field_index:
            raise TypeMismatchError(f"field {self._field_index} was asked of {shorten(value)}")
        field = value[self._field_index]
        if not isinstance(field, (bytes, bytearray)):
            raise TypeMismatchError(
                f"field {self._field_index} of a row is {shorten(field)}", detail="It must be bytes."
            )
        return bytes(field)


class Encoder:
    r"""Writes records to a file one after the other; subclass it and override `encode`.

    Example:
        >>> from millstream.common import Encoder
        >>> class Tabs(Encoder):
        ...     def encode(self, element):
        ...         return "\t".join(map(str, element)).encode() + b"\n"
        >>> Tabs().encode_all([("tea", 3), ("cake", 5)])
        b'tea\t3\ncake\t5\n'
        >>> Encoder.simple_string_encoder().encode("tea")
        b'tea\n'
    """

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Make an encoder that writes each record as a line: as Flink prints its declared type, else `str(record)`."""
        return _StringEncoder(check_charset(charset_name))

    def for_type(self, value_type: TypeInformation | None) -> Encoder:
        """Return the encoder for records of a declared type; by default the type makes no difference."""
        return self

    def encode(self, element: Any) -> bytes:
        """Return the bytes of one record, with whatever separates it from the next."""
        raise NotImplementedError(f"{type(self).__name__} does not override encode(element)")

    def encode_all(self, elements: Sequence[Any]) -> bytes:
        """Return the bytes of many records; called with whole batches."""
        return b"".join(map(self.encode, elements))


class _StringEncoder(Encoder):
    """`str(record)` and a newline."""

    def __init__(self, charset: str, value_type: TypeInformation | None = None) -> None:
        self._charset = charset
        self._text: Callable[[Any], str] = str if value_type is None else value_type.to_text

    def for_type(self, value_type: TypeInformation | None) -> Encoder:
        """Return an encoder that writes records as Flink prints them: tuples `(a,1)`."""
        return _StringEncoder(self._charset, value_type)

    def encode(self, element: Any) -> bytes:
        return f"{self._text(element)}\n".encode(self._charset)

    def encode_all(self, elements: Sequence[Any]) -> bytes:
        if not elements:
            return b""
        if "16" in self._charset or "32" in self._charset:  # a byte order mark for each record, as `encode`
            return super().encode_all(elements)
        lines = elements if set(map(type, elements)) == {str} else map(self._text, elements)
        return ("\n".join(lines) + "\n").encode(self._charset)


class BulkWriter(ABC):
    """Writes one file as a whole: nothing in it can be read before `finish`."""

    @abstractmethod
    def add_elements(self, elements: Sequence[Any]) -> None:
        """Add records.

        Raises:
            TypeMismatchError: If a record does not fit the file's type.
        """

    def add_columns(self, batch: Any) -> None:
        """Add the records of a `pyarrow.RecordBatch`, as if they came as rows; override it to make none of them.

        Raises:
            TypeMismatchError: If a record does not fit the file's type.
        """
        self.add_elements(records_of(batch))

    @abstractmethod
    def finish(self) -> None:
        """Write what is buffered and the file's end; the file itself stays open."""


class BulkWriterFactory(ABC):
    """Makes bulk writers; small and picklable."""

    @abstractmethod
    def create(self, file: BinaryIO) -> BulkWriter:
        """Begin a file."""
