"""What kernels work on: columns and constants, and how they become one another.

A value is a `pyarrow.Array` as long as the batch, or a `pyarrow.Scalar`: a constant, of a literal or of what was
computed of literals alone. Kernels give a constant if all they got are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.clock import Clock, SystemClock
from millstream.types.numpy_views import as_numpy

__all__ = [
    "Factory",
    "Kernel",
    "Setting",
    "Value",
    "as_array",
    "cast",
    "constant",
    "is_constant",
    "mask_of",
    "null_like",
    "per_row",
    "python_values",
]

Value = Any  # pa.Array | pa.Scalar; pyarrow has no types


@dataclass
class Setting:
    """What expressions know beside their operands; fixed while one batch is computed.

    Attributes:
        zone: The session's time zone (`table.local-time-zone`).
        clock: Read for CURRENT_TIMESTAMP and the like.
        now_ms: The time of this batch, epoch milliseconds; None reads the clock for each batch.
        database: For CURRENT_DATABASE.
        watermark_ms: For CURRENT_WATERMARK; None before the first.
        functions: What user functions are opened with.
    """

    zone: str = "UTC"
    clock: Clock = field(default_factory=SystemClock)
    now_ms: int | None = None
    database: str = "default_database"
    watermark_ms: int | None = None
    functions: Any = None

    @cached_property
    def generator(self) -> np.random.Generator:
        """What RAND and UUID draw from; made when it is first used."""
        return np.random.default_rng()

    def now(self) -> int:
        """Return the time of this batch, epoch milliseconds."""
        return self.clock.now_ms() if self.now_ms is None else self.now_ms


Kernel = Callable[..., Value]  # (setting, row count, *values) -> value
Factory = Callable[[Any], Kernel]  # of the Call


def is_constant(value: Value) -> bool:
    """Whether a value is a constant."""
    return isinstance(value, pa.Scalar)


def constant(value: Value) -> Any:
    """Return a constant as Python has it."""
    return value.as_py()


def as_array(value: Value, count: int) -> pa.Array:
    """Return a value as a column of `count` rows."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return value


def null_like(kind: pa.DataType) -> pa.Scalar:
    """Return NULL of a type."""
    return pa.scalar(None, kind)


def cast(value: Value, kind: pa.DataType, *, safe: bool = False) -> Value:
    """Return a value in another Arrow type; without checks unless `safe`."""
    return value if value.type == kind else pc.cast(value, kind, safe=safe)


def mask_of(value: Value, count: int) -> np.ndarray:
    """Return where a BOOLEAN is TRUE."""
    return np.asarray(as_numpy(pc.fill_null(as_array(value, count), False)), dtype=bool)


def python_values(value: Value, count: int) -> Iterable[Any]:
    """Return a value's rows as Python has them."""
    if isinstance(value, pa.Scalar):
        return [value.as_py()] * count
    rows: list[Any] = value.to_pylist()
    return rows


def per_row(
    function: Callable[..., Any],
    kind: pa.DataType,
    values: Sequence[Value],
    count: int,
    *,
    strict: bool = True,
) -> Value:
    """Compute a Python function for each distinct row of values: what neither Arrow nor numpy can do.

    Args:
        function: Called with one Python value for each of `values`; None is NULL.
        kind: Of the result.
        values: Columns and constants.
        count: Rows.
        strict: Whether NULL in any value gives NULL without a call.
    """
    arrays = [place for place, each in enumerate(values) if not isinstance(each, pa.Scalar)]
    if not arrays:
        return pa.scalar(_call(function, [each.as_py() for each in values], strict), kind)
    if len(arrays) == 1:
        return _per_distinct(function, kind, values, arrays[0], strict)
    memo: dict[Any, Any] = {}
    results = []
    for row in zip(*(python_values(each, count) for each in values), strict=True):
        try:
            if row not in memo:
                memo[row] = _call(function, row, strict)
            results.append(memo[row])
        except TypeError:  # lists and maps do not hash
            results.append(_call(function, row, strict))
    return pa.array(results, kind)


def _call(function: Callable[..., Any], row: Sequence[Any], strict: bool) -> Any:
    if strict and any(each is None for each in row):
        return None
    return function(*row)


_HASHABLE = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_boolean,
    pa.types.is_decimal,
)


def _per_distinct(
    function: Callable[..., Any], kind: pa.DataType, values: Sequence[Value], place: int, strict: bool
) -> Value:
    column = values[place]
    row = [each.as_py() if isinstance(each, pa.Scalar) else None for each in values]
    if strict and any(value is None for at, value in enumerate(row) if at != place):
        return pa.nulls(len(column), kind)

    def compute(value: Any) -> Any:
        row[place] = value
        return _call(function, row, strict)

    if len(column) < 16 or not any(test(column.type) for test in _HASHABLE):
        return pa.array([compute(each) for each in column.to_pylist()], kind)
    encoded = column.dictionary_encode(null_encoding="encode")
    distinct = pa.array([compute(each) for each in encoded.dictionary.to_pylist()], kind)
    return distinct.take(encoded.indices)
