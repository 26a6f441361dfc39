"""SQL types (PyFlink's `pyflink.table.types`)."""

from typing import Any

from millstream.types.datatypes import (
    ArrayType,
    AtomicType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    NumericType,
    RowField,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from millstream.types.further_types import (
    DataTypes,
    DayTimeIntervalType,
    ListViewType,
    MapViewType,
    MultisetType,
    NullType,
    RawType,
    Resolution,
    UserDefinedType,
    YearMonthIntervalType,
    ZonedTimestampType,
)
from millstream.types.row import Row, RowKind

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
    "DayTimeIntervalType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "ListViewType",
    "LocalZonedTimestampType",
    "MapType",
    "MapViewType",
    "MultisetType",
    "NullType",
    "NumericType",
    "RawType",
    "Resolution",
    "Row",
    "RowField",
    "RowKind",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "UserDefinedType",
    "VarBinaryType",
    "VarCharType",
    "YearMonthIntervalType",
    "ZonedTimestampType",
    "create_arrow_schema",
    "from_arrow_type",
    "to_arrow_type",
]


def create_arrow_schema(field_names: list[str], field_types: list[DataType]) -> Any:
    """Return the Arrow schema of columns."""
    import pyarrow as pa  # optional

    from millstream.table.functions.types import arrow_type  # needs pyarrow

    return pa.schema(
        [
            pa.field(name, arrow_type(kind), nullable=bool(kind.nullable))
            for name, kind in zip(field_names, field_types, strict=True)
        ]
    )


def from_arrow_type(arrow_type: Any, nullable: bool = True) -> DataType:
    """Return the SQL type of an Arrow type."""
    from millstream.table.functions.types import data_type_of  # needs pyarrow

    return data_type_of(arrow_type, nullable)


def to_arrow_type(data_type: DataType) -> Any:
    """Return the Arrow type of a SQL type."""
    from millstream.table.functions.types import arrow_type  # needs pyarrow

    return arrow_type(data_type)
