"""Arrow's types for SQL types, and pyarrow itself, which is optional."""

from __future__ import annotations

from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package
from millstream.types import datatypes as types

__all__ = ["Form", "arrow_type", "cast_plain", "load_arrow", "load_parquet"]


def load_arrow(what: str) -> Any:
    """Return pyarrow.

    Args:
        what: Who needs it, for the message: `Parquet files`.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package("pyarrow", extra="parquet", what=what)


def load_parquet() -> Any:
    """Return pyarrow.parquet.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """
    load_arrow("Parquet files")
    import pyarrow.parquet  # optional: the extra `parquet`

    return pyarrow.parquet


def cast_plain(column: Any, kind: Any) -> Any:
    """Return an array in another type; nanoseconds are cut, and nothing else.

    Raises:
        pyarrow.ArrowException: If a value does not fit.
    """
    if column.type == kind:
        return column
    import pyarrow.compute as pc  # optional: whoever has an array has it

    return column.cast(options=pc.CastOptions(kind, allow_time_truncate=True))


class Form(Enum):
    """Whose values columns hold."""

    STORED = "what files store: moments in UTC"
    READ = "what rows hold that were read: moments without zone"
    PARSED = (
        "what rows hold that were read from text: as READ, and numbers of type FLOAT as precise as the text"
    )


def arrow_type(data_type: types.DataType, form: Form = Form.STORED) -> Any:
    """Return the Arrow type of a SQL type.

    Raises:
        ConfigurationError: If there is none.
    """
    pa = load_arrow("columns")

    def inner(part: types.DataType) -> Any:
        return arrow_type(part, form)

    if isinstance(data_type, types.ArrayType):
        return pa.list_(inner(data_type.element_type))
    if isinstance(data_type, types.RowType):
        return pa.struct([pa.field(field.name, inner(field.data_type)) for field in data_type])
    if isinstance(data_type, types.MapType):
        return pa.map_(inner(data_type.key_type), inner(data_type.value_type))
    if isinstance(data_type, types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    make = _ARROW_TYPES[form].get(type(data_type))
    if make is None:
        raise ConfigurationError(f"type {data_type} has no Arrow type")
    return getattr(pa, make[0])(*make[1:])


_STORED: dict[type[types.DataType], tuple[str, ...]] = {
    types.VarCharType: ("string",),
    types.CharType: ("string",),
    types.VarBinaryType: ("binary",),
    types.BinaryType: ("binary",),
    types.BooleanType: ("bool_",),
    types.TinyIntType: ("int8",),
    types.SmallIntType: ("int16",),
    types.IntType: ("int32",),
    types.BigIntType: ("int64",),
    types.FloatType: ("float32",),
    types.DoubleType: ("float64",),
    types.DateType: ("date32",),
    types.TimeType: ("time64", "us"),
    types.TimestampType: ("timestamp", "us"),
    types.LocalZonedTimestampType: ("timestamp", "us", "UTC"),
}

_READ = {**_STORED, types.LocalZonedTimestampType: ("timestamp", "us")}
_ARROW_TYPES = {
    Form.STORED: _STORED,
    Form.READ: _READ,
    Form.PARSED: {**_READ, types.FloatType: ("float64",)},
}
