"""MySQL and MariaDB as sources; PyFlink has none."""

from __future__ import annotations

from millstream.connectors.mysql.source import MySqlSource, MySqlSourceBuilder

__all__ = ["MySqlSource", "MySqlSourceBuilder"]
