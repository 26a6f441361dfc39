"""Rows that wait until event time has passed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.table.runtime.growing import GrowingRows, Lane

__all__ = ["TimeBuffer"]

_LEAST_DEAD = 1 << 14


class TimeBuffer:
    """Rows with a time and a slot each.

    Args:
        kinds: Arrow types of the columns.

    Attributes:
        rows: The rows.
        slot_of: The slot of each row.
        times: The time of each row, epoch milliseconds.
        next_ms: No row waits for an earlier time.
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self._kinds = list(kinds)
        self._begin()

    def _begin(self) -> None:
        self.rows = GrowingRows(self._kinds)
        self.slot_of, self.times = Lane(np.int64), Lane(np.int64)
        self._live = Lane(bool, fill=False)
        self.next_ms = MAX_TIMESTAMP

    def add(self, columns: Sequence[pa.Array], slots: Any, times: Any) -> None:
        """Have rows wait."""
        count = len(times)
        if not count:
            return
        rows = self.rows.append(columns, count)
        for lane in (self.slot_of, self.times, self._live):
            lane.reach(self.rows.count)
        self.slot_of.array[rows] = slots
        self.times.array[rows] = times
        self._live.array[rows] = True
        self.next_ms = min(self.next_ms, int(times.min()))

    @property
    def live(self) -> Any:
        """Numbers of the rows that wait, in the order in which they came."""
        return np.flatnonzero(self._live.array[: self.rows.count])

    def due(self, time_ms: int) -> Any:
        """Return the numbers of rows whose time is not after another, in the order in which they came."""
        if self.next_ms > time_ms:
            return np.empty(0, np.int64)
        live = self.live
        return live[self.times.array[live] <= time_ms]

    def remove(self, rows: Any) -> None:
        """Have rows wait no more; numbers of rows are others from then on."""
        self._live.array[rows] = False
        live = self.live
        self.next_ms = int(self.times.array[live].min()) if len(live) else MAX_TIMESTAMP
        if not len(live):
            self._begin()
        elif self.rows.count > _LEAST_DEAD and 2 * len(live) < self.rows.count:
            self.rows.keep(live)
            for lane in (self.slot_of, self.times, self._live):
                lane.keep(live)

    def renumber(self, slots: Any) -> None:
        """Have slots numbered anew: ascending slots become 0, 1, ..."""
        live = self.live
        self.slot_of.array[live] = np.searchsorted(slots, self.slot_of.array[live])

    def entries(self, slots: Any) -> list[list[Any]]:
        """Return for each slot, ascending, its rows, for a checkpoint."""
        live = self.live
        of = self.slot_of.array[live]
        place = np.searchsorted(slots, of)
        mine = (
            (place < len(slots)) & (slots[np.minimum(place, len(slots) - 1)] == of) if len(slots) else of < 0
        )
        live, place = live[mine], place[mine]
        entries: list[list[Any]] = [[] for _ in range(len(slots))]
        times = self.times.array[live].tolist()
        for at, time, row in zip(place.tolist(), times, self.rows.entries(live), strict=True):
            entries[at].append((time, row))
        return entries

    def restore(self, slots: Any, entries: Sequence[Sequence[Any]]) -> None:
        """Take over what `entries` gave."""
        flat = [row for each in entries for row in each]
        if flat:
            held = GrowingRows(self._kinds)
            rows = held.restore([row for _, row in flat])
            of = np.repeat(np.asarray(slots, np.int64), [len(each) for each in entries])
            self.add(held.take(rows), of, np.array([time for time, _ in flat], np.int64))
