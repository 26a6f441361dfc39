"""Databases (PyFlink's `pyflink.datastream.connectors.jdbc`)."""

from millstream.connectors.jdbc.lookup import JdbcLookup, JdbcLookupBuilder
from millstream.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from millstream.connectors.jdbc.parameters import (
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcParameterValuesProvider,
)
from millstream.connectors.jdbc.sink import JdbcSink, JdbcTableSinkBuilder
from millstream.connectors.jdbc.source import JdbcSource, JdbcSourceBuilder

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcGenericParameterValuesProvider",
    "JdbcLookup",
    "JdbcLookupBuilder",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
    "JdbcTableSinkBuilder",
]
