"""Which rows a slot has: segments of row numbers, chained by slot, newest first.

The rows of one epoch and slot lie together in one segment. Reading goes along the chains of all slots at once, one step
for each segment of the longest chain; a chain that is long when it is read becomes one segment::

    heads     slot -> last segment
    segments  start, length, segment before
    order     numbers of rows, those of a segment together
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.table.runtime.growing import Lane
from millstream.table.runtime.sorting import stable_argsort

__all__ = ["Multimap", "runs_of", "spread"]

_LONGEST = 16
_LEAST_WASTE = 1 << 16


def runs_of(ordered: Any) -> tuple[Any, Any]:
    """Return where runs of equal numbers begin in an array, and how long they are."""
    if not len(ordered):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return starts, np.diff(np.append(starts, len(ordered)))


def spread(starts: Any, lengths: Any) -> Any:
    """Return the numbers of runs: from each start on as many as its length."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


class Multimap:
    """Numbers of rows by slot."""

    def __init__(self) -> None:
        self._heads = Lane(np.int64, -1)
        self._starts, self._lengths, self._before = Lane(np.int64), Lane(np.int64), Lane(np.int64)
        self._order = Lane(np.int64)
        self._segments = 0
        self._used = 0
        self._live = 0

    def append(self, slots: Any, rows: Any) -> None:
        """Add rows.

        Args:
            slots: The slot of each.
            rows: Their numbers.
        """
        if not len(slots):
            return
        order = stable_argsort(slots)
        ordered = slots[order]
        starts, lengths = runs_of(ordered)
        self._add_segments(ordered[starts], rows[order], starts, lengths, chained=True)
        self._live += len(rows)

    def _add_segments(self, slots: Any, rows: Any, starts: Any, lengths: Any, *, chained: bool) -> None:
        first, used = self._segments, self._used
        self._segments += len(slots)
        self._used += len(rows)
        self._order.reach(self._used)[used : self._used] = rows
        self._starts.reach(self._segments)[first : self._segments] = used + starts
        self._lengths.reach(self._segments)[first : self._segments] = lengths
        heads = self._heads.reach(int(slots.max()) + 1)
        self._before.reach(self._segments)[first : self._segments] = heads[slots] if chained else -1
        heads[slots] = np.arange(first, self._segments)

    def fetch(self, slots: Any) -> tuple[Any, Any]:
        """Return all rows of slots: places in `slots`, and numbers of rows; ordered by place of neither."""
        heads = self._heads.reach(int(slots.max()) + 1 if len(slots) else 0)
        who = np.arange(len(slots))
        segments = heads[slots]
        there = segments >= 0
        who, segments = who[there], segments[there]
        whos: list[Any] = []
        rows: list[Any] = []
        rounds = 0
        while len(who):
            lengths = self._lengths.array[segments]
            whos.append(np.repeat(who, lengths))
            rows.append(self._order.array[spread(self._starts.array[segments], lengths)])
            segments = self._before.array[segments]
            more = segments >= 0
            who, segments = who[more], segments[more]
            rounds += 1
            if rounds == _LONGEST and len(who):
                self._join_segments(np.unique(slots[who]))
                return self.fetch(slots)
        if not whos:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(whos), np.concatenate(rows)

    def _join_segments(self, slots: Any) -> None:
        """Make one segment of the chain of each slot."""
        order: list[tuple[Any, Any]] = []
        who, segments = np.arange(len(slots)), self._heads.array[slots]
        while len(who):
            lengths = self._lengths.array[segments]
            order.append(
                (np.repeat(who, lengths), self._order.array[spread(self._starts.array[segments], lengths)])
            )
            segments = self._before.array[segments]
            more = segments >= 0
            who, segments = who[more], segments[more]
        whos = np.concatenate([each for each, _ in order[::-1]])
        rows = np.concatenate([each for _, each in order[::-1]])
        by_slot = stable_argsort(whos)
        starts, lengths = runs_of(whos[by_slot])
        self._add_segments(slots, rows[by_slot], starts, lengths, chained=False)
        if self._used > 2 * self._live + _LEAST_WASTE:
            self._squeeze()

    def _squeeze(self) -> None:
        """Leave out what no chain leads to."""
        slots = np.flatnonzero(self._heads.array >= 0)
        who, segments = slots, self._heads.array[slots]
        parts: list[tuple[Any, Any]] = []
        while len(who):
            lengths = self._lengths.array[segments]
            parts.append(
                (np.repeat(who, lengths), self._order.array[spread(self._starts.array[segments], lengths)])
            )
            segments = self._before.array[segments]
            more = segments >= 0
            who, segments = who[more], segments[more]
        self.__init__()  # type: ignore[misc]
        if parts:
            self.append(
                np.concatenate([each for each, _ in parts[::-1]]),
                np.concatenate([each for _, each in parts[::-1]]),
            )
