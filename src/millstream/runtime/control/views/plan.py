"""What runs: vertices with their operators, the exchanges between them, the levels of an epoch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EdgeView", "OperatorView", "PlanView", "PlannedJobView", "VertexPlan"]


@dataclass(frozen=True, slots=True)
class OperatorView:
    """One operator of a chain.

    Attributes:
        node_id: Its id in the graph.
        operator_id: Its stable id.
        uid: The user's name for it, if any.
        name: Shown to users; unique within the job: of several with one name all but the first have `#2`, `#3`, ….
        description: Longer text, the name if there is none.
        kind: What it is, such as "map" or "window".
        is_source: Whether it reads splits.
        is_sink: Whether it writes to a sink.
        is_keyed: Whether it can have keyed state.
        inputs: Ids of the nodes that it reads within the chain.
    """

    node_id: int
    operator_id: str
    uid: str | None
    name: str
    description: str
    kind: str
    is_source: bool
    is_sink: bool
    is_keyed: bool
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VertexPlan:
    """A chain of operators.

    Attributes:
        vertex_id: The operator id of its head.
        name: The names of its operators, joined by arrows.
        parallelism: Number of subtasks.
        max_parallelism: Number of key groups.
        slot_sharing_group: Its name.
        level: On which level of an epoch it runs, from 0.
        region: What exchanges records with it, directly or not, has the same number.
        operators: Each after those it reads.
    """

    vertex_id: str
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    level: int
    region: int
    operators: tuple[OperatorView, ...]


@dataclass(frozen=True, slots=True)
class EdgeView:
    """An exchange between two vertices.

    Attributes:
        source: Id of the sending vertex.
        target: Id of the receiving vertex.
        source_node: The operator that sends.
        target_node: The operator that receives.
        ship_strategy: How records are dealt: FORWARD, HASH, REBALANCE, BROADCAST, ….
        side_output: Id of the side output; None for the main one.
        input_index: Which input of the receiver.
    """

    source: str
    target: str
    source_node: int
    target_node: int
    ship_strategy: str
    side_output: str | None
    input_index: int


@dataclass(frozen=True, slots=True)
class PlanView:
    """A job's graph.

    Attributes:
        slots: Number of slots: the largest parallelism.
        levels: Vertex ids by level.
        vertices: Each after those it reads.
        edges: Exchanges.
    """

    slots: int
    levels: tuple[tuple[str, ...], ...]
    vertices: tuple[VertexPlan, ...]
    edges: tuple[EdgeView, ...]

    def vertex(self, vertex_id: str) -> VertexPlan | None:
        """Return a vertex by id; None if there is none."""
        return next((each for each in self.vertices if each.vertex_id == vertex_id), None)


@dataclass(frozen=True, slots=True)
class PlannedJobView:
    """A job that was not run.

    Attributes:
        name: Shown to users.
        job_type: STREAMING or BATCH.
        plan: Its graph.
    """

    name: str
    job_type: str
    plan: PlanView
