"""Avro schemas of SQL types, as Flink makes them for tables."""

from __future__ import annotations

import json
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.types import datatypes as sql

__all__ = ["avro_schema"]

_PLAIN: dict[type[sql.DataType], Any] = {
    sql.BooleanType: "boolean",
    sql.TinyIntType: "int",
    sql.SmallIntType: "int",
    sql.IntType: "int",
    sql.BigIntType: "long",
    sql.FloatType: "float",
    sql.DoubleType: "double",
    sql.VarCharType: "string",
    sql.CharType: "string",
    sql.BinaryType: "bytes",
    sql.VarBinaryType: "bytes",
    sql.DateType: {"type": "int", "logicalType": "date"},
    sql.TimeType: {"type": "int", "logicalType": "time-millis"},
}


def avro_schema(row_type: sql.RowType, name: str = "record") -> str:
    """Return the schema of records with the fields of a row type.

    >>> avro_schema(sql.RowType([sql.RowField("a", sql.IntType(False))]))
    '{"type": "record", "name": "record", "fields": [{"name": "a", "type": "int"}]}'
    """
    return json.dumps(_record(row_type, name))


def _record(row_type: sql.RowType, name: str) -> dict[str, Any]:
    fields = [_field(field, name) for field in row_type.fields]
    return {"type": "record", "name": name, "fields": fields}


def _field(field: sql.RowField, name: str) -> dict[str, Any]:
    kind = _type(field.data_type, f"{name}_{field.name}")
    made: dict[str, Any] = {"name": field.name, "type": kind}
    if field.data_type.nullable:
        made["default"] = None
    return made


def _type(kind: sql.DataType, name: str) -> Any:
    inner = _not_null(kind, name)
    return ["null", inner] if kind.nullable else inner


def _not_null(kind: sql.DataType, name: str) -> Any:
    if isinstance(kind, sql.RowType):
        return _record(kind, name)
    if isinstance(kind, sql.ArrayType):
        return {"type": "array", "items": _type(kind.element_type, name)}
    if isinstance(kind, sql.MapType):
        return {"type": "map", "values": _type(kind.value_type, name)}
    if isinstance(kind, sql.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, sql.TimestampType):
        unit = "timestamp-millis" if kind.precision <= 3 else "timestamp-micros"
        local = "" if isinstance(kind, sql.LocalZonedTimestampType) else "local-"
        return {"type": "long", "logicalType": local + unit}
    plain = _PLAIN.get(type(kind))
    if plain is None:
        raise ConfigurationError(f"type {kind} has no Avro form")
    return plain
