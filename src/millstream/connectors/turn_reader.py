"""Reads splits that are files or parts of them, as `split_queue` plans them: one after the other, within one budget."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

from millstream.operators.weight import estimate_bytes
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.formats import FileRecords
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["TurnReader"]

_BATCH_RECORDS = 20_000
_FIRST_BATCH_RECORDS = 64
_BATCH_BYTES = 4 << 20


class TurnReader(SourceReader):
    """Reads the splits of one subtask; keeps the one it is in open between epochs.

    A split has an attribute `turn`, the number of the plan: ranges of one turn share one budget.

    Args:
        gives_columns: Whether its records can be columns.
    """

    gives_away = True

    def __init__(self, *, gives_columns: bool) -> None:
        self._gives_columns = gives_columns
        self._opened: Any = None
        self._records: FileRecords | None = None
        self._turn = -1
        self._budget = 0
        self._batch_records = _FIRST_BATCH_RECORDS

    @abstractmethod
    def open_split(self, split: Any, position: Any) -> FileRecords:
        """Return the records of a split from a position on; None is its beginning."""

    @abstractmethod
    def reading(self, split: Any) -> AbstractContextManager[None]:
        """Make errors that come while a split is read those of a source: they name it."""

    def identify(self, split: Any) -> Any:
        """Return what is equal for ranges of the same split."""
        return split.split_id

    def open(self) -> None:
        """Find out in which form records are wanted."""
        self._gives_columns = self.wants_columns and self._gives_columns and find_spec("pyarrow") is not None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a split until its end, until the turn's budget is spent, or until no more is wanted."""
        split = split_range.split
        if split.turn != self._turn:
            self._turn, self._budget = split.turn, split_range.max_records
        if self._budget <= 0:  # an earlier file of this turn took it all
            return RangeEnd(split_range.split_id, split_range.start, False, 0)
        with self.reading(split):
            records = self._open(split, split_range.start)
        count = 0
        while not self._ends(records, split) and self._budget > 0:
            with self.reading(split):
                batch = self.read_some(records, split, min(self._budget, self._batch_records))
            count += len(batch)
            self._budget -= self.spent(batch, records)
            if len(batch):
                self._size_batches(batch)
                if not emit(batch):
                    self._budget = 0
        end = RangeEnd(split_range.split_id, records.position, self._ends(records, split), count)
        if end.finished:
            self.close()
        return end

    def read_some(self, records: FileRecords, split: Any, most: int) -> Batch:
        """Read at most so many records."""
        return Columns(records.read_columns(most)) if self._gives_columns else Rows(records.read(most))

    def spent(self, batch: Batch, records: FileRecords) -> int:
        """Return how much of the budget a batch took that was just read."""
        return len(batch)

    def close(self) -> None:
        """Close the open file."""
        if self._records is not None:
            self._records.close()
        self._opened = self._records = None

    def _size_batches(self, batch: Batch) -> None:
        """Have batches of some megabytes at most: records may be of any size."""
        weight = batch.nbytes if type(batch) is Columns else estimate_bytes(batch.to_rows().values)
        fitting = len(batch) * _BATCH_BYTES // max(weight, 1)
        self._batch_records = max(1, min(fitting, self._batch_records * 8, _BATCH_RECORDS))

    def _ends(self, records: FileRecords, split: Any) -> bool:
        with self.reading(split):
            return records.exhausted

    def _open(self, split: Any, position: Any) -> FileRecords:
        wanted = self.identify(split)
        if self._records is not None and self._opened == wanted and self._records.position == position:
            return self._records
        self.close()
        self._records = self.open_split(split, position)
        self._opened = wanted
        return self._records
