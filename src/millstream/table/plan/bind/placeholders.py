"""Calls that stand in bound expressions for what is computed by relations: aggregates, OVER, subqueries, windows.

`$AGG(k)` is the k-th aggregate, `$OVER(k)` the k-th OVER, `$SUB(k)` the k-th subquery, `$WINDOW(k)` a property of the
group window, `$GROUPING(k)` a call of GROUPING. They never leave the binder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millstream.table.expressions.rex import Call, InputRef, Literal, RowExpression, transform
from millstream.table.plan.bind.scope import OUTER
from millstream.types.datatypes import DataType, IntType

__all__ = [
    "AGGREGATE",
    "GROUPING",
    "OVER",
    "SUBQUERY",
    "WINDOW",
    "has_outer",
    "has_placeholder",
    "place_of",
    "placeholder",
    "replace_placeholders",
]

AGGREGATE, OVER, SUBQUERY, WINDOW, GROUPING = "$AGG", "$OVER", "$SUB", "$WINDOW", "$GROUPING"


def placeholder(kind: str, place: int, data_type: DataType) -> Call:
    """Return the call that stands for number `place` of a kind."""
    return Call(kind, (Literal(place, IntType(nullable=False)),), data_type)


def place_of(expression: RowExpression, kind: str) -> int | None:
    """Return the number of a placeholder of a kind; None of other expressions."""
    if isinstance(expression, Call) and expression.function == kind:
        number = expression.operands[0]
        assert isinstance(number, Literal)
        return int(number.value)
    return None


def has_placeholder(expression: RowExpression, kind: str) -> bool:
    """Whether a placeholder of a kind is in an expression."""
    return any(place_of(each, kind) is not None for each in parts_of(expression))


def has_outer(expression: RowExpression) -> bool:
    """Whether an expression refers to columns of a query around."""
    return any(isinstance(each, Call) and each.function == OUTER for each in parts_of(expression))


def parts_of(expression: RowExpression) -> Iterable[RowExpression]:
    """Return an expression and all in it."""
    yield expression
    if isinstance(expression, Call) and expression.function not in (OUTER,):
        for operand in expression.operands:
            yield from parts_of(operand)


def replace_placeholders(
    expression: RowExpression, kind: str, by: Callable[[int], RowExpression]
) -> RowExpression:
    """Return an expression with the placeholders of a kind replaced."""

    def change(part: RowExpression) -> RowExpression | None:
        number = place_of(part, kind)
        return None if number is None else by(number)

    return transform(expression, change)


def outer_place(call: Call) -> tuple[int, int]:
    """Return levels up and place of an `$OUTER`."""
    level, place = (each.value for each in call.operands if isinstance(each, Literal))
    return level, place


def lower_outer(expression: RowExpression) -> RowExpression:
    """Return an expression as the query around sees it: its columns are InputRefs, those further out one level less."""

    def change(part: RowExpression) -> RowExpression | None:
        if not isinstance(part, Call) or part.function != OUTER:
            return None
        level, place = outer_place(part)
        if level == 1:
            return InputRef(place, part.type)
        kind = IntType(nullable=False)
        return Call(OUTER, (Literal(level - 1, kind), Literal(place, kind)), part.type)

    return transform(expression, change)
