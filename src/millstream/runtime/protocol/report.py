"""What a slot tells the driver at the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.base.errors import CheckpointStorageError
from millstream.operators.base import OperatorReport
from millstream.operators.budget import UNLIMITED, EpochLimits
from millstream.runtime.protocol.orders import CheckpointDeclined, CheckpointOrder, WrittenState
from millstream.spi.source import SplitRange

__all__ = ["Backlog", "EpochHeader", "LogLine", "SlotReport", "SourceWork"]


@dataclass(frozen=True, slots=True)
class SourceWork:
    """What one source subtask does in an epoch.

    Attributes:
        ranges: To be read, in order.
        finished: Whether nothing follows.
        held: Splits that watermark alignment holds back.
        waits: Whether nothing is planned because others have not kept up.
    """

    ranges: Sequence[SplitRange]
    finished: bool
    held: frozenset[str] = frozenset()
    waits: bool = False


@dataclass(frozen=True, slots=True)
class EpochHeader:
    """What the driver tells one slot about an epoch.

    Attributes:
        attempt: Number of the attempt.
        epoch: Number of the epoch, from 1.
        committed: The last epoch that is committed: what was kept of it may go.
        now_ms: The epoch's processing time, epoch milliseconds.
        checkpoint: Whether what is staged outside is to be closed: a checkpoint ends with the epoch.
        end_of_input: Whether nothing follows in any source: the job's last epoch, unless something has to wait for
            another one.
        sources: Work of this slot's source subtasks, by node id.
        orders: Checkpoint and savepoint, in this order, to write the state for; empty for none. Their ids are equal.
        completed_checkpoint: A checkpoint that has been completed since the last epoch, to tell functions of.
        limits: Of the work of each subtask, by region; empty for none.
    """

    attempt: int
    epoch: int
    committed: int
    now_ms: int
    checkpoint: bool
    end_of_input: bool
    sources: Mapping[int, SourceWork]
    orders: tuple[CheckpointOrder, ...] = ()
    completed_checkpoint: int | None = None
    limits: tuple[EpochLimits, ...] = ()

    def limits_of(self, region: int) -> EpochLimits:
        """Return what limits the subtasks of a region."""
        return self.limits[region] if self.limits else UNLIMITED


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a region of the job has not come to in one slot and epoch.

    Attributes:
        held: Records that wait at the input of the subtask with the most of them.
        begun: Records that this subtask has begun in the epoch.
        in_flight: Records that operators have begun and wait with for something outside.
        suspended: Name of an operator chain that was left in the middle of a record; None if there is none.
        ended: Whether all input of all subtasks has come and is processed.
        busy_ms: How long its subtasks ran, milliseconds.
    """

    held: int = 0
    begun: int = 0
    in_flight: int = 0
    suspended: str | None = None
    ended: bool = True
    busy_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that user code printed or logged.

    Attributes:
        origin: Operator name and subtask.
        text: The line.
        level: A level of `logging`; None for print.
    """

    origin: str
    text: str
    level: int | None = None


@dataclass(slots=True)
class SlotReport:
    """The end of one epoch in one slot.

    Attributes:
        slot: Index of the slot.
        epoch: Number of the epoch.
        operators: Node id and report of every operator with something to tell.
        watermark_ms: Lowest watermark of the slot's subtasks that have one; None if none has.
        next_timer_ms: When the next processing-time timer is due; None if there is none.
        event_timers: Whether event-time timers wait for the watermark.
        logs: What user code printed and logged.
        going_round: Whether an iteration has records for the next epoch.
        written: What it wrote for each order of the epoch, or why it could not.
        backlogs: What it has not come to, by region; empty for nothing.
        writing_ms: How long it took to write state for a checkpoint, milliseconds.
        sent_bytes: How much it sent to other slots on the level on which that was most.
        levels_ms: How long it worked on each level, milliseconds.
        imported: Whether modules were imported meanwhile: how long it took says nothing of the next epochs.
    """

    slot: int
    epoch: int
    operators: list[tuple[int, OperatorReport]] = field(default_factory=list)
    watermark_ms: int | None = None
    next_timer_ms: int | None = None
    logs: list[LogLine] = field(default_factory=list)
    going_round: bool = False
    event_timers: bool = False
    written: tuple[WrittenState | CheckpointStorageError | CheckpointDeclined, ...] = ()
    backlogs: tuple[Backlog, ...] = ()
    writing_ms: float = 0.0
    sent_bytes: int = 0
    levels_ms: tuple[float, ...] = ()
    imported: bool = False
