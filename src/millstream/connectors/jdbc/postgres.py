"""PostgreSQL, by psycopg 3: COPY for rows, pipelines for statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package
from millstream.base.time import Instant
from millstream.connectors.jdbc.database import Column, Database, RowValues, Session, Trouble, moment_of
from millstream.connectors.jdbc.statements import Syntax, translate

__all__ = ["Postgres"]

_SAME = {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "options", "application_name"}
_RENAMED = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "targetServerType": "target_session_attrs",
}
_SERVER_TYPES = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}
_NO_MATTER = {  # how Java's driver talks to the server: none of it changes what is written
    "adaptiveFetch",
    "assumeMinServerVersion",
    "autosave",
    "binaryTransfer",
    "cleanupSavepoints",
    "databaseMetadataCacheFields",
    "defaultRowFetchSize",
    "loggerLevel",
    "preferQueryMode",
    "prepareThreshold",
    "preparedStatementCacheQueries",
    "preparedStatementCacheSizeMiB",
    "reWriteBatchedInserts",
    "socketTimeout",
    "stringtype",
    "tcpKeepAlive",
    "tcpNoDelay",
}
_DEFAULTS = {
    "application_name": "millstream",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
# A process that was stopped in the middle of a transaction keeps those who took over waiting for a minute only.
_NOT_IDLE = (
    "SELECT set_config('idle_in_transaction_session_timeout', '60s', false) "
    "WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)
_AWAY = re.compile(
    r"starting up|shutting down|recovery mode|accepting connections|too many (clients|connections)|slots are reserved"
)


class Postgres(Database):
    """A database of PostgreSQL, or of what speaks its protocol."""

    product = "PostgreSQL"
    syntax = Syntax.POSTGRES
    style = "format"
    writes_tables = True
    blob = "bytea"
    short_waits = "SET LOCAL lock_timeout = '1s'"

    def check_installed(self) -> None:
        """Load psycopg, and look at the URL's parameters."""
        _psycopg()
        self._parameters()

    def connect(self) -> Session:
        """Connect."""
        psycopg = _psycopg()
        connection = psycopg.connect(
            **_DEFAULTS | self._parameters(),
            host=",".join(host for host, _ in self.url.hosts),
            port=",".join(str(port or 5432) for _, port in self.url.hosts),
            dbname=self.url.database,
            user=self.url.user,
            password=self.url.password,
            client_encoding="utf8",
        )
        json = load_package("psycopg.types.json", extra="postgres", what="Sinks of PostgreSQL")
        connection.adapters.register_dumper(dict, json.JsonbDumper)
        connection.adapters.register_dumper(Instant, _instant_dumper())
        connection.execute(_NOT_IDLE)
        connection.commit()
        return _PostgresSession(self, connection)

    def judge(self, error: Exception) -> Trouble:
        """Go by the SQLSTATE; errors of connecting have none."""
        psycopg = _psycopg()
        if not isinstance(error, psycopg.Error):
            return Trouble.FINAL
        state = error.sqlstate
        if state is None:
            is_of_connection = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
            refused = "FATAL:" in str(error) and not _AWAY.search(str(error))
            return Trouble.AWAY if is_of_connection and not refused else Trouble.FINAL
        if (
            state.startswith(("08", "53", "57P")) or state == "25P03"
        ):  # this process was the one that was stopped
            return Trouble.AWAY
        return Trouble.CONFLICT if state in ("40001", "40P01", "55P03") else Trouble.FINAL

    def _parameters(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in self.url.parameters.items():
            if name in _SAME:
                found[name] = value
            elif name == "targetServerType" and value in _SERVER_TYPES:
                found["target_session_attrs"] = _SERVER_TYPES[value]
            elif name in _RENAMED:
                found[_RENAMED[name]] = value
            elif name == "currentSchema":
                found["options"] = (
                    f"{found.get('options', '')} -c search_path={value.replace(' ', '')}".strip()
                )
            elif name == "ssl":
                if value.lower() in ("", "true"):  # Java's driver verifies then
                    found.setdefault("sslmode", "verify-full")
            elif name not in _NO_MATTER:
                raise ConfigurationError(
                    f"the URL of a database of PostgreSQL has the parameter {name!r}, which is not known here",
                    detail=f"Known are {', '.join(sorted({*_SAME, *_RENAMED, 'currentSchema', 'ssl'}))}.",
                    hint="Leave it out, or set what it stands for by options=-c name=value.",
                )
        return found

    def check_statement(self, session: Session, sql: str) -> None:
        """Prepare it; a parameter whose type only its value tells is no fault."""
        try:
            session.execute(f"PREPARE millstream_check AS {translate(sql, self.syntax, 'dollar')}")
        except _psycopg().errors.IndeterminateDatatype:
            session.rollback()
        else:
            session.execute("DEALLOCATE millstream_check")

    def columns(self, session: Session, table: str) -> list[Column]:
        """Ask the catalog."""
        rows = session.execute(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, "
            "a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a' "
            "FROM pg_attribute a WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped "
            "ORDER BY a.attnum",
            (self.quote_table(table),),
        )
        return [Column(*row) for row in rows]

    def unique_keys(self, session: Session, table: str) -> list[frozenset[str]]:
        """Ask the catalog; indexes of a part of the rows, or of expressions, do not count."""
        rows = session.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
            "WHERE i.indrelid = to_regclass(?) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL "
            "AND i.indexprs IS NULL GROUP BY i.indexrelid",
            (self.quote_table(table),),
        )
        return [frozenset(names) for (names,) in rows]

    def stage_statements(
        self, stage: str, table: str, columns: Sequence[str], required: Sequence[str], *, is_ordered: bool
    ) -> list[str]:
        """Make a table like the other."""
        extra = ", 0::bigint AS millstream_order, 0::bigint AS millstream_deleted" if is_ordered else ""
        made = [
            f"CREATE TABLE IF NOT EXISTS {stage} AS SELECT {', '.join(columns)}{extra} FROM {table} WITH NO DATA"
        ]
        if required:
            made.append(f"ALTER TABLE {stage} {', '.join(f'ALTER {name} SET NOT NULL' for name in required)}")
        return made

    def prepare(self, session: Session, target: Any) -> None:
        """Make the temporary table that upserts go through; each commit empties it."""
        session.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {_UPSERTS} ON COMMIT DELETE ROWS "
            f"AS SELECT {', '.join(target.columns)} FROM {target.table} WITH NO DATA"
        )

    def upsert(self, session: Session, target: Any, rows: Sequence[RowValues]) -> None:
        """COPY the rows into a temporary table, and insert them from there by one statement, in order of their keys."""
        session.load(_UPSERTS, target.columns, rows)
        names, keys = ", ".join(target.columns), ", ".join(target.keys)
        session.execute(
            f"INSERT INTO {target.table} ({names}) SELECT {names} FROM {_UPSERTS} ORDER BY {keys} "
            + self.on_conflict(target.keys, target.others)
        )


