"""Reads tables, and then what changes in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.connectors.mysql.address import MySqlAddress
from millstream.connectors.mysql.binlog import BinlogStream, Change, ChangePosition, Image
from millstream.connectors.mysql.change_enumerator import ChangeRequest, ChangeSplit, TablesRead
from millstream.connectors.mysql.change_values import RowReader
from millstream.connectors.mysql.ddl import TableName
from millstream.connectors.mysql.parts import PartFilter
from millstream.connectors.mysql.reader import MySqlReader
from millstream.connectors.mysql.relation import Relation
from millstream.connectors.mysql.rows import WHAT, schema_of
from millstream.connectors.table_changes import ChangedTable, TableChangeReader
from millstream.spi.batch import Columns
from millstream.spi.source import EmitBatch, RangeEnd, SplitRange
from millstream.types.arrow_types import load_arrow
from millstream.types.row import RowKind

__all__ = ["ChangeReader"]


class ChangeReader(TableChangeReader):
    """Reads the ranges of one subtask: of tables, as `MySqlReader` does, or the changes."""

    def __init__(self, address: MySqlAddress, request: ChangeRequest) -> None:
        super().__init__(MySqlReader(address), is_one=len(request.tables) == 1)
        self._address = address
        self._filter: PartFilter | None = None
        self._parts: dict[TableName, _TablePart] = {}

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of a table, or changes: as many as wanted, or those that are there."""
        split = split_range.split
        if isinstance(split, ChangeSplit):
            return self._read_changes(split_range, emit)
        if isinstance(split, TablesRead):
            self._tables.close()
            return RangeEnd(split_range.split_id, None, True, 0)
        return self._read_table(_shown(split.relation), split_range, emit)

    def _open_stream(self, split: ChangeSplit, position: ChangePosition) -> BinlogStream:
        self._parts = {name: _TablePart(relation) for name, relation in split.relations.items()}
        return BinlogStream(self._address, list(split.relations), position)

    def _add(self, split: ChangeSplit, found: Sequence[Change]) -> int:
        if found and split.parts:
            self._filter = self._filter or PartFilter(self._address, split.relations, split.parts)
            found = self._filter.apply(found)
        count = 0
        for change in found:
            count = self._parts[change.table].add(change, count)
        return count

    def _changed_tables(self) -> Sequence[ChangedTable]:
        return list(self._parts.values())

    def _close_stream(self) -> None:
        super()._close_stream()
        if self._filter is not None:
            self._filter.close()
        self._filter = None
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
