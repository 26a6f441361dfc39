"""The write-ahead sink: records wait in files until their checkpoint is complete; then the driver writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.cluster import ClusterBuilder
from millstream.connectors.cassandra.options import WriteSettings
from millstream.connectors.cassandra.requests import Requests
from millstream.connectors.cassandra.statements import Target
from millstream.connectors.patience import Patience
from millstream.connectors.write_ahead import CheckpointCommitter, WriteAheadSink

__all__ = ["CassandraCommitter", "CassandraWriteAheadSink"]

_KEYSPACE = "flink_auxiliary"  # Flink's


class CassandraCommitter(CheckpointCommitter):
    """Remembers in a table of the cluster which checkpoints were written: `checkpoints` of a keyspace.

    The keyspace is made with one replica if it is not there; make it before with as many as your data have.

    Args:
        builder: Makes connections.
        key_space: By default `flink_auxiliary`.
        patience: How long a cluster that is away is waited for.

    Raises:
        ConfigurationError: If it is no ClusterBuilder, or the name does not do for a keyspace.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraCommitter, ClusterBuilder
        >>> committer = CassandraCommitter(ClusterBuilder("localhost"), "etl")
    """

    def __init__(
        self, builder: ClusterBuilder, key_space: str | None = None, *, patience: Patience | None = None
    ) -> None:
        if not isinstance(builder, ClusterBuilder):
            raise ConfigurationError(f"{type(builder).__name__} is no ClusterBuilder")
        keyspace = _KEYSPACE if key_space is None else key_space
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,47}", keyspace):
            raise ConfigurationError(
                f"the keyspace of a CassandraCommitter is {keyspace!r}",
                detail="It has at most 48 letters, digits and underscores, and begins with a letter.",
            )
        self._builder = builder
        self._table = f"{keyspace}.checkpoints"
        self._keyspace = keyspace
        self._patience = patience or Patience()

    @staticmethod
    def default_checkpoint_committer(
        builder: ClusterBuilder, key_space: str | None = None
    ) -> CassandraCommitter:
        """Make a committer.

        Args:
            builder: Makes connections.
            key_space: Where its table is; by default `flink_auxiliary`.
        """
        return CassandraCommitter(builder, key_space)

    def open(self) -> None:
        """Connect; make keyspace and table if they are not there."""
        self._client = CassandraClient(self._builder, self._patience, SinkError)
        self._client.open()
        try:
            if not self._is_there():
                self._make()
        except BaseException:
            self._client.close()
            raise

    def _is_there(self) -> bool:
        """Return whether the table is: whoever may not make tables makes do with one that somebody else made."""
        rows = self._client.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
            (self._keyspace.lower(), "checkpoints"),
            what=f"looking for table {self._table}",
        )
        return bool(rows)

    def _make(self) -> None:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        for statement in (
            f"CREATE KEYSPACE IF NOT EXISTS {self._keyspace} WITH replication = {replication}",
            f"CREATE TABLE IF NOT EXISTS {self._table} (job_id text, sink_id text, sub_id int, "
            "checkpoint_id bigint, PRIMARY KEY ((job_id, sink_id), sub_id))",
        ):
            self._client.execute(statement, what=f"making table {self._table}")

    def is_checkpoint_committed(self, subtask_index: int, checkpoint_id: int) -> bool:
        """Return whether the checkpoint, or a later one, was written."""
        rows = self._client.execute(
            f"SELECT checkpoint_id FROM {self._table} WHERE job_id = %s AND sink_id = %s AND sub_id = %s",
            (self.job_id, self.operator_id, subtask_index),
            what="asking which checkpoints were written",
        )
        return bool(rows) and bool(rows[0].checkpoint_id >= checkpoint_id)

    def commit_checkpoint(self, subtask_index: int, checkpoint_id: int) -> None:
        """Remember that a checkpoint was written."""
        self._client.execute(
            f"INSERT INTO {self._table} (job_id, sink_id, sub_id, checkpoint_id) VALUES (%s, %s, %s, %s)",
            (self.job_id, self.operator_id, subtask_index, checkpoint_id),
            what="noting that a checkpoint was written",
        )

    def close(self) -> None:
        """End the connection."""
        self._client.close()


class CassandraWriteAheadSink(WriteAheadSink):
    """Writes the records of a checkpoint when it is complete."""

    def __init__(
        self, target: Target, settings: WriteSettings, committer: CassandraCommitter, directory: str | None
    ) -> None:
        super().__init__(committer, directory)
        self._target = target
        self._settings = settings

    def check(self) -> None:
        """Connect, and have the cluster look at the statement or the table; make the directory.

        Raises:
            SinkError: If the cluster is away or refuses us, or records cannot be written so.
        """
        super().check()
        client = self._new_client()
        try:
            client.open()
            self._target.prepare(client, self._settings)
        finally:
            client.close()

    def open(self) -> None:
        """Connect, on the driver."""
        self._client = self._new_client()
        self._client.open()
        try:
            binder = self._target.prepare(self._client, self._settings)
        except BaseException:
            self._client.close()
            raise
        self._requests = Requests(self._client, binder, self._settings)

    def send_values(self, values: Sequence[Any], checkpoint_id: int, subtask_index: int) -> bool:
        """Write the records of a checkpoint; return when all are answered."""
        for value in values:
            self._requests.write(value)
        self._requests.finish()
        return True

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _new_client(self) -> CassandraClient:
        return CassandraClient(self._settings.builder, self._settings.patience, SinkError)
