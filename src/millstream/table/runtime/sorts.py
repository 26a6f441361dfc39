"""ORDER BY of bounded inputs and of streams by time, and plain LIMIT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.base import OwnEntries, RestoreScope
from millstream.state.snapshots import Entries
from millstream.table.expressions.rex import SortKey
from millstream.table.runtime.arrays import arrow_types, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, EpochOperator, Input
from millstream.table.runtime.ordering import sorted_places
from millstream.table.runtime.row_operator import RowOperator
from millstream.table.runtime.time_buffer import TimeBuffer
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.window_assign import NULL_TIMES_DROPPED

if TYPE_CHECKING:
    from millstream.table.runtime.rank_specs import SortSpec, TemporalSortSpec
    from millstream.table.runtime.row_specs import LimitSpec

__all__ = ["BUFFERED", "LimitOperator", "SortOperator", "TemporalSortOperator"]

BUFFERED = "buffered"
"""Entries of rows that wait: 0 -> [(time, row), ...]."""

_ALL = 0


class BufferingOperator(EpochOperator):
    """Base of operators of one subtask that have rows wait."""

    def __init__(self, kinds: list[pa.DataType]) -> None:
        super().__init__([kinds], [False])
        self._buffer = TimeBuffer(kinds)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the rows that wait."""
        (rows,) = self._buffer.entries(np.zeros(1, np.int64))
        if rows:
            yield BUFFERED, None, [(_ALL, rows)]

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows that wait."""
        self._buffer.restore(np.zeros(len(entries), np.int64), [rows for _, _, rows in entries])

    def take_sorted(self, rows: Any, keys: list[SortKey]) -> list[pa.Array]:
        """Return rows in order."""
        columns = self._buffer.rows.take(rows)
        order = pa.array(sorted_places(None, columns, keys, np.arange(len(rows))))
        return [column.take(order) for column in columns]


class TemporalSortOperator(BufferingOperator):
    """Sorts rows that the watermark has passed; by processing time those of an epoch."""

    def __init__(self, spec: TemporalSortSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._spec = spec
        self._keys = [*([] if spec.processing else [SortKey(spec.time)]), *spec.rest]
        self._sorted_ms = MIN_TIMESTAMP

    def work(self, inputs: list[Input | None]) -> None:
        """Have rows wait that are in time."""
        (rows,) = inputs
        assert rows is not None
        if self._spec.processing:
            order = sorted_places(None, rows.columns, self._keys, np.arange(rows.count))
            self.emit(columns_batch(rows.take(order).columns, None, rows.count))
            return
        valid = validity_of(rows.columns[self._spec.time])
        if valid is not None:
            self.count(NULL_TIMES_DROPPED, rows.count - int(np.count_nonzero(valid)))
            rows = rows.filter(valid)
        times = millis_of(rows.columns[self._spec.time])
        in_time = times > np.maximum(rows.seen, self._sorted_ms)
        self.count(LATE_ROWS_DROPPED, rows.count - int(np.count_nonzero(in_time)))
        rows, times = rows.filter(in_time), times[in_time]
        self._buffer.add(rows.columns, np.zeros(rows.count, np.int64), times)

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Emit the rows up to a watermark."""
        self._sorted_ms = timestamp_ms
        due = self._buffer.due(timestamp_ms)
        if len(due):
            columns = self.take_sorted(due, self._keys)
            self._buffer.remove(due)
            self.emit(columns_batch(columns, None, len(due)))


class SortOperator(BufferingOperator):
    """Sorts all rows, at the end of the input."""

    def __init__(self, spec: SortSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._spec = spec

    def work(self, inputs: list[Input | None]) -> None:
        """Have rows wait."""
        (rows,) = inputs
        assert rows is not None
        self._buffer.add(rows.columns, np.zeros(rows.count, np.int64), np.zeros(rows.count, np.int64))

    def finish(self) -> None:
        """Emit the rows in order."""
        columns = self.take_sorted(self._buffer.live, list(self._spec.keys))
        stop = None if self._spec.fetch is None else self._spec.offset + self._spec.fetch
        count = len(self._buffer.live[self._spec.offset : stop])
        columns = [column.slice(self._spec.offset, count) for column in columns]
        self.emit(columns_batch(columns, None, count))


class LimitOperator(RowOperator):
    """Lets some rows pass."""

    def __init__(self, spec: LimitSpec) -> None:
        super().__init__(None)
        self._spec = spec
        self._came = 0

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the rows within bounds."""
        start = max(self._spec.offset - self._came, 0)
        stop = count
        if self._spec.fetch is not None:
            stop = min(count, max(self._spec.offset + self._spec.fetch - self._came, 0))
        self._came += count
        if start == 0 and stop == count:
            return columns, None
        places = np.arange(start, max(start, stop))
        return [column.slice(start, len(places)) for column in columns], places

    def snapshot_state(self) -> int:
        """Return how many rows came."""
        return self._came

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over how many rows came."""
        if scope.adopts:
            self._came += snapshot
