"""CAST and TRY_CAST between all types (Flink's semantics: narrowing wraps, DOUBLE saturates, DECIMAL rounds)."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.decimals import fit, rescale, to_double
from millstream.table.functions.kernels.parsing import cut_precision, from_text
from millstream.table.functions.kernels.texts import assume_zone, to_text, zoned_to_local
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    as_array,
    is_constant,
    per_row,
)
from millstream.table.functions.types import arrow_type, is_string, same_kind
from millstream.types import datatypes as t
from millstream.types import further_types as f
from millstream.types.java_text import float_text
from millstream.types.numpy_views import as_numpy

__all__ = ["KERNELS", "convert"]


def convert(
    setting: Setting, value: Value, source: t.DataType, target: t.DataType, attempt: bool = False
) -> Value:
    """Return a value in another SQL type.

    Raises:
        EvaluationError: If one cannot be, unless `attempt`.
    """
    kind = arrow_type(target)
    if isinstance(source, f.NullType):
        return pa.scalar(None, kind) if is_constant(value) else pa.nulls(len(value), kind)
    if same_kind(source, target):
        return value
    if is_string(target):
        return _bounded_text(to_text(setting, value, source), target)
    for sources, targets, function in _CONVERSIONS:
        if isinstance(source, sources) and isinstance(target, targets):
            return function(setting, value, source, target, attempt)
    return pc.cast(value, kind, safe=False)


def _bounded_text(value: Value, target: Any) -> Value:
    if target.length == t.VarCharType.MAX_LENGTH:
        return value
    cut = pc.utf8_slice_codeunits(value, 0, target.length)
    return pc.utf8_rpad(cut, target.length, " ") if isinstance(target, t.CharType) else cut


def _rows(value: Value) -> int:
    return 1 if is_constant(value) else len(value)


def _text(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    if isinstance(target, t.VarBinaryType):
        return _bounded_bytes(pc.cast(value, pa.binary()), target)
    return from_text(setting, value, target, attempt)


def _bounded_bytes(value: Value, target: Any) -> Value:
    if target.length == t.VarBinaryType.MAX_LENGTH:
        return value
    fixed = isinstance(target, t.BinaryType)

    def one(data: bytes) -> bytes:
        cut = data[: target.length]
        return cut.ljust(target.length, b"\0") if fixed else cut

    return per_row(one, pa.binary(), [value], _rows(value))


def _binary(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    return _bounded_bytes(value, target)


def _to_boolean(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    zero = decimal.Decimal(0) if pa.types.is_decimal(value.type) else 0
    return pc.not_equal(value, pa.scalar(zero, value.type))


def _float_to_integer(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    """Java's conversion: cut, saturated to INT or BIGINT, NaN is 0; SMALLINT and TINYINT wrap from INT."""
    wide = np.int64 if isinstance(target, t.BigIntType) else np.int32
    bounds = np.iinfo(wide)
    column = as_array(value, 1) if is_constant(value) else value
    numbers = np.nan_to_num(
        as_numpy(pc.fill_null(pc.cast(column, pa.float64()), 0.0)),
        nan=0.0,
        posinf=np.inf,
    )
    low, high = numbers <= float(bounds.min), numbers >= float(bounds.max)
    whole = np.where(low | high, 0, np.trunc(np.where(low | high, 0, numbers))).astype(wide)
    whole = np.where(high, bounds.max, np.where(low, bounds.min, whole)).astype(wide)
    mask = np.asarray(as_numpy(column.is_null()), dtype=bool)
    result = pc.cast(pa.array(whole, mask=mask), arrow_type(target), safe=False)
    return result[0] if is_constant(value) else result


