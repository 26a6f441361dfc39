"""Changes as they come from the log of changes (the binlog), by file and position.

The log is a sequence of transactions. A position is the end of one, and how many changes of the next were read::

    binlog.000007   ... | BEGIN  insert  update  insert  COMMIT | BEGIN  delete ...
                        ^ (file, place, 0)     ^ (file, place, 2)

The library reads events; what it does not do well is done here: it connects again and again, for ever, when the server
goes away, and it cannot wait for a moment only.
"""

from __future__ import annotations

import random
import select
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import LostInputError, NotSupportedError, SourceError
from millstream.base.optional import load_package
from millstream.connectors.mysql.address import (
    MySqlAddress,
    error_number,
    is_away,
    load_pymysql,
    said,
)
from millstream.connectors.mysql.ddl import TableName, lost_by
from millstream.connectors.mysql.moments import BinlogPosition
from millstream.connectors.reconnects import ConnectionLost
from millstream.types.row import RowKind

__all__ = ["ANEW", "BinlogStream", "Change", "ChangePosition", "Image", "load_replication"]

_clock = SystemClock()

ChangePosition = tuple[str, int, int]
"""File and place behind a transaction, and how many changes of the next one were read."""

ANEW = "Start the job anew, without its checkpoint: it reads the tables again."

_DUMP = 0x12  # COM_BINLOG_DUMP
_HEARTBEAT_S = 30
_SILENT_S = 90.0
"""A server that sends nothing for so long, not even that it is there, is gone."""
_CANNOT_SEND = 1236
_STANDALONE, _PREPARED = 1, 64  # flags of MariaDB's transactions
_COMPRESSED = range(165, 172)
_FIRST_SERVER_ID = 1 << 31


def load_replication() -> Any:
    """Return the library.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package("pymysqlreplication", extra="mysql", what="Changes of MySQL")


@dataclass(frozen=True, slots=True)
class Image:
    """A row as a change has it.

    Attributes:
        values: By the names of the columns.
        gaps: Why a value is not there, by the names of the columns: NULL is only one of the reasons.
    """

    values: dict[str, Any]
    gaps: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row.

    Attributes:
        table: Schema and name of the table.
        columns: Its columns at the time, as the library describes them.
        kind: INSERT, UPDATE_AFTER or DELETE.
        old: The row before; None if it was inserted.
        new: The row behind it; None if it was deleted.
        begin: Where its transaction begins.
    """

    table: TableName
    columns: list[Any]
    kind: RowKind
    old: Image | None
    new: Image | None
    begin: BinlogPosition


class _Silence(Exception):
    """Nothing came for a while."""


