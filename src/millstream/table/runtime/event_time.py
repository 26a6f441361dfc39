"""Watermarks that a table declares, as a generator for the splits of its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import OperatorSpec, Output
from millstream.operators.column_watermarks import BatchTimes, ColumnWatermarks, TableWatermarks
from millstream.spi.batch import Batch, Columns, LatencyMarker, Rows, StreamStatus
from millstream.table.expressions.compiling import ExpressionProgram, Setting
from millstream.table.expressions.rex import RowExpression, RowSchema
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.changes import DELETE, UPDATE_BEFORE
from millstream.table.runtime.times import millis_of

__all__ = ["ExpressionWatermarks", "latest_of", "rows_that_came"]


def rows_that_came(kinds: Any | None) -> Any | None:
    """Return a mask of the rows that do not take anything back; None for all rows."""
    if kinds is None:
        return None
    changes = np.asarray(kinds)
    return pa.array((changes != UPDATE_BEFORE) & (changes != DELETE))


def latest_of(times: pa.Array) -> int | None:
    """Return the latest time of a column, epoch milliseconds rounded down; None if all are NULL."""
    known = times.drop_null()
    return int(millis_of(known).max()) if len(known) else None


@dataclass(frozen=True)
class ExpressionWatermarks(TableWatermarks):
    """Declares watermarks by expression; each split has the largest value of its rows so far.

    Attributes:
        conversion: An operator that makes the columns of a source's records; it needs no context.
        schema: Those columns.
        rowtime: The event time of a row.
        watermark: The watermark of a row; NULL gives none.
        zone: The session's time zone.
    """

    conversion: OperatorSpec
    schema: RowSchema
    rowtime: RowExpression
    watermark: RowExpression
    zone: str = "UTC"

    def __call__(self) -> ColumnWatermarks:
        """Return a generator for one split."""
        return _Generator(self)


class _Generator(ColumnWatermarks):
    def __init__(self, declared: ExpressionWatermarks) -> None:
        self._conversion = declared.conversion.build()
        self._converted = self._conversion.output = _Converted()
        self._kinds = arrow_types(declared.schema)
        self._program = ExpressionProgram([declared.rowtime, declared.watermark], declared.schema)
        self._program.open(Setting(zone=declared.zone))

    def times_of(self, columns: Columns) -> BatchTimes:
        """Return the largest event time, and the largest watermark, of the rows that take nothing back."""
        self._conversion.process(Columns(columns.data, None, columns.kinds))
        given = self._converted.take()
        arrays = [conform(each, kind) for each, kind in zip(given.data.columns, self._kinds, strict=True)]
        came = rows_that_came(given.kinds)
        if came is not None:
            arrays = [each.filter(came) for each in arrays]
        count = len(given) if came is None else came.true_count
        if not count:
            return BatchTimes(None, None)
        data = pa.RecordBatch.from_arrays(arrays, [f"f{place}" for place in range(len(arrays))])
        times, watermarks = self._program.evaluate(data)
        return BatchTimes(latest_of(times), latest_of(watermarks))


class _Converted(Output):
    """Keeps the one batch that a conversion gives of one."""

    def __init__(self) -> None:
        self._batch: Columns | None = None

    def take(self) -> Columns:
        """Return it."""
        batch, self._batch = self._batch, None
        assert batch is not None, "a conversion gave nothing of a batch"
        return batch

    def emit(self, batch: Batch) -> None:
        """Keep a batch."""
        self._batch = Columns.from_rows(batch) if isinstance(batch, Rows) else batch

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Drop it: who converts for good hands it on."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Never called: a conversion is given no watermarks."""

    def emit_status(self, status: StreamStatus) -> None:
        """Never called: a conversion is told of no status."""

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        """Never called: a conversion is given no markers."""
