"""OVER: aggregates over the rows around each row."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    AggregateCall,
    InputRef,
    Literal,
    RowExpression,
    SortKey,
)
from millstream.table.functions.registry import is_window_only
from millstream.table.plan import nodes
from millstream.table.plan.bind.collector import BoundOver
from millstream.table.plan.bind.decorrelate import over
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode, OverFrame, OverGroup
from millstream.table.sql import ast

__all__ = ["add_overs"]

_RANKING = ("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "PERCENT_RANK", "CUME_DIST")


def add_overs(
    context: PlanContext, relation: LogicalNode, overs: Sequence[BoundOver]
) -> tuple[LogicalNode, list[RowExpression]]:
    """Add the results of OVERs behind a relation's columns.

    Returns:
        The wider relation, and what each OVER's result is over it.
    """
    width = len(relation.schema)
    inputs: list[RowExpression] = nodes.refs(relation.schema)

    def column(expression: RowExpression) -> int:
        if expression not in inputs:
            inputs.append(expression)
        return inputs.index(expression)

    groups: dict[tuple[tuple[int, ...], tuple[SortKey, ...], OverFrame], list[tuple[int, AggregateCall]]] = {}
    for number, each in enumerate(overs):
        partition = tuple(dict.fromkeys(column(part) for part in each.partition))
        order = tuple(_key(column(part), item) for part, item in each.order)
        frame = _frame(context, each, bool(order))
        call = AggregateCall(
            each.call.function,
            tuple(column(part) for part in each.call.arguments),
            each.call.type,
            each.call.distinct,
            None if each.call.filter is None else column(each.call.filter),
            (),
            each.call.user_function,
            each.call.nulls,
        )
        _check(each, order)
        groups.setdefault((partition, order, frame), []).append((number, call))
    names = [*relation.schema.names, *(f"$f{place}" for place in range(width, len(inputs)))]
    source = relation if len(inputs) == width else nodes.project(relation, inputs, names)
    members, built, numbers = [], [], []
    for (partition, order, frame), calls in groups.items():
        built.append(OverGroup(partition, order, frame, tuple(call for _, call in calls)))
        members += [call for _, call in calls]
        numbers += [number for number, _ in calls]
    result_names = tuple(f"w0$o{place}" for place in range(len(members)))
    result = over(source, tuple(built), result_names)
    start = len(source.schema)
    where = {number: start + place for place, number in enumerate(numbers)}
    return result, [
        InputRef(where[number], result.schema.types[where[number]]) for number in range(len(overs))
    ]


def _key(place: int, item: ast.OrderItem) -> SortKey:
    nulls_first = not item.descending if item.nulls_first is None else item.nulls_first
    return SortKey(place, item.descending, nulls_first)


def _check(over_call: BoundOver, order: tuple[SortKey, ...]) -> None:
    name = over_call.call.function.upper()
    if is_window_only(name) and not order:
        raise ValidationError(
            f'"{name}" has OVER without ORDER BY',
            at=over_call.at,
            hint=f"Write {name}() OVER (ORDER BY ...).",
        )


def _frame(context: PlanContext, each: BoundOver, ordered: bool) -> OverFrame:
    window = each.window
    if each.call.function.upper() in _RANKING:
        if window.rows is not None:
            raise ValidationError(f'"{each.call.function}" has OVER with ROWS or RANGE', at=each.at)
        return OverFrame(True, None, 0)
    if window.rows is None:
        if each.call.function.upper() in ("LAG", "LEAD"):
            return OverFrame(True, None, 0)
        return OverFrame(False, None, 0 if ordered else None)
    lower = _bound(context, each, window.lower)
    upper = 0 if window.upper is None else _bound(context, each, window.upper)
    following = None if upper is None else -upper
    return OverFrame(window.rows, lower, following)


def _bound(context: PlanContext, each: BoundOver, bound: ast.FrameBound | None) -> int | None:
    """Return how far before the current row a bound is; None without bound."""
    if bound is None or bound.current:
        return 0
    if bound.amount is None:
        return None
    binder = ExpressionBinder(context, Scope(), Extension("OVER"))
    value = binder.bind(bound.amount)
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < 0:
        raise ValidationError("a bound of OVER is no constant from 0", at=bound.amount.at or each.at)
    return -value.value if bound.following else value.value
