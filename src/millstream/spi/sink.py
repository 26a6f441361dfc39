"""The contract of sinks: writer in the slot, committables in the report, committer on the driver.

::

    slot    write … write   prepare_commit ──► committables ─┐  (in the epoch's report)
                                                             │  snapshot (what stays open), if a checkpoint ends
    driver                                                   └─► commit: publishes, idempotently, beside the next epochs
    slot    checkpoint_completed (with the next epoch) ─ write … write   prepare_commit ─► …

Nothing that a writer stages is visible to readers before `commit`. What a writer keeps open beyond a checkpoint is
in its snapshot; another attempt's writer goes on from there (`restore`, then `open`, then `write`).
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from millstream.base.ids import new_id
from millstream.spi.versions import FIRST_VERSION, refuse_version
from millstream.types.basic import TypeInformation

__all__ = ["Committer", "Sink", "SinkWriter", "WriterContext"]

_NAME = re.compile(r"([A-Za-z0-9]*-[0-9a-f]{8})-(?:(\d+)x)?(\d+)-(\d+)-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Where a writer runs.

    Attributes:
        job_id: The job's id, unique for each run.
        operator: Name of the sink operator.
        subtask_index: From 0.
        parallelism: Of the sink.
        attempt: Number of the attempt, from 0.
        value_type: Declared type of the records, None if there is none.
        operator_id: Tells sinks of one job apart; the same in every attempt.
        began_ms: When the attempt began, epoch milliseconds; the same for all its subtasks.
        checkpoint_directory: Where the job's checkpoints are kept; None if no directory was named.
        generation: Tells drivers of the same job apart, larger for later ones, whatever their clocks say; 0 for the one
            that began it.

    Example:
        >>> from millstream.spi.sink import WriterContext
        >>> context = WriterContext("job", "files", 1, parallelism=2, attempt=0, value_type=None)
        >>> context.operator, context.subtask_index, context.new_name() != context.new_name()
        ('files', 1, True)
    """

    job_id: str
    operator: str
    subtask_index: int
    parallelism: int
    attempt: int
    value_type: TypeInformation | None = None
    operator_id: str = ""
    began_ms: int = 0
    checkpoint_directory: str | None = None
    generation: int = 0

    def new_name(self) -> str:
        """Return a name for something staged: nobody else has it, and it tells whose it is (`is_of_former`).

        Letters, digits and dashes. A later attempt, of this driver or one that took over from it, can recognise what
        is left by one that was killed.

        >>> WriterContext("4a3f", "sink", 0, 1, 2, began_ms=5).new_name().rpartition("-")[0]
        '4a3f-1271cf25-5-2'
        """
        driver = f"{self.generation}x" if self.generation else ""
        return f"{self._sink()}-{driver}{self.began_ms}-{self.attempt}-{new_id()[:8]}"

    def is_of_former(self, text: str, *, or_own: bool = False) -> bool:
        """Return whether a text holds a name that an earlier attempt of the same job and sink gave.

        A later attempt's is never taken for one: a zombie must not clear up after those who took over from it.

        Args:
            text: A path, the name of a transaction.
            or_own: Whether names of this very attempt count as well.
        """
        own = (self.generation, self.began_ms, self.attempt)
        return any(
            match[1] == self._sink()
            and ((age := (int(match[2] or 0), int(match[3]), int(match[4]))) < own or (or_own and age == own))
            for match in _NAME.finditer(text)
        )

    def _sink(self) -> str:
        operator = hashlib.blake2b(self.operator_id.encode(), digest_size=4).hexdigest()
        return f"{re.sub('[^A-Za-z0-9]', '', self.job_id)}-{operator}"


