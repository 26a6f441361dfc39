"""What aggregates keep for each slot, and how a whole column is added to it.

A slot is a number that stands for a key. All methods take numpy arrays of slots, one for each row; none has a loop over
rows. Null is skipped by every aggregate but `first` and `last`; NaN is skipped by `min`, `max` and `quantile`.
Sums of floats are added in the order of the rows, so that they do not depend on how the input is cut into batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import NumberRangeError, TypeMismatchError
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.sketch import QuantileSketches
from millstream.operators.columnar.slot_values import SlotValues, Storage, plain, storage_of
from millstream.types.numpy_views import as_numpy

__all__ = ["Accumulator", "build_accumulator"]

_SAFE = 1 << 62
_DECIMAL_DIGITS, _MOST_DIGITS = 38, 76


class Accumulator(ABC):
    """Base of the accumulators.

    Args:
        aggregate: What is computed.
    """

    partial_count = 1
    """How many columns `partials` gives."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.field = aggregate.field or ""

    @abstractmethod
    def grow(self, capacity: int) -> None:
        """Make room for slots."""

    @abstractmethod
    def clear(self, slots: Any) -> None:
        """Have slots begin anew, with nothing."""

    @abstractmethod
    def add(self, slots: Any, column: pa.Array | None) -> None:
        """Add rows, in order.

        Args:
            slots: The slot of each row.
            column: The field of each row; None for aggregates without one.

        Raises:
            TypeMismatchError: If the column is of a type that cannot be aggregated so.
            NumberRangeError: If a sum leaves the range of its type.
        """

    @abstractmethod
    def merge(self, slots: Any, other: Any, taken: Any) -> None:
        """Add what another accumulator of the same aggregate has, or this one in other slots; it counts as later.

        Args:
            slots: Where it is added; none comes twice, unless the order in which values come does not matter.
            other: The other one, left as it is.
            taken: For each of `slots` the slot of the other.
        """

    @abstractmethod
    def results(self, slots: Any) -> pa.Array:
        """Return the result of each slot."""

    def partials(self, slots: Any) -> list[pa.Array]:
        """Return columns that stand for what slots have, for another accumulator; not of quantiles."""
        return [self.results(slots)]

    def add_partials(self, slots: Any, columns: Sequence[pa.Array]) -> None:
        """Add rows of `partials`, in order, each as if it were the records that it stands for."""
        self.add(slots, columns[0])

    @abstractmethod
    def entries(self, slots: Any) -> list[Any]:
        """Return plain values from which `restore` makes the same, one for each slot."""

    @abstractmethod
    def restore(self, slots: Any, entries: list[Any]) -> None:
        """Take over what `entries` gave, into slots that have nothing yet."""

    @property
    def kinds(self) -> tuple[pa.DataType, ...]:
        """The types of what is kept, for a snapshot."""
        return ()

    def learn(self, kinds: tuple[pa.DataType, ...]) -> None:
        """Take over the types of a snapshot."""


def build_accumulator(aggregate: Aggregate) -> Accumulator:
    """Return an accumulator without slots."""
    return _ACCUMULATORS[aggregate.kind](aggregate)


def _valid(slots: Any, column: pa.Array) -> tuple[Any, pa.Array]:
    """Return the rows whose value is not null."""
    column = plain(column)
    if not column.null_count:
        return slots, column
    valid = column.is_valid()
    return slots[as_numpy(valid)], column.filter(valid)


def _tally(counts: Any, slots: Any) -> None:
    if len(slots) * 8 < len(counts):
        np.add.at(counts, slots, 1)
    else:
        counts += np.bincount(slots, minlength=len(counts))


class _Count(Accumulator):
    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._counts = np.zeros(0, np.int64)

    def grow(self, capacity: int) -> None:
        self._counts = np.concatenate([self._counts, np.zeros(capacity - len(self._counts), np.int64)])

    def clear(self, slots: Any) -> None:
        self._counts[slots] = 0

    def add(self, slots: Any, column: pa.Array | None) -> None:
        _tally(self._counts, slots if column is None else _valid(slots, column)[0])

    def merge(self, slots: Any, other: _Count, taken: Any) -> None:
        np.add.at(self._counts, slots, other._counts[taken])

    def results(self, slots: Any) -> pa.Array:
        return pa.array(self._counts[slots])

    def add_partials(self, slots: Any, columns: Sequence[pa.Array]) -> None:
        np.add.at(self._counts, slots, as_numpy(columns[0]))

    def entries(self, slots: Any) -> list[Any]:
        counts: list[Any] = self._counts[slots].tolist()
        return counts

    def restore(self, slots: Any, entries: list[Any]) -> None:
        self._counts[slots] = entries


