"""COUNT, SUM, AVG, and variances: sums by slot, which rows are added to and taken from."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.aggregates.accumulator import Accumulator, Settings, add_at, without_nulls
from millstream.table.runtime.arrays import array_of, fixed_dtype, values_of_fixed
from millstream.table.runtime.growing import Lane
from millstream.types.numpy_views import as_numpy

__all__ = ["Average", "Count", "DecimalLanes", "Sum", "Variance"]

_LOW = (1 << 32) - 1
_MOST = 10**38
_DIGITS = 80


class _Lanes(Accumulator):
    """What is kept in lanes of numbers that add up."""

    def __init__(self, settings: Settings, dtypes: Sequence[Any]) -> None:
        super().__init__(settings)
        self._own: list[Lane] = [Lane(dtype) for dtype in dtypes]
        self.partial_kinds = [pa.from_numpy_dtype(dtype) for dtype in dtypes]

    def reach(self, count: int) -> None:
        for lane in self._own:
            lane.reach(count)

    def clear(self, slots: Any) -> None:
        for lane in self._own:
            lane.array[slots] = 0

    def keep(self, slots: Any) -> None:
        for lane in self._own:
            lane.keep(slots)

    def partials(self, slots: Any) -> list[Any]:
        return [pa.array(lane.array[slots]) for lane in self._own]

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        for lane, column in zip(self._own, columns, strict=True):
            np.add.at(lane.array, slots, as_numpy(column))

    def entries(self, slots: Any) -> list[Any]:
        return list(zip(*(lane.array[slots].tolist() for lane in self._own), strict=True)) or [()] * len(
            slots
        )

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        for lane, values in zip(self._own, zip(*entries, strict=True), strict=True):
            lane.array[slots] = values


class Count(_Lanes):
    """COUNT(*), and COUNT of arguments of which none is NULL."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, [] if settings.every else [np.int64])
        self._counts = settings.rows if settings.every else self._own[0]

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        if self.settings.every:
            return
        slots, weights, _ = without_nulls(slots, weights, columns)
        add_at(self._counts.array, slots, 1 if weights is None else weights)

    def results(self, slots: Any) -> pa.Array:
        return pa.array(self._counts.array[slots]).cast(self.result)


class _Numbers(_Lanes):
    """A sum of integers or floats and the number of values."""

    def __init__(self, settings: Settings, more: int = 0) -> None:
        (kind,) = settings.arguments
        dtype = np.float64 if pa.types.is_floating(kind) or more else np.int64
        dtypes = [dtype] * (1 + more) + ([] if settings.every else [np.int64])
        super().__init__(settings, dtypes)
        self._sum = self._own[0]
        self._count = settings.rows if settings.every else self._own[-1]

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, (column,) = without_nulls(slots, weights, columns)
        values = self._values_of(column)
        for lane, powers in zip(self._own, self._powers(values), strict=False):
            np.add.at(lane.array, slots, powers if weights is None else powers * weights)
        if not self.settings.every:
            add_at(self._count.array, slots, 1 if weights is None else weights)

    def _values_of(self, column: pa.Array) -> Any:
        return values_of_fixed(column).astype(self._sum.array.dtype, copy=False)

    def _powers(self, values: Any) -> list[Any]:
        return [values]

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        super().add_partials(slots, columns)


_ZERO = ("$SUM0", "SUM0")
"""Sums that are 0 without values, not NULL."""


def _counted(kind: pa.DataType, values: Any, counts: Any | None) -> pa.Array:
    """Return results as a column, NULL where no value was."""
    dtype = fixed_dtype(kind)
    return array_of(kind, values.astype(dtype, copy=False), None if counts is None else counts > 0)


class Sum(_Numbers):
    """SUM of integers, which wraps around as Flink's, and of floats."""

    def results(self, slots: Any) -> pa.Array:
        counts = None if self.settings.call.function in _ZERO else self._count.array[slots]
        return _counted(self.result, self._sum.array[slots], counts)


class Average(_Numbers):
    """AVG of integers, which is cut towards zero, and of floats."""

    def results(self, slots: Any) -> pa.Array:
        sums, counts = self._sum.array[slots], self._count.array[slots]
        most = np.maximum(counts, 1)
        if sums.dtype.kind == "f":
            return _counted(self.result, sums / most, counts)
        whole = sums // most
        whole += (sums % most != 0) & (sums < 0)
        if pa.types.is_decimal(self.result):
            return _decimals_of(sums.tolist(), counts.tolist(), 0, self.result)
        return _counted(self.result, whole, counts)


