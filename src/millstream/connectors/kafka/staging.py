"""Messages that wait in a file until their checkpoint is complete.

::

    slot     write … write ─ prepare_commit ──► <name>.kafka, synced
    driver   checkpoint complete ─► one transaction: its messages and the marker ─► noted ─► file removed

What is in the file is made and checked in the slot: bytes, topics that are there, sizes that the brokers take. Only
what becomes of the brokers later can keep it from being committed.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from millstream.base.errors import SinkError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.producing import Topics
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema, Messages
from millstream.connectors.write_ahead import default_directory, make_writable
from millstream.files.durable import sync_directory, write_file
from millstream.files.file_systems import current
from millstream.files.private_files import create_own, open_own
from millstream.spi.batch import Rows
from millstream.spi.sink import SinkWriter, WriterContext

__all__ = ["StagingWriter", "WaitingMessages", "read_messages"]

_HEAD_BYTES = 12
_SUFFIX = ".kafka"


@dataclass(frozen=True, slots=True)
class WaitingMessages:
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
    def _note_path(self) -> str:
        name = f"{self.job_id}-{self.sink}-{self.subtask_index}.kafka-sent"
        return os.path.join(os.path.dirname(self.path), name)

    def exists(self) -> bool:
        """Return whether the file is there."""
        return os.path.exists(self.path)

    def is_noted(self) -> bool:
        """Return whether it is noted that these messages, or later ones, were committed."""
        try:
            with open_own(self._note_path, current().trust) as note:
                return tuple(map(int, note.read().split())) >= self.order
        except FileNotFoundError:
            return False

    def note(self) -> None:
        """Note that they were committed, and only then remove the file.

        Raises:
            SinkError: If that fails.
        """
        try:
            if not self.is_noted():
                write_file(self._note_path, " ".join(map(str, self.order)).encode())
            self.remove()
        except OSError as error:
            raise SinkError(
                f"it could not be noted that {self.path!r} was committed", detail=str(error)
            ) from error

    def remove(self) -> None:
        """Remove the file."""
        Path(self.path).unlink(missing_ok=True)


class StagingWriter(SinkWriter):
    """Serialises batches into one file for each checkpoint."""

    def __init__(
        self,
        properties: KafkaProperties,
        schema: KafkaRecordSerializationSchema,
        directory: str | None,
        sink: str,
        context: WriterContext,
    ) -> None:
        self._directory = directory or default_directory(context)
        self._schema = schema
        self._sink = sink
        self._context = context
        self._cluster = Cluster(properties, SinkError)
        self._topics = Topics(self._cluster)
        self._path = ""
        self._topic = ""
        self._file: BinaryIO | None = None
        self._ended = False
        self._aborted = False

    def open(self) -> None:
        """Make the directory; remove what killed attempts left."""
        make_writable(self._directory)
        self._remove_leftovers(or_own=False)

    def _remove_leftovers(self, *, or_own: bool) -> None:
        """Remove what former attempts left: all that a checkpoint holds has been committed before."""
        if self._context.subtask_index != 0:
            return
        for name in os.listdir(self._directory):
            if name.endswith(_SUFFIX) and self._context.is_of_former(name, or_own=or_own):
                Path(self._directory, name).unlink(missing_ok=True)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Stage a batch."""
        if not batch.values:
            return
        messages = self._schema.messages(batch.values, batch.timestamps, self._topics.partitions)
        if not messages.values:
            return
        self._topics.check(messages)
        data = pickle.dumps(messages, pickle.HIGHEST_PROTOCOL)
        try:
            if self._file is None:
                self._path = os.path.join(self._directory, f"{self._context.new_name()}{_SUFFIX}")
                self._topic = messages.topic(0)
                self._file = create_own(self._path)
            self._file.write(len(data).to_bytes(8, "big") + zlib.crc32(data).to_bytes(4, "big") + data)
        except OSError as error:
            raise self._failed(error) from error

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Make the file durable, and return it."""
        self._ended = end_of_input
        if self._file is None or not (checkpoint or end_of_input):
            return []
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            sync_directory(self._directory)
        except OSError as error:
            raise self._failed(error) from error
        self._file = None
        context = self._context
        age = (context.generation, context.began_ms, context.attempt)
        return [
            WaitingMessages(self._path, self._topic, context.job_id, self._sink, context.subtask_index, age)
        ]

    def number_committables(self, committables: list[Any], checkpoint_id: int) -> list[Any]:
        """Tell the file its checkpoint."""
        return [replace(each, checkpoint_id=checkpoint_id) for each in committables]

    def abort(self) -> None:
        """Remove the file that is being written."""
        self._aborted = True
        self._discard()

    def close(self) -> None:
        """Remove what no checkpoint refers to."""
        self._discard()
        self._cluster.close()
        if self._ended and not self._aborted:  # all is committed: what waits is of zombies
            self._remove_leftovers(or_own=True)

    def _discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            Path(self._path).unlink(missing_ok=True)

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(f"messages could not be staged in {self._directory!r}", detail=str(error))


def read_messages(path: str) -> Iterator[Messages]:
    """Yield what waits in a file, batch by batch.

    Raises:
        SinkError: If the file is damaged.
    """
    with open_own(path, current().trust) as file:
        while head := file.read(_HEAD_BYTES):
            data = file.read(int.from_bytes(head[:8], "big"))
            if len(head) < _HEAD_BYTES or zlib.crc32(data) != int.from_bytes(head[8:], "big"):
                raise SinkError(f"staged messages in {path!r} are damaged")
            yield pickle.loads(data)
