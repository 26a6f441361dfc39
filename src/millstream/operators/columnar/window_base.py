"""What all windows by expression share: columns in, rows of results out, late records, time that passes.

Which windows there are, when they fire and when a record is late is told in `operators/windowing`: the operators for
rows and those for columns give the same.

A call on columns costs the same for one row and for a thousand, so rows **wait** until a watermark makes a window fire
that they are in; what comes between watermarks that have nothing fire is worked on as one::

    rows         a b  |  c  |  d e f  |  g        |  watermarks
    windows      [=============)[==============)
    waiting      a b    abc    abcdef*   g        *  a window fires: a b c are aggregated, d e f wait on
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import OperatorContext, OperatorReport, Output, RestoreScope
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.combining import (
    is_combined,
    records_of_each,
    report_combined,
)
from millstream.operators.columnar.groups import Groups, KeyedRows, Kinds
from millstream.operators.columnar.keyed_reader import KeyedReader
from millstream.operators.columnar.reading import stamps_of, taken
from millstream.operators.columnar.waiting_rows import WaitingRows
from millstream.operators.columnar.window_results import WindowResults
from millstream.operators.portions import Pace
from millstream.operators.windowing.assigners import no_timestamp
from millstream.operators.windowing.base import LATE_RECORDS_DROPPED
from millstream.operators.windowing.passing import PassingTime
from millstream.spi.batch import Batch, Columns

__all__ = ["NEVER", "ColumnWindowOperator"]

NEVER = MAX_TIMESTAMP + 1


class ColumnWindowOperator(PassingTime):
    """Base of the operators.

    Args:
        keys: Names of the key fields; none for windows of all records.
        aggregates: Names of the results, and what they are.
        event_time: Whether windows follow event time, or the clock.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    def __init__(
        self,
        *,
        keys: Sequence[str],
        aggregates: Sequence[tuple[str, Aggregate]],
        event_time: bool,
        allowed_lateness_ms: int,
        late_tag_id: str | None,
        names: Sequence[str] | None,
    ) -> None:
        self._event_time = event_time
        # Windows by the clock are cleaned up as they end, as in Flink.
        self._lateness_ms = min(allowed_lateness_ms, MAX_TIMESTAMP) if event_time else 0
        self._late_tag_id = late_tag_id
        self._aggregates = [aggregate for _, aggregate in aggregates]
        self._reader = KeyedReader(keys, self._aggregates, names)
        self._key_names = self._reader.key_names
        self._results = WindowResults(keys, [name for name, _ in aggregates])
        self._waiting = WaitingRows()
        self._waiting_due_ms = NEVER  # the last millisecond of the first window that rows wait for
        self._kinds = self._make_groups()
        self._late_dropped = 0
        self._combined = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._pace = Pace(context.budget)
        self._results.output, self._results.pace = output, self._pace

    def _make_groups(self) -> Groups:
        return Groups(self._key_names, self._aggregates)

    def process(self, batch: Batch) -> None:
        """Add a batch to its windows; late records may fire at once.

        Raises:
            JobDefinitionError: If the records have no timestamps.
            TypeMismatchError: If a field is missing, or of a type that cannot be aggregated so.
        """
        if len(batch):
            self._add_batch(batch, self._read(batch), self._stamps(batch))

    @abstractmethod
    def _add_batch(self, batch: Batch, rows: KeyedRows, stamps: Any) -> None:
        """Add a batch that is not empty, of which columns and times have been read."""

    def _read(self, batch: Batch) -> KeyedRows:
        """Return the columns that are aggregated."""
        rows = self._reader.read(batch)
        if rows.combined:
            self._combined += int(records_of_each(batch).sum())
        return rows

    def _stamps(self, batch: Batch) -> Any:
        """Return the time of each record."""
        if not self._event_time:
            # A clock that was set back does not reopen windows.
            return np.full(len(batch), max(self.context.time.now_ms, self._passed_ms + 1))
        stamps = stamps_of(batch)
        if stamps is None:
            raise no_timestamp((batch.to_rows() if isinstance(batch, Columns) else batch).values[0])
        return stamps

    def _part_with(self, batch: Batch, late: Any) -> None:
        """Hand late records to their side output, or count them."""
        if is_combined(batch):  # with a side output it is from a checkpoint of a program that had none
            self._late_dropped += int(records_of_each(batch)[late].sum())
        elif self._late_tag_id is None:
            self._late_dropped += len(late)
        else:
            self.output.emit_side(self._late_tag_id, taken(batch, late))

    def next_processing_time(self) -> int | None:
        """Return when the next window by the clock fires."""
        due_ms = super().next_processing_time()
        if self._event_time or self._waiting_due_ms == NEVER:
            return due_ms
        return self._waiting_due_ms + 1 if due_ms is None else min(due_ms, self._waiting_due_ms + 1)

    def _flush(self) -> None:
        self._results.flush()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many late records were dropped in the epoch, and how many came combined."""
        report_combined(report, self._combined)
        self._combined = 0
        if self._late_dropped:
            counters = report.counters
            counters[LATE_RECORDS_DROPPED] = counters.get(LATE_RECORDS_DROPPED, 0) + self._late_dropped
            self._late_dropped = 0

    def restore_state(self, snapshot: tuple[int, Kinds], scope: RestoreScope) -> None:
        """Take over time and types."""
        passed_ms, kinds = snapshot
        self._restore_time(passed_ms)
        self._kinds.learn(kinds)
