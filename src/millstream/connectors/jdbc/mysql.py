"""MySQL and MariaDB, by PyMySQL: many rows in one INSERT.

Times with a zone are written in UTC, and the session's zone is UTC, so columns of either kind, DATETIME and TIMESTAMP,
hold the moment. Lists and dicts are written as JSON. Values that do not fit fail: the session is strict, as it is with
Java's driver.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package
from millstream.base.time import Instant
from millstream.connectors.jdbc.database import Column, Database, RowValues, Session, Trouble, moment_of
from millstream.connectors.jdbc.statements import Syntax
from millstream.connectors.mysql_client import AWAY, ssl_arguments

__all__ = ["MySql"]

# A process that was stopped in the middle of a transaction keeps those who took over waiting for a minute only. MySQL
# has no such setting, and takes it for a comment.
_SESSION = (
    "SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
    " /*M!100301 , idle_transaction_timeout = 60 */"
)
_CONFLICTS = {1020, 1205, 1213, 1412, 3572, 3058}
_NO_MATTER = {  # how Java's driver talks to the server, or what always is so here
    "allowPublicKeyRetrieval",
    "autoReconnect",
    "cachePrepStmts",
    "characterEncoding",
    "connectionTimeZone",
    "maxReconnects",
    "prepStmtCacheSize",
    "prepStmtCacheSqlLimit",
    "rewriteBatchedStatements",
    "serverTimezone",
    "tcpKeepAlive",
    "tinyInt1isBit",
    "useBulkStmts",
    "useCompression",
    "useLegacyDatetimeCode",
    "useServerPrepStmts",
    "useUnicode",
    "yearIsDateType",
    "zeroDateTimeBehavior",
}
_TIMEOUTS = {"connectTimeout": "connect_timeout", "socketTimeout": "read_timeout"}


class MySql(Database):
    """A database of MySQL or MariaDB."""

    product = "MySQL"
    syntax = Syntax.MYSQL
    style = "format"
    writes_tables = True
    blob = "LONGBLOB"
    quote_mark = "`"
    overwrites_by_any_key = True
    short_waits = "SET lock_wait_timeout = 1"

    def check_installed(self) -> None:
        """Load PyMySQL, and look at the URL's parameters."""
        _pymysql()
        self._parameters()
        if len(self.url.hosts) > 1:
            raise ConfigurationError(
                f"the URL of a database of MySQL names {len(self.url.hosts)} hosts, and one is taken",
                hint="Name the one that writes, or a proxy.",
            )

    def connect(self) -> Session:
        """Connect; the session is strict, and its zone is UTC."""
        ((host, port),) = self.url.hosts
        connection = _pymysql().connect(
            **{"connect_timeout": 10} | self._parameters(),
            host=host,
            port=port or 3306,
            user=self.url.user,
            password=self.url.password or "",
            database=self.url.database,
            charset="utf8mb4",
            autocommit=False,
            conv=_conversions(),
            init_command=_SESSION,
        )
        return _MySqlSession(self, connection)

    def judge(self, error: Exception) -> Trouble:
        """Go by the number of the error."""
        pymysql = _pymysql()
        if not isinstance(
            error, (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError)
        ):
            return Trouble.FINAL
        number = error.args[0] if error.args else 0
        if number in _CONFLICTS:
            return Trouble.CONFLICT
        # A connection that is closed is used: InterfaceError(0, '').
        return Trouble.AWAY if number in AWAY or number == 0 else Trouble.FINAL

    def _parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self.url.parameters.items():
            if name in _TIMEOUTS:
                if value != "0":
                    found[_TIMEOUTS[name]] = max(1, int(value) // 1000)
            elif name in ("useSSL", "requireSSL", "sslMode"):
                found |= ssl_arguments(value)
            elif name not in _NO_MATTER:
                raise ConfigurationError(
                    f"the URL of a database of MySQL has the parameter {name!r}, which is not known here",
                    detail=f"Known are {', '.join(sorted({*_TIMEOUTS, 'useSSL', 'requireSSL', 'sslMode'}))}.",
                    hint="Leave it out.",
                )
        return found

    def check_statement(self, session: Session, sql: str) -> None:
        """Prepare it."""
        session.execute("PREPARE millstream_check FROM ?", (sql.replace("??", "?"),))
        session.execute("DEALLOCATE PREPARE millstream_check")

    def columns(self, session: Session, table: str) -> list[Column]:
        """Ask the information schema."""
        schema, name = _schema_of(table)
        rows = session.execute(
            "SELECT column_name, column_type, is_nullable, column_default, extra FROM information_schema.columns "
            "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? ORDER BY ordinal_position",
            (schema, name),
        )
        return [
            Column(
                column,
                str(type_),
                nullable == "YES",
                default is not None or "auto_increment" in extra.lower(),
                "generated" in extra.lower() and "default_generated" not in extra.lower(),
            )
            for column, type_, nullable, default, extra in rows
        ]

    def unique_keys(self, session: Session, table: str) -> list[frozenset[str]]:
        """Ask the information schema."""
        schema, name = _schema_of(table)
        rows = session.execute(
            "SELECT index_name, column_name FROM information_schema.statistics "
            "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND non_unique = 0",
            (schema, name),
        )
        keys: dict[str, set[str]] = {}
        for index, column in rows:
            keys.setdefault(index, set()).add(column)
        return [frozenset(key) for key in keys.values()]

    def on_conflict(self, keys: Sequence[str], others: Sequence[str]) -> str:
        """Overwrite by any unique key: the table has no other than the sink's."""
        return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in others or keys)

    def insert_new(self, table: str, columns: str, values: str, key: str) -> str:
        """Leave a row with the same key as it is."""
        return f"INSERT INTO {table} ({columns}) VALUES ({values}) ON DUPLICATE KEY UPDATE {key} = {key}"

    def delete_matching(self, table: str, query: str, keys: Sequence[str]) -> str:
        """Join, for a subquery would be run for each row of the table."""
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        return f"DELETE t FROM {table} t JOIN ({query}) s ON {same}"

    def stage_statements(
        self, stage: str, table: str, columns: Sequence[str], required: Sequence[str], *, is_ordered: bool
    ) -> list[str]:
        """Make a table like the other, whose columns take NULL unless they are `required`."""
        names = ", ".join(
            f"t.{name}" if name in required else f"CASE WHEN 1 THEN t.{name} END AS {name}"
            for name in columns
        )
        extra = "(millstream_order BIGINT, millstream_deleted BIGINT) " if is_ordered else ""
        return [f"CREATE TABLE IF NOT EXISTS {stage} {extra}AS SELECT {names} FROM {table} t WHERE 1 = 0"]


