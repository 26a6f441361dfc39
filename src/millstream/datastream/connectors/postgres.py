"""PostgreSQL as a source; PyFlink has none."""

from __future__ import annotations

from millstream.connectors.postgres.change_source import PostgresChangeSource, PostgresChangeSourceBuilder
from millstream.connectors.postgres.source import PostgresSource, PostgresSourceBuilder

__all__ = [
    "PostgresChangeSource",
    "PostgresChangeSourceBuilder",
    "PostgresSource",
    "PostgresSourceBuilder",
]
