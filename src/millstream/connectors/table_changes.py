"""What readers of tables and of their changes have in common, whatever the system of the database."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from millstream.connectors.reconnects import ConnectionLost
from millstream.connectors.table_reader import TableReader
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["ChangedTable", "TableChangeReader"]

_log = logging.getLogger(__name__)

_BATCH_CHANGES = 8_192
_WAIT_S = 0.02


class ChangedTable(Protocol):
    """Changes of one table on their way to a batch.

    Attributes:
        name: The table's.
        places: Where in the batch each record belongs.
    """

    name: str
    places: list[int]

    def take(self) -> Columns:
        """Return the records, and begin anew."""


class TableChangeReader(SourceReader):
    """Reads the ranges of one subtask: of tables, or the changes.

    Records of one table are rows; those of several are pairs of the table's name and a row.

    Args:
        tables: Reads tables.
        is_one: Whether there is one table.
    """

    gives_away = True

    def __init__(self, tables: TableReader, *, is_one: bool) -> None:
        self._tables = tables
        self._is_one = is_one
        self._stream: Any = None

    @abstractmethod
    def _open_stream(self, split: Any, position: Any) -> Any:
        """Begin to read changes from a position on; return what has `take`, `position` and `close`."""

    @abstractmethod
    def _add(self, split: Any, found: Sequence[Any]) -> int:
        """Add what the stream gave to the tables it is of; return how many records that are."""

    @abstractmethod
    def _changed_tables(self) -> Sequence[ChangedTable]:
        """Return the tables that changes were found of."""

    def open(self) -> None:
        """Find out in which form records are wanted."""
        self._tables.wants_columns = self.wants_columns and self._is_one

    def _read_table(self, name: str, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        if self._is_one:
            return self._tables.read(split_range, emit)
        return self._tables.read(
            split_range, lambda batch: emit(Rows([(name, row) for row in batch.to_rows().values]))
        )

    def _read_changes(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        split, position = split_range.split, split_range.start
        count, goes_on = 0, True
        try:
            stream = self._stream_at(split, position)
            while goes_on and count < split_range.max_records:
                # An update is two records.
                most = max(1, min(_BATCH_CHANGES, split_range.max_records - count) // 2)
                found = stream.take(most, _WAIT_S)
                batch = self._batch(self._add(split, found))
                position = stream.position
                goes_on = bool(found)
                if len(batch):
                    count += len(batch)
                    goes_on = emit(batch)
        except ConnectionLost as error:
            _log.warning(
                "reading changes from %s at %s: %s", self._tables.system, self._tables.address, error
            )
            self._close_stream()
        return RangeEnd(split_range.split_id, position, False, count)

    def _stream_at(self, split: Any, position: Any) -> Any:
        if self._stream is not None and self._stream.position != position:
            self._close_stream()
        if self._stream is None:
            self._stream = self._open_stream(split, position)
        return self._stream

    def _batch(self, count: int) -> Batch:
        """Return the records that were added, in their order."""
        tables = [each for each in self._changed_tables() if each.places]
        if self._is_one and tables:
            batch = tables[0].take()
            return batch if self.wants_columns else batch.to_rows()
        records: list[Any] = [None] * count
        for table in tables:
            places = table.places
            for place, row in zip(places, table.take().to_rows().values, strict=True):
                records[place] = (table.name, row)
        return Rows(records)

    def close(self) -> None:
        """Close the connections."""
        self._tables.close()
        self._close_stream()

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
