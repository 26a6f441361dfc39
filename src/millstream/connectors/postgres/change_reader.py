"""Reads tables, and then what changes in them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.change_enumerator import ChangeRequest, ChangeSplit
from millstream.connectors.postgres.copying import ConnectionLost
from millstream.connectors.postgres.pgoutput import Change, TableMessage, Values
from millstream.connectors.postgres.reader import PostgresReader
from millstream.connectors.postgres.relation import Relation, quoted
from millstream.connectors.postgres.replication import ChangePosition, ChangeStream
from millstream.connectors.postgres.rows import RowParser
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange
from millstream.types.arrow_types import load_arrow
from millstream.types.row import RowKind

__all__ = ["ChangeReader"]

_log = logging.getLogger(__name__)

_BATCH_CHANGES = 8_192
_WAIT_S = 0.02


class ChangeReader(SourceReader):
    """Reads the ranges of one subtask: of tables, as `PostgresReader` does, or the changes.

    Records of one table are rows; those of several are pairs of the table's name and a row.
    """

    gives_away = True

    def __init__(self, address: PostgresAddress, request: ChangeRequest) -> None:
        self._address = address
        self._request = request
        self._tables = PostgresReader(address)
        self._stream: ChangeStream | None = None
        self._parts: dict[int, _TablePart] = {}
        self._read_to: ChangePosition | None = None

    @property
    def _is_one(self) -> bool:
        return len(self._request.tables) == 1

    def open(self) -> None:
        """Find out in which form records are wanted."""
        self._tables.wants_columns = self.wants_columns and self._is_one

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell the server that it need not keep what was read until now."""
        if self._stream is not None and self._read_to is not None:
            self._stream.confirm(self._read_to[0])

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of a table, or changes: as many as wanted, or those that are there."""
        split = split_range.split
        if isinstance(split, ChangeSplit):
            return self._read_changes(split, split_range, emit)
        if self._is_one:
            return self._tables.read(split_range, emit)
        name = _short(split.relation)
        return self._tables.read(
            split_range, lambda batch: emit(Rows([(name, row) for row in batch.to_rows().values]))
        )

    def _read_changes(self, split: ChangeSplit, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        position: ChangePosition = split_range.start
        count, goes_on = 0, True
        try:
            stream = self._stream_at(position)
            while goes_on and count < split_range.max_records:
                # An update is two records.
                most = max(1, min(_BATCH_CHANGES, split_range.max_records - count) // 2)
                found = stream.take(most, _WAIT_S)
                batch = self._batch(split.relations, found)
                position = stream.position
                goes_on = bool(found)
                if len(batch):
                    count += len(batch)
                    goes_on = emit(batch)
        except ConnectionLost as error:
            _log.warning("reading changes from PostgreSQL at %s: %s", self._address, error)
            self._close_stream()
        self._read_to = position
        return RangeEnd(split_range.split_id, position, False, count)

    def _stream_at(self, position: ChangePosition) -> ChangeStream:
        if self._stream is not None and self._stream.position != position:
            self._close_stream()
        if self._stream is None:
            self._tables.close()
            self._stream = ChangeStream(
                self._address, self._request.slot, self._request.publication, position
            )
        return self._stream

    def _batch(self, relations: Sequence[Relation], found: Sequence[Change | TableMessage]) -> Batch:
        """Return the records that changes are, in their order."""
        count = 0
        for each in found:
            if isinstance(each, TableMessage):
                self._learn(relations, each)
            elif (part := self._parts.get(each.oid)) is not None:  # the publication may have more tables
                count = part.add(each, count)
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

    def _learn(self, relations: Sequence[Relation], message: TableMessage) -> None:
        for relation in relations:
            if relation.oid == message.oid:
                self._parts.setdefault(message.oid, _TablePart(relation)).learn(message)

    def close(self) -> None:
        """Close the connections."""
        self._tables.close()
        self._close_stream()

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
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
