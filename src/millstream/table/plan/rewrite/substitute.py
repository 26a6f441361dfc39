"""Expressions over a projection as expressions over what it projects."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.expressions.rex import Call, InputRef, Literal, RowExpression, transform

__all__ = ["is_deterministic", "substitute"]

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


def is_cheap(expression: RowExpression) -> bool:
    """Whether an expression costs nothing, so that it may be computed twice."""
    return isinstance(expression, (InputRef, Literal)) or (
        isinstance(expression, Call)
        and expression.function in ("FIELD", "CAST")
        and len(expression.operands) > 0
        and is_cheap(expression.operands[0])
    )
