"""Write-ahead sinks: records wait in files until their checkpoint is complete (Java's `GenericWriteAheadSink`).

For targets that know no transactions. What comes between two checkpoints is written to a file by each subtask; when
the checkpoint is complete the driver reads the files and hands the records to `send_values`, subtask by subtask::

    slot     write … write ─ prepare_commit ──► file, synced, with the checkpoint's number
    driver   checkpoint complete ─► committed before? ── no ─► send_values(values, 17) ─► noted: 17 ─► file removed

A failure between `send_values` and the note repeats the same call with the same number after the restart. So it is
exactly once if `send_values` is idempotent for a (job, operator, subtask, checkpoint), and at least once otherwise;
records of a checkpoint that never was complete are never sent.

A file that is gone was sent if there is a note of it: the committer's, or the one beside the files, which tells for
each job, operator and subtask the last checkpoint that was sent, and which stays, as savepoints may refer to it at any
time. Otherwise records are lost, and the job fails before it goes on.
"""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from millstream.base.crash_points import reach
from millstream.base.errors import (
    ConfigurationError,
    LostOutputError,
    MillstreamError,
    NotSerializableError,
    SinkError,
)
from millstream.base.interrupts import is_interruption
from millstream.base.pickling import dump_lasting
from millstream.files.durable import make_directories, sync_directory, write_file
from millstream.files.file_systems import current
from millstream.files.private_files import create_own, open_own, private_directory, user_directory
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["CheckpointCommitter", "WriteAheadSink", "default_directory", "make_writable"]

_HEAD_BYTES = 12
_PRIVATE = "write-ahead"


