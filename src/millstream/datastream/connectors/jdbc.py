"""Databases under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.jdbc`)."""

from __future__ import annotations

from millstream.base.not_yet import NotYet

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
]


class _Jdbc(NotYet):
    _reason = "The database connector comes with a later release."
    _hint = "Until then use a SinkFunction that opens the connection in open()."


class JdbcSink(_Jdbc):
    """Writes rows."""


class JdbcConnectionOptions(_Jdbc):
    """Which database."""


class JdbcExecutionOptions(_Jdbc):
    """How rows are batched."""
