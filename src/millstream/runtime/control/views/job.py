"""How a job, its vertices and subtasks are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.runtime.control.views.plan import PlanView

__all__ = ["JobView", "SlotView", "StatusChange", "SubtaskView", "VertexView"]


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A job status, and when it began."""

    status: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SlotView:
    """Where a slot lives: subtask i of every vertex is in slot i.

    Attributes:
        slot: Its index.
        host: Name or address of the host.
        pid: Its process.
        executor: Spark's id of the executor beside it; None where there is none, and in local mode.
    """

    slot: int
    host: str
    pid: int
    executor: str | None = None


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """One parallel instance of a vertex; what it counts is counted over all attempts.

    Attributes:
        subtask: Its index.
        status: Flink's execution state: CREATED, DEPLOYING, RUNNING, FINISHED, CANCELED, FAILED, ….
        attempt: The attempt, from 0.
        started_ms: When the attempt began; None before.
        ended_ms: When it ended; None while it runs.
        records_in: Records that came in by exchanges; 0 for sources.
        records_out: Records that it sent to other vertices; 0 for sinks.
        bytes_in: Size of what came encoded from other slots; None if not known.
        bytes_out: Size of what it sent encoded to other slots; None if not known.
        busy_ms_per_second: How long it worked in each second; None before it is known, as the next two.
        idle_ms_per_second: How long it had nothing to do.
        back_pressured_ms_per_second: How long it waited because others had not kept up.
        held_records: Records that wait at its input for a later epoch.
        input_watermark_ms: Its event time; None before the first watermark.
    """

    subtask: int
    status: str
    attempt: int
    started_ms: int | None = None
    ended_ms: int | None = None
    records_in: int = 0
    records_out: int = 0
    bytes_in: int | None = None
    bytes_out: int | None = None
    busy_ms_per_second: int | None = None
    idle_ms_per_second: int | None = None
    back_pressured_ms_per_second: int | None = None
    held_records: int = 0
    input_watermark_ms: int | None = None


@dataclass(frozen=True, slots=True)
class VertexView:
    """A vertex: what it is stands in the plan.

    Attributes:
        vertex_id: Its id.
        name: Its name.
        status: Of its subtasks together.
        subtasks: By index.
    """

    vertex_id: str
    name: str
    status: str
    subtasks: tuple[SubtaskView, ...]

    @property
    def status_counts(self) -> Mapping[str, int]:
        """How many subtasks have each status."""
        return Counter(each.status for each in self.subtasks)

    @property
    def records_in(self) -> int:
        """Of all subtasks."""
        return sum(each.records_in for each in self.subtasks)

    @property
    def records_out(self) -> int:
        """Of all subtasks."""
        return sum(each.records_out for each in self.subtasks)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job.

    Attributes:
        job_id: 32 hexadecimal digits.
        name: Shown to users.
        job_type: STREAMING or BATCH.
        status: Flink's job status.
        seen_ms: When this was seen.
        started_ms: When it was submitted.
        ended_ms: When it ended; None while it runs.
        timestamps: When each status began last; those that it never had are left out.
        changes: The last changes of its status, the oldest first.
        attempt: The number of its attempt, from 0.
        restarts: How often it was started again.
        parallelism: Number of its slots.
        max_parallelism: Number of its key groups.
        epoch: The last epoch of the attempt; 0 before the first.
        epochs: How many epochs there were, over all attempts.
        records_read: Records that its sources have read, over all attempts.
        watermark_ms: The job's watermark; None before the first.
        stoppable: Whether it can be stopped behind a savepoint.
        failure: Its last failure, in one line; None if there was none.
        pid: The process that drives it.
        host: That process' host.
        plan: Its graph.
        vertices: In the order of the plan.
        slots: Where its slots live; empty before they do.
    """

    job_id: str
    name: str
    job_type: str
    status: str
    seen_ms: int
    started_ms: int
    ended_ms: int | None
    timestamps: Mapping[str, int]
    changes: tuple[StatusChange, ...]
    attempt: int
    restarts: int
    parallelism: int
    max_parallelism: int
    epoch: int
    epochs: int
    records_read: int
    watermark_ms: int | None
    stoppable: bool
    failure: str | None
    pid: int
    host: str
    plan: PlanView
    vertices: tuple[VertexView, ...] = ()
    slots: tuple[SlotView, ...] = field(default=())

    @property
    def duration_ms(self) -> int:
        """How long it has run, or ran."""
        return max((self.seen_ms if self.ended_ms is None else self.ended_ms) - self.started_ms, 0)

    @property
    def status_counts(self) -> Mapping[str, int]:
        """How many subtasks of all vertices have each status."""
        return Counter(each.status for vertex in self.vertices for each in vertex.subtasks)
