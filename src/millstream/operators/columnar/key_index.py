"""Keys in columns to slots: numbers from 0, in the order in which keys came.

An integer is found by a hash table in numpy, a text by its words, one table after the other, and a key of several
columns by the slots of each. All else is found by a dict, after equal values of a batch have been put together. What is
done for each row is numpy's in every case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import TypeMismatchError
from millstream.operators.columnar.number_table import NumberTable
from millstream.operators.columnar.slot_values import Storage, as_numbers, common_type, storage_of
from millstream.operators.columnar.text_table import TextTable, is_text
from millstream.state.keys import canonical_keys, original_key
from millstream.types.arrow_values import values_of
from millstream.types.numpy_views import as_numpy

__all__ = ["KeyIndex", "build_index", "numbered"]

_HALF = 32
_MOST_NUMBERS = 1 << 62


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
    if len(kinds) > 1:
        return TupleIndex(names, kinds)
    (kind,) = kinds
    if _fits_numbers(kind):
        return NumberIndex(names, kinds)
    return TextIndex(names, kinds) if is_text(kind) else ObjectIndex(names, kinds)


def _is_float_or_null(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_null(kind))


def _fits_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and storage_of(kind) is Storage.INTEGERS


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
        valid = as_numpy(column.is_valid())
        slots = np.empty(len(column), np.int64)
        numbers = as_numbers(column.drop_null(), Storage.INTEGERS)
        # NULL gets its slot where it comes first, as other keys do.
        before = int(np.argmin(valid)) if self._table.null_slot is None else 0
        given = [self._table.slots(numbers[:before])] if before else []
        slots[~valid] = self._table.slot_of_null()
        given.append(self._table.slots(numbers[before:]))
        slots[valid] = np.concatenate(given) if before else given[0]
        return slots

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key column of slots."""
        null_slot = self._table.null_slot
        absent = None if null_slot is None else slots == null_slot
        return [pa.array(self._table.numbers[slots], mask=absent).cast(self.kinds[0])]

    def keys(self, slots: Any) -> list[Any]:
        """Return the keys of slots, which are canonical."""
        return list(self.columns(slots)[0].to_pylist())


class TextIndex(KeyIndex):
    """Keys of one column of strings or bytes."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        super().__init__(names, kinds)
        self._table = TextTable()
        self._kept = _KeptValues()

    def __len__(self) -> int:
        return len(self._kept)

    def copy(self) -> TextIndex:
        """Return an index of the same keys, with the same slots."""
        copied = TextIndex(self.names, self.kinds)
        copied._table, copied._kept = self._table.copy(), self._kept.copy()
        return copied

    def slots(self, columns: Sequence[pa.Array]) -> Any:
        """Return the slot of each row."""
        (column,) = columns
        self.learn([column.type])
        slots, first_rows = self._table.slots(column)
        if len(first_rows):
            self._kept.add(column.take(pa.array(first_rows)), self.kinds[0])
        return slots

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key column of slots."""
        return [self._kept.take(slots, self.kinds[0])]

    def keys(self, slots: Any) -> list[Any]:
        """Return the keys of slots, which are canonical."""
        return list(self.columns(slots)[0].to_pylist())


