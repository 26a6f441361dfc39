"""The aggregates of the records of each slice of windows, by key, and what of them changed since a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.operators.base import OwnEntries
from millstream.operators.columnar.groups import Groups
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.operators.windowing.slices import SLICES
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays

__all__ = ["HeldSlices", "entries_by_start"]


class _Slice:
    """The aggregates of the records of one slice."""

    def __init__(self, groups: Groups, *, known: bool) -> None:
        self.groups = groups
        self.touched = TouchedSlots(known=known)


class HeldSlices:
    """Slices by their start.

    Args:
        make: Makes groups without keys.
    """

    def __init__(self, make: Callable[[], Groups]) -> None:
        self._make = make
        self._slices: dict[int, _Slice] = {}
        self._ended: set[int] = set()
        self._known = False

    def __contains__(self, start: int) -> bool:
        return start in self._slices

    def __bool__(self) -> bool:
        return bool(self._slices)

    def __getitem__(self, start: int) -> Groups:
        return self._slices[start].groups

    @property
    def newest(self) -> int:
        """The start of the last slice, of which there has to be one."""
        return max(self._slices)

    def every(self) -> Iterator[Groups]:
        """Yield what each slice has."""
        for held in self._slices.values():
            yield held.groups

    def open(self, start: int) -> None:
        """Add a slice without records."""
        self._slices[start] = _Slice(self._make(), known=self._known)

    def note(self, start: int, slots: Any) -> None:
        """Learn that slots of a slice have changed."""
        held = self._slices[start]
        held.touched.note(slots, len(held.groups))

    def end(self, start: int) -> Groups:
        """Forget a slice; return what it had."""
        self._ended.add(start)
        return self._slices.pop(start).groups

    def entries(self) -> Iterator[OwnEntries]:
        """Return what each key has, by start of the slice."""
        for start, held in self._slices.items():
            groups, every = held.groups, held.groups.every()
            yield SLICES, start, zip(groups.keys(every), groups.entries(every), strict=True)

    def add_changed(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint, and the slices that are gone.

        Returns:
            Whether that is worth it: if not, everything is to be written.
        """
        changed = [(start, held, held.touched.slots()) for start, held in self._slices.items()]
        total = sum(map(len, self.every()))
        if not self._known or not pays(sum(len(slots) for _, _, slots in changed), total):
            return False
        if self._ended:
            changes.dropped[SLICES] = sorted(self._ended)
        for start, held, slots in changed:
            for key, entry in zip(held.groups.keys(slots), held.groups.entries(slots), strict=True):
                changes.put(SLICES, start, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take the slices as they are as known."""
        self._known = True
        self._ended.clear()
        for held in self._slices.values():
            held.touched.forget()


def entries_by_start(entries: Entries) -> dict[int, tuple[list[Any], list[Any]]]:
    """Return keys and entries of each slice."""
    by_start: dict[int, tuple[list[Any], list[Any]]] = {}
    for start, key, entry in entries:
        keys, of_keys = by_start.setdefault(start, ([], []))
        keys.append(key)
        of_keys.append(entry)
    return by_start
