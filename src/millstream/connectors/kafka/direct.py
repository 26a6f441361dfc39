"""The writer that publishes by itself, at least once or without any guarantee."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import SinkError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.producing import Outlet, Topics
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from millstream.spi.batch import Rows
from millstream.spi.sink import SinkWriter

__all__ = ["DirectWriter"]


class DirectWriter(SinkWriter):
    """Produces records as they come.

    Args:
        flushes: Whether a checkpoint waits until all records before it are acknowledged.
    """

    def __init__(
        self, properties: KafkaProperties, schema: KafkaRecordSerializationSchema, *, flushes: bool
    ) -> None:
        self._cluster = Cluster(properties, SinkError)
        self._topics = Topics(self._cluster)
        self._schema = schema
        self._flushes = flushes
        self._outlet: Outlet | None = None

    def open(self) -> None:
        """Get ready to write."""
        self._outlet = Outlet(self._cluster)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Take a batch."""
        if not batch.values:
            return
        messages = self._schema.messages(batch.values, batch.timestamps, self._topics.partitions)
        self._topics.check(messages)
        self._opened().send(messages)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """End an epoch."""
        outlet = self._opened()
        if end_of_input or (checkpoint and self._flushes):
            outlet.flush()
        else:
            outlet.producer.poll(0)
            outlet.check()
        return []

    def _opened(self) -> Outlet:
        assert self._outlet is not None, "a writer is opened first"
        return self._outlet

    def abort(self) -> None:
        """Drop what is not written yet."""
        if self._outlet is not None:
            self._outlet.drop()
            self._outlet = None

    def close(self) -> None:
        """Let go of the brokers."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.flush()
        self._cluster.close()
