"""PostgreSQL's types and the SQL types that their values are read as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import SourceError
from millstream.types import datatypes as types
from millstream.types.datatypes import DataTypes

__all__ = ["ColumnType", "data_type_of", "is_numeric", "types_of"]

_MODIFIER = 4  # a length or precision is stored with so much added
_MOST_DIGITS = 38
_DEFAULT_SCALE = 18

_SIMPLE = {
    "int2": DataTypes.SMALLINT,
    "int4": DataTypes.INT,
    "int8": DataTypes.BIGINT,
    "oid": DataTypes.BIGINT,
    "float4": DataTypes.FLOAT,
    "float8": DataTypes.DOUBLE,
    "bool": DataTypes.BOOLEAN,
    "date": DataTypes.DATE,
    "bytea": DataTypes.BYTES,
    **dict.fromkeys(
        ("text", "name", "char", "citext", "uuid", "json", "jsonb", "xml"),
        DataTypes.STRING,
    ),
}

_WITH_PRECISION = {
    "time": DataTypes.TIME,
    "timestamp": DataTypes.TIMESTAMP,
    "timestamptz": DataTypes.TIMESTAMP_LTZ,
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column as the server has it.

    Attributes:
        name: As its catalogue has it: `int4`; of a domain, that of its base type.
        modifier: Length or precision, as its catalogue has it; -1 if there is none.
        shown: As SQL has it: `integer`, `numeric(38,10)[]`.
        is_enum: Whether its values are names.
        element: Type of the elements, if it is an array.
    """

    name: str
    modifier: int
    shown: str
    is_enum: bool = False
    element: ColumnType | None = None


_TYPES = """
SELECT t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod,
       CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END,
       format_type(t.oid, given.modifier)
FROM unnest(%s::oid[], %s::int4[]) WITH ORDINALITY AS given(oid, modifier, place)
JOIN pg_catalog.pg_type t USING (oid) ORDER BY given.place
"""


def types_of(connection: Any, columns: Sequence[tuple[int, int]]) -> list[ColumnType]:
    """Return the types of columns by the numbers and modifiers of their types."""
    rows = connection.execute(_TYPES, ([oid for oid, _ in columns], [each for _, each in columns])).fetchall()
    return [_type_of(connection, row, modifier) for row, (_, modifier) in zip(rows, columns, strict=True)]


def _type_of(connection: Any, row: Sequence[Any], modifier: int) -> ColumnType:
    _, name, kind, base, base_modifier, element, shown = row
    if kind == "d":
        found = types_of(connection, [(base, base_modifier)])[0]
        return ColumnType(found.name, found.modifier, shown, found.is_enum, found.element)
    inner = types_of(connection, [(element, modifier)])[0] if element else None
    return ColumnType(name, modifier, shown, kind == "e", inner)


def data_type_of(column: str, found: ColumnType) -> types.DataType:
    """Return what values of a type are read as.

    Args:
        column: The column, for the message.
        found: Its type.

    Raises:
        SourceError: If there is nothing; names the column.
    """
    if found.element is not None:
        return DataTypes.ARRAY(data_type_of(column, found.element))
    if found.is_enum:
        return DataTypes.STRING()
    if found.name in _SIMPLE:
        return _SIMPLE[found.name]()
    if found.name in _WITH_PRECISION:
        return _WITH_PRECISION[found.name](6 if found.modifier < 0 else found.modifier)
    length = found.modifier - _MODIFIER
    if found.name == "varchar":
        return DataTypes.STRING() if length < 0 else DataTypes.VARCHAR(length)
    if found.name == "bpchar":
        return DataTypes.STRING() if length < 0 else DataTypes.CHAR(length)
    if found.name == "numeric":
        return _decimal(column, found, length)
    raise _no_type(column, found)


def is_numeric(found: ColumnType, precision: int, scale: int) -> bool:
    """Return whether values of a type are numbers of just so many digits, with so many behind the point."""
    return found.name == "numeric" and found.modifier == (precision << 16 | scale) + _MODIFIER


def _decimal(column: str, found: ColumnType, modifier: int) -> types.DataType:
    if modifier < 0:
        return DataTypes.DECIMAL(_MOST_DIGITS, _DEFAULT_SCALE)
    precision, scale = (
        modifier >> 16,
        ((modifier & 0x7FF) ^ 1024) - 1024,
    )  # a scale has eleven bits and a sign
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        raise _no_type(column, found)
    return DataTypes.DECIMAL(precision, scale)


def _no_type(column: str, found: ColumnType) -> SourceError:
    return SourceError(
        f"column {column!r} is of type {found.shown}, which has no SQL type here",
        hint=f"Leave it out (set_columns), declare it STRING to have it as text (set_row_type), or cast it in a query: "
        f'"{column}"::text.',
    )
