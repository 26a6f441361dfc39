"""Event time as columns have it."""

from __future__ import annotations

from typing import Any

from millstream.spi.batch import Columns

__all__ = ["largest_of", "latest_in", "times_of"]


def times_of(batch: Columns, field: str) -> Any | None:
    """Return a field of the records as epoch milliseconds, an int64 array, as `FieldTimestamps` gives it of each.

    Returns:
        None if there is none, or it holds anything but whole numbers and timestamps: whoever looks at each record says
        what is wrong with it.
    """
    import pyarrow as pa  # optional: whoever has a batch has it
    import pyarrow.compute as pc

    place = batch.data.schema.get_field_index(field)
    if place < 0 or batch.data.column(place).null_count:
        return None
    column = batch.data.column(place)
    try:
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        if pa.types.is_timestamp(column.type):
            floored = pc.floor_temporal(column, unit="millisecond")
            return floored.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())
    except pa.ArrowInvalid:  # beyond 64 bits
        return None
    return None


def largest_of(timestamps: Any) -> int:
    """Return the largest of some timestamps, at least one."""
    import pyarrow.compute as pc  # optional: whoever has an array has it

    return int(pc.max(timestamps).as_py())


def latest_in(timestamps: Any, latest_ms: int) -> tuple[list[int], list[int]]:
    """Return the places behind the records that are later than all before, and their timestamps.

    Args:
        timestamps: An int64 array without nulls.
        latest_ms: The largest timestamp before.
    """
    import numpy as np  # optional: whoever has an array has it

    from millstream.types.numpy_views import as_numpy

    stamps = as_numpy(timestamps)
    before = np.maximum.accumulate(np.concatenate(([latest_ms], stamps[:-1])))
    places = np.flatnonzero(stamps > before)
    return (places + 1).tolist(), stamps[places].tolist()
