"""When a task may be scheduled (PyFlink's `pyflink.common.input_dependency_constraint`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """How many inputs must be there; of no consequence: all subtasks of a job start together.

    Example:
        >>> from millstream.common import InputDependencyConstraint
        >>> [constraint.name for constraint in InputDependencyConstraint]
        ['ANY', 'ALL']
    """

    ANY = 0
    ALL = 1