class CheckpointCommitter(ABC):
    """Remembers, in the target or beside it, which checkpoints were written out; on the driver only.

    Several jobs, and several sinks of a job, may share a target: numbers of checkpoints and subtasks alone do not tell
    them apart. So each (job, operator) has a copy of the declared committer, which is told whose it is before `open`.

    Attributes:
        job_id: The job whose records it is about; one that goes on from a savepoint may have those of another.
        operator_id: The sink, the same in every run of a program that keeps its uid.
    """

    job_id: str = ""
    operator_id: str = ""

    def set_job_id(self, job_id: str) -> None:
        """Learn whose records it is about; called before `open`."""
        self.job_id = job_id

    def set_operator_id(self, operator_id: str) -> None:
        """Learn which sink it is about; called before `open`."""
        self.operator_id = operator_id

    def open(self) -> None:
        """Start; called once in each attempt that sends anything of the job and operator."""

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
        directory: Where records wait: every slot and the driver must see it, and it must outlive them as checkpoints
            do. By default `written-ahead` in the directory of checkpoints; where none is named, and so checkpoints do
            not outlive the driver, a directory below the system's temporary one.

    Attributes:
        job_id: On the driver: the job whose records `send_values` is given; one that goes on from a savepoint may have
            those of another.
        operator_id: On the driver: the sink, the same in every run of a program that keeps its uid.
    """

    job_id: str = ""
    operator_id: str = ""

    def __init__(
        self, checkpoint_committer: CheckpointCommitter | None = None, directory: str | None = None
    ) -> None:
        self._checkpoint_committer = checkpoint_committer
        self._directory = None if directory is None else os.path.abspath(directory)

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
        """Start on the driver: connect; called once in each attempt and job, before the first `send_values`."""

    def close(self) -> None:
        """End on the driver; called once if `open` was."""

    def check(self) -> None:
        """Make the directory, if one was given; slots make the one that is there by default.

        Raises:
            SinkError: If it cannot be made or written.
        """
        if self._directory is not None:
            make_writable(self._directory)

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _WriteAheadWriter(self._directory or default_directory(context), context)

    def build_committer(self) -> Committer:
        """Make the committer."""
        return _WriteAheadCommitter(self, self._checkpoint_committer)


@dataclass(frozen=True, slots=True)
class _WaitingFile:
    """Records that wait.

    Attributes:
        path: The file.
        job_id: The job that wrote it.
        operator_id: Its sink.
        subtask_index: Of the sink.
        checkpoint_id: Their checkpoint.
    """

    path: str
    job_id: str
    operator_id: str
    subtask_index: int
    checkpoint_id: int = 0

    @property
    def note_path(self) -> str:
        """Where it is noted which checkpoint of the subtask was sent last."""
        name = f"{self.job_id}-{self.operator_id}-{self.subtask_index}.sent"
        return os.path.join(os.path.dirname(self.path), name)

    def is_noted(self) -> bool:
        """Return whether it is noted that the records were sent."""
        try:
            with open_own(self.note_path, current().trust) as note:
                return int(note.read()) >= self.checkpoint_id
        except FileNotFoundError:
            return False

    def note(self) -> None:
        """Note that the records were sent, and only then remove them."""
        write_file(self.note_path, str(self.checkpoint_id).encode())
        Path(self.path).unlink(missing_ok=True)


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
        """Make the directory; remove what killed attempts left: what a checkpoint holds has been sent before."""
        make_writable(self._directory)
        self._remove_leftovers(or_own=False)

    def _remove_leftovers(self, *, or_own: bool) -> None:
        """Remove the files of former attempts; one subtask does it for all."""
        if self._context.subtask_index != 0:
            return
        for name in os.listdir(self._directory):
            if name.endswith(".waiting") and self._context.is_of_former(name, or_own=or_own):
                Path(self._directory, name).unlink(missing_ok=True)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        values = batch.values
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
            sync_directory(self._directory)
        except OSError as error:
            raise self._failed(error) from error
        self._file = None
        context = self._context
        return [_WaitingFile(self._path, context.job_id, context.operator_id, context.subtask_index)]

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
        self._outlets: dict[tuple[str, str], _Outlet] = {}

    def commit(self, committables: Sequence[Any]) -> None:
        self._send_all(committables)

    def recover(self, committables: Sequence[Any]) -> None:
        """Send what an earlier attempt has not; a file that was sent may be back where power has failed."""
        self._send_all(each for each in committables if not (os.path.exists(each.path) and each.is_noted()))

    def _send_all(self, committables: Iterable[Any]) -> None:
        for waiting in sorted(committables, key=lambda each: (each.checkpoint_id, each.subtask_index)):
            whose = (waiting.job_id, waiting.operator_id)
            if whose not in self._outlets:
                self._outlets[whose] = _Outlet(copy.copy(self._sink), copy.copy(self._marks), *whose)
            self._outlets[whose].send(waiting)

    def abort(self, committables: Sequence[Any]) -> None:
        for waiting in committables:
            Path(waiting.path).unlink(missing_ok=True)

    def close(self) -> None:
        with ExitStack() as stack:
            for outlet in self._outlets.values():
                stack.callback(outlet.close)
            self._outlets = {}


class _Outlet:
    """Where the records of one job and operator go; open from the begin."""

    def __init__(
        self, sink: WriteAheadSink, marks: CheckpointCommitter | None, job_id: str, operator_id: str
    ) -> None:
        self._sink = sink
        self._marks = marks
        sink.job_id, sink.operator_id = job_id, operator_id
        sink.open()
        if marks is not None:
            marks.set_job_id(job_id)
            marks.set_operator_id(operator_id)
            marks.open()

    def close(self) -> None:
        """End committer and sink."""
        try:
            if self._marks is not None:
                self._marks.close()
        finally:
            self._sink.close()

    def send(self, waiting: _WaitingFile) -> None:
        """Send a file's records, unless that was done before.

        Raises:
            SinkError: If they cannot be sent, or are gone (`LostOutputError`).
        """
        subtask, checkpoint_id = waiting.subtask_index, waiting.checkpoint_id
        reach("sink.publish", waiting.path)
        is_marked = self._marks is not None and self._marks.is_checkpoint_committed(subtask, checkpoint_id)
        if not os.path.exists(waiting.path):
            if not is_marked and not waiting.is_noted():
                raise LostOutputError(
                    f"records of checkpoint {checkpoint_id}, subtask {subtask}, were never sent by "
                    f"{type(self._sink).__name__}, and their file {waiting.path!r} is gone",
                    hint="Keep the directory for as long as checkpoints and savepoints that refer to it.",
                )
            return
        if not is_marked:
            values = [value for batch in _read(waiting.path) for value in batch]
            try:
                sent = self._sink.send_values(values, checkpoint_id, subtask)
            except MillstreamError:
                raise
            except BaseException as error:
                if is_interruption(error):
                    raise
                raise self._unsent(waiting, f"{type(error).__name__}: {error}") from error
            if not sent:
                raise self._unsent(waiting, "send_values returned False.")
            reach("sink.publish", f"{waiting.path}, sent")
            if self._marks is not None:
                self._marks.commit_checkpoint(subtask, checkpoint_id)
        try:
            waiting.note()
        except OSError as error:
            raise SinkError(
                f"it could not be noted that {waiting.path!r} was sent", detail=str(error)
            ) from error

    def _unsent(self, waiting: _WaitingFile, why: str) -> SinkError:
        return SinkError(
            f"records of checkpoint {waiting.checkpoint_id}, subtask {waiting.subtask_index}, could not be sent "
            f"by {type(self._sink).__name__}",
            detail=why,
            hint="They are sent again when the job is restarted from its checkpoint.",
        )


def default_directory(context: WriterContext) -> str:
    """Return where records wait if a sink was given no directory: beside the checkpoints that refer to them.

    Raises:
        ConfigurationError: If checkpoints are where files cannot grow.
    """
    checkpoints = context.checkpoint_directory
    if checkpoints is None:
        return str(user_directory(_PRIVATE))
    if "://" in checkpoints:
        raise ConfigurationError(
            f"a sink whose records wait has no directory for them, and checkpoints are kept in {checkpoints}",
            detail="Its records wait in files of a directory that every slot and the driver see.",
            hint="Give the sink one (WriteAheadSink(directory=...), KafkaSink.builder().set_staging_directory(...)), "
            "as durable as the checkpoints are to be.",
        )
    return os.path.join(checkpoints, "written-ahead")


def make_writable(directory: str) -> None:
    """Make the directory in which records wait, and see that files can be written in it.

    Raises:
        SinkError: If not.
    """
    try:
        if directory == str(user_directory(_PRIVATE)):
            private_directory(_PRIVATE)
        make_directories(directory)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise SinkError(
            f"directory {directory!r} of a write-ahead sink cannot be written", detail=str(error)
        ) from error


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
