"""Columns that grow, by number of row: what joins, Top-N and buffers keep of rows.

Values of a fixed width lie in a numpy array, strings in one piece of memory with offsets, all else in chunks of Arrow.
Arrays double when they are full, so that a row is copied about once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.arrays import (
    array_of,
    concat,
    fixed_dtype,
    is_text,
    validity_of,
    values_of_fixed,
)
from millstream.types.arrow_values import values_of

__all__ = ["GrowingColumn", "GrowingRows", "Lane", "growing_column", "plain_value"]

_LEAST = 1_024


class Lane:
    """A number for each row, in an array that doubles.

    Args:
        dtype: numpy's type.
        fill: What new rows have.

    Attributes:
        array: All there is room for.
    """

    __slots__ = ("array", "fill")

    def __init__(self, dtype: Any, fill: Any = 0) -> None:
        self.fill = fill
        self.array = np.full(_LEAST, fill, dtype)

    def reach(self, count: int) -> Any:
        """Make room for so many rows; return the array."""
        have = len(self.array)
        if count > have:
            grown = np.full(max(2 * have, count), self.fill, self.array.dtype)
            grown[:have] = self.array
            self.array = grown
        return self.array

    def keep(self, rows: Any) -> None:
        """Have some rows only, numbered anew in the order given."""
        kept = np.full(max(_LEAST, len(rows)), self.fill, self.array.dtype)
        kept[: len(rows)] = self.array[rows]
        self.array = kept


class GrowingColumn(ABC):
    """Values of one column by row.

    Args:
        kind: Their Arrow type.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.count = 0

    @abstractmethod
    def append(self, array: pa.Array) -> None:
        """Add the values of the next rows."""

    @abstractmethod
    def take(self, rows: Any) -> pa.Array:
        """Return the values of rows, an int64 array."""

    @abstractmethod
    def entries(self, rows: Any) -> list[Any]:
        """Return plain values of rows for a checkpoint, exactly: times as numbers, decimals as bytes."""

    @abstractmethod
    def array_of_entries(self, entries: Sequence[Any]) -> pa.Array:
        """Return a column of what `entries` gave."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that it takes."""

    def keep(self, rows: Any) -> None:
        """Have some rows only, numbered anew in the order given."""
        kept = self.take(rows)
        type(self).__init__(self, self.kind)
        self.append(kept)


class _Fixed(GrowingColumn):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._values = Lane(fixed_dtype(kind), 0 if fixed_dtype(kind).kind != "V" else b"")  # type: ignore[union-attr]
        self._valid: Lane | None = None

    @property
    def nbytes(self) -> int:
        return int(self._values.array.nbytes) + (0 if self._valid is None else self._valid.array.nbytes)

    def append(self, array: pa.Array) -> None:
        start, self.count = self.count, self.count + len(array)
        self._values.reach(self.count)[start : self.count] = values_of_fixed(array)
        valid = validity_of(array)
        if valid is not None and self._valid is None:
            self._valid = Lane(bool, fill=True)
        if self._valid is not None:
            self._valid.reach(self.count)[start : self.count] = True if valid is None else valid

    def take(self, rows: Any) -> pa.Array:
        valid = None if self._valid is None else self._valid.array[rows]
        return array_of(self.kind, self._values.array[rows], valid)

    def entries(self, rows: Any) -> list[Any]:
        values: list[Any] = self._values.array[rows].tolist()
        if self._valid is not None:
            valid = self._valid.array[rows].tolist()
            return [value if there else None for value, there in zip(values, valid, strict=True)]
        return values

    def array_of_entries(self, entries: Sequence[Any]) -> pa.Array:
        dtype = self._values.array.dtype
        valid = np.fromiter((entry is not None for entry in entries), bool, len(entries))
        fill = b"" if dtype.kind == "V" else 0
        plain: list[Any] = [fill if entry is None else entry for entry in entries]
        if dtype.kind == "V":
            whole = b"".join(entry.ljust(dtype.itemsize, b"\0") for entry in plain)
            return array_of(self.kind, np.frombuffer(whole, dtype, len(plain)), valid)
        return array_of(self.kind, np.array(plain, dtype), valid)


