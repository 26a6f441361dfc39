"""Joins: which kind one is, by its condition and by what its sides are."""

from __future__ import annotations

from collections.abc import Sequence
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
    map_inputs,
)
from millstream.table.plan import physical as p
from millstream.table.plan.build.calcs import calc
from millstream.table.plan.build.windows import bounds_of
from millstream.table.plan.keys import shortest, unique_keys
from millstream.table.plan.logical import Join, JoinKind, Snapshot
from millstream.table.plan.modes import kinds_of
from millstream.types.further_types import DayTimeIntervalType

__all__ = ["join_of", "split_condition"]


@dataclass(frozen=True)
class _Split:
    """A condition in two: equalities of columns, and the rest.

    Expressions that are compared have become columns of the sides.
    """

    left: p.PhysicalNode
    right: p.PhysicalNode
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    rest: tuple[RowExpression, ...]


def split_condition(
    condition: RowExpression | None, left: p.PhysicalNode, right: p.PhysicalNode, width: int
) -> _Split:
    """Split a join's condition; sides get further columns for keys that are expressions."""
    left_extra: list[RowExpression] = []
    right_extra: list[RowExpression] = []
    left_keys, right_keys, safe, rest = [], [], [], []
    right_width = len(right.schema)

    def key(expression: RowExpression, extra: list[RowExpression], count: int) -> int:
        if isinstance(expression, InputRef):
            return expression.index
        if expression not in extra:
            extra.append(expression)
        return count + extra.index(expression)

    for part in conjuncts(condition):
        sides = _sides(part, width)
        if sides is None:
            rest.append(part)
            continue
        one, two = sides
        left_keys.append(key(one, left_extra, width))
        right_keys.append(key(two, right_extra, right_width))
        safe.append(part.function != "=" if isinstance(part, Call) else False)
    return _Split(
        _extended(left, left_extra),
        _extended(right, right_extra),
        tuple(left_keys),
        tuple(right_keys),
        tuple(safe),
        tuple(rest),
    )


def _sides(part: RowExpression, width: int) -> tuple[RowExpression, RowExpression] | None:
    """Return the left side's and the right side's expression of an equality; None of other conditions."""
    if not isinstance(part, Call) or part.function not in ("=", "IS NOT DISTINCT FROM"):
        return None
    one, two = part.operands
    for first, second in ((one, two), (two, one)):
        lefts, rights = inputs_of(first), inputs_of(second)
        if lefts and rights and all(each < width for each in lefts) and all(each >= width for each in rights):
            return first, map_inputs(second, lambda place: place - width)
    return None


def _extended(node: p.PhysicalNode, extra: Sequence[RowExpression]) -> p.PhysicalNode:
    if not extra:
        return node
    columns = [InputRef(place, kind) for place, kind in enumerate(node.schema.types)]
    names = [*node.schema.names, *(f"$f{len(columns) + place}" for place in range(len(extra)))]
    return calc(node, [*columns, *extra], None, names)


def join_of(
    node: Join, left: p.PhysicalNode, right: p.PhysicalNode, ttls: tuple[int | None, int | None]
) -> p.PhysicalNode:
    """Return the operator of a join that is neither temporal nor a look-up.

    Args:
        node: The join.
        left: Its left side.
        right: Its right side.
        ttls: How long rows are kept.
    """
    width = len(node.left.schema)
    split = split_condition(node.condition, left, right, width)
    new_width = len(split.left.schema)
    shift = new_width - width
    rest = [map_inputs(each, lambda place: place + shift if place >= width else place) for each in split.rest]
    joined = _window_join(node, split, rest) or _interval_join(node, split, rest)
    if joined is None:
        joined = p.RegularJoin(
            _schema(node, split, time=False),
            split.left,
            split.right,
            node.kind,
            split.left_keys,
            split.right_keys,
            and_all(rest),
            split.null_safe if any(split.null_safe) else (),
            node.null_aware,
            *ttls,
        )
    return _without_extra(joined, node, split)


def _schema(node: Join, split: _Split, *, time: bool) -> RowSchema:
    """Return the columns of a join of sides that may be wider than the logical ones."""
    from millstream.table.plan.nodes import join_schema

    schema = join_schema(split.left.schema, split.right.schema, node.kind)
    if time:
        return schema
    return replace(schema, rowtime=frozenset())


