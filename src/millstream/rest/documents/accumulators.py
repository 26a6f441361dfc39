"""What the functions of a vertex have accumulated."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.rest.documents.base import Document, KebabDocument
from millstream.rest.documents.job import UserAccumulator
from millstream.runtime.control.views import (
    AccumulatorsView,
    AccumulatorView,
    JobView,
    SubtaskView,
    VertexView,
)

__all__ = [
    "SubtaskAccumulators",
    "SubtasksAccumulators",
    "VertexAccumulators",
    "attempt_accumulators",
    "subtasks_accumulators",
    "vertex_accumulators",
]


class VertexAccumulators(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/accumulators`."""

    id: str
    user_accumulators: list[UserAccumulator]


class OfSubtask(KebabDocument, frozen=True, kw_only=True):
    """What one subtask has accumulated."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[UserAccumulator]


class SubtasksAccumulators(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/subtasks/accumulators`."""

    id: str
    parallelism: int
    subtasks: list[OfSubtask]


class SubtaskAccumulators(KebabDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt/accumulators`."""

    subtask: int
    attempt: int
    id: str
    user_accumulators: list[UserAccumulator]


def vertex_accumulators(vertex: VertexView, view: AccumulatorsView) -> VertexAccumulators:
    """Return what all subtasks of a vertex have accumulated together."""
    return VertexAccumulators(
        id=vertex.vertex_id, user_accumulators=_documents(view.vertices.get(vertex.vertex_id, ()))
    )


def subtasks_accumulators(job: JobView, vertex: VertexView, view: AccumulatorsView) -> SubtasksAccumulators:
    """Return what each subtask of a vertex has accumulated."""
    hosts = {slot.slot: slot.host for slot in job.slots}
    return SubtasksAccumulators(
        id=vertex.vertex_id,
        parallelism=len(vertex.subtasks),
        subtasks=[
            OfSubtask(
                subtask=each.subtask,
                attempt=each.attempt,
                endpoint=hosts.get(each.subtask, "(unassigned)"),
                user_accumulators=_of(vertex, each, view),
            )
            for each in vertex.subtasks
        ],
    )


def attempt_accumulators(
    vertex: VertexView, subtask: SubtaskView, view: AccumulatorsView
) -> SubtaskAccumulators:
    """Return what a subtask has accumulated in its last attempt."""
    return SubtaskAccumulators(
        subtask=subtask.subtask,
        attempt=subtask.attempt,
        id=f"{vertex.vertex_id}_{subtask.subtask}_{subtask.attempt}",
        user_accumulators=_of(vertex, subtask, view),
    )


def _of(vertex: VertexView, subtask: SubtaskView, view: AccumulatorsView) -> list[UserAccumulator]:
    for each in view.subtasks:
        if (each.vertex_id, each.subtask) == (vertex.vertex_id, subtask.subtask):
            return _documents(each.accumulators)
    return []


def _documents(accumulators: Iterable[AccumulatorView]) -> list[UserAccumulator]:
    return [UserAccumulator(name=each.name, type=each.type, value=each.value) for each in accumulators]
