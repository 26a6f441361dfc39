"""MIN, MAX, and the first and the last value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.runtime.aggregates.accumulator import Accumulator, Settings, without_nulls
from millstream.table.runtime.aggregates.pairs import PairTable
from millstream.table.runtime.aggregates.slot_column import SlotRows
from millstream.table.runtime.arrays import array_of, fixed_dtype, values_of_fixed
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.sorting import first_places, last_places, stable_argsort
from millstream.types.numpy_views import as_numpy

__all__ = ["Edge", "Extreme", "NumberExtreme", "RetractingExtreme", "best_rows", "is_ordered_number"]


def is_ordered_number(kind: pa.DataType) -> bool:
    """Return whether numpy orders values of a type as SQL does."""
    dtype = fixed_dtype(kind)
    return dtype is not None and dtype.kind in "iuf"


def ordered_numbers(column: pa.Array) -> Any:
    """Return numbers in the order of a column's values, which are not NULL."""
    if is_ordered_number(column.type):
        return values_of_fixed(column)
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks).astype(np.int64)


def best_rows(slots: Any, column: pa.Array, *, is_min: bool) -> Any:
    """Return for each slot the first of its rows with the least or greatest value; ascending by slot.

    Floats: NaN is the greatest of all.
    """
    values = ordered_numbers(column)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.inf, values)
    order = stable_argsort(slots)
    ordered, values = slots[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    best = (np.minimum if is_min else np.maximum).reduceat(values, starts)
    hits = np.flatnonzero(values == np.repeat(best, np.diff(np.append(starts, len(ordered)))))
    first = np.concatenate([[True], ordered[hits][1:] != ordered[hits][:-1]])
    return order[hits[first]]


class NumberExtreme(Accumulator):
    """MIN and MAX of numbers and times that are never taken back."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        (self._kind,) = settings.arguments
        self._is_min = settings.call.function == "MIN"
        dtype = fixed_dtype(self._kind)
        assert dtype is not None
        if dtype.kind == "f":
            worst: Any = np.inf if self._is_min else -np.inf
        else:
            worst = np.iinfo(dtype).max if self._is_min else np.iinfo(dtype).min
        self._worst = worst
        self._best = Lane(dtype, worst)
        self._there = None if settings.every else Lane(bool, fill=False)
        self.partial_kinds = [self._kind]

    def reach(self, count: int) -> None:
        self._best.reach(count)
        if self._there is not None:
            self._there.reach(count)

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, (column,) = without_nulls(slots, weights, columns)
        values = values_of_fixed(column)
        with np.errstate(invalid="ignore"):
            (np.minimum if self._is_min else np.maximum).at(self._best.array, slots, values)
        if self._there is not None:
            self._there.array[slots] = True

    def results(self, slots: Any) -> pa.Array:
        there = self.settings.rows.array[slots] > 0 if self._there is None else self._there.array[slots]
        return array_of(self._kind, self._best.array[slots], there).cast(self.result)

    def clear(self, slots: Any) -> None:
        self._best.array[slots] = self._worst
        if self._there is not None:
            self._there.array[slots] = False

    def keep(self, slots: Any) -> None:
        self._best.keep(slots)
        if self._there is not None:
            self._there.keep(slots)

    def partials(self, slots: Any) -> list[Any]:
        there = None if self._there is None else self._there.array[slots]
        return [array_of(self._kind, self._best.array[slots], there)]

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        self.add(slots, None, columns)

    def entries(self, slots: Any) -> list[Any]:
        values = self._best.array[slots].tolist()
        if self._there is None:
            return list(values)
        return [
            value if there else None
            for value, there in zip(values, self._there.array[slots].tolist(), strict=True)
        ]

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        self._best.array[slots] = [self._worst if entry is None else entry for entry in entries]
        if self._there is not None:
            self._there.array[slots] = [entry is not None for entry in entries]


class _OneValue(Accumulator):
    """What is kept is one value."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        (self._kind,) = settings.arguments
        self._value = SlotRows([self._kind])
        self.partial_kinds = [self._kind]

    def reach(self, count: int) -> None:
        self._value.reach(count)

    def results(self, slots: Any) -> pa.Array:
        return self._value.take(slots)[0].cast(self.result)

    def clear(self, slots: Any) -> None:
        self._value.clear(slots)

    def keep(self, slots: Any) -> None:
        self._value.keep(slots)

    def partials(self, slots: Any) -> list[Any]:
        return self._value.take(slots)

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        self.add(slots, None, columns)

    def entries(self, slots: Any) -> list[Any]:
        return self._value.entries(slots)

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        self._value.restore(slots, entries)


class Extreme(_OneValue):
    """MIN and MAX of all else that is never taken back."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._is_min = settings.call.function == "MIN"

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, (column,) = without_nulls(slots, weights, columns)
        if not len(slots):
            return
        rows = best_rows(slots, column, is_min=self._is_min)
        slots, column = slots[rows], column.take(pa.array(rows))
        held = self._value.take(slots)[0]
        better = pc.less(column, held) if self._is_min else pc.greater(column, held)
        better = as_numpy(pc.fill_null(better, fill_value=True))
        self._value.set(slots[better], [column.filter(pa.array(better))])


class Edge(_OneValue):
    """FIRST_VALUE and LAST_VALUE that are never taken back; NULL is passed over."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._is_first = settings.call.function == "FIRST_VALUE"

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, columns = without_nulls(slots, weights, columns)
        if not len(slots):
            return
        if self._is_first:
            rows = first_places(slots)[1]
            rows = rows[~self._value.has(slots[rows])]
        else:
            rows = last_places(slots)[1]
        if len(rows):
            self._value.set(slots[rows], [columns[0].take(pa.array(rows))])


class RetractingExtreme(Accumulator):
    """MIN and MAX whose values are taken back.

    How often each value is there is kept; all values of a slot are looked at again only when its best one went.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        (self._kind,) = settings.arguments
        self._is_min = settings.call.function == "MIN"
        self._pairs = PairTable([self._kind])
        self._best = Lane(np.int64, -1)
        self._slots = 0

    def reach(self, count: int) -> None:
        self._best.reach(count)
        self._slots = max(self._slots, count)

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, columns = without_nulls(slots, weights, columns)
        if not len(slots):
            return
        pairs, _, now = self._pairs.add(slots, weights, columns)
        of = self._pairs.slot_of.array[pairs]
        touched = np.unique(of)
        best = self._best.array[touched]
        lost = (best < 0) | (self._pairs.counts.array[best] <= 0)
        again = np.zeros(self._slots, bool)
        again[touched[lost]] = True
        # Of slots that still have their best one, it and what came; of the others whatever is there.
        came = (now > 0) & ~again[of]
        who, found = self._pairs.of_slots(touched[lost])
        slot_of = np.concatenate([touched[~lost], of[came], touched[lost][who]])
        candidates = np.concatenate([best[~lost], pairs[came], found])
        self._best.array[touched] = -1
        if len(candidates):
            (values,) = self._pairs.values(candidates)
            rows = best_rows(slot_of, values, is_min=self._is_min)
            self._best.array[slot_of[rows]] = candidates[rows]
        if self._pairs.is_wasteful:
            self.keep(np.arange(self._slots))

    def results(self, slots: Any) -> pa.Array:
        best = self._best.array[slots]
        there = best >= 0
        (values,) = self._pairs.values(best[there])
        places = np.where(there, np.cumsum(there) - 1, 0)
        return values.take(pa.array(places, mask=~there)).cast(self.result)

    def clear(self, slots: Any) -> None:
        self._pairs.clear(slots)
        self._best.array[slots] = -1

    def keep(self, slots: Any) -> None:
        self._pairs.keep(slots)
        self._best = Lane(np.int64, -1)
        self._slots = 0
        self.reach(len(slots))
        self._find(np.arange(len(slots)))

    def _find(self, slots: Any) -> None:
        """Find the best of all values of slots."""
        who, pairs = self._pairs.of_slots(slots)
        if len(pairs):
            rows = best_rows(who, self._pairs.values(pairs)[0], is_min=self._is_min)
            self._best.array[slots[who[rows]]] = pairs[rows]

    def partials(self, slots: Any) -> list[Any]:
        return [_objects(self._pairs.entries(slots))]

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        self.restore(slots, columns[0])

    def entries(self, slots: Any) -> list[Any]:
        return list(self._pairs.entries(slots))

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        self._pairs.restore(slots, entries)
        self._find(np.unique(slots))


def _objects(values: Sequence[Any]) -> Any:
    """Return Python objects as an array of numpy's, which can be indexed as columns are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
