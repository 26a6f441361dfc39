"""From connection options to a database."""

from __future__ import annotations

from millstream.connectors.jdbc.alchemy import Alchemy, Sqlite
from millstream.connectors.jdbc.database import Database
from millstream.connectors.jdbc.mysql import MySql
from millstream.connectors.jdbc.options import JdbcConnectionOptions
from millstream.connectors.jdbc.postgres import Postgres
from millstream.connectors.jdbc.urls import parse_url

__all__ = ["open_database"]

_KINDS: dict[str, type[Database]] = {"postgresql": Postgres, "mysql": MySql, "sqlite": Sqlite}


def open_database(options: JdbcConnectionOptions) -> Database:
    """Return the database that connection options name; it is not connected to yet.

    Raises:
        ConfigurationError: If the URL is none, or its driver is not installed.
    """
    url = parse_url(options)
    database = _KINDS.get(url.kind, Alchemy)(url)
    database.check_installed()
    return database
