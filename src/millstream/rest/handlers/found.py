"""What several handlers look for in a job."""

from __future__ import annotations

from millstream.rest.documents.taskmanagers import Manager, group_slots
from millstream.rest.errors import RestError
from millstream.rest.routes import Call
from millstream.runtime.control.views import CheckpointsView, CheckpointView, JobView, SubtaskView, VertexView

__all__ = ["checkpoint_of", "job_of", "manager_of", "subtask_of", "vertex_of"]


def job_of(call: Call) -> JobView:
    """Return the job of a path.

    Raises:
        RestError: 404 if there is none.
    """
    job: JobView = call.context.jobs.view(call.path["jobid"], JobView)
    return job


def vertex_of(call: Call, job: JobView) -> VertexView:
    """Return the vertex of a path.

    Raises:
        RestError: 404 if the job has none of that id.
    """
    wanted = call.path["vertexid"]
    for vertex in job.vertices:
        if vertex.vertex_id == wanted:
            return vertex
    raise RestError(
        404, f"job {job.job_id} has no vertex {wanted}. /jobs/{job.job_id} lists its vertices with their ids"
    )


def subtask_of(call: Call, vertex: VertexView) -> SubtaskView:
    """Return the subtask of a path.

    Raises:
        RestError: 404 if the vertex has none of that index, or not of that attempt.
    """
    index: int = call.path["subtaskindex"]
    if index >= len(vertex.subtasks):
        raise RestError(
            404,
            f"vertex {vertex.vertex_id} has no subtask {index}; it has {len(vertex.subtasks)}, counted from 0",
        )
    subtask: SubtaskView = vertex.subtasks[index]
    attempt = call.path.get("attempt", subtask.attempt)
    if attempt != subtask.attempt:
        raise RestError(
            404,
            f"of subtask {index} only attempt {subtask.attempt}, the last, is known; {attempt} was asked for",
        )
    return subtask


def checkpoint_of(call: Call) -> CheckpointView:
    """Return the checkpoint of a path; of a checkpoint and a savepoint with one id the checkpoint.

    Raises:
        RestError: 404 if it is not kept.
    """
    job_id, wanted = call.path["jobid"], call.path["checkpointid"]
    view: CheckpointsView = call.context.jobs.view(job_id, CheckpointsView)
    latest = (view.latest_completed, view.latest_failed, view.latest_savepoint)
    for checkpoint in (*view.history, *(each for each in latest if each is not None)):
        if checkpoint.checkpoint_id == wanted:
            return checkpoint
    raise RestError(
        404,
        f"of job {job_id} no checkpoint {wanted} is known. /jobs/{job_id}/checkpoints lists the last ones; "
        "web.checkpoints.history says how many are kept",
    )


def manager_of(call: Call) -> Manager:
    """Return the task manager of a path.

    Raises:
        RestError: 404 if there is none.
    """
    wanted = call.path["taskmanagerid"]
    for found in group_slots(call.context.jobs.jobs()):
        if found.id == wanted:
            return found
    raise RestError(
        404, f"there is no task manager {wanted[:200]!r}; /taskmanagers lists those of the jobs that run"
    )
