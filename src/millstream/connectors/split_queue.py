"""Which subtask reads which split, and when, where splits are files or parts of them.

Splits wait in a queue; one goes to the subtask with the fewest, stays there until it is finished, and a subtask reads
its splits one after the other. Where a file ends is found out by reading, so a plan names the split being read and some
that follow; they share one budget, and the reader (`turn_reader`) starts the next only when the one before is finished.
The number of the turn tells it which ranges belong together::

    plan 7, subtask 0   [a from 900, b, c]   budget 1000
    read                 a ──► end (300)   b ──► end (50)   c ──► 650, not finished

A subtask whose splits end in the middle of an epoch would wait for the others. What follows is planned in time, once
splits that are finished have told how many bytes a record has; and not before, for whoever is first may have it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from millstream.spi.source import Pending, PlanRequest, RangeEnd, SplitRange

__all__ = ["QueueSnapshot", "QueuedSplit", "SplitQueue"]

_BYTES_PER_RECORD = 16
"""So few bytes a record that files planned ahead suffice for an epoch's budget nearly always; until it is known."""
_MOST_PLANNED = 1_000
"""So many splits of one subtask are planned in an epoch at most."""


class QueuedSplit(Protocol):
    """A split that waits: picklable."""

    @property
    def split_id(self) -> str:
        """Names it."""

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""


Queued = TypeVar("Queued", bound=QueuedSplit)


@dataclass(frozen=True)
class QueueSnapshot(Generic[Queued]):
    """Where reading stands.

    Attributes:
        waiting: Splits not finished, in order.
        positions: Position in splits that were begun, by their names.
        owners: Subtask of each split that was assigned, by its name.
        parallelism: Number of subtasks.
    """

    waiting: tuple[Queued, ...] = ()
    positions: dict[str, Any] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    parallelism: int = 0


class SplitQueue(Generic[Queued]):
    """Splits that are not finished.

    Args:
        parallelism: Number of subtasks.
        snapshot: Of another queue, also of another parallelism.
    """

    def __init__(self, parallelism: int, snapshot: QueueSnapshot[Queued]) -> None:
        self._waiting: deque[Queued] = deque(snapshot.waiting)
        self._positions = dict(snapshot.positions)
        self._order = {split.split_id: number for number, split in enumerate(self._waiting)}
        self._next_number = len(self._order)
        self._assigned: list[dict[str, Queued]] = [{} for _ in range(parallelism)]
        if snapshot.parallelism == parallelism:
            self._assign_again(snapshot.owners)
        self._turn = 0
        self._records: dict[str, int] = {}  # read of each split that is not finished
        self._begun_before = frozenset(self._positions)  # splits of which it is not known how many were read
        self._finished_bytes = self._finished_records = 0

    def add(self, splits: Iterable[Queued]) -> None:
        """Put splits at the end of the queue."""
        for split in splits:
            self._waiting.append(split)
            self._order[split.split_id] = self._next_number
            self._next_number += 1

    def plan(
        self, request: PlanRequest, make_split: Callable[[Queued, int], Any]
    ) -> dict[int, list[SplitRange]]:
        """Plan what each subtask reads in an epoch.

        Args:
            request: What the engine asks for.
            make_split: Makes what the reader is given, of a split and the turn's number.
        """
        self._assign(request.max_records)
        self._turn += 1
        return {
            subtask: [
                SplitRange(
                    split_id,
                    make_split(split, self._turn),
                    self._positions.get(split_id),
                    None,
                    request.max_records,
                    sequential=True,
                )
                for split_id, split in splits.items()
            ]
            for subtask, splits in enumerate(self._assigned)
            if splits
        }

    def has_waiting(self) -> bool:
        """Return whether there are splits that no subtask has yet."""
        return bool(self._waiting)

    def is_empty(self) -> bool:
        """Return whether all splits are finished."""
        return not self._waiting and not any(self._assigned)

    def advance(self, ends: Sequence[RangeEnd]) -> list[Queued]:
        """Take note of positions; return the splits that are finished."""
        finished = []
        for end in ends:
            records = self._records[end.split_id] = self._records.get(end.split_id, 0) + end.records
            if not end.finished:
                if end.position is not None:
                    self._positions[end.split_id] = end.position
                continue
            del self._records[end.split_id]
            self._positions.pop(end.split_id, None)
            self._order.pop(end.split_id, None)
            for splits in self._assigned:
                split = splits.pop(end.split_id, None)
                if split is not None:
                    finished.append(split)
                    self._learn(split, records)
        return finished

    def pending(self, left_of: Callable[[Queued, Any], int]) -> Pending:
        """Return what is not read.

        Args:
            left_of: How many bytes of a split are behind a position; None is its beginning.
        """
        left = {
            subtask: sum(left_of(split, self._positions.get(split_id)) for split_id, split in splits.items())
            for subtask, splits in enumerate(self._assigned)
        }
        counts = {subtask: len(splits) for subtask, splits in enumerate(self._assigned)}
        return Pending(bytes=left, splits=counts, unassigned_splits=len(self._waiting))

    def snapshot(self) -> QueueSnapshot[Queued]:
        """Return the splits not finished, in order, and the positions."""
        begun = [split for splits in self._assigned for split in splits.values()]
        begun.sort(key=lambda split: self._order[split.split_id])
        return QueueSnapshot(
            (*begun, *self._waiting),
            dict(self._positions),
            {split_id: subtask for subtask, splits in enumerate(self._assigned) for split_id in splits},
            len(self._assigned),
        )

    def _assign_again(self, owners: Mapping[str, int]) -> None:
        """Leave splits where they were: how far event time has come is kept for each subtask."""
        for split in [split for split in self._waiting if split.split_id in owners]:
            self._waiting.remove(split)
            self._assigned[owners[split.split_id]][split.split_id] = split

    def _learn(self, split: Queued, records: int) -> None:
        """Learn from a finished split how many bytes a record has."""
        if split.split_id not in self._begun_before:
            self._finished_bytes += split.size_bytes
            self._finished_records += records

    def _left(self, split: Queued) -> float:
        """Return about how many bytes of a split are not read."""
        if not self._finished_records:
            return split.size_bytes
        read = self._records.get(split.split_id, 0) * self._finished_bytes / self._finished_records
        return max(split.size_bytes - read, 0.0)

    def _assign(self, max_records: int) -> None:
        """Hand out waiting splits until every subtask has enough for the epoch."""
        each = self._finished_bytes / self._finished_records if self._finished_records else _BYTES_PER_RECORD
        budget_bytes = max_records * each
        loads = [sum(map(self._left, splits.values())) for splits in self._assigned]
        hungry = [
            subtask
            for subtask, splits in enumerate(self._assigned)
            if not splits or loads[subtask] < budget_bytes
        ]
        while self._waiting and hungry:
            subtask = min(hungry, key=lambda index: (len(self._assigned[index]), index))
            split = self._waiting.popleft()
            self._assigned[subtask][split.split_id] = split
            loads[subtask] += split.size_bytes
            if loads[subtask] >= budget_bytes or len(self._assigned[subtask]) >= _MOST_PLANNED:
                hungry.remove(subtask)
