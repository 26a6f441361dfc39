"""The exactly-once sink: messages wait in files until their checkpoint, and topics leave out what comes twice.

::

    slot     record ─► message and partition ─► file                                   invisible to readers
             ══════════════════════════ checkpoint 17 ═══════════════════════════
    driver   file ─► producer JOB-SINK-SUBTASK, numbers 17·2³², 17·2³²+1, …  ─► acknowledged ─► file removed

A commit that is repeated publishes the same messages with the same numbers to the same partitions: brokers that
deduplicate have the largest number that a producer's name published to a topic, and leave out those up to it. Numbers
of later checkpoints are larger. Messages go out one by one, not in batches: a batch that is repeated with other borders
would not be known again. Producers are there only while a commit is under way, as a topic takes one of each name: a
driver that others took over from does not keep them out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from millstream.base.errors import SinkError
from millstream.connectors.pulsar.connection import PulsarClient, PulsarConnection
from millstream.connectors.pulsar.outgoing import MessageMaker
from millstream.connectors.pulsar.producing import Outbox
from millstream.connectors.write_ahead import WriteAheadSink
from millstream.spi.batch import Rows
from millstream.spi.sink import SinkWriter, WriterContext

__all__ = ["DeduplicatedSink", "check_deduplication"]

_NUMBERS = 32


def check_deduplication(client: PulsarClient, topics: Sequence[str]) -> None:
    """See whether topics leave out what comes twice.

    Raises:
        SinkError: If one does not, or the REST API does not tell.
    """
    for topic in topics:
        path = topic.replace("://", "/")
        if client.ask_admin(f"{path}/deduplicationEnabled?applied=true") is not True:
            raise SinkError(
                f"the Pulsar topic {topic} does not deduplicate messages, so that nothing is exactly once there",
                hint="pulsar-admin namespaces set-deduplication tenant/namespace --enable, or "
                "brokerDeduplicationEnabled=true in the brokers' configuration; or take AT_LEAST_ONCE.",
            )


class DeduplicatedSink(WriteAheadSink):
    """Publishes the messages of a checkpoint when it is complete.

    Args:
        connection: Where Pulsar is.
        maker: How records become messages.
        producer_name: What names of producers begin with.
        arguments: Further ones of producers.
        delay: How long consumers do not get messages; None for not at all.
        directory: Where messages wait; None for beside the checkpoints.
    """

    def __init__(
        self,
        connection: PulsarConnection,
        maker: MessageMaker,
        producer_name: str,
        arguments: Mapping[str, Any],
        delay: timedelta | None,
        directory: str | None,
    ) -> None:
        super().__init__(directory=directory)
        self._connection = connection
        self._maker = maker
        self._producer_name = producer_name
        self._arguments = arguments
        self._delay = delay
        self._client: PulsarClient | None = None

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _StagingWriter(super().build_writer(context), self._connection, self._maker)

    def open(self) -> None:
        """Make the client of the driver."""
        self._client = PulsarClient(self._connection, SinkError)

    def send_values(self, values: Sequence[Any], checkpoint_id: int, subtask_index: int) -> bool:
        """Publish messages, unless that was done before.

        Raises:
            SinkError: If one is refused, or the cluster stays away.
        """
        assert self._client is not None
        first = checkpoint_id << _NUMBERS
        sink = hashlib.blake2b(self.operator_id.encode(), digest_size=8).hexdigest()
        name = f"{self._producer_name}-{self.job_id}-{sink}-{subtask_index}"
        outbox = Outbox(self._client, name, self._arguments, self._delay)
        try:
            outbox.publish((message, first + index) for index, message in enumerate(values))
        finally:
            outbox.close()
        return True

    def close(self) -> None:
        """End the connections of the driver."""
        if self._client is not None:
            self._client.close()
            self._client = None


class _StagingWriter(SinkWriter):
    """Makes messages of records, partition and all, and has them wait: a repeated commit sends the same ones."""

    def __init__(self, ahead: SinkWriter, connection: PulsarConnection, maker: MessageMaker) -> None:
        self._ahead = ahead
        self._connection = connection
        self._maker = maker

    def restore(self, snapshots: Sequence[Any], *, others: Sequence[Any]) -> None:
        self._ahead.restore(snapshots, others=others)

    def open(self) -> None:
        self._ahead.open()
        client = PulsarClient(self._connection, SinkError)
        try:
            self._making = self._maker.opened(client)
        finally:
            client.close()

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        messages = Rows(list(self._making.messages_of(batch)))
        self._ahead.write(messages, watermark_ms=watermark_ms, now_ms=now_ms)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        return self._ahead.prepare_commit(now_ms=now_ms, checkpoint=checkpoint, end_of_input=end_of_input)

    def number_committables(self, committables: list[Any], checkpoint_id: int) -> list[Any]:
        return self._ahead.number_committables(committables, checkpoint_id)

    def snapshot(self) -> Any:
        return self._ahead.snapshot()

    def abort(self) -> None:
        self._ahead.abort()

    def close(self) -> None:
        self._ahead.close()
