"""Jobs, their checkpoints and failures."""

from __future__ import annotations

from millstream.rest.documents import checkpoints, job, jobs, plan
from millstream.rest.handlers.found import checkpoint_of, job_of, vertex_of
from millstream.rest.routes import Call
from millstream.runtime.control.views import (
    AccumulatorsView,
    CheckpointsView,
    ConfigView,
    ExceptionsView,
)

__all__ = [
    "accumulators",
    "checkpoint_config",
    "checkpoint_details",
    "checkpoint_statistics",
    "checkpoint_subtasks",
    "config",
    "details",
    "exceptions",
    "execution_result",
    "job_ids",
    "job_plan",
    "jobs_overview",
    "status",
]


def job_ids(call: Call) -> jobs.JobIds:
    """Answer `/jobs`."""
    return jobs.job_ids(call.context.jobs.jobs())


def jobs_overview(call: Call) -> jobs.JobsOverview:
    """Answer `/jobs/overview`."""
    return jobs.jobs_overview(call.context.jobs.jobs())


def details(call: Call) -> job.JobDetails:
    """Answer `/jobs/:jobid`."""
    return job.job_details(job_of(call))


def status(call: Call) -> job.JobStatus:
    """Answer `/jobs/:jobid/status`."""
    return job.job_status(job_of(call))


def job_plan(call: Call) -> plan.PlanDocument:
    """Answer `/jobs/:jobid/plan`."""
    return plan.plan_document(job_of(call))


def config(call: Call) -> job.JobConfig:
    """Answer `/jobs/:jobid/config`."""
    found = job_of(call)
    return job.job_config(found, call.context.jobs.view(found.job_id, ConfigView))


def exceptions(call: Call) -> job.Exceptions:
    """Answer `/jobs/:jobid/exceptions`."""
    found = job_of(call)
    view = call.context.jobs.view(found.job_id, ExceptionsView)
    return job.exceptions(found, view, call.query["maxExceptions"])


def accumulators(call: Call) -> job.Accumulators:
    """Answer `/jobs/:jobid/accumulators`."""
    return job.accumulators(call.context.jobs.view(call.path["jobid"], AccumulatorsView))


def execution_result(call: Call) -> job.ExecutionResult:
    """Answer `/jobs/:jobid/execution-result`."""
    found = job_of(call)
    return job.execution_result(found, call.context.jobs.view(found.job_id, ExceptionsView))


def checkpoint_statistics(call: Call) -> checkpoints.CheckpointStatistics:
    """Answer `/jobs/:jobid/checkpoints`."""
    return checkpoints.checkpoint_statistics(call.context.jobs.view(call.path["jobid"], CheckpointsView))


def checkpoint_config(call: Call) -> checkpoints.CheckpointConfig:
    """Answer `/jobs/:jobid/checkpoints/config`."""
    return checkpoints.checkpoint_config(call.context.jobs.view(call.path["jobid"], CheckpointsView).config)


def checkpoint_details(call: Call) -> checkpoints.CheckpointDetails:
    """Answer `/jobs/:jobid/checkpoints/details/:checkpointid`."""
    return checkpoints.checkpoint_details(job_of(call), checkpoint_of(call))


def checkpoint_subtasks(call: Call) -> checkpoints.SubtaskCheckpoints:
    """Answer `/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`."""
    checkpoint = checkpoint_of(call)
    return checkpoints.subtask_checkpoints(checkpoint, vertex_of(call, job_of(call)))
