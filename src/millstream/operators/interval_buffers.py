"""What an interval join waits with: the records of one side, by time in buckets.

A bucket holds the records of a span of time. Those that match a record are in the few buckets around it, and a bucket
goes as a whole when the watermark has passed all that could match::

    buckets     [ 0 .. 9 ][ 10 .. 19 ][ 20 .. 29 ]
    matches of 23, bounds -10 and 0:
                      13 -----------23

The first bucket may hold records that have no match any more; they are passed over. Records that come at or before the
time at which they would go, with the watermark or with a clock that was set back, wait in a bucket of their own, the
edge, until time goes on.

Records join a bucket as columns. The buckets at which the other side looks are read into an index by key
(`interval_index`): nobody ever looks for most records of a side that is behind the other, and their batches cost next
to nothing. A checkpoint has each bucket put in order by key, for good.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.interval_index import Cell, Cells, Entries, Index, put_in_order, within
from millstream.operators.windowing.in_order import is_ascending

__all__ = ["Bucket", "Buffer", "Extent", "Run", "bucket_width", "extent_of", "runs_of"]

SHORTEST_MS = 100
"""No bucket is shorter: each has a price, and records of many buckets would be looked for one by one."""

Columns = tuple[list[Any], list[int], list[Any]]
"""Keys, times and records."""


class Extent(NamedTuple):
    """The times of a batch.

    Attributes:
        lowest_ms: The lowest one.
        highest_ms: The highest one.
        is_ascending: Whether none is below the one before it.
    """

    lowest_ms: int
    highest_ms: int
    is_ascending: bool


def extent_of(stamps: list[int]) -> Extent:
    """Return what the times of a batch are, at least one.

    >>> extent_of([3, 12, 14]), extent_of([3, 14, 12])
    (Extent(lowest_ms=3, highest_ms=14, is_ascending=True), Extent(lowest_ms=3, highest_ms=14, is_ascending=False))
    """
    if is_ascending(stamps):
        return Extent(stamps[0], stamps[-1], True)
    return Extent(min(stamps), max(stamps), False)


class Run(NamedTuple):
    """Neighbours in a batch that belong to one bucket.

    Attributes:
        step: Number of the bucket.
        start: The first one.
        stop: Behind the last one.
        lowest_ms: The lowest of their timestamps.
    """

    step: int
    start: int
    stop: int
    lowest_ms: int


def bucket_width(span_ms: int) -> int:
    """Return how long the buckets are of a join whose bounds are so far apart.

    Half as long: a record has matches in up to three buckets then, and waits for a fraction longer than it has to.
    """
    return max(span_ms // 2, SHORTEST_MS)


def runs_of(stamps: list[int], extent: Extent, width_ms: int) -> list[Run] | None:
    """Return the runs of a batch in order; None if its records are out of order, and of several buckets.

    >>> [tuple(run) for run in runs_of([3, 12, 14, 31], Extent(3, 31, True), 10)]
    [(0, 0, 1, 3), (1, 1, 3, 12), (3, 3, 4, 31)]
    >>> runs_of([14, 12], Extent(12, 14, False), 10), runs_of([14, 8], Extent(8, 14, False), 10)
    ([Run(step=1, start=0, stop=2, lowest_ms=12)], None)
    """
    step = extent.lowest_ms // width_ms
    if extent.highest_ms // width_ms == step:
        return [Run(step, 0, len(stamps), extent.lowest_ms)]
    if not extent.is_ascending:
        return None
    runs, start = [], 0
    while start < len(stamps):
        step = stamps[start] // width_ms
        stop = bisect_left(stamps, (step + 1) * width_ms, start)
        runs.append(Run(step, start, stop, stamps[start]))
        start = stop
    return runs


class Bucket:
    """Records of one span of time: those that a checkpoint has asked for by key, and those that came since.

    Their keys, times and values wait in columns until then.
    """

    __slots__ = ("_cells", "_keys", "_read", "_stamps", "_values")

    def __init__(self) -> None:
        self._cells: Cells = {}
        self._keys: list[Any] = []
        self._stamps: list[int] = []
        self._values: list[Any] = []
        self._read = 0  # how many of those that wait the index has

    def __len__(self) -> int:
        """Return how many keys it holds, at most."""
        return len(self._cells) + len(self._keys)

    def add(self, keys: list[Any], stamps: list[int], values: list[Any]) -> None:
        """Add records in order of their arrival; the lists are the bucket's then."""
        if self._keys:
            self._keys += keys
            self._stamps += stamps
            self._values += values
        else:
            self._keys, self._stamps, self._values = keys, stamps, values

    def entries(self) -> Entries:
        """Return all records; they count as read then."""
        self._read = len(self._keys)
        waiting = self._waiting(0)
        if not self._cells:
            return waiting
        return chain(((key, record) for key, cell in self._cells.items() for record in cell), waiting)

    def fresh(self) -> Entries:
        """Return the records that came since some were read last."""
        start, self._read = self._read, len(self._keys)
        return self._waiting(start) if start < self._read else ()

    def _waiting(self, start: int) -> Iterator[tuple[Any, tuple[int, Any]]]:
        if not start:
            records = zip(self._stamps, self._values, strict=True)
            return zip(self._keys, records, strict=True)
        records = zip(self._stamps[start:], self._values[start:], strict=True)
        return zip(self._keys[start:], records, strict=True)

    def cells(self) -> Cells:
        """Return the records by key; those that an index has not read have to be read before."""
        if self._keys:
            put_in_order(self._cells, self._waiting(0), MIN_TIMESTAMP)
            self._keys, self._stamps, self._values = [], [], []
            self._read = 0
        return self._cells


