"""Reads tables, and then what changes in them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.connectors.mysql.address import ConnectionLost, MySqlAddress
from millstream.connectors.mysql.binlog import BinlogStream, Change, ChangePosition, Image
from millstream.connectors.mysql.change_enumerator import ChangeRequest, ChangeSplit, TablesRead
from millstream.connectors.mysql.change_values import RowReader
from millstream.connectors.mysql.ddl import TableName
from millstream.connectors.mysql.parts import PartFilter
from millstream.connectors.mysql.reader import MySqlReader
from millstream.connectors.mysql.relation import Relation
from millstream.connectors.mysql.rows import WHAT, schema_of
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange
from millstream.types.arrow_types import load_arrow
from millstream.types.row import RowKind

__all__ = ["ChangeReader"]

_log = logging.getLogger(__name__)

_BATCH_CHANGES = 8_192
_WAIT_S = 0.02


class ChangeReader(SourceReader):
    """Reads the ranges of one subtask: of tables, as `MySqlReader` does, or the changes.

    Records of one table are rows; those of several are pairs of the table's name and a row.
    """

    gives_away = True

    def __init__(self, address: MySqlAddress, request: ChangeRequest) -> None:
        self._address = address
        self._is_one = len(request.tables) == 1
        self._tables = MySqlReader(address)
        self._stream: BinlogStream | None = None
        self._filter: PartFilter | None = None
        self._parts: dict[TableName, _TablePart] = {}

    def open(self) -> None:
        """Find out in which form records are wanted."""
        self._tables.wants_columns = self.wants_columns and self._is_one

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of a table, or changes: as many as wanted, or those that are there."""
        split = split_range.split
        if isinstance(split, ChangeSplit):
            return self._read_changes(split, split_range, emit)
        if isinstance(split, TablesRead):
            self._tables.close()
            return RangeEnd(split_range.split_id, None, True, 0)
        if self._is_one:
            return self._tables.read(split_range, emit)
        name = _shown(split.relation)
        return self._tables.read(
            split_range, lambda batch: emit(Rows([(name, row) for row in batch.to_rows().values]))
        )

    def _read_changes(self, split: ChangeSplit, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        position: ChangePosition = split_range.start
        count, goes_on = 0, True
        try:
            stream = self._stream_at(split, position)
            while goes_on and count < split_range.max_records:
                # An update is two records.
                most = max(1, min(_BATCH_CHANGES, split_range.max_records - count) // 2)
                found = stream.take(most, _WAIT_S)
                if found and split.parts:
                    self._filter = self._filter or PartFilter(self._address, split.relations, split.parts)
                    goes_on, kept = True, self._filter.apply(found)
                else:
                    goes_on, kept = bool(found), found
                batch = self._batch(split, kept)
                position = stream.position
                if len(batch):
                    count += len(batch)
                    goes_on = emit(batch)
        except ConnectionLost as error:
            _log.warning("reading changes from MySQL at %s: %s", self._address, error)
            self._close_stream()
        return RangeEnd(split_range.split_id, position, False, count)

    def _stream_at(self, split: ChangeSplit, position: ChangePosition) -> BinlogStream:
        if self._stream is not None and self._stream.position != position:
            self._close_stream()
        if self._stream is None:
            self._parts = {name: _TablePart(relation) for name, relation in split.relations.items()}
            self._stream = BinlogStream(self._address, list(split.relations), position)
        return self._stream

    def _batch(self, split: ChangeSplit, changes: Sequence[Change]) -> Batch:
        """Return the records that changes are, in their order."""
        count = 0
        for change in changes:
            count = self._parts[change.table].add(change, count)
        parts = [part for part in self._parts.values() if part.places]
        if self._is_one and parts:
            batch = parts[0].take()
            return batch if self.wants_columns else batch.to_rows()
        records: list[Any] = [None] * count
        for part in parts:
            places = part.places
            for place, row in zip(places, part.take().to_rows().values, strict=True):
                records[place] = (part.name, row)
        return Rows(records)

    def close(self) -> None:
        """Close the connections."""
        self._tables.close()
        self._close_stream()

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._filter is not None:
            self._filter.close()
        self._stream = self._filter = None
        self._parts.clear()


class _TablePart:
    """Changes of one table on their way to a batch.

    Attributes:
        name: The table's.
        places: Where in the batch each record belongs.
    """

    def __init__(self, relation: Relation) -> None:
        self.name = _shown(relation)
        self.places: list[int] = []
        self._relation = relation
        self._schema = schema_of(relation)
        self._columns: list[Any] | None = None
        self._reader: RowReader | None = None
        self._rows: list[list[Any]] = []
        self._kinds: list[int] = []

    def add(self, change: Change, place: int) -> int:
        """Add the records of a change; return the place behind them.

        Raises:
            SourceError: If a column is gone, or has another type.
        """
        if self._reader is None or self._columns is not change.columns:
            self._reader, self._columns = RowReader(self._relation, change.columns), change.columns
        if change.old is not None:
            kind = RowKind.DELETE if change.new is None else RowKind.UPDATE_BEFORE
            place = self._add(self._reader, kind, change.old, place)
        return place if change.new is None else self._add(self._reader, change.kind, change.new, place)

    def _add(self, reader: RowReader, kind: RowKind, image: Image, place: int) -> int:
        self._rows.append(reader.values(image))
        self._kinds.append(kind.value)
        self.places.append(place)
        return place + 1

    def take(self) -> Columns:
        """Return the records, and begin anew.

        Raises:
            MalformedRecordError: If a value does not fit its type.
        """
        pa = load_arrow(WHAT)
        columns = zip(*self._rows, strict=True)
        try:
            arrays = [pa.array(each, field.type) for each, field in zip(columns, self._schema, strict=True)]
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise MalformedRecordError(
                f"a value in the changes of {self._relation.name} does not fit its type", detail=str(error)
            ) from error
        kinds = pa.array(self._kinds, pa.int8()) if any(self._kinds) else None
        self._rows, self._kinds, self.places = [], [], []
        return Columns(pa.record_batch(arrays, schema=self._schema), kinds=kinds)


def _shown(relation: Relation) -> str:
    if relation.table is None:
        raise SourceError("a query has no changes")
    return ".".join(relation.table)
