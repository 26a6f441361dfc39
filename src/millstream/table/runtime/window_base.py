"""What window aggregations have in common: times of rows, and the columns of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import RestoreScope
from millstream.table.runtime.arrays import arrow_types, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import EpochOperator, Input
from millstream.table.runtime.sorting import stable_argsort
from millstream.table.runtime.times import instants_of, millis_of, times_of, walls_of
from millstream.table.runtime.window_assign import NULL_TIMES_DROPPED

if TYPE_CHECKING:
    from millstream.table.runtime.aggregate_specs import WindowAggregateSpec

__all__ = ["WindowOperator"]


class WindowOperator(EpochOperator):
    """Base of window aggregations.

    Attributes:
        fired_ms: Windows that ended until then have fired.
    """

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self._spec = spec
        self._input_kinds = arrow_types(spec.input)
        super().__init__([self._input_kinds], [spec.retracts])
        self.fired_ms = MIN_TIMESTAMP

    def timed(self, rows: Input) -> tuple[Input, Any]:
        """Return the rows that have a time, and their times on the clocks of the windows."""
        spec = self._spec
        if spec.processing:
            return rows, walls_of(np.full(rows.count, self.context.time.now_ms), spec.shift_zone)
        column = rows.columns[spec.time]
        valid = validity_of(column)
        if valid is not None:
            self.count(NULL_TIMES_DROPPED, rows.count - int(np.count_nonzero(valid)))
            rows = rows.filter(valid)
            column = rows.columns[spec.time]
        return rows, walls_of(millis_of(column), spec.shift_zone)

    def last_instants(self, ends: Any) -> Any:
        """Return the last millisecond before ends of windows, as moments."""
        return instants_of(ends, self._spec.shift_zone) - 1

    def hand_on(self, keys: list[pa.Array], results: list[pa.Array], starts: Any, ends: Any) -> None:
        """Emit results of windows in the order of their ends."""
        count = len(starts)
        if not count:
            return
        columns = [*keys, *results]
        if (ends[1:] < ends[:-1]).any():
            order = stable_argsort(ends)
            starts, ends = starts[order], ends[order]
            columns = [column.take(pa.array(order)) for column in columns]
        wall = pa.timestamp("us")
        for each in self._spec.properties:
            if each == "start":
                columns.append(times_of(starts, wall))
            elif each == "end":
                columns.append(times_of(ends, wall))
            elif each == "time":
                kind = self._input_kinds[self._spec.time]
                zoned = self._spec.shift_zone is not None
                if not pa.types.is_timestamp(kind) or self._spec.attached is not None:
                    kind = pa.timestamp("us", "UTC") if zoned else wall
                columns.append(times_of(self.last_instants(ends), kind))
            else:
                now = np.full(count, self.context.time.now_ms)
                columns.append(times_of(now, pa.timestamp("us", "UTC")))
        self.emit(columns_batch(columns, None, count))

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Fire the windows that end before a watermark."""
        if not self._spec.processing:
            self._fire_until(timestamp_ms)

    def on_processing_time(self) -> None:
        """Fire the windows that have ended by the clock."""
        if self._spec.processing:
            self._work()
            self._fire_until(self.context.time.now_ms)

    def _fire_until(self, time_ms: int) -> None:
        if time_ms > self.fired_ms:
            before, self.fired_ms = self.fired_ms, time_ms
            self.fire(before, time_ms)

    def fire(self, before_ms: int, time_ms: int) -> None:
        """Emit windows whose last millisecond is after a time, and not after another."""
        raise NotImplementedError

    def snapshot_state(self) -> int | None:
        """Return until when windows have fired."""
        return None if self.fired_ms in (MIN_TIMESTAMP, MAX_TIMESTAMP) else self.fired_ms

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over until when windows have fired: all subtasks are at the same watermark at a checkpoint."""
        self.fired_ms = max(self.fired_ms, snapshot)
        if not self._spec.processing:
            self.watermark_ms = self._emitted_ms = max(self.watermark_ms, snapshot)
