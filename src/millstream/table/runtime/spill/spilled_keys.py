"""Which keys of a join have their rows in memory, and the way there and back.

::

    an epoch's keys ──► those whose rows may be on disk, and are not in memory: one look-up, sorted by number
    work in memory   ──► as ever
    memory is full   ──► what changed is written as one run; keys that were not used lately leave memory

A key's number is its key group, then 48 bits of its hash, so rows lie on disk by key group. Keys that share a number
are read and written together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from millstream.state.key_hash import hash_columns
from millstream.state.snapshots import KeyedStatePatch, States
from millstream.state.touched import pays
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.join_rows import JoinRows
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.sorting import distinct_sorted
from millstream.table.runtime.spill.packed_rows import PackedRows, entries_of
from millstream.table.runtime.spill.run_store import WEIGHT
from millstream.table.runtime.spill.spilled_side import SpilledSide

__all__ = ["SpilledKeys"]

_GROUP_SHIFT = np.uint64(33)
_HASH_BITS = np.uint64(48)
_LOW = np.uint64((1 << 48) - 1)
_PORTION = 1 << 16
_SLOT_BYTES = 80
_MOST_PARTS = 32
_NOBODY_ASKS = 1 << 62


class SpilledKeys(JoinRows):
    """Keeps the rows of a join's keys within a budget of memory.

    Args:
        keys: The keys in memory.
        sides: Left and right.
        names: What their entries are called.
        budget_bytes: Memory for rows, about.
        max_parallelism: Number of key groups.
    """

    def __init__(
        self,
        keys: KeySlots,
        sides: Sequence[SpilledSide],
        names: Sequence[str],
        *,
        budget_bytes: int,
        max_parallelism: int,
    ) -> None:
        super().__init__(keys, sides, names)
        self.sides = list(sides)
        self._budget_bytes = budget_bytes
        self._groups = np.uint64(max_parallelism)
        self._numbers = Lane(np.uint64)
        self._used = Lane(np.int64)
        self._loaded = [Lane(bool), Lane(bool)]
        self._known = 0
        self._round = 0
        self._touched: list[Any] | None = None

    # Into memory

    def reach(self) -> None:
        """Learn of keys that are new in memory."""
        count = len(self._keys)
        if count == self._known:
            return
        new = np.arange(self._known, count)
        hashes = hash_columns(self._keys.columns(new))
        numbers = (hashes >> _GROUP_SHIFT) % self._groups << _HASH_BITS | hashes & _LOW
        self._numbers.reach(count)[new] = numbers
        self._used.reach(count)[new] = self._round
        for loaded in self._loaded:
            loaded.reach(count)[new] = False
        self._known = count

    def bring(self, index: int, slots: Any) -> None:
        """Have all rows of some keys of one side in memory."""
        self.reach()
        self._used.array[slots] = self._round
        loaded, side = self._loaded[index].array, self.sides[index]
        missing = slots[~loaded[slots]]
        if not len(missing):
            return
        found = side.store.find(distinct_sorted(self._numbers.array[missing])) if side.store.runs else None
        if found is not None and len(found):
            slots_of = self._keys.of(side.key_columns(found), len(found))
            self.reach()
            loaded = self._loaded[index].array
            # Another key of the same number may be in memory already.
            new = np.flatnonzero(~loaded[slots_of])
            if len(new) < len(found):
                found, slots_of = found.take(new), slots_of[new]
            side.load(found, slots_of)
            loaded[slots_of] = True
            self._used.array[slots_of] = self._round
        loaded[missing] = True

    # Out of memory

    def end_round(self, now_ms: int) -> None:
        """Give back memory if there is too much; called when an epoch's rows have been worked on."""
        self.reach()
        self._round += 1
        for side in self.sides:
            side.store.now_ms = now_ms
            side.store.release()
            if self._touched is None:
                side.store.settled = _NOBODY_ASKS
        size = self.nbytes
        if size > self._budget_bytes:
            self._leave(self._lately(size))

    @property
    def nbytes(self) -> int:
        """Memory that rows and keys take, about."""
        lanes = (self._numbers, self._used, *self._loaded)
        return (
            sum(side.nbytes for side in self.sides)
            + sum(lane.array.nbytes for lane in lanes)
            + len(self._keys) * _SLOT_BYTES
        )

    def _lately(self, size: int) -> Any:
        """Return the keys that were used last, so many that half of the budget is enough for them."""
        used = self._used.array[: self._known]
        most = self._known * self._budget_bytes // (2 * size)
        rounds, counts = np.unique(used, return_counts=True)
        fitting = np.cumsum(counts[::-1]) <= most
        if not fitting.any():
            return np.empty(0, np.int64)
        return np.flatnonzero(used >= rounds[::-1][fitting][-1])

    def _leave(self, kept: Any) -> None:
        """Have only some keys in memory; what the others have goes to disk."""
        stays = np.zeros(self._known, bool)
        stays[kept] = True
        new_slots = np.cumsum(stays) - 1
        for side in self.sides:
            held = side.held
            slots = side.slot_of.array[held]
            going = ~stays[slots]
            side.write(held[going], self._numbers.array)
            side.keep(held[~going], new_slots[slots[~going]])
        self._keys.keep(kept)
        for lane in (self._numbers, self._used, *self._loaded):
            lane.keep(kept)
        self._known = len(kept)

    def write_all(self) -> None:
        """Have everything on disk."""
        self.reach()
        stays = np.ones(self._known, bool)
        for side, loaded in zip(self.sides, self._loaded, strict=True):
            held = side.held
            side.write(held, self._numbers.array)
            # Of a key whose rows on disk were never asked for, those in memory would be read a second time.
            slots = side.slot_of.array[held]
            stays[slots[~loaded.array[slots]]] = False
        if not stays.all():
            self._leave(np.flatnonzero(stays))

    def expire(self, now_ms: int) -> None:
        """Remove from disk what has expired as a whole."""
        for side in self.sides:
            side.store.expire(now_ms)

    def close(self) -> None:
        """Remove everything from disk."""
        for side in self.sides:
            side.store.close()

    # Checkpoints

    def note(self, slots: Any) -> None:
        """Note that rows of keys change."""
        if self._touched is None:
            return
        self.reach()
        self._touched.append(distinct_sorted(self._numbers.array[slots]))
        if len(self._touched) == _MOST_PARTS:
            self._touched = [distinct_sorted(np.concatenate(self._touched))]

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched = []
        for side in self.sides:
            side.store.settled = side.store.newest

    def states(self) -> Iterator[tuple[int, States]]:
        """Yield all rows by key group."""
        self.write_all()
        for name, side in zip(self._names, self.sides, strict=True):
            for numbers, rows in side.store.scan():
                packed = side.packed(rows)
                for group, start, stop in _by_group(numbers):
                    part = PackedRows(packed.slice(start, stop - start), side.keys, side.key_kinds)
                    yield group, {name: part}  # type: ignore[dict-item]
            side.store.release()

    def entries(self) -> Iterator[tuple[str, Iterator[tuple[Any, Any]]]]:
        """Yield what each side is called, and its keys with their rows."""
        self.write_all()
        for name, side in zip(self._names, self.sides, strict=True):
            yield name, self._entries(side)

    def _entries(self, side: SpilledSide) -> Iterator[tuple[Any, Any]]:
        for _, rows in side.store.scan():
            yield from entries_of(side.packed(rows), side.keys, side.key_kinds)

    def patches(self) -> Iterator[tuple[int, KeyedStatePatch]] | None:
        """Return the rows of keys that changed, by key group; None if everything is to be written."""
        if self._touched is None:
            return None
        numbers = distinct_sorted(np.concatenate([np.empty(0, np.uint64), *self._touched]))
        self.write_all()
        if not pays(len(numbers), sum(side.store.count for side in self.sides)):
            return None
        return self._patches(numbers)

    def _patches(self, numbers: Any) -> Iterator[tuple[int, KeyedStatePatch]]:
        for start in range(0, len(numbers), _PORTION):
            portion = numbers[start : start + _PORTION]
            patches: dict[int, KeyedStatePatch] = {}
            for name, side in zip(self._names, self.sides, strict=True):
                self._patch(name, side, portion, patches)
                side.store.release()
            yield from sorted(patches.items())

    def _patch(self, name: str, side: SpilledSide, numbers: Any, patches: dict[int, KeyedStatePatch]) -> None:
        """Add what changed of one side to patches by key group."""
        found = side.store.find(numbers, gone=True)
        if found is None or not len(found):
            return
        index = KeySlots(side.key_kinds)
        slots = index.of(side.key_columns(found), len(found))
        there = np.ones(len(found), bool)
        if WEIGHT in found.schema.names:
            there = found.column(WEIGHT).to_numpy() != 0
        every = np.arange(len(index))
        hashes = hash_columns(index.columns(every))
        groups = ((hashes >> _GROUP_SHIFT) % self._groups).astype(np.int64)
        gone = np.ones(len(index), bool)
        gone[slots[there]] = False
        for slot, key in zip(every[gone].tolist(), index.keys(every[gone]), strict=True):
            patch = patches.setdefault(int(groups[slot]), KeyedStatePatch())
            patch.removed.setdefault(name, []).append((None, key))
        places = np.flatnonzero(there)
        of_group = groups[slots[places]]
        order = np.argsort(of_group, kind="stable")
        packed = side.packed(found.take(places[order]))
        of_group = of_group[order]
        edges = np.flatnonzero(np.diff(of_group)) + 1
        bounds = [0, *edges.tolist(), len(of_group)] if len(of_group) else [0]
        for start, stop in itertools.pairwise(bounds):
            patch = patches.setdefault(int(of_group[start]), KeyedStatePatch())
            rows = packed.slice(start, stop - start)
            patch.changed[name] = PackedRows(rows, side.keys, side.key_kinds)  # type: ignore[assignment]

    def restore(self, name: str, entries: Any) -> None:
        """Take over the rows of keys of one side, packed or not.

        Args:
            name: Which side they are of.
            entries: As `restore_entries` is given them.
        """
        if not isinstance(entries, PackedRows):
            super().restore(name, entries)
            return
        side = self.sides[self._names.index(name)]
        columns = side.columns_of_keys(entries.rows)
        side.restore_packed(entries.rows, self._keys.of(columns, len(entries.rows)))


def _by_group(numbers: Any) -> Iterator[tuple[int, int, int]]:
    """Yield each key group with where its rows begin and end."""
    groups = (numbers >> _HASH_BITS).astype(np.int64)
    edges = np.flatnonzero(np.diff(groups)) + 1
    bounds = [0, *edges.tolist(), len(groups)]
    for start, stop in itertools.pairwise(bounds):
        yield int(groups[start]), start, stop
