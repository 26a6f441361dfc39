"""Conditions go down: through projections, unions, windows and keys of aggregations, and below joins."""

from __future__ import annotations

from dataclasses import replace

from millstream.table.expressions.rex import (
    Literal,
    RowExpression,
    and_all,
    conjuncts,
    inputs_of,
    map_inputs,
)
from millstream.table.plan import nodes
from millstream.table.plan.logical import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    JoinKind,
    LogicalNode,
    Over,
    Project,
    SetOperation,
    Snapshot,
    WindowFunction,
    WindowKind,
)
from millstream.table.plan.rewrite.substitute import is_deterministic, stays_small, substitute
from millstream.table.plan.rewrite.tree import map_children, with_inputs

__all__ = ["push_filters"]

Conditions = list[RowExpression]


def push_filters(node: LogicalNode) -> LogicalNode:
    """Push conditions down everywhere below a node."""
    return _push(node, [])


def _push(node: LogicalNode, conditions: Conditions) -> LogicalNode:
    """Return a node with conditions over its columns at work in it or above it."""
    if isinstance(node, Filter):
        own = [each for each in conjuncts(node.condition) if not _is_true(each)]
        return _push(node.input, [*own, *(each for each in conditions if each not in own)])
    if isinstance(node, Project):
        return _through_project(node, conditions)
    if isinstance(node, Join):
        return _through_join(node, conditions)
    if isinstance(node, SetOperation) and node.kind == "UNION" and node.all:
        return with_inputs(node, tuple(_push(each, conditions) for each in node.relations))
    if isinstance(node, Aggregate) and node.window is None and node.keys:
        return _through_aggregate(node, conditions)
    if isinstance(node, WindowFunction) and node.kind is not WindowKind.SESSION:
        return _through_input(node, conditions)
    if isinstance(node, Correlate):
        return _through_input(node, conditions)
    if isinstance(node, Over):
        return _through_over(node, conditions)
    node = _children(node)
    return nodes.filtered(node, and_all(conditions))


def _children(node: LogicalNode) -> LogicalNode:
    return map_children(node, push_filters)


def _is_true(condition: RowExpression) -> bool:
    return isinstance(condition, Literal) and condition.value is True


def _through_project(node: Project, conditions: Conditions) -> LogicalNode:
    down: Conditions = []
    stay: Conditions = []
    for each in conditions:
        moves = is_deterministic(each) and all(
            is_deterministic(node.expressions[place]) for place in inputs_of(each)
        )
        (down if moves and stays_small([each], node.expressions) else stay).append(each)
    lower = [substitute(each, node.expressions) for each in down]
    return nodes.filtered(replace(node, input=_push(node.input, lower)), and_all(stay))


def _through_input(node: LogicalNode, conditions: Conditions) -> LogicalNode:
    """Push what reads only the input's columns, which come first."""
    width = len(node.inputs[0].schema)
    down = [
        each
        for each in conditions
        if all(place < width for place in inputs_of(each)) and is_deterministic(each)
    ]
    stay = [each for each in conditions if each not in down]
    return nodes.filtered(with_inputs(node, (_push(node.inputs[0], down),)), and_all(stay))


def _through_aggregate(node: Aggregate, conditions: Conditions) -> LogicalNode:
    width = len(node.keys)
    down = [
        each
        for each in conditions
        if inputs_of(each) and all(place < width for place in inputs_of(each)) and is_deterministic(each)
    ]
    stay = [each for each in conditions if each not in down]
    lower = [map_inputs(each, node.keys.__getitem__) for each in down]
    return nodes.filtered(replace(node, input=_push(node.input, lower)), and_all(stay))


def _through_over(node: Over, conditions: Conditions) -> LogicalNode:
    """Push what reads only columns that all OVERs partition by."""
    shared = frozenset.intersection(*(frozenset(group.partition) for group in node.groups))
    down = [
        each
        for each in conditions
        if inputs_of(each) and inputs_of(each) <= shared and is_deterministic(each)
    ]
    stay = [each for each in conditions if each not in down]
    return nodes.filtered(replace(node, input=_push(node.input, down)), and_all(stay))


def _through_join(node: Join, conditions: Conditions) -> LogicalNode:
    width = len(node.left.schema)
    kind = node.kind
    own = [each for each in conjuncts(node.condition) if not _is_true(each)]
    left, right, stay = [], [], []
    one_sided = kind in (JoinKind.SEMI, JoinKind.ANTI)
    for each in conditions:
        places = inputs_of(each)
        if not is_deterministic(each) or not places:
            stay.append(each)
        elif all(place < width for place in places) and kind not in (JoinKind.RIGHT, JoinKind.FULL):
            left.append(each)
        elif all(place >= width for place in places) and kind in (JoinKind.INNER, JoinKind.RIGHT):
            right.append(each)
        elif kind is JoinKind.INNER:
            own.append(each)
        else:
            stay.append(each)
    kept = []
    for each in own:
        places = inputs_of(each)
        if not is_deterministic(each) or not places or node.null_aware:
            kept.append(each)
        elif all(place < width for place in places) and (
            kind in (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
        ):
            left.append(each)
        elif all(place >= width for place in places) and (
            kind in (JoinKind.INNER, JoinKind.LEFT) or one_sided
        ):
            right.append(each)
        else:
            kept.append(each)
    if isinstance(node.right, Snapshot):  # a version is found before conditions on it hold
        kept += right
        right = []
    lower = [map_inputs(each, lambda place: place - width) for each in right]
    joined = replace(
        node,
        left=_push(node.left, left),
        right=_push(node.right, lower),
        condition=and_all(kept),
    )
    return nodes.filtered(joined, and_all(stay))
