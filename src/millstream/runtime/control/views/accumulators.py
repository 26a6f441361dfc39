"""What functions have accumulated."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["AccumulatorView", "AccumulatorsView", "SubtaskAccumulatorsView"]


@dataclass(frozen=True, slots=True)
class AccumulatorView:
    """One accumulator, merged over all subtasks and operators.

    Attributes:
        name: Its name.
        type: Class of its result.
        value: The result as Python prints it, shortened.
    """

    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True)
class SubtaskAccumulatorsView:
    """What the functions of one subtask have accumulated.

    Attributes:
        vertex_id: Its vertex.
        subtask: Its index.
        accumulators: By name, merged over the operators of the vertex.
    """

    vertex_id: str
    subtask: int
    accumulators: tuple[AccumulatorView, ...]


@dataclass(frozen=True, slots=True)
class AccumulatorsView:
    """All accumulators of a job, as of the last epoch.

    Attributes:
        accumulators: By name.
        vertices: By vertex id, merged over the operators and subtasks of each vertex that has any.
        subtasks: Of each subtask that has any.
    """

    accumulators: tuple[AccumulatorView, ...] = ()
    vertices: dict[str, tuple[AccumulatorView, ...]] = field(default_factory=dict)
    subtasks: tuple[SubtaskAccumulatorsView, ...] = ()
