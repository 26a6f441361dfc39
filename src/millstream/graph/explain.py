"""Shows a job: Flink's JSON plan of operators, and the plan of vertices and levels as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.graph.epoch_plan import EpochPlan, build_epoch_plan
from millstream.graph.job_graph import JobEdge, JobVertex, build_job_graph
from millstream.graph.runtime_mode import is_batch
from millstream.graph.stream_graph import DEFAULT_GROUP, StreamGraph, build_stream_graph
from millstream.graph.transformation import Transformation

__all__ = ["draw", "epoch_plan_of", "execution_plan", "to_json"]


def execution_plan(transformations: Sequence[Transformation], configuration: Configuration) -> str:
    """Return the operators as JSON in the form of Flink's `getExecutionPlan`."""
    graph = _stream_graph(transformations, configuration)
    nodes = []
    for node in graph.nodes.values():
        inputs = graph.inputs(node.id)
        entry: dict[str, Any] = {
            "id": node.id,
            "type": node.name,
            "pact": _pact(graph, node.id),
            "contents": node.description or node.name,
            "parallelism": node.parallelism,
        }
        if inputs:
            entry["predecessors"] = [
                {"id": edge.source, "ship_strategy": edge.partitioning.name, "side": "second"}
                for edge in inputs
            ]
        nodes.append(entry)
    return json.dumps({"nodes": nodes}, indent=2)


def _pact(graph: StreamGraph, node_id: int) -> str:
    if graph.nodes[node_id].spec.is_source:
        return "Data Source"
    return "Operator" if graph.outputs(node_id) else "Data Sink"


def to_json(transformations: Sequence[Transformation], configuration: Configuration) -> str:
    """Return vertices, exchanges and levels as JSON."""
    plan = epoch_plan_of(transformations, configuration)
    job_graph = plan.job_graph
    document = {
        "slots": plan.slots,
        "levels": [list(level) for level in plan.levels],
        "vertices": [
            {
                "id": vertex.id,
                "name": vertex.name,
                "parallelism": vertex.parallelism,
                "slot_sharing_group": vertex.head.slot_sharing_group,
                "operators": [
                    {"id": node.id, "name": node.name, "operator_id": node.operator_id, "uid": node.uid}
                    for node in vertex.nodes
                ],
            }
            for vertex in job_graph.vertices
        ],
        "exchanges": [
            {
                "from": edge.source_vertex,
                "to": edge.target_vertex,
                "partitioning": edge.edge.partitioning.name,
                "side_output": edge.edge.side_output,
            }
            for edge in job_graph.edges
        ],
    }
    return json.dumps(document, indent=2)


def draw(transformations: Sequence[Transformation], configuration: Configuration) -> str:
    """Return a drawing in text: one box for each vertex, level by level, with what feeds it.

    ::

        level 0
          [1] Source: numbers -> map                x2
        level 1
          [3] sum -> Print to Std. Out              x2
              <- [1] HASH
    """
    plan = epoch_plan_of(transformations, configuration)
    lines = [f"{plan.slots} slots, {len(plan.levels)} levels (Spark stages)"]
    for number, level in enumerate(plan.levels):
        lines.append(f"level {number}")
        for vertex_id in level:
            lines += _draw_vertex(plan, plan.job_graph.vertex(vertex_id))
    return "\n".join(lines)


def _draw_vertex(plan: EpochPlan, vertex: JobVertex) -> list[str]:
    group = vertex.head.slot_sharing_group
    named = "" if group == DEFAULT_GROUP else f'  slot sharing group "{group}"'
    lines = [f"  [{vertex.id}] {vertex.name}  x{vertex.parallelism}{named}"]
    for edge in plan.job_graph.edges:
        if edge.target_vertex == vertex.id:
            lines.append(f"      <- [{edge.source_vertex}] {_draw_edge(edge)}")
    without_uid = [node.name for node in vertex.nodes if node.spec.is_keyed and node.uid is None]
    if without_uid:
        lines.append(f"      state without uid: {', '.join(without_uid)}")
    return lines


def _draw_edge(edge: JobEdge) -> str:
    side = "" if edge.edge.side_output is None else f' of side output "{edge.edge.side_output}"'
    return f"{edge.edge.partitioning.name}{side}"


def epoch_plan_of(transformations: Sequence[Transformation], configuration: Configuration) -> EpochPlan:
    """Return the plan by which they would run."""
    chaining = configuration.get(options.OPERATOR_CHAINING)
    keyed = not is_batch(transformations, configuration)
    stream_graph = _stream_graph(transformations, configuration)
    return build_epoch_plan(build_job_graph(stream_graph, chaining=chaining, keyed=keyed))


def _stream_graph(transformations: Sequence[Transformation], configuration: Configuration) -> StreamGraph:
    return build_stream_graph(
        transformations,
        parallelism=configuration.default_parallelism(),
        max_parallelism=configuration.get(options.MAX_PARALLELISM),
    )
