"""One statement whose rows are on their way, never more than are wanted."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.mysql.address import error_number, is_away, load_pymysql, said
from millstream.connectors.reconnects import ConnectionLost

__all__ = ["Reading", "failure"]


class Reading:
    """The rows of a statement.

    Args:
        connection: Its own; closed by whoever gives it up before its end.
        statement: The statement.
        name: What is read, for messages.

    Attributes:
        has_ended: Whether all rows were taken.

    Raises:
        SourceError: If the server does not take the statement.
        ConnectionLost: If it went away.
    """

    def __init__(self, connection: Any, statement: str, name: str) -> None:
        pymysql = load_pymysql()
        self._name = name
        self._connection = connection
        self._cursor: Any = connection.cursor(pymysql.cursors.SSCursor)
        self.has_ended = False
        try:
            self._cursor.execute(statement)
        except (pymysql.err.MySQLError, OSError) as error:
            raise failure(name, error) from error

    def take(self, most: int) -> list[tuple[Any, ...]]:
        """Return the next rows; fewer than `most` only at the end.

        Raises:
            SourceError: If the server fails to go on.
            ConnectionLost: If it went away.
        """
        try:
            rows = list(self._cursor.fetchmany(most))
        except (load_pymysql().err.MySQLError, OSError) as error:
            raise failure(self._name, error) from error
        if len(rows) < most:
            self.has_ended = True
        return rows

    def abandon(self) -> None:
        """Close the connection, and with it the statement: the rows that are left are not waited for."""
        result, self._cursor._result = self._cursor._result, None
        if result is not None:
            result.unbuffered_active = False
        self._connection.close()


def failure(name: str, error: Exception) -> Exception:
    """Return what is raised when something cannot be read."""
    if is_away(error):
        return ConnectionLost(said(error))
    return SourceError(f"{name} cannot be read", detail=said(error), hint=_HINTS.get(error_number(error)))


_HINTS = {
    1054: "A column that was there when reading began is gone: start the job anew, without its checkpoint.",
    1146: "A table that was there when reading began is gone.",
    1142: "GRANT SELECT on it to the user that the source connects as.",
    1412: "The table was altered or emptied while it was read: start the job anew, without its checkpoint.",
    1317: "Somebody ended the statement.",
    1969: "The server ended the statement for the time it took (max_statement_time).",
    3024: "The server ended the statement for the time it took (max_execution_time).",
}
