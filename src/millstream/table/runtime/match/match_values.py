"""Values of navigations: FIRST, LAST and aggregates of rows that a match has."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millstream.table.plan.matching import Navigation
from millstream.types import datatypes as t

__all__ = ["Row", "aggregate_of", "value_of"]

Row = tuple[Any, ...]
"""Time in milliseconds, then the columns that are kept, then the truth of conditions of the row alone."""

_BITS: dict[type[t.DataType], int] = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}
_EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


def value_of(navigation: Navigation, rows: Sequence[Row], place: int) -> Any:
    """Return the value of a navigation.

    Args:
        navigation: Which.
        rows: The rows that it is of, in order.
        place: Of its column in a row; of ROWTIME and COUNT(*) it does not matter.
    """
    function = navigation.function
    if function == "LAST":
        return rows[-1 - navigation.offset][place] if navigation.offset < len(rows) else None
    if function == "FIRST":
        return rows[navigation.offset][place] if navigation.offset < len(rows) else None
    if function == "ROWTIME":
        return rows[-1][0]
    if navigation.column is None:
        return len(rows)
    return aggregate_of(function, [row[place] for row in rows], navigation.type)


def aggregate_of(function: str, values: Sequence[Any], kind: t.DataType) -> Any:
    """Return an aggregate as Flink computes it: NULLs do not count, integers wrap around, averages of them are cut.

    Args:
        function: COUNT, SUM, AVG, MIN or MAX.
        values: Plain ones.
        kind: Type of the result.
    """
    there = [value for value in values if value is not None]
    if function == "COUNT":
        return len(there)
    return _FUNCTIONS[function](there, kind) if there else None


def wrapped(value: int, kind: t.DataType) -> int:
    """Return an integer as one of a type's width holds it."""
    bits = _BITS[type(kind)]
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _sum(values: list[Any], kind: t.DataType) -> Any:
    if type(kind) in _BITS:
        return wrapped(sum(values), kind)
    if isinstance(kind, t.DecimalType):
        return _fitting(_decimal_sum(values), kind)
    if isinstance(kind, t.FloatType):
        total = np.float32(0)
        for value in values:
            total += np.float32(value)
        return float(total)
    return float(_in_order(values))


def _in_order(values: list[float]) -> float:
    total = 0.0
    for value in values:  # as rows came, as a running sum has it: sum() would be more exact
        total += value
    return total


def _average(values: list[Any], kind: t.DataType) -> Any:
    if type(kind) in _BITS:
        total = wrapped(sum(values), t.BigIntType())
        cut = abs(total) // len(values)
        return wrapped(cut if total >= 0 else -cut, kind)
    if isinstance(kind, t.DecimalType):
        return _fitting(_EXACT.divide(_decimal_sum(values), decimal.Decimal(len(values))), kind)
    average = _in_order(values) / len(values)
    return float(np.float32(average)) if isinstance(kind, t.FloatType) else average


def _decimal_sum(values: list[decimal.Decimal]) -> decimal.Decimal:
    total = decimal.Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def _fitting(value: decimal.Decimal, kind: t.DecimalType) -> decimal.Decimal | None:
    """Return a decimal rounded to a type's scale; None if it has too many digits."""
    rounded = value.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_EXACT)
    return rounded if len(rounded.as_tuple().digits) <= kind.precision else None


def _least(values: list[Any], kind: t.DataType) -> Any:
    return min(values)


def _greatest(values: list[Any], kind: t.DataType) -> Any:
    return max(values)


_FUNCTIONS: dict[str, Callable[[list[Any], Any], Any]] = {
    "AVG": _average,
    "MAX": _greatest,
    "MIN": _least,
    "SUM": _sum,
}
