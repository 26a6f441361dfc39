"""One copy of rows that is under way: lines as they come, whole ones, and never more than are wanted."""

from __future__ import annotations

import select
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.postgres.address import load_psycopg, said
from millstream.connectors.reconnects import ConnectionLost

__all__ = ["Copying", "is_gone"]

_clock = SystemClock()

_BATCH_BYTES = 4 << 20
_WAIT_S = 1.0
"""A statement that is silent for longer lets the epoch end: it may sort for minutes before the first row."""
_GONE = ("57P01", "57P02", "57P03")
"""What a server says to a connection that it ends, since it stops or another of its processes died."""


def is_gone(error: Any, connection: Any) -> bool:
    """Return whether what failed failed since the server went away, or is about to."""
    return error.sqlstate in _GONE or bool(connection.pgconn.status == load_psycopg().pq.ConnStatus.BAD)


class Copying:
    """The lines of one COPY ... TO STDOUT.

    Args:
        connection: Its own; closed by whoever gives the copy up before its end.
        statement: The statement.
        name: What is copied, for messages.

    Attributes:
        has_ended: Whether all lines were taken.

    Raises:
        SourceError: If the server does not take the statement.
        ConnectionLost: If it went away.
    """

    def __init__(self, connection: Any, statement: str, name: str) -> None:
        self._connection = connection
        self._libpq: Any = connection.pgconn
        self._name = name
        self.has_ended = False
        psycopg = load_psycopg()
        try:
            self._begin(statement)
        except psycopg.Error as error:
            raise self._failure(error, error.sqlstate) from error

    def _begin(self, statement: str) -> None:
        # Not psycopg's own copy, which is for one `with`: this one is left and gone on with between epochs.
        psycopg, libpq = load_psycopg(), self._libpq
        libpq.send_query(statement.encode())
        while libpq.flush():
            self._wait_for(select.POLLIN | select.POLLOUT, _WAIT_S)
        while libpq.is_busy():
            self._wait_for(select.POLLIN, _WAIT_S)
        result = libpq.get_result()
        if result.status != psycopg.pq.ExecStatus.COPY_OUT:
            while libpq.get_result() is not None:
                continue
            raise psycopg.errors.error_from_result(result, encoding="utf-8")

    def take(self, most: int) -> tuple[bytes, int]:
        """Return lines, in one piece, and how many they are; none after a while if none came.

        Raises:
            SourceError: If the server fails to go on.
            ConnectionLost: If it went away.
        """
        psycopg = load_psycopg()
        try:
            return self._take(most)
        except psycopg.Error as error:
            raise self._failure(error, error.sqlstate) from error

    def _take(self, most: int) -> tuple[bytes, int]:
        lines: list[Any] = []
        size = 0
        until = _clock.monotonic() + _WAIT_S
        get = self._libpq.get_copy_data  # one message is one line, so says the protocol
        while len(lines) < most and size < _BATCH_BYTES:
            length, data = get(1)
            if length > 0:
                lines.append(data)
                size += length
            elif length == 0:
                if not self._wait_for(select.POLLIN, until - _clock.monotonic()):
                    break
            else:
                self._end()
                break
        return b"".join(lines), len(lines)

    def _wait_for(self, events: int, seconds: float) -> bool:
        """Return whether the server sent something, or takes more, in time."""
        waiter = select.poll()
        waiter.register(self._libpq.socket, events)
        if seconds <= 0 or not waiter.poll(seconds * 1000):
            return False
        self._libpq.consume_input()
        return True

    def _end(self) -> None:
        psycopg = load_psycopg()
        while (result := self._libpq.get_result()) is not None:
            if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, encoding="utf-8")
        self.has_ended = True

    def _failure(self, error: Exception, state: str | None) -> Exception:
        if is_gone(error, self._connection):
            return ConnectionLost(said(error))
        return SourceError(f"{self._name} cannot be read", detail=said(error), hint=_HINTS.get(state or ""))


_HINTS = {
    "42703": "A column that was there when reading began is gone: start the job anew, without its checkpoint.",
    "42P01": "A table that was there when reading began is gone.",
    "42501": "GRANT SELECT on it to the user that the source connects as.",
    "42883": "What rows are split by or told apart by needs an order: cast it in a query, or choose another column.",
    "40001": "A standby ended the query since it held back what came from the primary server: set its "
    "max_standby_streaming_delay higher, or read from the primary.",
    "57014": "Somebody cancelled the statement.",
}
