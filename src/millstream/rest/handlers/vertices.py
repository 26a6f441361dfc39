"""Vertices and subtasks."""

from __future__ import annotations

from millstream.rest.documents import vertices
from millstream.rest.handlers.found import job_of, subtask_of, vertex_of
from millstream.rest.routes import Call

__all__ = ["back_pressure", "details", "managers", "subtask", "times"]


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
