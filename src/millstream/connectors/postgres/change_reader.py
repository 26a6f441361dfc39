"""Reads tables, and then what changes in them."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import SourceError
from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.change_enumerator import ChangeRequest, ChangeSplit
from millstream.connectors.postgres.pgoutput import Change, TableMessage, Values
from millstream.connectors.postgres.reader import PostgresReader
from millstream.connectors.postgres.relation import Relation, quoted
from millstream.connectors.postgres.replication import ChangePosition, ChangeStream
from millstream.connectors.postgres.rows import RowParser
from millstream.connectors.table_changes import ChangedTable, TableChangeReader
from millstream.spi.batch import Columns
from millstream.spi.source import EmitBatch, RangeEnd, SplitRange
from millstream.types.arrow_types import load_arrow
from millstream.types.row import RowKind

__all__ = ["ChangeReader"]


class ChangeReader(TableChangeReader):
    """Reads the ranges of one subtask: of tables, as `PostgresReader` does, or the changes."""

    def __init__(self, address: PostgresAddress, request: ChangeRequest) -> None:
        super().__init__(PostgresReader(address), is_one=len(request.tables) == 1)
        self._address = address
        self._request = request
        self._parts: dict[int, _TablePart] = {}
        self._read_to: ChangePosition | None = None

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell the server that it need not keep what was read until now."""
        if self._stream is not None and self._read_to is not None:
            self._stream.confirm(self._read_to[0])

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of a table, or changes: as many as wanted, or those that are there."""
        split = split_range.split
        if not isinstance(split, ChangeSplit):
            return self._read_table(_short(split.relation), split_range, emit)
        end = self._read_changes(split_range, emit)
        self._read_to = end.position
        return end

    def _open_stream(self, split: ChangeSplit, position: ChangePosition) -> ChangeStream:
        self._tables.close()
        return ChangeStream(self._address, self._request.slot, self._request.publication, position)

    def _add(self, split: ChangeSplit, found: Sequence[Change | TableMessage]) -> int:
        count = 0
        for each in found:
            if isinstance(each, TableMessage):
                self._learn(split.relations, each)
            elif (part := self._parts.get(each.oid)) is not None:  # the publication may have more tables
                count = part.add(each, count)
        return count

    def _learn(self, relations: Sequence[Relation], message: TableMessage) -> None:
        for relation in relations:
            if relation.oid == message.oid:
                self._parts.setdefault(message.oid, _TablePart(relation)).learn(message)

    def _changed_tables(self) -> Sequence[ChangedTable]:
        return list(self._parts.values())

    def _close_stream(self) -> None:
        super()._close_stream()
        self._parts.clear()


class _TablePart:
    """Changes of one table on their way to a batch.

    Attributes:
        name: The table's.
        places: Where in the batch each record belongs.
    """

    def __init__(self, relation: Relation) -> None:
        self.name = _short(relation)
        self.places: list[int] = []
        self._relation = relation
        self._parser = RowParser(relation, 0)
        self._order: list[int] = []
        self._key: list[int] = []
        self._lines: list[bytes] = []
        self._kinds: list[int] = []

    def learn(self, message: TableMessage) -> None:
        """Take note of the columns that changes have from here on; further ones than are read do not matter.

        Raises:
            SourceError: If a column is gone, or has another type.
        """
        there = {name: (place, number) for place, (name, number) in enumerate(message.columns)}
        relation = self._relation
        for column, number in zip(relation.columns, relation.numbers, strict=True):
            if column not in there or there[column][1] != number:
                change = "is gone" if column not in there else "has another type"
                raise SourceError(
                    f"column {column!r} of {relation.name} {change} in the changes that follow",
                    hint="Start the job anew, without its checkpoint.",
                )
        self._order = [there[column][0] for column in relation.columns]
        self._key = [there[column][0] for column in relation.columns if quoted(column) in relation.key]

    def add(self, change: Change, place: int) -> int:
        """Add the records of a change; return the place behind them.

        An update that changes the key is a row that goes and another that comes: what keeps rows by their keys has to
        remove the old one, and need not look at UPDATE_BEFORE.

        Raises:
            SourceError: If the row before the change is not whole.
        """
        if change.kind is not RowKind.INSERT:
            if change.old is None or not change.is_whole:
                raise SourceError(
                    f"a change of {self._relation.name} comes without the whole row before it (REPLICA IDENTITY)",
                    hint=f"ALTER TABLE {self.name} REPLICA IDENTITY FULL, and start the job anew.",
                )
            if change.new is None:
                return self._add(RowKind.DELETE, change.old, place)
            if any(change.old[each] != change.new[each] for each in self._key):
                place = self._add(RowKind.DELETE, change.old, place)
                return self._add(RowKind.INSERT, change.new, place)
            place = self._add(RowKind.UPDATE_BEFORE, change.old, place)
        assert change.new is not None
        return self._add(change.kind, change.new, place)

    def _add(self, kind: RowKind, values: Values, place: int) -> int:
        fields = [values[each] for each in self._order]
        self._lines.append(
            b",".join(
                [b"" if value is None else b'"' + value.replace(b'"', b'""') + b'"' for value in fields]
            )
        )
        self._kinds.append(kind.value)
        self.places.append(place)
        return place + 1

    def take(self) -> Columns:
        """Return the records, and begin anew."""
        pa = load_arrow("PostgreSQL sources")
        data, _ = self._parser.batch(b"\n".join(self._lines) + b"\n")
        kinds = pa.array(self._kinds, pa.int8()) if any(self._kinds) else None
        self._lines, self._kinds, self.places = [], [], []
        return Columns(data, kinds=kinds)


def _short(relation: Relation) -> str:
    return relation.name.removeprefix("table ")
