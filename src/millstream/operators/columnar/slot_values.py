"""One value for each slot, in numpy: what accumulators are made of.

Numbers, dates and times are numbers in memory; all else are Python objects. The Arrow type is learnt from the columns
that come: integers of several widths become the widest, integers and floats become floats.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import TypeMismatchError
from millstream.types.arrow_values import values_of
from millstream.types.numpy_views import as_numpy

__all__ = ["SlotValues", "Storage", "as_numbers", "common_type", "grown", "plain", "storage_of"]


_DECIMAL_DIGITS = 38


class Storage(Enum):
    """How values are held; the value is numpy's name."""

    INTEGERS = "int64"
    FLOATS = "float64"
    OBJECTS = "object"


def storage_of(kind: pa.DataType) -> Storage:
    """Return how values of an Arrow type are held."""
    types = pa.types
    if types.is_floating(kind):
        return Storage.FLOATS
    if types.is_integer(kind):
        return Storage.OBJECTS if kind == pa.uint64() else Storage.INTEGERS
    if types.is_boolean(kind) or (types.is_temporal(kind) and not types.is_interval(kind)):
        return Storage.INTEGERS
    return Storage.OBJECTS


def plain(column: pa.Array) -> pa.Array:
    """Return a column without dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def common_type(field: str, first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type that holds values of two; null fits any.

    Raises:
        TypeMismatchError: If there is none.
    """
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    types = pa.types
    if types.is_integer(first) and types.is_integer(second):
        wider = max(first, second, key=lambda kind: kind.bit_width)
        if types.is_signed_integer(first) == types.is_signed_integer(second):
            return wider
        if pa.uint64() not in (first, second):
            return pa.int64()
    elif all(types.is_integer(kind) or types.is_floating(kind) for kind in (first, second)):
        return pa.float64()
    elif all(types.is_string(kind) or types.is_large_string(kind) for kind in (first, second)):
        return pa.large_string()
    elif types.is_decimal128(first) and types.is_decimal128(second):
        scale = max(first.scale, second.scale)
        digits = max(first.precision - first.scale, second.precision - second.scale) + scale
        if digits <= _DECIMAL_DIGITS:
            return pa.decimal128(digits, scale)
    raise TypeMismatchError(
        f"field {field!r} holds values of type {second}, after values of type {first}",
        detail="A column has one type for as long as the job runs.",
    )


def as_numbers(column: pa.Array, storage: Storage) -> Any:
    """Return the numbers of a column without nulls.

    Args:
        column: Of a type whose values are held as numbers.
        storage: INTEGERS or FLOATS.
    """
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return as_numpy(column).astype(storage.value, copy=False)


class SlotValues:
    """Values by slot; a slot has none before it is set.

    Args:
        field: The field's name, for messages.

    Attributes:
        kind: Arrow type of the values; null as long as there are none.
        storage: How they are held.
        numbers: Values by slot; anything where there is none.
        present: Whether a slot has a value.
    """

    def __init__(self, field: str) -> None:
        self.field = field
        self.kind: pa.DataType = pa.null()
        self.storage = Storage.INTEGERS
        self.present = np.zeros(0, bool)
        self.numbers: Any = np.zeros(0, np.int64)

    def grow(self, capacity: int) -> None:
        """Make room for slots."""
        self.present = grown(self.present, capacity)
        self.numbers = grown(self.numbers, capacity)

    def clear(self, slots: Any) -> None:
        """Have slots without a value."""
        self.present[slots] = False
        self.numbers[slots] = 0

    def learn(self, kind: pa.DataType) -> None:
        """Take note of the type of values to come.

        Raises:
            TypeMismatchError: If they do not go with those that are there.
        """
        common = common_type(self.field, self.kind, kind)
        if common == self.kind:
            return
        storage = storage_of(common)
        if storage is not self.storage:
            self.numbers = self.numbers.astype(storage.value)
            self.storage = storage
        self.kind = common

    def set(self, slots: Any, column: pa.Array) -> None:
        """Set values; where a slot comes twice, the last counts. No value may be null."""
        self.numbers[slots] = self.of(column)
        self.present[slots] = True

    def of(self, column: pa.Array) -> Any:
        """Return the values of a column without nulls as they are held here."""
        if self.storage is not Storage.OBJECTS:
            return as_numbers(column, self.storage)
        values = np.empty(len(column), object)
        values[:] = values_of(column)
        return values

    def array(self, slots: Any) -> pa.Array:
        """Return the values of slots, null where there is none."""
        return self.as_array(self.numbers[slots], self.present[slots])

    def as_array(self, numbers: Any, present: Any) -> pa.Array:
        """Return values that are held as these are, as a column.

        Args:
            numbers: The values.
            present: Where they are not null.
        """
        kind, absent = self.kind, None if present.all() else ~present
        if pa.types.is_null(kind):
            return pa.nulls(len(numbers))
        if self.storage is Storage.OBJECTS:
            return pa.array(
                [value if there else None for value, there in zip(numbers, present, strict=True)], kind
            )
        if pa.types.is_boolean(kind):
            return pa.array(numbers.astype(bool), mask=absent)
        if pa.types.is_temporal(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return pa.array(numbers, mask=absent).cast(width).view(kind)
        return pa.array(numbers, mask=absent).cast(kind)

    def values(self, slots: Any) -> list[Any]:
        """Return the values of slots as Python's, None where there is none."""
        return values_of(self.array(slots))

    def restore(self, slots: Any, values: list[Any]) -> None:
        """Set what `values` gave, the type known."""
        places = [place for place, value in enumerate(values) if value is not None]
        if places:
            column = pa.array([values[place] for place in places], self.kind)
            self.set(slots[places], column)


def grown(array: Any, capacity: int) -> Any:
    """Return an array with room for so many values, zero where there are none yet."""
    longer = np.zeros(capacity, array.dtype)
    longer[: len(array)] = array
    return longer
