"""The types of an Iceberg table's columns as types of rows, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.types.arrow_types import load_arrow
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

__all__ = ["kind_of", "row_type_of", "with_field_ids"]

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


def with_field_ids(schema: Any, fields: Sequence[Any]) -> Any:
    """Return an Arrow schema whose fields have their ids, by which readers find columns whatever their names become.

    Args:
        schema: The columns that are written.
        fields: Of the table's schema; there is one for each column.
    """
    by_name = {field.name: field for field in fields}
    return load_arrow("Iceberg tables").schema([_with_id(field, by_name[field.name]) for field in schema])


def _with_id(field: Any, known: Any) -> Any:
    return _field(field, known.field_type, known.field_id)


def _field(field: Any, kind: Any, field_id: int) -> Any:
    metadata = {"PARQUET:field_id": str(field_id)}
    return field.with_type(_type_with_ids(field.type, kind)).with_metadata(metadata)


def _type_with_ids(arrow: Any, kind: Any) -> Any:
    pa = load_arrow("Iceberg tables")
    if pa.types.is_struct(arrow):
        by_name = {field.name: field for field in kind.fields}
        return pa.struct([_with_id(field, by_name[field.name]) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(_field(arrow.value_field, kind.element_type, kind.element_id))
    if pa.types.is_map(arrow):
        return pa.map_(
            _field(arrow.key_field, kind.key_type, kind.key_id),
            _field(arrow.item_field, kind.value_type, kind.value_id),
        )
    return arrow
