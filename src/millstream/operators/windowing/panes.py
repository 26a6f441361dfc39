"""Tumbling and sliding windows by time with a pane for each window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.common.windows import TimeWindow
from millstream.operators.base import OperatorContext, Output, OwnEntries, RestoreScope
from millstream.operators.own_entries import TouchedPanes, touched_panes
from millstream.operators.values import ATOMIC, copy_of
from millstream.operators.windowing.base import DueTimes, TimedWindowOperator
from millstream.operators.windowing.folds import Pane, Rows
from millstream.operators.windowing.in_order import stretches
from millstream.operators.windowing.runs import first_end
from millstream.state.snapshots import Entries, StateChanges

__all__ = ["PANES", "PaneOperator"]

PANES = "panes"
"""Entries of panes: start -> key -> accumulator."""


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
        self._touched: TouchedPanes | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._touched = touched_panes(context)

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over the time passed, by which it is known which panes had fired."""
        self._restore_time(snapshot)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return accumulators by start and key."""
        for start, pane in self._panes.items():
            yield PANES, start, pane.items()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the accumulators that changed, and the panes that ended."""
        return self._touched is not None and self._touched.add_to(changes, PANES, self._panes)

    def forget_changes(self) -> None:
        """Take the panes as they are as known."""
        if self._touched is not None:
            self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over accumulators."""
        for start, key, accumulator in entries:
            self._pane(start)[key] = accumulator

    def add_panes(self, panes: dict[int, Pane]) -> None:
        """Take over panes of other keys, by start."""
        for start, pane in panes.items():
            if pane:
                self._pane(start).update(pane)

    def first_due(self, timestamp: int) -> int:
        """Return the last millisecond of the record's window that ends first."""
        return first_end(timestamp, self._size_ms, self._slide_ms, self._offset_ms) - 1

    def late_from(self, timestamp: int) -> int:
        """Return when the record's last window is kept no longer; without windows, when its own time is over."""
        newest = timestamp - (timestamp - self._offset_ms) % self._slide_ms
        return max(newest + self._size_ms - 1, timestamp) + self._lateness_ms

    def _add_batch(self, values: list[Any], timestamps: list[int]) -> None:
        size, slide, offset = self._size_ms, self._slide_ms, self._offset_ms
        keys, touched = self._keys(values), self._touched
        in_order = stretches(timestamps, slide, offset) if size == slide else None
        if in_order is not None:
            columns = (keys, values, timestamps)
            self._fold.add_in_order(in_order, columns, self._live, self._open, self._add_behind)
            starts = [start for start, _, _ in in_order]
        else:
            starts = [timestamp - (timestamp - offset) % slide for timestamp in timestamps]
            rows: Rows = zip(keys, values, starts, timestamps, strict=True)
            if size != slide:
                rows = self._rows_of_each(rows)
            self._fold.add_all(rows, self._live, self._open, self._add_behind)
        if touched is not None:
            if size > slide:
                starts = [start for newest in set(starts) for start in range(newest, newest - size, -slide)]
            touched.note(keys, starts, self._panes)

    def _rows_of_each(self, rows: Rows) -> Iterator[tuple[Any, Any, int, int]]:
        size, slide = self._size_ms, self._slide_ms
        for key, value, newest, timestamp in rows:
            starts = range(newest, timestamp - size, -slide)
            spare = value if type(value) in ATOMIC else copy_of(value)
            for start in starts:
                # Each window has a record of its own, if functions can change it.
                yield key, spare, start, timestamp
                if spare is not value:
                    spare = copy_of(value)
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

    def next_due(self) -> int | None:
        """Return when the next window is due, or None."""
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
            if self._touched is not None:
                self._touched.end(start)
            if self._firing.clears:
                self._firing.clear(window, pane)
