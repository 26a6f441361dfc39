"""Where a server of MySQL or MariaDB is, who asks, and connections to it."""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.base.optional import load_package
from millstream.connectors.mysql_client import AWAY, SSL_MODES, ssl_arguments
from millstream.connectors.patience import Patience

__all__ = ["MySqlAddress", "error_number", "is_away", "load_pymysql", "query", "said"]

_log = logging.getLogger(__name__)

_PORT = 3306
_SCHEMES = ("mysql", "mariadb", "jdbc:mysql", "jdbc:mariadb")
_EXAMPLE = "Write mysql://user:password@host:3306/database; @ and / in a password are %40 and %2F."
_SESSION = (
    "SET time_zone = '+00:00', net_write_timeout = 86400, net_read_timeout = 86400, wait_timeout = 86400",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
"""Moments are UTC's; a statement may wait for the next epoch; a transaction sees one moment."""


def load_pymysql() -> Any:
    """Return PyMySQL.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package("pymysql", extra="mysql", what="MySQL sources")


def said(error: BaseException) -> str:
    """Return what a server said, in one line."""
    text = error.args[-1] if len(error.args) > 1 else error
    return " ".join(str(text).split())


def error_number(error: BaseException) -> int:
    """Return the server's number of an error; 0 if it has none, as if a connection is used that was closed."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def is_away(error: Exception) -> bool:
    """Return whether an error is of a server that is away, or of a connection that is lost."""
    errors = load_pymysql().err
    if isinstance(error, OSError):
        return True
    passing = (errors.OperationalError, errors.InternalError, errors.InterfaceError)
    return isinstance(error, passing) and (error_number(error) in AWAY or error_number(error) == 0)


def query(connection: Any, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, whose values are texts (or bytes, or None)."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@dataclass(frozen=True)
class MySqlAddress:
    """A database on a server, and who asks; its text and its repr hold no password.

    Attributes:
        host: The server's host.
        port: The server's port.
        database: Where tables are looked for whose schema is not named; empty for none.
        user: Who asks; empty for who runs the program.
        password: The password.
        ssl: How the connection is encrypted, as in JDBC's `sslMode`.
        patience: How long a server that is away is waited for.
    """

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    ssl: str = "preferred"
    patience: Patience = field(default_factory=Patience)

    @staticmethod
    def of(url: str | None, patience: Patience, **parts: Any) -> MySqlAddress:
        """Make an address of a URL, of parts, or of both; parts count.

        Raises:
            ConfigurationError: If it does not parse, or PyMySQL is not installed.
        """
        load_pymysql()
        given = {name: value for name, value in parts.items() if value is not None}
        found = {**_parts_of(url or "mysql://localhost"), **given}
        if found["ssl"].lower().replace("-", "_") not in SSL_MODES:
            raise ConfigurationError(
                f"sslMode is {found['ssl']!r}", detail=f"It can be {', '.join(sorted(SSL_MODES))}."
            )
        return MySqlAddress(**{**found, "port": int(found["port"])}, patience=patience)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def settings(self) -> Mapping[str, Any]:
        """Return PyMySQL's arguments of a connection."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user or None,
            "password": self.password,
            "charset": "utf8mb4",
            "connect_timeout": 10,
            **ssl_arguments(self.ssl),
        }

    def connect(self) -> Any:
        """Return a connection of PyMySQL, each of whose statements is a transaction; wait for a server that is away.

        Raises:
            SourceError: If there is no server in time, or it does not let us in.
        """
        pymysql = load_pymysql()

        def attempt() -> Any:
            # No conversions of values: they are texts, from which columns are made at once.
            conversions = pymysql.converters.encoders
            connection = pymysql.connect(
                **self.settings(), database=self.database or None, autocommit=True, conv=conversions
            )
            try:
                for statement in _SESSION:
                    query(connection, statement)
            except BaseException:
                connection.close()
                raise
            return connection

        return self.patiently(attempt, what=f"connecting to MySQL at {self}")

    def patiently(self, action: Any, *, what: str) -> Any:
        """Return what an action gives that needs the server, and wait for it.

        Raises:
            SourceError: If there is no server in time, or it refuses.
        """
        try:
            return self.patience.call(action, is_passing=is_away, what=what, log=_log)
        except (load_pymysql().err.Error, OSError) as error:
            raise self.refusal(error) from error

    def refusal(self, error: Exception) -> SourceError:
        """Return the error that says that there is no connection, and what to do."""
        if is_away(error):
            return SourceError(
                f"the MySQL server at {self} is away, and was waited for {self.patience.total_s:g} s",
                detail=said(error),
                hint="Check that it runs and can be reached from here and from where slots run.",
            )
        return SourceError(
            f"the MySQL server at {self} refused the connection",
            detail=said(error),
            hint="Check user, password and database, and that the user may connect from this host.",
        )


def _parts_of(url: str) -> dict[str, Any]:
    """Take a URL apart; the message shows nothing of it, for it may hold a password."""
    scheme, mark, rest = url.partition("://")
    malformed = ConfigurationError("the address of the MySQL server does not parse", hint=_EXAMPLE)
    if not mark or scheme not in _SCHEMES:
        raise malformed
    try:
        parsed = urllib.parse.urlsplit(f"mysql://{rest}")
        port = parsed.port or _PORT
    except ValueError:
        raise malformed from None
    parameters = dict(urllib.parse.parse_qsl(parsed.query))
    known = {
        "user": parameters.pop("user", urllib.parse.unquote(parsed.username or "")),
        "password": parameters.pop("password", urllib.parse.unquote(parsed.password or "")),
        "ssl": parameters.pop("sslMode", "preferred"),
    }
    if parameters:
        raise ConfigurationError(
            f"the address of the MySQL server has the parameter {min(parameters)!r}, which is not known here",
            hint="Known are user, password and sslMode.",
        )
    host = parsed.hostname or "localhost"
    return {"host": host, "port": port, "database": urllib.parse.unquote(parsed.path[1:]), **known}
