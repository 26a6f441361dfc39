"""Event time of tables: watermarks by expression, or those that a source made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import Operator, OperatorReport, Reach
from millstream.operators.split_time import SplitTime
from millstream.spi.batch import ACTIVE, IDLE, Batch, Columns, Rows, StreamStatus
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.event_time import latest_of, rows_that_came
from millstream.table.runtime.row_operator import RowOperator

if TYPE_CHECKING:
    from millstream.table.runtime.row_specs import RowtimeSpec

__all__ = ["RowtimeOperator", "TimedOperator"]


class TimedOperator(RowOperator):
    """Hands on rows and watermarks of a source that makes its table's watermarks itself."""

    def __init__(self, spec: RowtimeSpec) -> None:
        super().__init__(arrow_types(spec.input))

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the rows as they are."""
        return columns, None

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand on a watermark that advances: a source may begin anew behind those that were made here before."""
        if timestamp_ms > self.watermark_ms:
            super().process_watermark(timestamp_ms)


class RowtimeOperator(Operator):
    """Emits behind each batch the largest watermark that the expression gave so far."""

    def __init__(self, spec: RowtimeSpec) -> None:
        self._spec = spec
        self._kinds = arrow_types(spec.input)
        self._expression = Expressions([spec.expression], spec.input, spec.zone)
        self._heard_ms: int | None = None
        self._idle = False
        self._latest_ms = MIN_TIMESTAMP
        self._record_ms: int | None = None
        self._advanced_ms: int | None = None
        self._stamped: bool | None = None
        self._told: SplitTime | None = None

    def open(self) -> None:
        """Make the expression ready."""
        self._expression.open(self.context)
        self._heard_ms = self.context.time.now_ms

    def close(self) -> None:
        """Close user functions."""
        self._expression.close()

    def process(self, batch: Batch) -> None:
        """Hand a batch on, then the watermark."""
        if not len(batch):
            return
        if self._idle:
            self._idle = False
            self.output.emit_status(ACTIVE)
        self._heard_ms = self._record_ms = self.context.time.now_ms
        rows = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        columns = [conform(each, kind) for each, kind in zip(rows.data.columns, self._kinds, strict=True)]
        names = [f"f{place}" for place in range(len(columns))]
        self.output.emit(Columns(pa.RecordBatch.from_arrays(columns, names), None, rows.kinds))
        if self.context.batch:
            return
        came = rows_that_came(rows.kinds)
        if came is not None:
            columns = [column.filter(came) for column in columns]
        count = len(rows) if came is None else came.true_count
        (marks,) = self._expression.evaluate(columns, count)
        latest_ms = latest_of(columns[self._spec.column])
        self._stamped = latest_ms is not None
        self._latest_ms = self._latest_ms if latest_ms is None else max(self._latest_ms, latest_ms)
        watermark_ms = latest_of(marks)
        if watermark_ms is not None:
            self._advance(watermark_ms)

    def _advance(self, timestamp_ms: int) -> None:
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            self._advanced_ms = self.context.time.now_ms
            self.output.emit_watermark(timestamp_ms)

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Hand a batch on; watermarks from before do not count here."""
        last_ms = batch.last_mark_ms
        self.process(batch.unmarked())
        if last_ms == MAX_TIMESTAMP:
            self._advance(last_ms)
        return None

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand on the last watermark of all; others are this operator's to make."""
        if timestamp_ms == MAX_TIMESTAMP:
            self._advance(timestamp_ms)

    def process_status(self, status: StreamStatus) -> None:
        """Hand on what is heard of the stream; its own idleness goes on until a row comes."""
        if not self._idle:
            self.output.emit_status(status)

    def on_processing_time(self) -> None:
        """Be idle if nothing came for long."""
        due_ms = self.next_processing_time()
        if due_ms is not None and due_ms <= self.context.time.now_ms:
            self._idle = True
            self.output.emit_status(IDLE)

    def next_processing_time(self) -> int | None:
        """Return when the stream is idle if nothing comes."""
        timeout_ms = self._spec.idle_timeout_ms
        if timeout_ms is None or self._idle or self._heard_ms is None or self.watermark_ms == MAX_TIMESTAMP:
            return None
        return self._heard_ms + timeout_ms

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Tell of event time, as sources do that make watermarks."""
        if self.context.batch:
            return
        finished = self.watermark_ms == MAX_TIMESTAMP
        told = SplitTime(
            "",
            self.watermark_ms,
            self._latest_ms,
            self._record_ms,
            self._advanced_ms,
            self._idle,
            self._stamped,
            finished=finished,
        )
        if told == self._told:
            return
        if self._told is None or told.watermark_ms != self._told.watermark_ms:
            report.made_watermark_ms = self.watermark_ms
        if self._latest_ms != MIN_TIMESTAMP:
            report.max_timestamp_ms = self._latest_ms
        self._told = told
        report.splits.append(told)
