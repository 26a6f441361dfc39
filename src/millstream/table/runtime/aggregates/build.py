"""Which accumulator an aggregate function has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from millstream.base.errors import NotSupportedError
from millstream.table.functions.aggregate_calls import UserAggregate
from millstream.table.runtime.aggregates.accumulator import Accumulator, Settings
from millstream.table.runtime.aggregates.distinct import Distinct
from millstream.table.runtime.aggregates.extremes import (
    Edge,
    Extreme,
    NumberExtreme,
    RetractingExtreme,
    is_ordered_number,
)
from millstream.table.runtime.aggregates.objects import ListAccumulator, UserAccumulator
from millstream.table.runtime.aggregates.sums import Average, Count, DecimalLanes, Sum, Variance

__all__ = ["build_accumulator"]

_LISTS = ("LISTAGG", "COLLECT", "ARRAY_AGG", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "PERCENTILE")
_NEED_NO_DISTINCT = ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE")


def build_accumulator(settings: Settings, user: UserAggregate | None = None) -> Accumulator:
    """Return an accumulator without slots.

    Args:
        settings: What it is made of.
        user: Computes a user's function; None of built-in ones.

    Raises:
        NotSupportedError: If the function is not there.
    """
    call = settings.call
    make = _FUNCTIONS.get(call.function)
    if user is not None:
        make = partial(UserAccumulator, function=user)
    if make is None:
        raise NotSupportedError(
            f"aggregate function {call.function} is not there yet",
            detail=f"There are {', '.join(sorted(_FUNCTIONS))}.",
        )
    if not call.distinct or call.function in _NEED_NO_DISTINCT:
        return make(settings)
    return Distinct(settings, make(replace(settings, every=False)))


def _sum(settings: Settings) -> Accumulator:
    return DecimalLanes(settings) if pa.types.is_decimal(settings.arguments[0]) else Sum(settings)


def _average(settings: Settings) -> Accumulator:
    return DecimalLanes(settings) if pa.types.is_decimal(settings.arguments[0]) else Average(settings)


def _extreme(settings: Settings) -> Accumulator:
    if settings.retracts:
        return RetractingExtreme(settings)
    return NumberExtreme(settings) if is_ordered_number(settings.arguments[0]) else Extreme(settings)


def _edge(settings: Settings) -> Accumulator:
    return ListAccumulator(settings) if settings.retracts or settings.call.order else Edge(settings)


def _distinct_count(settings: Settings) -> Accumulator:
    """Return what counts exactly: of what fits into memory nothing is gained by guessing."""
    return Distinct(settings, Count(replace(settings, every=False)))


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
    "SINGLE_VALUE": ListAccumulator,
    "VAR_POP": Variance,
    "VAR_SAMP": Variance,
    "VARIANCE": Variance,
    "STDDEV_POP": Variance,
    "STDDEV_SAMP": Variance,
    "STDDEV": Variance,
    "APPROX_COUNT_DISTINCT": _distinct_count,
    **dict.fromkeys(
        ("LISTAGG", "COLLECT", "ARRAY_AGG", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "PERCENTILE"), ListAccumulator
    ),
}
