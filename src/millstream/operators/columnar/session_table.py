"""Sessions of keys in columns: bounds and aggregates by slot.

A key has a number (`key_index.py`), a session has a slot. Which sessions a key has is found in the slots sorted by the
numbers of their keys::

    numbers of keys, sorted   0  0  1  4  4  4
    slots                     7  2  0  3  5  9      key 4 has the sessions 3, 5 and 9

Slots and keys of sessions that are gone stay until they are more than those that are left; then all are numbered anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.columnar.accumulator_set import AccumulatorSet
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.groups import Kinds
from millstream.operators.columnar.key_numbers import KeyNumbers
from millstream.operators.columnar.slot_values import grown
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.state.touched import pays

__all__ = ["Found", "KeptSession", "SessionTable"]

KeptSession = tuple[int, int, tuple[Any, ...], bool]
"""Start, end, one part for each aggregate, whether it has fired: as sessions of rows are kept."""

_LEAST_SLOTS = 1_024


class Found(NamedTuple):
    """Sessions that some rows may be part of.

    Attributes:
        slots: Their slots.
        numbers: The numbers of their keys.
        starts: Times of their first records.
        ends: Times of their last records, plus the gap.
    """

    slots: Any
    numbers: Any
    starts: Any
    ends: Any


@dataclass(slots=True)
class _Bounds:
    """What is known of each session beside its aggregates: arrays by slot.

    Attributes:
        numbers: The number of its key.
        starts: Time of its first record.
        ends: Time of its last record, plus the gap.
        dues: When it fires, or is forgotten.
        orders: Breaks ties between sessions that are due at the same time: order of creation.
        fired: Whether it has fired since its end was last set.
        live: Whether it is there.
    """

    numbers: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    starts: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    dues: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    orders: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    fired: Any = field(default_factory=lambda: np.zeros(0, bool))
    live: Any = field(default_factory=lambda: np.zeros(0, bool))

    def grown(self, capacity: int) -> _Bounds:
        """Return the same with room for so many slots."""
        return _Bounds(*(grown(getattr(self, each.name), capacity) for each in fields(self)))

    def taken(self, slots: Any) -> _Bounds:
        """Return what some slots have."""
        return _Bounds(*(getattr(self, each.name)[slots] for each in fields(self)))


class SessionTable:
    """The sessions of all keys.

    Args:
        key_names: Names of the key columns.
        aggregates: What is computed.

    Attributes:
        accumulators: What sessions have come to, by slot.
    """

    def __init__(self, key_names: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        self._key_names = key_names
        self._aggregates = aggregates
        self._keys = KeyNumbers(key_names)
        self._touched = TouchedSlots(known=False)
        self._kept_keys = 0
        self.accumulators = AccumulatorSet(aggregates)
        self._count = self._live_count = 0
        self._of = _Bounds()
        self._next_due: int | None = None  # None if it is not known, too
        self._sorted_numbers, self._sorted_slots = np.zeros(0, np.int64), np.zeros(0, np.int64)

    @property
    def kinds(self) -> Kinds:
        """The types that were learnt from the columns so far."""
        return self._keys.kinds, self.accumulators.kinds

    def learn(self, kinds: Kinds) -> None:
        """Take over types.

        Raises:
            TypeMismatchError: If they do not go with those that are known.
        """
        keys, kept = kinds
        self._keys.learn(keys)
        self.accumulators.learn(kept)

    def numbers_of(self, keys: Sequence[pa.Array]) -> Any:
        """Return the number of each row's key."""
        return self._keys.of(keys)

    def find(self, numbers: Any, first_ms: int, last_ms: int) -> Found:
        """Return the sessions of keys that overlap or touch a stretch of time.

        Args:
            numbers: Numbers of keys, in any order and as often as it may be.
            first_ms: Where the stretch begins.
            last_ms: Where it ends.
        """
        are_asked = np.zeros(len(self._keys), bool)
        are_asked[numbers] = True
        asked = np.flatnonzero(are_asked)
        left = np.searchsorted(self._sorted_numbers, asked, "left")
        counts = np.searchsorted(self._sorted_numbers, asked, "right") - left
        into = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        slots, of = self._sorted_slots[np.repeat(left, counts) + into], self._of
        near = of.live[slots] & (of.ends[slots] >= first_ms) & (of.starts[slots] <= last_ms)
        slots = slots[near]
        return Found(slots, of.numbers[slots], of.starts[slots], of.ends[slots])

    def open(self, numbers: Any, orders: Any) -> Any:
        """Return slots for new sessions, which are there as soon as they have bounds.

        Args:
            numbers: Numbers of their keys.
            orders: Their order of creation.
        """
        slots = np.arange(self._count, self._count + len(numbers))
        self._count += len(slots)
        self.accumulators.reach(self._count)
        if self._count > len(self._of.live):
            self._of = self._of.grown(max(_LEAST_SLOTS, 2 * self._count))
        self._of.numbers[slots], self._of.orders[slots] = numbers, orders
        return slots

    def set_bounds(self, slots: Any, starts: Any, ends: Any) -> None:
        """Set the bounds of sessions, new ones or such that are there; `set_fired` is to follow.

        Args:
            slots: The sessions.
            starts: Time of the first record of each.
            ends: Time of its last record, plus the gap.
        """
        of = self._of
        of.starts[slots], of.ends[slots] = starts, ends
        fresh = slots[~of.live[slots]]
        if len(fresh):
            of.live[fresh] = True
            self._live_count += len(fresh)
            fresh = fresh[np.argsort(of.numbers[fresh], kind="stable")]
            places = np.searchsorted(self._sorted_numbers, of.numbers[fresh], "right")
            self._sorted_numbers = np.insert(self._sorted_numbers, places, of.numbers[fresh])
            self._sorted_slots = np.insert(self._sorted_slots, places, fresh)

    def set_fired(self, slots: Any, fired: Any, lateness_ms: int) -> None:
        """Set whether sessions have fired: those that have are due when they are kept no longer."""
        of = self._of
        of.fired[slots] = fired
        lasts = of.ends[slots] - 1
        kept_until = np.minimum(lasts, MAX_TIMESTAMP - lateness_ms) + lateness_ms
        of.dues[slots] = np.where(fired, kept_until, lasts)
        self._next_due = None
        self._touch(slots)

    def remove(self, slots: Any) -> None:
        """Forget sessions, also such that never had bounds."""
        self._touch(slots)
        self._live_count -= int(self._of.live[slots].sum())
        self._of.live[slots] = False
        self._next_due = None

    def _touch(self, slots: Any) -> None:
        self._touched.note(self._of.numbers[slots], len(self._keys))

    def next_due(self) -> int | None:
        """Return when the next session is due, or None."""
        if self._next_due is None and self._live_count:
            self._next_due = int(self._of.dues[self._of.live].min())
        return self._next_due

    def due(self, passed_ms: int) -> Any:
        """Return the sessions that are due by a time, in this order of time."""
        of = self._of
        slots = np.flatnonzero(of.live & (of.dues <= passed_ms))
        return slots[np.lexsort((of.orders[slots], of.dues[slots]))]

    def have_fired(self, slots: Any) -> Any:
        """Return whether sessions have fired since they last grew."""
        return self._of.fired[slots]

    def bounds(self, slots: Any) -> tuple[Any, Any]:
        """Return the starts and ends of sessions."""
        return self._of.starts[slots], self._of.ends[slots]

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key columns and the results of sessions."""
        return [*self._keys.columns(self._of.numbers[slots]), *self.accumulators.results(slots)]

    def entries(self) -> Iterator[tuple[Any, list[KeptSession]]]:
        """Yield each key with its sessions, in order of time."""
        return self._entries_of(np.flatnonzero(self._of.live))

    def changed(self) -> tuple[Iterator[tuple[Any, list[KeptSession]]], list[Any]] | None:
        """Return the keys whose sessions have changed, with these, and the keys that have none any more.

        Returns:
            None if that is not known, or everything is hardly more.
        """
        numbers = self._touched.slots()
        if not self._touched.known or not pays(len(numbers), self._live_count):
            return None
        live = np.flatnonzero(self._of.live)
        live = live[np.isin(self._of.numbers[live], numbers)]
        gone = np.setdiff1d(numbers, self._of.numbers[live])
        return self._entries_of(live), self._keys.keys(gone)

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def _entries_of(self, live: Any) -> Iterator[tuple[Any, list[KeptSession]]]:
        if not len(live):
            return
        of = self._of.taken(live)
        order = np.lexsort((of.starts, of.numbers))
        live, of = live[order], of.taken(order)
        bounds = zip(of.starts.tolist(), of.ends.tolist(), strict=True)
        entries = zip(bounds, self.accumulators.entries(live), of.fired.tolist(), strict=True)
        kept = [(start, end, entry, fired) for (start, end), entry, fired in entries]
        firsts = np.flatnonzero(np.append(True, of.numbers[1:] != of.numbers[:-1]))
        ends = [*firsts.tolist()[1:], len(live)]
        for key, first, end in zip(self._keys.keys(of.numbers[firsts]), firsts.tolist(), ends, strict=True):
            yield key, kept[first:end]

    def restore(self, keys: list[Any], kept: list[list[KeptSession]], lateness_ms: int) -> None:
        """Take over what `entries` gave, of keys that are not there yet; `learn` was called before.

        Args:
            keys: The keys, at least one.
            kept: The sessions of each.
            lateness_ms: How long those that have fired are kept.
        """
        numbers = np.repeat(self._keys.of_keys(keys), [len(of_key) for of_key in kept])
        starts, ends, entries, fired = zip(*(each for of_key in kept for each in of_key), strict=True)
        slots = self.open(numbers, np.arange(self._count, self._count + len(numbers)))
        self.accumulators.restore(slots, entries)
        self.set_bounds(slots, np.array(starts, np.int64), np.array(ends, np.int64))
        self.set_fired(slots, np.array(fired, bool), lateness_ms)

    def tidy(self) -> None:
        """Number sessions and keys anew if most of them are gone."""
        spare = self._count + len(self._keys) - 2 * self._live_count
        if spare <= 2 * max(_LEAST_SLOTS, self._live_count, self._kept_keys):
            return
        live = np.flatnonzero(self._of.live)
        old, accumulators = self._of.taken(live), self.accumulators
        numbers = self._number_keys_anew(old.numbers)
        self.accumulators, self._of, self._count = AccumulatorSet(self._aggregates), _Bounds(), 0
        self.accumulators.learn(accumulators.kinds)
        slots = self.open(numbers, old.orders)
        self.accumulators.merge(slots, accumulators, live)
        self._of = replace(old, numbers=numbers)
        order = np.argsort(numbers, kind="stable")
        self._sorted_numbers, self._sorted_slots = numbers[order], slots[order]

    def _number_keys_anew(self, numbers: Any) -> Any:
        """Keep some keys, and those that have changed; return the numbers that the former have now."""
        touched, before = self._touched.slots(), self._keys
        kept = np.union1d(numbers, touched)
        self._keys = KeyNumbers(self._key_names)
        self._keys.learn(before.kinds)
        anew = self._keys.of(before.columns(kept))
        self._kept_keys = len(kept)
        self._touched = TouchedSlots(known=self._touched.known)
        self._touched.note(anew[np.searchsorted(kept, touched)], len(kept))
        return anew[np.searchsorted(kept, numbers)]
