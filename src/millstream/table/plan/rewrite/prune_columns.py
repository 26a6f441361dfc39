"""Columns that nobody reads are not read: scans give only what is used above them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from millstream.table.expressions.rex import (
    AggregateCall,
    Call,
    RowExpression,
    RowSchema,
    SortKey,
    inputs_of,
    map_inputs,
)
from millstream.table.plan import nodes
from millstream.table.plan.logical import (
    Aggregate,
    Correlate,
    Expand,
    Filter,
    Join,
    JoinKind,
    LogicalNode,
    Match,
    Over,
    OverGroup,
    Project,
    Scan,
    SetOperation,
    Snapshot,
    Sort,
    StreamScan,
    Values,
    Watermarks,
    WindowFunction,
)
from millstream.table.plan.rewrite.tree import map_children

__all__ = ["prune_columns"]

Pruned = tuple[LogicalNode, dict[int, int]]
"""A node with fewer columns, and where the old ones are that are left."""


def prune_columns(node: LogicalNode) -> LogicalNode:
    """Return a node with the same columns whose inputs give no more than is read."""
    pruned, place = _prune(node, frozenset(range(len(node.schema))))
    order = [place[each] for each in range(len(node.schema))]
    if order == list(range(len(pruned.schema))):
        return pruned
    return nodes.project(pruned, nodes.refs(pruned.schema, order), node.schema.names)


def _prune(node: LogicalNode, needed: frozenset[int]) -> Pruned:
    method = _METHODS.get(type(node))
    if method is None:
        return map_children(node, prune_columns), {each: each for each in range(len(node.schema))}
    return method(node, needed)


def _moved(expression: RowExpression, place: dict[int, int]) -> RowExpression:
    return map_inputs(expression, place.__getitem__)


def _chosen(schema: RowSchema, places: Sequence[int]) -> RowSchema:
    where = {each: index for index, each in enumerate(places)}
    return RowSchema(
        tuple(schema.names[each] for each in places),
        tuple(schema.types[each] for each in places),
        frozenset(where[each] for each in schema.rowtime if each in where),
        frozenset(where[each] for each in schema.proctime if each in where),
    )


def _scan(node: Any, needed: frozenset[int]) -> Pruned:
    places = sorted(needed) or ([0] if len(node.schema) else [])
    return replace(node, schema=_chosen(node.schema, places)), {each: i for i, each in enumerate(places)}


def _values(node: Values, needed: frozenset[int]) -> Pruned:
    places = sorted(needed) or [0]
    rows = tuple(tuple(row[each] for each in places) for row in node.rows)
    return Values(_chosen(node.schema, places), rows), {each: i for i, each in enumerate(places)}


def _project(node: Project, needed: frozenset[int]) -> Pruned:
    if not node.expressions:  # below COUNT(*): rows count, columns do not
        return _prune(node.input, frozenset())[0], {}
    places = sorted(needed) or [0]
    below = frozenset().union(*(inputs_of(node.expressions[each]) for each in places))
    source, place = _prune(node.input, below)
    expressions = [_moved(node.expressions[each], place) for each in places]
    schema = _chosen(node.schema, places)
    return Project(schema, source, tuple(expressions)), {each: i for i, each in enumerate(places)}


def _filter(node: Filter, needed: frozenset[int]) -> Pruned:
    source, place = _prune(node.input, needed | inputs_of(node.condition))
    return nodes.filtered(source, _moved(node.condition, place)), place


def _watermarks(node: Watermarks, needed: frozenset[int]) -> Pruned:
    source, place = _prune(node.input, needed | {node.column} | inputs_of(node.expression))
    column = place[node.column]
    schema = replace(source.schema, rowtime=source.schema.rowtime | {column})
    return Watermarks(schema, source, column, _moved(node.expression, place)), place


def _snapshot(node: Snapshot, needed: frozenset[int]) -> Pruned:
    wanted = needed | node.input.schema.rowtime
    source, place = _prune(node.input, wanted)
    return Snapshot(source.schema, source, node.period), place


def _match(node: Match, needed: frozenset[int]) -> Pruned:
    width = len(node.input.schema)
    source, place = _prune(node.input, node.clause.columns(width))
    clause = node.clause.moved(place, width, len(source.schema))
    return Match(node.schema, source, clause), {each: each for each in range(len(node.schema))}


def _join(node: Join, needed: frozenset[int]) -> Pruned:
    width = len(node.left.schema)
    used = needed | (frozenset() if node.condition is None else inputs_of(node.condition))
    left_used = frozenset(each for each in used if each < width)
    right_used = frozenset(each - width for each in used if each >= width)
    if isinstance(node.right, Snapshot):
        left_used |= inputs_of(node.right.period)
    left, left_place = _prune(node.left, left_used)
    right, right_place = _prune(node.right, right_used)
    if isinstance(right, Snapshot):
        right = replace(right, period=_moved(right.period, left_place))
    count = len(left.schema)
    place = dict(left_place)
    place.update({each + width: index + count for each, index in right_place.items()})
    condition = None if node.condition is None else _moved(node.condition, place)
    schema = nodes.join_schema(left.schema, right.schema, node.kind)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        place = left_place
    joined = replace(node, schema=schema, left=left, right=right, condition=condition)
    return joined, place


def _call_inputs(call: AggregateCall) -> Iterable[int]:
    yield from call.arguments
    if call.filter is not None:
        yield call.filter
    for key in call.order:
        yield key.index


def _moved_call(call: AggregateCall, place: dict[int, int]) -> AggregateCall:
    return replace(
        call,
        arguments=tuple(place[each] for each in call.arguments),
        filter=None if call.filter is None else place[call.filter],
        order=_moved_keys(call.order, place),
    )


def _moved_keys(keys: Sequence[SortKey], place: dict[int, int]) -> tuple[SortKey, ...]:
    return tuple(replace(key, index=place[key.index]) for key in keys)


def _aggregate(node: Aggregate, needed: frozenset[int]) -> Pruned:
    count = len(node.keys)
    chosen = [index for index in range(len(node.calls)) if count + index in needed]
    if not chosen and not node.keys and node.calls:
        chosen = [0]
    calls = [node.calls[index] for index in chosen]
    used = {*node.keys, *(each for call in calls for each in _call_inputs(call))}
    if node.window is not None:
        used.add(node.window.time)
    source, place = _prune(node.input, frozenset(used))
    kept = [*range(count), *(count + index for index in chosen)]
    kept += range(count + len(node.calls), len(node.schema))
    window = None
    if node.window is not None:
        old = node.window
        time = place[old.time]
        window = nodes.window_function(source, old.kind, time, old.size_ms, old.slide_ms, old.offset_ms)
    result = Aggregate(
        _chosen(node.schema, kept),
        source,
        tuple(place[each] for each in node.keys),
        tuple(_moved_call(call, place) for call in calls),
        (),
        window,
        node.ttl_ms,
    )
    return result, {each: index for index, each in enumerate(kept)}


def _over(node: Over, needed: frozenset[int]) -> Pruned:
    width = len(node.input.schema)
    used = {each for each in needed if each < width}
    for group in node.groups:
        used.update(group.partition, (key.index for key in group.order))
        used.update(each for call in group.calls for each in _call_inputs(call))
    source, place = _prune(node.input, frozenset(used))
    groups = tuple(
        OverGroup(
            tuple(place[each] for each in group.partition),
            _moved_keys(group.order, place),
            group.frame,
            tuple(_moved_call(call, place) for call in group.calls),
        )
        for group in node.groups
    )
    count = len(source.schema)
    results = range(width, len(node.schema))
    schema = replace(
        source.schema,
        names=source.schema.names + tuple(node.schema.names[each] for each in results),
        types=source.schema.types + tuple(node.schema.types[each] for each in results),
    )
    return Over(schema, source, groups), {
        **place,
        **{each: count + index for index, each in enumerate(results)},
    }


def _sort(node: Sort, needed: frozenset[int]) -> Pruned:
    source, place = _prune(node.input, needed | {key.index for key in node.keys})
    return replace(node, schema=source.schema, input=source, keys=_moved_keys(node.keys, place)), place


def _set_operation(node: SetOperation, needed: frozenset[int]) -> Pruned:
    if node.kind != "UNION" or not node.all:
        return map_children(node, prune_columns), {each: each for each in range(len(node.schema))}
    places = sorted(needed) or [0]
    relations = []
    for each in node.relations:
        source, place = _prune(each, frozenset(places))
        order = [place[index] for index in places]
        if order != list(range(len(source.schema))):
            names = [node.schema.names[index] for index in places]
            source = nodes.project(source, nodes.refs(source.schema, order), names)
        relations.append(source)
    schema = _chosen(node.schema, places)
    return replace(node, schema=schema, relations=tuple(relations)), {
        each: index for index, each in enumerate(places)
    }


def _window(node: WindowFunction, needed: frozenset[int]) -> Pruned:
    width = len(node.input.schema)
    used = {each for each in needed if each < width} | {node.time, *node.partition}
    source, place = _prune(node.input, frozenset(used))
    result = nodes.window_function(
        source,
        node.kind,
        place[node.time],
        node.size_ms,
        node.slide_ms,
        node.offset_ms,
        [place[each] for each in node.partition],
    )
    count = len(source.schema)
    return result, {**place, **{width + index: count + index for index in range(3)}}


def _correlate(node: Correlate, needed: frozenset[int]) -> Pruned:
    width = len(node.input.schema)
    used = {each for each in needed if each < width} | inputs_of(node.call)
    if node.condition is not None:
        used |= {each for each in inputs_of(node.condition) if each < width}
    source, place = _prune(node.input, frozenset(used))
    count = len(source.schema)
    results = range(width, len(node.schema))
    where = {**place, **{each: count + index for index, each in enumerate(results)}}
    call = _moved(node.call, place)
    assert isinstance(call, Call)
    condition = None if node.condition is None else _moved(node.condition, where)
    schema = replace(
        source.schema,
        names=source.schema.names + tuple(node.schema.names[each] for each in results),
        types=source.schema.types + tuple(node.schema.types[each] for each in results),
    )
    return replace(node, schema=schema, input=source, call=call, condition=condition), where


def _expand(node: Expand, needed: frozenset[int]) -> Pruned:
    width = len(node.input.schema)
    used = {each for each in needed if each < width} | set(node.keys)
    source, place = _prune(node.input, frozenset(used))
    kept = [old for old, _ in sorted(place.items(), key=lambda item: item[1])]
    schema = _chosen(node.schema, [*kept, width])
    keys = tuple(place[each] for each in node.keys)
    sets = tuple(tuple(place[each] for each in chosen) for chosen in node.sets)
    return Expand(schema, source, keys, sets), {**place, width: len(source.schema)}


_METHODS: dict[type, Callable[[Any, frozenset[int]], Pruned]] = {
    Aggregate: _aggregate,
    Correlate: _correlate,
    Expand: _expand,
    Filter: _filter,
    Join: _join,
    Match: _match,
    Over: _over,
    Project: _project,
    Scan: _scan,
    SetOperation: _set_operation,
    Snapshot: _snapshot,
    Sort: _sort,
    StreamScan: _scan,
    Values: _values,
    Watermarks: _watermarks,
    WindowFunction: _window,
}
