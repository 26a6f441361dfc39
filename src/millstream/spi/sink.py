"""The contract of sinks: writer in the slot, committables in the report, committer on the driver.

::

    slot    write … write   prepare_commit ──► committables ─┐  (in the epoch's report)
    driver                                                   └─► commit: publishes, idempotently

Nothing that a writer stages is visible to readers before `commit`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.common.typeinfo_basic import TypeInformation

__all__ = ["Committer", "Sink", "SinkWriter", "WriterContext"]


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
    """

    job_id: str
    operator: str
    subtask_index: int
    parallelism: int
    attempt: int
    value_type: TypeInformation | None = None


class SinkWriter(ABC):
    """Stages output. Lives in the slot for the whole attempt; one thread calls it."""

    @abstractmethod
    def write(
        self, values: list[Any], timestamps: list[int] | None, *, watermark_ms: int, now_ms: int
    ) -> None:
        """Stage a batch.

        Args:
            values: The records.
            timestamps: Their event times in epoch milliseconds, or None.
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

    def abort(self) -> None:
        """Remove what was staged and not yet returned by `prepare_commit`; the attempt failed."""

    def close(self) -> None:
        """Called once, at the end of the attempt."""


class Committer(ABC):
    """Publishes committables. Lives on the driver."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None:
        """Publish; must be idempotent, it is called again after a failure.

        Raises:
            SinkError: If it cannot be published.
        """

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove staged output that will never be committed."""

    def close(self) -> None:
        """Release what the committer holds."""


class Sink(ABC):
    """What a user declares: small, immutable, picklable."""

    @abstractmethod
    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""

    def build_committer(self) -> Committer | None:
        """Make the committer; None if the writer publishes by itself, at least once."""
        return None

    def check(self) -> None:
        """Called on the driver before the job starts.

        Raises:
            SinkError: If the target cannot be written, so that the job never starts.
        """
