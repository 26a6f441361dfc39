"""Levels: which vertices run as one Spark stage, and where each exchange crosses them.

Level k holds the vertices whose longest path from a source has k exchanges. One epoch is one pass over the
levels; between two levels there is one shuffle that carries every edge. A block for a later level than the next
one waits in its slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.graph.job_graph import JobGraph

__all__ = ["EpochPlan", "build_epoch_plan"]


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The order of work in an epoch.

    Attributes:
        job_graph: What runs.
        levels: Vertex ids of each level.
        slots: Number of slots; subtask i of every vertex lives in slot i.
    """

    job_graph: JobGraph
    levels: tuple[tuple[int, ...], ...]
    slots: int


def build_epoch_plan(job_graph: JobGraph) -> EpochPlan:
    """Put every vertex on its level."""
    level_of: dict[int, int] = {}
    for vertex in job_graph.vertices:
        inputs = [edge.source_vertex for edge in job_graph.edges if edge.target_vertex == vertex.id]
        level_of[vertex.id] = max((level_of[source] + 1 for source in inputs), default=0)
    count = max(level_of.values()) + 1
    levels = tuple(
        tuple(vertex.id for vertex in job_graph.vertices if level_of[vertex.id] == level)
        for level in range(count)
    )
    return EpochPlan(job_graph, levels, job_graph.slots)
