"""How often each value is there in each slot: what MIN and MAX with retraction and DISTINCT need to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.growing import GrowingRows, Lane
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import Multimap

__all__ = ["PairTable"]

_LEAST_DEAD = 1 << 16


class PairTable:
    """Pairs of a slot and the values of some columns, numbered from 0, with a count each.

    Args:
        kinds: Arrow types of the values.

    Attributes:
        counts: By pair.
        slot_of: The slot of each pair.
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self._value_kinds = list(kinds)
        self._make()

    def _make(self) -> None:
        self._keys = KeySlots([pa.int64(), *self._value_kinds])
        self._values = GrowingRows(self._value_kinds)
        self._by_slot = Multimap()
        self.counts = Lane(np.int64)
        self.slot_of = Lane(np.int64)

    def __len__(self) -> int:
        return self._values.count

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> tuple[Any, Any, Any]:
        """Add to counts.

        Returns:
            The pairs that were touched, ascending, and their counts before and now.
        """
        pairs = self._keys.of([pa.array(slots), *columns], len(slots))
        known, count = self._values.count, len(self._keys)
        if count > known:
            self._append_new(pairs, slots, columns, known, count)
        touched = _distinct(pairs, count)
        before = self.counts.array[touched]
        np.add.at(self.counts.array, pairs, 1 if weights is None else weights)
        return touched, before, self.counts.array[touched]

    def _append_new(
        self, pairs: Any, slots: Any, columns: Sequence[pa.Array], known: int, count: int
    ) -> None:
        first = np.empty(count - known, np.int64)
        fresh = np.flatnonzero(pairs >= known)[::-1]
        first[pairs[fresh] - known] = fresh
        rows = self._values.append([column.take(pa.array(first)) for column in columns], count - known)
        self.counts.reach(count)
        self.slot_of.reach(count)[known:count] = slots[first]
        self._by_slot.append(slots[first], rows)

    def values(self, pairs: Any) -> list[pa.Array]:
        """Return the values of pairs."""
        return self._values.take(pairs)

    def of_slots(self, slots: Any) -> tuple[Any, Any]:
        """Return the places in `slots`, and the pairs that are there of each."""
        who, pairs = self._by_slot.fetch(slots)
        there = self.counts.array[pairs] > 0
        return who[there], pairs[there]

    def clear(self, slots: Any) -> None:
        """Have nothing in slots."""
        _, pairs = self._by_slot.fetch(slots)
        self.counts.array[pairs] = 0

    @property
    def is_wasteful(self) -> bool:
        """Whether most pairs are not there any more."""
        count = self._values.count
        return count > _LEAST_DEAD and 2 * int(np.count_nonzero(self.counts.array[:count] > 0)) < count

    def keep(self, slots: Any) -> None:
        """Have the pairs that are there of some slots only, and number these anew in the order given."""
        who, pairs = self.of_slots(slots)
        columns, counts = self._values.take(pairs), self.counts.array[pairs]
        self._make()
        if len(pairs):
            self.add(who, counts, columns)

    def entries(self, slots: Any) -> list[list[tuple[int, tuple[Any, ...]]]]:
        """Return for each slot its counts and values."""
        who, pairs = self.of_slots(slots)
        entries: list[list[tuple[int, tuple[Any, ...]]]] = [[] for _ in range(len(slots))]
        values = self._values.entries(pairs)
        for place, count, value in zip(who.tolist(), self.counts.array[pairs].tolist(), values, strict=True):
            entries[place].append((count, value))
        return entries

    def restore(self, slots: Any, entries: Sequence[Sequence[tuple[int, tuple[Any, ...]]]]) -> None:
        """Take over what `entries` gave."""
        flat = [pair for each in entries for pair in each]
        if not flat:
            return
        of = np.repeat(np.asarray(slots, np.int64), [len(each) for each in entries])
        counts = np.array([count for count, _ in flat], np.int64)
        self.add(of, counts, self.columns_of([values for _, values in flat]))

    def columns_of(self, values: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        """Return columns of values as `entries` gives them."""
        held = GrowingRows(self._value_kinds)
        return held.take(held.restore(values))


def _distinct(numbers: Any, count: int) -> Any:
    """Return the different numbers below a count, ascending."""
    if len(numbers) * 16 < count:
        return np.unique(numbers)
    mask = np.zeros(count, bool)
    mask[numbers] = True
    return np.flatnonzero(mask)
