"""The timeline of a job's epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["EpochBound", "EpochView", "EpochsView"]

EpochBound = Literal["INPUT", "SOURCE_BUDGET", "SUBTASK_BUDGET", "PRESSURE", "END"]
"""Why an epoch held no more: sources had no more; sources were asked for no more; subtasks reached their limit of
time, records or bytes; nothing was read, because others have not kept up; the input has ended."""


@dataclass(frozen=True, slots=True)
class EpochView:
    """One epoch.

    Attributes:
        attempt: Of which attempt.
        epoch: Its number within the attempt, from 1.
        began_ms: When it was planned.
        run_ms: How long the executor ran it: all levels on all slots.
        total_ms: From planning to its end, with its checkpoint, and what the job waited for a commit of its sinks.
        levels_ms: How long the slowest slot worked on each level.
        writing_ms: How long the slowest slot wrote state for a checkpoint.
        records: Records that sources have read.
        held: Records that wait for a later epoch, in the subtask with the most of them.
        sent_bytes: What the slot that sent the most sent to others on one level.
        bound: Why it held no more.
        checkpoint: Whether a checkpoint or savepoint ended it.
        watermark_ms: Lowest watermark of the subtasks that have one; None if none has.
    """

    attempt: int
    epoch: int
    began_ms: int
    run_ms: float
    total_ms: float
    levels_ms: tuple[float, ...]
    writing_ms: float
    records: int
    held: int
    sent_bytes: int
    bound: EpochBound
    checkpoint: bool
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class EpochsView:
    """The last epochs.

    Attributes:
        epochs: The oldest first.
        total: How many there were, over all attempts.
    """

    epochs: tuple[EpochView, ...] = ()
    total: int = 0