class _Sum(Accumulator):
    """Sums: integers in 64 bits, checked; floats; decimals as Python's."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._sums = SlotValues(self.field)
        self._largest = 0  # no sum of integers is beyond it

    def grow(self, capacity: int) -> None:
        self._sums.grow(capacity)

    def clear(self, slots: Any) -> None:
        self._sums.clear(slots)

    def add(self, slots: Any, column: pa.Array | None) -> None:
        slots, column = _valid(slots, column)
        if pa.types.is_null(column.type):
            return
        self._learn(_sum_type(self.aggregate, column.type))
        if not len(column):
            return
        values = self._sums.of(column)
        sums = self._sums
        if sums.storage is Storage.INTEGERS:
            self._check(slots, values)
        if sums.storage is Storage.OBJECTS:
            fresh = ~sums.present[slots]
            sums.numbers[slots[fresh]] = 0
        with localcontext(prec=_MOST_DIGITS):
            np.add.at(sums.numbers, slots, values)
        sums.present[slots] = True

    def _learn(self, kind: pa.DataType) -> None:
        """Take note of the type of what is added: sums of decimals have all digits there are, so scales may differ."""
        known = self._sums.kind
        if pa.types.is_decimal128(kind) and pa.types.is_decimal128(known):
            kind = self._sums.kind = pa.decimal128(_DECIMAL_DIGITS, max(known.scale, kind.scale))
        self._sums.learn(kind)

    def _check(self, slots: Any, values: Any) -> None:
        """Check that no sum leaves 64 bits; exactly only where the largest values together might."""
        bound = max(-int(values.min()), int(values.max()), 0) * len(values)
        if self._largest + bound < _SAFE:
            self._largest += bound
            return
        sums = dict(zip(slots.tolist(), self._sums.numbers[slots].tolist(), strict=True))
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            sums[slot] += value
            if not -(1 << 63) <= sums[slot] < 1 << 63:
                raise NumberRangeError(
                    f"{self.aggregate} is {sums[slot]}, more than 64 bits hold",
                    hint="Make the field a float or a decimal before.",
                )
        self._largest = max(abs(int(self._sums.numbers.min())), int(self._sums.numbers.max())) + bound

    def merge(self, slots: Any, other: _Sum, taken: Any) -> None:
        present = other._sums.present[taken]
        self._learn(other._sums.kind)
        if present.any():
            self.add(slots[present], other.results(taken[present]))

    def results(self, slots: Any) -> pa.Array:
        try:
            return self._sums.array(slots)
        except pa.ArrowInvalid as error:  # of decimals alone
            raise NumberRangeError(
                f"{self.aggregate} is more than {self._sums.kind} holds",
                detail=str(error),
                hint="Make the field a float before.",
            ) from error

    def entries(self, slots: Any) -> list[Any]:
        return self._sums.values(slots)

    def restore(self, slots: Any, entries: list[Any]) -> None:
        self._sums.restore(slots, entries)
        if self._sums.storage is Storage.INTEGERS:
            self._largest = max(self._largest, *(abs(entry) for entry in entries if entry is not None), 0)

    @property
    def kinds(self) -> tuple[pa.DataType, ...]:
        return (self._sums.kind,)

    def learn(self, kinds: tuple[pa.DataType, ...]) -> None:
        self._sums.learn(kinds[0])


def _sum_type(aggregate: Aggregate, kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_boolean(kind) or (types.is_integer(kind) and storage_of(kind) is Storage.INTEGERS):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal(kind):
        return (
            pa.decimal128(_DECIMAL_DIGITS, kind.scale)
            if kind.bit_width <= 128
            else pa.decimal256(_MOST_DIGITS, kind.scale)
        )
    raise TypeMismatchError(
        f"{aggregate} was asked of values of type {kind}",
        detail="Sums and means are of integers up to 64 bits with sign, floats, decimals and booleans.",
    )


class _Mean(Accumulator):
    """The sum and the number of values; of decimals the mean is a float too."""

    partial_count = 2

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._sum = _Sum(aggregate)
        self._count = _Count(aggregate)

    def grow(self, capacity: int) -> None:
        self._sum.grow(capacity)
        self._count.grow(capacity)

    def clear(self, slots: Any) -> None:
        self._sum.clear(slots)
        self._count.clear(slots)

    def add(self, slots: Any, column: pa.Array | None) -> None:
        slots, column = _valid(slots, column)
        self._sum.add(slots, column)
        self._count.add(slots, None)

    def merge(self, slots: Any, other: _Mean, taken: Any) -> None:
        self._sum.merge(slots, other._sum, taken)
        self._count.merge(slots, other._count, taken)

    def results(self, slots: Any) -> pa.Array:
        sums = self._sum.results(slots)
        if pa.types.is_null(sums.type):
            return sums.cast(pa.float64())
        return pc.divide(
            sums.cast(pa.float64(), safe=False), self._count.results(slots).cast(pa.float64(), safe=False)
        )

    def partials(self, slots: Any) -> list[pa.Array]:
        return [self._sum.results(slots), self._count.results(slots)]

    def add_partials(self, slots: Any, columns: Sequence[pa.Array]) -> None:
        self._sum.add(slots, columns[0])
        self._count.add_partials(slots, columns[1:])

    def entries(self, slots: Any) -> list[Any]:
        return list(zip(self._sum.entries(slots), self._count.entries(slots), strict=True))

    def restore(self, slots: Any, entries: list[Any]) -> None:
        self._sum.restore(slots, [total for total, _ in entries])
        self._count.restore(slots, [count for _, count in entries])

    @property
    def kinds(self) -> tuple[pa.DataType, ...]:
        return self._sum.kinds

    def learn(self, kinds: tuple[pa.DataType, ...]) -> None:
        self._sum.learn(kinds)


class _Extreme(Accumulator):
    """The least or the greatest value."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._is_min = aggregate.kind is AggregateKind.MIN
        self._best = SlotValues(self.field)

    def grow(self, capacity: int) -> None:
        self._best.grow(capacity)

    def clear(self, slots: Any) -> None:
        self._best.clear(slots)

    def add(self, slots: Any, column: pa.Array | None) -> None:
        slots, column = _valid(slots, column)
        if pa.types.is_nested(column.type):
            raise TypeMismatchError(
                f"{self.aggregate} was asked of values of type {column.type}",
                detail="Lists, structs and maps have no order.",
            )
        best = self._best
        best.learn(column.type)
        if best.storage is Storage.OBJECTS:
            rows = _extreme_rows(slots, column, is_min=self._is_min)
            slots, column = slots[rows], column.take(pa.array(rows))
        values = best.of(column)
        if best.storage is Storage.FLOATS and np.isnan(values).any():
            numbers = ~np.isnan(values)
            slots, values = slots[numbers], values[numbers]
        self._add_values(slots, values)

    def _add_values(self, slots: Any, values: Any) -> None:
        best = self._best
        fresh = ~best.present[slots]
        if fresh.any():
            best.numbers[slots[fresh]] = values[fresh]
            best.present[slots] = True
        if best.storage is Storage.OBJECTS:  # each slot comes once
            held = best.numbers[slots]
            better = values < held if self._is_min else values > held
            best.numbers[slots[better.astype(bool)]] = values[better.astype(bool)]
        else:
            (np.minimum if self._is_min else np.maximum).at(best.numbers, slots, values)

    def merge(self, slots: Any, other: _Extreme, taken: Any) -> None:
        present = other._best.present[taken]
        self._best.learn(other._best.kind)
        if present.any():
            self.add(slots[present], other._best.array(taken[present]))

    def results(self, slots: Any) -> pa.Array:
        return self._best.array(slots)

    def entries(self, slots: Any) -> list[Any]:
        return self._best.values(slots)

    def restore(self, slots: Any, entries: list[Any]) -> None:
        self._best.restore(slots, entries)

    @property
    def kinds(self) -> tuple[pa.DataType, ...]:
        return (self._best.kind,)

    def learn(self, kinds: tuple[pa.DataType, ...]) -> None:
        self._best.learn(kinds[0])


