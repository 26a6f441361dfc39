"""Vertices and subtasks: how they are, where, and what they have read and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET, UnsetType, field

from millstream.rest.documents.base import Document, KebabDocument, or_unknown, or_zero
from millstream.rest.documents.jobs import EXECUTION_STATES, count_states
from millstream.rest.documents.statistics import Aggregate, aggregate_each
from millstream.rest.documents.taskmanagers import manager_id
from millstream.runtime.control.views import JobView, SubtaskView, VertexView

__all__ = [
    "BackPressure",
    "IoMetrics",
    "Subtask",
    "SubtaskTimes",
    "VertexDetails",
    "VertexManagers",
    "back_pressure",
    "io_metrics",
    "subtask_document",
    "subtask_times",
    "vertex_details",
    "vertex_managers",
]

NOT_A_NUMBER = "NaN"
"""How Flink writes a number that is not known where it may have a fraction."""
_LIVE = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_LOW = 0.1
_HIGH = 0.5
"""Shares of time up to which back pressure is ok, and low."""
_AGGREGATED = (
    "read-bytes",
    "write-bytes",
    "read-records",
    "write-records",
    "accumulated-backpressured-time",
    "accumulated-idle-time",
    "accumulated-busy-time",
)


class IoMetrics(KebabDocument, frozen=True, kw_only=True):
    """What was read and written.

    Shares of time are measured, not sums: the accumulated times are 0, that of being busy "NaN".
    """

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int = 0
    accumulated_idle_time: int = 0
    accumulated_busy_time: float | str = NOT_A_NUMBER


class Subtask(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex`."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    end_time: int
    duration: int
    metrics: IoMetrics
    taskmanager_id: str
    status_duration: dict[str, int]
    # Flink writes it twice.
    start_time_again: int = field(name="start_time")


class Aggregated(KebabDocument, frozen=True, kw_only=True):
    """Figures over all subtasks."""

    metrics: dict[str, Aggregate]
    status_duration: dict[str, Aggregate]


class VertexDetails(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid`."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    subtasks: list[Subtask]
    aggregated: Aggregated


class SubtaskTime(Document, frozen=True, kw_only=True):
    """When a subtask got to each status; 0 for never, and for those that are not noted."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class SubtaskTimes(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/subtasktimes`."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTime]


class VertexManager(KebabDocument, frozen=True, kw_only=True):
    """A vertex' subtasks beside one task manager."""

    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IoMetrics
    status_counts: dict[str, int]
    taskmanager_id: str
    aggregated: Aggregated


