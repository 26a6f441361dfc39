"""Operators as text: Flink's names with what they do, `GroupAggregate(groupBy=[k], select=[k, SUM(v) AS s])`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.table.expressions.rex import AggregateCall, RowExpression, RowSchema, conjuncts
from millstream.table.plan import physical as p
from millstream.table.plan.expression_text import call_text, expression_text, order_text
from millstream.table.plan.logical import JoinKind, OverFrame, WindowKind
from millstream.table.plan.matching import Navigation
from millstream.table.plan.processing import ProcessClause

__all__ = ["invocation_text", "operator_text", "window_text"]

Details = list[tuple[str, str]]


def operator_text(node: p.PhysicalNode, more: Details | None = None) -> str:
    """Return an operator's line.

    Args:
        node: The operator.
        more: Further details.
    """
    name, details = _METHODS[type(node)](node)
    return f"{name}({', '.join(f'{key}=[{value}]' for key, value in [*details, *(more or [])])})"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


def _fields(names: Sequence[str], places: Sequence[int]) -> str:
    return _list([names[each] for each in places])


def _as(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {name}"


def _scan(node: p.TableScan) -> tuple[str, Details]:
    path = _list(node.table.identifier)
    read = node.schema.names
    whole = tuple(read) == tuple(node.table.schema.names)
    table = path if whole else f"{path}, project=[{_list(read)}]"
    return "TableSourceScan", [("table", f"[{table}]"), ("fields", _list(read))]


def _stream(node: p.DataStreamScan) -> tuple[str, Details]:
    return "DataStreamScan", [("fields", _list(node.schema.names))]


def _values(node: p.ValuesNode) -> tuple[str, Details]:
    rows = ["{ " + _list([expression_text(each, ()) for each in row]) + " }" for row in node.rows]
    return "Values", [("tuples", f"[{_list(rows)}]")]


def _watermarks(node: p.WatermarkAssigner) -> tuple[str, Details]:
    names = node.input.schema.names
    return "WatermarkAssigner", [
        ("rowtime", names[node.column]),
        ("watermark", expression_text(node.expression, names)),
    ]


def _calc(node: p.Calc) -> tuple[str, Details]:
    below = node.input.schema.names
    select = [
        _as(expression_text(each, below), name)
        for each, name in zip(node.expressions, node.schema.names, strict=True)
    ]
    details = [("select", _list(select))]
    if node.condition is not None:
        details.append(("where", _condition(node.condition, below)))
    return "Calc", details


def _condition(condition: RowExpression, names: Sequence[str]) -> str:
    parts = [expression_text(each, names) for each in conjuncts(condition)]
    return parts[0] if len(parts) == 1 else "(" + " AND ".join(parts) + ")"


def _aggregated(names: Sequence[str], below: Sequence[str], keys: int, calls: Sequence[AggregateCall]) -> str:
    select = list(names[:keys])
    select += [_as(call_text(call, below), names[keys + place]) for place, call in enumerate(calls)]
    return _list(select)


def _aggregate(node: p.GroupAggregate) -> tuple[str, Details]:
    below = node.input.schema.names
    details = [("groupBy", _fields(below, node.keys))] if node.keys else []
    select = _aggregated(node.schema.names, below, len(node.keys), node.calls)
    return "GroupAggregate", [*details, ("select", select)]


def _table_aggregate(node: p.GroupTableAggregate) -> tuple[str, Details]:
    below = node.input.schema.names
    details = [("groupBy", _fields(below, node.keys))] if node.keys else []
    given = node.schema.names[len(node.keys) :]
    select = [*node.schema.names[: len(node.keys)], f"{call_text(node.call, below)} AS ({_list(given)})"]
    return "GroupTableAggregate", [*details, ("select", _list(select))]


def window_text(window: p.Window, names: Sequence[str], attached: tuple[int, int] | None = None) -> str:
    """Return a window as text."""
    if attached is not None:
        head = f"win_start=[{names[attached[0]]}], win_end=[{names[attached[1]]}]"
    else:
        head = f"time_col=[{names[window.time]}]"
    size = _duration(window.size_ms)
    if window.kind is WindowKind.SESSION:
        partition = f", partition keys=[{_fields(names, window.partition)}]" if window.partition else ""
        return f"SESSION({head}, gap=[{size}]{partition})"
    parts = [head]
    if window.kind is WindowKind.TUMBLE:
        parts.append(f"size=[{size}]")
    elif window.kind is WindowKind.HOP:
        parts += [f"size=[{size}]", f"slide=[{_duration(window.slide_ms)}]"]
    else:
        parts += [f"max_size=[{size}]", f"step=[{_duration(window.slide_ms)}]"]
    if window.offset_ms:
        parts.append(f"offset=[{_duration(window.offset_ms)}]")
    return f"{window.kind.value}({', '.join(parts)})"


def _duration(ms: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms and ms % unit == 0:
            return f"{ms // unit} {name}"
    return f"{ms} ms"


def _window_table(node: p.WindowTable) -> tuple[str, Details]:
    return "WindowTableFunction", [("window", window_text(node.window, node.input.schema.names))]


def _window_aggregate(node: p.WindowAggregate) -> tuple[str, Details]:
    below = node.input.schema.names
    details = [("groupBy", _fields(below, node.keys))] if node.keys else []
    details.append(("window", window_text(node.window, below, node.attached)))
    select = _aggregated(node.schema.names, below, len(node.keys), node.calls)
    start = len(node.keys) + len(node.calls)
    properties = [f"{each} AS {node.schema.names[start + i]}" for i, each in enumerate(node.properties)]
    name = "GroupWindowAggregate" if node.grouped else "WindowAggregate"
    return name, [*details, ("select", _list([each for each in (select, *properties) if each]))]


def _frame(frame: OverFrame) -> str:
    kind = "ROWS" if frame.rows else "RANGE"
    return f"{kind} BETWEEN {_side(frame.preceding, 'PRECEDING')} AND {_side(frame.following, 'FOLLOWING')}"


def _side(amount: int | None, word: str) -> str:
    if amount is None:
        return f"UNBOUNDED {word}"
    return "CURRENT ROW" if amount == 0 else f"{amount} {word}"


def _over(node: p.OverAggregate) -> tuple[str, Details]:
    below = node.input.schema.names
    details = [("partitionBy", _fields(below, node.partition))] if node.partition else []
    details.append(("orderBy", order_text(node.order, below)))
    details.append(("window", _frame(node.frame)))
    results = [
        _as(call_text(call, below), node.schema.names[len(below) + place])
        for place, call in enumerate(node.calls)
    ]
    return "OverAggregate", [*details, ("select", _list([*below, *results]))]


def _match(node: p.MatchNode) -> tuple[str, Details]:
    clause, below = node.clause, node.input.schema.names
    names = (*below, *(_navigation(each, below) for each in clause.navigations))
    measures = [
        f"{expression_text(each, names)} AS {name}"
        for each, name in zip(clause.measures, node.schema.names[len(clause.partition) :], strict=True)
    ]
    defines = [f"{each.variable}={expression_text(each.condition, names)}" for each in clause.defines]
    details = [("partitionBy", _fields(below, clause.partition))] if clause.partition else []
    return "Match", [
        *details,
        ("orderBy", order_text(clause.order, below)),
        ("measures", _list(measures)),
        ("rowsPerMatch", "ONE ROW PER MATCH"),
        ("after", clause.skip_text),
        ("pattern", clause.pattern_text),
        ("define", "{" + _list(defines) + "}"),
    ]


def _navigation(navigation: Navigation, below: Sequence[str]) -> str:
    if navigation.function == "ROWTIME":
        return "MATCH_ROWTIME()"
    column = "*" if navigation.column is None else below[navigation.column]
    argument = f"{navigation.variable}.{column}" if navigation.variable else column
    if navigation.function in ("FIRST", "LAST"):
        argument += f", {navigation.offset}"
    return f"{navigation.function}({argument})"


def _rank(node: Any) -> tuple[str, Details]:
    below = node.input.schema.names
    end = (
        f"rankEnd={below[node.end_column]}"
        if getattr(node, "end_column", None) is not None
        else f"rankStart={node.start}, rankEnd={node.end}"
    )
    details = [
        (
            "strategy",
            "RetractStrategy" if getattr(node.input.mode, "updates", False) else "AppendFastStrategy",
        ),
        ("rankType", getattr(node, "function", "ROW_NUMBER")),
        ("rankRange", end),
        ("partitionBy", _fields(below, node.partition)),
        ("orderBy", order_text(node.order, below)),
        ("select", _list(node.schema.names)),
    ]
    if isinstance(node, p.WindowRank):
        start, stop = node.window
        details[0] = ("window", f"win_start=[{below[start]}], win_end=[{below[stop]}]")
        return "WindowRank", details
    return "Rank", details


def _deduplicate(node: p.Deduplicate) -> tuple[str, Details]:
    below = node.input.schema.names
    return "Deduplicate", [
        ("keep", "LastRow" if node.keep_last else "FirstRow"),
        ("key", _fields(below, node.keys)),
        ("order", "ROWTIME" if node.rowtime else "PROCTIME"),
        ("outputInsertOnly", str(not node.keep_last).lower()),
    ]


def _window_deduplicate(node: p.WindowDeduplicate) -> tuple[str, Details]:
    below = node.input.schema.names
    start, end = node.window
    return "WindowDeduplicate", [
        ("window", f"win_start=[{below[start]}], win_end=[{below[end]}]"),
        ("keep", "LastRow" if node.keep_last else "FirstRow"),
        ("partitionKeys", _fields(below, node.keys)),
        ("orderKey", below[node.time]),
    ]


_JOIN_TYPES = {
    JoinKind.INNER: "InnerJoin",
    JoinKind.LEFT: "LeftOuterJoin",
    JoinKind.RIGHT: "RightOuterJoin",
    JoinKind.FULL: "FullOuterJoin",
    JoinKind.SEMI: "LeftSemiJoin",
    JoinKind.ANTI: "LeftAntiJoin",
}


def _join_condition(node: Any) -> str:
    left, right = node.left.schema.names, node.right.schema.names
    null_safe = getattr(node, "null_safe", ())
    parts = []
    for place, (one, two) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
        safe = bool(null_safe) and null_safe[place]
        parts.append(f"({left[one]} {'IS NOT DISTINCT FROM' if safe else '='} {right[two]})")
    parts += [expression_text(each, (*left, *right)) for each in conjuncts(node.condition)]
    if not parts:
        return "true"
    return parts[0] if len(parts) == 1 else "(" + " AND ".join(parts) + ")"


def _side_spec(node: p.PhysicalNode, keys: Sequence[int]) -> str:
    from millstream.table.plan.keys import unique_keys

    known = unique_keys(node)
    if any(key <= frozenset(keys) for key in known):
        return "JoinKeyContainsUniqueKey"
    return "HasUniqueKey" if known else "NoUniqueKey"


def _join(node: p.RegularJoin) -> tuple[str, Details]:
    return "Join", [
        ("joinType", _JOIN_TYPES[node.kind]),
        ("where", _join_condition(node)),
        ("select", _list(node.schema.names)),
        ("leftInputSpec", _side_spec(node.left, node.left_keys)),
        ("rightInputSpec", _side_spec(node.right, node.right_keys)),
    ]


def _interval_join(node: p.IntervalJoin) -> tuple[str, Details]:
    bounds = (
        f"isRowTime={str(node.rowtime).lower()}, leftLowerBound={-node.upper_ms}, leftUpperBound={-node.lower_ms}, "
        f"leftTimeIndex={node.left_time}, rightTimeIndex={node.right_time}"
    )
    return "IntervalJoin", [
        ("joinType", _JOIN_TYPES[node.kind]),
        ("windowBounds", bounds),
        ("where", _join_condition(node)),
        ("select", _list(node.schema.names)),
    ]


def _window_join(node: p.WindowJoin) -> tuple[str, Details]:
    left, right = node.left.schema.names, node.right.schema.names
    return "WindowJoin", [
        ("leftWindow", f"win_start=[{left[node.left_window[0]]}], win_end=[{left[node.left_window[1]]}]"),
        (
            "rightWindow",
            f"win_start=[{right[node.right_window[0]]}], win_end=[{right[node.right_window[1]]}]",
        ),
        ("joinType", _JOIN_TYPES[node.kind]),
        ("where", _join_condition(node)),
        ("select", _list(node.schema.names)),
    ]


def _temporal_join(node: p.TemporalJoin) -> tuple[str, Details]:
    return "TemporalJoin", [
        ("joinType", _JOIN_TYPES[node.kind]),
        ("where", _join_condition(node)),
        ("select", _list(node.schema.names)),
    ]


def _lookup_join(node: p.LookupJoin) -> tuple[str, Details]:
    below, found = node.input.schema.names, node.table.schema.names
    lookup = [
        f"{found[theirs]}={below[mine]}" for mine, theirs in zip(node.keys, node.table_keys, strict=True)
    ]
    details = [
        ("table", ".".join(node.table.identifier)),
        ("joinType", _JOIN_TYPES[node.kind]),
        ("lookup", _list(lookup)),
        ("select", _list(node.schema.names)),
    ]
    if node.condition is not None:
        details.append(("joinCondition", _condition(node.condition, (*below, *node.right.names))))
    return "LookupJoin", details


def _union(node: p.Union) -> tuple[str, Details]:
    return "Union", [("all", "true"), ("union", _list(node.schema.names))]


def _sort_limit(node: p.SortLimit) -> tuple[str, Details]:
    return "SortLimit", [
        ("orderBy", order_text(node.keys, node.schema.names)),
        ("offset", str(node.offset)),
        ("fetch", str(node.fetch)),
    ]


def _limit(node: p.Limit) -> tuple[str, Details]:
    fetch = [] if node.fetch is None else [("fetch", str(node.fetch))]
    return "Limit", [("offset", str(node.offset)), *fetch]


def _temporal_sort(node: p.TemporalSort) -> tuple[str, Details]:
    names = node.schema.names
    rest = order_text(node.rest, names)
    return "TemporalSort", [("orderBy", f"{names[node.time]} ASC" + (f", {rest}" if rest else ""))]


def _sort(node: p.SortNode) -> tuple[str, Details]:
    return "Sort", [("orderBy", order_text(node.keys, node.schema.names))]


def _normalize(node: p.ChangelogNormalize) -> tuple[str, Details]:
    condition = (
        [] if node.condition is None else [("condition", _condition(node.condition, node.schema.names))]
    )
    return "ChangelogNormalize", [("key", _fields(node.schema.names, node.key)), *condition]


def _drop(node: p.DropUpdateBefore) -> tuple[str, Details]:
    return "DropUpdateBefore", []


def _correlate(node: p.CorrelateNode) -> tuple[str, Details]:
    below = node.input.schema.names
    return "Correlate", [
        ("invocation", expression_text(node.call, below)),
        ("select", _list(node.schema.names)),
        ("joinType", "INNER" if node.kind is JoinKind.INNER else "LEFT"),
    ]


def _expand(node: p.ExpandNode) -> tuple[str, Details]:
    below = node.input.schema.names
    sets = ["{" + _fields(below, chosen) + "}" for chosen in node.sets]
    return "Expand", [("projects", _list(sets))]


def _sink(node: p.SinkNode) -> tuple[str, Details]:
    name = "*anonymous_collect$1*" if node.table is None else ".".join(node.table.identifier)
    details = [("table", name), ("fields", _list(node.input.schema.names))]
    if node.materialize:
        details.append(("upsertMaterialize", "true"))
    if node.materialize and node.conflict:
        details.append(("conflictStrategy", node.conflict))
    return "Sink", details


def invocation_text(clause: ProcessClause, schemas: Sequence[RowSchema]) -> str:
    """Return a call of a process table function as text."""
    parts, tables = [], 0
    for argument, value in zip(clause.signature.arguments, clause.values, strict=True):
        if argument.is_table:
            table, names = clause.tables[tables], schemas[tables].names
            text = f"TABLE(#{tables})"
            if table.partition:
                text += f" PARTITION BY({_fields(names, table.partition)})"
            if table.order:
                text += f" ORDER BY({order_text(table.order, names)})"
            parts.append(text)
            tables += 1
        else:
            parts.append("DEFAULT()" if value is None else expression_text(value, ()))
    times = [
        schema.names[table.time]
        for table, schema in zip(clause.tables, schemas, strict=True)
        if table.time is not None
    ]
    parts.append(f"DESCRIPTOR({_list([repr(each) for each in times])})" if times else "DEFAULT()")
    parts.append(f"'{clause.uid}'")
    return f"{clause.function.name}({', '.join(parts)})"


def _process(node: p.ProcessTableNode) -> tuple[str, Details]:
    return "ProcessTableFunction", [
        ("invocation", invocation_text(node.clause, [each.schema for each in node.inputs])),
        ("uid", node.clause.uid),
        ("select", _list(node.schema.names)),
    ]


def _to_changelog(node: p.ToChangelogNode) -> tuple[str, Details]:
    names = node.input.schema.names
    partition = f" PARTITION BY({_fields(names, node.partition)})" if node.partition else ""
    op = node.schema.names[len(node.partition)]
    return "ProcessTableFunction", [
        ("invocation", f"TO_CHANGELOG(TABLE(#0){partition}, DESCRIPTOR({op!r}))"),
        ("select", _list(node.schema.names)),
    ]


def _from_changelog(node: p.FromChangelogNode) -> tuple[str, Details]:
    names = node.input.schema.names
    partition = f" PARTITION BY({_fields(names, node.partition)})" if node.partition else ""
    return "ProcessTableFunction", [
        ("invocation", f"FROM_CHANGELOG(TABLE(#0){partition}, DESCRIPTOR({names[node.op]!r}))"),
        ("select", _list(node.schema.names)),
    ]


_METHODS: dict[type, Callable[[Any], tuple[str, Details]]] = {
    p.Calc: _calc,
    p.ChangelogNormalize: _normalize,
    p.CorrelateNode: _correlate,
    p.DataStreamScan: _stream,
    p.Deduplicate: _deduplicate,
    p.DropUpdateBefore: _drop,
    p.ExpandNode: _expand,
    p.FromChangelogNode: _from_changelog,
    p.GroupAggregate: _aggregate,
    p.GroupTableAggregate: _table_aggregate,
    p.IntervalJoin: _interval_join,
    p.Limit: _limit,
    p.LookupJoin: _lookup_join,
    p.MatchNode: _match,
    p.OverAggregate: _over,
    p.ProcessTableNode: _process,
    p.Rank: _rank,
    p.RegularJoin: _join,
    p.SinkNode: _sink,
    p.SortLimit: _sort_limit,
    p.SortNode: _sort,
    p.TableScan: _scan,
    p.TemporalJoin: _temporal_join,
    p.TemporalSort: _temporal_sort,
    p.ToChangelogNode: _to_changelog,
    p.Union: _union,
    p.ValuesNode: _values,
    p.WatermarkAssigner: _watermarks,
    p.WindowAggregate: _window_aggregate,
    p.WindowDeduplicate: _window_deduplicate,
    p.WindowJoin: _window_join,
    p.WindowRank: _rank,
    p.WindowTable: _window_table,
}
