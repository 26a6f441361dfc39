"""What EXPLAIN shows beside the plan (PyFlink's `pyflink.table.explain_detail`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExplainDetail"]


class ExplainDetail(Enum):
    """Details of plans."""

    ESTIMATED_COST = 0
    """Accepted; the planner estimates no costs."""
    CHANGELOG_MODE = 1
    """Which kinds of change each operator gives."""
    JSON_EXECUTION_PLAN = 2
    """The operators as JSON."""
    PLAN_ADVICE = 3
    """What may be wrong with the plan."""
