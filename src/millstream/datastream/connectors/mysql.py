"""MySQL and MariaDB as sources; PyFlink has none."""

from __future__ import annotations

from millstream.connectors.mysql.change_source import MySqlChangeSource, MySqlChangeSourceBuilder
from millstream.connectors.mysql.source import MySqlSource, MySqlSourceBuilder

__all__ = [
    "MySqlChangeSource",
    "MySqlChangeSourceBuilder",
    "MySqlSource",
    "MySqlSourceBuilder",
]
