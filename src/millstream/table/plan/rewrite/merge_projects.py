"""Two projections, one over the other, become one, unless that would compute something twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from millstream.table.expressions.rex import Call, InputRef, RowExpression
from millstream.table.plan.logical import LogicalNode, Project
from millstream.table.plan.rewrite.substitute import is_cheap, is_deterministic, substitute
from millstream.table.plan.rewrite.tree import map_children

__all__ = ["merge_projects"]


def merge_projects(node: LogicalNode) -> LogicalNode:
    """Merge projections everywhere below a node, and drop those that change nothing."""
    node = map_children(node, merge_projects)
    while isinstance(node, Project) and isinstance(node.input, Project) and _may_merge(node, node.input):
        below = node.input
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


def _may_merge(above: Project, below: Project) -> bool:
    uses = Counter(place for each in above.expressions for place in _refs(each))
    for place, count in uses.items():
        expression = below.expressions[place]
        if not is_deterministic(expression) and not _passed_on(above, place):
            return False
        if count > 1 and not is_cheap(expression):
            return False
    return True


def _passed_on(above: Project, place: int) -> bool:
    """Whether a column is used once and as it is."""
    uses = [each for each in above.expressions if place in _refs(each)]
    return len(uses) == 1 and isinstance(uses[0], InputRef)


def _refs(expression: RowExpression) -> list[int]:
    if isinstance(expression, InputRef):
        return [expression.index]
    if isinstance(expression, Call):
        return [place for operand in expression.operands for place in _refs(operand)]
    return []
