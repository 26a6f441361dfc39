"""Kernels of functions of numbers."""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.decimals import rescale
from millstream.table.functions.kernels.strings import python_function
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    as_array,
    is_constant,
    per_row,
)
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types.java_text import float_text
from millstream.types.numpy_views import as_numpy

__all__ = ["KERNELS", "JavaRandom", "round_number"]

_CONTEXT = decimal.Context(prec=400)
_TEXT = pa.string()


def _unary(function: Callable[[Value], Value]) -> Factory:
    def make(call: Any) -> Kernel:
        return lambda setting, count, value: function(value)

    return make


def _numpy(function: Callable[..., Any]) -> Factory:
    """Return the factory of a kernel of doubles that numpy computes."""

    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, *values: Value) -> Value:
            single = all(map(is_constant, values))
            columns = [as_array(each, 1 if single else count) for each in values]
            with np.errstate(all="ignore"):
                numbers = function(*[as_numpy(pc.fill_null(each, 0.0)) for each in columns])
            null = np.zeros(len(columns[0]), dtype=bool)
            for each in columns:
                if each.null_count:
                    null |= np.asarray(as_numpy(each.is_null()), dtype=bool)
            result = pa.array(np.asarray(numbers, dtype=np.float64), mask=null)
            return result[0] if single else result

        return kernel

    return make


# --- hyperbolic functions by the formulas of fdlibm, whose last digits Java's are

_LN2_HIGH, _LN2_LOW, _INVERSE_LN2 = (
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
    1.44269504088896338700,
)
_EXP = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)


def _exp(number: Any) -> Any:
    """Return e to a power from 0.35 to 22, reduced and approximated as in fdlibm."""
    whole = np.where(number < 1.5 * math.log(2), 1.0, np.floor(_INVERSE_LN2 * number + 0.5))
    high, low = number - whole * _LN2_HIGH, whole * _LN2_LOW
    rest = high - low
    square = rest * rest
    series = _EXP[4]
    for factor in reversed(_EXP[:4]):
        series = factor + square * series
    c = rest - square * series
    return np.ldexp(1.0 - ((low - (rest * c) / (2.0 - c)) - high), whole.astype(np.int32))


def _cosh(number: Any) -> Any:
    size = np.abs(number)
    small = np.expm1(np.minimum(size, 1.0))
    near = 1.0 + (small * small) / (2.0 * (1.0 + small))
    power = _exp(np.clip(size, 0.35, 22.0))
    middle = 0.5 * power + 0.5 / power
    return np.where(size < 0.5 * math.log(2), near, np.where(size < 22.0, middle, np.cosh(number)))


def _sinh(number: Any) -> Any:
    size, half = np.abs(number), np.copysign(0.5, number)
    part = np.expm1(np.minimum(size, 22.0))
    near = half * (2.0 * part - part * part / (part + 1.0))
    middle = half * (part + part / (part + 1.0))
    return np.where(size < 1.0, near, np.where(size < 22.0, middle, np.sinh(number)))


def _tanh(number: Any) -> Any:
    size = np.abs(number)
    large, small = np.expm1(2.0 * np.minimum(size, 22.0)), np.expm1(-2.0 * np.minimum(size, 1.0))
    result = np.where(size >= 1.0, 1.0 - 2.0 / (large + 2.0), -small / (small + 2.0))
    return np.where(np.isnan(number), number, np.copysign(np.where(size < 22.0, result, 1.0), number))


def _log(call: Any) -> Kernel:
    natural = _numpy(np.log)(call)
    based = _numpy(lambda base, number: np.log(number) / np.log(base))(call)
    return natural if len(call.operands) == 1 else based


def _whole(function: Callable[[Value], Value]) -> Factory:
    def make(call: Any) -> Kernel:
        kind = arrow_type(call.type)

        def kernel(setting: Setting, count: int, value: Value) -> Value:
            if pa.types.is_integer(value.type):
                return value
            if pa.types.is_decimal(value.type):
                scale, precision = value.type.scale, value.type.precision
                wide = pc.cast(value, pa.decimal256(min(precision + 1, 76), scale))
                return rescale(function(wide), kind)
            return function(value)

        return kernel

    return make


