"""Strings and bytes to numbers from 0, in numpy: all rows of a batch at a time.

A value is read four bytes at a time. A table for each step has the pairs of what was read so far and the next four
bytes, beginning with the length; what values begin with in common is held once::

    values       user-17  user-18  user-2         lengths 7, 7, 6
    step 1       7 user   7 user   6 user         0  0  1
    step 2       0 -17    0 -18    1 -2           0  1  2      each pair has its own number: so has each value
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.number_table import NumberTable
from millstream.types.numpy_views import as_numpy

__all__ = ["TextTable", "is_text"]

_WORD_BYTES = 4
_LONG_BYTES = 64
_HALF = 32
_NEW = -1


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column is of strings or bytes that lie in memory one after the other."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


class TextTable:
    """Values to slots; values longer than 64 bytes, and null, by a dict."""

    def __init__(self) -> None:
        self._steps: list[NumberTable] = []
        self._ends: list[Any] = []  # by number of steps: slots by what the last step gave
        self._others: dict[Any, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def copy(self) -> TextTable:
        """Return a table of the same values, with the same slots."""
        copied = TextTable()
        copied._steps = [step.copy() for step in self._steps]
        copied._ends = [ends.copy() for ends in self._ends]
        copied._others, copied._count = dict(self._others), self._count
        return copied

    def slots(self, column: pa.Array) -> tuple[Any, Any]:
        """Return the slot of each row, and the first rows of the values that are new, in the order of their slots.

        Args:
            column: Strings or bytes, for which `is_text` is true, or nothing but nulls.
        """
        slots = np.empty(len(column), np.int64)
        ended, others = self._read(column)
        new: list[tuple[Any, Any, Any]] = []  # first rows, where their slots are kept, and at which places
        for step, rows, codes in ended:
            ends = self._ends[step]
            fresh = ends[codes] == _NEW
            if fresh.any():
                new.append(_claim(ends, rows[fresh], codes[fresh]))
        new_others = self._claim_others(column, others)
        first_rows = np.concatenate(
            [*(rows for rows, _, _ in new), np.array(list(new_others.values()), np.int64)]
        )
        order = np.argsort(first_rows, kind="stable")
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(self._count, self._count + len(order))
        start = 0
        for rows, ends, places in new:
            ends[places] = ranks[start : start + len(rows)]
            start += len(rows)
        self._others.update(zip(new_others, ranks[start:].tolist(), strict=True))
        self._count += len(order)
        for step, rows, codes in ended:
            slots[rows] = self._ends[step][codes]
        if len(others):
            slots[others] = [self._others[value] for value in column.take(pa.array(others)).to_pylist()]
        return slots, first_rows[order]

    def _read(self, column: pa.Array) -> tuple[list[tuple[int, Any, Any]], Any]:
        """Return for each number of steps the rows that end there and what they gave; and the rows not read so."""
        if not len(column) or column.null_count == len(column):
            return [], np.arange(len(column))
        starts, lengths, data = _layout(column)
        readable = lengths <= _LONG_BYTES
        if column.null_count:
            readable &= as_numpy(column.is_valid())
        rows = np.flatnonzero(readable)
        others = np.flatnonzero(~readable) if len(rows) < len(readable) else rows[:0]
        steps = np.maximum(lengths[rows] + (_WORD_BYTES - 1), _WORD_BYTES) // _WORD_BYTES
        order = np.argsort(np.uint8(255) - steps.astype(np.uint8), kind="stable")
        rows, steps = rows.take(order), steps.take(order)
        ended = []
        codes, starts, lengths = lengths.take(rows), starts.take(rows), lengths.take(rows)
        for step in range(int(steps[0]) if len(steps) else 0):
            count, longer = (
                int(np.searchsorted(-steps, -least, side="right")) for least in (step + 1, step + 2)
            )
            words = _words(data, starts[:count] + _WORD_BYTES * step, lengths[:count] - _WORD_BYTES * step)
            codes = self._step(step).slots(codes[:count] << _HALF | words)
            self._ends[step] = _filled(self._ends[step], len(self._steps[step]))
            if longer < count:
                ended.append((step, rows[longer:count], codes[longer:]))
        return ended, others

    def _step(self, step: int) -> NumberTable:
        if step == len(self._steps):
            self._steps.append(NumberTable())
            self._ends.append(np.empty(0, np.int64))
        return self._steps[step]

    def _claim_others(self, column: pa.Array, rows: Any) -> dict[Any, int]:
        """Return the values in some rows that are new, with their first rows."""
        new: dict[Any, int] = {}
        if len(rows):
            for value, row in zip(column.take(pa.array(rows)).to_pylist(), rows.tolist(), strict=True):
                if value not in self._others:
                    new.setdefault(value, row)
        return new


def _claim(ends: Any, rows: Any, codes: Any) -> tuple[Any, Any, Any]:
    """Return the first of the rows of each code, and where the slots of these are to be put."""
    claims = _NEW - 1 - np.arange(len(rows))
    ends[codes[::-1]] = claims[::-1]
    first = ends[codes] == claims
    return rows[first], ends, codes[first]


def _filled(ends: Any, count: int) -> Any:
    """Return slots by code with room for more codes, which have none."""
    if count <= len(ends):
        return ends
    grown = np.full(2 * count, _NEW, np.int64)
    grown[: len(ends)] = ends
    return grown


def _layout(column: pa.Array) -> tuple[Any, Any, Any]:
    """Return where each value begins, how long it is, and the bytes of all, with some behind them."""
    _, offsets, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    width = np.dtype(np.int64 if wide else np.int32)
    bounds = np.frombuffer(offsets, width, len(column) + 1, column.offset * width.itemsize).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    held = np.zeros(last - first + _WORD_BYTES, np.uint8)
    if last > first:
        held[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    return bounds[:-1] - first, np.diff(bounds), held


def _words(data: Any, starts: Any, left: Any) -> Any:
    """Return the next four bytes of values; those behind a value's end are zero.

    Args:
        data: The bytes.
        starts: Where they begin.
        left: How many the value has from there on.
    """
    fours = np.ndarray(len(data) - (_WORD_BYTES - 1), "<u4", data, strides=(1,))
    return fours[starts] & _MASKS.take(np.minimum(left, _WORD_BYTES))


_MASKS = np.array([(1 << 8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.int64)
