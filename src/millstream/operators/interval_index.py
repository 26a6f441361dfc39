"""Where an interval join looks for pairs: records of one side, by key, around the times at which the other side looks.

Each side goes through time, and looks at the same span beside it. The index holds the buckets of that span, put
together: one list for each key. It goes along with the looks::

    buckets      [  0 ][  1 ][  2 ][  3 ][  4 ][  5 ]
    index                    first           stop        takes in bucket 5, lets go of bucket 2

What is behind leaves a key's list when the key gets a record, and the keys that get none leave in a sweep now and
then. Where looks go back, as those of two channels that are not at the same time do, the index begins anew, and holds
as much more, until it has gone on for a while.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from operator import itemgetter
from typing import Any, Protocol

__all__ = ["Cell", "Cells", "Entries", "Index", "put_in_order", "within"]

Cell = list[tuple[int, Any]]
"""Records of one key with their times, by time, then by arrival."""

Cells = dict[Any, Cell]
"""Those of several keys."""

Entries = Iterable[tuple[Any, tuple[int, Any]]]
"""Keys, and records with their times."""

_SHORT = 16
"""Records of a cell that are looked at one by one."""

_ROUNDS = 8
"""So often an index goes on by its own length before it is swept, unless its keys become twice as many."""

_FEW = 1_000
"""So many keys more are not worth a sweep."""

_NOTHING: Cell = []
"""What a key has that is not there; never added to."""

_time_of = itemgetter(0)


class Indexed(Protocol):
    """A bucket, as an index reads it."""

    def entries(self) -> Entries:
        """Return all records; they count as read then."""

    def fresh(self) -> Entries:
        """Return the records that came since some were read last."""


class Index:
    """The records of one side in some neighbouring buckets.

    Args:
        width_ms: Length of a bucket.
        buckets: All of the side, by number.
    """

    def __init__(self, width_ms: int, buckets: Mapping[int, Indexed]) -> None:
        self._width_ms = width_ms
        self._buckets = buckets
        self._cells: Cells = {}
        self._longest = 1
        self._first = self._stop = 0  # numbers of the buckets that are in it
        self._swept = 0  # the first one when it was swept last
        self._live = 0  # how many keys there were then
        self._spare = 0  # how many buckets before those that are looked at it holds

    def cover(self, first: int, last: int) -> bool:
        """Hold all there is in some buckets, and let go of those before them; return whether there is any."""
        steps = self._steps(first, last)
        if not steps:
            return False
        first, last = steps[0], steps[-1]
        if first < self._first and self._cells:
            self._spare = max(2 * self._spare, self._first - first)
            self._begin(first, max(last, self._stop - 1))
        elif first < self._first or first - self._spare > self._stop:
            self._begin(first, last)
        else:
            self.let_go(first - self._spare)
            for step in steps:
                if step < self._stop:
                    self._put(self._buckets[step].fresh())
            self._go_on(last)
        return True

    def _steps(self, first: int, last: int) -> list[int]:
        """Return the numbers of the buckets that are there among some."""
        buckets = self._buckets
        if last - first < len(buckets):
            return [step for step in range(first, last + 1) if step in buckets]
        return sorted(step for step in buckets if first <= step <= last)

    def _begin(self, first: int, last: int) -> None:
        self._cells, self._longest = {}, 1
        self._first = self._stop = self._swept = first
        self._go_on(last)

    def _go_on(self, last: int) -> None:
        """Take in the buckets up to one."""
        for step in self._steps(self._stop, last):
            self._put(self._buckets[step].entries())
        self._stop = max(self._stop, last + 1)

    def keep_up(self, step: int) -> None:
        """Take in what is new in a bucket, if it is in the index: it is about to be put in order, and read then."""
        if self._first <= step < self._stop:
            self._put(self._buckets[step].fresh())

    def _put(self, entries: Entries) -> None:
        self._longest = max(self._longest, put_in_order(self._cells, entries, self._first * self._width_ms))

    def let_go(self, first: int) -> None:
        """Let go of all buckets before one."""
        if first <= self._first:
            return
        self._first = first
        if first >= self._stop:
            self._cells = {}
            self._longest = 1
            self._stop = self._swept = first
        elif first - self._swept >= self._stop - first:
            rounds = (first - self._swept) // (self._stop - first)
            if rounds >= _ROUNDS or len(self._cells) > 2 * self._live + _FEW:
                self._sweep()

    def _sweep(self) -> None:
        first_ms = self._first * self._width_ms
        self._cells = {key: cell for key, cell in self._cells.items() if cell[-1][0] >= first_ms}
        self._longest = max(map(len, self._cells.values()), default=1)
        self._live = len(self._cells)
        self._swept = self._first
        self._spare //= 2

    def candidates(self, keys: list[Any], stamps: list[int], from_ms: int, to_ms: int) -> Iterable[Cell]:
        """Return for each of some records what may match it: all its matches in order of time, and perhaps others.

        Args:
            keys: Of the records.
            stamps: Their times.
            from_ms: Least difference to a record's time.
            to_ms: Greatest difference.
        """
        found = map(self._cells.get, keys, repeat(_NOTHING))
        return found if self._longest <= _SHORT else _narrowed(found, stamps, from_ms, to_ms)


def _narrowed(found: Iterable[Cell], stamps: list[int], from_ms: int, to_ms: int) -> Iterator[Cell]:
    for cell, stamp in zip(found, stamps, strict=True):
        yield cell if len(cell) <= _SHORT else within(cell, stamp + from_ms, stamp + to_ms)


def put_in_order(cells: Cells, entries: Entries, first_ms: int) -> int:
    """Add records to the cells of their keys.

    Args:
        cells: Added to.
        entries: Records in order of their arrival.
        first_ms: What is before this time leaves the cells that are added to.

    Returns:
        The length of the longest of them.
    """
    cell_of, longest = cells.get, 1
    for key, record in entries:
        cell = cell_of(key)
        if cell is None:
            cells[key] = [record]
            continue
        if cell[-1][0] <= record[0]:
            cell.append(record)
        else:
            insort_right(cell, record, key=_time_of)
        if cell[0][0] < first_ms:
            behind = 1
            while cell[behind][0] < first_ms:
                behind += 1
            del cell[:behind]
        if len(cell) > longest:
            longest = len(cell)
    return longest


def within(cell: Cell, first_ms: int, last_ms: int) -> Cell:
    """Return the records of a cell between two times, both inclusive.

    >>> within([(1, "a"), (3, "b"), (3, "c"), (8, "d")], 2, 3)
    [(3, 'b'), (3, 'c')]
    """
    start = bisect_left(cell, first_ms, key=_time_of)
    return cell[start : bisect_right(cell, last_ms, start, key=_time_of)]