def _without_extra(joined: p.PhysicalNode, node: Join, split: _Split) -> p.PhysicalNode:
    width, new_width = len(node.left.schema), len(split.left.schema)
    places = list(range(width))
    if node.kind not in (JoinKind.SEMI, JoinKind.ANTI):
        places += [new_width + place for place in range(len(node.right.schema))]
    names = node.schema.names
    if len(places) == len(joined.schema):
        return replace(joined, schema=replace(joined.schema, names=names))
    return calc(joined, [InputRef(each, joined.schema.types[each]) for each in places], None, names)


# --- window joins


def _window_join(node: Join, split: _Split, rest: list[RowExpression]) -> p.PhysicalNode | None:
    left, right = bounds_of(split.left), bounds_of(split.right)
    if left is None or right is None or left.pair is None or right.pair is None:
        return None
    pairs = list(zip(split.left_keys, split.right_keys, strict=True))
    bounds = list(zip(left.pair, right.pair, strict=True))
    if not all(each in pairs for each in bounds) or _shape(left.window) != _shape(right.window):
        return None
    if not (kinds_of(split.left).insert_only and kinds_of(split.right).insert_only):
        return None
    kept = [each for each in pairs if each not in bounds]
    return p.WindowJoin(
        _schema(node, split, time=True),
        split.left,
        split.right,
        node.kind,
        tuple(one for one, _ in kept),
        tuple(two for _, two in kept),
        left.pair,
        right.pair,
        and_all(rest),
        left.window.rowtime,
    )


def _shape(window: p.Window) -> tuple[Any, ...]:
    return window.kind, window.size_ms, window.slide_ms, window.offset_ms, window.rowtime


# --- interval joins


@dataclass(frozen=True)
class _Time:
    """A time attribute plus a constant, in milliseconds."""

    place: int
    shift: int


def _interval_join(node: Join, split: _Split, rest: list[RowExpression]) -> p.PhysicalNode | None:
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return None
    width = len(split.left.schema)
    left, right = split.left.schema, split.right.schema
    for times_left, times_right, rowtime in (
        (left.rowtime, right.rowtime, True),
        (left.proctime, right.proctime, False),
    ):
        times = times_left | {place + width for place in times_right}
        found = _interval(rest, times, width)
        if found is None:
            found = _equal_times(split, times_left, times_right, width)
        if found is None:
            continue
        left_time, right_time, lower, upper, others = found
        if not (kinds_of(split.left).insert_only and kinds_of(split.right).insert_only):
            return None
        return p.IntervalJoin(
            _schema(node, split, time=True),
            split.left,
            split.right,
            node.kind,
            split.left_keys,
            split.right_keys,
            left_time,
            right_time - width,
            lower,
            upper,
            and_all(others),
            rowtime,
        )
    return None


_Interval = tuple[int, int, int, int, list[RowExpression]]


def _equal_times(split: _Split, left: frozenset[int], right: frozenset[int], width: int) -> _Interval | None:
    """An equality of the time attributes is an interval of no length."""
    for one, two in zip(split.left_keys, split.right_keys, strict=True):
        if one in left and two in right:
            return one, two + width, 0, 0, list(split.rest)
    return None


def _interval(rest: list[RowExpression], times: frozenset[int], width: int) -> _Interval | None:
    """Return left time, right time, bounds of (right - left), and the conditions that are no bounds."""
    lower: int | None = None
    upper: int | None = None
    pair: tuple[int, int] | None = None
    others = []
    for part in rest:
        bound = _bound(part, times, width)
        if bound is None or (pair is not None and bound[0] != pair):
            others.append(part)
            continue
        pair, low, high = bound
        if low is not None:
            lower = low if lower is None else max(lower, low)
        if high is not None:
            upper = high if upper is None else min(upper, high)
    if pair is None or lower is None or upper is None:
        return None
    return pair[0], pair[1], lower, upper, others


def _bound(
    part: RowExpression, times: frozenset[int], width: int
) -> tuple[tuple[int, int], int | None, int | None] | None:
    """Return the two time attributes of a comparison and bounds of right - left."""
    if not isinstance(part, Call) or part.function not in ("<", "<=", ">", ">=", "="):
        return None
    one, two = (_time(each, times) for each in part.operands)
    if one is None or two is None or (one.place < width) == (two.place < width):
        return None
    # one.place + one.shift OP two.place + two.shift
    operator = part.function
    if one.place >= width:
        one, two = two, one
        operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}[operator]
    # left + a OP right + b; difference = right - left
    difference = one.shift - two.shift
    pair = (one.place, two.place)
    if operator == "<=":
        return pair, difference, None
    if operator == "<":
        return pair, difference + 1, None
    if operator == ">=":
        return pair, None, difference
    if operator == ">":
        return pair, None, difference - 1
    return pair, difference, difference


