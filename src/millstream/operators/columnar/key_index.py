"""Keys in columns to slots: numbers from 0, in the order in which keys came.

Keys of one column of integers are found by a hash table in numpy, all others by a dict, after equal ones of a batch
have been put together; what is done for each row is numpy's either way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import TypeMismatchError
from millstream.operators.columnar.slot_values import Storage, as_numbers, common_type, storage_of
from millstream.state.keys import canonical_keys, original_key
from millstream.types.arrow_values import values_of

__all__ = ["KeyIndex", "build_index"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_LEAST_BITS = 8
_EMPTY = -1


class KeyIndex(ABC):
    """The keys that there are, by slot.

    Args:
        names: Names of the key columns.
        kinds: Their Arrow types.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        self.names = list(names)
        self.kinds = list(kinds)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def copy(self) -> KeyIndex:
        """Return an index of the same keys, with the same slots."""

    @abstractmethod
    def slots(self, columns: Sequence[pa.Array]) -> Any:
        """Return the slot of each row; keys that are new get the next ones."""

    @abstractmethod
    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key columns of slots."""

    @abstractmethod
    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots."""

    def slots_of_keys(self, keys: Sequence[Any]) -> Any:
        """Return the slots of canonical keys; new ones get the next."""
        return self.slots(columns_of_keys(keys, self.kinds))

    def learn(self, kinds: Sequence[pa.DataType]) -> None:
        """Take note of the types of columns to come.

        Raises:
            TypeMismatchError: If they do not go with those before.
        """
        for place, kind in enumerate(kinds):
            before = self.kinds[place]
            common = common_type(self.names[place], before, kind)
            if pa.types.is_floating(common) and not all(map(_is_float_or_null, (before, kind))):
                raise TypeMismatchError(
                    f"key field {self.names[place]!r} holds values of type {kind}, after values of type {before}",
                    detail="1 and 1.0 are two keys, so a key column does not turn from one to the other.",
                )
            self.kinds[place] = common


def columns_of_keys(keys: Sequence[Any], kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the columns of canonical keys."""
    values = [original_key(key) for key in keys]
    if len(kinds) == 1:
        return [pa.array(values, kinds[0])]
    parts = zip(*values, strict=True) if values else [()] * len(kinds)
    return [pa.array(list(part), kind) for part, kind in zip(parts, kinds, strict=True)]


def build_index(names: Sequence[str], kinds: Sequence[pa.DataType]) -> KeyIndex:
    """Return an index without keys, by what the columns are."""
    if len(kinds) == 1 and _fits_numbers(kinds[0]):
        return NumberIndex(names, kinds)
    return ObjectIndex(names, kinds)


def _is_float_or_null(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_null(kind))


def _fits_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and storage_of(kind) is Storage.INTEGERS


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


class NumberIndex(KeyIndex):
    """Keys of one column of integers."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        super().__init__(names, kinds)
        self._table = NumberTable()

    def __len__(self) -> int:
        return len(self._table)

    def copy(self) -> NumberIndex:
        """Return an index of the same keys, with the same slots."""
        copied = NumberIndex(self.names, self.kinds)
        copied._table = self._table.copy()
        return copied

    def slots(self, columns: Sequence[pa.Array]) -> Any:
        """Return the slot of each row."""
        (column,) = columns
        self.learn([column.type])
        if pa.types.is_null(column.type):
            return np.full(len(column), self._table.slot_of_null()) if len(column) else np.empty(0, np.int64)
        if not column.null_count:
            return self._table.slots(as_numbers(column, Storage.INTEGERS))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        slots = np.empty(len(column), np.int64)
        slots[valid] = self._table.slots(as_numbers(column.drop_null(), Storage.INTEGERS))
        slots[~valid] = self._table.slot_of_null()
        return slots

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key column of slots."""
        null_slot = self._table.null_slot
        absent = None if null_slot is None else slots == null_slot
        return [pa.array(self._table.numbers[slots], mask=absent).cast(self.kinds[0])]

    def keys(self, slots: Any) -> list[Any]:
        """Return the keys of slots, which are canonical."""
        return list(self.columns(slots)[0].to_pylist())


class ObjectIndex(KeyIndex):
    """Keys of any columns, as a dict has them."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        super().__init__(names, kinds)
        self._slots: dict[Any, int] = {}
        self._keys: list[Any] = []
        self._parts: list[list[pa.Array]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> ObjectIndex:
        """Return an index of the same keys, with the same slots."""
        copied = ObjectIndex(self.names, self.kinds)
        copied._slots, copied._keys = dict(self._slots), list(self._keys)
        copied._parts = list(self._parts)
        return copied

    def slots(self, columns: Sequence[pa.Array]) -> Any:
        """Return the slot of each row."""
        self.learn([column.type for column in columns])
        if not len(columns[0]):
            return np.empty(0, np.int64)
        codes, first_rows = _distinct(columns)
        distinct = [column.take(pa.array(first_rows)) for column in columns]
        keys = canonical_keys(_keys_of(distinct))
        found = list(map(self._slots.get, keys))
        if None in found:
            self._add(keys, found, distinct)
        return np.array(found, np.int64)[codes]

    def _add(self, keys: list[Any], found: list[int | None], distinct: list[pa.Array]) -> None:
        """Give slots to the keys that have none."""
        new = []
        for place, key in enumerate(keys):
            if found[place] is None:
                slot = self._slots.get(key)  # NaNs of several kinds are one key
                if slot is None:
                    slot = self._slots[key] = len(self._keys)
                    self._keys.append(key)
                    new.append(place)
                found[place] = slot
        self._parts.append([column.take(pa.array(new, pa.int64())) for column in distinct])

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key columns of slots."""
        if not self._parts:
            return [pa.nulls(0, kind) for kind in self.kinds]
        if len(self._parts) > 1:
            columns = zip(*self._parts, strict=True)
            self._parts = [
                [
                    pa.concat_arrays([part.cast(kind) for part in parts])
                    for parts, kind in zip(columns, self.kinds, strict=True)
                ]
            ]
        taken = pa.array(slots)
        return [
            column.take(taken).cast(kind) for column, kind in zip(self._parts[0], self.kinds, strict=True)
        ]

    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots."""
        keys = self._keys
        return [keys[slot] for slot in slots.tolist()]


def _keys_of(columns: list[pa.Array]) -> list[Any]:
    values = [values_of(column) for column in columns]
    return values[0] if len(values) == 1 else list(zip(*values, strict=True))


def _distinct(columns: Sequence[pa.Array]) -> tuple[Any, Any]:
    """Return a code for each row, the same for equal keys, from 0 in the order of their first rows; and these rows."""
    codes, count = _codes(columns[0])
    for column in columns[1:]:
        others, other_count = _codes(column)
        table = NumberTable()
        codes, count = table.slots(codes.astype(np.int64) * other_count + others), len(table)
    first_rows = np.empty(count, np.int64)
    first_rows[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first_rows


def _codes(column: pa.Array) -> tuple[Any, int]:
    """Return a code for each value, from 0 in the order of first values, and their number."""
    if pa.types.is_floating(column.type):  # 0.0 and -0.0 are two keys
        column = column.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width])
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:  # of nested values: one by one
        known: dict[Any, int] = {}
        keys = canonical_keys(values_of(column))
        return np.array([known.setdefault(key, len(known)) for key in keys], np.int64), len(known)
    return encoded.indices.to_numpy(), len(encoded.dictionary)
