"""What will run: operators fused into chains (vertices), joined by exchanges (edges)."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from millstream.graph.transformation import ChainingStrategy
from millstream.operators.partitioners import Forward, KeyGroups

__all__ = ["JobEdge", "JobGraph", "JobVertex", "build_job_graph"]


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain: a tree of operators in one thread, entered at its head.

    Attributes:
        id: The head's node id.
        nodes: Its operators, each after the one it reads.
        chained: Edges within the chain.
        parallelism: Number of subtasks.
    """

    id: int
    nodes: tuple[StreamNode, ...]
    chained: tuple[StreamEdge, ...]
    parallelism: int

    @property
    def head(self) -> StreamNode:
        """The operator that reads the vertex's input."""
        return self.nodes[0]

    @property
    def is_source(self) -> bool:
        """Whether the chain begins with a source."""
        return self.head.spec.is_source

    @property
    def name(self) -> str:
        """The names of its operators, joined by arrows."""
        return " -> ".join(node.name for node in self.nodes)


@dataclass(frozen=True, slots=True)
class JobEdge:
    """An exchange between two vertices.

    Attributes:
        id: Position in the job graph's list of edges.
        source_vertex: Id of the sending vertex.
        target_vertex: Id of the receiving vertex.
        edge: The stream edge it carries.
        senders: Parallelism of the sending vertex.
        receivers: Parallelism of the receiving vertex.
        max_parallelism: Number of key groups of the receiver.
    """

    id: int
    source_vertex: int
    target_vertex: int
    edge: StreamEdge
    senders: int
    receivers: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class JobGraph:
    """Vertices, each after those it reads, and the exchanges between them."""

    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]

    @property
    def slots(self) -> int:
        """How many slots the job needs: the largest parallelism."""
        return max(vertex.parallelism for vertex in self.vertices)

    def vertex(self, vertex_id: int) -> JobVertex:
        """Return a vertex by id."""
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)


def is_chainable(graph: StreamGraph, edge: StreamEdge, *, keyed: bool = False) -> bool:
    """Return whether an edge may become a direct call.

    By Flink's rules: forward partitioning, one input only, the same parallelism and slot sharing group, and neither
    side refuses. Beyond them an edge that deals by key is a direct call where one subtask gives to one, if the
    operator does nothing when time advances: what is fired is bounded by epochs at the head of a chain only.

    Args:
        graph: The logical graph.
        edge: One of its edges.
        keyed: Whether edges that deal by key are.
    """
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    alone = keyed and target.parallelism == 1 and not target.spec.acts_on_time
    return (
        isinstance(edge.partitioning, (Forward, KeyGroups) if alone else Forward)
        and len(graph.inputs(edge.target)) == 1
        and source.parallelism == target.parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and target.chaining is ChainingStrategy.ALWAYS
        and source.chaining is not ChainingStrategy.NEVER
    )


def build_job_graph(graph: StreamGraph, *, chaining: bool = True, keyed: bool = False) -> JobGraph:
    """Fuse chains and list the exchanges between them.

    Args:
        graph: The logical graph.
        chaining: False keeps every operator in a vertex of its own (`disable_operator_chaining`).
        keyed: Whether edges that deal by key may be within a chain; not in batch mode, where the records of each key
            are sorted on their way.
    """
    chained = [edge for edge in graph.edges if chaining and is_chainable(graph, edge, keyed=keyed)]
    head_of: dict[int, int] = {}
    into = {edge.target: edge for edge in chained}
    for node_id in graph.nodes:
        head_of[node_id] = head_of[into[node_id].source] if node_id in into else node_id
    vertices = tuple(
        JobVertex(
            id=head,
            nodes=tuple(node for node in graph.nodes.values() if head_of[node.id] == head),
            chained=tuple(edge for edge in chained if head_of[edge.target] == head),
            parallelism=graph.nodes[head].parallelism,
        )
        for head in graph.nodes
        if head_of[head] == head
    )
    exchanged = [edge for edge in graph.edges if edge.target not in into]
    edges = tuple(
        JobEdge(
            id=index,
            source_vertex=head_of[edge.source],
            target_vertex=head_of[edge.target],
            edge=edge,
            senders=graph.nodes[edge.source].parallelism,
            receivers=graph.nodes[edge.target].parallelism,
            max_parallelism=graph.nodes[edge.target].max_parallelism,
        )
        for index, edge in enumerate(exchanged)
    )
    return JobGraph(_in_order(vertices, edges), edges)


def _in_order(vertices: tuple[JobVertex, ...], edges: tuple[JobEdge, ...]) -> tuple[JobVertex, ...]:
    placed: list[JobVertex] = []
    waiting = list(vertices)
    while waiting:
        done = {vertex.id for vertex in placed}
        ready = [
            vertex
            for vertex in waiting
            if all(edge.source_vertex in done for edge in edges if edge.target_vertex == vertex.id)
        ]
        placed.extend(ready)
        waiting = [vertex for vertex in waiting if vertex not in ready]
    return tuple(placed)
