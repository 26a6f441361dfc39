"""Arrow's columns as lists of Python values, whole columns at a time.

What each Arrow value is in Python is said here, once: structs are Rows with their fields' names, maps are dicts, lists
are lists, timestamps with a zone are Instants, all else is what `to_pylist` makes of it.
"""

from __future__ import annotations

import datetime
from itertools import accumulate
from typing import Any

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Instant
from millstream.types.row import rows_of

__all__ = ["bare_schema", "check_range", "is_bare", "records_of", "values_of"]

_DAY_US = 86_400_000_000
_EPOCH = datetime.date(1970, 1, 1)
_FIRST_DAY = (datetime.date.min - _EPOCH).days
_LAST_DAY = (datetime.date.max - _EPOCH).days
_BARE = b"millstream.bare"
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def bare_schema(name: str, kind: Any) -> Any:
    """Return the schema of batches whose records are the bare values of one column, not rows: lines, numbers.

    Args:
        name: The column's.
        kind: Its Arrow type.
    """
    import pyarrow as pa  # optional: whoever has a type has it

    return pa.schema([(name, kind)], metadata={_BARE: b""})


def is_bare(schema: Any) -> bool:
    """Return whether records of a schema are the bare values of its one column."""
    return schema.metadata is not None and _BARE in schema.metadata


def records_of(batch: Any) -> list[Any]:
    """Return the records of a `pyarrow.RecordBatch`: Rows, or bare values if its schema says so.

    Raises:
        TypeMismatchError: If a value is none of Python's; names the column.
    """
    columns = [
        _named_values(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    if is_bare(batch.schema):
        return columns[0]
    if not columns:
        return rows_of((), [()] * batch.num_rows)
    return list(rows_of(tuple(batch.schema.names), zip(*columns, strict=True)))


def _named_values(name: str, column: Any) -> list[Any]:
    try:
        return values_of(column)
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"column {name!r} of type {column.type} holds a value that Python has not: {error}",
            detail="Dates and timestamps are of the years 1 to 9999, and keys of maps are hashable.",
            hint="Cast the column before its rows are used one by one, or leave such rows out.",
        ) from error


def values_of(array: Any) -> list[Any]:
    """Return the values of an array as Python's.

    Dates, times, timestamps without zone and decimals go through numpy, where it is installed: that saves a call for
    each value.

    Args:
        array: A `pyarrow.Array`.

    Raises:
        ValueError, OverflowError: If a date or timestamp is none of Python's.
    """
    import pyarrow as pa  # optional: whoever has an array has it

    kind = array.type
    if pa.types.is_struct(kind):
        return _rows(array)
    if pa.types.is_map(kind):
        return _dicts(array)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _instants(array)
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _has_own_values(kind.value_type):
        return _cut(array, values_of(array.flatten()))
    if _is_fast_in_numpy(array):
        try:
            return list(array.to_numpy(zero_copy_only=False).tolist())
        except ImportError:  # pyarrow's only optional dependency
            pass
    return list(array.to_pylist())


def check_range(array: Any) -> None:
    """Check that Python has all dates and timestamps of an array; of other arrays nothing is asked.

    Raises:
        ValueError: If it has not.
    """
    import pyarrow as pa  # optional: whoever has an array has it

    kind = array.type
    units = {pa.timestamp("us"): (pa.int64(), _DAY_US), pa.date32(): (pa.int32(), 1)}.get(kind)
    if units is not None and not _is_within(array, *units):
        raise ValueError("a date is outside the years 1 to 9999")


def _rows(structs: Any) -> list[Any]:
    names = tuple(field.name for field in structs.type)
    parts = [values_of(part) for part in structs.flatten()]
    rows = rows_of(names, zip(*parts, strict=True)) if parts else rows_of((), [()] * len(structs))
    if not structs.null_count:
        return list(rows)
    return [row if valid else None for row, valid in zip(rows, structs.is_valid().to_pylist(), strict=True)]


def _dicts(maps: Any) -> list[Any]:
    import pyarrow as pa  # optional: whoever has an array has it

    kind = maps.type
    if not _has_own_values(kind.key_type) and not _has_own_values(kind.item_type):
        return [None if pairs is None else dict(pairs) for pairs in maps.to_pylist()]
    entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    lists = maps.cast(pa.list_(entry))
    pairs = list(zip(*map(values_of, lists.flatten().flatten()), strict=True))
    return [None if each is None else dict(each) for each in _cut(lists, pairs)]


def _has_own_values(kind: Any) -> bool:
    """Tell whether values of a type are others than `to_pylist` makes."""
    import pyarrow as pa  # optional: whoever has a type has it

    return bool(pa.types.is_nested(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def _instants(array: Any) -> list[Any]:
    import pyarrow as pa  # optional: whoever has an array has it

    in_second = _PER_SECOND[array.type.unit]
    to_nanos = 1_000_000_000 // in_second
    return [
        None if moment is None else Instant(moment // in_second, moment % in_second * to_nanos)
        for moment in array.view(pa.int64()).to_pylist()
    ]


def _cut(lists: Any, elements: list[Any]) -> list[Any]:
    """Return for each list its own of all elements, one after the other."""
    import pyarrow.compute as pc  # optional: whoever has an array has it

    lengths = pc.list_value_length(lists).to_pylist()
    ends = accumulate(length or 0 for length in lengths)
    return [
        None if length is None else elements[end - length : end]
        for length, end in zip(lengths, ends, strict=True)
    ]


def _is_fast_in_numpy(array: Any) -> bool:
    import pyarrow as pa  # optional: whoever has an array has it

    kind = array.type
    if pa.types.is_timestamp(kind):
        return kind.tz is None and kind.unit == "us" and _is_within(array, pa.int64(), _DAY_US)
    if pa.types.is_date32(kind):
        return _is_within(array, pa.int32(), 1)
    return bool(pa.types.is_decimal128(kind) or (pa.types.is_time64(kind) and kind.unit == "us"))


def _is_within(array: Any, integer: Any, units_per_day: int) -> bool:
    """Tell whether all values are between the years 1 and 9999; numpy would give numbers for others."""
    import pyarrow.compute as pc  # optional: whoever has an array has it

    ends = pc.min_max(array.view(integer)).as_py()
    if ends["min"] is None:
        return True
    return bool(ends["min"] >= _FIRST_DAY * units_per_day and ends["max"] < (_LAST_DAY + 1) * units_per_day)
