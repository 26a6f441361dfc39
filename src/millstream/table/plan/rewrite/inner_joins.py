"""Outer joins become inner where a condition above leaves out the rows without partner anyway."""

from __future__ import annotations

from dataclasses import replace

from millstream.table.expressions.rex import (
    Call,
    InputRef,
    RowExpression,
    conjuncts,
)
from millstream.table.plan import nodes
from millstream.table.plan.logical import Filter, Join, JoinKind, LogicalNode, Project
from millstream.table.plan.rewrite.tree import map_children

__all__ = ["inner_joins"]

_STRICT = frozenset(
    (
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "+ INTERVAL",
        "- INTERVAL",
        "CAST",
        "NEGATE",
        "LIKE",
    )
)
"""Functions that give NULL where an operand is NULL."""


def inner_joins(node: LogicalNode) -> LogicalNode:
    """Turn outer joins below filters into inner or one-sided ones."""
    if isinstance(node, Filter):
        needed = frozenset().union(*(rejects_null(each) for each in conjuncts(node.condition)))
        changed = _below(node.input, needed)
        if changed is not node.input:
            node = replace(node, schema=node.schema, input=changed)
    return map_children(node, inner_joins)


def rejects_null(condition: RowExpression) -> frozenset[int]:
    """Return the columns that are not NULL where a condition is TRUE."""
    if isinstance(condition, Call) and condition.function in ("IS NOT NULL", "IS TRUE"):
        return _strict(condition.operands[0])
    return _strict(condition) if isinstance(condition, Call) else frozenset()


def _strict(expression: RowExpression) -> frozenset[int]:
    if isinstance(expression, InputRef):
        return frozenset((expression.index,))
    if isinstance(expression, Call) and expression.function in _STRICT:
        return frozenset().union(*map(_strict, expression.operands))
    return frozenset()


def _below(node: LogicalNode, needed: frozenset[int]) -> LogicalNode:
    if isinstance(node, Project):
        lower = frozenset().union(*(_strict(node.expressions[each]) for each in needed))
        changed = _below(node.input, lower)
        return node if changed is node.input else replace(node, input=changed)
    if isinstance(node, Filter):
        changed = _below(node.input, needed)
        return node if changed is node.input else replace(node, input=changed)
    if not isinstance(node, Join) or node.kind not in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL):
        return node
    width = len(node.left.schema)
    keeps_left = any(each < width for each in needed)  # rows without left side are left out
    keeps_right = any(each >= width for each in needed)
    kind = _kind(node.kind, keeps_left=keeps_left, keeps_right=keeps_right)
    return node if kind is node.kind else _retyped(node, kind)


def _kind(kind: JoinKind, *, keeps_left: bool, keeps_right: bool) -> JoinKind:
    missing_right = kind in (JoinKind.LEFT, JoinKind.FULL) and not keeps_right
    missing_left = kind in (JoinKind.RIGHT, JoinKind.FULL) and not keeps_left
    if missing_left and missing_right:
        return JoinKind.FULL
    if missing_right:
        return JoinKind.LEFT
    return JoinKind.RIGHT if missing_left else JoinKind.INNER


def _retyped(node: Join, kind: JoinKind) -> LogicalNode:
    """Return the join of another kind; its columns stay nullable, as what is above was typed for them."""
    joined = nodes.join(node.left, node.right, kind, node.condition, hints=node.hints)
    joined = replace(joined, ttls=node.ttls)
    return replace(joined, schema=replace(node.schema))
