"""The types of a Delta table's columns as types of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.types.datatypes import (
    BigIntType,
    BooleanType,
    DataType,
    DataTypes,
    DateType,
    IntType,
    RowType,
    SmallIntType,
    TinyIntType,
    VarCharType,
)

__all__ = ["can_partition", "row_type_of"]

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_SIMPLE: dict[str, Callable[..., DataType]] = {
    "string": DataTypes.STRING,
    "long": DataTypes.BIGINT,
    "integer": DataTypes.INT,
    "short": DataTypes.SMALLINT,
    "byte": DataTypes.TINYINT,
    "float": DataTypes.FLOAT,
    "double": DataTypes.DOUBLE,
    "boolean": DataTypes.BOOLEAN,
    "binary": DataTypes.BYTES,
    "date": DataTypes.DATE,
    "timestamp": DataTypes.TIMESTAMP_LTZ,
    "timestamp_ntz": DataTypes.TIMESTAMP,
}
_PARTITIONS = (VarCharType, TinyIntType, SmallIntType, IntType, BigIntType, BooleanType, DateType)


def row_type_of(fields: Sequence[Mapping[str, Any]], nullable: bool = True) -> RowType:
    """Return the row type of a table.

    Args:
        fields: Of its schema, as the log has them.
        nullable: Of the row itself.

    Raises:
        NotSupportedError: If a column has a type that is neither read nor written.
    """
    return DataTypes.ROW(
        [
            DataTypes.FIELD(field["name"], _data_type(field["name"], field["type"], field["nullable"]))
            for field in fields
        ],
        nullable,
    )


def _data_type(column: str, kind: Any, nullable: bool) -> DataType:
    if isinstance(kind, str):
        if kind in _SIMPLE:
            return _SIMPLE[kind](nullable=nullable)
        if match := _DECIMAL.fullmatch(kind):
            return DataTypes.DECIMAL(int(match[1]), int(match[2]), nullable)
    elif kind["type"] == "array":
        element = _data_type(column, kind["elementType"], kind["containsNull"])
        return DataTypes.ARRAY(element, nullable)
    elif kind["type"] == "map":
        key = _data_type(column, kind["keyType"], False)
        return DataTypes.MAP(key, _data_type(column, kind["valueType"], kind["valueContainsNull"]), nullable)
    elif kind["type"] == "struct":
        return row_type_of(kind["fields"], nullable)
    raise NotSupportedError(
        f"column {column!r} of a Delta table has the type {kind}, which is neither read nor written",
        hint="Read the other columns, by set_columns(...); or write them, by set_row_type(...), if this one may be "
        "null.",
    )


def can_partition(data_type: DataType) -> bool:
    """Return whether a table may be partitioned by columns of a type."""
    return isinstance(data_type, _PARTITIONS)
