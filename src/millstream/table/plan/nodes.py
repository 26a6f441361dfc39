"""Makes logical nodes with their schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from millstream.table.expressions.rex import (
    AggregateCall,
    Call,
    InputRef,
    RowExpression,
    RowSchema,
    SortKey,
    map_inputs,
)
from millstream.table.plan.bind.scope import type_with_nullability
from millstream.table.plan.logical import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    LogicalNode,
    Project,
    Sort,
    TableAggregate,
    WindowFunction,
    WindowKind,
)
from millstream.types.datatypes import LocalZonedTimestampType, RowType, TimestampType

__all__ = [
    "aggregate",
    "distinct",
    "filtered",
    "join",
    "join_schema",
    "project",
    "refs",
    "sort",
    "table_aggregate",
    "unique_names",
    "window_function",
]


def refs(schema: RowSchema, places: Sequence[int] | None = None) -> list[RowExpression]:
    """Return references to columns of a schema; all by default."""
    chosen = range(len(schema)) if places is None else places
    return [InputRef(place, schema.types[place]) for place in chosen]


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names with `0`, `1`, ... behind those that come again, as Flink names columns."""
    taken: set[str] = set(names)
    seen: set[str] = set()
    result = []
    for name in names:
        found, count = name, 0
        while found in seen or (found != name and found in taken):
            found, count = f"{name}{count}", count + 1
        seen.add(found)
        result.append(found)
    return tuple(result)


def project(source: LogicalNode, expressions: Sequence[RowExpression], names: Sequence[str]) -> Project:
    """Return a projection; columns that pass unchanged stay time attributes."""
    rowtime, proctime = set(), set()
    for place, each in enumerate(expressions):
        if isinstance(each, InputRef):
            if each.index in source.schema.rowtime:
                rowtime.add(place)
            if each.index in source.schema.proctime:
                proctime.add(place)
        elif isinstance(each, Call) and each.function == "PROCTIME":
            proctime.add(place)
    types = tuple(each.type for each in expressions)
    schema = RowSchema(tuple(names), types, frozenset(rowtime), frozenset(proctime))
    return Project(schema, source, tuple(expressions))


def filtered(source: LogicalNode, condition: RowExpression | None) -> LogicalNode:
    """Return a filter; the relation itself without a condition."""
    return source if condition is None else Filter(source.schema, source, condition)


def join_schema(left: RowSchema, right: RowSchema, kind: JoinKind) -> RowSchema:
    """Return the columns of a join; those of a side that may be missing are nullable."""
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    left_types, right_types = left.types, right.types
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        left_types = tuple(type_with_nullability(each, nullable=True) for each in left_types)
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        right_types = tuple(type_with_nullability(each, nullable=True) for each in right_types)
    width = len(left)
    return RowSchema(
        left.names + right.names,
        left_types + right_types,
        left.rowtime | {each + width for each in right.rowtime},
        left.proctime | {each + width for each in right.proctime},
    )


def join(
    left: LogicalNode,
    right: LogicalNode,
    kind: JoinKind,
    condition: RowExpression | None,
    **more: Any,
) -> Join:
    """Return a join."""
    return Join(join_schema(left.schema, right.schema, kind), left, right, kind, condition, **more)


def aggregate(
    source: LogicalNode,
    keys: Sequence[int],
    calls: Sequence[AggregateCall],
    names: Sequence[str],
    window: WindowFunction | None = None,
) -> Aggregate:
    """Return an aggregation; `names` are those of the results of the calls.

    With a group window its start, end, rowtime and proctime follow.
    """
    types = [source.schema.types[each] for each in keys] + [each.type for each in calls]
    all_names = [source.schema.names[each] for each in keys] + list(names)
    rowtime, proctime = set(), set()
    if window is not None:
        is_rowtime = window.time in window.input.schema.rowtime
        width = len(types)
        local = isinstance(source.schema.types[window.time], LocalZonedTimestampType)
        time_type = (LocalZonedTimestampType if local else TimestampType)(3, nullable=False)
        bound = TimestampType(3, nullable=False)
        types += [bound, bound, time_type, LocalZonedTimestampType(3, nullable=False)]
        all_names += ["w$start", "w$end", "w$rowtime", "w$proctime"]
        if is_rowtime:
            rowtime.add(width + 2)
        proctime.add(width + 3)
    schema = RowSchema(tuple(all_names), tuple(types), frozenset(rowtime), frozenset(proctime))
    return Aggregate(schema, source, tuple(keys), tuple(calls), (), window)


def table_aggregate(source: LogicalNode, keys: int, call: AggregateCall) -> TableAggregate:
    """Return what a table aggregate function gives by the first columns of a relation; a row as its fields."""
    given = call.type
    if isinstance(given, RowType):
        names, types = list(given.field_names()), list(given.field_types())
    else:
        names, types = ["f0"], [given]
    schema = RowSchema(
        unique_names([*source.schema.names[:keys], *names]), (*source.schema.types[:keys], *types)
    )
    return TableAggregate(schema, source, tuple(range(keys)), call)


def distinct(source: LogicalNode) -> LogicalNode:
    """Return the relation's distinct rows."""
    keys = range(len(source.schema))
    schema = replace(source.schema, rowtime=frozenset(), proctime=frozenset())
    return replace(aggregate(source, keys, (), ()), schema=schema)


def sort(
    source: LogicalNode, keys: Sequence[SortKey], offset: int = 0, fetch: int | None = None
) -> LogicalNode:
    """Return a sorted or limited relation."""
    return Sort(source.schema, source, tuple(keys), offset, fetch)


def window_function(
    source: LogicalNode,
    kind: WindowKind,
    time: int,
    size_ms: int,
    slide_ms: int = 0,
    offset_ms: int = 0,
    partition: Sequence[int] = (),
) -> WindowFunction:
    """Return a window table function: the input's columns, window_start, window_end, window_time."""
    below = source.schema
    bound = TimestampType(3, nullable=False)
    time_type: TimestampType = (
        LocalZonedTimestampType(3, nullable=False)
        if isinstance(below.types[time], LocalZonedTimestampType)
        else TimestampType(3, nullable=False)
    )
    width = len(below)
    is_rowtime = time in below.rowtime
    schema = RowSchema(
        (*below.names, "window_start", "window_end", "window_time"),
        (*below.types, bound, bound, time_type),
        below.rowtime | ({width + 2} if is_rowtime else set()),
        below.proctime | (set() if is_rowtime else {width + 2}),
    )
    return WindowFunction(schema, source, kind, time, size_ms, slide_ms, offset_ms, tuple(partition))


def moved(expression: RowExpression, places: Callable[[int], int]) -> RowExpression:
    """Return an expression over columns that have moved."""
    return map_inputs(expression, places)
