"""Rows as JSON objects (PyFlink's `pyflink.datastream.formats.json`).

Dates, times and timestamps are ISO 8601 (`2024-01-31`, `10:00:00Z`, `2024-01-31T10:00:00Z`), byte arrays base64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from millstream.base.errors import ConfigurationError, MalformedRecordError, shorten
from millstream.formats.block import BlockLayout
from millstream.formats.block_records import SMALLEST_BLOCK_BYTES
from millstream.formats.json.blocks import JsonBlocks
from millstream.spi.formats import Block
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.composite import ExternalTypeInfo, PrimitiveArrayTypeInfo, _SequenceTypeInfo
from millstream.types.datatypes import DataType, DataTypes, RowField, RowType
from millstream.types.row_text import reader, writer
from millstream.types.typeinfo import RowTypeInfo, TypeInformation, Types

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(DeserializationSchema):
    """JSON objects into rows, by field name.

    >>> from millstream.common import JsonRowDeserializationSchema, Types
    >>> kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    >>> JsonRowDeserializationSchema.builder().type_info(kind).build().deserialize(b'{"name": "a", "id": 1}')
    Row(id=1, name='a')
    """

    def __init__(
        self, type_info: RowTypeInfo, *, fail_on_missing_field: bool, ignore_parse_errors: bool
    ) -> None:
        self._type_info = type_info
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore = ignore_parse_errors
        self._read = reader(type_info, fail_on_missing=fail_on_missing_field)

    @cached_property
    def _blocks(self) -> JsonBlocks | None:
        """What decodes many messages at once; it does not tell a missing field from None."""
        row_type = None if self._fail_on_missing_field else _sql_type(self._type_info)
        if not isinstance(row_type, RowType) or not row_type.fields:
            return None
        return JsonBlocks(BlockLayout(row_type))

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begin a schema."""
        return JsonRowDeserializationSchema.Builder()

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message; None if it does not parse and that is to be ignored.

        Raises:
            MalformedRecordError: If it does not parse or fit.
        """
        try:
            return self._read(json.loads(message))
        except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
            if self._ignore:
                return None
            raise MalformedRecordError(
                f"message {shorten(message)} does not fit {self._type_info.describe()}: {error}",
                hint="Call ignore_parse_errors() to drop such messages.",
            ) from error

    def deserialize_all(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the row of each message; many are decoded at once, where that is certain to give the same.

        Raises:
            MalformedRecordError: If one of them does not parse or fit, and that is not to be ignored.
        """
        block = self._decode(messages)
        return super().deserialize_all(messages) if block is None else block.rows(0, len(block))

    def columns_of(self, messages: Sequence[bytes]) -> Any | None:
        """Return the rows of messages as a `pyarrow.RecordBatch`; None if they have to be read one by one."""
        block = self._decode(messages)
        return None if block is None else block.batch(0, len(block))

    def _decode(self, messages: Sequence[bytes]) -> Block | None:
        if sum(map(len, messages)) < SMALLEST_BLOCK_BYTES or self._blocks is None:
            return None
        joined = self._blocks.join(messages)
        block = None if joined is None else self._blocks.decode(joined)
        return block if block is not None and len(block) == len(messages) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _deserializer, (self._type_info, self._fail_on_missing_field, self._ignore)

    class Builder:
        """Makes a schema; each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows."""
            if not isinstance(type_info, RowTypeInfo):
                raise ConfigurationError(
                    f"rows were given the type {type_info!r}", hint="Use Types.ROW_NAMED."
                )
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows by a JSON Schema.

            Raises:
                ConfigurationError: If it describes no object, or is not understood.
            """
            if not json_schema:
                raise ConfigurationError("the JSON schema is empty")
            try:
                return self.type_info(_type_of(json.loads(json_schema)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if isinstance(error, ConfigurationError):
                    raise
                raise ConfigurationError(f"the JSON schema is not understood: {error}") from error

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Take a missing field for an error; by default it is None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Drop messages that do not parse or fit; by default they fail the job."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Make the schema.

            Raises:
                ConfigurationError: If there is no type, or both kinds of errors are asked for.
            """
            if self._type_info is None:
                raise ConfigurationError("a JSON schema for rows has no type", hint="Call type_info(...).")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ConfigurationError("missing fields cannot fail where errors are ignored")
            return _deserializer(self._type_info, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Rows into JSON objects.

    >>> from millstream.common import JsonRowSerializationSchema, Types
    >>> kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    >>> JsonRowSerializationSchema.builder().with_type_info(kind).build().serialize((1, "a"))
    b'{"id":1,"name":"a"}'
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = type_info
        self._write = writer(type_info)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begin a schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        """Return a row as a JSON object."""
        return json.dumps(self._write(value), separators=(",", ":"), ensure_ascii=False).encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonRowSerializationSchema, (self._type_info,)

    class Builder:
        """Makes a schema; each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Make the schema.

            Raises:
                ConfigurationError: If there is no type.
            """
            if self._type_info is None:
                raise ConfigurationError(
                    "a JSON schema for rows has no type", hint="Call with_type_info(...)."
                )
            return JsonRowSerializationSchema(self._type_info)


def _deserializer(kind: RowTypeInfo, fail_on_missing: bool, ignore: bool) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema(
        kind, fail_on_missing_field=fail_on_missing, ignore_parse_errors=ignore
    )


def _sql_type(kind: TypeInformation) -> DataType | None:
    """Return the SQL type whose values are read from JSON as those of a type are; None if there is none."""
    if isinstance(kind, ExternalTypeInfo):
        return _sql_type(kind._type_info)
    if isinstance(kind, RowTypeInfo):
        parts = [_sql_type(part) for part in kind.get_field_types()]
        fields = zip(kind.get_field_names(), parts, strict=True)
        return None if None in parts else RowType([RowField(name, part) for name, part in fields if part])
    if isinstance(kind, _SequenceTypeInfo):
        element = None if isinstance(kind, PrimitiveArrayTypeInfo) else _sql_type(kind._element_type)
        return None if element is None else DataTypes.ARRAY(element)
    make = _SQL_TYPES.get(kind.describe())
    return None if make is None else make()


_SQL_TYPES: dict[str, Callable[[], DataType]] = {
    "STRING": DataTypes.STRING,
    "BOOLEAN": DataTypes.BOOLEAN,
    "BYTE": DataTypes.TINYINT,
    "SHORT": DataTypes.SMALLINT,
    "INT": DataTypes.INT,
    "LONG": DataTypes.BIGINT,
    "FLOAT": DataTypes.FLOAT,
    "DOUBLE": DataTypes.DOUBLE,
    "SQL_DATE": DataTypes.DATE,
    "LOCAL_DATE": DataTypes.DATE,
}
_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}


def _type_of(schema: dict[str, Any]) -> TypeInformation:
    """Return the type that a JSON Schema describes, as Flink reads it: numbers are decimals."""
    kind = schema["type"]
    if isinstance(kind, list):
        named = [each for each in kind if each != "null"]
        if len(named) != 1:
            raise ConfigurationError(f"the JSON schema has a union of types: {kind}")
        kind = named[0]
    if kind == "object":
        properties = schema.get("properties", {})
        return Types.ROW_NAMED(list(properties), [_type_of(each) for each in properties.values()])
    if kind == "array":
        return Types.OBJECT_ARRAY(_type_of(schema["items"]))
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        return _FORMATS.get(schema.get("format", ""), Types.STRING)()
    simple = {"boolean": Types.BOOLEAN, "number": Types.BIG_DEC, "integer": Types.BIG_INT}
    if kind not in simple:
        raise ConfigurationError(f"the JSON schema has type {kind!r}")
    return simple[kind]()
