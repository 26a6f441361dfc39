"""One moment of the database, and where in the log of changes (the binlog) it is.

MariaDB tells of a consistent snapshot which position it has. MySQL does not: there, writers are kept out (FLUSH TABLES
WITH READ LOCK) for as long as it takes to begin the transaction and to ask for the position.
"""

from __future__ import annotations

from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.mysql.address import MySqlAddress, error_number, load_pymysql, query, said

__all__ = ["BinlogPosition", "begin_moment", "last_position", "order_of"]

BinlogPosition = tuple[str, int]
"""Name of a file of the binlog, and a place in it."""

_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_PARSE_ERROR = 1064


def order_of(position: BinlogPosition) -> tuple[int, int]:
    """Return what positions are compared by.

    >>> order_of(("binlog.000012", 345))
    (12, 345)
    """
    return int(position[0].rpartition(".")[2]), position[1]


def begin_moment(connection: Any, address: MySqlAddress, *, wants_position: bool) -> BinlogPosition | None:
    """Begin a transaction that sees one moment; return its position if it is wanted.

    Raises:
        SourceError: If the server does not say it.
    """
    if not wants_position:
        query(connection, _BEGIN)
        return None
    if "binlog_snapshot_file" in _status(connection):
        query(connection, _BEGIN)
        status = _status(connection)
        return status["binlog_snapshot_file"], int(status["binlog_snapshot_position"])
    return _locked_moment(connection, address)


def _status(connection: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in query(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")}


def _locked_moment(connection: Any, address: MySqlAddress) -> BinlogPosition:
    errors = load_pymysql().err
    try:
        query(connection, "FLUSH TABLES WITH READ LOCK")
    except errors.OperationalError as error:
        if error_number(error) not in (1044, 1045, 1227):
            raise
        raise SourceError(
            f"the user may not keep writers out of MySQL at {address} for the moment that tables are read at",
            detail=said(error),
            hint="GRANT RELOAD ON *.* to it; or read changes only (set_changes_only).",
        ) from error
    try:
        query(connection, _BEGIN)
        return last_position(connection, address)
    finally:
        query(connection, "UNLOCK TABLES")


def last_position(connection: Any, address: MySqlAddress) -> BinlogPosition:
    """Return the position behind the last change.

    Raises:
        SourceError: If the server logs none, or does not say so to us.
    """
    errors = load_pymysql().err
    try:
        try:
            found = query(connection, "SHOW MASTER STATUS")
        except errors.ProgrammingError as error:
            if error_number(error) != _PARSE_ERROR:
                raise
            found = query(connection, "SHOW BINARY LOG STATUS")  # MySQL from 8.4 on
    except errors.OperationalError as error:
        if error_number(error) != 1227:
            raise
        raise SourceError(
            f"the user may not ask MySQL at {address} how far its binlog is",
            detail=said(error),
            hint="GRANT REPLICATION CLIENT, REPLICATION SLAVE ON *.* to it.",
        ) from error
    if not found:
        raise SourceError(
            f"MySQL at {address} logs no changes", hint="Start it with --log-bin --server-id=1."
        )
    return found[0][0], int(found[0][1])
