"""A job's graph as it is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from millstream.graph.epoch_plan import EpochPlan
from millstream.graph.job_graph import JobVertex
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.control.views import EdgeView, OperatorView, PlanView, VertexPlan

__all__ = ["describe_plan", "unique_names"]


def unique_names(nodes: Iterable[StreamNode]) -> dict[int, str]:
    """Return the name of each operator by node id: of several with one name all but the first have `#2`, `#3`, …."""
    seen: Counter[str] = Counter()
    names = {}
    for node in nodes:
        seen[node.name] += 1
        names[node.id] = node.name if seen[node.name] == 1 else f"{node.name}#{seen[node.name]}"
    return names


def describe_plan(plan: EpochPlan) -> PlanView:
    """Return a plan as plain data."""
    job_graph = plan.job_graph
    names = unique_names(node for vertex in job_graph.vertices for node in vertex.nodes)
    ids = {vertex.id: vertex.head.operator_id for vertex in job_graph.vertices}
    return PlanView(
        slots=plan.slots,
        levels=tuple(tuple(ids[vertex_id] for vertex_id in level) for level in plan.levels),
        vertices=tuple(_describe_vertex(plan, vertex, names) for vertex in job_graph.vertices),
        edges=tuple(
            EdgeView(
                source=ids[each.source_vertex],
                target=ids[each.target_vertex],
                source_node=each.edge.source,
                target_node=each.edge.target,
                ship_strategy=each.edge.partitioning.name,
                side_output=each.edge.side_output,
                input_index=each.edge.input_index,
            )
            for each in job_graph.edges
        ),
    )


def _describe_vertex(plan: EpochPlan, vertex: JobVertex, names: Mapping[int, str]) -> VertexPlan:
    return VertexPlan(
        vertex_id=vertex.head.operator_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=max(node.max_parallelism for node in vertex.nodes),
        slot_sharing_group=vertex.head.slot_sharing_group,
        level=next(number for number, level in enumerate(plan.levels) if vertex.id in level),
        region=plan.region_of(vertex.id),
        operators=tuple(
            OperatorView(
                node_id=node.id,
                operator_id=node.operator_id,
                uid=node.uid,
                name=names[node.id],
                description=node.description or node.name,
                kind=node.spec.kind,
                is_source=node.spec.is_source,
                is_sink=node.spec.writes is not None,
                is_keyed=node.spec.is_keyed,
                inputs=tuple(edge.source for edge in vertex.chained if edge.target == node.id),
            )
            for node in vertex.nodes
        ),
    )
