"""Keys within windows that rows have already: slots, when they end, and how checkpoints name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import runs_of
from millstream.table.runtime.times import instants_of
from millstream.types.numpy_views import as_numpy

__all__ = ["WindowSlots"]


class WindowSlots:
    """Pairs of a window and a key.

    Args:
        kinds: Arrow types of the key columns.
        zone: The zone whose clocks windows go by; None for UTC.

    Attributes:
        last_ms: The last millisecond of the window of each slot.
        live: Whether a slot has anything.
        next_ms: No live window ends before.
    """

    def __init__(self, kinds: Sequence[pa.DataType], zone: str | None) -> None:
        self._zone = zone
        self._slots = KeySlots([pa.int64(), pa.int64(), *kinds])
        self._kinds = list(kinds)
        self.last_ms = Lane(np.int64)
        self.live = Lane(bool, fill=False)
        self.next_ms = MAX_TIMESTAMP

    def __len__(self) -> int:
        return len(self._slots)

    def instants(self, ends: Any) -> Any:
        """Return the last millisecond before ends of windows, as moments."""
        return instants_of(ends, self._zone) - 1

    def of(self, starts: Any, ends: Any, keys: Sequence[pa.Array]) -> Any:
        """Return the slot of each row, live from now on."""
        slots = self._slots.of([pa.array(starts), pa.array(ends), *keys], len(starts))
        last_ms = self.instants(ends)
        count = len(self._slots)
        self.last_ms.reach(count)[slots] = last_ms
        self.live.reach(count)[slots] = True
        if len(slots):
            self.next_ms = min(self.next_ms, int(last_ms.min()))
        return slots

    def due(self, time_ms: int) -> Any:
        """Return live slots whose window has ended."""
        if self.next_ms > time_ms:
            return np.empty(0, np.int64)
        live = self.every
        return live[self.last_ms.array[live] <= time_ms]

    @property
    def every(self) -> Any:
        """All live slots, ascending."""
        return np.flatnonzero(self.live.array[: len(self._slots)])

    def end(self, slots: Any) -> None:
        """Have slots not be live any more."""
        self.live.array[slots] = False
        live = self.every
        self.next_ms = int(self.last_ms.array[live].min()) if len(live) else MAX_TIMESTAMP

    def by_window(self, slots: Any) -> Iterator[tuple[tuple[int, int], Any]]:
        """Yield start and end of each window, and its slots."""
        if not len(slots):
            return
        starts, ends = (as_numpy(column) for column in self._slots.columns(slots)[:2])
        order = np.lexsort((ends, starts))
        starts, ends = starts[order], ends[order]
        changes = np.concatenate([[0], np.cumsum((starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1]))])
        for first, length in zip(*runs_of(changes), strict=True):
            yield (int(starts[first]), int(ends[first])), slots[order[first : first + length]]

    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots, as exchanges deal them."""
        keys = KeySlots(self._kinds)
        return keys.keys(keys.of(self._slots.columns(slots)[2:], len(slots)))

    def of_entries(self, bounds: Sequence[tuple[int, int]], keys: Sequence[Any]) -> Any:
        """Return slots of windows and canonical keys."""
        held = KeySlots(self._kinds)
        slots = held.of_keys(keys)
        both = np.array(bounds, np.int64).reshape(-1, 2)
        return self.of(both[:, 0], both[:, 1], held.columns(slots))

    def keep(self, slots: Any) -> None:
        """Have some slots only, numbered anew in the order given."""
        self._slots.keep(slots)
        self.last_ms.keep(slots)
        self.live.keep(slots)
