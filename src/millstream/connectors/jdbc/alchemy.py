"""SQLite, and every other database that SQLAlchemy has a dialect for."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package
from millstream.base.time import Instant
from millstream.connectors.jdbc.database import Column, Database, RowValues, Session, Trouble, moment_of
from millstream.connectors.jdbc.statements import count_parameters

__all__ = ["Alchemy", "Sqlite", "load_sqlalchemy"]


class Alchemy(Database):
    """A database by SQLAlchemy and the driver that it chooses; statements only."""

    def check_installed(self) -> None:
        """Load SQLAlchemy and the driver."""
        self.product = self.url.kind
        sqlalchemy = load_sqlalchemy()
        try:
            engine = sqlalchemy.create_engine(self._address(), poolclass=sqlalchemy.pool.NullPool)
        except (sqlalchemy.exc.NoSuchModuleError, ImportError) as error:
            raise ConfigurationError(
                f"SQLAlchemy cannot reach databases of the kind {self.url.dialect!r}: {error}",
                hint="Install the database's dialect and driver for SQLAlchemy, or correct the URL.",
            ) from None
        self.style = engine.dialect.paramstyle.replace("numeric_dollar", "numeric")

    def connect(self) -> Session:
        """Connect."""
        return _AlchemySession(self, self.connect_to_ask())

    def connect_to_read(self, rows: int) -> Any:
        """Return a connection of SQLAlchemy, whose results come as they are fetched, so many rows at once."""
        return self.connect_to_ask().execution_options(stream_results=True, max_row_buffer=rows)

    def connect_to_ask(self) -> Any:
        """Return a connection of SQLAlchemy, for small results."""
        sqlalchemy = load_sqlalchemy()
        engine = sqlalchemy.create_engine(self._address(), poolclass=sqlalchemy.pool.NullPool)
        return engine.connect()

    def execute_in(self, connection: Any, sql: str, parameters: Sequence[Any]) -> Any:
        """Execute a statement, and return SQLAlchemy's result; it has `?` for parameters, if there are any."""
        if not parameters:
            return connection.exec_driver_sql(sql)
        (adapted,) = self.parameters_of([tuple(parameters)])
        return connection.exec_driver_sql(self.translate(sql), adapted)

    def parameters_of(self, rows: Sequence[RowValues]) -> list[Any]:
        """Return rows of parameters as the driver takes them."""
        adapted = list(self.adapt(rows))
        if self.style not in ("pyformat", "named"):
            return adapted
        names = [f"p{number}" for number in range(1, len(rows[0]) + 1)]
        return [dict(zip(names, row, strict=True)) for row in adapted]

    def judge(self, error: Exception) -> Trouble:
        """Go by what SQLAlchemy makes of it."""
        sqlalchemy = load_sqlalchemy()
        if not isinstance(error, sqlalchemy.exc.DBAPIError):
            return Trouble.FINAL
        is_connecting = isinstance(error, sqlalchemy.exc.OperationalError) and error.statement is None
        return Trouble.AWAY if error.connection_invalidated or is_connecting else Trouble.FINAL

    def _address(self) -> Any:
        url = self.url
        ((host, port),) = url.hosts[:1]
        return load_sqlalchemy().engine.URL.create(
            url.dialect, url.user, url.password, host, port, url.database, url.parameters
        )

    def adapt(self, rows: Sequence[RowValues]) -> Sequence[RowValues]:
        """Return rows with values that the driver takes."""
        return rows


class Sqlite(Alchemy):
    """A file of SQLite. It has few types: decimals, dates and times are texts, lists and dicts JSON."""

    product = "SQLite"
    writes_tables = True

    def check_installed(self) -> None:
        """Load SQLAlchemy; the driver is a part of Python."""
        load_sqlalchemy()

    def _address(self) -> Any:
        return load_sqlalchemy().engine.URL.create(
            "sqlite", database=self.url.database, query={"timeout": "10"}
        )

    def judge(self, error: Exception) -> Trouble:
        """A file that others are writing is waited for."""
        if "database is locked" in str(error) or "database table is locked" in str(error):
            return Trouble.AWAY
        return Trouble.FINAL

    def adapt(self, rows: Sequence[RowValues]) -> Sequence[RowValues]:
        """Write what SQLite has no type for as texts."""
        if _ADAPTED.keys().isdisjoint(map(type, chain.from_iterable(rows))):
            return rows
        return [tuple([_ADAPTED[type(v)](v) if type(v) in _ADAPTED else v for v in row]) for row in rows]

    def check_statement(self, session: Session, sql: str) -> None:
        """Have it explained."""
        session.execute(f"EXPLAIN {sql}", (None,) * count_parameters(sql, self.syntax))

    def columns(self, session: Session, table: str) -> list[Column]:
        """Ask SQLite."""
        rows = session.execute(f"PRAGMA table_xinfo({self.quote(table)})")
        keys = [row for row in rows if row[5]]
        return [
            Column(
                name,
                type_,
                not not_null and not key,
                default is not None or (bool(key) and len(keys) == 1 and type_.upper() == "INTEGER"),
                hidden in (2, 3),
            )
            for _, name, type_, not_null, default, key, hidden in rows
        ]

    def unique_keys(self, session: Session, table: str) -> list[frozenset[str]]:
        """Ask SQLite; indexes of a part of the rows do not count."""
        primary = frozenset(
            row[1] for row in session.execute(f"PRAGMA table_info({self.quote(table)})") if row[5]
        )
        keys = [primary] if primary else []
        for _, index, unique, _, partial in session.execute(f"PRAGMA index_list({self.quote(table)})"):
            if unique and not partial:
                names = [row[2] for row in session.execute(f"PRAGMA index_info({self.quote(index)})")]
                if None not in names:
                    keys.append(frozenset(names))
        return keys

    def stage_statements(
        self, stage: str, table: str, columns: Sequence[str], required: Sequence[str], *, is_ordered: bool
    ) -> list[str]:
        """Make a table like the other."""
        extra = ", 0 AS millstream_order, 0 AS millstream_deleted" if is_ordered else ""
        return [
            f"CREATE TABLE IF NOT EXISTS {stage} AS SELECT {', '.join(columns)}{extra} FROM {table} WHERE 0"
        ]


class _AlchemySession(Session):
    """A connection of SQLAlchemy."""

    def __init__(self, database: Alchemy, connection: Any) -> None:
        self._database = database
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[RowValues]:
        result = self._run(sql, parameters)
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return int(self._run(sql, parameters).rowcount)

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        return self._database.execute_in(self._connection, sql, parameters)

    def execute_many(self, sql: str, rows: Sequence[RowValues]) -> None:
        self._connection.exec_driver_sql(self._database.translate(sql), self._database.parameters_of(rows))

    def load(self, table: str, columns: Sequence[str], rows: Sequence[RowValues]) -> None:
        marks = ", ".join("?" * len(columns))
        self.execute_many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        with suppress(load_sqlalchemy().exc.SQLAlchemyError):
            self._connection.close()


def _document(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _moment(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    return value.isoformat(" ")


_ADAPTED: dict[type, Callable[[Any], Any]] = {
    decimal.Decimal: str,
    datetime.datetime: _moment,
    Instant: lambda value: _moment(moment_of(value)),
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    uuid.UUID: str,
    bytearray: bytes,
    list: _document,
    tuple: _document,
    dict: _document,
}


def load_sqlalchemy() -> Any:
    """Return SQLAlchemy.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package("sqlalchemy", extra="jdbc", what="databases by SQLAlchemy")