class Buffer:
    """The records of one side of a join in one subtask.

    Args:
        width_ms: Length of a bucket; they begin at its multiples.
        keep_ms: How long after its time a record may have matches.

    Attributes:
        gone_ms: What was there at or before this time is gone.
    """

    def __init__(self, width_ms: int, keep_ms: int) -> None:
        self._width_ms = width_ms
        self._keep_ms = keep_ms
        self._buckets: dict[int, Bucket] = {}
        self._index = Index(width_ms, self._buckets)
        self._first_step = 0  # no bucket is before it, if there is one
        self._edge = Bucket()
        self.gone_ms = MIN_TIMESTAMP - keep_ms

    def add(
        self,
        keys: list[Any],
        stamps: list[int],
        values: list[Any],
        lowest_ms: int,
        runs: Sequence[Run] | None,
    ) -> set[int]:
        """Add a batch, whose lowest time and runs are known; return the starts of its buckets."""
        if lowest_ms <= self.gone_ms:
            return self._add_at_the_edge(keys, stamps, values)
        width_ms = self._width_ms
        if runs is None:
            places: dict[int, list[int]] = {}
            for place, stamp in enumerate(stamps):
                places.setdefault(stamp // width_ms, []).append(place)
            for step, chosen in places.items():
                self._bucket(step).add(*_chosen(chosen, keys, stamps, values))
            return {step * width_ms for step in places}
        for step, start, stop, _ in runs:
            self._bucket(step).add(keys[start:stop], stamps[start:stop], values[start:stop])
        return {run.step * width_ms for run in runs}

    def _add_at_the_edge(self, keys: list[Any], stamps: list[int], values: list[Any]) -> set[int]:
        gone_ms = self.gone_ms
        gone = [place for place, stamp in enumerate(stamps) if stamp <= gone_ms]
        self._edge.add(*_chosen(gone, keys, stamps, values))
        if len(gone) == len(stamps):
            return set()
        ahead = [place for place, stamp in enumerate(stamps) if stamp > gone_ms]
        return self.add(*_chosen(ahead, keys, stamps, values), gone_ms + 1, None)

    def _bucket(self, step: int) -> Bucket:
        bucket = self._buckets.get(step)
        if bucket is None:
            if not self._buckets or step < self._first_step:
                self._first_step = step
            bucket = self._buckets[step] = Bucket()
        return bucket

    def near(
        self, keys: list[Any], stamps: list[int], lowest_ms: int, last_ms: int, bounds: tuple[int, int]
    ) -> Iterable[Cell] | None:
        """Return for each of some records what may match it: all its matches in order of time, and perhaps others.

        Args:
            keys: Of the records.
            stamps: Their times.
            lowest_ms: The lowest of those.
            last_ms: None of them is behind it.
            bounds: Least and greatest difference of a match's time to a record's.

        Returns:
            For each record a list, which is not the caller's; None if there is nothing near any of them.
        """
        from_ms, to_ms = bounds
        width_ms, edge = self._width_ms, self._edge
        is_any = self._index.cover((lowest_ms + from_ms) // width_ms, (last_ms + to_ms) // width_ms)
        if not is_any and not len(edge):
            return None
        found = self._index.candidates(keys, stamps, from_ms, to_ms)
        if lowest_ms + from_ms > self.gone_ms and not len(edge):
            return found
        return self._without_gone(keys, found)

    def _without_gone(self, keys: list[Any], found: Iterable[Cell]) -> Iterator[Cell]:
        """Yield what is at the edge, and of the rest what is not gone."""
        gone_ms, cells = self.gone_ms, self._edge.cells()
        for key, cell in zip(keys, found, strict=True):
            yield cells.get(key, []) + [record for record in cell if record[0] > gone_ms]

    def pass_over(self, time_ms: int) -> list[int]:
        """Let time go on, and drop what matches nothing behind it; return the starts of the buckets that are gone."""
        gone_ms = time_ms - self._keep_ms
        if gone_ms < self.gone_ms:
            return []
        self.gone_ms = gone_ms
        if len(self._edge):
            self._edge = Bucket()
        last = (gone_ms + 1) // self._width_ms - 1
        if not self._buckets or last < self._first_step:
            return []
        dropped = [step for step in self._buckets if step <= last]
        for step in dropped:
            del self._buckets[step]
        self._first_step = min(self._buckets, default=0)
        self._index.let_go(last + 1)
        return [step * self._width_ms for step in dropped]

    def buckets(self) -> dict[int, Bucket]:
        """Return the buckets by their start."""
        return {step * self._width_ms: bucket for step, bucket in self._buckets.items()}

    def held(self) -> dict[int, Cells]:
        """Return what is there, by the start of its bucket and by key; nothing of it is gone."""
        return {step * self._width_ms: self._held(step, bucket) for step, bucket in self._buckets.items()}

    def _held(self, step: int, bucket: Bucket) -> Cells:
        self._index.keep_up(step)
        cells, first_ms = bucket.cells(), self.gone_ms + 1
        if first_ms <= step * self._width_ms:
            return cells
        return {
            key: within(cell, first_ms, cell[-1][0]) for key, cell in cells.items() if cell[-1][0] >= first_ms
        }

    @property
    def edge(self) -> Bucket:
        """The records that are there until time goes on."""
        return self._edge


def _chosen(places: list[int], keys: list[Any], stamps: list[int], values: list[Any]) -> Columns:
    """Return some of the records."""
    return (
        [keys[place] for place in places],
        [stamps[place] for place in places],
        [values[place] for place in places],
    )
