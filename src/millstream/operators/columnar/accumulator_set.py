"""The accumulators of several aggregates, which share their slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.operators.columnar.accumulators import Accumulator, build_accumulator
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind

__all__ = ["AccumulatorSet", "KeptKinds"]

_LEAST_SLOTS = 64
_EDGES = (AggregateKind.FIRST, AggregateKind.LAST)
_SUMS = (AggregateKind.SUM, AggregateKind.MEAN)

KeptKinds = list[tuple[pa.DataType, ...]]
"""Types of what each accumulator keeps."""


class AccumulatorSet:
    """An accumulator for each aggregate.

    Args:
        aggregates: What is computed.
    """

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._accumulators: list[Accumulator] = [build_accumulator(each) for each in aggregates]
        self._capacity = 0

    @property
    def kinds(self) -> KeptKinds:
        """The types that were learnt from the columns so far."""
        return [accumulator.kinds for accumulator in self._accumulators]

    def learn(self, kinds: KeptKinds) -> None:
        """Take over types.

        Raises:
            TypeMismatchError: If they do not go with those that are known.
        """
        for accumulator, of_one in zip(self._accumulators, kinds, strict=True):
            if of_one:
                accumulator.learn(of_one)

    def reach(self, count: int) -> None:
        """Make room for so many slots."""
        if count > self._capacity:
            self._capacity = max(_LEAST_SLOTS, 2 * self._capacity, count)
            for accumulator in self._accumulators:
                accumulator.grow(self._capacity)

    def clear(self, slots: Any) -> None:
        """Have slots begin anew, with nothing."""
        for accumulator in self._accumulators:
            accumulator.clear(slots)

    def depends_on_order(self, columns: Sequence[pa.Array | None]) -> bool:
        """Return whether it matters in which order values of some columns are added to those that are there."""
        return any(
            each.aggregate.kind in _EDGES
            or (each.aggregate.kind in _SUMS and any(map(pa.types.is_floating, (column.type, *each.kinds))))
            for each, column in zip(self._accumulators, columns, strict=True)
            if column is not None
        )

    def add(self, slots: Any, columns: Sequence[pa.Array | None], *, combined: bool = False) -> None:
        """Add rows, in order.

        Args:
            slots: The slot of each row.
            columns: For each aggregate its column, or None; of combined rows what `partials` gave of it.
            combined: Whether a row stands for several records.

        Raises:
            TypeMismatchError: If a column is of a type that does not fit.
            NumberRangeError: If a sum leaves the range of its type.
        """
        if not combined:
            for accumulator, column in zip(self._accumulators, columns, strict=True):
                accumulator.add(slots, column)
            return
        first = 0
        for accumulator in self._accumulators:
            end = first + accumulator.partial_count
            accumulator.add_partials(slots, columns[first:end])
            first = end

    def partials(self, slots: Any) -> list[pa.Array]:
        """Return what stands for the records of slots, for `add`."""
        return [column for each in self._accumulators for column in each.partials(slots)]

    def merge(self, slots: Any, other: AccumulatorSet, taken: Any) -> None:
        """Add what others have in some slots, or these in others; see `Accumulator.merge`."""
        for mine, theirs in zip(self._accumulators, other._accumulators, strict=True):
            mine.merge(slots, theirs, taken)

    def results(self, slots: Any) -> list[pa.Array]:
        """Return a column of results for each aggregate."""
        return [accumulator.results(slots) for accumulator in self._accumulators]

    def entries(self, slots: Any) -> list[tuple[Any, ...]]:
        """Return what the slots have, as plain values: for each a tuple with one part for each aggregate."""
        return list(zip(*(accumulator.entries(slots) for accumulator in self._accumulators), strict=True))

    def restore(self, slots: Any, entries: Sequence[tuple[Any, ...]]) -> None:
        """Take over what `entries` gave, into slots that have nothing yet; `learn` was called before."""
        for place, accumulator in enumerate(self._accumulators):
            accumulator.restore(slots, [entry[place] for entry in entries])
