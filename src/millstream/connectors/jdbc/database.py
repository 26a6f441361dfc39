"""What differs between databases: how one connects, what errors mean, how rows are written fastest."""

from __future__ import annotations

import datetime
import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from millstream.base.errors import NotSupportedError
from millstream.base.time import Instant
from millstream.connectors.jdbc.statements import Syntax, translate
from millstream.connectors.jdbc.urls import DatabaseUrl

__all__ = ["Column", "Database", "Session", "Trouble", "moment_of"]

RowValues = tuple[Any, ...]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment_of(instant: Instant) -> datetime.datetime:
    """Return an instant as drivers take it: in UTC, to the microsecond."""
    return _EPOCH + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)


class Trouble(enum.Enum):
    """What an error of a driver means."""

    AWAY = "the server is away, or has no room: it is waited for, and connected to again"
    CONFLICT = "a deadlock or the like: the transaction is repeated"
    FINAL = "it fails again if it is repeated"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its type, as the database writes it.
        is_nullable: Whether it takes NULL.
        is_filled: Whether it has a value if none is given: a default, an identity, a generated column.
        is_generated: Whether it cannot be written.
    """

    name: str
    type: str
    is_nullable: bool = True
    is_filled: bool = False
    is_generated: bool = False


class Session(ABC):
    """One connection; a transaction begins with its first statement and ends with `commit` or `rollback`.

    Statements have `?` for parameters. Errors are the driver's; `Database.judge` says what they mean.
    """

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[RowValues]:
        """Execute a statement; return its rows, none if it has none."""

    @abstractmethod
    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement that changes rows; return how many."""

    @abstractmethod
    def execute_many(self, sql: str, rows: Sequence[RowValues]) -> None:
        """Execute a statement for each row of values, as fast as the driver does."""

    @abstractmethod
    def load(self, table: str, columns: Sequence[str], rows: Sequence[RowValues]) -> None:
        """Insert rows by the fastest way.

        Args:
            table: The table, quoted.
            columns: Names of the columns, quoted.
            rows: The rows; at least one.
        """

    @abstractmethod
    def commit(self) -> None:
        """End the transaction; what it wrote stays."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction; nothing of it stays."""

    @abstractmethod
    def close(self) -> None:
        """End the connection; raises nothing."""


class Database(ABC):
    """A database that can be connected to; picklable.

    Args:
        url: Where it is.

    Attributes:
        product: What it is, for messages.
        syntax: How it writes texts and comments.
        style: The driver's style of placeholders.
        writes_tables: Whether table sinks and sinks that are exactly once can write it.
        blob: Type of columns for bytes.
        overwrites_by_any_key: Whether an upsert overwrites by whatever unique key a table has.
        short_waits: Has a session not wait long for tables that others use; None if it never does.
        quote_mark: What stands around names.
    """

    product: str = ""
    syntax: ClassVar[re.Pattern[str]] = Syntax.STANDARD
    style: str = "qmark"
    writes_tables: ClassVar[bool] = False
    blob: ClassVar[str] = "BLOB"
    overwrites_by_any_key: ClassVar[bool] = False
    short_waits: ClassVar[str | None] = None
    quote_mark: ClassVar[str] = '"'

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url

    def __str__(self) -> str:
        return f"{self.product} at {self.url.address}"

    @abstractmethod
    def check_installed(self) -> None:
        """Load the driver.

        Raises:
            ConfigurationError: If it is not installed.
        """

    @abstractmethod
    def connect(self) -> Session:
        """Connect; errors are the driver's."""

    @abstractmethod
    def judge(self, error: Exception) -> Trouble:
        """Return what an error that a session or `connect` raised means."""

    def translate(self, sql: str) -> str:
        """Return a statement with the driver's placeholders."""
        return translate(sql, self.syntax, self.style)

    def quote(self, name: str) -> str:
        """Return the name of a column, quoted."""
        mark = self.quote_mark
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"

    def quote_table(self, name: str) -> str:
        """Return the name of a table, quoted; dots are between it and its schema."""
        return ".".join(map(self.quote, name.split(".")))

    def check_statement(self, session: Session, sql: str) -> None:
        """Have the server parse a statement, without executing it; errors are the driver's. By default nothing."""

    def columns(self, session: Session, table: str) -> list[Column]:
        """Return the columns of a table, none if it is not there."""
        raise self._no_tables()

    def unique_keys(self, session: Session, table: str) -> list[frozenset[str]]:
        """Return the columns of each primary key and unique index of a table."""
        raise self._no_tables()

    def _no_tables(self) -> NotSupportedError:
        return NotSupportedError(
            f"tables of {self.product} are not written by name", hint="Use JdbcSink.sink(statement, …)."
        )

    def on_conflict(self, keys: Sequence[str], others: Sequence[str]) -> str:
        """Return what an INSERT ends with to overwrite rows with the same key; all names are quoted."""
        updates = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {updates}" if others else "NOTHING"
        return f"ON CONFLICT ({', '.join(keys)}) DO {action}"

    def insert_new(self, table: str, columns: str, values: str, key: str) -> str:
        """Return an INSERT that does nothing if there is a row with the same key."""
        return f"INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT ({key}) DO NOTHING"

    def delete_matching(self, table: str, query: str, keys: Sequence[str]) -> str:
        """Return a DELETE of the rows whose keys a query gives."""
        return f"DELETE FROM {table} WHERE ({', '.join(keys)}) IN ({query})"

    def stage_statements(
        self, stage: str, table: str, columns: Sequence[str], required: Sequence[str], *, is_ordered: bool
    ) -> list[str]:
        """Return what makes a table that rows for another one wait in, unless it is there.

        Args:
            stage: Its name, quoted.
            table: The other one, quoted.
            columns: The columns that are written, quoted.
            required: Those of them that refuse NULL.
            is_ordered: Whether it has the columns millstream_order and millstream_deleted, integers of 64 bits, too.
        """
        raise self._no_tables()

    def upsert(self, session: Session, target: Any, rows: Sequence[RowValues]) -> None:
        """Insert rows, or overwrite those with the same keys; no two rows have the same.

        Args:
            session: The connection.
            target: The table (`tables.TableTarget`).
            rows: The rows.
        """
        marks = ", ".join("?" * len(target.columns))
        conflict = self.on_conflict(target.keys, target.others)
        session.execute_many(
            f"INSERT INTO {target.table} ({', '.join(target.columns)}) VALUES ({marks}) {conflict}", rows
        )

    def prepare(self, session: Session, target: Any) -> None:
        """Make what `upsert` needs in a new session."""
