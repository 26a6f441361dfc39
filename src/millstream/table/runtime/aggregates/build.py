"""Which accumulator an aggregate function has."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from millstream.base.errors import NotSupportedError
from millstream.table.runtime.aggregates.accumulator import Accumulator, Settings
from millstream.table.runtime.aggregates.distinct import Distinct
from millstream.table.runtime.aggregates.extremes import (
    Edge,
    Extreme,
    NumberExtreme,
    RetractingExtreme,
    is_ordered_number,
)
from millstream.table.runtime.aggregates.sums import Average, Count, DecimalLanes, Sum, Variance

__all__ = ["build_accumulator"]

_NEED_NO_DISTINCT = ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE")


def build_accumulator(settings: Settings) -> Accumulator:
    """Return an accumulator without slots.

    Raises:
        NotSupportedError: If the function is not there.
    """
    call = settings.call
    make = _FUNCTIONS.get(call.function)
    if make is None:
        raise NotSupportedError(
            f"aggregate function {call.function} is not there yet",
            detail=f"There are {', '.join(sorted(_FUNCTIONS))}.",
        )
    if not call.distinct or call.function in _NEED_NO_DISTINCT:
        return make(settings)
    inner = Settings(call, settings.arguments, settings.result, settings.retracts, settings.rows, every=False)
    return Distinct(settings, make(inner))


def _sum(settings: Settings) -> Accumulator:
    return DecimalLanes(settings) if pa.types.is_decimal(settings.arguments[0]) else Sum(settings)


def _average(settings: Settings) -> Accumulator:
    return DecimalLanes(settings) if pa.types.is_decimal(settings.arguments[0]) else Average(settings)


def _extreme(settings: Settings) -> Accumulator:
    if settings.retracts:
        return RetractingExtreme(settings)
    return NumberExtreme(settings) if is_ordered_number(settings.arguments[0]) else Extreme(settings)


def _edge(settings: Settings) -> Accumulator:
    return Edge(settings)


_FUNCTIONS: dict[str, Callable[[Settings], Accumulator]] = {
    "COUNT": Count,
    "SUM": _sum,
    "$SUM0": _sum,
    "SUM0": _sum,
    "AVG": _average,
    "MIN": _extreme,
    "MAX": _extreme,
    "FIRST_VALUE": _edge,
    "LAST_VALUE": _edge,
    "SINGLE_VALUE": _edge,
    "VAR_POP": Variance,
    "VAR_SAMP": Variance,
    "VARIANCE": Variance,
    "STDDEV_POP": Variance,
    "STDDEV_SAMP": Variance,
    "STDDEV": Variance,
}