class BinlogStream:
    """Changes from a position on, in the order of their commits.

    Args:
        address: The server.
        tables: Whose changes are wanted.
        position: Where to begin.

    Attributes:
        position: Behind what was taken.
    """

    def __init__(
        self, address: MySqlAddress, tables: Collection[TableName], position: ChangePosition
    ) -> None:
        self._address = address
        self._tables = frozenset(tables)
        self.position = position
        self._restart: BinlogPosition = position[:2]
        self._skip = position[2]
        self._seen = 0
        self._in_transaction = self._is_prepared = False
        self._wait_s = 0.0
        self._heard_s = _clock.monotonic()
        self._streams: list[Any] = []
        library = load_replication()
        self._events = library.event
        self._rows = library.row_event
        self._reader = library.BinLogStreamReader(
            connection_settings=dict(address.settings()),
            # A server ends the stream of whoever has the same number as another; nobody else has one of these.
            server_id=random.SystemRandom().randrange(_FIRST_SERVER_ID, 2**32 - 1),
            resume_stream=True,
            blocking=True,
            log_file=position[0],
            log_pos=position[1],
            only_schemas=sorted({schema for schema, _ in tables}),
            only_tables=sorted({name for _, name in tables}),
            filter_non_implemented_events=False,
            slave_heartbeat=_HEARTBEAT_S,
            pymysql_wrapper=self._connect,
            enable_logging=False,
        )

    def _connect(self, **settings: Any) -> Any:
        """Connect for the library."""
        connection_class = _stream_class(self)
        if "db" in settings:  # PyMySQL's older name
            settings["database"] = settings.pop("db")
        connection = self._address.patiently(
            lambda: connection_class(**settings), what=f"reading changes from MySQL at {self._address}"
        )
        self._streams.append(connection)
        return connection

    def wait_for(self, connection: Any) -> None:
        """Wait until something is there to be read; called before each packet of the stream."""
        if _has_data(connection, self._wait_s):
            self._heard_s = _clock.monotonic()
        elif _clock.monotonic() - self._heard_s > _SILENT_S:
            raise ConnectionLost(f"the server sent nothing for {_SILENT_S:g} s")
        else:
            raise _Silence

    def take(self, most: int, wait_s: float) -> list[Change]:
        """Return the next changes, as soon as there are some, and a few more than `most` if they were made at once.

        Raises:
            ConnectionLost: If the server went away.
            LostInputError: If it has not got what is behind the position any more.
            SourceError: If it cannot go on, or rows came or went without being told.
        """
        found: list[Change] = []
        until = _clock.monotonic() + wait_s
        try:
            while len(found) < most and (found or _clock.monotonic() < until):
                self._wait_s = 0.0 if found else max(0.0, until - _clock.monotonic())
                event = self._reader.fetchone()
                if event is None:
                    raise ConnectionLost("the server ended the stream")
                found += self._heed(event)
        except _Silence:
            pass
        except (load_pymysql().err.MySQLError, OSError) as error:
            raise self._failure(error) from error
        except UnicodeDecodeError as error:
            raise SourceError(
                f"a text in the changes of MySQL at {self._address} does not decode",
                detail=str(error),
                hint="ALTER TABLE ... CONVERT TO CHARACTER SET utf8mb4.",
            ) from error
        return found

    def _failure(self, error: Exception) -> Exception:
        if error_number(error) == _CANNOT_SEND:
            return LostInputError(
                f"MySQL at {self._address} has not got the changes behind {self._restart[0]}:{self._restart[1]}",
                detail=said(error),
                hint=f"{ANEW} Have the server keep its binlog longer (binlog_expire_logs_seconds).",
            )
        if is_away(error):
            return ConnectionLost(said(error))
        return SourceError(
            f"MySQL at {self._address} sends no changes",
            detail=said(error),
            hint="GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* to the user that the source connects as.",
        )

    def _heed(self, event: Any) -> list[Change]:
        """Take note of an event; return the changes that it is."""
        events = self._events
        if isinstance(event, self._rows.RowsEvent):
            return self._changes(event)
        if isinstance(event, events.MariadbGtidEvent):
            self._begin(is_prepared=bool(event.flags & _PREPARED), is_open=not event.flags & _STANDALONE)
        elif isinstance(event, events.QueryEvent):
            self._heed_statement(event.query, event.schema.decode())
        elif isinstance(event, (events.XidEvent, events.XAPrepareEvent)):
            self._end()
        elif isinstance(event, events.RotateEvent):
            if event.next_binlog != self._restart[0]:
                self._restart = (event.next_binlog, 4)
                self.position = (*self._restart, self._skip)
        elif isinstance(event, events.NotImplementedEvent) and event.event_type in _COMPRESSED:
            raise NotSupportedError(
                f"the binlog of MySQL at {self._address} is compressed",
                hint="SET GLOBAL log_bin_compress = OFF.",
            )
        return []

    def _heed_statement(self, statement: str, schema: str) -> None:
        word = statement.strip().upper()
        if word == "BEGIN" or word.startswith("XA START"):
            self._begin(is_prepared=word != "BEGIN", is_open=True)
        elif word in ("COMMIT", "ROLLBACK"):
            self._end()
        else:
            if lost := lost_by(statement, schema, self._tables):
                (place, name), what = lost
                raise SourceError(
                    f"table {place}.{name} {what}: which rows that came or went by is not told",
                    detail=f"At {self._reader.log_file}:{self._reader.log_pos}.",
                    hint=ANEW,
                )
            if not self._in_transaction:
                self._end()

    def _begin(self, *, is_prepared: bool, is_open: bool) -> None:
        self._in_transaction, self._is_prepared, self._seen = is_open, is_prepared, 0

    def _end(self) -> None:
        if self._seen:
            self._skip = 0
        self._in_transaction = False
        self._restart = (self._reader.log_file, self._reader.log_pos)
        self.position = (*self._restart, self._skip)

    def _changes(self, event: Any) -> list[Change]:
        table = (event.schema, event.table)
        if table not in self._tables:  # of one schema's name and another one's table
            return []
        if self._is_prepared:
            raise NotSupportedError(
                f"table {table[0]}.{table[1]} was changed in a transaction of two phases (XA)",
                detail="It may be rolled back after its changes were read.",
                hint=f"Change it in plain transactions. {ANEW}",
            )
        found: list[Change] = []
        for row in event.rows:
            self._seen += 1
            if self._seen > self._skip:
                found.append(self._change(event, table, row))
        self.position = (*self._restart, max(self._seen, self._skip))
        return found

    def _change(self, event: Any, table: TableName, row: dict[str, Any]) -> Change:
        if isinstance(event, self._rows.UpdateRowsEvent):
            old = Image(row["before_values"], row["before_none_sources"])
            new = Image(row["after_values"], row["after_none_sources"])
            return Change(table, event.columns, RowKind.UPDATE_AFTER, old, new, self._restart)
        image = Image(row["values"], row["none_sources"])
        if isinstance(event, self._rows.WriteRowsEvent):
            return Change(table, event.columns, RowKind.INSERT, None, image, self._restart)
        return Change(table, event.columns, RowKind.DELETE, image, None, self._restart)

    def close(self) -> None:
        """End the stream."""
        for connection in self._streams:
            if connection.open:
                connection.close()
        self._streams.clear()


def _stream_class(stream: BinlogStream) -> Any:
    """Return a class of connections that wait for a moment only, and tell when they are lost."""
    pymysql = load_pymysql()
    base: Any = pymysql.connections.Connection

    class StreamConnection(base):  # type: ignore[misc]
        is_streaming = False

        def _write_bytes(self, data: bytes) -> None:
            super()._write_bytes(data)
            self.is_streaming = self.is_streaming or data[4] == _DUMP

        def _read_packet(self, *arguments: Any) -> Any:
            if not self.is_streaming:
                return super()._read_packet(*arguments)
            stream.wait_for(self)
            try:
                return super()._read_packet(*arguments)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                if is_away(error):  # the library would connect again, and go on for ever
                    raise ConnectionLost(said(error)) from error
                raise

    return StreamConnection


def _has_data(connection: Any, wait_s: float) -> bool:
    """Return whether a connection has something to read, or gets it in time."""
    sock, file = connection._sock, connection._rfile
    if sock is None or file is None:
        raise ConnectionLost("the connection is closed")
    if getattr(sock, "pending", int)():
        return True
    timeout = sock.gettimeout()
    sock.settimeout(0)
    try:
        if file.peek(1):
            return True
    except BlockingIOError:
        pass
    except OSError as error:
        if type(error).__name__ != "SSLWantReadError":
            raise ConnectionLost(said(error)) from error
    finally:
        sock.settimeout(timeout)
    waiter = select.poll()
    waiter.register(sock, select.POLLIN)
    return bool(waiter.poll(max(0.0, wait_s) * 1000))