def _extreme_rows(slots: Any, column: pa.Array, *, is_min: bool) -> Any:
    """Return for each slot the row with its least or greatest value."""
    table = pa.table({"slot": slots, "value": column})
    order = "ascending" if is_min else "descending"
    rows = as_numpy(pc.sort_indices(table, [("slot", "ascending"), ("value", order)]))
    by_slot = slots[rows]
    first = np.ones(len(rows), bool)
    first[1:] = by_slot[1:] != by_slot[:-1]
    return rows[first]


class _Edge(Accumulator):
    """The first or the last value that came, null too."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._is_first = aggregate.kind is AggregateKind.FIRST
        self._values = SlotValues(self.field)
        self._seen = np.zeros(0, bool)

    def grow(self, capacity: int) -> None:
        self._values.grow(capacity)
        self._seen = np.concatenate([self._seen, np.zeros(capacity - len(self._seen), bool)])

    def clear(self, slots: Any) -> None:
        self._values.clear(slots)
        self._seen[slots] = False

    def add(self, slots: Any, column: pa.Array | None) -> None:
        assert column is not None, "an aggregate of a field without its column"
        column = plain(column)
        self._values.learn(column.type)
        rows = np.arange(len(slots))
        if self._is_first:
            rows = np.flatnonzero(~self._seen[slots])[::-1]
        rows = _last_of_each(slots[rows], rows, len(self._seen))
        if len(rows):
            self._set(slots[rows], column.take(pa.array(rows)))

    def _set(self, slots: Any, column: pa.Array) -> None:
        """Set the values of slots, of which none comes twice."""
        self._seen[slots] = True
        self._values.present[slots] = False
        slots, column = _valid(slots, column)
        if len(column):
            self._values.set(slots, column)

    def merge(self, slots: Any, other: _Edge, taken: Any) -> None:
        self._values.learn(other._values.kind)
        counts = other._seen[taken]
        if self._is_first:
            counts &= ~self._seen[slots]
        if counts.any():
            self._set(slots[counts], other._values.array(taken[counts]))

    def results(self, slots: Any) -> pa.Array:
        return self._values.array(slots)

    def entries(self, slots: Any) -> list[Any]:
        return self._values.values(slots)

    def restore(self, slots: Any, entries: list[Any]) -> None:
        self._seen[slots] = True
        self._values.restore(slots, entries)

    @property
    def kinds(self) -> tuple[pa.DataType, ...]:
        return (self._values.kind,)

    def learn(self, kinds: tuple[pa.DataType, ...]) -> None:
        self._values.learn(kinds[0])


def _last_of_each(slots: Any, rows: Any, capacity: int) -> Any:
    """Return of the rows of each slot the last one given."""
    last = np.empty(capacity, np.int64)
    last[slots] = rows
    return rows[last[slots] == rows]


class _Quantile(Accumulator):
    """A sketch; see `sketch.py`."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._sketches = QuantileSketches(aggregate.accuracy)

    def grow(self, capacity: int) -> None:
        self._sketches.grow(capacity)

    def clear(self, slots: Any) -> None:
        self._sketches.clear(slots.tolist())

    def add(self, slots: Any, column: pa.Array | None) -> None:
        slots, column = _valid(slots, column)
        kind = column.type
        if pa.types.is_null(kind):
            return
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise TypeMismatchError(
                f"{self.aggregate} was asked of values of type {kind}", detail="Quantiles are of numbers."
            )
        numbers = as_numpy(column.cast(pa.float64(), safe=False))
        if np.isnan(numbers).any():
            valid = ~np.isnan(numbers)
            slots, numbers = slots[valid], numbers[valid]
        self._sketches.add(slots, numbers)

    def merge(self, slots: Any, other: _Quantile, taken: Any) -> None:
        self._sketches.merge(slots, other._sketches, taken)

    def results(self, slots: Any) -> pa.Array:
        return pa.array(self._sketches.quantiles(slots.tolist(), self.aggregate.quantile), pa.float64())

    def entries(self, slots: Any) -> list[Any]:
        return self._sketches.entries(slots.tolist())

    def restore(self, slots: Any, entries: list[Any]) -> None:
        self._sketches.restore(slots.tolist(), entries)


_ACCUMULATORS: dict[AggregateKind, type[Accumulator]] = {
    AggregateKind.COUNT: _Count,
    AggregateKind.SUM: _Sum,
    AggregateKind.MEAN: _Mean,
    AggregateKind.MIN: _Extreme,
    AggregateKind.MAX: _Extreme,
    AggregateKind.FIRST: _Edge,
    AggregateKind.LAST: _Edge,
    AggregateKind.QUANTILE: _Quantile,
}
