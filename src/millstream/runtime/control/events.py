"""What happens to a job, as its driver's parts tell it: the input of `JobHistory`.

Immutable, of plain data; an `EpochView` is an event as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.common.job_failure import JobFailureInfo
from millstream.runtime.control.views import (
    CheckpointSizes,
    EpochView,
    RestoredView,
    SlotCheckpointView,
    SlotView,
)

__all__ = [
    "AttemptBegan",
    "AttemptFailed",
    "CheckpointCompleted",
    "CheckpointEvent",
    "CheckpointFailed",
    "CheckpointPostponed",
    "CheckpointRestored",
    "CheckpointTriggered",
    "JobEvent",
    "SlotsDeployed",
    "StatusChanged",
]


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The job has a new Flink job status since `at_ms`."""

    status: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class AttemptBegan:
    """An attempt begins."""

    attempt: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class SlotsDeployed:
    """The attempt's slots live, and its operators are open."""

    slots: tuple[SlotView, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt has failed."""

    failure: JobFailureInfo


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """A checkpoint or savepoint is ordered with an epoch.

    Attributes:
        checkpoint_id: Its number; a savepoint and a checkpoint of one epoch share it.
        is_savepoint: Which of them it is.
        stops: Whether the job is to end behind it.
        epoch: The epoch.
        at_ms: When.
        slot_count: How many slots write it.
    """

    checkpoint_id: int
    is_savepoint: bool
    stops: bool
    epoch: int
    at_ms: int
    slot_count: int


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """It is there.

    Attributes:
        checkpoint_id: Its number.
        is_savepoint: Whether it is a savepoint.
        at_ms: When.
        checkpointed_size: Size of what was written for it.
        state_size: Size of all that belongs to it.
        path: Where it is.
        slots: What each slot wrote.
        operators: What the driver keeps, by operator.
    """

    checkpoint_id: int
    is_savepoint: bool
    at_ms: int
    checkpointed_size: int
    state_size: int
    path: str
    slots: tuple[SlotCheckpointView, ...] = ()
    operators: tuple[CheckpointSizes, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """It could not be written."""

    checkpoint_id: int
    is_savepoint: bool
    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointPostponed:
    """No slot could write its state now, or it came too early: it is ordered again under another number."""

    checkpoint_id: int
    is_savepoint: bool


@dataclass(frozen=True, slots=True)
class CheckpointRestored:
    """An attempt begins from a checkpoint or savepoint."""

    restored: RestoredView


CheckpointEvent = (
    CheckpointTriggered | CheckpointCompleted | CheckpointFailed | CheckpointPostponed | CheckpointRestored
)

JobEvent = StatusChanged | AttemptBegan | SlotsDeployed | AttemptFailed | EpochView | CheckpointEvent
"""Anything that `JobHistory` takes."""
