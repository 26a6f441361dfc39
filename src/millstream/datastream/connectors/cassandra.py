"""Tables of Cassandra (PyFlink's `pyflink.datastream.connectors.cassandra`).

`CassandraRowSink` is millstream's own, `CassandraSource` is Flink's in Java.
"""

from __future__ import annotations

from typing import Any

from millstream.base.errors import TypeMismatchError
from millstream.connectors.cassandra.cluster import ClusterBuilder, ConsistencyLevel
from millstream.connectors.cassandra.lookup import CassandraLookup, CassandraLookupBuilder
from millstream.connectors.cassandra.options import CassandraFailureHandler, MapperOptions
from millstream.connectors.cassandra.sink import CassandraRowSink, CassandraRowSinkBuilder, WriteBuilder
from millstream.connectors.cassandra.source import CassandraSource, CassandraSourceBuilder
from millstream.connectors.cassandra.write_ahead import CassandraCommitter
from millstream.connectors.patience import Patience
from millstream.datastream.streams.data_stream import DataStream
from millstream.datastream.streams.stream_ends import DataStreamSink

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraLookup",
    "CassandraLookupBuilder",
    "CassandraRowSink",
    "CassandraRowSinkBuilder",
    "CassandraSink",
    "CassandraSource",
    "CassandraSourceBuilder",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
    "Patience",
]


class CassandraSink(DataStreamSink):
    """The end of a stream in a table of Cassandra; made by `CassandraSink.add_sink(stream)....build()`.

    Example:
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> from millstream.datastream.connectors.cassandra import CassandraSink, ClusterBuilder
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_collection([("north", 250), ("south", 120)])
        >>> builder = CassandraSink.add_sink(orders).set_cluster_builder(ClusterBuilder("localhost"))
        >>> end = builder.set_query("INSERT INTO shop.orders (shop, cents) VALUES (?, ?)").build()
    """

    def __init__(self, end: DataStreamSink) -> None:
        self._ports = end._ports

    @staticmethod
    def add_sink(input: DataStream[Any]) -> CassandraSink.CassandraSinkBuilder:
        """Begin to write a stream; nothing is there before `build()`.

        Args:
            input: The stream, of rows or tuples.

        Raises:
            TypeMismatchError: If it is no stream.
        """
        return CassandraSink.CassandraSinkBuilder(input)

    class CassandraSinkBuilder(WriteBuilder):
        """Says how a stream is written; each method but the last returns the builder."""

        def __init__(self, input: DataStream[Any]) -> None:
            super().__init__()
            if not isinstance(input, DataStream):
                raise TypeMismatchError(f"add_sink was given a {type(input).__name__}, not a DataStream")
            self._input = input

        def build(self) -> CassandraSink:
            """Add the sink to the stream, and return it.

            Raises:
                ConfigurationError: If something is missing, or two settings exclude each other.
            """
            self._type_info = self._input.get_type()
            return CassandraSink(self._input.sink_to(self._build_sink())).name("Cassandra Sink")
