"""What operators over windows that rows have already have in common: they wait until the watermark passes a window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import OwnEntries, RestoreScope
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, EpochOperator, Input
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched
from millstream.table.runtime.window_slots import WindowSlots

__all__ = ["WINDOW_ROWS", "WindowRowsOperator"]

WINDOW_ROWS = "window-rows"
"""Entries of rows in windows: (start, end) -> key -> what the operator keeps."""

_LEAST_DEAD = 4_096


class WindowRowsOperator(EpochOperator):
    """Base of window joins, Top-N of windows and deduplication in windows.

    Args:
        kinds: For each input the Arrow types of its columns.
        keys: For each input the places of the key columns.
        windows: For each input the places of window_start and window_end.
        processing: Whether windows end by the clock.
        zone: The zone whose clocks windows go by; None for UTC.
    """

    def __init__(
        self,
        kinds: Sequence[list[pa.DataType]],
        keys: Sequence[Sequence[int]],
        windows: Sequence[tuple[int, int]],
        *,
        processing: bool,
        zone: str | None,
    ) -> None:
        super().__init__(kinds, [False] * len(kinds))
        self._places = [list(each) for each in keys]
        self._bounds = list(windows)
        self._processing = processing
        self.slots = WindowSlots([kinds[0][place] for place in keys[0]], zone)
        self._touched = Touched()
        self._ended: set[tuple[int, int]] = set()
        self.fired_ms = MIN_TIMESTAMP

    @abstractmethod
    def add(self, index: int, rows: Input, slots: Any) -> None:
        """Keep rows of an input that are in time."""

    @abstractmethod
    def fire(self, slots: Any) -> None:
        """Emit the results of slots, and forget their rows."""

    @abstractmethod
    def renumber(self, slots: Any) -> None:
        """Have some slots only, ascending, numbered anew."""

    @abstractmethod
    def entries(self, slots: Any) -> list[Any]:
        """Return what slots, ascending, have, for a checkpoint."""

    @abstractmethod
    def restore(self, slots: Any, entries: list[Any]) -> None:
        """Take over what `entries` gave."""

    def work(self, inputs: list[Input | None]) -> None:
        """Keep rows that are in time."""
        for index, rows in enumerate(inputs):
            if rows is None:
                continue
            first, last = self._bounds[index]
            starts, ends = millis_of(rows.columns[first]), millis_of(rows.columns[last])
            if not self._processing:
                in_time = self.slots.instants(ends) > np.maximum(rows.seen, self.fired_ms)
                if not in_time.all():
                    self.count(LATE_ROWS_DROPPED, rows.count - int(np.count_nonzero(in_time)))
                    rows, starts, ends = rows.filter(in_time), starts[in_time], ends[in_time]
            if not rows.count:
                continue
            keys = [rows.columns[place] for place in self._places[index]]
            slots = self.slots.of(starts, ends, keys)
            self._touched.note(slots, len(self.slots))
            self.add(index, rows, slots)

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Fire the windows that end before a watermark."""
        if not self._processing:
            self._fire_until(timestamp_ms)

    def on_processing_time(self) -> None:
        """Fire the windows that have ended by the clock."""
        if self._processing:
            self._work()
            self._fire_until(self.context.time.now_ms)

    def next_processing_time(self) -> int | None:
        """Return when the next window ends by the clock."""
        return self.slots.next_ms if self._processing and self.slots.next_ms != MAX_TIMESTAMP else None

    def _fire_until(self, time_ms: int) -> None:
        self.fired_ms = max(self.fired_ms, time_ms)
        due = self.slots.due(time_ms)
        if not len(due):
            return
        if self._touched.known:
            self._ended.update(bounds for bounds, _ in self.slots.by_window(due))
        self.fire(due)
        self.slots.end(due)
        live = self.slots.every
        if len(self.slots) > _LEAST_DEAD and 2 * len(live) < len(self.slots):
            self.slots.keep(live)
            self._touched.keep(live)
            self.renumber(live)

    def snapshot_state(self) -> int | None:
        """Return until when windows have fired."""
        return None if self.fired_ms in (MIN_TIMESTAMP, MAX_TIMESTAMP) else self.fired_ms

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over until when windows have fired: all subtasks are at the same watermark at a checkpoint."""
        self.fired_ms = max(self.fired_ms, snapshot)
        if not self._processing:
            self.watermark_ms = self._emitted_ms = max(self.watermark_ms, snapshot)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what is kept of each window and key."""
        for bounds, slots in self.slots.by_window(self.slots.every):
            ascending = np.sort(slots)
            yield WINDOW_ROWS, bounds, zip(self.slots.keys(ascending), self.entries(ascending), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what changed of windows and keys."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self.slots)):
            return False
        if self._ended:
            changes.dropped[WINDOW_ROWS] = sorted(self._ended)
        for bounds, held in self.slots.by_window(slots[self.slots.live.array[slots]]):
            ascending = np.sort(held)
            for key, entry in zip(self.slots.keys(ascending), self.entries(ascending), strict=True):
                changes.put(WINDOW_ROWS, bounds, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()
        self._ended.clear()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what is kept of windows and keys."""
        if entries:
            slots = self.slots.of_entries(
                [bounds for bounds, _, _ in entries], [key for _, key, _ in entries]
            )
            self.restore(slots, [entry for _, _, entry in entries])
