"""The rewrites, in order."""

from __future__ import annotations

from collections.abc import Callable

from millstream.table.plan.logical import LogicalNode
from millstream.table.plan.rewrite.inner_joins import inner_joins
from millstream.table.plan.rewrite.merge_projects import merge_projects
from millstream.table.plan.rewrite.prune_columns import prune_columns
from millstream.table.plan.rewrite.push_filters import push_filters

__all__ = ["PASSES", "rewrite"]

PASSES: tuple[Callable[[LogicalNode], LogicalNode], ...] = (
    merge_projects,
    inner_joins,
    push_filters,
    prune_columns,
    merge_projects,
)
"""Each takes a plan and gives one with the same rows."""


def rewrite(node: LogicalNode) -> LogicalNode:
    """Return a plan with the same rows that costs less."""
    for step in PASSES:
        node = step(node)
    return node
