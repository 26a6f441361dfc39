"""EXPLAIN: plans as text, in Flink's sections.

The names of operators and what they show are Flink's, so that plans can be compared; layout of expressions is ours.
Details: `CHANGELOG_MODE`, `ESTIMATED_COST`, `JSON_EXECUTION_PLAN`, `PLAN_ADVICE`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.table.plan import physical as p
from millstream.table.plan.advice import advice_of
from millstream.table.plan.context import PlanContext
from millstream.table.plan.engines import engine_of
from millstream.table.plan.exchanges import exchanges_of
from millstream.table.plan.explain_logical import logical_text
from millstream.table.plan.explain_names import operator_text
from millstream.table.plan.keys import upsert_keys
from millstream.table.plan.modes import assign_modes
from millstream.table.plan.planner import Planned

__all__ = ["DETAILS", "explain"]

DETAILS = ("CHANGELOG_MODE", "ESTIMATED_COST", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")


def explain(planned: Sequence[Planned], context: PlanContext, details: Sequence[str] = ()) -> str:
    """Return plans as text.

    Args:
        planned: The plans of queries and INSERTs.
        context: Their surroundings.
        details: Of `DETAILS`.

    Raises:
        ConfigurationError: If there is no such detail.
    """
    wanted = [each.upper() for each in details]
    for each in wanted:
        if each not in DETAILS:
            raise ConfigurationError(
                f'EXPLAIN was asked for "{each}"', detail=f"Details are: {', '.join(DETAILS)}."
            )
    advised = "PLAN_ADVICE" in wanted
    sections = [
        ("Abstract Syntax Tree", "\n".join(_logical(each) for each in planned)),
        (
            "Optimized Physical Plan With Advice" if advised else "Optimized Physical Plan",
            "\n".join(_physical(each, wanted) for each in planned),
        ),
        ("Optimized Execution Plan", "\n".join(_execution(each, context) for each in planned)),
    ]
    if advised:
        plan, text = sections[1]
        sections[1] = (plan, text + "\n" + _advice(planned, context))
    if "JSON_EXECUTION_PLAN" in wanted:
        sections.append(("Physical Execution Plan", json_plan(planned)))
    return "\n\n".join(f"== {title} ==\n{text.rstrip()}" for title, text in sections) + "\n"


# --- trees


def _tree(root: Any, children: Callable[[Any], Sequence[Any]], line: Callable[[Any], str]) -> str:
    lines: list[str] = []

    def add(node: Any, first: str, rest: str) -> None:
        lines.append(first + line(node))
        below = children(node)
        for place, child in enumerate(below):
            last = place == len(below) - 1
            add(child, rest + ("+- " if last else ":- "), rest + ("   " if last else ":  "))

    add(root, "", "")
    return "\n".join(lines) + "\n"


def _logical(planned: Planned) -> str:
    return _tree(planned.logical, lambda node: node.inputs, logical_text)


def _shown(planned: Planned) -> p.PhysicalNode:
    """Return what is shown of a plan: of queries the relation, as a consumer would get it that takes updates by key."""
    sink = planned.physical
    if sink.table is not None:
        return sink
    return assign_modes(sink.input, before=False) or sink.input


def _children(node: Any) -> Sequence[Any]:
    if isinstance(node, Exchange):
        return (node.input,)
    return [
        child if text is None else Exchange(text, child)
        for child, text in zip(node.inputs, exchanges_of(node), strict=True)
    ]


class Exchange:
    """Stands for how rows are dealt."""

    def __init__(self, text: str, source: p.PhysicalNode) -> None:
        self.text = text
        self.input = source


def _physical(planned: Planned, wanted: Sequence[str]) -> str:
    def line(node: Any) -> str:
        mode = (node.input if isinstance(node, Exchange) else node).mode
        more = []
        if "CHANGELOG_MODE" in wanted and mode is not None:
            shown = "NONE" if isinstance(node, p.SinkNode) else str(mode)
            more.append(("changelogMode", shown))
        if isinstance(node, Exchange):
            return f"Exchange({', '.join(f'{key}=[{value}]' for key, value in [('distribution', node.text), *more])})"
        keys = upsert_keys(node)
        if "CHANGELOG_MODE" in wanted and keys and not isinstance(node, p.SinkNode):
            more.append(("upsertKeys", _keys_text(node, keys)))
        text = operator_text(node, more)
        return (
            text + ": rowcount = unknown, cumulative cost = {unknown}" if "ESTIMATED_COST" in wanted else text
        )

    return _tree(_shown(planned), _children, line)


def _keys_text(node: p.PhysicalNode, keys: Any) -> str:
    names = node.schema.names
    found = sorted((sorted(key) for key in keys), key=lambda key: (len(key), key))
    return ", ".join("{" + ", ".join(names[each] for each in key) + "}" for key in found)


def _execution(planned: Planned, context: PlanContext) -> str:
    del context

    def line(node: Any) -> str:
        if isinstance(node, Exchange):
            return f"Exchange(distribution=[{node.text}])"
        engine = engine_of(node)
        return operator_text(node) + (f"  -- {engine}" if engine else "")

    return _tree(_shown(planned), _children, line)


def _advice(planned: Sequence[Planned], context: PlanContext) -> str:
    found = [advice for each in planned for advice in advice_of(_shown(each), context)]
    unique = list(dict.fromkeys(found))
    if not unique:
        return "\nNo available advice..."
    return "\n" + "\n".join(f"advice[{place}]: {text}" for place, text in enumerate(unique, 1))


# --- JSON


def json_plan(planned: Sequence[Planned]) -> str:
    """Return operators as JSON, as Flink's JSON_EXECUTION_PLAN has them: nodes with ids, and predecessors."""
    nodes: list[dict[str, Any]] = []
    for each in planned:
        _number(_shown(each), nodes)
    return json.dumps({"nodes": nodes}, indent=2)


def _number(node: p.PhysicalNode, nodes: list[dict[str, Any]]) -> int:
    ships = ["FORWARD" if text is None else text.upper().split("[")[0] for text in exchanges_of(node)]
    before = [
        {"id": _number(child, nodes), "ship_strategy": ship, "side": "second" if place else "first"}
        for place, (child, ship) in enumerate(zip(node.inputs, ships, strict=True))
    ]
    text = operator_text(node)
    found: dict[str, Any] = {
        "id": len(nodes) + 1,
        "type": text.split("(", maxsplit=1)[0],
        "pact": "Operator" if before else "Data Source",
        "contents": text,
    }
    if before:
        found["predecessors"] = before
    nodes.append(found)
    return int(found["id"])
