"""MySQL's types and the SQL types that their values are read as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.base.errors import SourceError
from millstream.types import datatypes as types
from millstream.types.datatypes import DataTypes

__all__ = ["ColumnType", "data_type_of", "type_of"]

_MOST_DIGITS = 38
_BINARY_CHARSET = 63
_UNSIGNED, _ENUM, _SET = 32, 256, 2048
_NO_FRACTION = 31  # how many digits a time or float has whose number is not fixed
_BYTES_OF_CHARACTER = 4  # of utf8mb4, in which the server describes lengths to us

_NAMES = {
    0: "decimal",
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    15: "varchar",
    16: "bit",
    245: "json",
    246: "decimal",
    249: "text",
    250: "text",
    251: "text",
    252: "text",
    253: "varchar",
    254: "char",
    255: "geometry",
}
"""By the numbers that the protocol has for them."""
_BYTES = {"char": "binary", "varchar": "varbinary", "text": "blob"}
_INTEGERS = ["tinyint", "smallint", "int", "bigint"]
_INTEGER_TYPES = [DataTypes.TINYINT, DataTypes.SMALLINT, DataTypes.INT, DataTypes.BIGINT]

_SIMPLE = {
    "mediumint": DataTypes.INT,
    "float": DataTypes.FLOAT,
    "double": DataTypes.DOUBLE,
    "date": DataTypes.DATE,
    "year": DataTypes.INT,
    **dict.fromkeys(("text", "json", "enum", "set"), DataTypes.STRING),
    **dict.fromkeys(("binary", "varbinary", "blob"), DataTypes.BYTES),
}
_WITH_PRECISION = {
    "time": DataTypes.TIME,
    "datetime": DataTypes.TIMESTAMP,
    "timestamp": DataTypes.TIMESTAMP_LTZ,
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column as the server describes it in a result.

    Attributes:
        name: As in SQL: `int`, `varbinary`.
        is_unsigned: Whether it has no negative numbers.
        length: Characters, bits, digits or width, as is usual for the type.
        scale: Digits behind the point, of numbers and of seconds.
    """

    name: str
    is_unsigned: bool = False
    length: int = 0
    scale: int = 0

    @property
    def shown(self) -> str:
        """As SQL has it."""
        unsigned = " unsigned" if self.is_unsigned else ""
        if self.name == "decimal":
            return f"decimal({self.length},{self.scale}){unsigned}"
        if self.name in ("bit", "char", "varchar", "binary", "varbinary"):
            return f"{self.name}({self.length})"
        if self.name in _WITH_PRECISION and self.scale:
            return f"{self.name}({self.scale})"
        return self.name + unsigned


def type_of(field: Any) -> ColumnType:
    """Return the type of a column of a result.

    Args:
        field: Its description by PyMySQL.
    """
    name = _NAMES.get(field.type_code, f"type {field.type_code}")
    is_unsigned = bool(field.flags & _UNSIGNED) and name not in ("timestamp", "year", "bit")
    length, scale = field.length, 0 if field.scale >= _NO_FRACTION else field.scale
    if field.flags & _ENUM:
        return ColumnType("enum")
    if field.flags & _SET:
        return ColumnType("set")
    if name == "decimal":
        length -= (scale > 0) + (not is_unsigned)  # point and sign
    if name in _BYTES:
        if field.charsetnr == _BINARY_CHARSET:
            name = _BYTES[name]
        else:
            length //= _BYTES_OF_CHARACTER
        is_unsigned = False
    elif name not in ("decimal", "bit", "tinyint"):
        length = 0
    keeps_length = name in ("char", "varchar", "binary", "varbinary", "decimal", "bit", "tinyint")
    return ColumnType(name, is_unsigned, length if keeps_length else 0, scale if name not in _BYTES else 0)


def data_type_of(column: str, found: ColumnType) -> types.DataType:
    """Return what values of a type are read as.

    Args:
        column: The column, for the message.
        found: Its type.

    Raises:
        SourceError: If there is nothing; names the column.
    """
    name = found.name
    if name == "tinyint" and found.length == 1 and not found.is_unsigned:
        return DataTypes.BOOLEAN()
    if name == "bigint" and found.is_unsigned:
        return DataTypes.DECIMAL(20, 0)
    if name in _INTEGERS:
        return _INTEGER_TYPES[_INTEGERS.index(name) + found.is_unsigned]()
    if name in _SIMPLE:
        return _SIMPLE[name]()
    if name in _WITH_PRECISION:
        return _WITH_PRECISION[name](found.scale)
    if name == "decimal":
        fits = found.length <= _MOST_DIGITS
        return DataTypes.DECIMAL(found.length, found.scale) if fits else DataTypes.STRING()
    if name == "bit":
        return DataTypes.BOOLEAN() if found.length == 1 else DataTypes.BYTES()
    if name in ("char", "varchar"):
        make = DataTypes.CHAR if name == "char" else DataTypes.VARCHAR
        return make(found.length) if found.length else DataTypes.STRING()
    raise SourceError(
        f"column {column!r} is of type {found.shown}, which has no SQL type here",
        hint=f"Leave it out (set_columns), or convert it in a query: ST_AsText(`{column}`).",
    )
