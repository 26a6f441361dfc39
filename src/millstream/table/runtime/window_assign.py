"""Windows of rows: window_start, window_end and window_time behind a row's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.arrays import arrow_types, validity_of
from millstream.table.runtime.row_operator import RowOperator
from millstream.table.runtime.times import (
    cumulate_windows,
    hop_windows,
    instants_of,
    millis_of,
    times_of,
    tumble_starts,
    walls_of,
)

if TYPE_CHECKING:
    from millstream.table.runtime.row_specs import WindowAssignSpec

__all__ = ["NULL_TIMES_DROPPED", "WindowAssignOperator"]

NULL_TIMES_DROPPED = "numNullRowTimeRecordsDropped"
"""Counter of rows whose time is NULL: they are in no window."""


class WindowAssignOperator(RowOperator):
    """Appends the columns of windows; a row in several windows comes once for each."""

    def __init__(self, spec: WindowAssignSpec) -> None:
        self._spec = spec
        self._input_kinds = arrow_types(spec.input)
        super().__init__(self._input_kinds)

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return rows with their windows."""
        spec, zone = self._spec, self._spec.shift_zone
        kept = None
        if spec.processing:
            millis = np.full(count, self.context.time.now_ms)
        else:
            millis = millis_of(columns[spec.time])
            valid = validity_of(columns[spec.time])
            if valid is not None:
                kept = np.flatnonzero(valid)
                millis = millis[kept]
                self.count(NULL_TIMES_DROPPED, count - len(kept))
        walls = walls_of(millis, zone)
        if spec.windows is WindowKind.TUMBLE:
            places = np.arange(len(walls))
            starts = tumble_starts(walls, spec.size_ms, spec.offset_ms)
            ends = starts + spec.size_ms
        elif spec.windows is WindowKind.HOP:
            places, starts = hop_windows(walls, spec.size_ms, spec.slide_ms, spec.offset_ms)
            ends = starts + spec.size_ms
        else:
            places, starts, ends = cumulate_windows(walls, spec.size_ms, spec.slide_ms, spec.offset_ms)
        time_kind = self._input_kinds[spec.time]
        if not pa.types.is_timestamp(time_kind):
            time_kind = pa.timestamp("us", "UTC")
        wall = pa.timestamp("us")
        windows = [
            times_of(starts, wall),
            times_of(ends, wall),
            times_of(instants_of(ends - 1, zone), time_kind),
        ]
        if kept is not None:
            places = kept[places]
        if len(places) == count and spec.windows is WindowKind.TUMBLE:
            return [*columns, *windows], None
        taken = pa.array(places)
        return [*(column.take(taken) for column in columns), *windows], places
