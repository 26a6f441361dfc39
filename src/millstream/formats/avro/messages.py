"""Rows as Avro messages: the bare binary form, without schema (PyFlink's `pyflink.datastream.formats.avro`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
    shorten,
)
from millstream.formats.avro.schema import AvroSchema, avro_errors, load_avro
from millstream.formats.avro.values import RecordReader, value_writer
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.typeinfo import TypeInformation

__all__ = ["AvroDecoder", "AvroEncoder", "AvroRowDeserializationSchema", "AvroRowSerializationSchema"]


class AvroDecoder:
    """Reads single records.

    Args:
        written: The schema that they were written with.
        wanted: The schema that they are read by, as Avro resolves schemas; None for the same.
    """

    def __init__(self, written: AvroSchema, wanted: AvroSchema | None = None) -> None:
        self._read = load_avro().schemaless_reader
        self._errors = avro_errors()
        self._written = written.parsed
        self._wanted = None if wanted is None or wanted == written else wanted.parsed
        self._rows = RecordReader(wanted or written)

    def read(self, message: bytes, start: int = 0) -> Any:
        """Return what fastavro makes of a message from a byte on.

        Raises:
            MalformedRecordError: If it does not parse.
        """
        data = BytesIO(message)
        data.seek(start)
        try:
            return self._read(data, self._written, self._wanted)
        except self._errors as error:
            raise MalformedRecordError(
                f"message {shorten(message)} is no record of the Avro schema: {type(error).__name__}: {error}"
            ) from error

    def rows(self, values: Sequence[Any]) -> list[Any]:
        """Return the rows of what `read` gave."""
        return self._rows.read_all(values)


class AvroEncoder:
    """Writes single records."""

    def __init__(self, schema: AvroSchema) -> None:
        self._write = load_avro().schemaless_writer
        self._errors = avro_errors(AttributeError)
        self._schema = schema.parsed
        self._convert: Callable[[Any], Any] = value_writer(schema)

    def write(self, value: Any, header: bytes = b"") -> bytes:
        """Return the bytes of a record behind a header.

        Raises:
            TypeMismatchError: If it does not fit.
        """
        data = BytesIO()
        data.write(header)
        try:
            self._write(data, self._schema, self._convert(value))
        except self._errors as error:
            if isinstance(error, TypeMismatchError):
                raise
            raise TypeMismatchError(
                f"value {shorten(value)} does not fit the Avro schema: {type(error).__name__}: {error}"
            ) from error
        return data.getvalue()


def _schema_of(record_class: object, text: str | None) -> AvroSchema:
    if record_class is not None:
        raise NotSupportedError(
            f"an Avro record class was given: {shorten(record_class)}",
            detail="Record classes are Java's.",
            hint="Give the schema: avro_schema_string=...",
        )
    if text is None:
        raise ConfigurationError("no Avro schema was given", hint="Give avro_schema_string=...")
    schema = AvroSchema(text)
    if not isinstance(schema.root, dict) or schema.root["type"] not in ("record", "error"):
        raise ConfigurationError(f"Avro schema {shorten(text)} describes no record")
    return schema


class AvroRowDeserializationSchema(DeserializationSchema):
    """Avro messages into rows; the schema they were written with is known.

    >>> from millstream.common import AvroRowDeserializationSchema
    >>> text = '{"type": "record", "name": "a", "fields": [{"name": "x", "type": "long"}]}'
    >>> AvroRowDeserializationSchema(avro_schema_string=text).deserialize(bytes([6]))
    Row(x=3)
    """

    def __init__(self, record_class: object = None, avro_schema_string: str | None = None) -> None:
        """Take a schema as JSON.

        Raises:
            NotSupportedError: If a record class, of Java, is given.
            ConfigurationError: If no schema is given, or it describes no record; if fastavro is not installed.
        """
        self._schema = _schema_of(record_class, avro_schema_string)
        self._decoder = AvroDecoder(self._schema)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows; None if a type of the schema holds itself."""
        return self._schema.rows_type()

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Raises:
            MalformedRecordError: If it does not parse.
        """
        return self.deserialize_all((message,))[0]

    def deserialize_all(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the row of each message.

        Raises:
            MalformedRecordError: If one of them does not parse.
        """
        return self._decoder.rows(list(map(self._decoder.read, messages)))

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowDeserializationSchema, (None, str(self._schema))


class AvroRowSerializationSchema(SerializationSchema):
    r"""Rows, dicts or tuples into Avro messages.

    >>> from millstream.common import AvroRowSerializationSchema
    >>> text = '{"type": "record", "name": "a", "fields": [{"name": "x", "type": "long"}]}'
    >>> AvroRowSerializationSchema(avro_schema_string=text).serialize({"x": 3})
    b'\x06'
    """

    def __init__(self, record_class: object = None, avro_schema_string: str | None = None) -> None:
        """Take a schema as JSON.

        Raises:
            NotSupportedError: If a record class, of Java, is given.
            ConfigurationError: If no schema is given, or it describes no record; if fastavro is not installed.
        """
        self._schema = _schema_of(record_class, avro_schema_string)
        self._encoder = AvroEncoder(self._schema)

    def serialize(self, value: Any) -> bytes:
        """Return a row's message.

        Raises:
            TypeMismatchError: If it does not fit.
        """
        return self._encoder.write(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowSerializationSchema, (None, str(self._schema))
