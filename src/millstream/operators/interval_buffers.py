"""What an interval join waits with: the records of one side, by time in buckets, in a bucket by key.

A bucket holds the records of a span of time. Those that match a record are in the few buckets around it, and a bucket
goes as a whole when the watermark has passed all that could match::

    buckets     [ 0 .. 9 ][ 10 .. 19 ][ 20 .. 29 ]
    matches of 23, bounds -10 and 0:
                      13 -----------23

The first bucket may hold records that have no match any more; they are passed over. Records that come at or before the
time at which they would go, with the watermark or with a clock that was set back, wait in a bucket of their own, the
edge, until time goes on.

Records join a bucket as columns. They are put in order by key when the other side first looks for them: nobody ever
looks for most records of a side that is behind the other, and their batches cost next to nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import repeat
from operator import add, itemgetter
from typing import Any, NamedTuple

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.windowing.in_order import is_ascending

__all__ = ["Bucket", "Buffer", "Cell", "Near", "Run", "bucket_width", "candidates", "runs_of", "within"]

SHORTEST_MS = 100
"""No bucket is shorter: each has a price, and records of many buckets would be looked for one by one."""

Cell = list[tuple[int, Any]]
"""Records of one key in one bucket with their times, by time, then by arrival."""

Cells = dict[Any, Cell]
"""Those of one bucket, by key."""

Columns = tuple[list[Any], list[int], list[Any]]
"""Keys, times and records."""

LookUp = Callable[[Any, Cell], Cell]
"""Gives the cell of a key, or what it is given for one that is not there."""

_NOTHING: Cell = []
"""What a key has that is not there; never added to."""

_SHORT = 16
"""Records of a cell that are looked at one by one."""


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


class Near(NamedTuple):
    """What there is at some distance of records of one bucket.

    Attributes:
        look_ups: Give what a key has there, in order of time.
        is_short: Whether all that they give is short.
    """

    look_ups: list[LookUp]
    is_short: bool

    def of_run(self, keys: list[Any], stamps: list[int], from_ms: int, to_ms: int) -> Iterable[Cell]:
        """Return for each record what may match it: all its matches in order of time, and perhaps others.

        Args:
            keys: Of the records.
            stamps: Their times.
            from_ms: Least difference to a record's time.
            to_ms: Greatest difference.
        """
        if not self.is_short:
            return candidates(repeat(self), keys, stamps, from_ms, to_ms)
        cells = (map(look_up, keys, repeat(_NOTHING)) for look_up in self.look_ups)
        return reduce(partial(map, add), cells)


def candidates(
    near: Iterable[Near], keys: list[Any], stamps: list[int], from_ms: int, to_ms: int
) -> Iterator[Cell]:
    """Yield what may match each record, as `Near.of_run` gives it, each with what is near that record."""
    for key, stamp, (look_ups, _) in zip(keys, stamps, near, strict=False):
        found: Cell = []
        for look_up in look_ups:
            cell = look_up(key, _NOTHING)
            found += cell if len(cell) <= _SHORT else within(cell, stamp + from_ms, stamp + to_ms)
        yield found


def bucket_width(span_ms: int) -> int:
    """Return how long the buckets are of a join whose bounds are so far apart.

    Half as long: a record has matches in up to three buckets then, and waits for a fraction longer than it has to.
    """
    return max(span_ms // 2, SHORTEST_MS)


def runs_of(stamps: list[int], width_ms: int) -> list[Run] | None:
    """Return the runs of a batch in order; None if its records are out of order, and of several buckets.

    >>> [tuple(run) for run in runs_of([3, 12, 14, 31], 10)]
    [(0, 0, 1, 3), (1, 1, 3, 12), (3, 3, 4, 31)]
    >>> runs_of([14, 12], 10), runs_of([14, 8], 10)
    ([Run(step=1, start=0, stop=2, lowest_ms=12)], None)
    """
    lowest_ms = min(stamps)
    step = lowest_ms // width_ms
    if max(stamps) // width_ms == step:
        return [Run(step, 0, len(stamps), lowest_ms)]
    if not is_ascending(stamps):
        return None
    runs, start = [], 0
    while start < len(stamps):
        step = stamps[start] // width_ms
        stop = bisect_left(stamps, (step + 1) * width_ms, start)
        runs.append(Run(step, start, stop, stamps[start]))
        start = stop
    return runs


def within(cell: Sequence[tuple[int, Any]], first_ms: int, last_ms: int) -> Cell:
    """Return the records of a cell between two times, both inclusive.

    >>> within([(1, "a"), (3, "b"), (3, "c"), (8, "d")], 2, 3)
    [(3, 'b'), (3, 'c')]
    """
    start = bisect_left(cell, first_ms, key=_time_of)
    return list(cell[start : bisect_right(cell, last_ms, start, key=_time_of)])


_time_of = itemgetter(0)


class Bucket:
    """Records of one span of time: by key, and those that came since somebody looked."""

    __slots__ = ("_cells", "_keys", "_longest", "_stamps", "_values")

    def __init__(self) -> None:
        self._cells: Cells = {}
        self._longest = 1
        self._keys: list[Any] = []
        self._stamps: list[int] = []
        self._values: list[Any] = []

    def __len__(self) -> int:
        """Return how many keys it holds, at most."""
        return len(self._cells) + len(self._keys)

    def add(self, keys: list[Any], stamps: list[int], values: list[Any]) -> None:
        """Add records in order of their arrival."""
        self._keys += keys
        self._stamps += stamps
        self._values += values

    def cells(self) -> Cells:
        """Return the records by key."""
        cells = self._cells
        if self._keys:
            cell_of, longest = cells.get, self._longest
            for key, record in zip(self._keys, zip(self._stamps, self._values, strict=True), strict=True):
                cell = cell_of(key)
                if cell is None:
                    cells[key] = [record]
                    continue
                if cell[-1][0] <= record[0]:
                    cell.append(record)
                else:
                    insort_right(cell, record, key=_time_of)
                if len(cell) > longest:
                    longest = len(cell)
            self._longest = longest
            self._keys, self._stamps, self._values = [], [], []
        return cells

    def is_short(self) -> bool:
        """Return whether no key has many records that have been put in order."""
        return self._longest <= _SHORT


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
        self._first_step = 0  # no bucket is before it, if there is one
        self._edge = Bucket()
        self.gone_ms = MIN_TIMESTAMP - keep_ms

    def add(
        self, keys: list[Any], stamps: list[int], values: list[Any], runs: Sequence[Run] | None
    ) -> set[int]:
        """Add a batch, whose runs are known; return the starts of its buckets."""
        if min(stamps) <= self.gone_ms:
            return self._add_at_the_edge(keys, stamps, values)
        width_ms = self._width_ms
        if runs is None:
            places: dict[int, list[int]] = {}
            for place, stamp in enumerate(stamps):
                places.setdefault(stamp // width_ms, []).append(place)
            for step, chosen in places.items():
                self._bucket(step).add(*_chosen(chosen, keys, stamps, values))
            return {step * width_ms for step in places}
        if len(runs) == 1:
            self._bucket(runs[0].step).add(keys, stamps, values)
        else:
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
        return self.add(*_chosen(ahead, keys, stamps, values), None)

    def _bucket(self, step: int) -> Bucket:
        bucket = self._buckets.get(step)
        if bucket is None:
            if not self._buckets or step < self._first_step:
                self._first_step = step
            bucket = self._buckets[step] = Bucket()
        return bucket

    def near(self, step: int, lowest_ms: int, from_ms: int, to_ms: int) -> Near:
        """Return what there is at some distance of records of a bucket.

        Args:
            step: Number of the records' bucket.
            lowest_ms: The lowest of their timestamps.
            from_ms: Least difference to a record's time.
            to_ms: Greatest difference.
        """
        width_ms, buckets, gone_ms = self._width_ms, self._buckets, self.gone_ms
        found: list[LookUp] = []
        is_short = True
        if len(self._edge):
            found.append(self._edge.cells().get)
            is_short = self._edge.is_short()
        last = (step * width_ms + width_ms - 1 + to_ms) // width_ms
        for each in range((lowest_ms + from_ms) // width_ms, last + 1):
            if each in buckets:
                bucket = buckets[each]
                cells = bucket.cells()
                whole = lowest_ms + from_ms > gone_ms or each * width_ms > gone_ms
                found.append(cells.get if whole else partial(_look_up, cells, gone_ms))
                is_short = is_short and bucket.is_short()
        return Near(found, is_short)

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
        return [step * self._width_ms for step in dropped]

    def buckets(self) -> dict[int, Bucket]:
        """Return the buckets by their start."""
        return {step * self._width_ms: bucket for step, bucket in self._buckets.items()}

    def held(self) -> dict[int, Cells]:
        """Return what is there, by the start of its bucket and by key; nothing of it is gone."""
        return {start_ms: self._held(start_ms, bucket) for start_ms, bucket in self.buckets().items()}

    def _held(self, start_ms: int, bucket: Bucket) -> Cells:
        cells, first_ms = bucket.cells(), self.gone_ms + 1
        if first_ms <= start_ms:
            return cells
        return {
            key: within(cell, first_ms, cell[-1][0]) for key, cell in cells.items() if cell[-1][0] >= first_ms
        }

    @property
    def edge(self) -> Bucket:
        """The records that are there until time goes on."""
        return self._edge


def _look_up(cells: Cells, gone_ms: int, key: Any, otherwise: Cell) -> Cell:
    """Return what a key has behind a time."""
    cell = cells.get(key)
    return otherwise if cell is None else within(cell, gone_ms + 1, cell[-1][0])


def _chosen(places: list[int], keys: list[Any], stamps: list[int], values: list[Any]) -> Columns:
    """Return some of the records."""
    return (
        [keys[place] for place in places],
        [stamps[place] for place in places],
        [values[place] for place in places],
    )
