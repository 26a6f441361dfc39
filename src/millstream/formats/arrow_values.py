"""Arrow's columns as lists of Python values, whole columns at a time."""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["values_of"]

_DAY_US = 86_400_000_000
_EPOCH = datetime.date(1970, 1, 1)
_FIRST_DAY = (datetime.date.min - _EPOCH).days
_LAST_DAY = (datetime.date.max - _EPOCH).days


def values_of(array: Any) -> list[Any]:
    """Return what `array.to_pylist()` returns.

    Dates, times, timestamps without zone and decimals go through numpy, where it is installed: that saves a call for
    each value.

    Args:
        array: A `pyarrow.Array`.

    Raises:
        ValueError, OverflowError: If a date or timestamp is none of Python's.
    """
    if _is_fast_in_numpy(array):
        try:
            return list(array.to_numpy(zero_copy_only=False).tolist())
        except ImportError:  # pyarrow's only optional dependency
            pass
    return list(array.to_pylist())


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
