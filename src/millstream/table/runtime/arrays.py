"""Arrow's columns as numpy has them, and back: the bytes of fixed-width values, with what is NULL beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.rex import RowSchema
from millstream.table.functions.types import arrow_type
from millstream.types.numpy_views import as_numpy

__all__ = [
    "array_of",
    "arrow_type",
    "arrow_types",
    "bits_of",
    "concat",
    "conform",
    "differ",
    "fixed_dtype",
    "is_text",
    "validity_of",
    "values_of_fixed",
]


def arrow_types(schema: RowSchema) -> list[pa.DataType]:
    """Return the Arrow types of a relation's columns."""
    return [arrow_type(each) for each in schema.types]


def fixed_dtype(kind: pa.DataType) -> Any | None:
    """Return numpy's type for the bytes of a value; None if values have not all the same width."""
    ids = pa.types
    if ids.is_boolean(kind):
        return np.dtype(np.uint8)
    if ids.is_floating(kind):
        return np.dtype(f"f{kind.bit_width // 8}")
    if ids.is_integer(kind):
        return np.dtype(f"{'i' if ids.is_signed_integer(kind) else 'u'}{kind.bit_width // 8}")
    if ids.is_temporal(kind) and kind.bit_width in (32, 64):
        return np.dtype(f"i{kind.bit_width // 8}")
    if ids.is_decimal(kind) or ids.is_fixed_size_binary(kind):
        return np.dtype(f"V{kind.bit_width // 8}")
    return None


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are strings or bytes of any length."""
    ids = pa.types
    return bool(
        ids.is_string(kind) or ids.is_large_string(kind) or ids.is_binary(kind) or ids.is_large_binary(kind)
    )


def values_of_fixed(array: pa.Array) -> Any:
    """Return the values of a column of a fixed width; anything where it is NULL. Not to be written to."""
    kind = array.type
    dtype = fixed_dtype(kind)
    if pa.types.is_boolean(kind):
        return as_numpy(array.cast(pa.uint8()).fill_null(0))
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(len(array), dtype)
    assert dtype is not None
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def validity_of(array: pa.Array) -> Any | None:
    """Return where a column is not NULL; None if it is nowhere."""
    return as_numpy(array.is_valid()) if array.null_count else None


def array_of(kind: pa.DataType, values: Any, valid: Any | None = None) -> pa.Array:
    """Return values of a fixed width as a column.

    Args:
        kind: Its type.
        values: Of numpy's type for it; not written to any more.
        valid: Where it is not NULL; None for everywhere.
    """
    if valid is not None and valid.all():
        valid = None
    if pa.types.is_boolean(kind):
        return pa.array(values.astype(bool), kind, mask=None if valid is None else ~valid)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(held.view(np.uint8))])


def bits_of(array: pa.Array) -> pa.Array:
    """Return a column whose values are equal where SQL groups them together: of floats the bits, one NaN."""
    kind = array.type
    ids = pa.types
    if ids.is_boolean(kind):
        return array.cast(pa.int8())
    if ids.is_floating(kind):
        values = values_of_fixed(array)
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        width = values.dtype.itemsize
        return array_of(getattr(pa, f"int{8 * width}")(), values.view(f"i{width}"), validity_of(array))
    if ids.is_temporal(kind) and kind.bit_width in (32, 64):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if ids.is_decimal128(kind) and kind.precision <= 18:
        values = values_of_fixed(array).view(np.int64)[::2]
        return array_of(pa.int64(), np.ascontiguousarray(values), validity_of(array))
    return array


def conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type it has by its relation's schema."""
    if array.type == kind:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == kind else array.cast(kind)


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return columns behind each other as one."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(list(arrays))


def differ(first: pa.Array, second: pa.Array) -> Any:
    """Return for each row whether two columns of the same type differ; NULL equals NULL, NaN equals NaN."""
    kind = first.type
    count = len(first)
    if fixed_dtype(kind) is None:
        if pa.types.is_nested(kind):
            pairs = zip(first.to_pylist(), second.to_pylist(), strict=True)
            return np.fromiter((one != other for one, other in pairs), bool, count)
        unlike = as_numpy(pc.fill_null(pc.not_equal(first, second), fill_value=False))
    else:
        one, other = values_of_fixed(first), values_of_fixed(second)
        unlike = one != other
        if one.dtype.kind == "f":
            unlike = unlike & ~(np.isnan(one) & np.isnan(other))
    if not first.null_count and not second.null_count:
        return unlike
    valid, other_valid = (
        np.ones(count, bool) if each is None else each for each in (validity_of(first), validity_of(second))
    )
    return (unlike & valid & other_valid) | (valid != other_valid)
