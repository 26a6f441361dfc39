"""Sliding windows by time whose records are kept in slices that windows share.

The starts and ends of all windows cut time into slices. A record is added to one slice, and a window that
fires is made of the slices it consists of, step by step (`running`), so the cost of a record does not grow with
size / slide::

    size 7, slide 3     event time   0  1  2  3  4  5  6  7  8  9  10 11 12 13
                        slices       |a-|b----|a-|b----|a-|b----|a-|b----|a-|
                        windows      [====================)
                                              [====================)
                                                       [====================)

If the slide divides the size there is one slice for each slide; else two, cut at `size % slide` (here 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from millstream.common.windows import TimeWindow
from millstream.operators.base import OperatorContext, Output, OwnEntries, RestoreScope
from millstream.operators.own_entries import TouchedPanes, touched_panes
from millstream.operators.windowing.base import DueTimes, TimedWindowOperator
from millstream.operators.windowing.folds import Pane
from millstream.operators.windowing.in_order import stretches
from millstream.operators.windowing.running import RunningWindows
from millstream.operators.windowing.runs import first_end
from millstream.state.snapshots import Entries, StateChanges

__all__ = ["SLICES", "SliceOperator"]

SLICES = "slices"
"""Entries of slices: start -> key -> accumulator."""


class SliceOperator(TimedWindowOperator):
    """Slices by start, `{start: {key: accumulator}}`, and due times of windows.

    A window fires for all its keys at once, in an order that does not depend on how the input is cut.
    Slices are combined in order of time, whatever the order of arrival.

    `live` slices are those of which no window has ended; only they are reached from the hot loop.

    Args:
        size_ms: Length of a window.
        slide_ms: From start to start.
        offset_ms: Moves all starts.
        shared: For `WindowOperator`.
    """

    def __init__(self, *, size_ms: int, slide_ms: int, offset_ms: int, **shared: Any) -> None:
        super().__init__(**shared)
        self._size_ms = size_ms
        self._slide_ms = slide_ms
        self._offset_ms = offset_ms
        self._slices: dict[int, Pane] = {}
        self._live: dict[int, Pane] = {}
        self._windows: set[int] = set()
        self._due = DueTimes()
        self._touched: TouchedPanes | None = None
        self._running = RunningWindows(self._fold, self._slices, self._slices_in)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._touched = touched_panes(context)

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over the time passed, by which it is known which windows had fired."""
        self._restore_time(snapshot)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return accumulators by start of the slice and key."""
        for start, pane in self._slices.items():
            yield SLICES, start, pane.items()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the accumulators that changed, and the slices that are gone."""
        return self._touched is not None and self._touched.add_to(changes, SLICES, self._slices)

    def forget_changes(self) -> None:
        """Take the slices as they are as known."""
        if self._touched is not None:
            self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over accumulators."""
        for start, key, accumulator in entries:
            self._slice(start)[key] = accumulator

    def window_panes(self) -> dict[int, Pane]:
        """Return the accumulators of whole windows by start, as if they had had panes."""
        panes: dict[int, Pane] = {}
        for window in sorted(self._windows):
            by_key = self._parts_by_key(window)
            panes[window] = {key: self._fold.combine(parts) for key, parts in by_key.items()}
        return panes

    def first_due(self, timestamp: int) -> int:
        """Return the last millisecond of the record's window that ends first."""
        return first_end(timestamp, self._size_ms, self._slide_ms, self._offset_ms) - 1

    def late_from(self, timestamp: int) -> int:
        """Return when the record's last window is kept no longer; without windows, when its own time is over."""
        newest = timestamp - (timestamp - self._offset_ms) % self._slide_ms
        return max(newest + self._size_ms - 1, timestamp) + self._lateness_ms

    def _add_batch(self, values: list[Any], timestamps: list[int]) -> None:
        keys, touched, slide = self._keys(values), self._touched, self._slide_ms
        in_order = None if self._size_ms % slide else stretches(timestamps, slide, self._offset_ms)
        if in_order is not None:
            columns = (keys, values, timestamps)
            self._fold.add_in_order(in_order, columns, self._live, self._open, self._add_behind)
            starts = [start for start, _, _ in in_order]
        else:
            starts = self._slice_starts(timestamps)
            rows = zip(keys, values, starts, timestamps, strict=True)
            self._fold.add_all(rows, self._live, self._open, self._add_behind)
        if touched is not None:
            touched.note(keys, starts, self._slices)

    def _slice_starts(self, timestamps: list[int]) -> list[int]:
        slide, offset = self._slide_ms, self._offset_ms
        cut = self._size_ms % slide
        if not cut:
            return [timestamp - (timestamp - offset) % slide for timestamp in timestamps]
        return [
            timestamp - into if (into := (timestamp - offset) % slide) < cut else timestamp - into + cut
            for timestamp in timestamps
        ]

    def _windows_of(self, slice_start: int) -> range:
        """Return the starts of the windows that hold a slice, the newest first; none in a gap."""
        newest = slice_start - (slice_start - self._offset_ms) % self._slide_ms
        return range(newest, slice_start - self._size_ms, -self._slide_ms)

    def _slices_in(self, start: int, end: int) -> Iterator[int]:
        """Yield the starts of the slices with records in `[start, end)`, in order of time."""
        slide, cut, slices = self._slide_ms, self._size_ms % self._slide_ms, self._slices
        for grid in range(start - (start - self._offset_ms) % slide, end, slide):
            if grid in slices and grid >= start:
                yield grid
            if cut and start <= grid + cut < end and grid + cut in slices:
                yield grid + cut

    def _slices_of(self, window: int) -> Iterator[int]:
        return self._slices_in(window, window + self._size_ms)

    def _open(self, start: int) -> Pane | None:
        """Make a live slice, unless one of its windows has ended or it lies in a gap."""
        windows = self._windows_of(start)
        if not windows or windows[-1] + self._size_ms - 1 <= self._passed_ms:
            return None
        return self._slice(start)

    def _slice(self, start: int) -> Pane:
        pane = self._slices.get(start)
        if pane is None:
            pane = self._slices[start] = {}
            windows = self._windows_of(start)
            if windows[-1] + self._size_ms - 1 > self._passed_ms:
                self._live[start] = pane
            self._plan_all(windows)
        return pane

    def _plan_all(self, windows: range) -> None:
        """Plan the windows of a new slice, the newest first.

        Older slices have planned the oldest of them, newer slices the newest: what is left lies between.
        """
        planned = False
        for window in windows:
            if window in self._windows:
                if planned:
                    return
            elif window + self._size_ms - 1 + self._lateness_ms <= self._passed_ms:
                return
            else:
                self._plan(window)
                planned = True

    def _plan(self, window: int) -> None:
        last_ms = window + self._size_ms - 1
        self._windows.add(window)
        if last_ms > self._passed_ms:
            self._due.add(last_ms, window, DueTimes.FIRE)
        else:
            self._due.add(last_ms + self._lateness_ms, window, DueTimes.CLEAN_UP)

    def _add_behind(self, start: int, key: Any, value: Any, timestamp: int) -> None:
        """Add a record some of whose windows have ended: those that are kept fire at once."""
        last_kept_ms = self._passed_ms - self._lateness_ms
        kept = [window for window in self._windows_of(start) if window + self._size_ms - 1 > last_kept_ms]
        if not kept:
            if timestamp <= last_kept_ms:
                self._add_late(value, timestamp)
            return
        self._fold.add_one(self._slice(start), key, value)
        self._running.touch(start, key)
        for window in kept:
            if window + self._size_ms - 1 <= self._passed_ms:
                self._fire_key(window, key)

    def _fire_key(self, window: int, key: Any) -> None:
        parts = [self._slices[start] for start in self._slices_of(window)]
        accumulator = self._fold.combine([part[key] for part in parts if key in part])
        self._fire(TimeWindow(window, window + self._size_ms), [(key, accumulator)], shared=False)

    def _parts_by_key(self, window: int) -> dict[Any, list[Any]]:
        """Return each key's accumulators in a window, in order of time."""
        by_key: dict[Any, list[Any]] = {}
        for start in self._slices_of(window):
            for key, accumulator in self._slices[start].items():
                if key in by_key:
                    by_key[key].append(accumulator)
                else:
                    by_key[key] = [accumulator]
        return by_key

    def next_due(self) -> int | None:
        """Return when the next window is due, or None."""
        return self._due.next()

    def _advance(self, passed_ms: int) -> None:
        size, slide = self._size_ms, self._slide_ms
        for start, what in self._due.pop_due(passed_ms):
            window = TimeWindow(start, start + size)
            keys: Iterable[Any] | None = None
            if what == DueTimes.FIRE:
                contents = self._running.window(start, start + size)
                self._fire(window, contents, shared=False)
                for ended in list(self._slices_in(start + size - slide, start + size)):
                    self._live.pop(ended, None)
                if self._lateness_ms:
                    self._due.add(window.end - 1 + self._lateness_ms, start, DueTimes.CLEAN_UP)
                    continue
                keys = [key for key, _ in contents]
            self._clean_up(window, keys)

    def _clean_up(self, window: TimeWindow, keys: Iterable[Any] | None) -> None:
        """Forget a window, and the slices of which it was the last; keys are looked up if not known."""
        self._windows.discard(window.start)
        if self._firing.clears:
            self._firing.clear(window, self._parts_by_key(window.start) if keys is None else keys)
        for start in list(self._slices_in(window.start, window.start + min(self._slide_ms, self._size_ms))):
            del self._slices[start]
            if self._touched is not None:
                self._touched.end(start)
            self._live.pop(start, None)
