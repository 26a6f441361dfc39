"""Tumbling and sliding windows by time with a pane for each window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.common.windows import TimeWindow
from millstream.operators.base import RestoreScope
from millstream.operators.windowing.base import DueTimes, TimedWindowOperator
from millstream.operators.windowing.folds import Pane, Rows

__all__ = ["PaneOperator"]


class PaneOperator(TimedWindowOperator):
    """Windows by start, `{start: {key: accumulator}}`, each with one due time for all keys.

    A window fires for all its keys at once, in order of the keys' first records. A sliding window's record is
    added to every window that holds it, the newest first; `SliceOperator` is cheaper if accumulators merge.

    `live` panes are those that have not fired; only they are reached from the hot loop.

    Args:
        size_ms: Length of a window.
        slide_ms: From start to start; the size for tumbling windows.
        offset_ms: Moves all starts.
        shared: For `WindowOperator`.
    """

    def __init__(self, *, size_ms: int, slide_ms: int, offset_ms: int, **shared: Any) -> None:
        super().__init__(**shared)
        self._size_ms = size_ms
        self._slide_ms = slide_ms
        self._offset_ms = offset_ms
        self._panes: dict[int, Pane] = {}
        self._live: dict[int, Pane] = {}
        self._due = DueTimes()

    def snapshot_state(self) -> tuple[int, dict[int, Pane]]:
        """Return the time passed and the panes by start."""
        return self._passed_ms, self._panes

    def restore_state(self, snapshot: tuple[int, dict[int, Pane]], scope: RestoreScope) -> None:
        """Take over panes; those that had fired are known by the time passed."""
        self._restore_time(snapshot[0])
        owns = scope.owns
        self.add_panes(
            {start: {key: pane[key] for key in pane if owns(key)} for start, pane in snapshot[1].items()}
        )

    def add_panes(self, panes: dict[int, Pane]) -> None:
        """Take over panes of other keys, by start."""
        for start, pane in panes.items():
            if pane:
                self._pane(start).update(pane)

    def _add_batch(self, values: list[Any], timestamps: list[int]) -> None:
        rows = self._rows_of_one(values, timestamps)
        if self._size_ms != self._slide_ms:
            rows = self._rows_of_each(values, timestamps)
        self._fold.add_all(rows, self._live, self._open, self._add_behind)

    def _rows_of_one(self, values: list[Any], timestamps: list[int]) -> Rows:
        size, offset = self._size_ms, self._offset_ms
        starts = [timestamp - (timestamp - offset) % size for timestamp in timestamps]
        return zip(self._keys(values), values, starts, timestamps, strict=True)

    def _rows_of_each(self, values: list[Any], timestamps: list[int]) -> Iterator[tuple[Any, Any, int, int]]:
        size, slide, offset = self._size_ms, self._slide_ms, self._offset_ms
        for key, value, timestamp in zip(self._keys(values), values, timestamps, strict=True):
            starts = range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide)
            for start in starts:
                yield key, value, start, timestamp
            if not starts and timestamp + self._lateness_ms <= self._passed_ms:
                self._add_late(value, timestamp)

    def _open(self, start: int) -> Pane | None:
        """Make a live pane, unless its window has ended."""
        if start + self._size_ms - 1 <= self._passed_ms:
            return None
        return self._pane(start)

    def _pane(self, start: int) -> Pane:
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = {}
            last_ms = start + self._size_ms - 1
            if last_ms > self._passed_ms:
                self._live[start] = pane
                self._due.add(last_ms, start, DueTimes.FIRE)
            else:
                self._due.add(last_ms + self._lateness_ms, start, DueTimes.CLEAN_UP)
        return pane

    def _add_behind(self, start: int, key: Any, value: Any, timestamp: int) -> None:
        """Add a record to a window that has ended: fires at once, or the record is late."""
        if start + self._size_ms - 1 + self._lateness_ms <= self._passed_ms:
            # Late for its newest window is late for all of them.
            if start + self._slide_ms > timestamp:
                self._add_late(value, timestamp)
            return
        pane = self._pane(start)
        self._fold.add_one(pane, key, value)
        self._fire(TimeWindow(start, start + self._size_ms), [(key, pane[key])], shared=True)

    def _next_due(self) -> int | None:
        return self._due.next()

    def _advance(self, passed_ms: int) -> None:
        for start, what in self._due.pop_due(passed_ms):
            window = TimeWindow(start, start + self._size_ms)
            if what == DueTimes.FIRE:
                del self._live[start]
                self._fire(window, self._panes[start].items(), shared=self._lateness_ms > 0)
                if self._lateness_ms:
                    self._due.add(window.end - 1 + self._lateness_ms, start, DueTimes.CLEAN_UP)
                    continue
            pane = self._panes.pop(start)
            if self._firing.clears:
                self._firing.clear(window, pane)