class Variance(_Numbers):
    """VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP from the sums of values and of their squares, as Flink's."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, more=1)
        self._squares = self._own[1]
        function = settings.call.function
        self._is_sample = function in ("VAR_SAMP", "VARIANCE", "STDDEV_SAMP", "STDDEV")
        self._is_root = function.startswith("STDDEV")

    def _values_of(self, column: pa.Array) -> Any:
        if pa.types.is_decimal(column.type):
            return as_numpy(column.cast(pa.float64()))
        return super()._values_of(column)

    def _powers(self, values: Any) -> list[Any]:
        return [values, values * values]

    def results(self, slots: Any) -> pa.Array:
        counts = self._count.array[slots]
        sums = self._sum.array[slots]
        least = 1 if self._is_sample else 0
        with np.errstate(all="ignore"):
            spread = (self._squares.array[slots] - sums * sums / counts) / (counts - least)
            if self._is_root:
                spread = np.sqrt(np.maximum(spread, 0))
        there = counts > least
        if pa.types.is_decimal(self.result):
            return pa.array(np.where(there, spread, 0), mask=~there).cast(self.result)
        if pa.types.is_integer(self.result):
            spread = np.trunc(np.where(there, spread, 0))
        return array_of(self.result, spread.astype(fixed_dtype(self.result)), there)


class DecimalLanes(_Lanes):
    """SUM and AVG of decimals: numbers of 128 bits in three lanes, of which the carry is moved up."""

    def __init__(self, settings: Settings) -> None:
        dtypes = [np.int64, np.int64, np.int64] + ([] if settings.every else [np.int64])
        super().__init__(settings, dtypes)
        self._low, self._middle, self._high = self._own[:3]
        self._count = settings.rows if settings.every else self._own[3]
        self._is_average = settings.call.function == "AVG"
        self._scale = settings.arguments[0].scale

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, (column,) = without_nulls(slots, weights, columns)
        both = values_of_fixed(column).view(np.int64).reshape(-1, 2)
        low = both[:, 0].view(np.uint64) if both.flags.c_contiguous else both[:, 0].astype(np.uint64)
        parts = [
            (low & np.uint64(_LOW)).astype(np.int64),
            (low >> np.uint64(32)).astype(np.int64),
            both[:, 1],
        ]
        for lane, part in zip(self._own, parts, strict=False):
            np.add.at(lane.array, slots, part if weights is None else part * weights)
        self._carry(slots)
        if not self.settings.every:
            add_at(self._count.array, slots, 1 if weights is None else weights)

    def _carry(self, slots: Any) -> None:
        low, middle, high = self._low.array, self._middle.array, self._high.array
        at = low[slots]
        carried = middle[slots] + (at >> 32)
        higher = high[slots] + (carried >> 32)
        low[slots], middle[slots], high[slots] = at & _LOW, carried & _LOW, higher

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        super().add_partials(slots, columns)
        self._carry(slots)

    def results(self, slots: Any) -> pa.Array:
        counts = self._count.array[slots]
        if self._is_average:
            return _decimals_of(self._integers(slots), counts.tolist(), self._scale, self.result)
        low = (self._middle.array[slots].astype(np.uint64) << np.uint64(32)) | self._low.array[slots].astype(
            np.uint64
        )
        high = self._high.array[slots]
        fits = _fits(low, high)
        both = np.empty((len(low), 2), np.int64)
        both[:, 0], both[:, 1] = low.view(np.int64), high
        there = fits if self.settings.call.function in _ZERO else (counts > 0) & fits
        return array_of(self.result, both.reshape(-1).view("V16"), there)

    def _integers(self, slots: Any) -> list[int]:
        parts = (lane.array[slots].tolist() for lane in self._own[:3])
        return [(high << 64) + (middle << 32) + low for low, middle, high in zip(*parts, strict=True)]


def _fits(low: Any, high: Any) -> Any:
    """Return whether numbers of 128 bits have at most 38 digits."""
    top, rest = _MOST >> 64, np.uint64(_MOST & (1 << 64) - 1)
    bottom, least = (-_MOST) >> 64, np.uint64(-_MOST & (1 << 64) - 1)
    below = (high < top) | ((high == top) & (low < rest))
    return below & ((high > bottom) | ((high == bottom) & (low > least)))


def _decimals_of(sums: list[int], counts: list[int], scale: int, kind: pa.DataType) -> pa.Array:
    """Return means as decimals, rounded half up as Flink's; NULL where there is no value or no room."""
    unit = Decimal(1).scaleb(-kind.scale)
    means: list[Decimal | None] = []
    with localcontext(prec=_DIGITS):
        for total, count in zip(sums, counts, strict=True):
            if count <= 0:
                means.append(None)
                continue
            mean = (Decimal(total).scaleb(-scale) / count).quantize(unit, ROUND_HALF_UP)
            means.append(mean if abs(mean.scaleb(kind.scale)) < 10**kind.precision else None)
    return pa.array(means, kind)
