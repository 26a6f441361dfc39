"""Tumbling and sliding windows by expression.

Windows, lateness and late records are those of the operators for rows (`operators/windowing/slices.py`): a record is
in one slice, and a window that fires is made of its slices.

Windows without lateness that tumble, and of which no slice is there yet, fire all at once, by a key that begins with
the window. Waiting rows are put into slices before a checkpoint, and when there are many of them. A late record that
makes a window fire again is taken by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import OwnEntries, Reach
from millstream.operators.columnar.groups import Groups, KeyedRows, Kinds
from millstream.operators.columnar.held_slices import HeldSlices, entries_by_start
from millstream.operators.columnar.marks import marks_before, process_whole, seen_by_each
from millstream.operators.columnar.reading import stamps_of, taken
from millstream.operators.columnar.running import RunningGroups
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.whole_windows import aggregate_whole
from millstream.operators.columnar.window_base import NEVER, ColumnWindowOperator
from millstream.operators.columnar.window_results import portions
from millstream.operators.windowing.base import DueTimes
from millstream.spi.batch import Batch
from millstream.state.snapshots import Entries, StateChanges

__all__ = ["SlicedWindowOperator"]


class SlicedWindowOperator(ColumnWindowOperator):
    """Slices by start, and due times of windows.

    Args:
        grid: The windows.
        shared: For `ColumnWindowOperator`.
    """

    def __init__(self, grid: SliceGrid, **shared: Any) -> None:
        super().__init__(**shared)
        self._grid = grid
        self._slices = HeldSlices(self._make_groups)
        self._windows: set[int] = set()
        self._due = DueTimes()
        self._running = RunningGroups(self._make_groups)

    def _add_batch(self, batch: Batch, rows: KeyedRows, stamps: Any) -> None:
        starts = self._grid.starts(stamps)
        if not self._grid.has_gaps and self._grid.first_ends(int(starts.min())) > self._passed_ms:
            self._wait(starts, rows)
            return
        grid, last_kept_ms = self._grid, self._passed_ms - self._lateness_ms
        gone = self._are_gone(starts, last_kept_ms)
        behind = ~gone & (grid.first_ends(starts) <= self._passed_ms)
        on_time = np.flatnonzero(~(gone | behind))
        if len(on_time):
            self._wait(starts[on_time], rows.take(on_time))
        if behind.any():
            self._add_all_behind(np.flatnonzero(behind), starts, rows)
        late = np.flatnonzero(gone & (stamps <= last_kept_ms))
        if len(late):
            self._part_with(batch, late)
        self._flush()

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records.

        Each of them tells which records are late. But it needs to be there, for windows to fire, only before a record
        of which it has a window fire and another not; all others are added at once, before the last watermark.
        """
        stamps = stamps_of(batch)
        if not self._event_time or stamps is None:
            process_whole(self, batch, reach)
            return None
        assert batch.marks is not None
        marks, plain, count = batch.marks, batch.unmarked(), len(batch)
        before = marks.positions[-1]
        stamps = stamps[:before]
        starts, seen = self._grid.starts(stamps), seen_by_each(marks, before, self._passed_ms)
        last_kept_ms = np.maximum(seen, MIN_TIMESTAMP + self._lateness_ms) - self._lateness_ms
        gone = self._are_gone(starts, last_kept_ms)
        late = gone & (stamps <= last_kept_ms)
        behind = ~gone & (self._grid.first_ends(starts) <= seen)
        start = 0
        for index in marks_before(marks, np.flatnonzero(behind)):
            stop = marks.positions[index]
            self._process_some(plain.cut(start, stop), gone[start:stop], late[start:stop])
            if not reach(marks.watermarks[index]):
                return index
            start = stop
        self.process(plain.cut(start, count))
        return None

    def _process_some(self, batch: Batch, gone: Any, late: Any) -> None:
        """Add a batch of which some records are in no window any more, or late, by watermarks between them."""
        if late.any():
            self._part_with(batch, np.flatnonzero(late))
        self.process(taken(batch, np.flatnonzero(~gone)) if gone.any() else batch)

    def _are_gone(self, starts: Any, last_kept_ms: Any) -> Any:
        """Return whether no window of a slice is kept, or no window is there."""
        ends = self._grid.last_ends(starts)
        return (ends <= last_kept_ms) | (ends < starts)

    def _wait(self, starts: Any, rows: KeyedRows) -> None:
        """Let rows wait of which no window has ended."""
        # Not behind a batch that is large: a watermark that follows may let most of its rows fire at once.
        if self._waiting.is_full(self._grid.slide_ms) or not self._waiting.takes(rows):
            self._put_into_slices()
        self._waiting.add(starts, rows)
        self._waiting_due_ms = min(self._waiting_due_ms, self._grid.first_ends(int(starts.min())))

    def _take_waiting(self, chosen: Callable[[Any], Any]) -> tuple[Any, KeyedRows] | None:
        """Take some of the rows that wait, if there are any; the others wait on.

        Args:
            chosen: Tells by the starts of the slices which rows.
        """
        taken = self._waiting.take(chosen)
        lowest = self._waiting.lowest
        self._waiting_due_ms = NEVER if lowest is None else self._grid.first_ends(lowest)
        return taken

    def _put_into_slices(self, until_ms: int = MAX_TIMESTAMP, newest: int = MAX_TIMESTAMP) -> None:
        """Put rows that wait into their slices: of windows that end until a time, of slices up to one."""
        if self._waiting_due_ms > until_ms:
            return
        first_ends = self._grid.first_ends
        taken = self._take_waiting(lambda starts: (first_ends(starts) <= until_ms) & (starts <= newest))
        if taken is not None:
            starts, rows = taken
            for start, places in _runs(starts):
                self._add_rows(start, places, rows)

    def _make_ready(self, passed_ms: int) -> None:
        """Put rows that wait for windows of a time that is to pass into slices, but those that fire without."""
        if self._lateness_ms or not self._grid.tumbles:
            self._put_into_slices(passed_ms)
        elif self._slices:
            self._put_into_slices(passed_ms, self._slices.newest)

    def _pass(self, passed_ms: int) -> None:
        self._make_ready(passed_ms)
        super()._pass(passed_ms)

    def _pass_some(self, passed_ms: int) -> bool:
        self._make_ready(passed_ms)
        if self._waiting_due_ms <= passed_ms and not self.context.budget.take(1, "windows"):
            return False
        return super()._pass_some(passed_ms)

    def _fire_waiting(self, passed_ms: int) -> None:
        """Take the results of windows of which all rows wait, all at once."""
        last = self._grid.size_ms - 1
        taken = self._take_waiting(lambda starts: starts + last <= passed_ms)
        if taken is None:
            return
        starts, rows = taken
        for windows, columns in aggregate_whole(starts, rows, self._key_names, self._aggregates, self._kinds):
            self._results.add(windows, windows + self._grid.size_ms, columns)

    def _ending_after(self, start: int, time_ms: int) -> list[int]:
        """Return the windows of a slice whose last millisecond is behind a time, the newest first."""
        size = self._grid.size_ms
        return [window for window in self._grid.windows_of(start) if window + size - 1 > time_ms]

    def _add_all_behind(self, places: Any, starts: Any, rows: KeyedRows) -> None:
        """Add records of which some windows have ended: to the others, and to those that are kept and fire again."""
        self._put_into_slices()
        again: list[tuple[int, int, list[int]]] = []
        for start, of_slice in _runs(starts[places]):
            kept = self._ending_after(start, self._passed_ms - self._lateness_ms)
            fired = kept[len(self._ending_after(start, self._passed_ms)) :]
            if fired:
                again += [(place, start, fired) for place in places[of_slice].tolist()]
            else:
                self._add_rows(start, places[of_slice], rows)
        for place, start, fired in sorted(again):
            self._add_behind(start, place, fired, rows)

    def _add_behind(self, start: int, place: int, fired: list[int], rows: KeyedRows) -> None:
        """Add one record of which windows have fired that are kept: they fire again, for its key."""
        slot = self._add_rows(start, np.array([place]), rows)
        keys = self._slices[start].keys(slot)
        for window in fired:
            self._fire(window, keys)

    def _add_rows(self, start: int, places: Any, rows: KeyedRows) -> Any:
        self._running.touch(start)
        groups = self._slice(start)
        slots = groups.add_rows(rows.take(places) if len(places) < len(rows.keys[0]) else rows)
        self._slices.note(start, slots)
        return slots

    def _slice(self, start: int) -> Groups:
        if start not in self._slices:
            self._slices.open(start)
            self._plan(start)
        return self._slices[start]

    def _plan(self, start: int) -> None:
        """Plan the windows of a new slice."""
        passed_ms, size = self._passed_ms, self._grid.size_ms
        for window in self._grid.windows_of(start):
            last_ms = window + size - 1
            if window in self._windows or last_ms + self._lateness_ms <= passed_ms:
                continue
            self._windows.add(window)
            if last_ms > passed_ms:
                self._due.add(last_ms, window, DueTimes.FIRE)
            else:
                self._due.add(last_ms + self._lateness_ms, window, DueTimes.CLEAN_UP)

    def next_due(self) -> int | None:
        """Return when the next window that has slices is due, or None."""
        return self._due.next()

    def _advance(self, passed_ms: int) -> None:
        for window, what in self._due.pop_due(passed_ms):
            if what == DueTimes.FIRE:
                self._fire(window)
                if self._lateness_ms:
                    clean_up_ms = window + self._grid.size_ms - 1 + self._lateness_ms
                    self._due.add(clean_up_ms, window, DueTimes.CLEAN_UP)
                    continue
            self._clean_up(window)
        if self._waiting_due_ms <= passed_ms:
            self._fire_waiting(passed_ms)

    def _clean_up(self, window: int) -> None:
        """Forget a window, and the slices of which it was the last."""
        self._windows.discard(window)
        for start in self._grid.slices_of(window):
            if start in self._slices and self._grid.windows_of(start)[0] == window:
                self._kinds.learn(self._slices.end(start).kinds)

    def _fire(self, window: int, keys: list[Any] | None = None) -> None:
        """Take the results of a window, of all its keys or of some; hand them on as soon as they are a portion."""
        slices = self._slices_of(window)
        if keys is None:
            groups = self._running.window(slices)
            slots = groups.every()
        else:
            groups = self._make_groups()
            for _, held in slices:
                groups.merge(held)
            slots = groups.slots_of(keys)
        for portion in portions(slots):
            windows = np.full(len(portion), window)
            self._results.add(windows, windows + self._grid.size_ms, groups.columns(portion))

    def _slices_of(self, window: int) -> list[tuple[int, Groups]]:
        """Return the slices of a window that have records, in order of time."""
        starts = self._grid.slices_of(window)
        return [(start, self._slices[start]) for start in starts if start in self._slices]

    def snapshot_state(self) -> tuple[int, Kinds]:
        """Return the time passed, by which it is known which windows had fired, and the types of what is kept."""
        self._put_into_slices()
        for groups in self._slices.every():
            self._kinds.learn(groups.kinds)
        return self._passed_ms, self._kinds.kinds

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each key has, by start of the slice."""
        self._put_into_slices()
        return self._slices.entries()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint, and the slices that are gone."""
        self._put_into_slices()
        return self._slices.add_changed(changes)

    def forget_changes(self) -> None:
        """Take the slices as they are as known."""
        self._slices.forget_changes()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what keys have."""
        for start, (keys, held) in entries_by_start(entries).items():
            groups = self._slice(start)
            groups.learn(self._kinds.kinds)
            groups.restore(keys, held)


def _runs(starts: Any) -> Iterator[tuple[int, Any]]:
    """Yield each slice with its rows, in order of time."""
    first = int(starts[0])
    if (starts == first).all():
        yield first, np.arange(len(starts))
        return
    order = np.argsort(starts, kind="stable")
    sorted_starts = starts[order]
    bounds = np.flatnonzero(np.diff(sorted_starts)) + 1
    for rows in np.split(order, bounds):
        yield int(starts[rows[0]]), rows
