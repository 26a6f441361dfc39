"""One job: its details, options, result, accumulators and failures."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, field

from millstream.rest.documents.base import Document, KebabDocument, or_unknown, or_zero
from millstream.rest.documents.jobs import JOB_STATES, count_states
from millstream.rest.documents.plan import Plan, plan_of
from millstream.rest.documents.taskmanagers import manager_id
from millstream.rest.documents.vertices import IoMetrics, io_metrics, max_parallelism
from millstream.runtime.control.views import (
    AccumulatorsView,
    ConfigView,
    ExceptionsView,
    FailureView,
    JobView,
    VertexView,
)

__all__ = [
    "Accumulators",
    "Exceptions",
    "ExecutionResult",
    "FailureCause",
    "JobConfig",
    "JobDetails",
    "JobStatus",
    "accumulators",
    "exceptions",
    "execution_result",
    "job_config",
    "job_details",
    "job_status",
]

_RESULTS = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "CANCELED": "CANCELED", "SUSPENDED": "UNKNOWN"}


class JobVertex(KebabDocument, frozen=True, kw_only=True):
    """A vertex of `/jobs/:jobid`."""

    id: str
    slot_sharing_group_id: str = field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = field(name="maxParallelism")
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    metrics: IoMetrics


class JobDetails(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid`."""

    jid: str
    application_id: str
    name: str
    is_stoppable: bool = field(name="isStoppable")
    state: str
    job_type: str
    scheduler_type: str = field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    timestamps: dict[str, int]
    vertices: list[JobVertex]
    status_counts: dict[str, int]
    plan: Plan
    pending_operators: int


class JobStatus(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/status`."""

    status: str


class ExecutionConfig(KebabDocument, frozen=True, kw_only=True):
    """What a job was told."""

    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]


class JobConfig(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/config`."""

    jid: str
    name: str
    execution_config: ExecutionConfig


class UserAccumulator(Document, frozen=True, kw_only=True):
    """One accumulator."""

    name: str
    type: str
    value: str


class Accumulators(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/accumulators`; none is written as Java serialises it."""

    job_accumulators: list[UserAccumulator]
    user_task_accumulators: list[UserAccumulator]
    serialized_user_task_accumulators: dict[str, str]


class ConcurrentException(Document, frozen=True, kw_only=True):
    """A failure of a subtask."""

    exception_name: str = field(name="exceptionName")
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str] = field(name="failureLabels")
    task_name: str | UnsetType = field(default=UNSET, name="taskName")
    endpoint: str | UnsetType = UNSET
    task_manager_id: str | UnsetType = field(default=UNSET, name="taskManagerId")


class ExceptionEntry(ConcurrentException, frozen=True, kw_only=True):
    """A failure of an attempt."""

    concurrent_exceptions: list[ConcurrentException] = field(name="concurrentExceptions")


class ExceptionHistory(Document, frozen=True, kw_only=True):
    """The last failures, the latest first."""

    entries: list[ExceptionEntry]
    truncated: bool


