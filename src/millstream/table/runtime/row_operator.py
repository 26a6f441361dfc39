"""Operators that look at one row at a time: what they give of a batch goes on at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.base import Operator, OperatorReport, Reach
from millstream.operators.columnar.marks import kept_between
from millstream.spi.batch import Batch, Columns, Marks, Rows
from millstream.table.runtime.arrays import conform

__all__ = ["RowOperator"]


class RowOperator(Operator):
    """Base of operators without state.

    Args:
        kinds: Arrow types of the input's columns; None takes them as they are.
        names: Names of the output's columns; empty for f0, f1, ...
    """

    def __init__(self, kinds: Sequence[pa.DataType] | None, names: Sequence[str] = ()) -> None:
        self._kinds = None if kinds is None else list(kinds)
        self._names = list(names)
        self._counts: dict[str, int] = {}

    @abstractmethod
    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the output's columns, and which row of the input each row is of, ascending; None if it is the same.

        Args:
            columns: The input's.
            kinds: Kind of each row, an Arrow array; None if all are inserts.
            count: How many rows there are.
        """

    def kinds_given(self, kinds: Any | None, places: Any | None) -> Any | None:
        """Return the kind of each row that `compute` gave: that of the row of the input that it is of.

        Args:
            kinds: Kind of each row of the input, an Arrow array; None if all are inserts.
            places: Which row of the input each row is of; None if it is the same.
        """
        return kinds if kinds is None or places is None else kinds.take(pa.array(places))

    def process(self, batch: Batch) -> None:
        """Hand on what a batch gives."""
        self._hand_on(batch, None)

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Hand on what a batch gives; each watermark stays between the rows that it was between."""
        self._hand_on(batch.unmarked(), batch.marks)
        self.watermark_ms = batch.last_mark_ms
        return None

    def _hand_on(self, batch: Batch, marks: Marks | None) -> None:
        if not len(batch):
            if marks is not None:
                self.output.emit(Columns(_no_rows(), marks=marks))
            return
        rows = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        columns = list(rows.data.columns)
        if self._kinds is not None:
            columns = [conform(column, kind) for column, kind in zip(columns, self._kinds, strict=True)]
        kinds = rows.kinds
        given, places = self.compute(columns, kinds, len(rows))
        count = len(rows) if places is None else len(places)
        kinds = self.kinds_given(kinds, places)
        if places is not None:
            marks = None if marks is None else kept_between(marks, places)
        if not count and marks is None:
            return
        names = self._names or [f"f{place}" for place in range(len(given))]
        if given:
            data = pa.RecordBatch.from_arrays(given, names)
        else:
            data = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        self.output.emit(Columns(data, None, kinds, marks))

    def count(self, name: str, number: int) -> None:
        """Add to a counter of the epoch."""
        if number:
            self._counts[name] = self._counts.get(name, 0) + int(number)

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report counts."""
        for name, number in self._counts.items():
            report.counters[name] = report.counters.get(name, 0) + number
        self._counts = {}

    @property
    def seen_ms(self) -> int | None:
        """The watermark, None before the first."""
        return None if self.watermark_ms == MIN_TIMESTAMP else self.watermark_ms


def _no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.empty(0, np.int64))], ["f0"])
