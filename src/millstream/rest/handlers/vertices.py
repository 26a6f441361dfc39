"""Vertices and subtasks."""

from __future__ import annotations

from millstream.rest.documents import accumulators, vertices
from millstream.rest.handlers.found import job_of, subtask_of, vertex_of
from millstream.rest.routes import Call
from millstream.runtime.control.views import AccumulatorsView, JobView

__all__ = [
    "attempt_accumulators",
    "back_pressure",
    "details",
    "managers",
    "subtask",
    "subtasks_accumulators",
    "times",
    "vertex_accumulators",
]


def details(call: Call) -> vertices.VertexDetails:
    """Answer `/jobs/:jobid/vertices/:vertexid`."""
    job = job_of(call)
    return vertices.vertex_details(job, vertex_of(call, job))


def subtask(call: Call) -> vertices.Subtask:
    """Answer `/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex`, with or without an attempt."""
    job = job_of(call)
    return vertices.subtask_document(job, subtask_of(call, vertex_of(call, job)))


def times(call: Call) -> vertices.SubtaskTimes:
    """Answer `/jobs/:jobid/vertices/:vertexid/subtasktimes`."""
    job = job_of(call)
    return vertices.subtask_times(job, vertex_of(call, job))


def managers(call: Call) -> vertices.VertexManagers:
    """Answer `/jobs/:jobid/vertices/:vertexid/taskmanagers`."""
    job = job_of(call)
    return vertices.vertex_managers(job, vertex_of(call, job))


def back_pressure(call: Call) -> vertices.BackPressure:
    """Answer `/jobs/:jobid/vertices/:vertexid/backpressure`."""
    job = job_of(call)
    return vertices.back_pressure(job, vertex_of(call, job))


def vertex_accumulators(call: Call) -> accumulators.VertexAccumulators:
    """Answer `/jobs/:jobid/vertices/:vertexid/accumulators`."""
    job = job_of(call)
    return accumulators.vertex_accumulators(vertex_of(call, job), _accumulated(call, job))


def subtasks_accumulators(call: Call) -> accumulators.SubtasksAccumulators:
    """Answer `/jobs/:jobid/vertices/:vertexid/subtasks/accumulators`."""
    job = job_of(call)
    return accumulators.subtasks_accumulators(job, vertex_of(call, job), _accumulated(call, job))


def attempt_accumulators(call: Call) -> accumulators.SubtaskAccumulators:
    """Answer `/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt/accumulators`."""
    job = job_of(call)
    vertex = vertex_of(call, job)
    return accumulators.attempt_accumulators(vertex, subtask_of(call, vertex), _accumulated(call, job))


def _accumulated(call: Call, job: JobView) -> AccumulatorsView:
    view: AccumulatorsView = call.context.jobs.view(job.job_id, AccumulatorsView)
    return view
