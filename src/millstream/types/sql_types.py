"""Types of records for SQL's: what values of a `DataType` are as `Types`."""

from __future__ import annotations

from typing import Any

from millstream.types import datatypes as sql
from millstream.types.basic import LocalTimeTypeInfo, TypeInformation
from millstream.types.row import Row, RowKind
from millstream.types.typeinfo import RowTypeInfo, Types

__all__ = ["RowDataTypeInfo", "row_type_info"]

_TIMES = LocalTimeTypeInfo.TimeType
_PLAIN: dict[type[sql.DataType], TypeInformation] = {
    sql.VarCharType: Types.STRING(),
    sql.CharType: Types.STRING(),
    sql.BooleanType: Types.BOOLEAN(),
    sql.TinyIntType: Types.BYTE(),
    sql.SmallIntType: Types.SHORT(),
    sql.IntType: Types.INT(),
    sql.BigIntType: Types.LONG(),
    sql.FloatType: Types.FLOAT(),
    sql.DoubleType: Types.DOUBLE(),
    sql.DecimalType: Types.BIG_DEC(),
    sql.DateType: LocalTimeTypeInfo(_TIMES.LOCAL_DATE),
    sql.TimeType: LocalTimeTypeInfo(_TIMES.LOCAL_TIME),
    sql.TimestampType: LocalTimeTypeInfo(_TIMES.LOCAL_DATE_TIME),
    sql.LocalZonedTimestampType: LocalTimeTypeInfo(
        _TIMES.LOCAL_DATE_TIME
    ),  # read as days with time, without zone
    sql.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    sql.VarBinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


class RowDataTypeInfo(RowTypeInfo):
    """Rows of files; Flink has them in the form of its tables, RowData, and so prints them `+I(a,1)`.

    Otherwise it is the type `Types.ROW_NAMED` of the same fields, and equal to it.
    """

    def to_text(self, value: Any) -> str:
        """Return the row's kind and fields, such as `+I(a,1)`."""
        if value is None:
            return super().to_text(value)
        kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        return f"{kind}({','.join(self._texts(self._in_order(value)))})"

    def to_printed(self, value: Any) -> str:
        """Return the same."""
        return self.to_text(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowTypeInfo) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((RowTypeInfo, self._identity()))


def row_type_info(row_type: sql.RowType, kind: type[RowTypeInfo] = RowDataTypeInfo) -> RowTypeInfo | None:
    """Return the type of the rows of a SQL type; None if a field has one that no type of records stands for.

    Args:
        row_type: The SQL type.
        kind: What it is to be, and rows in it.

    >>> from millstream.types.datatypes import DataTypes
    >>> row_type_info(DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())]))
    RowTypeInfo(id: Long)
    """
    types = [_type_info(each, kind) for each in row_type.field_types()]
    found = [each for each in types if each is not None]
    return kind(found, row_type.field_names()) if len(found) == len(types) else None


def _type_info(sql_type: sql.DataType, rows: type[RowTypeInfo]) -> TypeInformation | None:
    if isinstance(sql_type, sql.RowType):
        return row_type_info(sql_type, rows)
    if isinstance(sql_type, sql.ArrayType):
        element = _type_info(sql_type.element_type, rows)
        return None if element is None else Types.LIST(element)
    if isinstance(sql_type, sql.MapType):
        key, value = _type_info(sql_type.key_type, rows), _type_info(sql_type.value_type, rows)
        return None if key is None or value is None else Types.MAP(key, value)
    return _PLAIN.get(type(sql_type))