class _MySqlSession(Session):
    """A connection of PyMySQL."""

    def __init__(self, database: MySql, connection: Any) -> None:
        self._database = database
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[RowValues]:
        with self._connection.cursor() as cursor:
            self._run(cursor, sql, parameters)
            return list(cursor.fetchall()) if cursor.description is not None else []

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with self._connection.cursor() as cursor:
            self._run(cursor, sql, parameters)
            return int(cursor.rowcount)

    def _run(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        if parameters:
            cursor.execute(self._database.translate(sql), parameters)
        else:
            cursor.execute(sql)

    def execute_many(self, sql: str, rows: Sequence[RowValues]) -> None:
        translated = self._database.translate(sql)
        with self._connection.cursor() as cursor:
            if "%%" in translated:  # executemany leaves those behind VALUES (...) as they are
                for row in rows:
                    cursor.execute(translated, row)
            else:
                cursor.executemany(translated, rows)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[RowValues]) -> None:
        marks = ", ".join("?" * len(columns))
        self.execute_many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        with suppress(_pymysql().err.Error, OSError):
            self._connection.close()


def _schema_of(table: str) -> tuple[str | None, str]:
    schema, _, name = table.rpartition(".")
    return schema or None, name


def _pymysql() -> Any:
    return load_package("pymysql", extra="mysql", what="Sinks of MySQL and MariaDB")


@lru_cache(maxsize=1)
def _conversions() -> dict[Any, Any]:
    """Return PyMySQL's conversions, and ours of what it writes wrongly or not at all."""
    converters = load_package("pymysql.converters", extra="mysql", what="Sinks of MySQL and MariaDB")

    def moment(value: datetime.datetime, mapping: Any = None) -> str:
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return str(converters.escape_datetime(value))

    def instant(value: Instant, mapping: Any = None) -> str:
        return moment(moment_of(value))

    def document(value: Any, mapping: Any = None) -> str:
        return str(converters.escape_string(json.dumps(value, ensure_ascii=False)).join("''"))

    def text(value: Any, mapping: Any = None) -> str:
        return f"'{value}'"

    ours = {datetime.datetime: moment, Instant: instant, uuid.UUID: text}
    ours |= dict.fromkeys((dict, list, tuple), document)
    return {**converters.conversions, **ours}
