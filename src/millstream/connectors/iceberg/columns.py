"""The types of an Iceberg table's columns as types of rows, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.types.datatypes import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DataTypes,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)

__all__ = ["kind_of", "row_type_of"]

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_SIMPLE: dict[str, Callable[..., DataType]] = {
    "string": DataTypes.STRING,
    "long": DataTypes.BIGINT,
    "int": DataTypes.INT,
    "float": DataTypes.FLOAT,
    "double": DataTypes.DOUBLE,
    "boolean": DataTypes.BOOLEAN,
    "binary": DataTypes.BYTES,
    "date": DataTypes.DATE,
    "time": DataTypes.TIME,
    "timestamp": DataTypes.TIMESTAMP,
    "timestamptz": DataTypes.TIMESTAMP_LTZ,
}
# The first that fits counts: some types derive from others.
_KINDS: tuple[tuple[type[DataType] | tuple[type[DataType], ...], str], ...] = (
    (VarCharType, "string"),
    (BooleanType, "boolean"),
    ((TinyIntType, SmallIntType, IntType), "int"),
    (BigIntType, "long"),
    (FloatType, "float"),
    (DoubleType, "double"),
    (DateType, "date"),
    (TimeType, "time"),
    (LocalZonedTimestampType, "timestamptz"),
    (TimestampType, "timestamp"),
    (VarBinaryType, "binary"),
)


def kind_of(data_type: DataType) -> str:
    """Return the type that a column has in a table, in words.

    Raises:
        ConfigurationError: If there is none.
    """
    if isinstance(data_type, DecimalType):
        return f"decimal({data_type.precision}, {data_type.scale})"
    if isinstance(data_type, ArrayType):
        return f"list<{kind_of(data_type.element_type)}>"
    if isinstance(data_type, MapType):
        return f"map<{kind_of(data_type.key_type)}, {kind_of(data_type.value_type)}>"
    if isinstance(data_type, RowType):
        return f"struct<{', '.join(f'{field.name}: {kind_of(field.data_type)}' for field in data_type)}>"
    for types, kind in _KINDS:
        if isinstance(data_type, types):
            return kind
    raise ConfigurationError(f"type {data_type} is none of Iceberg's")


def row_type_of(fields: Sequence[Any], nullable: bool = True) -> RowType:
    """Return the row type of a table, or of a column with fields.

    Args:
        fields: Of its schema, or of the column's type.
        nullable: Of the row itself.

    Raises:
        NotSupportedError: If a column has a type that is neither read nor written.
    """
    found = [
        DataTypes.FIELD(field.name, _data_type(field.name, field.field_type, not field.required))
        for field in fields
    ]
    return DataTypes.ROW(found, nullable)


def _data_type(column: str, kind: Any, nullable: bool) -> DataType:
    text = str(kind)
    if text in _SIMPLE:
        return _SIMPLE[text](nullable=nullable)
    if match := _DECIMAL.fullmatch(text):
        return DataTypes.DECIMAL(int(match[1]), int(match[2]), nullable)
    if text.startswith("list<"):
        return DataTypes.ARRAY(_data_type(column, kind.element_type, not kind.element_required), nullable)
    if text.startswith("map<"):
        value = _data_type(column, kind.value_type, not kind.value_required)
        return DataTypes.MAP(_data_type(column, kind.key_type, False), value, nullable)
    if text.startswith("struct<"):
        return row_type_of(kind.fields, nullable)
    raise NotSupportedError(
        f"column {column!r} of an Iceberg table has the type {text}, which is neither read nor written",
        hint="Read the other columns, by set_columns(...); or write them, by set_row_type(...), if this one may be "
        "null.",
    )
