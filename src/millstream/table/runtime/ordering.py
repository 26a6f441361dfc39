"""ORDER BY over columns: numbers that numpy sorts as SQL sorts the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import NotSupportedError
from millstream.table.expressions.rex import SortKey
from millstream.table.runtime.arrays import fixed_dtype, validity_of, values_of_fixed
from millstream.table.runtime.sorting import stable_argsort
from millstream.table.runtime.times import millis_of

__all__ = ["leading_numbers", "range_numbers", "sort_numbers", "sorted_places", "stable_order"]

_MOST = 1 << 62


def sort_numbers(column: pa.Array, key: SortKey) -> list[Any]:
    """Return arrays to sort by, the first one first: where NULLs are, if there are any, then the values."""
    valid = validity_of(column)
    numbers = _numbers(column, descending=key.descending)
    if valid is None:
        return [numbers]
    numbers = np.where(valid, numbers, numbers.dtype.type(0))
    return [valid if key.nulls_first else ~valid, numbers]


def _numbers(column: pa.Array, *, descending: bool) -> Any:
    dtype = fixed_dtype(column.type)
    if dtype is None or dtype.kind == "V":
        ranks = np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
        return -ranks if descending else ranks
    values = values_of_fixed(column)
    if dtype.kind == "f":
        # NaN is the greatest; -0.0 and 0.0 are equal.
        values = values.astype(np.float64) + 0.0
        bits = values.view(np.int64)
        ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
        values = np.where(np.isnan(values), np.iinfo(np.int64).max, ordered)
    return ~values if descending else values


def leading_numbers(column: pa.Array, key: SortKey) -> tuple[Any, Any] | None:
    """Return int64 numbers that say which rows cannot come before others by this key, and where they may be used.

    Returns:
        None if the values of the column have no such numbers of their own.
    """
    dtype = fixed_dtype(column.type)
    if dtype is None or dtype.kind not in "iuf" or dtype == np.uint64:
        return None
    numbers = _numbers(column, descending=key.descending).astype(np.int64)
    valid = validity_of(column)
    return numbers, np.ones(len(numbers), bool) if valid is None else valid


def range_numbers(column: pa.Array, key: SortKey) -> Any:
    """Return the values of a column as numbers whose distances count: moments and days in milliseconds.

    Descending they are negated. NULLs are as far away as can be, and peers of each other.

    Raises:
        NotSupportedError: If the type has no distances.
    """
    kind = column.type
    valid = validity_of(column)
    if pa.types.is_timestamp(kind):
        numbers = millis_of(column)
    elif pa.types.is_date32(kind):
        numbers = values_of_fixed(column).astype(np.int64) * 86_400_000
    elif pa.types.is_integer(kind):
        numbers = values_of_fixed(column).astype(np.int64)
    elif pa.types.is_floating(kind):
        numbers = values_of_fixed(column).astype(np.float64)
    else:
        raise NotSupportedError(
            f"RANGE with a bound over a column of type {kind} is not in millstream yet",
            hint="Order by an integer, a DOUBLE or a time, or use ROWS.",
        )
    if key.descending:
        numbers = -numbers
    if valid is None:
        return numbers
    return np.where(valid, numbers, numbers.dtype.type(-_MOST if key.nulls_first else _MOST))


def sorted_places(groups: Any | None, columns: Any, keys: Sequence[SortKey], ties: Any) -> Any:
    """Return the places of rows by group, then by sort keys, then by a number.

    Args:
        groups: Group of each row; None for one group.
        columns: The rows' columns by place.
        keys: What they are sorted by.
        ties: What equal rows are sorted by; None for their places.
    """
    arrays = [] if groups is None else [groups]
    for key in keys:
        arrays += sort_numbers(columns[key.index], key)
    if ties is not None:
        arrays.append(ties)
    return stable_order(arrays)


def stable_order(arrays: Sequence[Any]) -> Any:
    """Return the places of rows in the order of some arrays of integers, the first one first; equal ones as they are.

    Arrays whose values lie close together are put into one number, so that there is one sort and not one for each.
    """
    if not arrays or not len(arrays[0]):
        return np.arange(len(arrays[0]) if arrays else 0)
    packed: list[Any] = []
    room = 1
    for array in arrays:
        if array.dtype == bool or array.dtype.kind == "i":
            numbers = array.astype(np.int64, copy=False)
            low, span = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
            if packed and room * span < _MOST:
                packed[-1] = packed[-1] * span + (numbers - low)
                room *= span
                continue
            if span < _MOST:
                packed.append(numbers - low)
                room = span
                continue
        packed.append(array)
        room = _MOST
    if len(packed) == 1:
        return stable_argsort(packed[0])
    return np.lexsort(packed[::-1])
