"""Times in columns as epoch milliseconds, windows of times, and the session's time zone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.runtime.arrays import values_of_fixed

__all__ = [
    "cumulate_windows",
    "hop_windows",
    "instants_of",
    "millis_of",
    "times_of",
    "tumble_starts",
    "walls_of",
]

_PER_MILLI = {"us": 1_000, "ns": 1_000_000}


def millis_of(column: pa.Array) -> Any:
    """Return the times of a column as epoch milliseconds, rounded down; anything where it is NULL."""
    kind = column.type
    values = values_of_fixed(column)
    if not pa.types.is_timestamp(kind):
        return values.astype(np.int64)
    if kind.unit == "s":
        return values * 1_000
    return values if kind.unit == "ms" else values // _PER_MILLI[kind.unit]


def times_of(millis: Any, kind: pa.DataType) -> pa.Array:
    """Return epoch milliseconds as a column of timestamps."""
    factor = _PER_MILLI.get(kind.unit, 1)
    return pa.array(millis * factor, pa.int64()).view(kind)


def walls_of(millis: Any, zone: str | None) -> Any:
    """Return moments as milliseconds on the clocks of a zone; None for those that are no moments."""
    if zone is None or zone.upper() in ("UTC", "GMT", "Z"):
        return millis
    local = pc.local_timestamp(pa.array(millis, pa.int64()).view(pa.timestamp("ms", zone)))
    return values_of_fixed(local)


def instants_of(walls: Any, zone: str | None) -> Any:
    """Return the moments at which clocks of a zone show times; the earlier of two, the one behind a gap."""
    if zone is None or zone.upper() in ("UTC", "GMT", "Z"):
        return walls
    local = pa.array(walls, pa.int64()).view(pa.timestamp("ms"))
    return values_of_fixed(pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest"))


def tumble_starts(millis: Any, size_ms: int, offset_ms: int) -> Any:
    """Return the start of the tumbling window of each time."""
    return millis - (millis - offset_ms) % size_ms


def hop_windows(millis: Any, size_ms: int, slide_ms: int, offset_ms: int) -> tuple[Any, Any]:
    """Return the places of times and the starts of their windows, those of a time together, the earliest first."""
    count = -(-size_ms // slide_ms)
    last = tumble_starts(millis, slide_ms, offset_ms)
    starts = last[:, None] - np.arange(count - 1, -1, -1) * slide_ms
    if size_ms % slide_ms == 0:
        return np.repeat(np.arange(len(millis)), count), starts.reshape(-1)
    inside = starts + size_ms > millis[:, None]
    return np.nonzero(inside)[0], starts[inside]


def cumulate_windows(millis: Any, size_ms: int, step_ms: int, offset_ms: int) -> tuple[Any, Any, Any]:
    """Return the places of times, and the starts and ends of their windows, the shortest first."""
    count = size_ms // step_ms
    starts = tumble_starts(millis, size_ms, offset_ms)
    ends = starts[:, None] + np.arange(1, count + 1) * step_ms
    inside = ends > millis[:, None]
    places = np.nonzero(inside)[0]
    return places, starts[places], ends[inside]
