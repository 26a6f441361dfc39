"""Messages that wait in a file until their checkpoint is complete.

::

    slot     write … write ─ prepare_commit ──► <name>.kafka, synced
    driver   checkpoint complete ─► one transaction: its messages and the marker ─► noted ─► file removed

What is in the file is made and checked in the slot: bytes, topics that are there, sizes that the brokers take. Only
what becomes of the brokers later can keep it from being committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from millstream.base.errors import SinkError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.message_blocks import decode, encode, topics_in
from millstream.connectors.kafka.producing import Topics
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema, Messages
from millstream.connectors.staged_blocks import BlockWriter, WaitingFile, read_blocks
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext

__all__ = ["StagingWriter", "WaitingMessages", "read_messages", "read_topics"]


@dataclass(frozen=True, slots=True)
class WaitingMessages(WaitingFile):
    """Messages of one subtask and one checkpoint: what is committed at once.

    Attributes:
        path: The file.
        topic: The first one in it, where its marker is kept.
        job_id: The job that wrote it.
        sink: Tells sinks of one job apart.
        subtask_index: Of the sink.
        age: Of the attempt that wrote it: generation of the driver, when it began, its number.
        checkpoint_id: Their checkpoint.
    """

    path: str
    topic: str
    job_id: str
    sink: str
    subtask_index: int
    age: tuple[int, int, int]
    checkpoint_id: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """What is larger for what is committed later, of the same job, sink and subtask."""
        return (*self.age, self.checkpoint_id)

    @property
    def note_name(self) -> str:
        """Name of the note beside the files."""
        return f"{self.job_id}-{self.sink}-{self.subtask_index}.kafka-sent"


class StagingWriter(BlockWriter):
    """Serialises batches into one file for each checkpoint."""

    suffix = ".kafka"

    def __init__(
        self,
        properties: KafkaProperties,
        schema: KafkaRecordSerializationSchema,
        directory: str | None,
        sink: str,
        context: WriterContext,
    ) -> None:
        super().__init__(directory, context)
        self._schema = schema
        self._sink = sink
        self._cluster = Cluster(properties, SinkError)
        self._topics = Topics(self._cluster)
        self._topic = ""

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Stage a batch."""
        if not batch.values:
            return
        messages = self._schema.messages(batch.values, batch.timestamps, self._topics.partitions)
        if not messages.values:
            return
        self._topics.check(messages)
        if self._file is None:
            self._topic = messages.topic(0)
        for block in encode(messages):
            self._append(*block)

    def _committable(self, path: str) -> WaitingMessages:
        context = self._context
        age = (context.generation, context.began_ms, context.attempt)
        return WaitingMessages(path, self._topic, context.job_id, self._sink, context.subtask_index, age)

    def close(self) -> None:
        """Remove what no checkpoint refers to; let go of the brokers."""
        super().close()
        self._cluster.close()


def read_messages(path: str) -> Iterator[Messages]:
    """Yield what waits in a file, some at a time.

    Raises:
        SinkError: If the file is damaged, or was written by a later version of millstream.
    """
    for block in read_blocks(path):
        yield decode(block, path)


def read_topics(path: str) -> list[str]:
    """Return the topics of what waits in a file, each once, in the order in which they come.

    Raises:
        SinkError: If the file is damaged, or was written by a later version of millstream.
    """
    return list(dict.fromkeys(topic for block in read_blocks(path) for topic in topics_in(block, path)))