class TupleIndex(KeyIndex):
    """Keys of several columns: each has an index of its own, and a key is a tuple of slots."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        super().__init__(names, kinds)
        self._parts = [build_index([name], [kind]) for name, kind in zip(names, kinds, strict=True)]
        self._pairs = [NumberTable() for _ in kinds[1:]]

    def __len__(self) -> int:
        return len(self._pairs[-1])

    def copy(self) -> TupleIndex:
        """Return an index of the same keys, with the same slots."""
        copied = TupleIndex(self.names, self.kinds)
        copied._parts = [part.copy() for part in self._parts]
        copied._pairs = [pairs.copy() for pairs in self._pairs]
        return copied

    def learn(self, kinds: Sequence[pa.DataType]) -> None:
        """Take note of the types of columns to come.

        Raises:
            TypeMismatchError: If they do not go with those before.
        """
        super().learn(kinds)
        for part, kind in zip(self._parts, kinds, strict=True):
            part.learn([kind])

    def slots(self, columns: Sequence[pa.Array]) -> Any:
        """Return the slot of each row."""
        self.learn([column.type for column in columns])
        slots = self._parts[0].slots(columns[:1])
        for place, pairs in enumerate(self._pairs, start=1):
            slots = pairs.slots(slots << _HALF | self._parts[place].slots(columns[place : place + 1]))
        return slots

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key columns of slots."""
        columns = []
        for part, pairs in zip(self._parts[:0:-1], self._pairs[::-1], strict=True):
            both = pairs.numbers[slots]
            columns += part.columns(both & (1 << _HALF) - 1)
            slots = both >> _HALF
        columns += self._parts[0].columns(slots)
        return columns[::-1]

    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots."""
        return canonical_keys(list(zip(*map(values_of, self.columns(slots)), strict=True)))


class ObjectIndex(KeyIndex):
    """Keys of one column of any type, as a dict has them."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        super().__init__(names, kinds)
        self._slots: dict[Any, int] = {}
        self._keys: list[Any] = []
        self._kept = _KeptValues()

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> ObjectIndex:
        """Return an index of the same keys, with the same slots."""
        copied = ObjectIndex(self.names, self.kinds)
        copied._slots, copied._keys, copied._kept = dict(self._slots), list(self._keys), self._kept.copy()
        return copied

    def slots(self, columns: Sequence[pa.Array]) -> Any:
        """Return the slot of each row."""
        (column,) = columns
        self.learn([column.type])
        if not len(column):
            return np.empty(0, np.int64)
        codes, first_rows = _distinct(column)
        values = column.take(pa.array(first_rows))
        keys = canonical_keys(values_of(values))
        found = list(map(self._slots.get, keys))
        if None in found:
            self._add(keys, found, values)
        return np.array(found, np.int64)[codes]

    def _add(self, keys: list[Any], found: list[int | None], values: pa.Array) -> None:
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
        self._kept.add(values.take(pa.array(new, pa.int64())), self.kinds[0])

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key column of slots."""
        return [self._kept.take(slots, self.kinds[0])]

    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots."""
        keys = self._keys
        return [keys[slot] for slot in slots.tolist()]


class _KeptValues:
    """The values of keys by slot, as they came."""

    def __init__(self) -> None:
        self._parts: list[pa.Array] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def copy(self) -> _KeptValues:
        """Return the same values; those that come to one of the two are not in the other."""
        copied = _KeptValues()
        copied._parts, copied._count = list(self._parts), self._count
        return copied

    def add(self, values: pa.Array, kind: pa.DataType) -> None:
        """Add the values of the next slots."""
        self._parts.append(values.cast(kind))
        self._count += len(values)

    def take(self, slots: Any, kind: pa.DataType) -> pa.Array:
        """Return the values of slots."""
        if not self._parts:
            return pa.nulls(0, kind)
        if len(self._parts) > 1 or self._parts[0].type != kind:
            self._parts = [pa.concat_arrays([part.cast(kind) for part in self._parts])]
        return self._parts[0].take(pa.array(slots))


def numbered(columns: Sequence[pa.Array]) -> Any | None:
    """Return a number for each row, the same for rows that are equal in all columns.

    NaNs of several kinds have several numbers.

    Args:
        columns: Without dictionaries.

    Returns:
        None if there are too many values for numbers of 64 bits.
    """
    numbers: Any = 0
    most = 1
    for column in columns:
        codes, first_rows = _distinct(column)
        numbers = numbers * len(first_rows) + codes.astype(np.int64)
        most *= len(first_rows)
        if most > _MOST_NUMBERS:
            return None
    return numbers


def _distinct(column: pa.Array) -> tuple[Any, Any]:
    """Return a code for each row, the same for equal keys, from 0 in the order of their first rows; and these rows."""
    if pa.types.is_floating(column.type):  # 0.0 and -0.0 are two keys
        column = column.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width])
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes, count = as_numpy(encoded.indices), len(encoded.dictionary)
    except pa.ArrowNotImplementedError:  # of nested values: one by one
        known: dict[Any, int] = {}
        keys = canonical_keys(values_of(column))
        codes = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
        count = len(known)
    first_rows = np.empty(count, np.int64)
    first_rows[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first_rows
