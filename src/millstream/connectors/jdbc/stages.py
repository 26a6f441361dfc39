"""Where rows wait in the database until their checkpoint is complete: a table for each writer and checkpoint.

A table sink's stage has the columns of its table, so what is wrong with a value shows at once, in the slot, and the
commit is one `INSERT .. SELECT` in the database. A statement's stage holds its parameters, batch by batch, pickled; the
driver reads them back and executes the statement. What is read back from a database is unpickled with the types of
values only: who can write the table can put wrong values into it, but no code.
"""

from __future__ import annotations

import datetime
import io
import pickle
import uuid
from abc import ABC, abstractmethod
from decimal import Decimal
from types import NoneType
from typing import Any

from millstream.base.errors import NotSerializableError, SinkError, shorten
from millstream.base.time import Instant
from millstream.connectors.jdbc.database import RowValues, Session
from millstream.connectors.jdbc.work import Append, Deleted, Statement, Upsert, Work

__all__ = ["Stage", "stage_for"]

_BATCH_ROWS = 1 << 32


class Stage(ABC):
    """How the rows of one sink wait."""

    @abstractmethod
    def create(self, session: Session, table: str) -> None:
        """Make the table, if it is not there."""

    @abstractmethod
    def load(self, session: Session, table: str, number: int, rows: list[RowValues]) -> None:
        """Put a batch into it; numbers go up from 1."""

    @abstractmethod
    def publish(self, session: Session, table: str) -> None:
        """Do with its rows what the sink is for."""

    def suspects(self) -> list[RowValues]:
        """Return the rows among which is the one that was refused by `publish`; none if the database names it."""
        return []


def stage_for(work: Work) -> Stage:
    """Return how rows wait for some work."""
    if isinstance(work, Append):
        return _AppendStage(work)
    if isinstance(work, Upsert):
        return _UpsertStage(work)
    assert isinstance(work, Statement)
    return _StatementStage(work)


class _AppendStage(Stage):
    """The columns of the table."""

    def __init__(self, work: Append) -> None:
        self._database = work.database
        self._target = work.target

    def create(self, session: Session, table: str) -> None:
        target = self._target
        for sql in self._database.stage_statements(
            table, target.table, target.columns, target.required, is_ordered=False
        ):
            session.execute(sql)

    def load(self, session: Session, table: str, number: int, rows: list[RowValues]) -> None:
        session.load(table, self._target.columns, rows)

    def publish(self, session: Session, table: str) -> None:
        names = ", ".join(self._target.columns)
        session.execute(f"INSERT INTO {self._target.table} ({names}) SELECT {names} FROM {table}")


class _UpsertStage(Stage):
    """The columns of the table, the order in which rows came, and whether their key is to be deleted."""

    def __init__(self, work: Upsert) -> None:
        self._database = work.database
        self._target = work.target

    def create(self, session: Session, table: str) -> None:
        database, target = self._database, self._target
        for sql in database.stage_statements(
            table, target.table, target.columns, target.required, is_ordered=True
        ):
            session.execute(sql)

    def load(self, session: Session, table: str, number: int, rows: list[RowValues]) -> None:
        first = number * _BATCH_ROWS
        session.load(
            table,
            (*self._target.columns, "millstream_order", "millstream_deleted"),
            [(*row, order, 1 if type(row) is Deleted else 0) for order, row in enumerate(rows, first)],
        )

    def publish(self, session: Session, table: str) -> None:
        target, database = self._target, self._database
        names, keys = ", ".join(target.columns), ", ".join(target.keys)
        ranked = (
            f"(SELECT {names}, millstream_deleted, "
            f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY millstream_order DESC) AS millstream_rank "
            f"FROM {table}) ranked WHERE millstream_rank = 1 AND millstream_deleted"
        )
        if session.execute(f"SELECT 1 FROM {table} WHERE millstream_deleted = 1 LIMIT 1"):
            query = f"SELECT {keys} FROM {ranked} = 1"
            session.execute(database.delete_matching(target.table, query, target.keys))
        session.execute(
            f"INSERT INTO {target.table} ({names}) SELECT {names} FROM {ranked} = 0 ORDER BY {keys} "
            + database.on_conflict(target.keys, target.others)
        )


class _StatementStage(Stage):
    """The parameters of a statement, pickled."""

    def __init__(self, work: Statement) -> None:
        self._work = work
        self._rows: list[RowValues] = []

    def suspects(self) -> list[RowValues]:
        return self._rows

    def create(self, session: Session, table: str) -> None:
        blob = self._work.database.blob
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (batch BIGINT NOT NULL PRIMARY KEY, parameters {blob} NOT NULL)"
        )

    def load(self, session: Session, table: str, number: int, rows: list[RowValues]) -> None:
        session.change(f"INSERT INTO {table} (batch, parameters) VALUES (?, ?)", (number, _dump(rows)))

    def publish(self, session: Session, table: str) -> None:
        for (number,) in session.execute(f"SELECT batch FROM {table} ORDER BY batch"):
            ((data,),) = session.execute(f"SELECT parameters FROM {table} WHERE batch = ?", (number,))
            self._rows = _load(data)
            self._work.write(session, self._rows)
        self._rows = []


_VALUES: dict[tuple[str, str], Any] = {
    ("decimal", "Decimal"): Decimal,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    (Instant.__module__, "Instant"): Instant,
    ("uuid", "UUID"): uuid.UUID,
}


class _ValuesOnly(pickle.Unpickler):
    """Knows the types that parameters have, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        found = _VALUES.get((module, name))
        if found is None:
            raise SinkError(
                f"a staged statement has a parameter of the type {module}.{name}, which is no type of values"
            )
        return found


class _OfValues(pickle.Pickler):
    """Pickles what `_ValuesOnly` knows; is asked about all that is not of a type with a code of its own."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, datetime.datetime) and not isinstance(value.tzinfo, _PLAIN_ZONES):
            zone = datetime.timezone(value.utcoffset() or datetime.timedelta())  # no database wants its rules
            return datetime.datetime, (*value.timetuple()[:6], value.microsecond, zone)
        if kind in _TYPES:
            return NotImplemented
        raise NotSerializableError(
            f"a parameter of a statement that is executed exactly once is {shorten(value)}, a {kind.__name__}",
            detail="It waits in the database until its checkpoint is complete, and only plain values do.",
            hint="Make it a number, text, bytes, Decimal, date, time, datetime, list or dict before the sink.",
        )


_PLAIN_ZONES = (NoneType, datetime.timezone)
_TYPES = frozenset(_VALUES.values()) | {type}


def _dump(rows: list[RowValues]) -> bytes:
    file = io.BytesIO()
    _OfValues(file, protocol=5).dump(rows)
    return file.getvalue()


def _load(data: bytes) -> list[RowValues]:
    rows: list[RowValues] = _ValuesOnly(io.BytesIO(bytes(data))).load()
    return rows
