"""Types of SQL values: their Arrow types, and what they have in common.

The rules of results of DECIMAL arithmetic are those of SQL Server as Flink has them; `decimal_*` name each.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa

from millstream.base.errors import ConfigurationError
from millstream.base.late_pandas import import_pandas_late
from millstream.table.expressions.rex import RowSchema
from millstream.types import datatypes as t
from millstream.types import further_types as f

import_pandas_late()

__all__ = [
    "INTEGERS",
    "arrow_schema",
    "arrow_type",
    "as_decimal",
    "common_type",
    "data_type_of",
    "decimal_divide",
    "decimal_modulo",
    "decimal_multiply",
    "decimal_plus",
    "is_approximate",
    "is_binary",
    "is_exact",
    "is_integer",
    "is_interval",
    "is_numeric",
    "is_string",
    "is_time_point",
    "same_kind",
    "with_nullable",
]

MAX_PRECISION = 38
MIN_KEPT_SCALE = 6
INTEGERS: tuple[type[t.DataType], ...] = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
_INTEGER_DIGITS: dict[type[t.DataType], int] = {
    t.TinyIntType: 3,
    t.SmallIntType: 5,
    t.IntType: 10,
    t.BigIntType: 19,
}
_D = TypeVar("_D", bound=t.DataType)

# --- families


def is_string(kind: t.DataType) -> bool:
    """Whether it is CHAR, VARCHAR or STRING."""
    return isinstance(kind, t.VarCharType)


def is_binary(kind: t.DataType) -> bool:
    """Whether it is BINARY, VARBINARY or BYTES."""
    return isinstance(kind, t.VarBinaryType)


def is_integer(kind: t.DataType) -> bool:
    """Whether it is TINYINT, SMALLINT, INT or BIGINT."""
    return isinstance(kind, INTEGERS)


def is_exact(kind: t.DataType) -> bool:
    """Whether it is an integer or DECIMAL."""
    return is_integer(kind) or isinstance(kind, t.DecimalType)


def is_approximate(kind: t.DataType) -> bool:
    """Whether it is FLOAT or DOUBLE."""
    return isinstance(kind, t.DoubleType)


def is_numeric(kind: t.DataType) -> bool:
    """Whether it is a number."""
    return isinstance(kind, t.NumericType)


def is_interval(kind: t.DataType) -> bool:
    """Whether it is an interval."""
    return isinstance(kind, f.YearMonthIntervalType | f.DayTimeIntervalType)


def is_time_point(kind: t.DataType) -> bool:
    """Whether it is DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ."""
    return isinstance(kind, t.DateType | t.TimeType | t.TimestampType)


def with_nullable(kind: _D, nullable: bool) -> _D:
    """Return a type with another nullability."""
    if kind.nullable == nullable:
        return kind
    changed = copy.copy(kind)
    changed.nullable = nullable
    return changed


@lru_cache(maxsize=4096)
def same_kind(left: t.DataType, right: t.DataType) -> bool:
    """Whether two types differ in nullability at most, and their parts too."""
    return str(_nullable_throughout(left)) == str(_nullable_throughout(right))


def _nullable_throughout(kind: t.DataType) -> t.DataType:
    changed: Any = copy.copy(kind)
    changed.nullable = True
    for name in ("element_type", "key_type", "value_type"):
        if hasattr(changed, name):
            setattr(changed, name, _nullable_throughout(getattr(changed, name)))
    if isinstance(changed, t.RowType):
        changed.fields = [
            t.RowField(each.name, _nullable_throughout(each.data_type)) for each in changed.fields
        ]
    return changed  # type: ignore[no-any-return]


# --- Arrow


def arrow_schema(schema: RowSchema) -> pa.Schema:
    """Return the schema of record batches of a relation: columns `f0`, `f1`, ..."""
    return pa.schema([(f"f{place}", arrow_type(kind)) for place, kind in enumerate(schema.types)])


def arrow_type(kind: t.DataType) -> pa.DataType:
    """Return the Arrow type of a SQL type's columns.

    Raises:
        ConfigurationError: If it has none.
    """
    make = _PARAMETRIC.get(type(kind))
    if make is not None:
        return make(kind)
    plain = _PLAIN.get(type(kind))
    if plain is None:
        raise ConfigurationError(f"type {kind} has no form in columns")
    return plain


def _timestamp_unit(kind: Any) -> str:
    return "us" if kind.precision <= 6 else "ns"


def _time(kind: Any) -> pa.DataType:
    if kind.precision <= 3:
        return pa.time32("ms")
    return pa.time64("us" if kind.precision <= 6 else "ns")


def _struct(kind: Any) -> pa.DataType:
    return pa.struct([pa.field(each.name, arrow_type(each.data_type)) for each in kind.fields])


_PLAIN: dict[type[t.DataType], pa.DataType] = {
    t.VarCharType: pa.string(),
    t.CharType: pa.string(),
    t.VarBinaryType: pa.binary(),
    t.BinaryType: pa.binary(),
    t.BooleanType: pa.bool_(),
    t.TinyIntType: pa.int8(),
    t.SmallIntType: pa.int16(),
    t.IntType: pa.int32(),
    t.BigIntType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.DateType: pa.date32(),
    f.NullType: pa.null(),
    f.YearMonthIntervalType: pa.int32(),
    f.DayTimeIntervalType: pa.int64(),
    f.VariantType: pa.string(),
    f.BitmapType: pa.binary(),
    f.RawType: pa.binary(),
}
_PARAMETRIC: dict[type[t.DataType], Callable[[Any], pa.DataType]] = {
    t.DecimalType: lambda kind: pa.decimal128(kind.precision, kind.scale),
    t.TimeType: _time,
    t.TimestampType: lambda kind: pa.timestamp(_timestamp_unit(kind)),
    t.LocalZonedTimestampType: lambda kind: pa.timestamp(_timestamp_unit(kind), "UTC"),
    t.ArrayType: lambda kind: pa.list_(arrow_type(kind.element_type)),
    t.MapType: lambda kind: pa.map_(arrow_type(kind.key_type), arrow_type(kind.value_type)),
    f.MultisetType: lambda kind: pa.map_(arrow_type(kind.element_type), pa.int32()),
    t.RowType: _struct,
    f.StructuredType: _struct,
}


def data_type_of(kind: pa.DataType, nullable: bool = True) -> t.DataType:
    """Return the SQL type of an Arrow type.

    Raises:
        ConfigurationError: If there is none.
    """
    for test, make in _FROM_ARROW:
        if test(kind):
            return with_nullable(make(kind), nullable)
    raise ConfigurationError(f"Arrow type {kind} has no SQL type")


_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], t.DataType]], ...] = (
    (pa.types.is_null, lambda kind: f.NullType()),
    (pa.types.is_boolean, lambda kind: t.BooleanType()),
    (pa.types.is_int8, lambda kind: t.TinyIntType()),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), lambda kind: t.SmallIntType()),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), lambda kind: t.IntType()),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), lambda kind: t.BigIntType()),
    (pa.types.is_uint64, lambda kind: t.DecimalType(20, 0)),
    (lambda kind: pa.types.is_float32(kind) or pa.types.is_float16(kind), lambda kind: t.FloatType()),
    (pa.types.is_float64, lambda kind: t.DoubleType()),
    (
        lambda kind: pa.types.is_decimal(kind) and kind.precision <= MAX_PRECISION and kind.scale >= 0,
        lambda kind: t.DecimalType(kind.precision, kind.scale),
    ),
    (
        lambda kind: (
            pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        ),
        lambda kind: t.VarCharType(),
    ),
    (
        lambda kind: (
            pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
        ),
        lambda kind: t.VarBinaryType(),
    ),
    (pa.types.is_fixed_size_binary, lambda kind: t.BinaryType(kind.byte_width)),
    (pa.types.is_date32, lambda kind: t.DateType()),
    (pa.types.is_date64, lambda kind: t.TimestampType(3)),
    (pa.types.is_time, lambda kind: t.TimeType(_PRECISIONS[kind.unit])),
    (
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
        lambda kind: t.TimestampType(_PRECISIONS[kind.unit]),
    ),
    (pa.types.is_timestamp, lambda kind: t.LocalZonedTimestampType(_PRECISIONS[kind.unit])),
    (pa.types.is_duration, lambda kind: f.DayTimeIntervalType()),
    (pa.types.is_dictionary, lambda kind: data_type_of(kind.value_type)),
    (pa.types.is_map, lambda kind: t.MapType(data_type_of(kind.key_type), data_type_of(kind.item_type))),
    (
        lambda kind: (
            pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        ),
        lambda kind: t.ArrayType(data_type_of(kind.value_type)),
    ),
    (
        pa.types.is_struct,
        lambda kind: t.RowType([t.RowField(each.name, data_type_of(each.type)) for each in kind]),
    ),
)

# --- decimals


def as_decimal(kind: t.DataType) -> t.DecimalType | None:
    """Return the DECIMAL that holds every value of an exact type; None for other types."""
    if isinstance(kind, t.DecimalType):
        return kind
    digits = _INTEGER_DIGITS.get(type(kind))
    return None if digits is None else t.DecimalType(digits, 0)


def _bounded(precision: int, scale: int) -> t.DecimalType:
    """Keep the digits before the point, and of the scale at least six or all."""
    if precision <= MAX_PRECISION:
        return t.DecimalType(precision, scale)
    kept = max(MAX_PRECISION - (precision - scale), min(scale, MIN_KEPT_SCALE))
    return t.DecimalType(MAX_PRECISION, kept)


def decimal_plus(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    """Return the type of a sum or difference."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _bounded(whole + scale + 1, scale)


