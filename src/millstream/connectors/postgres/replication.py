"""A replication slot: how it is made and found, and the stream of changes that is read from it.

The server sends what was committed behind a position, and keeps its log for what was not confirmed. So positions of
checkpoints can be read again, and are confirmed when the checkpoint is complete, no sooner.
"""

from __future__ import annotations

import logging
import select
import struct
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import LostInputError, SourceError
from millstream.connectors.postgres.address import PostgresAddress, load_psycopg, said
from millstream.connectors.postgres.copying import is_gone
from millstream.connectors.postgres.pgoutput import (
    Change,
    TableMessage,
    commit_end,
    read_change,
    read_table,
    truncated_tables,
)
from millstream.connectors.postgres.relation import literal, quoted
from millstream.connectors.reconnects import ConnectionLost

__all__ = ["ChangePosition", "ChangeStream", "as_lsn", "from_lsn"]

_log = logging.getLogger(__name__)
_clock = SystemClock()

ChangePosition = tuple[int, int]
"""Position in the server's log behind a transaction, and how many changes of the next one were read."""

_IN_USE = "55006"
_HEADER = 25
_LONG = struct.Struct(">q")
_MOST_BYTES = 4 << 20


def as_lsn(position: int) -> str:
    """Return a position as the server writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def from_lsn(text: str) -> int:
    """Return a position of the server's."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


class _InUse(Exception):
    """Somebody else reads from the slot."""


class ChangeStream:
    """Changes from a position on, in the order of their commits.

    Args:
        address: The database.
        slot: Name of the slot.
        publication: Name of the publication.
        position: Where to begin.

    Attributes:
        position: Behind what was taken.

    Raises:
        LostInputError: If the server has not got the changes behind the position any more.
        SourceError: If the slot is in use, or the server refuses to send.
    """

    def __init__(
        self, address: PostgresAddress, slot: str, publication: str, position: ChangePosition
    ) -> None:
        self._address = address
        self._slot = slot
        self.position = position
        self._restart, self._skip = position
        self._seen = 0
        self._in_transaction = False
        self._confirmed = 0
        self._names: dict[int, str] = {}
        self._connection = self._connect(publication)
        self._libpq: Any = self._connection.pgconn

    def _connect(self, publication: str) -> Any:
        try:
            return self._address.patience.call(
                lambda: self._start(publication),
                is_passing=lambda error: isinstance(error, (_InUse, ConnectionLost)),
                what=f"reading from replication slot {self._slot}",
                log=_log,
            )
        except _InUse as error:
            raise SourceError(
                f'replication slot "{self._slot}" of PostgreSQL at {self._address} is in use',
                detail=str(error),
                hint="One job reads from a slot: stop the other, or give this one a slot of its own (set_slot_name).",
            ) from error
        except ConnectionLost as error:
            raise self._address.refusal(error) from error

    def _start(self, publication: str) -> Any:
        psycopg = load_psycopg()
        connection = self._address.connect(replication="database")
        try:
            check_slot(connection, self._address, self._slot, self._restart)
            libpq = connection.pgconn
            names = literal(quoted(publication))
            libpq.send_query(
                f"START_REPLICATION SLOT {quoted(self._slot)} LOGICAL {as_lsn(self._restart)} "
                f"(proto_version '1', publication_names {names})".encode()
            )
            while libpq.flush() or libpq.is_busy():
                select.select([libpq.socket], [], [], 1.0)
                libpq.consume_input()
            result = libpq.get_result()
            if result.status != psycopg.pq.ExecStatus.COPY_BOTH:
                raise psycopg.errors.error_from_result(result, encoding="utf-8")
        except psycopg.Error as error:
            gone = is_gone(error, connection)
            connection.close()
            if error.sqlstate == _IN_USE:
                raise _InUse(said(error)) from error
            if gone:
                raise ConnectionLost(said(error)) from error
            raise SourceError(
                f'PostgreSQL at {self._address} sends no changes from slot "{self._slot}"', detail=said(error)
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def take(self, most: int, wait_s: float) -> list[Change | TableMessage]:
        """Return the next changes, as soon as there are some, and descriptions of tables among them.

        Raises:
            ConnectionLost: If the server went away.
            SourceError: If it cannot go on, or a table was truncated.
        """
        psycopg = load_psycopg()
        try:
            return self._take(most, wait_s)
        except psycopg.Error as error:
            if is_gone(error, self._connection):
                raise ConnectionLost(said(error)) from error
            raise SourceError(
                f'PostgreSQL at {self._address} sends no more changes from slot "{self._slot}"',
                detail=said(error),
                hint="Check that the publication is there and has the tables.",
            ) from error

    def _take(self, most: int, wait_s: float) -> list[Change | TableMessage]:
        found: list[Change | TableMessage] = []
        until, size, changes = _clock.monotonic() + wait_s, 0, 0
        while changes < most and size < _MOST_BYTES:
            length, data = self._libpq.get_copy_data(1)
            if length > 0:
                message = bytes(data)
                size += length
                if message[:1] != b"w":
                    self._keep_alive(message)
                elif (one := self._heed(message)) is not None:
                    found.append(one)
                    changes += isinstance(one, Change)
            elif length < 0:
                self._raise_end()
            elif changes or not self._wait(until - _clock.monotonic()):
                break
        return found

    def _wait(self, seconds: float) -> bool:
        waiter = select.poll()
        waiter.register(self._libpq.socket, select.POLLIN)
        if seconds <= 0 or not waiter.poll(seconds * 1000):
            return False
        self._libpq.consume_input()
        return True

    def _raise_end(self) -> None:
        psycopg = load_psycopg()
        result = self._libpq.get_result()
        if result is not None and result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result, encoding="utf-8")
        raise ConnectionLost("the server ended the stream")

    def _heed(self, message: bytes) -> Change | TableMessage | None:
        data = message[_HEADER:]
        kind = data[:1]
        if kind == b"B":
            self._in_transaction, self._seen = True, 0
        elif kind == b"C":
            if self._seen:
                self._skip = 0
            self._in_transaction, self._restart = False, commit_end(data)
            self.position = (self._restart, self._skip)
        elif kind == b"R":
            table = read_table(data)
            self._names[table.oid] = ".".join(table.name)
            return table
        elif kind == b"T":
            self._refuse_truncate(truncated_tables(data))
        elif kind in (b"I", b"U", b"D"):
            self._seen += 1
            if self._seen > self._skip:
                self.position = (self._restart, self._seen)
                return read_change(data)
        return None

    def _refuse_truncate(self, tables: list[int]) -> None:
        raise SourceError(
            f"table {', '.join(self._names.get(each, str(each)) for each in tables)} was truncated, "
            "of which the rows that went are not told",
            hint="Use DELETE FROM instead; start the job anew, without its checkpoint, to read what is there.",
        )

    def _keep_alive(self, message: bytes) -> None:
        # All before this position was sent; that moves us on while other tables are written.
        if not self._in_transaction and not self._skip:
            self._restart = max(self._restart, int(_LONG.unpack_from(message, 1)[0]))
            self.position = (self._restart, 0)
        if message[17]:
            self.confirm(self._confirmed)

    def confirm(self, position: int) -> None:
        """Tell the server that what is before a position is not needed any more."""
        self._confirmed = max(self._confirmed, position)
        status = struct.pack(">cqqqqb", b"r", *[self._confirmed] * 3, 0, 0)
        self._libpq.put_copy_data(status)
        self._libpq.flush()

    def close(self) -> None:
        """End the stream."""
        self._connection.close()


