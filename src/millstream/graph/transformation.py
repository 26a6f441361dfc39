"""What a user's program builds: transformations, linked from the sinks back to the sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.operators.base import OperatorSpec
from millstream.operators.partitioners import Partitioning

__all__ = ["ChainingStrategy", "Edge", "Transformation"]

from enum import Enum


class ChainingStrategy(Enum):
    """Whether an operator may share a thread with the one before it."""

    ALWAYS = "always"
    HEAD = "head"
    NEVER = "never"


@dataclass(eq=False, slots=True)
class Edge:
    """One input of a transformation.

    Attributes:
        source: The transformation whose output is read.
        partitioning: How records are dealt to subtasks; None lets the graph choose (forward if both sides have
            the same parallelism, else rebalance).
        side_output: Id of the side output that is read; None for the main output.
        input_index: Which input of the target it feeds, from 0; several edges may feed one (a union).
    """

    source: Transformation
    partitioning: Partitioning | None = None
    side_output: str | None = None
    input_index: int = 0


@dataclass(eq=False, slots=True)
class Transformation:
    """One operator of a program. Mutable while the program is built: setters like `uid` change it.

    Attributes:
        id: Unique within the environment, in order of creation, from 1.
        name: Shown to users.
        spec: The declared operator.
        inputs: What it reads; empty for sources.
        parallelism: None for the environment's default.
        max_parallelism: Number of key groups; None for the environment's default.
        uid: The user's stable name for its state.
        chaining: Whether it may be chained to its input.
        slot_sharing_group: Shown in the plan; None for that of its inputs, if all have the same.
        description: Longer text for plans.
        bounded: For sources, whether the input ends.
        fixed_parallelism: Whether the parallelism may not be changed (non-parallel operators have 1).
        own_parallelism: Whether the user chose the parallelism for this operator: it stays when the job is rescaled.
        buffer_timeout_ms: Accepted for compatibility; epochs decide latency.
        uid_hash: The user's own hash in place of the one made of the uid.
    """

    id: int
    name: str
    spec: OperatorSpec
    inputs: list[Edge] = field(default_factory=list)
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    slot_sharing_group: str | None = None
    description: str | None = None
    bounded: bool = True
    fixed_parallelism: bool = False
    own_parallelism: bool = False
    buffer_timeout_ms: int | None = None
    uid_hash: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def be_as_parallel_as(self, other: Transformation) -> None:
        """Take over another operator's parallelism, and whether that stays when the job is rescaled."""
        self.parallelism = other.parallelism
        self.own_parallelism = other.own_parallelism or other.fixed_parallelism
