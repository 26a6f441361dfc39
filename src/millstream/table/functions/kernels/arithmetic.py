"""Kernels of `+ - * / %` on numbers and intervals, and of times moved by intervals.

Integers wrap and floats follow IEEE, in Java and in Arrow alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.decimals import decimal_kernel
from millstream.table.functions.kernels.values import Factory, Kernel, Setting, Value, as_array, is_constant
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types import further_types as f
from millstream.types.numpy_views import as_numpy

__all__ = ["KERNELS", "add_months", "divide_integers"]

DAY_MS = 86_400_000


def _arithmetic(name: str, function: Callable[[Value, Value], Value]) -> Factory:
    def make(call: Any) -> Kernel:
        if isinstance(call.type, t.DecimalType):
            return decimal_kernel(name)(call)
        kind = arrow_type(call.type)

        def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
            result = function(left, right)
            return result if result.type == kind else pc.cast(result, kind, safe=False)

        return kernel

    return make


def divide_integers(left: Value, right: Value) -> Value:
    """Return quotients cut towards zero.

    Raises:
        EvaluationError: Where a divisor is zero.
    """
    if not pa.types.is_integer(left.type):
        return pc.divide(left, right)
    right = _divisor(left, right)
    if is_constant(right) and right.is_valid and right.as_py() > 0 and isinstance(left, pa.Array):
        return _by_positive(left, right.as_py())
    quotient = pc.divide(left, right)
    least = pc.equal(right, pa.scalar(-1, right.type))  # Arrow's quotient of the least number by -1 is wrong
    if is_constant(least):
        return pc.negate(left) if least.as_py() else quotient
    return pc.if_else(least, pc.negate(left), quotient) if pc.any(least).as_py() else quotient


def _by_positive(left: pa.Array, divisor: int) -> pa.Array:
    """Return quotients cut towards zero, by a number that is the same for all: numpy then divides by multiplying."""
    bits = left.type.bit_width
    values = (
        np.frombuffer(left.buffers()[1], f"i{bits // 8}", count=len(left), offset=left.offset * bits // 8)
        if len(left)
        else np.empty(0, f"i{bits // 8}")
    )
    by = values.dtype.type(divisor)
    quotients = values // by
    if len(values) and values.min() < 0:  # numpy rounds down
        quotients += (values < 0) & (quotients * by != values)
    valid = (
        pa.py_buffer(np.packbits(as_numpy(left.is_valid()), bitorder="little")) if left.null_count else None
    )
    return pa.Array.from_buffers(left.type, len(left), [valid, pa.py_buffer(quotients)])


def _divisor(left: Value, right: Value) -> Value:
    if is_constant(right):
        if right.is_valid and right.as_py() != 0:
            return right
    elif not pc.any(pc.equal(right, pa.scalar(0, right.type))).as_py():
        return right
    zero = pc.equal(right, pa.scalar(0, right.type))
    wrong = pc.and_(pc.fill_null(zero, False), pc.is_valid(left))
    if wrong.as_py() if is_constant(wrong) else pc.any(wrong).as_py():
        raise EvaluationError("division by zero", hint="Guard it: CASE WHEN divisor <> 0 THEN ... END.")
    return pc.if_else(zero, pa.scalar(None, right.type), right)


def _remainder(left: Value, right: Value) -> Value:
    right = _divisor(left, right)
    quotient = divide_integers(left, right)
    return pc.subtract(left, pc.multiply(quotient, right))


def _negate(call: Any) -> Kernel:
    return lambda setting, count, value: pc.negate(value)


# --- times and intervals


def _shift(sign: int) -> Factory:
    def make(call: Any) -> Kernel:
        months = isinstance(call.operands[1].type, f.YearMonthIntervalType)
        kind = call.type

        def kernel(setting: Setting, count: int, value: Value, interval: Value) -> Value:
            amount = interval if sign > 0 else pc.negate(interval)
            moved = add_months(value, amount, count) if months else _add_ms(value, amount)
            return moved if moved.type == arrow_type(kind) else pc.cast(moved, arrow_type(kind), safe=False)

        return kernel

    return make


def _add_ms(value: Value, amount_ms: Value) -> Value:
    kind = value.type
    if pa.types.is_date(kind):
        days = pc.add(pc.cast(pc.cast(value, pa.int32()), pa.int64()), _floor_divide(amount_ms, DAY_MS))
        return pc.cast(pc.cast(days, pa.int32(), safe=False), kind)
    if pa.types.is_time(kind):
        per_ms = {"ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        total = pc.add(pc.cast(pc.cast(value, whole), pa.int64()), pc.multiply(amount_ms, per_ms))
        day = DAY_MS * per_ms
        rest = pc.subtract(total, pc.multiply(_floor_divide(total, day), day))
        return pc.cast(pc.cast(rest, whole, safe=False), kind)
    return pc.add(value, pc.cast(amount_ms, pa.duration("ms")))


def _floor_divide(value: Value, divisor: int) -> Value:
    quotient = pc.divide(value, divisor)
    rest = pc.subtract(value, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, pc.cast(pc.less(rest, 0), pa.int64()))


_MONTH = np.dtype("datetime64[M]")


def add_months(value: Value, months: Value, count: int) -> Value:
    """Return days or timestamps some months later; the day of the month is at most the last one."""
    single = is_constant(value) and is_constant(months)
    rows = 1 if single else count
    column, amounts = as_array(value, rows), as_array(months, rows)
    valid = pc.and_(pc.is_valid(column), pc.is_valid(amounts))
    kind = column.type
    zone = getattr(kind, "tz", None)
    unit = "D" if pa.types.is_date(kind) else kind.unit
    plain = column if zone is None else pc.cast(column, pa.timestamp(kind.unit))
    stamps = pc.fill_null(pc.cast(pc.cast(plain, pa.int32() if unit == "D" else pa.int64()), pa.int64()), 0)
    times = as_numpy(stamps).view(f"datetime64[{unit}]")
    start = times.astype(_MONTH)
    days = times.astype("datetime64[D]")
    of_month = (days - start.astype("datetime64[D]")).astype(np.int64)
    rest = (times - days.astype(times.dtype)).astype(np.int64)
    goal = start + as_numpy(pc.fill_null(amounts, 0)).astype(np.int64)
    last = ((goal + 1).astype("datetime64[D]") - goal.astype("datetime64[D]")).astype(np.int64) - 1
    moved = goal.astype("datetime64[D]") + np.minimum(of_month, last)
    whole = moved.astype(times.dtype).view(np.int64) + rest
    mask = np.asarray(as_numpy(pc.invert(valid)), dtype=bool)
    if unit == "D":
        result = pc.cast(pa.array(whole.astype(np.int32), mask=mask), kind)
    else:
        result = pc.cast(pa.array(whole, mask=mask), pa.timestamp(kind.unit))
        result = result if zone is None else pc.cast(result, kind)
    return result[0] if single else result


def _scale_interval(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def kernel(setting: Setting, count: int, interval: Value, factor: Value) -> Value:
        return pc.cast(pc.multiply(pc.cast(interval, pa.int64()), factor), kind, safe=False)

    return kernel


KERNELS: dict[str, Factory] = {
    "+": _arithmetic("+", pc.add),
    "-": _arithmetic("-", pc.subtract),
    "*": _arithmetic("*", pc.multiply),
    "/": _arithmetic("/", divide_integers),
    "%": _arithmetic("%", _remainder),
    "NEGATE": _negate,
    "+ INTERVAL": _shift(1),
    "- INTERVAL": _shift(-1),
    "* INTERVAL": _scale_interval,
}