_SLOT = """
SELECT pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::int8, coalesce(wal_status, '') FROM pg_catalog.pg_replication_slots
WHERE slot_name = {slot}
"""


def check_slot(connection: Any, address: PostgresAddress, slot: str, position: int) -> None:
    """Check that a slot still has what is behind a position.

    Raises:
        LostInputError: If it has not.
    """
    found = connection.execute(_SLOT.format(slot=literal(slot))).fetchone()
    if found is None:
        raise LostInputError(
            f'replication slot "{slot}" of PostgreSQL at {address} is gone',
            detail="Changes since the checkpoint are lost with it.",
            hint="Start the job anew, without its checkpoint: it reads the tables again.",
        )
    confirmed, status = found
    if status == "lost":
        raise LostInputError(
            f'replication slot "{slot}" of PostgreSQL at {address} has lost changes that were not read',
            detail="The server kept no more of its log for it (max_slot_wal_keep_size).",
            hint="Start the job anew, without its checkpoint: it reads the tables again.",
        )
    if confirmed is not None and confirmed > position:
        raise LostInputError(
            f'replication slot "{slot}" of PostgreSQL at {address} is at {as_lsn(confirmed)}, '
            f"behind the checkpoint's position {as_lsn(position)}",
            detail="Somebody else reads from it, or a later checkpoint was completed: changes in between are gone.",
            hint="Go on from the newest checkpoint, or start the job anew, without one.",
        )
