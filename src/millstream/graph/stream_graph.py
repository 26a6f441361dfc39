"""The logical graph: every operator with its defaults filled in and its edges decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millstream.base.errors import JobDefinitionError
from millstream.graph.operator_ids import OperatorIds
from millstream.graph.transformation import ChainingStrategy, Edge, Transformation
from millstream.operators.base import OperatorSpec
from millstream.operators.partitioners import Forward, KeyGroups, Partitioning, Rebalance
from millstream.types.typeinfo import TypeInformation

__all__ = ["DEFAULT_GROUP", "StreamEdge", "StreamGraph", "StreamNode", "build_stream_graph"]

DEFAULT_GROUP = "default"
"""The slot sharing group of operators that are given none."""


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """Records of one operator read by another.

    Attributes:
        source: Id of the sending node.
        target: Id of the receiving node.
        partitioning: How records are dealt.
        side_output: Id of the side output; None for the main one.
        input_index: Which input of the target.
    """

    source: int
    target: int
    partitioning: Partitioning
    side_output: str | None
    input_index: int


@dataclass(frozen=True, slots=True)
class StreamNode:
    """One operator.

    Attributes:
        id: The transformation's id.
        operator_id: Stable over programs: from the uid, else from the node's place in the graph.
        name: Shown to users.
        spec: The declared operator.
        parallelism: Number of subtasks.
        max_parallelism: Number of key groups.
        chaining: Whether it may be chained to its input.
        slot_sharing_group: Shown in the plan.
        uid: The user's name for its state, if any.
        description: Longer text for plans.
        uid_hash: The user's own operator id, if any.
        key_type: Declared type of the keys of its input; None if it is not keyed, or none is.
        follows: Whether its parallelism is the job's: neither its own nature nor the user says otherwise.
    """

    id: int
    operator_id: str
    name: str
    spec: OperatorSpec
    parallelism: int
    max_parallelism: int
    chaining: ChainingStrategy
    slot_sharing_group: str
    uid: str | None
    description: str | None
    uid_hash: str | None = None
    key_type: TypeInformation | None = None
    follows: bool = False


@dataclass(slots=True)
class StreamGraph:
    """Nodes in an order in which inputs come before their readers, and edges in order of creation."""

    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)

    def inputs(self, node_id: int) -> list[StreamEdge]:
        """Return the edges into a node."""
        return [edge for edge in self.edges if edge.target == node_id]

    def outputs(self, node_id: int) -> list[StreamEdge]:
        """Return the edges out of a node."""
        return [edge for edge in self.edges if edge.source == node_id]


def build_stream_graph(
    transformations: Sequence[Transformation],
    *,
    parallelism: int,
    max_parallelism: int,
    rescaled: Mapping[str, int] | None = None,
) -> StreamGraph:
    """Fill in defaults and decide every edge.

    Args:
        transformations: The program.
        parallelism: Of operators that have none of their own.
        max_parallelism: Number of key groups of those that say nothing.
        rescaled: The parallelism of operators by id, in the place of what the program says.

    Raises:
        JobDefinitionError: If a parallelism does not fit, a forward edge joins different parallelisms, two
            operators share a uid, or an iteration has no feedback.
    """
    graph = StreamGraph()
    names = OperatorIds()
    for transformation in transformations:
        inputs = [graph.nodes[edge.source.id].operator_id for edge in transformation.inputs]
        operator_id = names.name(transformation, inputs)
        groups = {graph.nodes[edge.source.id].slot_sharing_group for edge in transformation.inputs}
        own = transformation.parallelism if transformation.parallelism is not None else parallelism
        own = (rescaled or {}).get(operator_id, own)
        node = _build_node(transformation, own, max_parallelism, operator_id)
        node = replace(node, slot_sharing_group=transformation.slot_sharing_group or _inherited(groups))
        graph.nodes[node.id] = node
        for edge in transformation.inputs:
            graph.edges.append(_build_edge(edge, node, graph.nodes))
    _check_unique_ids(graph)
    _check_iterations(graph)
    return graph


def _build_node(
    transformation: Transformation, own: int, max_parallelism: int, operator_id: str
) -> StreamNode:
    groups = transformation.max_parallelism or max_parallelism
    if not 1 <= own <= groups:
        raise JobDefinitionError(
            f'operator "{transformation.name}" has parallelism {own}',
            detail=f"Parallelism is between 1 and the maximum parallelism, here {groups}.",
            hint="Lower the parallelism, or raise it with set_max_parallelism(...).",
        )
    return StreamNode(
        id=transformation.id,
        operator_id=operator_id,
        name=transformation.name,
        spec=transformation.spec,
        parallelism=own,
        max_parallelism=groups,
        chaining=transformation.chaining,
        slot_sharing_group=DEFAULT_GROUP,
        uid=transformation.uid,
        description=transformation.description,
        uid_hash=transformation.uid_hash,
        key_type=_key_type(transformation),
        follows=not (transformation.fixed_parallelism or transformation.own_parallelism),
    )


def _inherited(groups: set[str]) -> str:
    """Return the slot sharing group of an operator that names none: its inputs', if all have the same."""
    return groups.pop() if len(groups) == 1 else DEFAULT_GROUP


def _key_type(transformation: Transformation) -> TypeInformation | None:
    dealt = [edge.partitioning for edge in transformation.inputs]
    return next((each.key_type for each in dealt if isinstance(each, KeyGroups) and each.key_type), None)


def _build_edge(edge: Edge, target: StreamNode, nodes: dict[int, StreamNode]) -> StreamEdge:
    source = nodes[edge.source.id]
    same = source.parallelism == target.parallelism
    partitioning = edge.partitioning or (Forward() if same else Rebalance())
    if isinstance(partitioning, Forward) and not same:
        raise JobDefinitionError(
            f'forward() joins "{source.name}" with parallelism {source.parallelism} to "{target.name}" with '
            f"parallelism {target.parallelism}",
            detail="Forward partitioning needs the same parallelism on both sides.",
            hint="Use rebalance() or rescale(), or set the same parallelism.",
        )
    return StreamEdge(source.id, target.id, partitioning, edge.side_output, edge.input_index)


def _check_iterations(graph: StreamGraph) -> None:
    fed = {node.spec.feeds for node in graph.nodes.values()}
    for node in graph.nodes.values():
        if node.spec.is_fed_back and node.id not in fed:
            raise JobDefinitionError(
                f'iteration "{node.name}" has no feedback',
                hint="Call close_with(...) on the stream that iterate() returned.",
            )


def _check_unique_ids(graph: StreamGraph) -> None:
    seen: dict[str, StreamNode] = {}
    for node in graph.nodes.values():
        other = seen.setdefault(node.operator_id, node)
        if other is not node:
            raise JobDefinitionError(
                f'operators "{other.name}" and "{node.name}" have the same {_id_of(node)}',
                hint="Give each operator a uid of its own.",
            )


def _id_of(node: StreamNode) -> str:
    return f"uid hash {node.uid_hash!r}" if node.uid_hash is not None else f"uid {node.uid!r}"