def _decimal_to_integer(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    whole = pc.trunc(value) if source.scale else value
    if source.precision - source.scale > 18:
        bits: int = target.bits

        def wrap(number: decimal.Decimal) -> int:
            return (int(number) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

        return per_row(wrap, arrow_type(target), [whole], _rows(value))
    return pc.cast(pc.cast(whole, pa.int64(), safe=False), arrow_type(target), safe=False)


def _integer_to_decimal(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    return rescale(pc.cast(value, pa.decimal128(_DIGITS[type(source)], 0)), arrow_type(target))


_DIGITS = {t.TinyIntType: 3, t.SmallIntType: 5, t.IntType: 10, t.BigIntType: 19}


def _decimal_to_decimal(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    return rescale(value, arrow_type(target))


def _float_to_decimal(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    kind = arrow_type(target)
    text: Callable[[float], str] = float_text if isinstance(source, t.FloatType) else repr

    def one(number: float) -> decimal.Decimal | None:
        if number - number != 0:
            if attempt:
                return None
            raise EvaluationError(f"{number} cannot be cast to {target}", hint="TRY_CAST gives NULL instead.")
        return fit(decimal.Decimal(text(number)), kind)

    return per_row(one, kind, [value], _rows(value))


def _decimal_to_float(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    return pc.cast(to_double(value), arrow_type(target), safe=False)


def _boolean_to_number(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    if isinstance(target, t.DecimalType):
        return rescale(pc.cast(pc.cast(value, pa.int8()), pa.decimal128(3, 0)), arrow_type(target))
    return pc.cast(pc.cast(value, pa.int8()), arrow_type(target))


# --- times


def _date_to_timestamp(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    kind = arrow_type(target)
    local = pc.cast(value, pa.timestamp(kind.unit))
    return _to_zone(setting, local) if kind.tz else local


def _to_zone(setting: Setting, local: Value) -> Value:
    return assume_zone(local, setting.zone)


def _timestamp_to_timestamp(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    kind = arrow_type(target)
    zoned = isinstance(source, t.LocalZonedTimestampType)
    local = zoned_to_local(setting, value) if zoned and not kind.tz else value
    if not zoned and kind.tz:
        local = _to_zone(setting, local)
    return _with_digits(local, kind, target.precision)


def _with_digits(value: Value, kind: Any, precision: int) -> Value:
    """Return moments with the digits of a type. Of milliseconds Flink cuts towards 1970, of what is finer downwards."""
    cut = cut_precision(pc.cast(value, kind, safe=False), max(precision, 3))
    if precision >= 3:
        return cut
    step = 10 ** ({"us": 6, "ns": 9}[kind.unit] - precision)
    whole = pc.cast(pc.cast(cut, pa.timestamp(kind.unit)), pa.int64())
    towards = pc.multiply(pc.divide(whole, step), step)  # Arrow divides towards zero
    return pc.cast(pc.cast(towards, pa.timestamp(kind.unit)), kind)


def _timestamp_to_date(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    return pc.cast(_local(setting, value, source), pa.date32(), safe=False)


def _local(setting: Setting, value: Value, source: t.DataType) -> Value:
    return zoned_to_local(setting, value) if isinstance(source, t.LocalZonedTimestampType) else value


def _timestamp_to_time(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    local = pc.cast(_local(setting, value, source), pa.timestamp("ns"), safe=False)
    return _cut_time(pc.cast(local, pa.time64("ns")), target)


def _cut_time(value: Value, target: Any) -> Value:
    """Return times of day in nanoseconds with the digits of a type."""
    step = 10 ** (9 - target.precision)
    whole = pc.cast(value, pa.int64())
    cut = pc.multiply(pc.divide(whole, step), step)
    return pc.cast(pc.cast(cut, pa.time64("ns")), arrow_type(target), safe=False)


def _time_to_time(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    return _cut_time(pc.cast(value, pa.time64("ns")), target)


def _time_to_timestamp(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    kind = arrow_type(target)
    nanoseconds = pc.cast(pc.cast(value, pa.time64("ns")), pa.int64())
    local = pc.cast(pc.cast(nanoseconds, pa.timestamp("ns")), pa.timestamp(kind.unit), safe=False)
    return cut_precision(_to_zone(setting, local) if kind.tz else local, target.precision)


# --- nested


def _array(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    column = as_array(value, 1) if is_constant(value) else value
    inner = convert(setting, column.flatten(), source.element_type, target.element_type, attempt)
    sizes = pc.fill_null(pc.list_value_length(column), 0)
    offsets = np.concatenate([[0], np.cumsum(as_numpy(sizes))]).astype(np.int32)
    mask = column.is_null() if column.null_count else None
    result = pa.ListArray.from_arrays(pa.array(offsets), inner, type=arrow_type(target), mask=mask)
    return result[0] if is_constant(value) else result


def _map(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    column = as_array(value, 1) if is_constant(value) else value
    pair = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    lists = pc.cast(column, pa.list_(pair))
    entries = lists.flatten()
    multiset = isinstance(source, f.MultisetType)
    keys = convert(
        setting,
        entries.field(0),
        source.element_type if multiset else source.key_type,
        target.element_type if multiset else target.key_type,
        attempt,
    )
    values = entries.field(1)
    if not multiset:
        values = convert(setting, values, source.value_type, target.value_type, attempt)
    sizes = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = np.concatenate([[0], np.cumsum(as_numpy(sizes))]).astype(np.int32)
    mask = column.is_null() if column.null_count else None
    result = pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=arrow_type(target), mask=mask)
    return result[0] if is_constant(value) else result


def _row(setting: Setting, value: Value, source: Any, target: Any, attempt: bool) -> Value:
    column = as_array(value, 1) if is_constant(value) else value
    parts = [
        convert(setting, column.field(place), a.data_type, b.data_type, attempt)
        for place, (a, b) in enumerate(zip(source.fields, target.fields, strict=True))
    ]
    kind = arrow_type(target)
    mask = column.is_null() if column.null_count else None
    result = pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    return result[0] if is_constant(value) else result


_Function = Callable[[Setting, Value, Any, Any, bool], Value]
_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
_Kinds = type[t.DataType] | tuple[type[t.DataType], ...]
_CONVERSIONS: tuple[tuple[_Kinds, _Kinds, _Function], ...] = (
    (t.VarCharType, t.DataType, _text),
    (t.VarBinaryType, t.VarBinaryType, _binary),
    (t.NumericType, t.BooleanType, _to_boolean),
    (t.DoubleType, _INTEGERS, _float_to_integer),
    (t.DecimalType, _INTEGERS, _decimal_to_integer),
    (_INTEGERS, t.DecimalType, _integer_to_decimal),
    (t.DecimalType, t.DecimalType, _decimal_to_decimal),
    (t.DoubleType, t.DecimalType, _float_to_decimal),
    (t.DecimalType, t.DoubleType, _decimal_to_float),
    (t.BooleanType, t.NumericType, _boolean_to_number),
    (t.DateType, t.TimestampType, _date_to_timestamp),
    (t.TimestampType, t.TimestampType, _timestamp_to_timestamp),
    (t.TimestampType, t.DateType, _timestamp_to_date),
    (t.TimestampType, t.TimeType, _timestamp_to_time),
    (t.TimeType, t.TimeType, _time_to_time),
    (t.TimeType, t.TimestampType, _time_to_timestamp),
    (t.ArrayType, t.ArrayType, _array),
    ((t.MapType, f.MultisetType), (t.MapType, f.MultisetType), _map),
    (t.RowType, t.RowType, _row),
)


def _cast(attempt: bool) -> Factory:
    def make(call: Any) -> Kernel:
        source, target = call.operands[0].type, call.type

        def kernel(setting: Setting, count: int, value: Value) -> Value:
            return convert(setting, value, source, target, attempt)

        return kernel

    return make


KERNELS: dict[str, Factory] = {"CAST": _cast(False), "TRY_CAST": _cast(True)}
