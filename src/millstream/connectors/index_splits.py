"""Sources whose records have an index: a split is a Python `range` of indices, a position an offset in it.

What is read in an epoch is known exactly beforehand, so the plan can tell at once when a subtask is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from itertools import pairwise
from typing import Any

from millstream.base.time import MAX_TIMESTAMP
from millstream.spi.batch import Batch
from millstream.spi.source import (
    EmitBatch,
    Pending,
    PlanRequest,
    RangeEnd,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

__all__ = [
    "BATCH_RECORDS",
    "BATCH_ROWS",
    "IndexEnumerator",
    "IndexReader",
    "cut",
    "length",
    "number_array",
    "strides",
]

BATCH_RECORDS = 4_096
"""Records in one batch that a reader emits: few enough to be in the processor's cache when they are used."""

BATCH_ROWS = 50_000
"""Rows in one batch of columns."""

Remaining = tuple[str, range, int]
"""A split's id, its indices, and how many of them were read."""


def length(indices: range) -> int:
    """Return how many indices there are; `len` overflows beyond 2**63."""
    return max(0, -((indices.start - indices.stop) // indices.step))


def cut(start: int, stop: int, parts: int) -> list[range]:
    """Cut `[start, stop)` into at most `parts` ranges of nearly equal length, none empty.

    >>> cut(0, 10, 3)
    [range(0, 3), range(3, 6), range(6, 10)]
    """
    total = stop - start
    bounds = [start + total * part // parts for part in range(parts + 1)]
    return [range(low, high) for low, high in pairwise(bounds) if low < high]


def strides(parts: int) -> list[range]:
    """Share out all indices from 0 on, for ever.

    >>> strides(2)
    [range(0, 9223372036854775807, 2), range(1, 9223372036854775807, 2)]
    """
    return [range(part, MAX_TIMESTAMP, parts) for part in range(parts)]


class IndexEnumerator(SplitEnumerator):
    """Gives every subtask the next indices of its splits, as many as the budget or a rate allows."""

    def __init__(
        self,
        splits: Sequence[range],
        parallelism: int,
        restored: Sequence[Remaining] | None,
        *,
        per_second: float | None = None,
    ) -> None:
        """Begin, or go on from a snapshot.

        Args:
            splits: What is to be read, if nothing was restored.
            parallelism: Number of subtasks; split i belongs to subtask i modulo it, also after a restore: how far
                event time has come is kept for each subtask.
            restored: A snapshot, also of another parallelism.
            per_second: Records a second over all subtasks; None for no limit.
        """
        remaining = (
            restored if restored is not None else [(str(i), indices, 0) for i, indices in enumerate(splits)]
        )
        self._splits: dict[str, tuple[range, int]] = {
            split_id: (indices, done) for split_id, indices, done in remaining if done < length(indices)
        }
        self._rate = None if per_second is None else _Credit(per_second)
        self._owned: list[list[str]] = [[] for _ in range(parallelism)]
        for split_id in self._splits:
            self._owned[int(split_id) % parallelism].append(split_id)
        self._turn = 0

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan the next indices of every subtask."""
        subtasks = range(len(self._owned))
        pending = [
            sum(length(self._splits[i][0]) - self._splits[i][1] for i in owned) for owned in self._owned
        ]
        wanted = [
            min(request.max_records, count - self._paused(owned, request.paused))
            for owned, count in zip(self._owned, pending, strict=True)
        ]
        shares = wanted if self._rate is None else self._limited(wanted, request.now_ms)
        ranges = {
            subtask: self._ranges(subtask, shares[subtask], request.paused)
            for subtask in subtasks
            if shares[subtask]
        }
        finished = frozenset(subtask for subtask in subtasks if shares[subtask] == pending[subtask])
        more = len(finished) < len(subtasks)
        if self._rate is None:
            return SourcePlan(ranges=ranges, finished=finished, backlog=more)
        next_ms = self._rate.next_ms(request.now_ms) if more else None
        return SourcePlan(
            ranges=ranges, finished=finished, backlog=more and self._rate.has_rest(), next_ms=next_ms
        )

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of the offsets reached."""
        for end in ends:
            indices, _ = self._splits[end.split_id]
            self._splits[end.split_id] = (indices, end.position)
            if end.finished:
                del self._splits[end.split_id]
                for owned in self._owned:
                    if end.split_id in owned:
                        owned.remove(end.split_id)

    def pending(self) -> Pending:
        """Return how many indices are left; not of splits without end."""
        indices = [indices for indices, _ in self._splits.values()]
        splits = {subtask: len(owned) for subtask, owned in enumerate(self._owned)}
        if any(each.stop >= MAX_TIMESTAMP for each in indices):
            return Pending(splits=splits, unassigned_splits=0)
        left = {
            subtask: sum(length(self._splits[i][0]) - self._splits[i][1] for i in owned)
            for subtask, owned in enumerate(self._owned)
        }
        return Pending(records=left, splits=splits, unassigned_splits=0)

    def snapshot(self) -> list[Remaining]:
        """Return what remains."""
        return [(split_id, indices, done) for split_id, (indices, done) in self._splits.items()]

    def _paused(self, owned: Sequence[str], paused: Set[str]) -> int:
        """Return how many records of a subtask's splits must wait."""
        held = [self._splits[i] for i in owned if i in paused] if paused else []
        return sum(length(indices) - done for indices, done in held)

    def _ranges(self, subtask: int, records: int, paused: Set[str]) -> list[SplitRange]:
        """Plan a range of each split, an empty one of those that the budget does not reach.

        So all hold event time back from the start: after rescaling, a subtask has splits that are as far as each other,
        and what is read of one must not make what is read of the next late.
        """
        planned = []
        for split_id in self._owned[subtask]:
            if split_id in paused:
                continue
            indices, done = self._splits[split_id]
            count = min(records, length(indices) - done)
            planned.append(SplitRange(split_id, indices, done, done + count, count))
            records -= count
        return planned

    def _limited(self, wanted: list[int], now_ms: int) -> list[int]:
        """Share out what the rate allows, going on with the subtask behind the one that got the last odd record."""
        assert self._rate is not None
        available = self._rate.accrue(now_ms)
        shares = [0] * len(wanted)
        open_subtasks = [i for i, want in enumerate(wanted) if want]
        while available and open_subtasks:
            start = self._turn % len(open_subtasks)
            order = open_subtasks[start:] + open_subtasks[:start]
            each, extra = divmod(available, len(order))
            self._turn += extra
            for place, subtask in enumerate(order):
                more = min(each + (place < extra), wanted[subtask] - shares[subtask])
                shares[subtask] += more
                available -= more
            open_subtasks = [i for i in open_subtasks if shares[i] < wanted[i]]
        self._rate.spend(sum(shares))
        return shares


_STEP_MS = 10


class _Credit:
    """Records that a rate allows: one at first, then more with time, never more than a second's worth.

    They are given out in steps of 10 ms: an epoch for each record would keep the job busy with nothing but epochs.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(per_second, 1.0)
        self._credit = 1.0
        self._last_ms: int | None = None
        self._next_step_ms: int | None = None

    def accrue(self, now_ms: int) -> int:
        """Add what the time since the last call is worth; return the records that may be given out."""
        if self._last_ms is not None and now_ms > self._last_ms:
            self._credit = min(self._most, self._credit + self._per_second * (now_ms - self._last_ms) / 1000)
        if self._last_ms is None or now_ms > self._last_ms:
            self._last_ms = now_ms
        return 0 if self._next_step_ms is not None and now_ms < self._next_step_ms else self.whole()

    def whole(self) -> int:
        """Return the whole records; float sums a hair below one count as one."""
        return int(self._credit + 1e-9)

    def has_rest(self) -> bool:
        """Return whether there are records that may be given out at once."""
        return self._next_step_ms is None and self.whole() > 0

    def spend(self, records: int) -> None:
        """Take records off."""
        self._credit -= records
        if records and self._last_ms is not None:
            self._next_step_ms = None if self.whole() else self._last_ms + _STEP_MS

    def next_ms(self, now_ms: int) -> int:
        """Return when the next record may be given out; in a step, if one could be and nobody wants it."""
        missing_ms = -int(-(1.0 - self._credit) * 1000 / self._per_second // 1)
        if self._next_step_ms is not None and self._next_step_ms > now_ms:
            return max(now_ms + missing_ms, self._next_step_ms)
        return now_ms + (missing_ms if missing_ms > 0 else _STEP_MS)


def number_array(numbers: range) -> Any:
    """Return numbers of 64 bits as an Arrow array."""
    import pyarrow as pa  # optional: the extra `parquet`

    try:
        import numpy as np  # optional: pyarrow's only optional dependency
    except ImportError:
        return pa.array(numbers, pa.int64())
    return pa.array(np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64))


class IndexReader(SourceReader):
    """Reads ranges of indices.

    Args:
        batch_of: Makes the batch of some indices, with one record for each.
        batch_records: How many indices it is given at most.
    """

    def __init__(self, batch_of: Callable[[range], Batch], batch_records: int = BATCH_RECORDS) -> None:
        self._batch_of = batch_of
        self._batch_records = batch_records

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit the records of a range, or as many as are wanted."""
        indices: range = split_range.split
        start, stop = split_range.start, split_range.stop
        position = start
        while position < stop:
            first, position = position, min(position + self._batch_records, stop)
            if not emit(self._batch_of(indices[first:position])):
                break
        return RangeEnd(split_range.split_id, position, position >= length(indices), position - start)
