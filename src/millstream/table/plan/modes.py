"""Changelog modes: which kinds of change each operator gives, and refusals where a consumer cannot take them.

Two walks, as Flink does it. Up: which kinds can come (`kinds_of`). Down: whether a consumer needs the row before an
update (-U), or whether updates by key suffice (`assign_modes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import InputRef, inputs_of
from millstream.table.plan import physical as p
from millstream.table.plan.changes import ALL, INSERT_ONLY, ChangelogMode
from millstream.table.plan.explain_names import operator_text
from millstream.table.plan.function_modes import from_mode, function_mode, input_needs_before
from millstream.table.plan.keys import unique_keys, upsert_keys
from millstream.table.plan.logical import JoinKind
from millstream.table.process_functions import ArgumentTrait

__all__ = ["assign_modes", "assign_sink", "kinds_of"]


# --- up


def kinds_of(node: p.PhysicalNode) -> ChangelogMode:
    """Return which kinds of change a relation can have; `before` has no meaning in it.

    Raises:
        ValidationError: If an operator that takes inserts only has an input with updates or deletes.
    """
    below = [kinds_of(each) for each in node.inputs]
    if isinstance(node, _INSERT_ONLY) and not _by_values(node):
        for child, kinds in zip(node.inputs, below, strict=True):
            if not kinds.insert_only:
                raise _refused(node, child, kinds)
    if node.final and isinstance(node, _ONCE):
        return INSERT_ONLY
    if isinstance(node, p.ProcessTableNode):
        for table, child, kinds in zip(node.clause.tables, node.inputs, below, strict=True):
            if kinds.insert_only:
                continue
            if not table.argument.has(ArgumentTrait.SUPPORT_UPDATES):
                raise _refused(node, child, kinds)
            if node.clause.on_time:
                raise ValidationError(
                    f'function "{node.clause.function.name}" was called with on_time and a table that has updates',
                    detail=f"They are produced by node {operator_text(_producer(child))}.",
                    hint="Leave on_time out, or let it read what only has inserts.",
                )
    made = _MADE.get(type(node))
    return _united(below) if made is None else made(node, below)


_MADE: dict[type, Callable[[Any, list[ChangelogMode]], ChangelogMode]] = {
    p.ChangelogNormalize: lambda node, below: ALL,
    p.DataStreamScan: lambda node, below: node.source_mode,
    p.Deduplicate: lambda node, below: ALL if node.keep_last else INSERT_ONLY,
    p.GroupAggregate: lambda node, below: ChangelogMode(updates=True, deletes=not below[0].insert_only),
    p.GroupTableAggregate: lambda node, below: ALL,
    p.LookupJoin: lambda node, below: below[0],
    p.OverAggregate: lambda node, below: ALL if node.by_values else INSERT_ONLY,
    p.FromChangelogNode: lambda node, below: from_mode(node),
    p.ProcessTableNode: lambda node, below: function_mode(node, before=True),
    p.Rank: lambda node, below: ALL,
    p.RegularJoin: lambda node, below: (
        _united(below) if node.kind in (JoinKind.INNER, JoinKind.SEMI) else ALL
    ),
    p.SortLimit: lambda node, below: ALL,
    p.SortNode: lambda node, below: INSERT_ONLY,
    p.TableScan: lambda node, below: node.source_mode,
    p.TemporalJoin: lambda node, below: below[0],
    p.ToChangelogNode: lambda node, below: INSERT_ONLY,
    p.ValuesNode: lambda node, below: INSERT_ONLY,
    p.WindowAggregate: lambda node, below: INSERT_ONLY,
}
"""What operators give that do not just pass on the kinds of their inputs."""


_INSERT_ONLY = (
    p.Deduplicate,
    p.FromChangelogNode,
    p.IntervalJoin,
    p.MatchNode,
    p.OverAggregate,
    p.TemporalSort,
    p.WindowDeduplicate,
    p.WindowJoin,
    p.WindowRank,
    p.WindowTable,
)
"""Operators whose inputs may have inserts only."""


_ONCE = (
    p.ChangelogNormalize,
    p.Deduplicate,
    p.GroupAggregate,
    p.GroupTableAggregate,
    p.Limit,
    p.OverAggregate,
    p.Rank,
    p.RegularJoin,
    p.SortLimit,
    p.SortNode,
)
"""Operators that give their result once in batch mode, whatever changes their inputs have."""


def _by_values(node: p.PhysicalNode) -> bool:
    return isinstance(node, p.OverAggregate) and node.by_values


def _united(modes: Sequence[ChangelogMode]) -> ChangelogMode:
    return ChangelogMode(
        updates=any(each.updates for each in modes), deletes=any(each.deletes for each in modes)
    )


def _refused(node: p.PhysicalNode, child: p.PhysicalNode, kinds: ChangelogMode) -> ValidationError:
    what = "update and delete changes" if kinds.updates and kinds.deletes else "update changes"
    what = what if kinds.updates else "delete changes"
    source = _producer(child)
    return ValidationError(
        f"{_name(node)} does not support consuming {what}, which are produced by node {operator_text(source)}",
        hint="Let it read what only has inserts: aggregate by windows, or put it before the operator that updates.",
    )


def _producer(node: p.PhysicalNode) -> p.PhysicalNode:
    """Return the operator nearest below that makes changes of inserts."""
    while isinstance(node, (p.Calc, p.CorrelateNode, p.WatermarkAssigner, p.ExpandNode, p.Union)):
        changing = [each for each in node.inputs if not kinds_of(each).insert_only]
        if not changing:
            return node
        node = changing[0]
    return node


def _name(node: p.PhysicalNode) -> str:
    return operator_text(node).split("(", maxsplit=1)[0]


# --- down


def assign_modes(node: p.PhysicalNode, *, before: bool) -> p.PhysicalNode | None:
    """Return a plan whose operators have modes.

    Args:
        node: The plan.
        before: Whether the consumer needs -U rows; without updates it does not matter.

    Returns:
        None if updates without -U were asked for and would be wrong.
    """
    kinds = kinds_of(node)
    if isinstance(node, p.ChangelogNormalize) and not (before or node.forced or node.condition):
        return _not_normalized(node)
    method = _METHODS.get(type(node), _forward)
    inputs = method(node, before if kinds.updates else None)
    if inputs is None:
        return None
    if isinstance(node, p.ProcessTableNode):
        return _given_by_function(node.with_inputs(tuple(inputs)), before=before)
    if isinstance(node, p.FromChangelogNode):
        return _without_before(node.with_inputs(tuple(inputs)), from_mode(node), before=before)
    mode = replace(kinds, before=bool(before and kinds.updates))
    if isinstance(node, (p.TableScan, p.DataStreamScan)):
        return _scan(node, mode)
    return node.with_inputs(tuple(inputs)).with_mode(mode)


Inputs = Sequence[p.PhysicalNode] | None


def _given_by_function(node: p.ProcessTableNode, *, before: bool) -> p.PhysicalNode | None:
    return _without_before(node, function_mode(node, before=before), before=before)


def _without_before(node: p.PhysicalNode, given: ChangelogMode, *, before: bool) -> p.PhysicalNode | None:
    """Return an operator that says itself what it gives; -U is left out where nobody needs it."""
    made = node.with_mode(given)
    if given.before and given.updates and not before:
        if not upsert_keys(node):
            return None
        return p.DropUpdateBefore(made.schema, made, mode=replace(given, before=False))
    return made


def _not_normalized(node: p.ChangelogNormalize) -> p.PhysicalNode | None:
    """Return upserts as they come: who takes updates by key needs no row before."""
    below = assign_modes(node.input, before=False)
    if below is None or isinstance(below, p.TableScan) or below.schema.names == node.schema.names:
        return below
    return replace(below, schema=node.schema)


def _scan(node: Any, wanted: ChangelogMode) -> p.PhysicalNode:
    given = node.source_mode
    scan: p.PhysicalNode = node.with_mode(given)
    if given.updates and given.before and not wanted.before:
        return p.DropUpdateBefore(scan.schema, scan, mode=replace(given, before=False))
    return scan


def _all(wants: Sequence[tuple[p.PhysicalNode, bool]]) -> Inputs:
    found = [assign_modes(child, before=before) for child, before in wants]
    done = [each for each in found if each is not None]
    return done if len(done) == len(found) else None


def _forward(node: p.PhysicalNode, before: bool | None) -> Inputs:
    """Pass on what is asked for."""
    return _all([(child, bool(before)) for child in node.inputs])


def _full(node: p.PhysicalNode, before: bool | None) -> Inputs:
    """Need -U of all inputs, whatever is asked for."""
    return _all([(child, True) for child in node.inputs])


def _table_aggregate(node: p.GroupTableAggregate, before: bool | None) -> Inputs:
    """Give rows that go as deletions: rows of one key are not told apart, so that nothing updates them by key."""
    return None if before is False else _full(node, before)


def _calc(node: p.Calc, before: bool | None) -> Inputs:
    if before is False and node.condition is not None and not _by_key(node.condition, node.input):
        return None
    return _forward(node, before)


def _correlate(node: p.CorrelateNode, before: bool | None) -> Inputs:
    if before is False:
        return None  # the rows of a replaced row may be others
    return _forward(node, before)


def _by_key(condition: Any, source: p.PhysicalNode) -> bool:
    """Whether a condition reads columns of an upsert key only: then it says the same of all versions of a row."""
    return any(inputs_of(condition) <= key for key in upsert_keys(source))


def _join(node: p.RegularJoin, before: bool | None) -> Inputs:
    wants = []
    for child, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
        if not kinds_of(child).updates:
            wants.append((child, False))
            continue
        supports = any(frozenset(keys) <= key for key in unique_keys(child)) and _key_is_upsert(child)
        if before is False and (not supports or node.condition is not None):
            return None  # with a further condition, an updated row may have no partner any more
        wants.append((child, before is not False))
    return _all(wants)


def _key_is_upsert(node: p.PhysicalNode) -> bool:
    return bool(upsert_keys(node))


def _left_only(node: Any, before: bool | None) -> Inputs:
    """Of the left input what is asked for; the right one comes by key."""
    if before is False and node.condition is not None:
        return None
    left = bool(before)
    by_key = _all([(node.left, left), (node.right, False)])
    return by_key if by_key is not None else _all([(node.left, left), (node.right, True)])


def _rank(node: p.Rank, before: bool | None) -> Inputs:
    """Updates by key suffice where a row can only go up: it takes the place that it had, or a better one."""
    by_key = None
    keys = upsert_keys(node.input)
    if any(frozenset(node.partition) <= key for key in keys) and _only_rises(node):
        by_key = _all([(node.input, False)])
    return by_key if by_key is not None else _full(node, before)


def _over(node: p.OverAggregate, before: bool | None) -> Inputs:
    """By values, rows are found by all their columns, so updates need the row before; updates by key need a key."""
    if not node.by_values:
        return _forward(node, before)
    return None if before is False and not upsert_keys(node) else _full(node, before)


def _only_rises(node: p.Rank) -> bool:
    if len(node.order) != 1:
        return False
    key = node.order[0]
    trend = trend_of(node.input, key.index)
    return trend == (1 if key.descending else -1)


def trend_of(node: p.PhysicalNode, place: int) -> int:
    """Return 1 if updates of a column only make it larger, -1 if only smaller, 0 if that is not known."""
    if isinstance(node, p.Calc):
        expression = node.expressions[place]
        return trend_of(node.input, expression.index) if isinstance(expression, InputRef) else 0
    if isinstance(node, p.GroupAggregate) and place >= len(node.keys) and kinds_of(node.input).insert_only:
        return {"COUNT": 1, "MAX": 1, "MIN": -1}.get(node.calls[place - len(node.keys)].function, 0)
    return 0


def _lookup(node: p.LookupJoin, before: bool | None) -> Inputs:
    if before is False and (node.condition is not None or not upsert_keys(node)):
        return None
    return _forward(node, before)


def _process(node: p.ProcessTableNode, before: bool | None) -> Inputs:
    """Give each table what the function says that it takes: with -U, or updates by the key of PARTITION BY."""
    wants = []
    for place, child in enumerate(node.inputs):
        wants.append((child, input_needs_before(node, place, upsert_keys(child))))
    found = _all(wants)
    return found if found is not None else _full(node, before)


def _to_changelog(node: p.ToChangelogNode, before: bool | None) -> Inputs:
    """Need -U unless it is left out of the rows anyway, or rows are dealt by the key of updates."""
    by_key = frozenset(node.partition) in upsert_keys(node.input) if node.partition else False
    if node.codes[1] is None or by_key:
        found = _all([(node.input, False)])
        if found is not None:
            return found
    return _full(node, before)


def _normalize(node: p.ChangelogNormalize, before: bool | None) -> Inputs:
    return _all([(node.input, False)])


_METHODS: dict[type, Callable[[Any, bool | None], Inputs]] = {
    p.Calc: _calc,
    p.ChangelogNormalize: _normalize,
    p.CorrelateNode: _correlate,
    p.GroupAggregate: _full,
    p.GroupTableAggregate: _table_aggregate,
    p.Limit: _full,
    p.LookupJoin: _lookup,
    p.OverAggregate: _over,
    p.ProcessTableNode: _process,
    p.Rank: _rank,
    p.RegularJoin: _join,
    p.SortLimit: _full,
    p.TemporalJoin: _left_only,
    p.ToChangelogNode: _to_changelog,
    p.WindowAggregate: _full,
}


# --- sinks


def assign_sink(sink: p.SinkNode) -> p.SinkNode:
    """Return a sink whose plan has modes, with what has to stand between them.

    Raises:
        ValidationError: If the sink cannot take what the query gives.
    """
    kinds = kinds_of(sink.input)
    accepted = sink.accepted
    wanted = (
        "update and delete" if kinds.updates and kinds.deletes else "update" if kinds.updates else "delete"
    )
    if (kinds.updates and not accepted.updates) or (kinds.deletes and not accepted.deletes):
        name = "the result" if sink.table is None else f'table "{sink.table.full_name}"'
        producer = operator_text(_producer(sink.input))
        raise ValidationError(
            f"{name} does not support consuming {wanted} changes, which are produced by node {producer}",
            hint="Write to a table that takes updates (one with a PRIMARY KEY, such as upsert-kafka or jdbc), or "
            "aggregate by windows.",
        )
    if not kinds.updates or accepted.before:
        return _given(sink, before=True)
    if sink.table is not None and _needs_full(sink):
        return _given(sink, before=True)
    by_key = assign_modes(sink.input, before=False)
    return _given(sink, before=True) if by_key is None else _ended(sink, by_key)


def _needs_full(sink: p.SinkNode) -> bool:
    """Whether the sink's key is another one than those by which changes come."""
    key = sink_key(sink)
    return bool(key) and frozenset(key) not in upsert_keys(sink.input)


def sink_key(sink: p.SinkNode) -> tuple[int, ...]:
    """Return the places of a sink's primary key in what it gets."""
    if sink.table is None:
        return ()
    names = sink.table.write_schema.names
    return tuple(names.index(name) for name in sink.table.primary_key)


def _given(sink: p.SinkNode, *, before: bool) -> p.SinkNode:
    source = assign_modes(sink.input, before=before)
    assert source is not None, "-U can always be given"
    return _ended(sink, source)


def _ended(sink: p.SinkNode, source: p.PhysicalNode) -> p.SinkNode:
    return replace(sink, input=source, mode=source.mode)