def _sign(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def kernel(setting: Setting, count: int, value: Value) -> Value:
        signs = pc.sign(value)
        if pa.types.is_decimal(kind):
            return rescale(pc.cast(pc.cast(signs, pa.int8(), safe=False), pa.decimal128(3, 0)), kind)
        return pc.cast(signs, kind)

    return kernel


def round_number(number: float, digits: int, mode: str, text: Callable[[float], str] = repr) -> float:
    """Round a number by its shortest decimal text, as Java's BigDecimal.valueOf has it."""
    if not math.isfinite(number):
        raise EvaluationError(f"number {number} cannot be rounded")
    exact = decimal.Decimal(text(number))
    return float(exact.quantize(decimal.Decimal(1).scaleb(-digits), rounding=mode, context=_CONTEXT))


def _rounding(mode: str, arrow_mode: str) -> Factory:
    def make(call: Any) -> Kernel:
        kind = arrow_type(call.type)
        text = float_text if isinstance(call.type, t.FloatType) else repr

        def by_row(number: Any, digits: int) -> Any:
            if isinstance(number, float):
                return round_number(number, digits, mode, text)
            if isinstance(number, int):
                rounded = decimal.Decimal(number).quantize(
                    decimal.Decimal(1).scaleb(-min(digits, 0)), rounding=mode, context=_CONTEXT
                )
                bits = kind.bit_width
                return (int(rounded) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
            rounded = number.quantize(decimal.Decimal(1).scaleb(-digits), rounding=mode, context=_CONTEXT)
            return rounded.quantize(decimal.Decimal(1).scaleb(-kind.scale), rounding=mode, context=_CONTEXT)

        def kernel(setting: Setting, count: int, value: Value, digits: Value) -> Value:
            places = digits.as_py() if is_constant(digits) else None
            if places is None:
                return per_row(by_row, kind, [value, digits], count)
            if pa.types.is_integer(kind) and places >= 0:
                return value
            if pa.types.is_decimal(kind):
                return _round_decimal(value, places, arrow_mode, kind)
            if pa.types.is_floating(kind) and not is_constant(value):
                return _round_doubles(value, places, mode, kind, by_row)
            return per_row(by_row, kind, [value, digits], count)

        return kernel

    return make


def _round_decimal(value: Value, places: int, mode: str, kind: pa.DataType) -> Value:
    if places >= value.type.scale:
        return rescale(value, kind)
    precision = value.type.precision
    wide = pc.cast(value, pa.decimal256(min(precision + 1, 76), value.type.scale))
    return rescale(pc.round(wide, ndigits=places, round_mode=mode), kind)


def _round_doubles(value: Value, places: int, mode: str, kind: pa.DataType, by_row: Any) -> Value:
    """Round many doubles: with numpy, except those near a tie or of sizes where it would err."""
    numbers = as_numpy(pc.fill_null(value, 0.0)).astype(np.float64)
    factor = 10.0 ** abs(places)
    with np.errstate(all="ignore"):
        scaled = np.abs(numbers) * factor if places >= 0 else np.abs(numbers) / factor
        floor = np.floor(scaled)
        rest = scaled - floor
        edge = np.abs(rest - 0.5) if mode == decimal.ROUND_HALF_UP else np.minimum(rest, 1 - rest)
        unsure = (edge < 1e-5) | ~np.isfinite(scaled) | (scaled > 1e9)
        up = (rest > 0.5) if mode == decimal.ROUND_HALF_UP else np.zeros(len(rest), dtype=bool)
        size = floor + up
        rounded = np.copysign(size / factor if places >= 0 else size * factor, numbers)
    for place in np.flatnonzero(unsure):
        rounded[place] = by_row(float(numbers[place]), places)
    mask = np.asarray(as_numpy(value.is_null()), dtype=bool)
    return pc.cast(pa.array(rounded, mask=mask), kind)


# --- random


class JavaRandom:
    """The generator of `java.util.Random`, for seeds that give the same numbers as in Flink."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _bits(self, bits: int) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._state >> (48 - bits)

    def double(self) -> float:
        """Return a number from 0 to below 1."""
        return float(((self._bits(26) << 27) + self._bits(27)) * 2.0**-53)

    def integer(self, bound: int) -> int:
        """Return an integer from 0 to below a bound."""
        drawn = self._bits(31)
        if bound & (bound - 1) == 0:
            return bound * drawn >> 31
        while drawn - drawn % bound + bound - 1 >= 1 << 31:
            drawn = self._bits(31)
        return drawn % bound


def _rand(call: Any) -> Kernel:
    known: dict[int, JavaRandom] = {}

    def kernel(setting: Setting, count: int, *seed: Value) -> Value:
        if not seed or not is_constant(seed[0]) or not seed[0].is_valid:
            return pa.array(setting.generator.random(count))
        source = known.setdefault(seed[0].as_py(), JavaRandom(seed[0].as_py()))
        return pa.array([source.double() for _ in range(count)], pa.float64())

    return kernel


def _rand_integer(call: Any) -> Kernel:
    known: dict[int, JavaRandom] = {}

    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        bounds = as_array(values[-1], count).to_pylist()
        if len(values) == 2 and is_constant(values[0]) and values[0].is_valid:
            source = known.setdefault(values[0].as_py(), JavaRandom(values[0].as_py()))
            return pa.array([None if each is None else source.integer(each) for each in bounds], pa.int32())
        drawn = setting.generator.random(count)
        return pa.array(
            [None if each is None else int(part * each) for part, each in zip(drawn, bounds, strict=True)],
            pa.int32(),
        )

    return kernel


def _uuid(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int) -> Value:
        data = setting.generator.bytes(16 * count)
        return pa.array(
            [str(uuid.UUID(bytes=data[16 * at : 16 * at + 16], version=4)) for at in range(count)], _TEXT
        )

    return kernel


def _constant(number: float) -> Factory:
    scalar = pa.scalar(number, pa.float64())
    return lambda call: lambda setting, count: scalar


def _hex(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex().upper()
    return f"{value & (1 << 64) - 1:X}"


def _unhex(text: str) -> bytes | None:
    """An odd number of digits has a zero byte first: what Flink makes of the single digit."""
    head = b""
    if len(text) % 2:
        if text[0] not in "0123456789abcdefABCDEF":
            return None
        head, text = b"\0", text[1:]
    try:
        return head + (bytes.fromhex(text) if text.isalnum() or not text else bytes.fromhex("zz"))
    except ValueError:
        return None


def _binary(number: int) -> str:
    return f"{number & (1 << 64) - 1:b}"


KERNELS: dict[str, Factory] = {
    "POWER": _numpy(np.power),
    "ABS": _unary(pc.abs),
    "SQRT": _unary(pc.sqrt),
    "LN": _unary(pc.ln),
    "LOG10": _unary(pc.log10),
    "LOG2": _numpy(lambda number: np.log(number) / np.log(2.0)),
    "LOG": _log,
    "EXP": _numpy(np.exp),
    "SIN": _unary(pc.sin),
    "SINH": _numpy(_sinh),
    "COS": _unary(pc.cos),
    "COSH": _numpy(_cosh),
    "TAN": _unary(pc.tan),
    "TANH": _numpy(_tanh),
    "COT": _numpy(lambda number: 1.0 / np.tan(number)),
    "ASIN": _unary(pc.asin),
    "ACOS": _unary(pc.acos),
    "ATAN": _unary(pc.atan),
    "ATAN2": lambda call: lambda setting, count, y, x: pc.atan2(y, x),
    "DEGREES": _numpy(lambda number: number * (180.0 / math.pi)),
    "RADIANS": _numpy(lambda number: number * (math.pi / 180.0)),
    "CEIL": _whole(pc.ceil),
    "FLOOR": _whole(pc.floor),
    "SIGN": _sign,
    "ROUND": _rounding(decimal.ROUND_HALF_UP, "half_towards_infinity"),
    "TRUNCATE": _rounding(decimal.ROUND_DOWN, "towards_zero"),
    "PI": _constant(math.pi),
    "E": _constant(math.e),
    "RAND": _rand,
    "RAND_INTEGER": _rand_integer,
    "UUID": _uuid,
    "BIN": python_function(_binary, _TEXT),
    "HEX": python_function(_hex, _TEXT),
    "UNHEX": python_function(_unhex, pa.binary()),
}
