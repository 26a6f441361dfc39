"""SQL types of records of DataStreams."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import TypeMismatchError
from millstream.types import datatypes as sql
from millstream.types.composite import (
    ExternalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    _SequenceTypeInfo,
)
from millstream.types.typeinfo import TypeInformation, Types

__all__ = ["columns_of", "data_type_of_info"]

_PLAIN: dict[str, sql.DataType] = {
    Types.STRING().describe(): sql.VarCharType(),
    Types.BOOLEAN().describe(): sql.BooleanType(),
    Types.BYTE().describe(): sql.TinyIntType(),
    Types.SHORT().describe(): sql.SmallIntType(),
    Types.INT().describe(): sql.IntType(),
    Types.LONG().describe(): sql.BigIntType(),
    Types.FLOAT().describe(): sql.FloatType(),
    Types.DOUBLE().describe(): sql.DoubleType(),
    Types.BIG_INT().describe(): sql.DecimalType(38, 0),
    Types.BIG_DEC().describe(): sql.DecimalType(38, 18),
    Types.SQL_DATE().describe(): sql.DateType(),
    Types.SQL_TIME().describe(): sql.TimeType(0),
    Types.SQL_TIMESTAMP().describe(): sql.TimestampType(6),
    Types.INSTANT().describe(): sql.LocalZonedTimestampType(6),
    Types.CHAR().describe(): sql.CharType(1),
}


def data_type_of_info(kind: TypeInformation, what: str) -> sql.DataType:
    """Return the SQL type of a type of records.

    Args:
        kind: The type.
        what: The field, for messages.

    Raises:
        TypeMismatchError: If there is none.
    """
    if isinstance(kind, ExternalTypeInfo):
        return data_type_of_info(kind._type_info, what)
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return sql.VarBinaryType()
    if isinstance(kind, _SequenceTypeInfo):
        return sql.ArrayType(data_type_of_info(kind._element_type, what))
    if isinstance(kind, MapTypeInfo):
        return sql.MapType(data_type_of_info(kind._key_type, what), data_type_of_info(kind._value_type, what))
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        names, types = _fields(kind)
        return sql.RowType(
            [
                sql.RowField(name, data_type_of_info(each, f"{what}.{name}"))
                for name, each in zip(names, types, strict=True)
            ]
        )
    found = _PLAIN.get(kind.describe())
    if found is None:
        raise TypeMismatchError(
            f"{what} is of the type {kind.describe()}, which no SQL type stands for",
            hint="Declare the stream's type: map(function, output_type=Types.ROW_NAMED([...], [...])).",
        )
    return found


def columns_of(kind: TypeInformation) -> tuple[list[str], list[sql.DataType]]:
    """Return names and types of the columns that records of a type make: a bare value makes one, `f0`.

    Raises:
        TypeMismatchError: If no SQL type stands for one of them.
    """
    if isinstance(kind, ExternalTypeInfo):
        return columns_of(kind._type_info)
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        names, types = _fields(kind)
        return names, [
            data_type_of_info(each, f'field "{name}"') for name, each in zip(names, types, strict=True)
        ]
    return ["f0"], [data_type_of_info(kind, "the stream's record")]


def _fields(kind: RowTypeInfo | TupleTypeInfo) -> tuple[list[str], Sequence[TypeInformation]]:
    types = kind.get_field_types()
    if isinstance(kind, RowTypeInfo):
        return list(kind.get_field_names()), types
    return [f"f{place}" for place in range(len(types))], types
