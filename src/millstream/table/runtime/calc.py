"""Filters and projections, watermarks by expression, grouping sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import Operator, Reach
from millstream.spi.batch import ACTIVE, IDLE, Batch, Columns, Rows, StreamStatus
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.changes import DELETE, UPDATE_BEFORE
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.row_operator import RowOperator
from millstream.table.runtime.times import millis_of

if TYPE_CHECKING:
    from millstream.table.runtime.row_specs import CalcSpec, ExpandSpec, RowtimeSpec

__all__ = ["CalcOperator", "DropBeforeOperator", "ExpandOperator", "RowtimeOperator"]


class CalcOperator(RowOperator):
    """Filters, then computes."""

    def __init__(self, spec: CalcSpec) -> None:
        super().__init__(arrow_types(spec.input), spec.names)
        condition = spec.condition
        self._condition = None if condition is None else Expressions([condition], spec.input, spec.zone)
        self._expressions = Expressions(spec.expressions, spec.input, spec.zone)

    def open(self) -> None:
        """Make the expressions ready."""
        if self._condition is not None:
            self._condition.open(self.context)
        self._expressions.open(self.context)

    def close(self) -> None:
        """Close user functions."""
        if self._condition is not None:
            self._condition.close()
        self._expressions.close()

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the expressions' columns of the rows that the condition keeps."""
        places = None
        if self._condition is not None:
            mask = self._condition.holds(columns, count)
            if not mask.all():
                places = np.flatnonzero(mask)
                kept = pa.array(mask)
                columns, count = [column.filter(kept) for column in columns], len(places)
        return self._expressions.evaluate(columns, count, self.seen_ms), places


class DropBeforeOperator(RowOperator):
    """Leaves out the rows that -U takes back."""

    def __init__(self) -> None:
        super().__init__(None)

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the rows without those of kind -U."""
        if kinds is None:
            return columns, None
        places = np.flatnonzero(np.asarray(kinds) != UPDATE_BEFORE)
        return [column.take(pa.array(places)) for column in columns], places


class ExpandOperator(RowOperator):
    """Gives a copy of each row for each grouping set."""

    def __init__(self, spec: ExpandSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._spec = spec
        self._absent = [frozenset(spec.keys) - set(kept) for kept in spec.sets]
        last = len(spec.keys) - 1
        self._ids = [
            sum(1 << (last - place) for place, key in enumerate(spec.keys) if key in absent)
            for absent in self._absent
        ]

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return all copies, those of a row together."""
        copies = len(self._ids)
        places = np.repeat(np.arange(count), copies)
        indices = pa.array(places)
        given = []
        for place, column in enumerate(columns):
            gone = np.array([place in absent for absent in self._absent])
            if gone.any():
                given.append(column.take(pa.array(places, mask=np.tile(gone, count))))
            else:
                given.append(column.take(indices))
        given.append(pa.array(np.tile(np.array(self._ids, np.int64), count)))
        given += [columns[place].take(indices) for place in self._spec.copies]
        return given, places


class RowtimeOperator(Operator):
    """Emits behind each batch the largest watermark that the expression gave so far."""

    def __init__(self, spec: RowtimeSpec) -> None:
        self._spec = spec
        self._kinds = arrow_types(spec.input)
        self._expression = Expressions([spec.expression], spec.input, spec.zone)
        self._heard_ms: int | None = None
        self._idle = False

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
        self._heard_ms = self.context.time.now_ms
        rows = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        columns = [conform(each, kind) for each, kind in zip(rows.data.columns, self._kinds, strict=True)]
        names = [f"f{place}" for place in range(len(columns))]
        self.output.emit(Columns(pa.RecordBatch.from_arrays(columns, names), None, rows.kinds))
        if self.context.batch:
            return
        came = _came(rows.kinds)
        if came is not None:
            columns = [column.filter(came) for column in columns]
        count = len(rows) if came is None else len(columns[0]) if columns else 0
        (marks,) = self._expression.evaluate(columns, count)
        marks = marks.drop_null()
        if len(marks):
            self._advance(int(millis_of(marks).max()))

    def _advance(self, timestamp_ms: int) -> None:
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
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


def _came(kinds: Any | None) -> Any | None:
    """Return a mask of the rows that do not take anything back; None for all rows."""
    if kinds is None:
        return None
    changes = np.asarray(kinds)
    return pa.array((changes != UPDATE_BEFORE) & (changes != DELETE))