class VertexManagers(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/taskmanagers`."""

    id: str
    name: str
    now: int
    taskmanagers: list[VertexManager]


class SubtaskPressure(Document, frozen=True, kw_only=True):
    """Which share of its time a subtask waits for others, for input, or works."""

    subtask: int
    level: str = field(name="backpressureLevel")
    ratio: float
    idle_ratio: float = field(name="idleRatio")
    busy_ratio: float | str = field(name="busyRatio")
    # Flink writes it twice.
    level_again: str = field(name="backpressure-level")


class BackPressure(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/backpressure`."""

    status: str
    level: str | UnsetType = field(default=UNSET, name="backpressureLevel")
    end_timestamp: int | UnsetType = field(default=UNSET, name="end-timestamp")
    subtasks: list[SubtaskPressure] | UnsetType = UNSET
    level_again: str | UnsetType = field(default=UNSET, name="backpressure-level")


def io_metrics(subtasks: Sequence[SubtaskView]) -> IoMetrics:
    """Return what subtasks together have read and written."""
    return IoMetrics(
        read_bytes=sum(or_zero(each.bytes_in) for each in subtasks),
        read_bytes_complete=all(each.bytes_in is not None for each in subtasks),
        write_bytes=sum(or_zero(each.bytes_out) for each in subtasks),
        write_bytes_complete=all(each.bytes_out is not None for each in subtasks),
        read_records=sum(each.records_in for each in subtasks),
        read_records_complete=True,
        write_records=sum(each.records_out for each in subtasks),
        write_records_complete=True,
    )


def subtask_document(job: JobView, subtask: SubtaskView) -> Subtask:
    """Return one subtask."""
    started = or_unknown(subtask.started_ms)
    return Subtask(
        subtask=subtask.subtask,
        status=subtask.status,
        attempt=subtask.attempt,
        endpoint=_endpoint(job, subtask),
        start_time=started,
        end_time=or_unknown(subtask.ended_ms),
        duration=_duration_ms(job, subtask),
        metrics=io_metrics([subtask]),
        taskmanager_id=_manager(job, subtask),
        status_duration=_status_durations(job, subtask),
        start_time_again=started,
    )


def vertex_details(job: JobView, vertex: VertexView) -> VertexDetails:
    """Return a vertex with its subtasks."""
    return VertexDetails(
        id=vertex.vertex_id,
        name=vertex.name,
        parallelism=len(vertex.subtasks),
        max_parallelism=max_parallelism(job, vertex),
        now=job.seen_ms,
        subtasks=[subtask_document(job, each) for each in vertex.subtasks],
        aggregated=_aggregated(job, vertex.subtasks),
    )


def max_parallelism(job: JobView, vertex: VertexView) -> int:
    """Return a vertex' number of key groups."""
    plan = job.plan.vertex(vertex.vertex_id)
    return job.max_parallelism if plan is None else plan.max_parallelism


def subtask_times(job: JobView, vertex: VertexView) -> SubtaskTimes:
    """Return when a vertex' subtasks began and ended."""
    return SubtaskTimes(
        id=vertex.vertex_id,
        name=vertex.name,
        now=job.seen_ms,
        subtasks=[
            SubtaskTime(
                subtask=each.subtask,
                endpoint=_endpoint(job, each),
                duration=_duration_ms(job, each),
                timestamps=_timestamps(each),
            )
            for each in vertex.subtasks
        ],
    )


def vertex_managers(job: JobView, vertex: VertexView) -> VertexManagers:
    """Return a vertex' subtasks by task manager."""
    grouped: dict[str, list[SubtaskView]] = {}
    for subtask in vertex.subtasks:
        grouped.setdefault(_manager(job, subtask), []).append(subtask)
    return VertexManagers(
        id=vertex.vertex_id,
        name=vertex.name,
        now=job.seen_ms,
        taskmanagers=[_vertex_manager(job, name, subtasks) for name, subtasks in grouped.items()],
    )


def back_pressure(job: JobView, vertex: VertexView) -> BackPressure:
    """Return how much a vertex waits for others; "deprecated", as Flink says, before it is known."""
    subtasks = [
        _pressure(each, each.back_pressured_ms_per_second / 1000)
        for each in vertex.subtasks
        if each.back_pressured_ms_per_second is not None
    ]
    if not subtasks:
        return BackPressure(status="deprecated")
    level = _level(max(each.ratio for each in subtasks))
    return BackPressure(
        status="ok", level=level, end_timestamp=job.seen_ms, subtasks=subtasks, level_again=level
    )


def _pressure(subtask: SubtaskView, ratio: float) -> SubtaskPressure:
    busy = subtask.busy_ms_per_second
    return SubtaskPressure(
        subtask=subtask.subtask,
        level=_level(ratio),
        ratio=ratio,
        idle_ratio=or_zero(subtask.idle_ms_per_second) / 1000,
        busy_ratio=NOT_A_NUMBER if busy is None else busy / 1000,
        level_again=_level(ratio),
    )


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def _vertex_manager(job: JobView, name: str, subtasks: list[SubtaskView]) -> VertexManager:
    counts = Counter(each.status for each in subtasks)
    started = [each.started_ms for each in subtasks if each.started_ms is not None]
    ended = [each.ended_ms for each in subtasks if each.ended_ms is not None]
    return VertexManager(
        endpoint=_endpoint(job, subtasks[0]),
        status=counts.most_common(1)[0][0],
        start_time=min(started, default=-1),
        end_time=max(ended) if len(ended) == len(subtasks) else -1,
        duration=max(_duration_ms(job, each) for each in subtasks),
        metrics=io_metrics(subtasks),
        status_counts=count_states(counts),
        taskmanager_id=name,
        aggregated=_aggregated(job, subtasks),
    )


def _aggregated(job: JobView, subtasks: Sequence[SubtaskView]) -> Aggregated:
    rows = [
        {
            "read-bytes": or_zero(each.bytes_in),
            "write-bytes": or_zero(each.bytes_out),
            "read-records": each.records_in,
            "write-records": each.records_out,
        }
        for each in subtasks
    ]
    return Aggregated(
        metrics=aggregate_each(rows, _AGGREGATED),
        status_duration=aggregate_each([_status_durations(job, each) for each in subtasks], _LIVE),
    )


def _duration_ms(job: JobView, subtask: SubtaskView) -> int:
    if subtask.started_ms is None:
        return 0
    return max((job.seen_ms if subtask.ended_ms is None else subtask.ended_ms) - subtask.started_ms, 0)


def _status_durations(job: JobView, subtask: SubtaskView) -> dict[str, int]:
    """Return how long each status before the end took: all of it is counted as RUNNING once an attempt has begun."""
    durations = dict.fromkeys(_LIVE, 0)
    status = subtask.status if subtask.status in _LIVE else "RUNNING"
    durations[status] = _duration_ms(job, subtask)
    return durations


def _timestamps(subtask: SubtaskView) -> dict[str, int]:
    timestamps = dict.fromkeys(EXECUTION_STATES, 0)
    timestamps["DEPLOYING"] = timestamps["RUNNING"] = or_zero(subtask.started_ms)
    if subtask.ended_ms is not None:
        timestamps[subtask.status] = subtask.ended_ms
    return timestamps


def _endpoint(job: JobView, subtask: SubtaskView) -> str:
    slot = next((slot for slot in job.slots if slot.slot == subtask.subtask), None)
    return "(unassigned)" if slot is None else f"{slot.host}:{slot.pid}"


def _manager(job: JobView, subtask: SubtaskView) -> str:
    slot = next((slot for slot in job.slots if slot.slot == subtask.subtask), None)
    return "(unassigned)" if slot is None else manager_id(job, slot)
