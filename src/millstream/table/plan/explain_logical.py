"""Logical nodes as text, in the style of Flink's abstract syntax trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.table.expressions.rex import AggregateCall, InputRef, Literal, RowExpression
from millstream.table.plan import logical
from millstream.table.plan.explain_names import invocation_text
from millstream.table.plan.expression_text import expression_text

__all__ = ["logical_text"]


def logical_text(node: logical.LogicalNode) -> str:
    """Return a node's line."""
    method = _METHODS.get(type(node))
    return type(node).__name__ if method is None else method(node)


def _rex(expression: RowExpression) -> str:
    """Return an expression in prefix form, columns as `$0`."""
    if isinstance(expression, InputRef):
        return f"${expression.index}"
    if isinstance(expression, Literal):
        return expression_text(expression, ())
    parts = [_rex(each) for each in expression.operands]
    if expression.function in ("CAST", "TRY_CAST"):
        return f"{expression.function}({parts[0]}):{expression.type}"
    return f"{expression.function}({', '.join(parts)})"


def _set(places: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, places)) + "}"


def _call(call: AggregateCall) -> str:
    arguments = ", ".join(f"${each}" for each in call.arguments)
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments})"
    return text if call.filter is None else f"{text} FILTER ${call.filter}"


def _scan(node: logical.Scan) -> str:
    return f"LogicalTableScan(table=[[{', '.join(node.table.identifier)}]])"


def _stream(node: logical.StreamScan) -> str:
    name = getattr(node.stream, "name", "stream")
    return f"LogicalTableScan(table=[[{name}]])"


def _values(node: logical.Values) -> str:
    rows = ["{ " + ", ".join(map(_rex, row)) + " }" for row in node.rows]
    return f"LogicalValues(tuples=[[{', '.join(rows)}]])"


def _watermarks(node: logical.Watermarks) -> str:
    name = node.schema.names[node.column]
    return f"LogicalWatermarkAssigner(rowtime=[{name}], watermark=[{_rex(node.expression)}])"


def _project(node: logical.Project) -> str:
    columns = [
        f"{name}=[{_rex(each)}]" for name, each in zip(node.schema.names, node.expressions, strict=True)
    ]
    return f"LogicalProject({', '.join(columns)})"


def _filter(node: logical.Filter) -> str:
    return f"LogicalFilter(condition=[{_rex(node.condition)}])"


def _aggregate(node: logical.Aggregate) -> str:
    names = node.schema.names[len(node.keys) :]
    calls = [f"{name}=[{_call(call)}]" for name, call in zip(names, node.calls, strict=False)]
    kind = "LogicalAggregate" if node.window is None else f"LogicalWindowAggregate[{node.window.kind.value}]"
    return f"{kind}({', '.join([f'group=[{_set(node.keys)}]', *calls])})"


def _table_aggregate(node: logical.TableAggregate) -> str:
    return f"LogicalTableAggregate(group=[{_set(node.keys)}], tableAggregate=[[{_call(node.call)}]])"


def _expand(node: logical.Expand) -> str:
    return f"LogicalExpand(sets=[{', '.join(map(_set, node.sets))}])"


def _window(node: logical.WindowFunction) -> str:
    return (
        f"LogicalTableFunctionScan(invocation=[{node.kind.value}(DESCRIPTOR(${node.time}), {node.slide_ms}, "
        f"{node.size_ms})])"
    )


def _join(node: logical.Join) -> str:
    condition = "true" if node.condition is None else _rex(node.condition)
    return f"LogicalJoin(condition=[{condition}], joinType=[{node.kind.value.lower()}])"


def _snapshot(node: logical.Snapshot) -> str:
    return f"LogicalSnapshot(period=[{_rex(node.period)}])"


def _correlate(node: logical.Correlate) -> str:
    return f"LogicalCorrelate(invocation=[{_rex(node.call)}], joinType=[{node.kind.value.lower()}])"


def _over(node: logical.Over) -> str:
    groups = [
        f"window#{place}(partition {_set(group.partition)} "
        f"order by [{', '.join(str(key.index) for key in group.order)}] "
        f"aggs [{', '.join(map(_call, group.calls))}])"
        for place, group in enumerate(node.groups)
    ]
    return f"LogicalWindow({', '.join(groups)})"


def _match(node: logical.Match) -> str:
    clause = node.clause
    return (
        f"LogicalMatch(partition=[{_set(clause.partition)}], "
        f"order=[{', '.join(str(key.index) for key in clause.order)}], "
        f"outputFields=[{', '.join(node.schema.names)}], after=[{clause.skip_text}], "
        f"pattern=[{clause.pattern_text}])"
    )


def _process(node: logical.ProcessTable) -> str:
    text = invocation_text(node.clause, [each.schema for each in node.relations])
    return f"LogicalTableFunctionScan(invocation=[{text}])"


def _to_changelog(node: logical.ToChangelog) -> str:
    return "LogicalTableFunctionScan(invocation=[TO_CHANGELOG(TABLE(#0))])"


def _from_changelog(node: logical.FromChangelog) -> str:
    return "LogicalTableFunctionScan(invocation=[FROM_CHANGELOG(TABLE(#0))])"


def _sort(node: logical.Sort) -> str:
    keys = [f"${key.index} {'DESC' if key.descending else 'ASC'}" for key in node.keys]
    parts = [f"sort=[{', '.join(keys)}]"] if keys else []
    parts += [f"offset=[{node.offset}]"] if node.offset else []
    parts += [] if node.fetch is None else [f"fetch=[{node.fetch}]"]
    return f"LogicalSort({', '.join(parts)})"


def _set_operation(node: logical.SetOperation) -> str:
    return f"Logical{node.kind.capitalize()}(all=[{str(node.all).lower()}])"


def _sink(node: logical.Sink) -> str:
    name = ".".join(node.table.identifier)
    return f"LogicalSink(table=[{name}], fields=[{', '.join(node.schema.names)}])"


_METHODS: dict[type, Callable[[Any], str]] = {
    logical.Aggregate: _aggregate,
    logical.Correlate: _correlate,
    logical.Expand: _expand,
    logical.Filter: _filter,
    logical.FromChangelog: _from_changelog,
    logical.Join: _join,
    logical.Match: _match,
    logical.Over: _over,
    logical.ProcessTable: _process,
    logical.Project: _project,
    logical.Scan: _scan,
    logical.SetOperation: _set_operation,
    logical.Sink: _sink,
    logical.Snapshot: _snapshot,
    logical.Sort: _sort,
    logical.StreamScan: _stream,
    logical.TableAggregate: _table_aggregate,
    logical.ToChangelog: _to_changelog,
    logical.Values: _values,
    logical.Watermarks: _watermarks,
    logical.WindowFunction: _window,
}
