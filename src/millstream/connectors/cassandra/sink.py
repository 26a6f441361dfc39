"""Sinks of Cassandra: a statement for each record, or a table by name, at least once; or ahead of a log of writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from millstream.base.errors import ConfigurationError, SinkError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.connection_builder import ClusterSettings
from millstream.connectors.cassandra.options import CassandraFailureHandler, MapperOptions, WriteSettings
from millstream.connectors.cassandra.requests import Requests
from millstream.connectors.cassandra.statements import Query, Table, Target
from millstream.connectors.cassandra.write_ahead import CassandraCommitter, CassandraWriteAheadSink
from millstream.spi.batch import Rows
from millstream.spi.sink import Sink, SinkWriter, WriterContext
from millstream.types.basic import TypeInformation

__all__ = ["CassandraRowSink", "CassandraRowSinkBuilder", "WriteBuilder"]


class CassandraRowSink(Sink):
    """Writes records as they come, many at a time; all are answered before a checkpoint. Made by `builder()`.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraRowSink, ClusterBuilder
        >>> builder = CassandraRowSink.builder().set_cluster_builder(ClusterBuilder("localhost"))
        >>> sink = builder.set_table("shop.totals").set_columns("shop", "cents").build()  # stream.sink_to(sink)
    """

    def __init__(self, target: Target, settings: WriteSettings) -> None:
        self._target = target
        self._settings = settings

    @staticmethod
    def builder() -> CassandraRowSinkBuilder:
        """Begin to build a sink for `sink_to`."""
        return CassandraRowSinkBuilder()

    def check(self) -> None:
        """Connect, and have the cluster look at the statement or the table.

        Raises:
            SinkError: If the cluster is away or refuses us, or records cannot be written so.
        """
        client = self._new_client()
        try:
            client.open()
            self._target.prepare(client, self._settings)
        finally:
            client.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _Writer(self._new_client(), self._target, self._settings)

    def _new_client(self) -> CassandraClient:
        return CassandraClient(self._settings.builder, self._settings.patience, SinkError)


class _Writer(SinkWriter):
    """Writes with many requests under way."""

    def __init__(self, client: CassandraClient, target: Target, settings: WriteSettings) -> None:
        self._client = client
        self._target = target
        self._settings = settings

    def open(self) -> None:
        self._client.open()
        binder = self._target.prepare(self._client, self._settings)
        self._requests = Requests(self._client, binder, self._settings)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        write = self._requests.write
        for value in batch.values:
            write(value)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._requests.finish()
        return []

    def close(self) -> None:
        self._client.close()


class WriteBuilder(ClusterSettings):
    """What builders of sinks have in common; each method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self._query: str | None = None
        self._table: str | None = None
        self._columns: tuple[str, ...] = ()
        self._type_info: TypeInformation | None = None
        self._committer: CassandraCommitter | None = None
        self._writes_ahead = False
        self._directory: str | None = None
        self._settings: dict[str, Any] = {}

    def set_query(self, query: str) -> Self:
        """Execute this statement for each record, with its fields for `?`, in their order.

        The table is named with its keyspace: `INSERT INTO shop.orders (id, name) VALUES (?, ?)`.

        Raises:
            ConfigurationError: If it is empty.
        """
        if not isinstance(query, str) or not query.strip():
            raise ConfigurationError(
                f"the query of the Cassandra sink is {query!r}", detail="It must be CQL."
            )
        self._query = query
        return self

    def set_table(self, table: str) -> Self:
        """Write rows of this table, `keyspace.table`, by the names of their fields (millstream's own).

        Rows with the same key are overwritten, and deleted by rows of the kind DELETE.
        """
        self._table = table
        return self

    def set_columns(self, *names: str) -> Self:
        """Name the columns of the table that are written, if the records are not declared, or not all are wanted."""
        self._columns = names
        return self

    def enable_write_ahead_log(
        self, committer: CassandraCommitter | None = None, *, directory: str | None = None
    ) -> Self:
        """Write records only when their checkpoint is complete; until then they wait in files.

        Args:
            committer: Remembers in the cluster what was written; by default one in keyspace `flink_auxiliary`.
            directory: Where records wait: every slot and the driver see it; by default beside the checkpoints.

        Raises:
            ConfigurationError: If it is no CassandraCommitter.
        """
        if committer is not None and not isinstance(committer, CassandraCommitter):
            raise ConfigurationError(
                f"{type(committer).__name__} is no CassandraCommitter",
                hint="CassandraCommitter.default_checkpoint_committer(builder, key_space).",
            )
        self._writes_ahead, self._committer, self._directory = True, committer, directory
        return self

    def set_mapper_options(self, options: MapperOptions) -> Self:
        """Set options of statements; with a query, only how many replicas must answer, tracing and nulls.

        Raises:
            ConfigurationError: If it is no MapperOptions.
        """
        if not isinstance(options, MapperOptions):
            raise ConfigurationError(f"{type(options).__name__} is no MapperOptions")
        self._settings["options"] = options
        return self

    def set_failure_handler(self, failure_handler: CassandraFailureHandler) -> Self:
        """Choose who decides about writes that fail; by default each fails the job.

        Raises:
            ConfigurationError: If it is no CassandraFailureHandler.
        """
        if not isinstance(failure_handler, CassandraFailureHandler):
            raise ConfigurationError(f"{type(failure_handler).__name__} is no CassandraFailureHandler")
        self._settings["handler"] = failure_handler
        return self

    def set_max_concurrent_requests(
        self, max_concurrent_requests: int, duration: Duration | None = None
    ) -> Self:
        """Have so many requests of a subtask under way at a time; by default 256.

        Args:
            max_concurrent_requests: How many.
            duration: How long a place among them is waited for before the job fails; by default without end.

        Raises:
            ConfigurationError: If a number is not positive.
        """
        wait_ms = None if duration is None else to_milliseconds(duration)
        if max_concurrent_requests < 1 or (wait_ms is not None and wait_ms <= 0):
            raise ConfigurationError(
                f"{max_concurrent_requests} concurrent requests, waited for {wait_ms} ms, make no sense",
                detail="Both must be positive.",
            )
        self._settings["max_requests"] = max_concurrent_requests
        self._settings["request_wait_s"] = None if wait_ms is None else wait_ms / 1000
        return self

    def enable_ignore_null_fields(self) -> Self:
        """Leave columns as they are where a field is None; by default what they held is removed."""
        self._settings["ignores_nulls"] = True
        return self

    def _build_sink(self) -> Sink:
        """Make the sink.

        Raises:
            ConfigurationError: If something is missing, or two settings exclude each other.
        """
        builder = self._cluster("sink")
        settings = WriteSettings(builder, patience=self._patience, **self._settings)
        if not settings.options._saves_nulls:
            settings = replace(settings, ignores_nulls=True)
        target = self._target(settings.options)
        if not self._writes_ahead:
            return CassandraRowSink(target, settings)
        if type(settings.handler) is not CassandraFailureHandler:
            raise ConfigurationError(
                "a write-ahead sink of Cassandra has a failure handler, which would lose records",
                detail="What could not be written is written again when the job is restarted.",
                hint="Leave out one of the two.",
            )
        committer = self._committer or CassandraCommitter(builder)
        return CassandraWriteAheadSink(target, settings, committer, self._directory)

    def _target(self, options: MapperOptions) -> Target:
        if (self._query is None) == (self._table is None):
            raise ConfigurationError(
                f"what the Cassandra sink writes is {'not said' if self._query is None else 'said twice'}",
                hint="Call either set_query or set_table.",
            )
        if self._query is not None:
            return Query(self._query, self._type_info)
        if options._if_not_exists and options._timestamp is not None:
            raise ConfigurationError(
                "MapperOptions have both if_not_exists and a timestamp",
                detail="Cassandra itself gives conditional writes their timestamps.",
            )
        return Table.of(self._table or "", self._columns, self._type_info)


class CassandraRowSinkBuilder(WriteBuilder):
    """Builds a sink for `sink_to`; each method but the last returns the builder.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraRowSink, ClusterBuilder
        >>> builder = CassandraRowSink.builder().set_cluster_builder(ClusterBuilder("localhost"))
        >>> sink = builder.set_query("INSERT INTO shop.orders (shop, cents) VALUES (?, ?)").build()
    """

    def set_type_info(self, type_info: TypeInformation) -> CassandraRowSinkBuilder:
        """Declare the records, `Types.ROW_NAMED(names, types)`; for a table the names are those of columns."""
        self._type_info = type_info
        return self

    def build(self) -> Sink:
        """Return the sink.

        Raises:
            ConfigurationError: If something is missing, or two settings exclude each other.
        """
        return self._build_sink()
