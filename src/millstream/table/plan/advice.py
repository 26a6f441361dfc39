"""PLAN_ADVICE: what may go wrong with a plan, or take much state."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.table.expressions.rex import Call, RowExpression
from millstream.table.functions.registry import is_deterministic
from millstream.table.plan import physical as p
from millstream.table.plan.build.windows import bounds_of
from millstream.table.plan.context import PlanContext
from millstream.table.plan.settings import PlanSettings

__all__ = ["advice_of"]


def advice_of(node: p.PhysicalNode, context: PlanContext) -> list[str]:
    """Return advice on a plan, each once."""
    settings = PlanSettings.of(context)
    found: list[str] = []
    for each in _walk(node):
        found += _state(each, settings)
        found += _windows(each)
        found += _materializer(each)
        found += _nondeterminism(each)
    return list(dict.fromkeys(found))


def _walk(node: p.PhysicalNode) -> Iterator[p.PhysicalNode]:
    yield node
    for each in node.inputs:
        yield from _walk(each)


_FOR_EVER = (
    p.GroupAggregate,
    p.GroupTableAggregate,
    p.RegularJoin,
    p.Rank,
    p.ChangelogNormalize,
    p.Deduplicate,
)


def _state(node: p.PhysicalNode, settings: PlanSettings) -> list[str]:
    if settings.ttl_ms is not None or not isinstance(node, _FOR_EVER):
        return []
    return [
        f"[ADVICE] You might want to set a time to live for state ('table.exec.state.ttl'): {type(node).__name__} "
        "keeps its rows for ever."
    ]


def _windows(node: p.PhysicalNode) -> list[str]:
    if not isinstance(node, p.GroupAggregate):
        return []
    bounds = bounds_of(node.input)
    if bounds is None or not {bounds.start, bounds.end} & set(node.keys):
        return []
    return [
        "[WARNING] The aggregation groups by one of window_start and window_end only, so it is no window aggregation: "
        "it updates results and keeps state for ever. Group by both."
    ]


def _materializer(node: p.PhysicalNode) -> list[str]:
    if not isinstance(node, p.SinkNode) or not node.materialize:
        return []
    return [
        "[WARNING] The query's upsert key differs from the sink's primary key, so a materializer before the sink keeps "
        "all rows of each primary key."
    ]


def _nondeterminism(node: p.PhysicalNode) -> list[str]:
    if not isinstance(node, p.Calc) or node.input.mode is None or node.input.mode.insert_only:
        return []
    names = {name for each in node.expressions for name in _volatile(each)}
    return [
        f"[WARNING] {name} gives another value when a row is retracted than when it was inserted, so its column may "
        "not be found again below. Compute it before rows are updated."
        for name in sorted(names)
    ]


def _volatile(expression: RowExpression) -> Iterator[str]:
    if isinstance(expression, Call):
        if not is_deterministic(expression):
            yield expression.function
        for each in expression.operands:
            yield from _volatile(each)
