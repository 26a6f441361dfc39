"""Window functions that go by the place of a row: ROW_NUMBER, RANK, LAG and the like."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import NotSupportedError
from millstream.table.expressions.rex import AggregateCall
from millstream.table.runtime.arrays import arrow_type, conform
from millstream.table.runtime.multimap import runs_of

__all__ = ["POSITIONAL", "Ordered", "positional"]

POSITIONAL = frozenset(
    {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"}
)

_WHOLE = frozenset({"PERCENT_RANK", "CUME_DIST", "NTILE", "LEAD"})


class Ordered:
    """Rows of partitions in order: those that are kept from before, and new ones.

    Args:
        columns: The rows.
        slots: The partition of each, ascending.
        numbers: What they are ordered by within a partition; equal ones are peers.
        is_new: Whether a row gets results.
        by_row: Whether rows are no peers, whatever their numbers are: by processing time.
    """

    def __init__(
        self, columns: list[pa.Array], slots: Any, numbers: Any, is_new: Any, *, by_row: bool
    ) -> None:
        self.columns, self.slots, self.numbers, self.is_new = columns, slots, numbers, is_new
        self.by_row = by_row

    @cached_property
    def partition_bounds(self) -> tuple[Any, Any]:
        """For each row the first row of its partition, and the one behind the last."""
        return _bounds(*runs_of(self.slots))

    @cached_property
    def peer_bounds(self) -> tuple[Any, Any]:
        """For each row the first of its peers, and the one behind the last."""
        fresh = np.concatenate(
            [[0], (self.slots[1:] != self.slots[:-1]) | (self.numbers[1:] != self.numbers[:-1])]
        )
        return _bounds(*runs_of(np.cumsum(fresh)))

    @cached_property
    def first_new(self) -> Any:
        """For each row the first new row of its partition."""
        starts, lengths = runs_of(self.slots)
        old = np.add.reduceat((~self.is_new).astype(np.int64), starts)
        return np.repeat(starts + old, lengths)

    def search(self, places: Any, values: Any, *, side: str) -> Any:
        """Return for rows where a number would be put in their partition."""
        first, last = self.partition_bounds
        low, high = first[places].copy(), last[places].copy()
        while True:
            open_ = low < high
            if not open_.any():
                return low
            middle = (low + high) // 2
            at = self.numbers[np.minimum(middle, len(self.numbers) - 1)]
            goes_right = open_ & ((at < values) if side == "left" else (at <= values))
            low = np.where(goes_right, middle + 1, low)
            high = np.where(open_ & ~goes_right, middle, high)

    def offset_of(self, call: AggregateCall) -> int:
        """Return how many rows a function looks back."""
        if call.function != "LAG":
            return 0
        return self._offset(call)

    def _offset(self, call: AggregateCall) -> int:
        if len(call.arguments) < 2 or not len(self.slots):
            return 1
        value = self.columns[call.arguments[1]][0].as_py()
        return 1 if value is None else int(value)

    def count_peers(self, dense: Any) -> None:
        """Add to what is kept of each partition how many different numbers its new rows have."""
        first, _ = self.peer_bounds
        heads = np.flatnonzero(self.is_new & (first == np.arange(len(first))))
        np.add.at(dense, self.slots[heads], 1)


def _bounds(starts: Any, lengths: Any) -> tuple[Any, Any]:
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)


def positional(call: AggregateCall, rows: Ordered, counts: Any, dense: Any, *, whole: bool) -> pa.Array:
    """Return a function's results for the new rows.

    Args:
        call: The function.
        rows: The rows.
        counts: How many rows each partition had before.
        dense: How many different order values each partition had before.
        whole: Whether all rows of the partitions are there: the input is bounded.

    Raises:
        NotSupportedError: If it needs rows that come later.
    """
    if call.function in _WHOLE and not whole:
        raise NotSupportedError(
            f"{call.function} needs all rows of a partition, and a stream's never are all there",
            hint="Run the query in batch mode.",
        )
    new = np.flatnonzero(rows.is_new)
    kind = arrow_type(call.type)
    if call.function in ("LAG", "LEAD"):
        return _neighbours(call, rows, new)
    first, last = (each[new] for each in rows.partition_bounds)
    if not whole:
        first = rows.first_new[new]
    before = 0 if whole else counts[rows.slots[new]]
    place = new - first
    peer_first, peer_last = (each[new] for each in rows.peer_bounds)
    if rows.by_row:
        peer_first = new
    total = last - first
    if call.function == "ROW_NUMBER":
        values: Any = before + place + 1
    elif call.function == "RANK":
        values = before + peer_first - first + 1
    elif call.function == "DENSE_RANK":
        values = _dense(rows, new, first) + (0 if whole else dense[rows.slots[new]])
    elif call.function == "PERCENT_RANK":
        values = (peer_first - first) / np.maximum(total - 1, 1)
    elif call.function == "CUME_DIST":
        values = (peer_last - first) / total
    else:
        values = _tiles(call, rows, place, total)
    return pa.array(values).cast(kind)


def _dense(rows: Ordered, new: Any, first: Any) -> Any:
    peer_first, _ = rows.peer_bounds
    heads = np.cumsum(peer_first == np.arange(len(peer_first)))
    return heads[new] - heads[first] + 1


def _tiles(call: AggregateCall, rows: Ordered, place: Any, total: Any) -> Any:
    tiles = int(rows.columns[call.arguments[0]][0].as_py())
    size, more = total // tiles, total % tiles
    in_longer = place < more * (size + 1)
    return (
        np.where(
            in_longer,
            place // np.maximum(size + 1, 1),
            more + (place - more * (size + 1)) // np.maximum(size, 1),
        )
        + 1
    )


def _neighbours(call: AggregateCall, rows: Ordered, new: Any) -> pa.Array:
    offset = rows._offset(call)
    at = new - offset if call.function == "LAG" else new + offset
    first, last = (each[new] for each in rows.partition_bounds)
    inside = (at >= first) & (at < last)
    kind = arrow_type(call.type)
    found = rows.columns[call.arguments[0]].take(pa.array(np.where(inside, at, 0), mask=~inside))
    found = conform(found, kind)
    if len(call.arguments) < 3:
        return found
    default = conform(rows.columns[call.arguments[2]].take(pa.array(new)), kind)
    both = pa.concat_arrays([found, default])
    return both.take(pa.array(np.where(inside, np.arange(len(new)), len(new) + np.arange(len(new)))))
