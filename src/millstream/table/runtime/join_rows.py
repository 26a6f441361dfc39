"""Where the rows of a join's keys are; `spill/spilled_keys.py` keeps most of them on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.state.snapshots import Entries, KeyedStatePatch, StateChanges, States
from millstream.state.touched import pays
from millstream.table.runtime.join_side import JoinSide
from millstream.table.runtime.key_slots import KeySlots

__all__ = ["JoinRows", "RowsInMemory"]

_LEAST_DEAD = 1 << 16


class JoinRows(ABC):
    """The rows of a join's keys, on both sides; the subtask's thread calls it.

    Args:
        keys: The keys in memory.
        sides: Left and right: the rows in memory.
        names: What their entries are called.
    """

    def __init__(self, keys: KeySlots, sides: Sequence[JoinSide], names: Sequence[str]) -> None:
        self._keys, self._names = keys, tuple(names)
        self._sides = list(sides)

    @abstractmethod
    def note(self, slots: Any) -> None:
        """Note that rows of keys change."""

    @abstractmethod
    def forget_changes(self) -> None:
        """Take what is there as known."""

    @abstractmethod
    def entries(self) -> Iterator[tuple[str, Iterable[tuple[Any, Any]]]]:
        """Yield what each side is called, and its keys with their rows."""

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of keys that changed; return whether those are all."""
        return False

    def states(self) -> Iterator[tuple[int, States]] | None:
        """Return all rows by key group, in columns; None if they are given as entries."""
        return None

    def patches(self) -> Iterator[tuple[int, KeyedStatePatch]] | None:
        """Return the rows of keys that changed, by key group, in columns; None if there is no such list."""
        return None

    def restore(self, name: str, entries: Entries) -> None:
        """Take over the rows of keys of one side."""
        slots = self._keys.of_keys([key for _, key, _ in entries])
        self._sides[self._names.index(name)].restore(slots, [entry for _, _, entry in entries])

    def bring(self, index: int, slots: Any) -> None:
        """Have all rows of some keys of one side in memory."""

    def end_round(self, now_ms: int) -> None:
        """Give back memory if there is too much; called when an epoch's rows have been worked on."""

    def expire(self, now_ms: int) -> None:
        """Remove what is not in memory and has expired."""

    def squeeze(self) -> None:
        """Give back the room of rows that are gone; called at a checkpoint."""

    def close(self) -> None:
        """Remove what is not in memory."""


class RowsInMemory(JoinRows):
    """All rows are in memory."""

    def __init__(self, keys: KeySlots, sides: Sequence[JoinSide], names: Sequence[str]) -> None:
        super().__init__(keys, sides, names)
        self._touched = TouchedSlots(known=False)

    def note(self, slots: Any) -> None:
        """Note that rows of keys change."""
        self._touched.note(slots, len(self._keys))

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def entries(self) -> Iterator[tuple[str, Iterable[tuple[Any, Any]]]]:
        """Yield what each side is called, and its keys with their rows."""
        for name, side in zip(self._names, self._sides, strict=True):
            slots = np.unique(side.slot_of.array[side.used])
            yield name, zip(self._keys.keys(slots), side.entries(slots), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of keys that changed; return whether those are all."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        keys = self._keys.keys(slots)
        for name, side in zip(self._names, self._sides, strict=True):
            for key, entry in zip(keys, side.entries(slots), strict=True):
                if entry:
                    changes.put(name, None, key, entry)
                else:
                    changes.remove(name, None, key)
        return True

    def squeeze(self) -> None:
        """Give back the room of rows that are gone, if they are many."""
        total = sum(side.rows.count for side in self._sides)
        if total < _LEAST_DEAD:
            return
        used = [side.used for side in self._sides]
        if 2 * sum(map(len, used)) >= total:
            return
        slots = [side.slot_of.array[rows] for side, rows in zip(self._sides, used, strict=True)]
        kept = np.unique(np.concatenate(slots))
        self._keys.keep(kept)
        for side, rows, of in zip(self._sides, used, slots, strict=True):
            side.keep(rows, np.searchsorted(kept, of))
        self._touched = TouchedSlots(known=False)