class _Text(GrowingColumn):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._offsets = Lane(np.int64)
        self._data = Lane(np.uint8)
        self._valid: Lane | None = None
        self._wide = (
            pa.large_string()
            if pa.types.is_string(kind) or pa.types.is_large_string(kind)
            else pa.large_binary()
        )

    @property
    def nbytes(self) -> int:
        lanes = (self._offsets, self._data, self._valid)
        return sum(int(lane.array.nbytes) for lane in lanes if lane is not None)

    def append(self, array: pa.Array) -> None:
        if not len(array):
            return
        start, self.count = self.count, self.count + len(array)
        wide = array.cast(self._wide)
        _, offsets, data = wide.buffers()
        bounds = np.frombuffer(offsets, np.int64, len(wide) + 1, wide.offset * 8)
        held = self._offsets.reach(self.count + 1)
        used = int(held[start])
        more = int(bounds[-1] - bounds[0])
        held[start : self.count + 1] = bounds - (bounds[0] - used)
        if more:
            self._data.reach(used + more)[used : used + more] = np.frombuffer(
                data, np.uint8, more, int(bounds[0])
            )
        valid = validity_of(array)
        if valid is not None and self._valid is None:
            self._valid = Lane(bool, fill=True)
        if self._valid is not None:
            self._valid.reach(self.count)[start : self.count] = True if valid is None else valid

    def take(self, rows: Any) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets.array), pa.py_buffer(self._data.array)]
        whole = pa.Array.from_buffers(self._wide, self.count, buffers)
        if self._valid is None:
            return whole.take(pa.array(rows)).cast(self.kind)
        valid = self._valid.array[rows]
        return whole.take(pa.array(rows, mask=~valid)).cast(self.kind)

    def entries(self, rows: Any) -> list[Any]:
        return list(self.take(rows).to_pylist())

    def array_of_entries(self, entries: Sequence[Any]) -> pa.Array:
        return pa.array(entries, self.kind)


class _Chunks(GrowingColumn):
    """Nested values: chunks of doubling length."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._chunks: list[pa.Array] = []

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.nbytes) for chunk in self._chunks)

    def append(self, array: pa.Array) -> None:
        if not len(array):
            return
        self.count += len(array)
        self._chunks.append(array)
        while len(self._chunks) > 1 and 2 * len(self._chunks[-1]) >= len(self._chunks[-2]):
            last = self._chunks.pop()
            self._chunks[-1] = concat([self._chunks[-1], last])

    def take(self, rows: Any) -> pa.Array:
        if not self._chunks:
            return pa.nulls(len(rows), self.kind)
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(rows))
        bounds = np.cumsum([0, *map(len, self._chunks)])
        chunk_of = np.searchsorted(bounds, rows, side="right") - 1
        order = np.argsort(chunk_of, kind="stable")
        parts = []
        for place, chunk in enumerate(self._chunks):
            of_chunk = rows[chunk_of == place] - bounds[place]
            parts.append(chunk.take(pa.array(of_chunk)))
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return concat(parts).take(pa.array(back))

    def entries(self, rows: Any) -> list[Any]:
        return values_of(self.take(rows))

    def array_of_entries(self, entries: Sequence[Any]) -> pa.Array:
        return pa.array([plain_value(each) for each in entries], self.kind)


def plain_value(value: Any) -> Any:
    """Return a value as pyarrow takes it: rows as dicts of their fields."""
    as_dict = getattr(value, "as_dict", None)
    if as_dict is not None:
        return {name: plain_value(part) for name, part in as_dict().items()}
    if isinstance(value, list):
        return [plain_value(part) for part in value]
    if isinstance(value, dict):
        return [(plain_value(key), plain_value(part)) for key, part in value.items()]
    return value


def growing_column(kind: pa.DataType) -> GrowingColumn:
    """Return a column without rows."""
    if fixed_dtype(kind) is not None:
        return _Fixed(kind)
    return _Text(kind) if is_text(kind) else _Chunks(kind)


class GrowingRows:
    """Rows of several columns, numbered from 0 in the order in which they came.

    Args:
        kinds: Arrow types of the columns.
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.columns = [growing_column(kind) for kind in kinds]
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(column.nbytes for column in self.columns)

    def append(self, columns: Sequence[pa.Array], count: int) -> Any:
        """Add rows; return their numbers."""
        for held, column in zip(self.columns, columns, strict=True):
            held.append(column)
        start, self.count = self.count, self.count + count
        return np.arange(start, self.count)

    def take(self, rows: Any) -> list[pa.Array]:
        """Return the columns of rows."""
        return [column.take(rows) for column in self.columns]

    def keep(self, rows: Any) -> None:
        """Have some rows only, numbered anew in the order given."""
        for column in self.columns:
            column.keep(rows)
        self.count = len(rows)

    def entries(self, rows: Any) -> list[tuple[Any, ...]]:
        """Return rows as tuples of plain values, for a checkpoint."""
        if not self.columns:
            return [()] * len(rows)
        return list(zip(*(column.entries(rows) for column in self.columns), strict=True))

    def restore(self, entries: Sequence[tuple[Any, ...]]) -> Any:
        """Add rows that `entries` gave; return their numbers."""
        parts: list[Sequence[Any]] = list(zip(*entries, strict=True)) if entries else [()] * len(self.columns)
        arrays = [
            column.array_of_entries(part)
            for column, part in zip(self.columns, parts, strict=bool(self.columns))
        ]
        return self.append(arrays, len(entries))