def decimal_multiply(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    """Return the type of a product."""
    return _bounded(left.precision + right.precision + 1, left.scale + right.scale)


def decimal_divide(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    """Return the type of a quotient."""
    scale = max(MIN_KEPT_SCALE, left.scale + right.precision + 1)
    return _bounded(left.precision - left.scale + right.scale + scale, scale)


def decimal_modulo(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    """Return the type of a remainder."""
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return t.DecimalType(whole + scale, scale) if whole + scale else t.DecimalType(1, scale)


# --- common types


def common_type(kinds: Iterable[t.DataType]) -> t.DataType | None:
    """Return the type that values of all types fit, nullable if one is; None if there is none.

    >>> common_type([t.IntType(False), t.DecimalType(2, 1, False)])
    DECIMAL(11, 1) NOT NULL
    """
    found: t.DataType | None = None
    for kind in kinds:
        found = kind if found is None else _common(found, kind)
        if found is None:
            return None
    return found


def _common(left: t.DataType, right: t.DataType) -> t.DataType | None:
    nullable = left.nullable or right.nullable
    if isinstance(left, f.NullType):
        return with_nullable(right, True)
    if isinstance(right, f.NullType):
        return with_nullable(left, True)
    if same_kind(left, right) and type(left) is type(right):
        return with_nullable(left if left.nullable else right, nullable)
    for test, merge in _MERGES:
        if test(left) and test(right):
            merged = merge(left, right)
            return None if merged is None else with_nullable(merged, nullable)
    return None


def _common_number(left: t.DataType, right: t.DataType) -> t.DataType:
    if is_approximate(left) or is_approximate(right):
        if is_approximate(left) and isinstance(right, t.DecimalType):
            return t.DoubleType()  # not so the other way round: DECIMAL, FLOAT is FLOAT
        singles = [isinstance(each, t.FloatType) or is_exact(each) for each in (left, right)]
        return t.FloatType() if all(singles) else t.DoubleType()
    if is_integer(left) and is_integer(right):
        return max(left, right, key=lambda each: INTEGERS.index(type(each)))
    a, b = as_decimal(left), as_decimal(right)
    assert a is not None and b is not None
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return t.DecimalType(
        min(whole + scale, MAX_PRECISION),
        scale if whole + scale <= MAX_PRECISION else max(MAX_PRECISION - whole, 0),
    )


def _common_string(left: Any, right: Any) -> t.DataType:
    length = max(left.length, right.length)
    fixed = isinstance(left, t.CharType) and isinstance(right, t.CharType) and left.length == right.length
    return t.CharType(length) if fixed else t.VarCharType(length)


def _common_binary(left: Any, right: Any) -> t.DataType:
    length = max(left.length, right.length)
    fixed = isinstance(left, t.BinaryType) and isinstance(right, t.BinaryType) and left.length == right.length
    return t.BinaryType(length) if fixed else t.VarBinaryType(length)


def _common_time_point(left: Any, right: Any) -> t.DataType | None:
    if isinstance(left, t.TimeType) or isinstance(right, t.TimeType):
        both = isinstance(left, t.TimeType) and isinstance(right, t.TimeType)
        return t.TimeType(max(left.precision, right.precision)) if both else None
    if isinstance(left, t.DateType) or isinstance(right, t.DateType):
        return None  # two of them are equal types
    precision = max(left.precision, right.precision)
    zoned = any(isinstance(each, t.LocalZonedTimestampType) for each in (left, right))
    return t.LocalZonedTimestampType(precision) if zoned else t.TimestampType(precision)


def _common_array(left: Any, right: Any) -> t.DataType | None:
    element = common_type([left.element_type, right.element_type])
    return None if element is None else t.ArrayType(element)


def _common_map(left: Any, right: Any) -> t.DataType | None:
    key = common_type([left.key_type, right.key_type])
    value = common_type([left.value_type, right.value_type])
    return None if key is None or value is None else t.MapType(key, value)


def _common_multiset(left: Any, right: Any) -> t.DataType | None:
    element = common_type([left.element_type, right.element_type])
    return None if element is None else f.MultisetType(element)


def _common_row(left: Any, right: Any) -> t.DataType | None:
    if len(left.fields) != len(right.fields):
        return None
    merged = []
    for a, b in zip(left.fields, right.fields, strict=True):
        kind = common_type([a.data_type, b.data_type])
        if kind is None:
            return None
        merged.append(t.RowField(a.name, kind))
    return t.RowType(merged)


def _is(*kinds: type[t.DataType]) -> Callable[[t.DataType], bool]:
    return lambda kind: isinstance(kind, kinds)


_MERGES: tuple[
    tuple[Callable[[t.DataType], bool], Callable[[t.DataType, t.DataType], t.DataType | None]], ...
] = (
    (is_numeric, _common_number),
    (is_string, _common_string),
    (is_binary, _common_binary),
    (is_time_point, _common_time_point),
    (_is(f.YearMonthIntervalType), lambda left, right: left),
    (_is(f.DayTimeIntervalType), lambda left, right: left),
    (_is(t.ArrayType), _common_array),
    (_is(t.MapType), _common_map),
    (_is(f.MultisetType), _common_multiset),
    (_is(t.RowType), _common_row),
)
