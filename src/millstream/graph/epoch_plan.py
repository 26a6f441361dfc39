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
        regions: Vertex ids of each region: what exchanges records, directly or not (Flink's pipelined regions). What
            happens in one region holds back no source of another.
    """

    job_graph: JobGraph
    levels: tuple[tuple[int, ...], ...]
    slots: int
    regions: tuple[frozenset[int], ...]

    def region_of(self, vertex_id: int) -> int:
        """Return the index of a vertex' region."""
        return next(index for index, region in enumerate(self.regions) if vertex_id in region)


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
    return EpochPlan(job_graph, levels, job_graph.slots, _find_regions(job_graph))


def _find_regions(job_graph: JobGraph) -> tuple[frozenset[int], ...]:
    vertex_of = {node.id: vertex.id for vertex in job_graph.vertices for node in vertex.nodes}
    ties = [(edge.source_vertex, edge.target_vertex) for edge in job_graph.edges]
    ties += [
        (vertex.id, vertex_of[node.spec.feeds])
        for vertex in job_graph.vertices
        for node in vertex.nodes
        if node.spec.feeds is not None
    ]
    region_of = {vertex.id: {vertex.id} for vertex in job_graph.vertices}
    for one, other in ties:
        if region_of[one] is not region_of[other]:
            region_of[one] |= region_of[other]
            for vertex_id in region_of[other]:
                region_of[vertex_id] = region_of[one]
    regions: list[frozenset[int]] = []
    for vertex in job_graph.vertices:
        region = frozenset(region_of[vertex.id])
        if region not in regions:
            regions.append(region)
    return tuple(regions)
