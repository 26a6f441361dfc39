"""Databases (PyFlink's `pyflink.datastream.connectors.jdbc`)."""

from millstream.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from millstream.connectors.jdbc.sink import JdbcSink, JdbcTableSinkBuilder

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcTableSinkBuilder",
]
