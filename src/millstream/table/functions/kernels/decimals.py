"""DECIMAL arithmetic with Flink's results: rounded half up, NULL where a result has too many digits."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.values import Factory, Kernel, Setting, Value, cast, per_row
from millstream.table.functions.types import arrow_type

__all__ = ["decimal_kernel", "fit", "rescale", "to_double"]

_WIDE = 76  # digits of Arrow's largest decimals
_CONTEXT = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)


def rescale(value: Value, kind: pa.DataType) -> Value:
    """Return decimals in another decimal type: rounded half up, NULL where they do not fit."""
    if value.type == kind:
        return value
    scale = value.type.scale
    if scale > kind.scale:
        rounded = _round(value, kind.scale)
        return _narrow(rounded, kind)
    if value.type.precision - scale <= kind.precision - kind.scale:
        return pc.cast(value, kind)  # wider in both parts
    return _narrow(value, kind)


def _round(value: Value, scale: int) -> Value:
    """Round half up; Arrow refuses a result that needs one digit more, so there is one."""
    kind = value.type
    if kind.precision < 38:
        value = pc.cast(value, pa.decimal128(kind.precision + 1, kind.scale))
    elif kind.precision < _WIDE:
        value = pc.cast(value, pa.decimal256(kind.precision + 1, kind.scale))
    return pc.round(value, ndigits=scale, round_mode="half_towards_infinity")


def _narrow(value: Value, kind: pa.DataType) -> Value:
    """Cast decimals that may be too large."""
    limit = decimal.Decimal(10) ** (kind.precision - kind.scale)
    whole = value.type.precision - value.type.scale
    if whole > kind.precision - kind.scale:
        bound = pa.scalar(limit, _bound_type(limit, value.type))
        fits = pc.less(pc.abs(value), bound)
        value = pc.if_else(fits, value, pa.scalar(None, value.type))
    return pc.cast(value, kind, safe=False)


def _bound_type(limit: decimal.Decimal, kind: pa.DataType) -> pa.DataType:
    digits = len(str(int(limit)))
    precision = min(max(kind.precision, digits + kind.scale), _WIDE)
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    return make(precision, kind.scale)


def fit(value: decimal.Decimal, kind: pa.DataType) -> decimal.Decimal | None:
    """Return a number rounded half up to a decimal type; None if it does not fit."""
    if not value.is_finite():
        return None
    rounded = value.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_CONTEXT)
    return rounded if not rounded or len(rounded.as_tuple().digits) <= kind.precision else None


def decimal_kernel(name: str) -> Factory:
    """Return the factory of an operator on decimals."""
    return _FACTORIES[name]


def _wide(value: Value) -> Value:
    kind = value.type
    return pc.cast(value, pa.decimal256(kind.precision, kind.scale))


def _plus(function: Any) -> Factory:
    def make(call: Any) -> Kernel:
        kind = arrow_type(call.type)

        def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
            a, b = left.type, right.type
            scale = max(a.scale, b.scale)
            if max(a.precision - a.scale, b.precision - b.scale) + scale + 1 > 38:
                left, right = _wide(left), _wide(right)
            return rescale(function(left, right), kind)

        return kernel

    return make


def _multiply(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
        digits = left.type.precision + right.type.precision + 1
        if digits > _WIDE:
            return per_row(lambda a, b: fit(_CONTEXT.multiply(a, b), kind), kind, [left, right], count)
        if digits > 38:
            left, right = _wide(left), _wide(right)
        return rescale(pc.multiply(left, right), kind)

    return kernel


def _divide(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def by_row(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal | None:
        if not b:
            raise EvaluationError("division by zero")
        quotient = decimal.Context(prec=38, rounding=decimal.ROUND_HALF_UP).divide(a, b)
        return fit(quotient, kind)

    def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
        a, b = left.type, right.type
        # Arrow's quotient has scale s1 + p2 - s2 + 1, cut off; one digit more than asked for rounds rightly
        scale = max(a.scale, kind.scale - b.precision + b.scale)
        precision = a.precision + scale - a.scale
        if precision + b.precision + 1 > _WIDE:
            return per_row(by_row, kind, [left, right], count)
        right = _checked_divisor(left, right)
        numerator = pc.cast(left, pa.decimal256(precision, scale))
        return rescale(pc.divide(numerator, pc.cast(right, pa.decimal256(b.precision, b.scale))), kind)

    return kernel


def _checked_divisor(left: Value, right: Value) -> Value:
    """Return a divisor that is NULL where the dividend is; refuse zero elsewhere."""
    zero = pc.equal(right, pa.scalar(decimal.Decimal(0), right.type))
    if isinstance(zero, pa.Scalar):
        found = bool(zero.as_py())
    else:
        found = bool(pc.any(zero).as_py())
    if not found:
        return right
    bad = pc.and_(pc.fill_null(zero, False), pc.is_valid(left))
    if bad.as_py() if isinstance(bad, pa.Scalar) else pc.any(bad).as_py():
        raise EvaluationError("division by zero", hint="Guard it: CASE WHEN divisor <> 0 THEN ... END.")
    return pc.if_else(zero, pa.scalar(None, right.type), right)


def _modulo(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def by_row(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal | None:
        if not b:
            raise EvaluationError("division by zero")
        return fit(_CONTEXT.remainder(a, b), kind)

    def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
        scale = max(left.type.scale, right.type.scale)
        if max(_digits(left.type, scale), _digits(right.type, scale)) > 18:
            return per_row(by_row, kind, [left, right], count)
        right = _checked_divisor(left, right)
        a, b = _unscaled(left, scale), _unscaled(right, scale)
        rest = pc.subtract(a, pc.multiply(pc.divide(a, b), b))
        unit = pa.scalar(decimal.Decimal(1).scaleb(-scale), pa.decimal128(scale + 1, scale))
        return rescale(pc.multiply(pc.cast(rest, pa.decimal128(19, 0)), unit), kind)

    return kernel


def to_double(value: Value) -> Value:
    """Return decimals as the nearest doubles; Arrow's own cast is off by a digit at times."""
    kind = value.type
    if kind.precision > 15 or kind.scale > 15:
        return pc.cast(pc.cast(value, pa.string()), pa.float64())
    return pc.divide(pc.cast(_unscaled(value, kind.scale), pa.float64()), float(10**kind.scale))


def _digits(kind: pa.DataType, scale: int) -> int:
    return int(kind.precision - kind.scale + scale)


def _unscaled(value: Value, scale: int) -> Value:
    """Return decimals of at most 18 digits as integers of units of their last digit."""
    digits = _digits(value.type, scale)
    shift = pa.scalar(decimal.Decimal(10) ** scale, pa.decimal128(scale + 1, 0))
    product = pc.multiply(pc.cast(value, pa.decimal128(min(digits, 18), scale)), shift)
    return cast(product, pa.int64())


_FACTORIES: dict[str, Factory] = {
    "+": _plus(pc.add),
    "-": _plus(pc.subtract),
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
}
