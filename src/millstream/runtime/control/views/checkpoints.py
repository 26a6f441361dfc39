"""A job's checkpoints and savepoints: how many, how long, how large, which failed and why."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "CheckpointConfigView",
    "CheckpointCounts",
    "CheckpointSizes",
    "CheckpointView",
    "CheckpointsView",
    "RestoredView",
    "SlotCheckpointView",
    "SummaryView",
]


@dataclass(frozen=True, slots=True)
class SlotCheckpointView:
    """What one slot wrote: one file holds the state of subtask i of every vertex.

    Attributes:
        slot: The slot.
        size: Of its file.
        is_delta: Whether it holds only what changed since the checkpoint before.
        writing_ms: How long the slot took to write its state, for all that was ordered with the epoch.
    """

    slot: int
    size: int
    is_delta: bool
    writing_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointSizes:
    """What of a checkpoint belongs to one operator on the driver: a source's positions, a sink's committables.

    Attributes:
        operator_id: The operator.
        size: Of its file.
    """

    operator_id: str
    size: int


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """One checkpoint or savepoint; of both in one epoch the ids are equal.

    Attributes:
        checkpoint_id: Its number.
        is_savepoint: Whether it belongs to the user.
        stops: Whether the job is to end behind it.
        status: IN_PROGRESS, COMPLETED or FAILED.
        epoch: The epoch that it ends.
        triggered_ms: When it was ordered.
        ended_ms: When it was complete or had failed; None before.
        checkpointed_size: Size of what was written for it: of an incremental one what changed.
        state_size: Size of all that belongs to it.
        path: Where it is; None unless it is complete.
        is_discarded: Whether it was complete and has been removed since.
        failure: Why there is none.
        slot_count: Number of slots that write it.
        slots: What each wrote, by slot; empty before it is complete.
        operators: What the driver keeps, by operator.
    """

    checkpoint_id: int
    is_savepoint: bool
    stops: bool
    status: str
    epoch: int
    triggered_ms: int
    ended_ms: int | None = None
    checkpointed_size: int = 0
    state_size: int = 0
    path: str | None = None
    is_discarded: bool = False
    failure: str | None = None
    slot_count: int = 0
    slots: tuple[SlotCheckpointView, ...] = ()
    operators: tuple[CheckpointSizes, ...] = ()

    @property
    def duration_ms(self) -> int | None:
        """From the order to the end; None while it is in progress."""
        return None if self.ended_ms is None else max(self.ended_ms - self.triggered_ms, 0)


@dataclass(frozen=True, slots=True)
class RestoredView:
    """What an attempt began from.

    Attributes:
        checkpoint_id: Its number.
        is_savepoint: Whether it is a savepoint.
        path: Where it was.
        restored_ms: When the attempt began.
    """

    checkpoint_id: int
    is_savepoint: bool
    path: str
    restored_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """How many there were, over all attempts."""

    triggered: int = 0
    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    restored: int = 0


@dataclass(frozen=True, slots=True)
class SummaryView:
    """A figure over the completed checkpoints: least and greatest of all, the others of the last few thousand.

    Attributes:
        min: Least value; 0 if there is none, as for the others.
        max: Greatest value.
        avg: Mean.
        p50: Median; p90 to p999 are quantiles likewise.
    """

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckpointConfigView:
    """What a job's options say of its checkpoints.

    Attributes:
        mode: exactly_once: epochs are aligned.
        interval_ms: Time between two; None makes none but savepoints.
        timeout_ms: When one is given up.
        min_pause_ms: Least time between the end of one and the begin of the next.
        max_concurrent: Always 1.
        tolerable_failures: How many may fail one after the other.
        retained: How many are kept.
        directory: Where they are, without credentials; None for a temporary directory.
        savepoint_directory: Where savepoints go by default.
        keep_on_cancel: Whether they stay when the job is cancelled.
        keep_on_failure: Whether they stay when the job fails.
        state_backend: "hashmap" or "rocksdb".
    """

    mode: str = "exactly_once"
    interval_ms: int | None = None
    timeout_ms: int = 0
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retained: int = 1
    directory: str | None = None
    savepoint_directory: str | None = None
    keep_on_cancel: bool = False
    keep_on_failure: bool = False
    state_backend: str = "hashmap"


@dataclass(frozen=True, slots=True)
class CheckpointsView:
    """All that is told of checkpoints.

    Attributes:
        counts: How many there were.
        duration_ms: Of completed checkpoints, without savepoints, as the next two.
        checkpointed_size: What was written for each.
        state_size: What belongs to each.
        latest_completed: The last that was completed, without savepoints.
        latest_failed: The last that failed.
        latest_savepoint: The last savepoint that was completed.
        latest_restored: What an attempt began from last.
        history: The last ones, the newest first.
        config: What the options say.
    """

    counts: CheckpointCounts = field(default_factory=CheckpointCounts)
    duration_ms: SummaryView = field(default_factory=SummaryView)
    checkpointed_size: SummaryView = field(default_factory=SummaryView)
    state_size: SummaryView = field(default_factory=SummaryView)
    latest_completed: CheckpointView | None = None
    latest_failed: CheckpointView | None = None
    latest_savepoint: CheckpointView | None = None
    latest_restored: RestoredView | None = None
    history: tuple[CheckpointView, ...] = ()
    config: CheckpointConfigView = field(default_factory=CheckpointConfigView)
