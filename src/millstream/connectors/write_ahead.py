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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.errors import (
    LostOutputError,
    MillstreamError,
    NotSerializableError,
    SinkError,
)
from millstream.base.interrupts import is_interruption
from millstream.base.pickling import dump_lasting
from millstream.connectors.staged_blocks import BlockWriter, WaitingFile, make_writable, read_blocks
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["CheckpointCommitter", "WriteAheadSink"]


class CheckpointCommitter(ABC):
    """Remembers, in the target or beside it, which checkpoints were written out; on the driver only.

    Several jobs, and several sinks of a job, may share a target: numbers of checkpoints and subtasks alone do not tell
    them apart. So each (job, operator) has a copy of the declared committer, which is told whose it is before `open`.

    Attributes:
        job_id: The job whose records it is about; one that goes on from a savepoint may have those of another.
        operator_id: The sink, the same in every run of a program that keeps its uid.

    Example:
        >>> from millstream.datastream.connectors.base import CheckpointCommitter
        >>> class InMemory(CheckpointCommitter):  # a real one asks a table of the target
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.sent = set()
        ...     def is_checkpoint_committed(self, subtask_index, checkpoint_id):
        ...         return (subtask_index, checkpoint_id) in self.sent
        ...     def commit_checkpoint(self, subtask_index, checkpoint_id):
        ...         self.sent.add((subtask_index, checkpoint_id))
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

    Example:
        >>> from millstream.datastream.connectors.base import WriteAheadSink
        >>> class ToService(WriteAheadSink):
        ...     def __init__(self, service):
        ...         super().__init__()
        ...         self.service = service
        ...     def send_values(self, values, checkpoint_id, subtask_index):
        ...         self.service.take(values, key=f"{checkpoint_id}-{subtask_index}")
        ...         return True
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
        return _WriteAheadWriter(self._directory, context)

    def build_committer(self) -> Committer:
        """Make the committer."""
        return _WriteAheadCommitter(self, self._checkpoint_committer)


@dataclass(frozen=True, slots=True)
class _WaitingFile(WaitingFile):
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
    def order(self) -> tuple[int, ...]:
        return (self.checkpoint_id,)

    @property
    def note_name(self) -> str:
        return f"{self.job_id}-{self.operator_id}-{self.subtask_index}.sent"


class _WriteAheadWriter(BlockWriter):
    """Has batches wait as they are."""

    suffix = ".waiting"

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        if batch.values:
            self._append(_pickle(batch.values))

    def _committable(self, path: str) -> _WaitingFile:
        context = self._context
        return _WaitingFile(path, context.job_id, context.operator_id, context.subtask_index)


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
        self._send_all(each for each in committables if not (each.exists() and each.is_noted()))

    def _send_all(self, committables: Iterable[Any]) -> None:
        for waiting in sorted(committables, key=lambda each: (each.checkpoint_id, each.subtask_index)):
            whose = (waiting.job_id, waiting.operator_id)
            if whose not in self._outlets:
                self._outlets[whose] = _Outlet(copy.copy(self._sink), copy.copy(self._marks), *whose)
            self._outlets[whose].send(waiting)

    def abort(self, committables: Sequence[Any]) -> None:
        for waiting in committables:
            waiting.remove()

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
        if not waiting.exists():
            if not is_marked and not waiting.is_noted():
                raise LostOutputError(
                    f"records of checkpoint {checkpoint_id}, subtask {subtask}, were never sent by "
                    f"{type(self._sink).__name__}, and their file {waiting.path!r} is gone",
                    hint="Keep the directory for as long as checkpoints and savepoints that refer to it.",
                )
            return
        if not is_marked:
            values = [value for block in read_blocks(waiting.path) for value in pickle.loads(block)]
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
        waiting.note()

    def _unsent(self, waiting: _WaitingFile, why: str) -> SinkError:
        return SinkError(
            f"records of checkpoint {waiting.checkpoint_id}, subtask {waiting.subtask_index}, could not be sent "
            f"by {type(self._sink).__name__}",
            detail=why,
            hint="They are sent again when the job is restarted from its checkpoint.",
        )


def _pickle(values: list[Any]) -> bytes:
    try:
        return dump_lasting(values)
    except Exception as error:
        raise NotSerializableError(f"a record for a write-ahead sink cannot be pickled: {error}") from error
