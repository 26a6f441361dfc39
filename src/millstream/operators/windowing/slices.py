"""Sliding event-time windows whose records are kept in slices that windows share.

The starts and ends of all windows cut time into slices. A record is added to one slice, and a window that
fires combines the slices it consists of, so the cost of a record does not grow with size / slide::

    size 7, slide 3     event time   0  1  2  3  4  5  6  7  8  9  10 11 12 13
                        slices       |a-|b----|a-|b----|a-|b----|a-|b----|a-|
                        windows      [====================)
                                              [====================)
                                                       [====================)

If the slide divides the size there is one slice for each slide; else two, cut at `size % slide` (here 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.common.windows import TimeWindow
from millstream.operators.windowing.base import DueTimes, WindowOperator
from millstream.operators.windowing.folds import Pane

__all__ = ["SliceOperator"]


class SliceOperator(WindowOperator):
    """Slices by start, `{start: {key: accumulator}}`, and due times of windows.

    A window fires for all its keys at once, in order of its slices and of the keys' first records in them.
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

    def snapshot_state(self) -> tuple[int, dict[int, Pane]]:
        """Return the watermark and the slices by start."""
        return self.watermark_ms, self._slices

    def restore_state(self, snapshot: tuple[int, dict[int, Pane]]) -> None:
        """Take over slices; windows that had fired are known by the watermark."""
        self.watermark_ms = max(self.watermark_ms, snapshot[0])
        for start, pane in snapshot[1].items():
            self._slice(start).update(pane)

    def _add_batch(self, values: list[Any], timestamps: list[int]) -> None:
        rows = zip(self._keys(values), values, self._slice_starts(timestamps), timestamps, strict=True)
        self._fold.add_all(rows, self._live, self._open, self._add_behind)

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

    def _slices_of(self, window_start: int) -> Iterator[int]:
        """Yield the starts of the slices of a window that hold records, in order of time."""
        cut = self._size_ms % self._slide_ms
        for start in range(window_start, window_start + self._size_ms, self._slide_ms):
            if start in self._slices:
                yield start
            if cut and start + cut < window_start + self._size_ms and start + cut in self._slices:
                yield start + cut

    def _open(self, start: int) -> Pane | None:
        """Make a live slice, unless one of its windows has ended or it lies in a gap."""
        windows = self._windows_of(start)
        if not windows or windows[-1] + self._size_ms - 1 <= self.watermark_ms:
            return None
        return self._slice(start)

    def _slice(self, start: int) -> Pane:
        pane = self._slices.get(start)
        if pane is None:
            pane = self._slices[start] = {}
            windows = self._windows_of(start)
            if windows[-1] + self._size_ms - 1 > self.watermark_ms:
                self._live[start] = pane
            for window in windows:
                self._plan(window)
        return pane

    def _plan(self, window: int) -> None:
        last_ms = window + self._size_ms - 1
        if window in self._windows or last_ms + self._lateness_ms <= self.watermark_ms:
            return
        self._windows.add(window)
        if last_ms > self.watermark_ms:
            self._due.add(last_ms, window, DueTimes.FIRE)
        else:
            self._due.add(last_ms + self._lateness_ms, window, DueTimes.CLEAN_UP)

    def _add_behind(self, start: int, key: Any, value: Any, timestamp: int) -> None:
        """Add a record some of whose windows have ended: those that are kept fire at once."""
        last_kept_ms = self.watermark_ms - self._lateness_ms
        kept = [window for window in self._windows_of(start) if window + self._size_ms - 1 > last_kept_ms]
        if not kept:
            if timestamp <= last_kept_ms:
                self._add_late(value, timestamp)
            return
        self._fold.add_one(self._slice(start), key, value)
        for window in kept:
            if window + self._size_ms - 1 <= self.watermark_ms:
                self._fire_key(window, key)

    def _fire_key(self, window: int, key: Any) -> None:
        parts = [self._slices[start] for start in self._slices_of(window)]
        accumulator = self._fold.combine([part[key] for part in parts if key in part])
        self._fire(TimeWindow(window, window + self._size_ms), [(key, accumulator)], shared=False)

    def _fire_all(self, window: int) -> None:
        by_key: dict[Any, list[Any]] = {}
        for start in self._slices_of(window):
            for key, accumulator in self._slices[start].items():
                if key in by_key:
                    by_key[key].append(accumulator)
                else:
                    by_key[key] = [accumulator]
        combine = self._fold.combine
        contents = [(key, combine(parts)) for key, parts in by_key.items()]
        self._fire(TimeWindow(window, window + self._size_ms), contents, shared=False)

    def _advance(self, watermark_ms: int) -> None:
        for window, what in self._due.pop_due(watermark_ms):
            if what == DueTimes.FIRE:
                self._fire_all(window)
                for start in list(self._slices_of(window)):
                    if start >= window + self._size_ms - self._slide_ms:
                        self._live.pop(start, None)
                if self._lateness_ms:
                    self._due.add(window + self._size_ms - 1 + self._lateness_ms, window, DueTimes.CLEAN_UP)
                    continue
            self._clean_up(window)

    def _clean_up(self, window: int) -> None:
        """Forget a window, and the slices of which it was the last."""
        self._windows.discard(window)
        if self._firing.clears:
            keys = dict.fromkeys(key for start in self._slices_of(window) for key in self._slices[start])
            self._firing.clear(TimeWindow(window, window + self._size_ms), keys)
        for start in list(self._slices_of(window)):
            if start < window + self._slide_ms:
                del self._slices[start]
                self._live.pop(start, None)