_SHIFTS = {"+": 1, "+ INTERVAL": 1, "-": -1, "- INTERVAL": -1}
"""Functions that move a point in time, and which way."""


def _time(expression: RowExpression, times: frozenset[int]) -> _Time | None:
    if isinstance(expression, InputRef):
        return _Time(expression.index, 0) if expression.index in times else None
    if isinstance(expression, Call) and expression.function == "CAST":
        return _time(expression.operands[0], times)
    if isinstance(expression, Call) and expression.function in _SHIFTS:
        first, second = expression.operands
        if isinstance(first, Literal):
            first, second = second, first
        inner = _time(first, times)
        if (
            inner is None
            or not isinstance(second, Literal)
            or not isinstance(second.type, DayTimeIntervalType)
        ):
            return None
        shift = int(second.value)
        return _Time(inner.place, inner.shift + _SHIFTS[expression.function] * shift)
    return None


# --- temporal joins


def temporal_join(node: Join, left: p.PhysicalNode, right: p.PhysicalNode) -> p.PhysicalNode:
    """Return a join with the versions of the right side.

    Raises:
        ValidationError: If the right side has no versions by the key that is compared.
    """
    snapshot = node.right
    assert isinstance(snapshot, Snapshot)
    period = snapshot.period
    width = len(node.left.schema)
    if not isinstance(period, InputRef) or period.index not in left.schema.rowtime:
        raise ValidationError(
            "FOR SYSTEM_TIME AS OF is by something that is no time attribute of the left side",
            hint="Use its event-time attribute, or its processing time with a table that can be looked up.",
        )
    if not right.schema.rowtime:
        raise ValidationError(
            "a join by event time FOR SYSTEM_TIME AS OF has a right side without event-time attribute",
            detail="Versions are told apart by it.",
            hint="Declare WATERMARK in the right table.",
        )
    split = split_condition(node.condition, left, right, width)
    shift = len(split.left.schema) - width
    keys = unique_keys(split.right)
    key = next((each for each in sorted(keys, key=sorted) if each <= frozenset(split.right_keys)), None)
    if key is None:
        raise ValidationError(
            "a join FOR SYSTEM_TIME AS OF does not compare the primary key of its right side",
            detail="The right side's versions are those of a key: "
            + (
                "it has no primary key."
                if not keys
                else "its key is "
                + ", ".join(split.right.schema.names[each] for each in (shortest(keys) or ()))
                + "."
            ),
            hint="Declare PRIMARY KEY (...) NOT ENFORCED, or deduplicate it, and compare all of its columns by =.",
        )
    rest = [map_inputs(each, lambda place: place + shift if place >= width else place) for each in split.rest]
    schema = _schema(node, split, time=True)
    schema = replace(
        schema, rowtime=frozenset(each for each in schema.rowtime if each < len(split.left.schema))
    )
    pairs = list(zip(split.left_keys, split.right_keys, strict=True))
    rest += [_equality(split, *pair) for pair in pairs if pair[1] not in key]
    pairs = [pair for pair in pairs if pair[1] in key]
    joined = p.TemporalJoin(
        schema,
        split.left,
        _versions(split.right),
        node.kind,
        tuple(one for one, _ in pairs),
        tuple(two for _, two in pairs),
        period.index,
        min(right.schema.rowtime),
        and_all(rest),
    )
    return _without_extra(joined, node, split)


def _equality(split: _Split, one: int, two: int) -> RowExpression:
    from millstream.table.functions.registry import build_call

    left, right = split.left.schema, split.right.schema
    return build_call("=", [InputRef(one, left.types[one]), InputRef(len(left) + two, right.types[two])])


def _versions(node: p.PhysicalNode) -> p.PhysicalNode:
    """Return all versions of a relation: of the last row of each key, every row that was the last one.

    A deduplication gives only those that are the last when an epoch ends.
    """
    if isinstance(node, p.Deduplicate) and node.rowtime and node.keep_last:
        return node.input
    if isinstance(node, p.Calc) and node.condition is None:
        below = _versions(node.input)
        return node if below is node.input else replace(node, input=below)
    return node
