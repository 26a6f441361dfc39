"""Another parallelism for a job that runs."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from millstream.rest.documents.base import CamelDocument, Document, KebabDocument
from millstream.rest.documents.job import FailureCause, QueueStatus
from millstream.rest.documents.operations import failure_of
from millstream.runtime.control.views import JobView

__all__ = ["RescalingOperation", "VertexResources", "requirements", "rescaling_operation"]


class ParallelismBounds(CamelDocument, frozen=True, kw_only=True):
    """How parallel a vertex may be: it runs with the upper bound."""

    lower_bound: int = 1
    upper_bound: int


class VertexResources(Document, frozen=True, kw_only=True):
    """What a vertex asks for."""

    parallelism: ParallelismBounds


class RescalingResult(KebabDocument, frozen=True, kw_only=True, omit_defaults=True):
    """Why the job was not rescaled; empty if it was."""

    failure_cause: FailureCause | None = None


class RescalingOperation(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/rescaling/:triggerid`."""

    status: QueueStatus
    operation: RescalingResult | None


def requirements(job: JobView) -> dict[str, VertexResources]:
    """Return the parallelism of each vertex."""
    return {
        each.vertex_id: VertexResources(parallelism=ParallelismBounds(upper_bound=each.parallelism))
        for each in job.plan.vertices
    }


def rescaling_operation(future: Future[Any]) -> RescalingOperation:
    """Return what has come of it so far."""
    if not future.done():
        return RescalingOperation(status=QueueStatus(id="IN_PROGRESS"), operation=None)
    result = RescalingResult(failure_cause=failure_of(future))
    return RescalingOperation(status=QueueStatus(id="COMPLETED"), operation=result)
