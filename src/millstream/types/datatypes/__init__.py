"""SQL types (PyFlink's `pyflink.table.types`), as far as file formats need them.

A type is a small immutable value. It can read its text form (`parse`, `parse_column`) and check a Python
value (`check`); it does not convert values silently.
"""

from millstream.types.datatypes.base import AtomicType, DataType
from millstream.types.datatypes.composite import ArrayType, MapType, RowField, RowType
from millstream.types.datatypes.factory import DataTypes
from millstream.types.datatypes.numbers import (
    BigIntType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    IntType,
    NumericType,
    SmallIntType,
    TinyIntType,
)
from millstream.types.datatypes.texts import BinaryType, BooleanType, CharType, VarBinaryType, VarCharType
from millstream.types.datatypes.times import DateType, LocalZonedTimestampType, TimestampType, TimeType

__all__ = [
    "ArrayType",
    "AtomicType",
    "BigIntType",
    "BinaryType",
    "BooleanType",
    "CharType",
    "DataType",
    "DataTypes",
    "DateType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "LocalZonedTimestampType",
    "MapType",
    "NumericType",
    "RowField",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
]
