"""What SQL operators have in common: they gather an epoch's rows, and work once.

Rows and watermarks are kept as they come; at the end of the epoch (or when many rows wait) an operator is given all
rows of an input as one batch, emits what changed, and hands on the last watermark behind it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import TypeMismatchError
from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.base import BatchHandler, Operator, OperatorReport, Reach
from millstream.operators.columnar.marks import seen_by_each
from millstream.spi.batch import ACTIVE, Batch, Columns, Rows, StreamStatus
from millstream.table.runtime.arrays import concat, conform
from millstream.table.runtime.changes import weights_of
from millstream.types.numpy_views import as_numpy

__all__ = ["LATE_ROWS_DROPPED", "EpochOperator", "Input"]

LATE_ROWS_DROPPED = "numLateRecordsDropped"
"""Counter of late rows that went nowhere."""

_MOST_ROWS = 1 << 20


@dataclass(slots=True)
class Input:
    """Rows of one input.

    Attributes:
        columns: In the types of the input's schema.
        weights: +1 or -1 for each row; None if all come.
        count: How many rows there are.
        seen: The watermark that each row came behind: one for all, or an array.
        kinds: Kind of each row, numpy's; None if all are inserts.
    """

    columns: list[pa.Array]
    weights: Any | None
    count: int
    seen: Any = MIN_TIMESTAMP
    kinds: Any | None = None

    def take(self, places: Any) -> Input:
        """Return the rows in some places."""
        indices = pa.array(places)
        return Input(
            [column.take(indices) for column in self.columns],
            None if self.weights is None else self.weights[places],
            len(places),
            self.seen[places] if isinstance(self.seen, np.ndarray) else self.seen,
            None if self.kinds is None else self.kinds[places],
        )

    def filter(self, keep: Any) -> Input:
        """Return the rows where an array is True; itself if it is everywhere."""
        return self if keep.all() else self.take(np.flatnonzero(keep))


class EpochOperator(Operator):
    """Base of SQL operators.

    Args:
        kinds: For each input the Arrow types of its columns.
        retracts: For each input whether it may have -U and -D rows.

    Attributes:
        counters: Counts of the epoch, by name.
        whole_in_batch: Whether in batch mode all rows are worked on at once, at the end of the input.
    """

    whole_in_batch = False

    def __init__(self, kinds: Sequence[Sequence[pa.DataType]], retracts: Sequence[bool]) -> None:
        self._kinds = [list(each) for each in kinds]
        self._retracts = list(retracts)
        self._waiting: list[list[tuple[Columns, Any]]] = [[] for _ in kinds]
        self._rows = 0
        self._emitted_ms = MIN_TIMESTAMP
        self._status: StreamStatus | None = None
        self.counters: dict[str, int] = {}

    # What an operator does

    @abstractmethod
    def work(self, inputs: list[Input | None]) -> None:
        """Process what waits: for each input its rows, None if there are none; not called if there are none at all."""

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Emit what is due at a watermark, before it is handed on; rows before it have been worked on."""

    def finish(self) -> None:
        """Emit what is due at the end of the input, behind the last watermark."""

    # The life of an operator

    def batch_handlers(self) -> list[BatchHandler]:
        """Return one handler for each input."""
        handlers: list[BatchHandler] = [self.process]
        if len(self._kinds) > 1:
            handlers.append(self.process_second)
        return handlers

    def process(self, batch: Batch) -> None:
        """Keep a batch of the first input."""
        self._put(0, batch, self.watermark_ms)

    def process_second(self, batch: Batch) -> None:
        """Keep a batch of the second input."""
        self._put(1, batch, self.watermark_ms)

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Keep a batch that has watermarks between its records, and reach the last of them."""
        assert batch.marks is not None
        seen = seen_by_each(batch.marks, len(batch), self.watermark_ms)
        self._put(0, batch.unmarked(), seen)
        reach(batch.marks.watermarks[-1])
        return None

    def _put(self, index: int, batch: Batch, seen: Any) -> None:
        if not len(batch):
            return
        columns = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        self._waiting[index].append((columns, seen))
        self._rows += len(columns)
        if self._rows >= _MOST_ROWS and not (self.whole_in_batch and self.context.batch):
            self._work()

    def process_watermark(self, timestamp_ms: int) -> None:
        """Note a watermark, which is handed on at the end of the epoch."""
        self.watermark_ms = max(self.watermark_ms, timestamp_ms)

    def process_status(self, status: StreamStatus) -> None:
        """Hand on that the stream is active at once, that it is idle at the end of the epoch."""
        if status is ACTIVE:
            self._status = None
            self.output.emit_status(status)
        else:
            self._status = status

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Work on what waits, hand on the watermark, report counts."""
        if not (self.whole_in_batch and self.context.batch):
            self.flush()
        for name, count in self.counters.items():
            report.counters[name] = report.counters.get(name, 0) + count
        self.counters = {}

    def end_input(self) -> None:
        """Work on what waits, then end."""
        self.flush()
        self.finish()

    def flush(self) -> None:
        """Work on what waits, and hand on the watermark."""
        self._work()
        if self.watermark_ms > self._emitted_ms:
            self.pass_watermark(self.watermark_ms)
            self._emitted_ms = self.watermark_ms
            self.output.emit_watermark(self.watermark_ms)
        if self._status is not None:
            self.output.emit_status(self._status)
            self._status = None

    def _work(self) -> None:
        if not self._rows:
            return
        waiting, self._waiting, self._rows = self._waiting, [[] for _ in self._kinds], 0
        self.work(
            [self._gathered(index, batches) if batches else None for index, batches in enumerate(waiting)]
        )

    def _gathered(self, index: int, batches: list[tuple[Columns, Any]]) -> Input:
        """Return batches as one, in the types of the input's schema."""
        kinds = self._kinds[index]
        for columns, _ in batches:
            if columns.data.num_columns != len(kinds):
                raise TypeMismatchError(
                    f"a SQL operator of {len(kinds)} columns was given {columns.data.num_columns}",
                    detail=f"They are: {', '.join(columns.data.schema.names)}.",
                )
        arrays = [
            concat([conform(columns.data.column(place), kind) for columns, _ in batches])
            for place, kind in enumerate(kinds)
        ]
        count = sum(len(columns) for columns, _ in batches)
        changes = self._kinds_of(index, [columns for columns, _ in batches])
        weights = None if changes is None else weights_of(changes)
        seen = batches[0][1]
        if len(batches) > 1:
            seen = np.concatenate([np.broadcast_to(each, len(columns)) for columns, each in batches])
        return Input(arrays, weights, count, seen, changes)

    def _kinds_of(self, index: int, batches: list[Columns]) -> Any | None:
        if all(each.kinds is None for each in batches):
            return None
        kinds = np.concatenate(
            [np.zeros(len(each), np.int8) if each.kinds is None else as_numpy(each.kinds) for each in batches]
        )
        if not self._retracts[index]:
            if (kinds & 1).any():
                raise TypeMismatchError(
                    f"operator {self.context.name} was given retractions, and was planned for inserts only",
                    hint="This is an error of the planner; please report the query.",
                )
            return None
        return kinds

    def count(self, name: str, number: int) -> None:
        """Add to a counter of the epoch."""
        if number:
            self.counters[name] = self.counters.get(name, 0) + int(number)

    def emit(self, batch: Columns | None) -> None:
        """Hand on a batch, if there is one."""
        if batch is not None and len(batch):
            self.output.emit(batch)
