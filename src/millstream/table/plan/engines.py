"""Which engine computes an operator: Arrow's kernels, or Python functions of the user."""

from __future__ import annotations

from typing import Any

from millstream.table.expressions.rex import AggregateCall, Call, RowExpression
from millstream.table.plan import physical as p

__all__ = ["engine_of"]


def engine_of(node: p.PhysicalNode) -> str:
    """Return what computes an operator's expressions and aggregates; empty if it has none."""
    if isinstance(node, p.Calc):
        parts = [*node.expressions, *([] if node.condition is None else [node.condition])]
        return _named({kind for each in parts for kind in _kinds(each)})
    if isinstance(node, p.CorrelateNode):
        return _named(set(_kinds(node.call)))
    if isinstance(node, (p.GroupAggregate, p.WindowAggregate, p.OverAggregate)):
        return _named({_of_call(each) for each in node.calls})
    if isinstance(node, p.GroupTableAggregate):
        return _named({_of_call(node.call)})
    return ""


def _named(kinds: set[str]) -> str:
    return "" if not kinds else "computed by " + ", ".join(sorted(kinds))


def _kinds(expression: RowExpression) -> list[str]:
    if not isinstance(expression, Call):
        return []
    below = [kind for operand in expression.operands for kind in _kinds(operand)]
    return [_of_user(expression.user_function) if expression.user_function else "arrow", *below]


def _of_user(function: Any) -> str:
    kind = getattr(function, "func_type", "general")
    return "python (row by row)" if kind == "general" else f"python ({kind})"


def _of_call(call: AggregateCall) -> str:
    return _of_user(call.user_function) if call.user_function else "numpy"
