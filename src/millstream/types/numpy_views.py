"""Arrow's columns of numbers and truth values as numpy's arrays, without pandas.

`Array.to_numpy` of pyarrow imports pandas when it is first called, whatever the column holds; here the bytes of the
column are looked at where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["as_numpy"]

_NUMBERS: dict[pa.DataType, np.dtype[Any]] = {
    pa.int8(): np.dtype(np.int8),
    pa.int16(): np.dtype(np.int16),
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
    pa.uint8(): np.dtype(np.uint8),
    pa.uint16(): np.dtype(np.uint16),
    pa.uint32(): np.dtype(np.uint32),
    pa.uint64(): np.dtype(np.uint64),
    pa.float32(): np.dtype(np.float32),
    pa.float64(): np.dtype(np.float64),
}


def as_numpy(column: pa.Array | pa.ChunkedArray) -> Any:
    """Return what `to_numpy(zero_copy_only=False)` returns; not to be written to.

    Args:
        column: Of any type and length. Numbers and truth values without nulls are fast.

    >>> as_numpy(pa.array([True, False, True], pa.bool_())[1:])
    array([False,  True])
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return as_numpy(column.chunk(0))
        if column.num_chunks == 0 or column.null_count:
            return column.to_numpy()
        return np.concatenate([as_numpy(each) for each in column.chunks])
    if not column.null_count:
        dtype = _NUMBERS.get(column.type)
        if dtype is not None:
            content = column.buffers()[1]
            if content is None or not len(column):
                return np.empty(0, dtype)
            return np.frombuffer(content, dtype, count=len(column), offset=column.offset * dtype.itemsize)
        if column.type.id == pa.lib.Type_BOOL and len(column):
            first, end = column.offset, column.offset + len(column)
            packed = np.frombuffer(
                column.buffers()[1], np.uint8, count=(end + 7) // 8 - first // 8, offset=first // 8
            )
            at = first % 8
            return np.unpackbits(packed, count=at + len(column), bitorder="little")[at:].view(np.bool_)
    return column.to_numpy(zero_copy_only=False)
