"""Write-ahead sinks: records wait in files until their checkpoint is complete (Java's `GenericWriteAheadSink`).

For targets that know no transactions. What comes between two checkpoints is written to a file by each subtask; when
the checkpoint is complete the driver reads the files and hands the records to `send_values`, subtask by subtask::

    slot     write … write ─ prepare_commit ──► file, synced, with the checkpoint's number
    driver   checkpoint complete ─► committed before? ── no ─► send_values(values, 17) ─► noted: 17 ─► file removed

A failure between `send_values` and the note repeats the same call with the same number after the restart. So it is
exactly once if `send_values` is idempotent for a (subtask, checkpoint), and at least once otherwise; records of a
checkpoint that never was complete are never sent.
"""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from millstream.common.crash_points import reach
from millstream.common.errors import MillstreamError, NotSerializableError, SinkError
from millstream.common.file_systems import current
from millstream.common.pickling import dump_lasting
from millstream.common.private_files import create_own, open_own, private_directory, user_directory
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["CheckpointCommitter", "WriteAheadSink"]

_HEAD_BYTES = 12


class CheckpointCommitter(ABC):
    """Remembers, in the target or beside it, which checkpoints were written out; on the driver only."""

    def open(self) -> None:
        """Start; called once in each attempt that sends anything."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask_index: int, checkpoint_id: int) -> bool:
        """Return whether `commit_checkpoint` was called for the same before, by whatever attempt."""

    @abstractmethod
    def commit_checkpoint(self, subtask_index: int, checkpoint_id: int) -> None:
        """Remember that a subtask's records of a checkpoint were written out; durable when this returns."""

    def close(self) -> None:
        """End; called once if `open` was."""


class WriteAheadSink(Sink):
    """Sends the records of a checkpoint when it is complete; derive from it, and give it to `sink_to`.

    Without checkpoints everything is sent at the end of the job.

    Args:
        checkpoint_committer: Remembers what was sent; None if `send_values` does so itself, or need not.
        directory: Where records wait: every slot and the driver must see it. By default a directory below the
            system's temporary one, which suits jobs on one machine.
    """

    def __init__(
        self, checkpoint_committer: CheckpointCommitter | None = None, directory: str | None = None
    ) -> None:
        self._checkpoint_committer = checkpoint_committer
        self._directory = os.path.abspath(directory or user_directory("write-ahead"))

    @abstractmethod
    def send_values(self, values: Sequence[Any], checkpoint_id: int, subtask_index: int) -> bool:
        """Write the records of one subtask and one checkpoint; called on the driver, in order of the checkpoints.

        Args:
            values: The records, in the order in which they came.
            checkpoint_id: Number of the checkpoint; the same if the call is repeated after a failure.
            subtask_index: Which subtask of the sink they came to.

        Returns:
            Whether they were written. If not, the job fails and the call is repeated after the restart.
        """

    def open(self) -> None:
        """Start on the driver: connect; called once in each attempt, before the first `send_values`."""

    def close(self) -> None:
        """End on the driver; called once if `open` was."""

    def check(self) -> None:
        """Make the directory.

        Raises:
            SinkError: If it cannot be made or written.
        """
        try:
            if self._directory == str(user_directory("write-ahead")):
                private_directory("write-ahead")
            os.makedirs(self._directory, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._directory):
                pass
        except OSError as error:
            raise SinkError(
                f"directory {self._directory!r} of a write-ahead sink cannot be written", detail=str(error)
            ) from error

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _WriteAheadWriter(self._directory, context)

    def build_committer(self) -> Committer:
        """Make the committer."""
        # Copies: the declared ones are pickled again for the next attempt.
        return _WriteAheadCommitter(copy.copy(self), copy.copy(self._checkpoint_committer))


@dataclass(frozen=True, slots=True)
class _WaitingFile:
    """Records that wait.

    Attributes:
        path: The file.
        subtask_index: Whose they are.
        checkpoint_id: Their checkpoint.
    """

    path: str
    subtask_index: int
    checkpoint_id: int = 0


