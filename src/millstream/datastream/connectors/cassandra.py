"""Cassandra under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.cassandra`)."""

from __future__ import annotations

from enum import Enum

from millstream.base.not_yet import NotYet

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]


class _Cassandra(NotYet):
    _reason = "The Cassandra connector comes with a later release."
    _hint = "Until then use a SinkFunction that opens the connection in open()."


class ConsistencyLevel(Enum):
    """How many replicas must answer."""

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


class CassandraSink(_Cassandra):
    """Writes rows."""


class MapperOptions(_Cassandra):
    """Options of writes."""


class ClusterBuilder(_Cassandra):
    """Makes the connection."""


class CassandraCommitter(_Cassandra):
    """Remembers what was written."""


class CassandraFailureHandler(_Cassandra):
    """Decides about failed writes."""
