"""The lists of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from millstream.rest.documents.base import Document, KebabDocument, or_unknown
from millstream.runtime.control.views import JobView

__all__ = [
    "EXECUTION_STATES",
    "JOB_STATES",
    "JobIds",
    "JobOverview",
    "JobsOverview",
    "count_states",
    "job_ids",
    "jobs_overview",
]

JOB_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
EXECUTION_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)


class JobId(Document, frozen=True, kw_only=True):
    """A job and its status."""

    id: str
    status: str


class JobIds(Document, frozen=True, kw_only=True):
    """`/jobs`."""

    jobs: list[JobId]


class TaskCounts(Document, frozen=True, kw_only=True):
    """How many subtasks have each status."""

    total: int
    created: int
    scheduled: int
    deploying: int
    initializing: int
    running: int
    finished: int
    canceling: int
    canceled: int
    failed: int
    reconciling: int


class JobOverview(KebabDocument, frozen=True, kw_only=True):
    """One of `/jobs/overview`."""

    jid: str
    name: str
    # Flink writes these two otherwise than the rest.
    job_type: str = field(name="jobType")
    scheduler_type: str = field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    state: str
    last_modification: int
    tasks: TaskCounts
    pending_operators: int


class JobsOverview(Document, frozen=True, kw_only=True):
    """`/jobs/overview`."""

    jobs: list[JobOverview]


def job_ids(jobs: Sequence[JobView]) -> JobIds:
    """Return the jobs' ids and statuses."""
    return JobIds(jobs=[JobId(id=job.job_id, status=job.status) for job in jobs])


def jobs_overview(jobs: Sequence[JobView]) -> JobsOverview:
    """Return a line for each job."""
    return JobsOverview(jobs=[_line(job) for job in jobs])


def _line(job: JobView) -> JobOverview:
    counts = job.status_counts
    return JobOverview(
        jid=job.job_id,
        name=job.name,
        job_type=job.job_type,
        scheduler_type="Default",
        start_time=job.started_ms,
        end_time=or_unknown(job.ended_ms),
        duration=job.duration_ms,
        state=job.status,
        last_modification=max(job.timestamps.values(), default=job.started_ms),
        tasks=TaskCounts(
            total=sum(counts.values()),
            **{status.lower(): count for status, count in count_states(counts).items()},
        ),
        pending_operators=0,
    )


def count_states(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of subtasks in each of Flink's execution states."""
    return {status: counts.get(status, 0) for status in EXECUTION_STATES}
