"""Two projections, one over the other, become one."""

from __future__ import annotations

from dataclasses import replace

from millstream.table.expressions.rex import InputRef
from millstream.table.plan.logical import LogicalNode, Project
from millstream.table.plan.rewrite.substitute import may_substitute, substitute
from millstream.table.plan.rewrite.tree import map_children

__all__ = ["merge_projects"]


def merge_projects(node: LogicalNode) -> LogicalNode:
    """Merge projections everywhere below a node, and drop those that change nothing."""
    node = map_children(node, merge_projects)
    while isinstance(node, Project) and isinstance(node.input, Project):
        below = node.input
        if not may_substitute(node.expressions, below.expressions):
            break
        expressions = tuple(substitute(each, below.expressions) for each in node.expressions)
        node = replace(node, input=below.input, expressions=expressions)
    if isinstance(node, Project) and _is_identity(node):
        return node.input
    return node


def _is_identity(node: Project) -> bool:
    below = node.input.schema
    return (
        len(node.expressions) == len(below)
        and all(
            isinstance(each, InputRef) and each.index == place for place, each in enumerate(node.expressions)
        )
        and node.schema == below
    )
