"""Avro schemas, and the types of what they describe."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError, shorten
from millstream.base.optional import load_package
from millstream.types import datatypes as types
from millstream.types.datatypes import DataType, DataTypes, RowType
from millstream.types.typeinfo import TypeInformation, Types

__all__ = ["AvroSchema", "Named", "avro_errors", "kind_of", "load_avro", "resolve", "sole_branch"]

_NO_AVRO = (ValueError, TypeError, LookupError, ArithmeticError, EOFError, struct.error, RecursionError)

Named = Mapping[str, Any]
"""Schemas of a schema that have a name, by full name."""


def load_avro() -> Any:
    """Return the package fastavro.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package("fastavro", extra="avro", what="Avro schemas and files")


def avro_errors(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what fastavro raises for bytes that are no such record, and for records that do not fit; and more."""
    resolution: type[Exception] = load_avro().read.SchemaResolutionError
    return (*_NO_AVRO, resolution, *more)


class AvroSchema:
    """An Avro schema; small, immutable, picklable. Needs fastavro (the extra `avro`).

    >>> from millstream.datastream.formats.avro import AvroSchema
    >>> schema = AvroSchema.parse_string('{"type": "record", "name": "a", "fields": [{"name": "x", "type": "long"}]}')
    >>> schema.type_info().describe()
    'ROW<x LONG>'

    Args:
        text: The schema as JSON.

    Raises:
        ConfigurationError: If it is no Avro schema, or fastavro is not installed.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        _ = self.parsed

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Take a schema from a text.

        Raises:
            ConfigurationError: If it is no Avro schema, or fastavro is not installed.
        """
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Take a schema from a local file (`.avsc`).

        Raises:
            SourceError: If it cannot be read.
            ConfigurationError: If it holds no Avro schema, or fastavro is not installed.
        """
        try:
            return AvroSchema(Path(file_path).read_text("utf-8"))
        except OSError as error:
            raise SourceError(f"schema file {file_path!r} cannot be read", detail=str(error)) from error

    @staticmethod
    def for_row_type(row_type: RowType, name: str = "record") -> AvroSchema:
        """Make the schema of rows (millstream's own): nullable fields are unions with null, and null by default.

        Raises:
            NotSupportedError: If a type has no Avro form.
        """
        return AvroSchema(json.dumps(_Maker().record(row_type, name)))

    @cached_property
    def parsed(self) -> Any:
        """The schema as fastavro takes it."""
        self._named: dict[str, Any] = {}
        fastavro = load_avro()
        try:
            return fastavro.parse_schema(json.loads(self._text), self._named)
        except (ValueError, TypeError, KeyError, AttributeError, fastavro.schema.UnknownType) as error:
            raise ConfigurationError(
                f"{shorten(self._text)} is no Avro schema", detail=f"{type(error).__name__}: {error}"
            ) from error

    @property
    def named(self) -> Named:
        """Its named types, by full name."""
        _ = self.parsed
        return self._named

    @property
    def root(self) -> Any:
        """The schema itself, where it is only the name of a type that type."""
        return resolve(self.parsed, self.named)

    def type_info(self) -> TypeInformation:
        """Return the type of the values, as Flink has it: records are rows, unions with null nullable.

        Raises:
            NotSupportedError: If a type holds itself.
        """
        return _type_info(self.parsed, self.named, ())

    def rows_type(self) -> TypeInformation | None:
        """Return the type of the values as `type_info` does; None if a type holds itself."""
        try:
            return self.type_info()
        except NotSupportedError:
            return None

    def row_type(self) -> RowType:
        """Return the SQL type of the rows.

        Raises:
            NotSupportedError: If it is no record, holds itself, or a union of several types.
        """
        found = _data_type(self.parsed, self.named, ())
        if not isinstance(found, RowType):
            raise NotSupportedError(f"Avro schema {shorten(self._text)} describes no record")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and json.loads(self._text) == json.loads(other._text)

    def __hash__(self) -> int:
        return hash(json.dumps(json.loads(self._text), sort_keys=True))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"AvroSchema({shorten(self._text)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self._text,)


def resolve(schema: Any, named: Named) -> Any:
    """Return what a name stands for; other schemas are themselves."""
    return named.get(schema, schema) if isinstance(schema, str) else schema


def sole_branch(union: list[Any]) -> Any | None:
    """Return the only type of a union beside null; None if there are several, or none."""
    others = [branch for branch in union if branch != "null"]
    return others[0] if len(others) == 1 else None


def kind_of(schema: Any) -> tuple[str, str]:
    """Return the name of a schema's type, and that of its logical type, empty if it has none."""
    if isinstance(schema, str):
        return schema, ""
    return schema["type"], schema.get("logicalType", "")


_TYPE_INFOS: dict[tuple[str, str], Callable[[], TypeInformation]] = {
    ("boolean", ""): Types.BOOLEAN,
    ("int", ""): Types.INT,
    ("long", ""): Types.LONG,
    ("float", ""): Types.FLOAT,
    ("double", ""): Types.DOUBLE,
    ("string", ""): Types.STRING,
    ("enum", ""): Types.STRING,
    ("bytes", ""): lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ("fixed", ""): lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ("bytes", "decimal"): Types.BIG_DEC,
    ("fixed", "decimal"): Types.BIG_DEC,
    ("int", "date"): Types.SQL_DATE,
    ("int", "time-millis"): Types.SQL_TIME,
    ("long", "time-micros"): Types.SQL_TIME,
    ("long", "timestamp-millis"): Types.SQL_TIMESTAMP,
    ("long", "timestamp-micros"): Types.SQL_TIMESTAMP,
    ("long", "local-timestamp-millis"): Types.SQL_TIMESTAMP,
    ("long", "local-timestamp-micros"): Types.SQL_TIMESTAMP,
}


def _type_info(schema: Any, named: Named, within: tuple[str, ...]) -> TypeInformation:
    schema = resolve(schema, named)
    if isinstance(schema, list):
        branch = sole_branch(schema)
        return Types.PICKLED_BYTE_ARRAY() if branch is None else _type_info(branch, named, within)
    kind, logical = kind_of(schema)
    if kind in ("record", "error"):
        inside = _inside(schema, within)
        fields = schema["fields"]
        return Types.ROW_NAMED(
            [field["name"] for field in fields], [_type_info(each["type"], named, inside) for each in fields]
        )
    if kind == "array":
        return Types.OBJECT_ARRAY(_type_info(schema["items"], named, within))
    if kind == "map":
        return Types.MAP(Types.STRING(), _type_info(schema["values"], named, within))
    make = _TYPE_INFOS.get((kind, logical)) or _TYPE_INFOS.get((kind, ""))
    return Types.PICKLED_BYTE_ARRAY() if make is None else make()


_DATA_TYPES: dict[tuple[str, str], Callable[[], DataType]] = {
    ("boolean", ""): DataTypes.BOOLEAN,
    ("int", ""): DataTypes.INT,
    ("long", ""): DataTypes.BIGINT,
    ("float", ""): DataTypes.FLOAT,
    ("double", ""): DataTypes.DOUBLE,
    ("string", ""): DataTypes.STRING,
    ("enum", ""): DataTypes.STRING,
    ("bytes", ""): DataTypes.BYTES,
    ("fixed", ""): DataTypes.BYTES,
    ("int", "date"): DataTypes.DATE,
    ("int", "time-millis"): lambda: DataTypes.TIME(3),
    ("long", "time-micros"): lambda: DataTypes.TIME(6),
    ("long", "timestamp-millis"): lambda: DataTypes.TIMESTAMP(3),
    ("long", "timestamp-micros"): lambda: DataTypes.TIMESTAMP(6),
    ("long", "local-timestamp-millis"): lambda: DataTypes.TIMESTAMP(3),
    ("long", "local-timestamp-micros"): lambda: DataTypes.TIMESTAMP(6),
}


def _data_type(schema: Any, named: Named, within: tuple[str, ...]) -> DataType:
    schema = resolve(schema, named)
    if isinstance(schema, list):
        branch = sole_branch(schema)
        if branch is None:
            raise NotSupportedError(
                f"a union of several types has no SQL type: {shorten(schema)}",
                hint="Read the records as they are, as dicts.",
            )
        found = _data_type(branch, named, within)
        found.nullable = "null" in schema
        return found
    found = _not_null(schema, named, within)
    found.nullable = False
    return found


def _not_null(schema: Any, named: Named, within: tuple[str, ...]) -> DataType:
    kind, logical = kind_of(schema)
    if kind in ("record", "error"):
        inside = _inside(schema, within)
        return DataTypes.ROW(
            [
                DataTypes.FIELD(field["name"], _data_type(field["type"], named, inside))
                for field in schema["fields"]
            ]
        )
    if kind == "array":
        return DataTypes.ARRAY(_data_type(schema["items"], named, within))
    if kind == "map":
        return DataTypes.MAP(DataTypes.STRING(nullable=False), _data_type(schema["values"], named, within))
    if logical == "decimal":
        return DataTypes.DECIMAL(schema["precision"], schema.get("scale", 0))
    make = _DATA_TYPES.get((kind, logical)) or _DATA_TYPES.get((kind, ""))
    if make is None:
        raise NotSupportedError(f"Avro type {kind!r} has no SQL type")
    return make()


def _inside(record: Any, within: tuple[str, ...]) -> tuple[str, ...]:
    name = record["name"]
    if name in within:
        raise NotSupportedError(
            f"Avro record {name!r} holds itself, which no type of rows does",
            hint="Read the records as they are, as dicts: AvroInputFormat, or FileSource with AvroFormat.",
        )
    return (*within, name)


class _Maker:
    """Makes a schema of SQL types; names of nested records are made unique."""

    _PLAIN: tuple[tuple[type[DataType], Any], ...] = (
        (types.VarCharType, "string"),
        (types.BooleanType, "boolean"),
        (types.BigIntType, "long"),
        (types.TinyIntType, "int"),
        (types.SmallIntType, "int"),
        (types.IntType, "int"),
        (types.FloatType, "float"),
        (types.DoubleType, "double"),
        (types.DateType, {"type": "int", "logicalType": "date"}),
        (types.TimeType, {"type": "long", "logicalType": "time-micros"}),
        (types.LocalZonedTimestampType, {"type": "long", "logicalType": "timestamp-micros"}),
        (types.TimestampType, {"type": "long", "logicalType": "local-timestamp-micros"}),
        (types.VarBinaryType, "bytes"),
    )

    def record(self, row_type: RowType, name: str) -> dict[str, Any]:
        return {
            "type": "record",
            "name": name,
            "fields": [
                {"name": field.name, "type": self._type(field.data_type, f"{name}_{field.name}")}
                | ({"default": None} if field.data_type.nullable else {})
                for field in row_type
            ],
        }

    def _type(self, kind: DataType, name: str) -> Any:
        made = self._not_null(kind, name)
        return ["null", made] if kind.nullable else made

    def _not_null(self, kind: DataType, name: str) -> Any:
        if isinstance(kind, RowType):
            return self.record(kind, name)
        if isinstance(kind, types.ArrayType):
            return {"type": "array", "items": self._type(kind.element_type, name)}
        if isinstance(kind, types.MapType) and isinstance(kind.key_type, types.VarCharType):
            return {"type": "map", "values": self._type(kind.value_type, name)}
        if isinstance(kind, types.DecimalType):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        for cls, made in self._PLAIN:
            if isinstance(kind, cls):
                return made
        raise NotSupportedError(f"type {kind} has no Avro form")
