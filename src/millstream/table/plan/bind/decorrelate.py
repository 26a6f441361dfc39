"""Takes conditions on columns of the query around out of a subquery, so that they can be a join's.

A condition with `$OUTER` goes up through projections (which then pass its columns on), filters, inner joins and
aggregations (which then group by its columns, if it is an equality). What is left of the subquery refers to itself
only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    Call,
    InputRef,
    RowExpression,
    and_all,
    conjuncts,
    inputs_of,
    map_inputs,
)
from millstream.table.plan import nodes
from millstream.table.plan.bind.placeholders import has_outer
from millstream.table.plan.logical import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    JoinKind,
    LogicalNode,
    Over,
    OverFrame,
    OverGroup,
    Project,
    Sort,
)

__all__ = ["Decorrelated", "decorrelate"]


@dataclass(frozen=True)
class Decorrelated:
    """A subquery without references to the query around.

    Attributes:
        node: The relation: the subquery's columns, then those that the conditions need.
        conditions: Over the relation's columns (InputRef) and the outer query's (`$OUTER`).
        grouped: Whether a global aggregation was turned into one by the columns of the conditions: rows without a
            partner then have no row, where the subquery has one.
    """

    node: LogicalNode
    conditions: tuple[RowExpression, ...] = ()
    grouped: bool = False


def decorrelate(node: LogicalNode) -> Decorrelated:
    """Take the conditions on outer columns out of a subquery.

    Raises:
        ValidationError: If outer columns are used where a join's condition cannot express it.
    """
    if not _is_correlated(node):
        return Decorrelated(node)
    if isinstance(node, Filter):
        return _filter(node)
    if isinstance(node, Project):
        return _project(node)
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, Sort):
        return _sort(node)
    raise _refused(node)


def _refused(node: LogicalNode, what: str = "") -> ValidationError:
    kind = what or f"in {type(node).__name__}"
    return ValidationError(
        f"a subquery refers to a column of the query around {kind}",
        detail="Such references can stand in WHERE of the subquery, compared by = where it aggregates.",
        hint="Write it as a join.",
    )


def _is_correlated(node: LogicalNode) -> bool:
    return any(has_outer(each) for each in _expressions(node)) or any(map(_is_correlated, node.inputs))


def _expressions(node: LogicalNode) -> tuple[RowExpression, ...]:
    if isinstance(node, Project):
        return node.expressions
    if isinstance(node, Filter):
        return (node.condition,)
    if isinstance(node, Join):
        return () if node.condition is None else (node.condition,)
    if isinstance(node, Correlate):
        return (node.call,) if node.condition is None else (node.call, node.condition)
    return ()


def _filter(node: Filter) -> Decorrelated:
    below = decorrelate(node.input)
    own = [each for each in conjuncts(node.condition) if not has_outer(each)]
    taken = [each for each in conjuncts(node.condition) if has_outer(each)]
    kept = nodes.filtered(below.node, and_all(own))
    return replace(below, node=kept, conditions=(*below.conditions, *taken))


def _needed(conditions: tuple[RowExpression, ...]) -> list[int]:
    return sorted(frozenset().union(*map(inputs_of, conditions)))


def _project(node: Project) -> Decorrelated:
    below = decorrelate(node.input)
    if any(has_outer(each) for each in node.expressions):
        raise _refused(node, "in SELECT")
    expressions, names = list(node.expressions), list(node.schema.names)
    place: dict[int, int] = {}
    for index in _needed(below.conditions):
        reference = InputRef(index, below.node.schema.types[index])
        place[index] = len(expressions)
        expressions.append(reference)
        names.append(below.node.schema.names[index])
    conditions = tuple(map_inputs(each, place.__getitem__) for each in below.conditions)
    return Decorrelated(nodes.project(below.node, expressions, names), conditions, below.grouped)


def _separable(condition: RowExpression) -> tuple[RowExpression, RowExpression] | None:
    """Return an equality's inner side and outer side."""
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    left, right = condition.operands
    for inner, around in ((left, right), (right, left)):
        if not has_outer(inner) and not inputs_of(around):
            return inner, around
    return None


def _grouping(below: Decorrelated) -> tuple[LogicalNode, list[int], list[RowExpression]]:
    """Return the relation with each equality's inner side as a column, their places, and the outer sides."""
    width = len(below.node.schema)
    inner_sides: list[RowExpression] = []
    outer_sides: list[RowExpression] = []
    places: list[int] = []
    for condition in below.conditions:
        sides = _separable(condition)
        if sides is None:
            raise _refused(below.node, "other than by = below an aggregation")
        inner, around = sides
        outer_sides.append(around)
        if isinstance(inner, InputRef):
            places.append(inner.index)
        else:
            places.append(width + len(inner_sides))
            inner_sides.append(inner)
    node = below.node
    if inner_sides:
        names = [*node.schema.names, *(f"$k{each}" for each in range(len(inner_sides)))]
        node = nodes.project(node, [*nodes.refs(node.schema), *inner_sides], names)
    return node, places, outer_sides