class Exceptions(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/exceptions`."""

    exception_history: ExceptionHistory = field(name="exceptionHistory")


class FailureCause(KebabDocument, frozen=True, kw_only=True):
    """Why something failed; `serialized-throwable` is empty, as there is no Java object."""

    class_name: str = field(name="class")
    stack_trace: str
    serialized_throwable: str = ""


class QueueStatus(Document, frozen=True, kw_only=True):
    """IN_PROGRESS or COMPLETED."""

    id: str


class Result(KebabDocument, frozen=True, kw_only=True):
    """How a job has ended."""

    id: str
    name: str
    application_status: str
    accumulator_results: dict[str, str]
    net_runtime: int
    failure_cause: FailureCause | UnsetType = UNSET
    application_id: str
    start_time: int
    end_time: int


class ExecutionResult(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/execution-result`."""

    status: QueueStatus
    job_execution_result: Result | UnsetType = UNSET


def job_details(job: JobView) -> JobDetails:
    """Return a job with its vertices and its graph."""
    return JobDetails(
        jid=job.job_id,
        application_id=job.job_id,
        name=job.name,
        is_stoppable=job.stoppable,
        state=job.status,
        job_type=job.job_type,
        scheduler_type="Default",
        start_time=job.started_ms,
        end_time=or_unknown(job.ended_ms),
        duration=job.duration_ms,
        max_parallelism=job.max_parallelism,
        now=job.seen_ms,
        timestamps={status: job.timestamps.get(status, 0) for status in JOB_STATES},
        vertices=[_vertex(job, each) for each in job.vertices],
        status_counts=count_states(_vertex_counts(job)),
        plan=plan_of(job),
        pending_operators=0,
    )


def _vertex_counts(job: JobView) -> dict[str, int]:
    counts: dict[str, int] = {}
    for vertex in job.vertices:
        counts[vertex.status] = counts.get(vertex.status, 0) + 1
    return counts


def _vertex(job: JobView, vertex: VertexView) -> JobVertex:
    started = [each.started_ms for each in vertex.subtasks if each.started_ms is not None]
    ended = [each.ended_ms for each in vertex.subtasks if each.ended_ms is not None]
    start = min(started, default=None)
    end = max(ended) if ended and len(ended) == len(vertex.subtasks) else None
    plan = job.plan.vertex(vertex.vertex_id)
    return JobVertex(
        id=vertex.vertex_id,
        slot_sharing_group_id="default" if plan is None else plan.slot_sharing_group,
        name=vertex.name,
        max_parallelism=max_parallelism(job, vertex),
        parallelism=len(vertex.subtasks),
        status=vertex.status,
        start_time=or_unknown(start),
        end_time=or_unknown(end),
        duration=-1 if start is None else max((job.seen_ms if end is None else end) - start, 0),
        tasks=count_states(vertex.status_counts),
        metrics=io_metrics(vertex.subtasks),
    )


def job_status(job: JobView) -> JobStatus:
    """Return a job's status."""
    return JobStatus(status=job.status)


def job_config(job: JobView, config: ConfigView) -> JobConfig:
    """Return what a job was told."""
    return JobConfig(
        jid=job.job_id,
        name=job.name,
        execution_config=ExecutionConfig(
            restart_strategy=config.restart_strategy,
            job_parallelism=job.parallelism,
            object_reuse_mode=True,
            user_config=dict(config.job_parameters),
        ),
    )


def accumulators(view: AccumulatorsView) -> Accumulators:
    """Return what functions have accumulated."""
    return Accumulators(
        job_accumulators=[],
        user_task_accumulators=[
            UserAccumulator(name=each.name, type=each.type, value=each.value) for each in view.accumulators
        ],
        serialized_user_task_accumulators={},
    )


def exceptions(job: JobView, view: ExceptionsView, most: int) -> Exceptions:
    """Return the last failures, `most` at most."""
    shown = view.failures[:most]
    return Exceptions(
        exception_history=ExceptionHistory(
            entries=[_entry(job, each) for each in shown], truncated=view.total > len(shown)
        )
    )


def _entry(job: JobView, failure: FailureView) -> ExceptionEntry:
    told = failure.failure
    where: dict[str, Any] = {}
    if told.subtask is not None:
        vertex = next((each for each in job.vertices if each.vertex_id == failure.vertex_id), None)
        parallelism = job.parallelism if vertex is None else len(vertex.subtasks)
        name = failure.vertex_name or told.operator
        slot = next((each for each in job.slots if each.slot == told.subtask), None)
        where = {
            "task_name": f"{name} ({told.subtask + 1}/{parallelism}) - execution #{told.attempt}",
            "endpoint": failure.host or "(unassigned)",
            "task_manager_id": "(unassigned)" if slot is None else manager_id(job, slot),
        }
    return ExceptionEntry(
        exception_name=told.exception_name,
        stacktrace=told.stacktrace,
        timestamp=told.timestamp_ms,
        failure_labels={},
        concurrent_exceptions=[],
        **where,
    )


def execution_result(job: JobView, failures: ExceptionsView) -> ExecutionResult:
    """Return how a job has ended, if it has."""
    if job.status not in _RESULTS:
        return ExecutionResult(status=QueueStatus(id="IN_PROGRESS"))
    cause: FailureCause | UnsetType = UNSET
    if job.status == "FAILED" and failures.root is not None:
        told = failures.root.failure
        cause = FailureCause(class_name=told.exception_name, stack_trace=told.stacktrace)
    return ExecutionResult(
        status=QueueStatus(id="COMPLETED"),
        job_execution_result=Result(
            id=job.job_id,
            name=job.name,
            application_status=_RESULTS[job.status],
            accumulator_results={},
            net_runtime=job.duration_ms,
            failure_cause=cause,
            application_id=job.job_id,
            start_time=job.started_ms,
            end_time=or_zero(job.ended_ms),
        ),
    )