class _WriteAheadWriter(SinkWriter):
    """Appends batches to one file for each checkpoint."""

    def __init__(self, directory: str, context: WriterContext) -> None:
        self._directory = directory
        self._context = context
        self._path = ""
        self._file: BinaryIO | None = None
        self._ended = False
        self._aborted = False

    def open(self) -> None:
        """Remove what killed attempts left: what a checkpoint holds has been sent before."""
        self._remove_leftovers(or_own=False)

    def _remove_leftovers(self, *, or_own: bool) -> None:
        """Remove the files of former attempts; one subtask does it for all."""
        if self._context.subtask_index != 0:
            return
        for name in os.listdir(self._directory):
            if name.endswith(".waiting") and self._context.is_of_former(name, or_own=or_own):
                Path(self._directory, name).unlink(missing_ok=True)

    def write(
        self, values: list[Any], timestamps: list[int] | None, *, watermark_ms: int, now_ms: int
    ) -> None:
        if not values:
            return
        data = _pickle(values)
        try:
            if self._file is None:
                self._path = os.path.join(self._directory, f"{self._context.new_name()}.waiting")
                self._file = create_own(self._path)
            self._file.write(len(data).to_bytes(8, "big") + zlib.crc32(data).to_bytes(4, "big") + data)
        except OSError as error:
            raise self._failed(error) from error

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._ended = end_of_input
        if self._file is None or not (checkpoint or end_of_input):
            return []
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise self._failed(error) from error
        self._file = None
        return [_WaitingFile(self._path, self._context.subtask_index)]

    def number_committables(self, committables: list[Any], checkpoint_id: int) -> list[Any]:
        return [replace(each, checkpoint_id=checkpoint_id) for each in committables]

    def abort(self) -> None:
        self._aborted = True
        self._discard()

    def close(self) -> None:
        self._discard()
        if self._ended and not self._aborted:  # everything was sent: what waits is of zombies
            self._remove_leftovers(or_own=True)

    def _discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            Path(self._path).unlink(missing_ok=True)

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(f"records could not be written ahead to {self._directory!r}", detail=str(error))


class _WriteAheadCommitter(Committer):
    """Sends what waits, on the driver."""

    def __init__(self, sink: WriteAheadSink, marks: CheckpointCommitter | None) -> None:
        self._sink = sink
        self._marks = marks
        self._opened = False

    def commit(self, committables: Sequence[Any]) -> None:
        if not self._opened:
            self._opened = True
            self._sink.open()
            if self._marks is not None:
                self._marks.open()
        for waiting in sorted(committables, key=lambda each: (each.checkpoint_id, each.subtask_index)):
            self._send(waiting)

    def abort(self, committables: Sequence[Any]) -> None:
        for waiting in committables:
            Path(waiting.path).unlink(missing_ok=True)

    def close(self) -> None:
        if self._opened:
            self._opened = False
            try:
                if self._marks is not None:
                    self._marks.close()
            finally:
                self._sink.close()

    def _send(self, waiting: _WaitingFile) -> None:
        subtask, checkpoint_id = waiting.subtask_index, waiting.checkpoint_id
        reach("sink.publish", waiting.path)
        if not os.path.exists(waiting.path):
            return  # removed behind the note: it was sent
        if self._marks is None or not self._marks.is_checkpoint_committed(subtask, checkpoint_id):
            values = [value for batch in _read(waiting.path) for value in batch]
            try:
                sent = self._sink.send_values(values, checkpoint_id, subtask)
            except MillstreamError:
                raise
            except Exception as error:
                raise self._unsent(waiting, f"{type(error).__name__}: {error}") from error
            if not sent:
                raise self._unsent(waiting, "send_values returned False.")
            reach("sink.publish", f"{waiting.path}, sent")
            if self._marks is not None:
                self._marks.commit_checkpoint(subtask, checkpoint_id)
        Path(waiting.path).unlink(missing_ok=True)

    def _unsent(self, waiting: _WaitingFile, why: str) -> SinkError:
        return SinkError(
            f"records of checkpoint {waiting.checkpoint_id}, subtask {waiting.subtask_index}, could not be sent "
            f"by {type(self._sink).__name__}",
            detail=why,
            hint="They are sent again when the job is restarted from its checkpoint.",
        )


def _read(path: str) -> Iterator[list[Any]]:
    with open_own(path, current().trust) as file:
        while head := file.read(_HEAD_BYTES):
            data = file.read(int.from_bytes(head[:8], "big"))
            if len(head) < _HEAD_BYTES or zlib.crc32(data) != int.from_bytes(head[8:], "big"):
                raise SinkError(f"write-ahead file {path!r} is damaged")
            yield pickle.loads(data)


def _pickle(values: list[Any]) -> bytes:
    try:
        return dump_lasting(values)
    except Exception as error:
        raise NotSerializableError(f"a record for a write-ahead sink cannot be pickled: {error}") from error
