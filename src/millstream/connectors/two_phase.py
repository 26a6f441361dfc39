"""Sinks of your own that are exactly once: two-phase commit (Java's `TwoPhaseCommitSinkFunction`).

::

    slot     begin_transaction ─ invoke … invoke ─ pre_commit ──► committable     begin_transaction ─ invoke …
                                                      │
             ═════════════════════════════ checkpoint ═════════════════════════
                                                      │  recorded with it
    driver                                            └──► commit     (again after a failure: recover_and_commit)

A failure before the checkpoint is complete: the transaction is dropped, and the records come again. A failure after
it: `commit` is repeated until it succeeds. So a record is committed exactly once if `commit` of the same committable
may be repeated.

Who drops a transaction that will never be committed::

    open in a slot that lives                             abort_transaction, by the slot
    pre-committed, known to the driver                    abort, by the driver
    its slot or driver was killed; it was begun behind
      the checkpoint that the job goes on from            recover_and_abort: the checkpoint has it, as in Flink
      an attempt's start, a checkpoint that failed, …     recover_and_abort: `staged_transactions` finds it
"""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.errors import MillstreamError, SinkError, shorten
from millstream.base.interrupts import is_interruption
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["SinkContext", "TwoPhaseCommitSink"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SinkContext:
    """What a sink may know of a record besides its value.

    Attributes:
        timestamp_ms: Its event time in epoch milliseconds, or None.
        watermark_ms: The watermark before it.
        now_ms: Processing time.

    Example:
        >>> from millstream.datastream.connectors.base import SinkContext
        >>> SinkContext(timestamp_ms=1_000, watermark_ms=500, now_ms=2_000).timestamp()
        1000
    """

    timestamp_ms: int | None = None
    watermark_ms: int = 0
    now_ms: int = 0

    def timestamp(self) -> int | None:
        """Return the record's event time in epoch milliseconds, or None."""
        return self.timestamp_ms

    def current_watermark(self) -> int:
        """Return the watermark before the record, in epoch milliseconds."""
        return self.watermark_ms

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self.now_ms


class TwoPhaseCommitSink(Sink):
    """A sink whose output is published together with checkpoints; derive from it, and give it to `sink_to`.

    The object itself is only declared: it is pickled to each slot, where one thread calls `open`,
    `begin_transaction`, `invoke`, `pre_commit`, `abort_transaction` and `close`; the driver has a copy of its own and
    calls `open_committer`, `commit`, `abort`, `recover_and_commit` and `close_committer`. So connections are made in
    `open` and `open_committer`, not in the constructor.

    Without checkpoints there is one transaction, committed at the end of the job.

    What a slot leaves that is killed is dropped by the next attempt (`recover_and_abort`), pre-committed or not: the
    transaction that was open behind the last checkpoint is in that checkpoint. Transactions begun since are not: the
    first of an attempt, and those begun behind a checkpoint that failed. For these the sink names its
    transactions by `context.new_name()` and lists what there is (`staged_transactions`). One that does not leaves
    them where they are: they are never committed, so no record is doubled, but nobody drops them.

    A transaction and a committable are picklable. The simplest form uses one object for both, the name of a place
    where output is staged::

        class StagedLines(TwoPhaseCommitSink):
            def __init__(self, directory):
                self.directory = directory

            def open(self, context):
                self.context = context

            def begin_transaction(self):
                return f"{self.directory}/.{self.context.new_name()}"

            def staged_transactions(self):
                return glob(f"{self.directory}/.*")

            def invoke(self, transaction, value, context):
                with open(transaction, "a") as file:
                    print(value, file=file)

            def commit(self, committable):
                if os.path.exists(committable):                 # else it was committed before
                    os.rename(committable, committable.replace("/.", "/"))

            def abort(self, committable):
                Path(committable).unlink(missing_ok=True)

    Example:
        >>> import os, tempfile
        >>> from millstream.datastream.connectors.base import TwoPhaseCommitSink
        >>> class Files(TwoPhaseCommitSink):  # a file for each subtask and checkpoint
        ...     def __init__(self, folder):
        ...         self.folder = folder
        ...     def begin_transaction(self):
        ...         return tempfile.mkstemp(suffix=".staged", dir=self.folder)[1]
        ...     def invoke(self, transaction, value, context):
        ...         with open(transaction, "a") as file:
        ...             print(value, file=file)
        ...     def commit(self, committable):  # may come twice
        ...         if os.path.exists(committable):
        ...             os.rename(committable, committable.replace(".staged", ".txt"))
        ...     def abort(self, committable):
        ...         if os.path.exists(committable):
        ...             os.remove(committable)
    """

    def open(self, context: WriterContext) -> None:
        """Start in a slot: connect; called once in each attempt, before anything else there."""

    @abstractmethod
    def begin_transaction(self) -> Any:
        """Begin a transaction; called in the slot, with the first record and behind each checkpoint.

        Returns:
            What names it, picklable: it is part of checkpoints, so that what a killed slot leaves can be aborted.
        """

    def staged_transactions(self) -> Iterable[Any]:
        """List the transactions and committables that are neither committed nor aborted, whosever they are.

        Called in one slot of an attempt that follows another: when it starts, behind `open`, and when the job has
        come to its end. Those whose text (`str`) has a name in it that `WriterContext.new_name` gave to an earlier
        attempt of this job and sink are aborted (`recover_and_abort`); all others are left alone. By default none.
        """
        return ()

    @abstractmethod
    def invoke(self, transaction: Any, value: Any, context: SinkContext) -> None:
        """Write a record into a transaction; called in the slot."""

    def pre_commit(self, transaction: Any) -> Any:
        """Flush: after this nothing in the slot may make the commit fail; called in the slot, before a checkpoint.

        Returns:
            The committable, picklable; None if there is nothing to commit. By default the transaction itself.
        """
        return transaction

    @abstractmethod
    def commit(self, committable: Any) -> None:
        """Publish; called on the driver when the checkpoint is complete.

        It may be called again with the same committable, by this or a later attempt, and has to know by itself what
        it did before: a marker row in the same database transaction, a name that exists already.
        """

    @abstractmethod
    def abort(self, committable: Any) -> None:
        """Drop what was staged; called on the driver, for what will never be committed. May be called again."""

    def abort_transaction(self, transaction: Any) -> None:
        """Drop a transaction that was not pre-committed; called in the slot. By default `abort(transaction)`."""
        self.abort(transaction)

    def recover_and_commit(self, committable: Any) -> None:
        """Publish what an earlier attempt left in its checkpoint; called on the driver. By default `commit`."""
        self.commit(committable)

    def recover_and_abort(self, transaction: Any) -> None:
        """Drop a transaction that an earlier attempt left; called in the slot, behind `open`. May be called again.

        It may have been pre-committed since it was recorded, or committed (if the job went back to an older
        checkpoint, whose transactions came to their end long ago): then its output has to stay. By default
        `abort_transaction`.
        """
        self.abort_transaction(transaction)

    def close(self) -> None:
        """End in a slot; called once in each attempt."""

    def open_committer(self) -> None:
        """Start on the driver; called once in each attempt, before the first `commit` or `abort`."""

    def close_committer(self) -> None:
        """End on the driver; called once in each attempt, if `open_committer` was."""

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _TransactionWriter(self, context)

    def build_committer(self) -> Committer:
        """Make the committer."""
        return _TransactionCommitter(
            copy.copy(self)
        )  # the declared one is pickled again for the next attempt


_NONE = object()


class _TransactionWriter(SinkWriter):
    """Writes into one transaction at a time."""

    def __init__(self, sink: TwoPhaseCommitSink, context: WriterContext) -> None:
        self._sink = sink
        self._context = context
        self._record = SinkContext()
        self._transaction: Any = _NONE
        self._former: list[Any] = []
        self._is_restored = False
        self._opened = False
        self._aborted = False
        self._ended = False

    def restore(self, snapshots: Sequence[Any], *, others: Sequence[Any]) -> None:
        self._is_restored = True
        self._former = [transaction for snapshot in snapshots for transaction in snapshot]

    def open(self) -> None:
        self._opened = True
        self._sink.open(self._context)
        for transaction in self._former:
            self._sink.recover_and_abort(transaction)
        self._former = []
        self._abort_staged(or_own=False)

    def _abort_staged(self, *, or_own: bool) -> None:
        """Abort what former attempts left; one subtask does it for all, when all that will be committed has been."""
        context = self._context
        if context.subtask_index != 0 or (context.attempt == 0 and not self._is_restored):
            return
        for transaction in list(self._sink.staged_transactions()):
            if context.is_of_former(str(transaction), or_own=or_own):
                self._sink.recover_and_abort(transaction)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        values, timestamps = batch.values, batch.timestamps
        if not values:
            return
        if self._transaction is _NONE:
            self._transaction = self._sink.begin_transaction()
        invoke, transaction, context = self._sink.invoke, self._transaction, self._record
        context.watermark_ms, context.now_ms, context.timestamp_ms = watermark_ms, now_ms, None
        for index, value in enumerate(values):
            if timestamps is not None:
                context.timestamp_ms = timestamps[index]
            try:
                invoke(transaction, value, context)
            except BaseException as error:
                attach_element(error, value)
                raise

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._ended = end_of_input
        if not (checkpoint or end_of_input):
            return []
        committables = []
        if self._transaction is not _NONE:
            committable = self._sink.pre_commit(self._transaction)
            self._transaction = _NONE
            if committable is not None:
                committables.append(committable)
        return committables

    def snapshot(self) -> Any:
        if self._ended:
            return ()
        # Begun now, so that the checkpoint knows of it.
        if self._transaction is _NONE:
            self._transaction = self._sink.begin_transaction()
        return (self._transaction,)

    def abort(self) -> None:
        self._aborted = True
        self._abort_open()

    def _abort_open(self) -> None:
        if self._transaction is not _NONE:
            transaction, self._transaction = self._transaction, _NONE
            self._sink.abort_transaction(transaction)

    def close(self) -> None:
        if not self._opened:
            return
        try:
            if not self._aborted:
                self._abort_open()  # an empty one, begun behind the last checkpoint
                if self._ended:  # all is committed: what is staged is of zombies
                    self._abort_staged(or_own=True)
        finally:
            self._sink.close()


class _TransactionCommitter(Committer):
    """Commits transactions on the driver."""

    def __init__(self, sink: TwoPhaseCommitSink) -> None:
        self._sink = sink
        self._opened = False

    def commit(self, committables: Sequence[Any]) -> None:
        self._each(committables, self._sink.commit, "committed")

    def recover(self, committables: Sequence[Any]) -> None:
        self._each(committables, self._sink.recover_and_commit, "committed")

    def abort(self, committables: Sequence[Any]) -> None:
        self._open()
        for committable in committables:
            try:
                self._sink.abort(committable)
            except BaseException as error:
                if is_interruption(error):
                    raise
                log.warning("transaction %s could not be aborted: %s", shorten(committable), error)

    def close(self) -> None:
        if self._opened:
            self._opened = False
            self._sink.close_committer()

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            self._sink.open_committer()

    def _each(self, committables: Sequence[Any], action: Any, what: str) -> None:
        self._open()
        for committable in committables:
            reach("sink.publish", type(self._sink).__name__)
            try:
                action(committable)
            except MillstreamError:
                raise
            except BaseException as error:
                if is_interruption(error):
                    raise
                raise SinkError(
                    f"transaction could not be {what}: {type(error).__name__}: {error}",
                    detail=f"Sink {type(self._sink).__name__}, committable {shorten(committable)}.",
                    hint="The commit is repeated when the job is restarted from its checkpoint.",
                ) from error