class SinkWriter(ABC):
    """Stages output. Lives in the slot for the whole attempt; one thread calls it.

    Attributes:
        takes_columns: Whether `write` takes batches in both forms; if not, columns are made rows before it.

    ::

        [restore] ─► open ─► { write* prepare_commit [number_committables snapshot] [checkpoint_completed] }* ─► close
                                                                                              after a failure: abort

    Example:
        >>> from millstream.spi.batch import Rows
        >>> from millstream.spi.sink import SinkWriter
        >>> class InPairs(SinkWriter):
        ...     def open(self):
        ...         self.staged = []
        ...     def write(self, batch, *, watermark_ms, now_ms):
        ...         self.staged += batch.values
        ...     def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
        ...         ready, self.staged = self.staged, []
        ...         return [ready] if ready else []
        >>> writer = InPairs()
        >>> writer.open()
        >>> writer.write(Rows(["tea", "cake"]), watermark_ms=0, now_ms=0)
        >>> writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        [['tea', 'cake']]
    """

    takes_columns: bool = False

    def restore(self, snapshots: Sequence[Any], *, others: Sequence[Any]) -> None:
        """Go on from a checkpoint; called once, first, if the attempt begins from one.

        Args:
            snapshots: What `snapshot` gave in the old subtasks that this one takes over; none or several after
                rescaling.
            others: What it gave in all others.

        Raises:
            SinkError: If what was staged is not there any more.
        """

    def open(self) -> None:
        """Called once, before the first record, after `restore`.

        Raises:
            SinkError: If the target cannot be written.
        """

    @abstractmethod
    def write(self, batch: Any, *, watermark_ms: int, now_ms: int) -> None:
        """Stage a batch.

        Args:
            batch: The records with their event times: `Rows`, or any `spi.batch.Batch` if `takes_columns`; without
                watermarks between them.
            watermark_ms: The watermark before this batch.
            now_ms: The epoch's processing time.

        Raises:
            SinkError: If it cannot be written.
        """

    @abstractmethod
    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """End an epoch: flush, and return the committables that are ready to be published.

        Args:
            now_ms: The epoch's processing time.
            checkpoint: Whether a checkpoint ends with this epoch.
            end_of_input: Whether nothing will follow: everything staged must be returned.
        """

    def number_committables(self, committables: list[Any], checkpoint_id: int) -> list[Any]:
        """Learn the number of the checkpoint that ends with this epoch; called after `prepare_commit`.

        Args:
            committables: What `prepare_commit` returned.
            checkpoint_id: The number. Without checkpoints, at the end of a job, the number of the last epoch.

        Returns:
            What is to be committed.
        """
        return committables

    def snapshot(self) -> Any:
        """Return what stays staged beyond the checkpoint that ends with this epoch; None for nothing.

        Picklable, small; what it refers to is durable when this returns, and stays until a later checkpoint is
        complete. Called after `prepare_commit`.
        """
        return None

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete: no earlier snapshot of this attempt will be restored.

        Called with the next epoch; not at all if there is none. What was staged for the checkpoint need not be
        committed yet.
        """

    def next_processing_time(self) -> int | None:
        """Return when `prepare_commit` is to be called even if nothing is written, epoch milliseconds, or None."""
        return None

    def abort(self) -> None:
        """The attempt failed: remove what is staged, neither returned by `prepare_commit` nor in a snapshot."""

    def close(self) -> None:
        """Called once, at the end of the attempt; what is in the last snapshot stays (stop with savepoint)."""


class Committer(ABC):
    """Publishes committables. Lives on the driver; one thread makes, calls and closes it.

    Slots stage what comes next while it commits. It is given what one checkpoint holds at a time: the next one is
    complete when all of that is committed.

    Example:
        >>> from millstream.spi.sink import Committer
        >>> class Rename(Committer):
        ...     def commit(self, committables):
        ...         for staged, final in committables:
        ...             print(staged, "becomes", final)  # may be called again after a failure
        ...     def abort(self, committables):
        ...         pass
        >>> Rename().commit([(".part-0.tmp", "part-0")])
        .part-0.tmp becomes part-0
    """

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None:
        """Publish; must be idempotent, it is called again after a failure.

        Raises:
            SinkError: If it cannot be published.
        """

    def recover(self, committables: Sequence[Any]) -> None:
        """Publish what an earlier attempt left in its checkpoint; it may have been published already.

        Called before the slots of the attempt are there.

        Raises:
            SinkError: If it cannot be published.
        """
        self.commit(committables)

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove staged output that will never be committed."""

    def close(self) -> None:
        """Release what the committer holds."""


class Sink(ABC):
    """What a user declares: small, immutable, picklable.

    Attributes:
        snapshot_version: Of which form the writers' snapshots are; count it up when the form changes.
        committable_version: The same of committables.

    Example:
        >>> from millstream.spi.sink import Sink, SinkWriter
        >>> from millstream.testing import MiniCluster
        >>> class ShowWriter(SinkWriter):
        ...     def write(self, batch, *, watermark_ms, now_ms):
        ...         for value in batch.values:
        ...             print("got", value)
        ...     def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
        ...         return []  # nothing is staged
        >>> class Show(Sink):
        ...     def build_writer(self, context):
        ...         return ShowWriter()
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     end = env.from_collection(["tea", "cake"]).sink_to(Show())
        ...     result = env.execute("shop")
        got tea
        got cake
    """

    snapshot_version: ClassVar[int] = FIRST_VERSION
    committable_version: ClassVar[int] = FIRST_VERSION

    @abstractmethod
    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""

    def build_committer(self) -> Committer | None:
        """Make the committer; None if the writer publishes by itself, at least once."""
        return None

    def upgrade_snapshot(self, version: int, snapshot: Any) -> Any:
        """Make a writer's snapshot of today's form of an older one; called in the slot, before `restore`.

        Args:
            version: Of which form it is: lower than `snapshot_version`.
            snapshot: What a writer of that form gave.

        Raises:
            StateIncompatibleError: If there is no way; by default always.
        """
        refuse_version(
            f'writer\'s snapshot of sink "{type(self).__name__}"',
            version,
            self.snapshot_version,
            "upgrade_snapshot",
        )

    def upgrade_committable(self, version: int, committable: Any) -> Any:
        """Make a committable of today's form of an older one; called on the driver, before `Committer.recover`.

        Args:
            version: Of which form it is: lower than `committable_version`.
            committable: What a writer of that form returned.

        Raises:
            StateIncompatibleError: If there is no way; by default always.
        """
        refuse_version(
            f'committable of sink "{type(self).__name__}"',
            version,
            self.committable_version,
            "upgrade_committable",
        )

    def check(self) -> None:
        """Called on the driver before the job starts.

        Raises:
            SinkError: If the target cannot be written, so that the job never starts.
        """
