"""What functions have accumulated."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AccumulatorView", "AccumulatorsView"]


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
class AccumulatorsView:
    """All accumulators of a job, as of the last epoch.

    Attributes:
        accumulators: By name.
    """

    accumulators: tuple[AccumulatorView, ...] = ()
