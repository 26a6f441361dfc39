"""Expressions over a projection as expressions over what it projects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from millstream.table.expressions.rex import Call, InputRef, Literal, RowExpression, transform

__all__ = ["is_deterministic", "may_substitute", "stays_small", "substitute"]

_MOST_PARTS = 1_000
"""Of the expressions that come out of a substitution: what they share is computed once, but planned as often as it
stands there."""

_VOLATILE = frozenset(
    (
        "RAND",
        "RAND_INTEGER",
        "UUID",
        "CURRENT_ROW_TIMESTAMP",
        "CURRENT_WATERMARK",
        "NOW",
        "UNIX_TIMESTAMP",
    )
)


def substitute(expression: RowExpression, inputs: Sequence[RowExpression]) -> RowExpression:
    """Return an expression with its columns replaced by the expressions that compute them."""

    def change(part: RowExpression) -> RowExpression | None:
        return inputs[part.index] if isinstance(part, InputRef) else None

    return transform(expression, change)


def is_deterministic(expression: RowExpression) -> bool:
    """Whether an expression gives the same for the same row, so that it may be computed elsewhere or again."""
    if isinstance(expression, (InputRef, Literal)):
        return True
    if expression.user_function is not None:
        return False  # what it costs is not known either
    if expression.function in _VOLATILE and not (
        expression.function == "UNIX_TIMESTAMP" and expression.operands
    ):
        return False
    return all(map(is_deterministic, expression.operands))


def may_substitute(expressions: Sequence[RowExpression], inputs: Sequence[RowExpression]) -> bool:
    """Whether expressions may be computed of what their columns are computed of.

    Parts that are equal are computed once wherever they stand in one calc, so that nothing is computed more often. What
    may differ when it is computed again must stand there once, as it is.
    """
    uses = Counter(place for each in expressions for place in _columns(each))
    for place in uses:
        if not is_deterministic(inputs[place]):
            bare = [each for each in expressions if isinstance(each, InputRef) and each.index == place]
            if uses[place] != 1 or len(bare) != 1:
                return False
    return stays_small(expressions, inputs)


def stays_small(expressions: Sequence[RowExpression], inputs: Sequence[RowExpression]) -> bool:
    """Whether expressions over what their columns are computed of have a number of parts that can be planned.

    Where each of several views uses a column of the one below twice, that number doubles with each.
    """
    uses = Counter(place for each in expressions for place in _columns(each))
    own = sum(map(_size, expressions))
    return own + sum((_size(inputs[place]) - 1) * count for place, count in uses.items()) <= _MOST_PARTS


def _columns(expression: RowExpression) -> Iterator[int]:
    """Give the places of columns as often as they stand in an expression."""
    if isinstance(expression, InputRef):
        yield expression.index
    elif isinstance(expression, Call):
        for operand in expression.operands:
            yield from _columns(operand)


def _size(expression: RowExpression) -> int:
    return 1 + sum(map(_size, expression.operands)) if isinstance(expression, Call) else 1
