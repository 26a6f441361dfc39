"""Another parallelism for a job that runs."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from millstream.rest.documents import operations, rescaling
from millstream.rest.errors import RestError
from millstream.rest.handlers.found import job_of
from millstream.rest.handlers.operations import find_operation, trigger_operation
from millstream.rest.routes import Call
from millstream.runtime.control.commands import Rescale

__all__ = ["change_requirements", "requirements", "rescale", "rescaling_result"]

_RESCALING = "rescaling"


def rescale(call: Call) -> operations.Triggered:
    """Answer `PATCH /jobs/:jobid/rescaling`."""
    parallelism = call.query["parallelism"]
    if parallelism is None:
        raise RestError(400, "the query needs a parallelism: ?parallelism=4")
    return trigger_operation(call, _RESCALING, None, Rescale(parallelism))


def rescaling_result(call: Call) -> rescaling.RescalingOperation:
    """Answer `/jobs/:jobid/rescaling/:triggerid`."""
    return rescaling.rescaling_operation(find_operation(call, _RESCALING))


def requirements(call: Call) -> dict[str, rescaling.VertexResources]:
    """Answer `/jobs/:jobid/resource-requirements`."""
    return rescaling.requirements(job_of(call))


def change_requirements(call: Call) -> operations.Empty:
    """Answer `PUT /jobs/:jobid/resource-requirements`: the job has agreed to it; it goes on as told in a moment."""
    body: dict[str, rescaling.VertexResources] = call.body
    job = job_of(call)
    missing = {each.vertex_id for each in job.plan.vertices} - body.keys()
    if missing:
        raise RestError(
            400, f"the bounds of vertex {min(missing)} are missing: each vertex of the job needs some"
        )
    for vertex_id, each in body.items():
        bounds = each.parallelism
        if not 1 <= bounds.lower_bound <= bounds.upper_bound:
            raise RestError(
                400,
                f"vertex {vertex_id[:100]} cannot run with a parallelism from {bounds.lower_bound} to "
                f"{bounds.upper_bound}: the lower bound is 1 at least, the upper one no less",
            )
    wanted = {vertex_id: each.parallelism.upper_bound for vertex_id, each in body.items()}
    agreed: Future[Any] = call.context.jobs.perform(job.job_id, Rescale(None, wanted, waits=False))
    agreed.result()
    return operations.Empty()
