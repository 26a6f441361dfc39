"""A hash table of integers in numpy: all rows of a batch at a time."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

__all__ = ["NumberTable"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_LEAST_BITS = 8
_EMPTY = -1


class NumberTable:
    """Integers of 64 bits to slots, by open addressing, all rows at a time.

    Each round looks up the rows that are not done at their place in the table. A row that finds its number is done.
    One that finds another's goes on to the next place. Where a place is empty the first row that came to it takes it::

        rows          7  3  7  9            3 and 9 have the same place
        round 1       -  -  -  -            7 and 3 take their places
        round 2       0  1  0  -            9 finds 3
        round 3                -            9 takes the next place
        round 4                2
    """

    def __init__(self) -> None:
        self._numbers = np.zeros(1 << _LEAST_BITS, np.int64)
        self._count = 0
        self._null: int | None = None
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
        before, slots = self._count, np.empty(len(numbers), np.int64)
        waiting = np.ascontiguousarray(numbers)
        rows: Any = slice(None)
        places = self._places(waiting)
        taken: list[tuple[Any, Any]] = []
        resized = False
        while True:
            found = self._table[places]
            hit = self._numbers[found] == waiting
            hit &= found >= 0  # -1, an empty place, has found the last number
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
                taken.append(self._take(rows[empty], waiting[empty], places[empty]))
                if self._count * 2 > self._mask:
                    self._resize()
                    places, resized = self._places(waiting), True
                    continue
            places = np.where(empty, places, (places + 1) & self._mask)
        if len(taken) > 1:
            self._put_in_order(before, taken, slots, resized=resized)
        return slots

    def _places(self, numbers: Any) -> Any:
        return (numbers.view(np.uint64) * _FACTOR >> self._shift).view(np.int64)

    def _resize(self) -> None:
        """Make the table so large that it is a quarter full."""
        bits = max(_LEAST_BITS, (4 * self._count - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._table = np.full(1 << bits, _EMPTY, np.int32)
        waiting = np.arange(self._count, dtype=np.int32)
        if self._null is not None:
            waiting = np.delete(waiting, self._null)
        places = self._places(self._numbers[waiting])
        while len(waiting):
            free = self._table[places] == _EMPTY
            self._table[places[free]] = waiting[free]
            left = self._table[places] != waiting
            waiting, places = waiting[left], (places[left] + 1) & self._mask

    def _take(self, rows: Any, numbers: Any, places: Any) -> tuple[Any, Any]:
        """Give empty places to the first rows that came to them; return these rows and places."""
        claims = np.arange(len(rows), dtype=np.int32)
        self._table[places[::-1]] = claims[::-1]
        first = self._table[places] == claims
        rows, places = rows[first], places[first]
        start = self._count
        self._make_room(len(rows))
        self._numbers[start : self._count] = numbers[first]
        self._table[places] = np.arange(start, self._count)
        return rows, places

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
