"""What is done with a batch of records: a statement for each, an append to a table, an upsert by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from millstream.base.errors import SinkError, shorten
from millstream.connectors.jdbc.database import Database, RowValues, Session
from millstream.connectors.jdbc.link import Link
from millstream.connectors.jdbc.rows import RowReader
from millstream.connectors.jdbc.tables import TableTarget
from millstream.types.row import RowKind

__all__ = ["Append", "Deleted", "Statement", "Upsert", "Work", "refusal"]


class Deleted(tuple[Any, ...]):
    """A row of values whose key is to be deleted."""

    __slots__ = ()


class Work(ABC):
    """Writes rows of values.

    Attributes:
        database: Where.
    """

    def __init__(self, database: Database, reader: RowReader) -> None:
        self.database = database
        self._reader = reader

    @abstractmethod
    def read(self, values: list[Any]) -> list[RowValues]:
        """Return the rows of records."""

    def prepare(self, session: Session) -> None:
        """Prepare a new connection."""

    @abstractmethod
    def write(self, session: Session, rows: list[RowValues]) -> None:
        """Write rows, at least one."""


class Statement(Work):
    """Executes a statement for each record, of whatever kind, as Flink does."""

    def __init__(self, database: Database, reader: RowReader, sql: str) -> None:
        super().__init__(database, reader)
        self.sql = sql

    def read(self, values: list[Any]) -> list[RowValues]:
        """Take the values of all."""
        return [row for _, rows in self._reader.read(values) for row in rows]

    def write(self, session: Session, rows: list[RowValues]) -> None:
        """Have the driver execute it."""
        session.execute_many(self.sql, rows)


class Append(Work):
    """Inserts records into a table."""

    def __init__(self, database: Database, reader: RowReader, target: TableTarget) -> None:
        super().__init__(database, reader)
        self.target = target

    def read(self, values: list[Any]) -> list[RowValues]:
        """Take the values of insertions; anything else cannot be appended."""
        rows: list[RowValues] = []
        for kind, run in self._reader.read(values):
            if kind is not RowKind.INSERT:
                raise SinkError(
                    f"a sink that appends to {self.target.table} was given a row of the kind {kind}: {shorten(run[0])}",
                    hint="Name key columns, with_key_columns(...), for streams of changes.",
                )
            rows += run
        return self.target.adapt(rows)

    def write(self, session: Session, rows: list[RowValues]) -> None:
        """Insert them by the fastest way."""
        session.load(self.target.table, self.target.columns, rows)


class Upsert(Work):
    """Overwrites and deletes rows by key; of those with the same key the last one counts."""

    def __init__(self, database: Database, reader: RowReader, target: TableTarget) -> None:
        super().__init__(database, reader)
        self.target = target
        self._key: Callable[[RowValues], Any] = itemgetter(*target.key_positions)
        keys = " AND ".join(f"{key} = ?" for key in target.keys)
        self._delete = f"DELETE FROM {target.table} WHERE {keys}"

    def read(self, values: list[Any]) -> list[RowValues]:
        """Take the values; what a row was before a change is of no interest, its key is overwritten."""
        rows: list[RowValues] = []
        for kind, run in self._reader.read(values):
            if kind is RowKind.DELETE:
                rows += map(Deleted, self.target.adapt(run))
            elif kind is not RowKind.UPDATE_BEFORE:
                rows += self.target.adapt(run)
        return rows

    def prepare(self, session: Session) -> None:
        """Have the database prepare."""
        self.database.prepare(session, self.target)

    def write(self, session: Session, rows: list[RowValues]) -> None:
        """Delete, then overwrite: the keys of the two differ."""
        last = dict(zip(map(self._key, rows), rows, strict=True)).values()
        kept = [row for row in last if type(row) is not Deleted]
        if len(kept) < len(last):
            positions = self.target.key_positions
            gone = [tuple(row[at] for at in positions) for row in last if type(row) is Deleted]
            session.execute_many(self._delete, gone)
        if kept:
            self.database.upsert(session, self.target, kept)


def refusal(
    link: Link, write: Callable[[Session, list[RowValues]], None], rows: list[RowValues], error: Exception
) -> SinkError:
    """Return an error that names the record that a database refused, found by writing the rows one by one.

    Args:
        link: A connection; nothing of what is tried stays.
        write: What failed.
        rows: What it was given.
        error: What it raised.
    """
    guilty: RowValues | None = None

    def find(session: Session) -> None:
        nonlocal guilty
        for row in rows:
            guilty = row
            write(session, [row])
        guilty = None
        raise _NotFoundError

    try:
        link.run(find, what="looking for the record that was refused")
    except _NotFoundError:
        pass
    except Exception as second:  # noqa: BLE001 - errors of drivers have no common class
        error = second if guilty is not None else error
    about = f"one of {len(rows)} records" if guilty is None else f"record {shorten(tuple(guilty))}"
    return SinkError(
        f"the database refused {about}",
        detail=f"{type(error).__name__}: {' '.join(str(error).split())[:600]}",
        hint="Correct or filter such records before the sink, or change the table or the statement.",
    )


class _NotFoundError(Exception):
    """No record was refused by itself."""
