"""JDBC's URLs, taken apart: which kind of database, where, as whom, with which parameters."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass, field

from millstream.base.errors import ConfigurationError
from millstream.connectors.jdbc.options import JdbcConnectionOptions

__all__ = ["DatabaseUrl", "parse_url"]

_DRIVERS = {
    "org.postgresql.Driver": "postgresql",
    "com.mysql.jdbc.Driver": "mysql",
    "com.mysql.cj.jdbc.Driver": "mysql",
    "org.mariadb.jdbc.Driver": "mysql",
    "org.sqlite.JDBC": "sqlite",
    "oracle.jdbc.OracleDriver": "oracle",
    "oracle.jdbc.driver.OracleDriver": "oracle",
    "com.microsoft.sqlserver.jdbc.SQLServerDriver": "mssql",
}
_KINDS = {"postgres": "postgresql", "mariadb": "mysql", "sqlserver": "mssql"}
_EXAMPLES = "jdbc:postgresql://host:5432/db, jdbc:mysql://host:3306/db, jdbc:sqlite:/path/to/file.db"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a database is.

    Attributes:
        kind: `postgresql`, `mysql`, `sqlite`, or what SQLAlchemy calls it.
        hosts: Host names and ports (None for the usual one), in order; none for a file.
        database: Its name, or the path of its file; None if it is not named.
        user: The user, None if it is not told.
        password: The password.
        parameters: Further ones, as they are in the URL.
        dialect: For SQLAlchemy: what stands before `://`.
    """

    kind: str
    hosts: tuple[tuple[str, int | None], ...] = ()
    database: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    parameters: dict[str, str] = field(default_factory=dict, repr=False)
    dialect: str = ""

    @property
    def address(self) -> str:
        """Where it is, for messages: without user, password and parameters."""
        hosts = ",".join(host if port is None else f"{host}:{port}" for host, port in self.hosts)
        return f"{hosts}/{self.database or ''}" if self.hosts else str(self.database)


def parse_url(options: JdbcConnectionOptions) -> DatabaseUrl:
    """Take the URL of connection options apart; messages never show what might be a password.

    Raises:
        ConfigurationError: If it is none, or if the driver's class is another database's.
    """
    if not isinstance(options, JdbcConnectionOptions):
        raise ConfigurationError(
            f"a database sink was given a {type(options).__name__}, not JdbcConnectionOptions",
            hint="Use JdbcConnectionOptions.JdbcConnectionOptionsBuilder()....build().",
        )
    text = options.url.removeprefix("jdbc:")
    match = re.match(r"([A-Za-z][A-Za-z0-9]*)(\+\w+)?:", text)
    if match is None:
        raise ConfigurationError(
            "the URL of a database does not say which kind it is", hint=f"Write one such as {_EXAMPLES}."
        )
    kind = _KINDS.get(match[1].lower(), match[1].lower())
    _check_driver(options.driver_name, kind, match[1])
    rest = text[match.end() :]
    if kind == "sqlite":
        url = DatabaseUrl(
            kind, database=_sqlite_file(rest, is_jdbc=options.url.startswith("jdbc:")), dialect=kind
        )
    elif rest.startswith("//"):
        url = _parse_hosts(kind, rest[2:], dialect=f"{match[1].lower()}{match[2] or ''}")
    elif kind == "postgresql":  # jdbc:postgresql:database, jdbc:postgresql:/
        url = _parse_hosts(kind, f"localhost/{rest.lstrip('/')}", dialect=kind)
    else:
        raise ConfigurationError(
            f"the URL of a database of the kind {match[1]!r} is not understood",
            detail="Behind the kind there is no //host/database.",
            hint="Give SQLAlchemy's URL of the database in its place: oracle+oracledb://host:1521/?service_name=...",
        )
    return DatabaseUrl(
        url.kind,
        url.hosts,
        url.database,
        options.user_name or url.user,
        options.password if options.password is not None else url.password,
        url.parameters,
        url.dialect,
    )


def _check_driver(name: str | None, kind: str, written: str) -> None:
    meant = _DRIVERS.get(name or "")
    if meant is not None and meant != kind:
        raise ConfigurationError(
            f"driver {name!r} is for databases of the kind {meant}, and the URL names one of the kind {written}",
            hint="Drivers are chosen by the URL: leave with_driver_name(...) out, or correct the one that is wrong.",
        )


def _sqlite_file(rest: str, *, is_jdbc: bool) -> str:
    path, _, parameters = rest.partition("?")
    if not is_jdbc:
        path = path.removeprefix("///")  # SQLAlchemy's sqlite:////absolute and sqlite:///relative
    path = path.removeprefix("file:")
    if parameters or not path or ":memory:" in path:
        raise ConfigurationError(
            "a sink cannot write this database of SQLite",
            detail="It needs a file: a database in memory is seen by one process only, and parameters are not taken.",
            hint="Write jdbc:sqlite:/path/to/file.db.",
        )
    return path


def _parse_hosts(kind: str, rest: str, *, dialect: str) -> DatabaseUrl:
    rest, _, query = rest.partition("?")
    place, _, database = rest.partition("/")
    login, _, place = place.rpartition("@")
    user, _, password = login.partition(":")
    parameters = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, separator="&"))
    unquote = urllib.parse.unquote
    user = parameters.pop("user", unquote(user))
    password = parameters.pop("password", unquote(password))
    return DatabaseUrl(
        kind,
        tuple(map(_parse_host, place.split(","))),
        unquote(database) or None,
        user or None,
        password or None,
        parameters,
        dialect,
    )


def _parse_host(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::(\d+))?", text)
    if match is None:
        raise ConfigurationError(
            "the URL of a database names no host and port where they should be",
            detail="Behind // there is host, or host:port.",
            hint=f"Write one such as {_EXAMPLES}; a password with special characters goes into with_password(...).",
        )
    return match[1].strip("[]") or "localhost", int(match[2]) if match[2] else None
