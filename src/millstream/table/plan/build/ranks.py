"""Top-N and deduplication: ROW_NUMBER() OVER (...) with a condition on the number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    Call,
    InputRef,
    Literal,
    RowExpression,
    RowSchema,
    and_all,
    conjuncts,
    inputs_of,
)
from millstream.table.plan import physical as p
from millstream.table.plan.build.calcs import filtered
from millstream.table.plan.build.windows import bounds_of
from millstream.table.plan.logical import Filter, Over
from millstream.table.plan.modes import kinds_of

__all__ = ["RANKING", "rank_of", "unbounded_rank"]

RANKING = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class _Range:
    start: int = 1
    end: int | None = None
    end_column: int | None = None


def is_rank(node: object) -> bool:
    """Whether OVERs are one ROW_NUMBER, RANK or DENSE_RANK with ORDER BY."""
    if not isinstance(node, Over) or len(node.groups) != 1:
        return False
    group = node.groups[0]
    return len(group.calls) == 1 and group.calls[0].function in RANKING and bool(group.order)


def rank_of(node: Filter, source: p.PhysicalNode, needed: frozenset[int]) -> p.PhysicalNode | None:
    """Return Top-N for a condition on a row number; None if the condition gives no last number.

    Args:
        node: The filter over the OVER.
        source: What the OVER reads.
        needed: Which of the filter's columns are read above it.

    Raises:
        ValidationError: If the ranking function cannot be used so.
    """
    over = node.input
    assert isinstance(over, Over)
    number = len(over.schema) - 1
    found, rest = _range(conjuncts(node.condition), number)
    if found.end is None and found.end_column is None:
        return None
    condition = and_all(rest)
    read = needed | (frozenset() if condition is None else inputs_of(condition))
    with_number = number in read
    ranked = _ranked(over, source, found, with_number=with_number)
    return filtered(ranked, condition)


def _range(parts: list[RowExpression], number: int) -> tuple[_Range, list[RowExpression]]:
    found, rest = _Range(), []
    for part in parts:
        bound = _bound(part, number)
        if bound is None:
            rest.append(part)
            continue
        operator, value = bound
        if isinstance(value, int):
            low, high = _numbers(operator, value)
            if low is not None:
                found = replace(found, start=max(found.start, low))
            if high is not None:
                found = replace(found, end=high if found.end is None else min(found.end, high))
        elif operator in ("<=", "=") and found.end is None:
            found = replace(found, end_column=value.index)
            if operator == "=":
                rest.append(part)
        else:
            rest.append(part)
    return found, rest


def _numbers(operator: str, value: int) -> tuple[int | None, int | None]:
    return {
        "<": (None, value - 1),
        "<=": (None, value),
        ">": (value + 1, None),
        ">=": (value, None),
        "=": (value, value),
    }[operator]


def _bound(part: RowExpression, number: int) -> tuple[str, Any] | None:
    """Return operator and what the number is compared with, an int or a column."""
    if not isinstance(part, Call) or part.function not in _SWAPPED or len(part.operands) != 2:
        return None
    left, right = map(_plain, part.operands)
    operator = part.function
    if isinstance(right, InputRef) and right.index == number:
        left, right, operator = right, left, _SWAPPED[operator]
    if not isinstance(left, InputRef) or left.index != number:
        return None
    if isinstance(right, Literal) and isinstance(right.value, int):
        return operator, right.value
    if isinstance(right, InputRef) and right.index != number:
        return operator, right
    return None


def _plain(expression: RowExpression) -> RowExpression:
    """Return what is cast, of a cast."""
    if isinstance(expression, Call) and expression.function == "CAST":
        return expression.operands[0]
    return expression


def _schema(below: RowSchema, over: Over, *, with_number: bool) -> RowSchema:
    if not with_number:
        return below
    return replace(
        below, names=(*below.names, over.schema.names[-1]), types=(*below.types, over.schema.types[-1])
    )


def _ranked(over: Over, source: p.PhysicalNode, found: _Range, *, with_number: bool) -> p.PhysicalNode:
    group = over.groups[0]
    function = group.calls[0].function
    if function != "ROW_NUMBER":
        raise ValidationError(
            f"Top-N by {function} is not supported",
            detail="Flink's streaming Top-N takes ROW_NUMBER only, too.",
            hint="Use ROW_NUMBER().",
        )
    below = source.schema
    schema = _schema(below, over, with_number=with_number)
    end = found.end if found.end is not None else 1
    windowed = bounds_of(source)
    window = None if windowed is None else windowed.pair
    time = group.order[0].index
    by_time = len(group.order) == 1 and time in below.rowtime | below.proctime
    first = found.end == 1 and found.start == 1
    if window is not None and windowed is not None and set(window) <= set(group.partition):
        partition = tuple(each for each in group.partition if each not in window)
        if first and by_time and not with_number and time in below.rowtime:
            last = group.order[0].descending
            return p.WindowDeduplicate(schema, source, partition, time, window, last)
        if found.end is not None:
            return p.WindowRank(
                schema,
                source,
                partition,
                group.order,
                window,
                found.start,
                end,
                with_number,
                windowed.window.rowtime,
            )
    if first and by_time and not with_number and kinds_of(source).insert_only:
        last = group.order[0].descending
        return p.Deduplicate(schema, source, group.partition, time, time in below.rowtime, last)
    if found.end is not None and found.end < found.start:
        raise ValidationError(f"the condition on {function} leaves no row: {found.start} to {found.end}")
    return p.Rank(
        schema, source, group.partition, group.order, found.start, end, with_number, found.end_column
    )


def unbounded_rank(over: Over, source: p.PhysicalNode) -> p.PhysicalNode:
    """Return the numbers of all rows, kept up to date."""
    return _ranked(over, source, _Range(1, 2**31 - 1), with_number=True)