def _equalities(
    node: LogicalNode, places: list[int], outer_sides: list[RowExpression]
) -> tuple[RowExpression, ...]:
    from millstream.table.functions.registry import build_call

    return tuple(
        build_call("=", [InputRef(place, node.schema.types[place]), side])
        for place, side in zip(places, outer_sides, strict=True)
    )


def _aggregate(node: Aggregate) -> Decorrelated:
    below = decorrelate(node.input)
    if node.window is not None:
        raise _refused(node, "below a window")
    source, places, outer_sides = _grouping(below)
    width = len(node.keys)
    added = [each for each in dict.fromkeys(places) if each not in node.keys]
    keys = (*node.keys, *added)
    names = [*(f"$a{each}" for each in range(len(node.calls)))]
    grouped = nodes.aggregate(source, keys, node.calls, names)
    # The results in the order of before, then the new keys.
    order = [*range(width), *range(len(keys), len(keys) + len(node.calls)), *range(width, len(keys))]
    shown = [*node.schema.names, *(source.schema.names[each] for each in added)]
    result = nodes.project(grouped, nodes.refs(grouped.schema, order), shown)
    total = width + len(node.calls)
    where = {each: place for place, each in enumerate(node.keys)}
    where.update({each: total + place for place, each in enumerate(added)})
    conditions = _equalities(result, [where[each] for each in places], outer_sides)
    return Decorrelated(result, conditions, below.grouped or not node.keys)


def _join(node: Join) -> Decorrelated:
    left = decorrelate(node.left)
    own = [each for each in conjuncts(node.condition) if not has_outer(each)]
    taken = [each for each in conjuncts(node.condition) if has_outer(each)]
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        if taken or _is_correlated(node.right):
            raise _refused(node, "two levels up")
        joined = replace(node, left=left.node, schema=left.node.schema)
        width = len(node.left.schema)
        shift = len(left.node.schema) - width
        if shift:
            condition = and_all([_shifted(each, width, shift) for each in own])
            joined = replace(joined, condition=condition)
        return Decorrelated(joined, left.conditions, left.grouped)
    right = decorrelate(node.right)
    if left.grouped or right.grouped:
        raise _refused(node, "in an aggregation that is joined")
    if node.kind is not JoinKind.INNER and (taken or right.conditions or node.kind is not JoinKind.LEFT):
        raise _refused(node, "in an outer join")
    old_left, old_right = len(node.left.schema), len(node.right.schema)
    new_left = len(left.node.schema)
    shift = new_left - old_left
    conditions = [_shifted(each, old_left, shift) for each in own]
    joined = nodes.join(left.node, right.node, node.kind, and_all(conditions), hints=node.hints)
    joined = replace(joined, ttls=node.ttls)
    lifted = [
        *left.conditions,
        *(map_inputs(each, lambda place: place + new_left) for each in right.conditions),
        *(_shifted(each, old_left, shift) for each in taken),
    ]
    if shift == 0:  # the right side's further columns are last
        return Decorrelated(joined, tuple(lifted))
    order = [*range(old_left), *range(new_left, new_left + old_right)]
    order += [each for each in range(len(joined.schema)) if each not in order]
    place = {each: index for index, each in enumerate(order)}
    names = [joined.schema.names[each] for each in order]
    result = nodes.project(joined, nodes.refs(joined.schema, order), names)
    return Decorrelated(result, tuple(map_inputs(each, place.__getitem__) for each in lifted))


def _shifted(condition: RowExpression, start: int, shift: int) -> RowExpression:
    return map_inputs(condition, lambda place: place + shift if place >= start else place)


def _sort(node: Sort) -> Decorrelated:
    """ORDER BY .. LIMIT for each row of the query around: the first rows of each group."""
    from millstream.table.expressions.rex import AggregateCall, Literal
    from millstream.table.functions.registry import build_call
    from millstream.types.datatypes import BigIntType

    below = decorrelate(node.input)
    if node.fetch is None:
        return replace(below, node=below.node)
    source, places, outer_sides = _grouping(below)
    number = AggregateCall("ROW_NUMBER", (), BigIntType(nullable=False))
    group = OverGroup(tuple(dict.fromkeys(places)), tuple(node.keys), OverFrame(True, None, 0), (number,))
    ranked = over(source, (group,), ("$rank",))
    width = len(source.schema)
    rank = InputRef(width, BigIntType(nullable=False))

    def bound(value: int) -> Literal:
        return Literal(value, BigIntType(nullable=False))

    condition = build_call("<=", [rank, bound(node.offset + node.fetch)])
    if node.offset:
        condition = build_call("AND", [condition, build_call(">", [rank, bound(node.offset)])])
    kept = nodes.filtered(ranked, condition)
    names = source.schema.names
    result = nodes.project(kept, nodes.refs(kept.schema, range(width)), names)
    return Decorrelated(result, _equalities(result, places, outer_sides))


def over(source: LogicalNode, groups: tuple[OverGroup, ...], names: tuple[str, ...]) -> Over:
    """Return OVER aggregates behind a relation's columns."""
    types = tuple(call.type for group in groups for call in group.calls)
    schema = replace(source.schema, names=source.schema.names + names, types=source.schema.types + types)
    return Over(schema, source, groups)
