"""A table of integers in numpy: all rows of a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

__all__ = ["NumberTable"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_LEAST_BITS = 8
_EMPTY = -1
_MOST_APART = 8
"""A direct table has at most so many places for each number when it is made: about what hashes take."""
_FIRST_ROWS = 128
_LEAST_NUMBER = -(1 << 63)


class NumberTable:
    """Integers of 64 bits to slots, all rows at a time.

    Numbers that lie close together, as ids that somebody counted, are places in the table themselves: it is **direct**
    and begins at the least of them. As soon as they lie farther apart places are hashes, and numbers are found by open
    addressing. Each round looks up the rows that are not done at their place. A row that finds its number is done. One
    that finds another's goes on to the next place. Where a place is empty the first row that came to it takes it::

        rows          7  3  7  9            3 and 9 have the same place
        round 1       0  1  -  -            7 and 3 take their places
        round 2             0  -            9 finds 3
        round 3                -            9 takes the next place
    """

    def __init__(self) -> None:
        self._numbers = np.zeros(1 << _LEAST_BITS, np.int64)
        self._count = 0
        self._null: int | None = None
        self._base: int | None = None  # the number of the first place, if the table is direct
        self._resize()

    def __len__(self) -> int:
        return self._count

    @property
    def numbers(self) -> Any:
        """The numbers by slot; anything in the slot of null."""
        return self._numbers[: self._count]

    @property
    def null_slot(self) -> int | None:
        """The slot of null, if it has one."""
        return self._null

    def copy(self) -> NumberTable:
        """Return a table of the same numbers, with the same slots."""
        copied = copy(self)
        copied._numbers = self._numbers.copy()
        copied._table = self._table.copy()
        return copied

    def slot_of_null(self) -> int:
        """Return the slot of null, which gets the next one if it has none."""
        if self._null is None:
            self._null = self._count
            self._make_room(1)
        return self._null

    def slots(self, numbers: Any) -> Any:
        """Return the slot of each number; those that are new get the next ones, in the order of the rows."""
        if not len(numbers):
            return np.empty(0, np.int64)
        if (self._base is not None or not self._count) and self._reaches(numbers):
            return self._direct_slots(numbers)
        if not self._count and len(numbers) > _FIRST_ROWS:
            return self._in_two(self.slots, numbers)
        before, slots = self._count, np.empty(len(numbers), np.int64)
        waiting = np.ascontiguousarray(numbers)
        rows: Any = slice(None)
        places = self._places(waiting)
        taken: list[tuple[Any, Any]] = []
        resized = False
        while True:
            found = self._table.take(places, mode="clip")
            hit = self._numbers.take(found, mode="clip") == waiting
            hit &= found >= 0  # -1, an empty place, has found the first number
            if hit.all():
                slots[rows] = found
                break
            missed = ~hit
            if isinstance(rows, slice):
                slots[hit] = found[hit]
                rows = np.flatnonzero(missed)
            else:
                slots[rows[hit]] = found[hit]
                rows = rows[missed]
            waiting, places, empty = waiting[missed], places[missed], found[missed] < 0
            if empty.any():
                fresh = np.flatnonzero(empty)
                first = self._take(waiting[fresh], places[fresh])
                winners = fresh[first]
                slots[rows[winners]] = np.arange(self._count - len(winners), self._count)
                taken.append((rows[winners], places[winners]))
                left = np.ones(len(rows), bool)
                left[winners] = False
                rows, waiting, places, empty = rows[left], waiting[left], places[left], empty[left]
                if self._count * 2 > self._mask:
                    self._resize()
                    places, resized = self._places(waiting), True
                    continue
            places = np.where(empty, places, (places + 1) & self._mask)
        if len(taken) > 1:
            self._put_in_order(before, taken, slots, resized=resized)
        if resized:
            self._try_direct()
        return slots

    def _reaches(self, numbers: Any) -> bool:
        """Let a direct table have a place for each number; it has hashes if they lie too far apart."""
        low, high = int(numbers.min()), int(numbers.max())
        base, spare = self._base, _MOST_APART * (self._count + len(numbers))
        if base is None:
            spare -= high + 1 - low
        else:
            last = base + len(self._table) - 1
            if base <= low and high <= last:
                return True
            spare -= max(high, last) + 1 - min(low, base)
            # What grows at one end will go on there: as much again, if that leaves something for the other.
            more = min(spare // 2, len(self._table))
            low, high = (low - more if low < base else base), (high + more if high > last else last)
        if spare >= 0:
            self._make_direct(low, high)
            return True
        if base is not None:
            self._resize()
        return False

    def _try_direct(self) -> None:
        """Make the table direct if the numbers that are there lie close together."""
        numbers = self._numbers[self._not_null()]
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < _MOST_APART * self._count:
            self._make_direct(low, high)

    def _make_direct(self, low: int, high: int) -> None:
        self._base = max(low, _LEAST_NUMBER)
        self._table = np.full(high - self._base + 1, _EMPTY, np.int32)
        slots = self._not_null()
        self._table[self._numbers[slots] - self._base] = slots

    def _in_two(self, slots: Callable[[Any], Any], numbers: Any) -> Any:
        """Look up a few rows first: few numbers are all there then, and the others are found in one round."""
        return np.concatenate([slots(numbers[:_FIRST_ROWS]), slots(numbers[_FIRST_ROWS:])])

    def _direct_slots(self, numbers: Any) -> Any:
        if not self._count and len(numbers) > _FIRST_ROWS:
            return self._in_two(self._direct_slots, numbers)
        places = numbers - self._base
        found = self._table.take(places)
        empty = found < 0
        if empty.any():
            rows = np.flatnonzero(empty)
            self._take(numbers[rows], places[rows])
            found[rows] = self._table.take(places[rows])
        return found.astype(np.int64)

    def _not_null(self) -> Any:
        """Return the slots of numbers."""
        slots = np.arange(self._count, dtype=np.int32)
        return slots if self._null is None else np.delete(slots, self._null)

    def _places(self, numbers: Any) -> Any:
        return (numbers.view(np.uint64) * _FACTOR >> self._shift).view(np.int64)

    def _resize(self) -> None:
        """Make the table one of hashes, so large that it is a quarter full."""
        self._base = None
        bits = max(_LEAST_BITS, (4 * self._count - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._table = np.full(1 << bits, _EMPTY, np.int32)
        waiting = self._not_null()
        places = self._places(self._numbers[waiting])
        while len(waiting):
            free = self._table[places] == _EMPTY
            self._table[places[free]] = waiting[free]
            left = self._table[places] != waiting
            waiting, places = waiting[left], (places[left] + 1) & self._mask

    def _take(self, numbers: Any, places: Any) -> Any:
        """Give empty places to the first rows that came to them; return whether each row was the first."""
        claims = np.arange(len(numbers), dtype=np.int32)
        self._table[places[::-1]] = claims[::-1]
        first = self._table.take(places) == claims
        start, numbers = self._count, numbers[first]
        self._make_room(len(numbers))
        self._numbers[start : self._count] = numbers
        self._table[places[first]] = np.arange(start, self._count)
        return first

    def _make_room(self, count: int) -> None:
        self._count += count
        if self._count > len(self._numbers):
            grown = np.zeros(max(2 * len(self._numbers), self._count), np.int64)
            grown[: len(self._numbers)] = self._numbers
            self._numbers = grown

    def _put_in_order(self, before: int, taken: list[tuple[Any, Any]], slots: Any, *, resized: bool) -> None:
        """Number new numbers anew, in the order of their first rows, whatever the round in which they got a place."""
        order = np.argsort(np.concatenate([rows for rows, _ in taken]), kind="stable")
        ranks = np.empty(len(order), np.int32)
        ranks[order] = np.arange(before, self._count)
        self._numbers[before : self._count] = self._numbers[before : self._count][order]
        held = self._table
        places = (
            np.flatnonzero(held >= before) if resized else np.concatenate([places for _, places in taken])
        )
        held[places] = ranks[held[places] - before]
        fresh = slots >= before
        slots[fresh] = ranks[slots[fresh] - before]