_UPSERTS = "millstream_upserts"


class _PostgresSession(Session):
    """A connection of psycopg."""

    def __init__(self, database: Postgres, connection: Any) -> None:
        self._database = database
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[RowValues]:
        cursor = self._execute(sql, parameters)
        return cursor.fetchall() if cursor.description is not None else []

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return int(self._execute(sql, parameters).rowcount)

    def _execute(self, sql: str, parameters: Sequence[Any]) -> Any:
        if not parameters:
            return self._connection.execute(sql)
        return self._connection.execute(self._database.translate(sql), parameters)

    def execute_many(self, sql: str, rows: Sequence[RowValues]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(self._database.translate(sql), rows)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[RowValues]) -> None:
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
        ):
            write_row = copy.write_row
            for row in rows:
                write_row(row)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        with suppress(_psycopg().Error):
            self._connection.close()


@lru_cache(maxsize=1)
def _instant_dumper() -> Any:
    """Return what tells psycopg how an instant is written, as a `timestamptz`."""
    psycopg = _psycopg()

    class InstantDumper(psycopg.adapt.Dumper):  # type: ignore[misc, name-defined]
        oid = psycopg.adapters.types["timestamptz"].oid

        def dump(self, obj: Instant) -> bytes:
            return str(moment_of(obj)).encode()

    return InstantDumper


def _psycopg() -> Any:
    return load_package("psycopg", extra="postgres", what="Sinks of PostgreSQL")
