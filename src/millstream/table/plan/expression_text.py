"""Typed expressions as text, as Flink's plans show them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from millstream.table.expressions.rex import AggregateCall, Call, InputRef, Literal, RowExpression, SortKey
from millstream.types.datatypes import VarCharType
from millstream.types.further_types import DayTimeIntervalType, YearMonthIntervalType

__all__ = ["call_text", "expression_text", "order_text"]

_INFIX = frozenset(
    (
        "+",
        "-",
        "+ INTERVAL",
        "- INTERVAL",
        "*",
        "/",
        "%",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "||",
        "LIKE",
        "SIMILAR TO",
    )
)


def expression_text(expression: RowExpression, names: Sequence[str]) -> str:
    """Return an expression as text.

    Args:
        expression: Over columns.
        names: Of the columns.
    """
    if isinstance(expression, InputRef):
        return names[expression.index] if expression.index < len(names) else f"${expression.index}"
    if isinstance(expression, Literal):
        return _literal(expression)
    return _call(expression, names)


def _literal(literal: Literal) -> str:
    value: Any = literal.value
    if value is None:
        return f"null:{str(literal.type).removesuffix(' NOT NULL')}"
    if isinstance(literal.type, (DayTimeIntervalType, YearMonthIntervalType)):
        return f"{value}:{literal.type}".removesuffix(" NOT NULL")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(literal.type, VarCharType):
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return str(value)
    return str(value)


def _call(call: Call, names: Sequence[str]) -> str:
    parts = [expression_text(each, names) for each in call.operands]
    name = call.function
    if name in _INFIX and len(parts) >= 2:
        return "(" + f" {name.removesuffix(' INTERVAL')} ".join(parts) + ")"
    if name.startswith("IS ") and len(parts) == 1:
        return f"{parts[0]} {name}"
    if name.startswith("IS ") and len(parts) == 2:
        return f"({parts[0]} {name} {parts[1]})"
    if name == "NEGATE":
        return f"-{parts[0]}"
    if name in ("CAST", "TRY_CAST"):
        return f"{name}({parts[0]} AS {str(call.type).removesuffix(' NOT NULL')})"
    if name == "FIELD":
        return f"{parts[0]}.{parts[1][1:-1]}"
    if name == "ITEM":
        return f"{parts[0]}[{parts[1]}]"
    if name == "IN":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    return f"{name}({', '.join(parts)})"


def call_text(call: AggregateCall, names: Sequence[str]) -> str:
    """Return an aggregate as text."""
    arguments = ", ".join(names[each] for each in call.arguments) or "*"
    if not call.arguments and call.function not in ("COUNT",):
        arguments = ""
    distinct = "DISTINCT " if call.distinct else ""
    nulls = f" {call.nulls}" if call.nulls else ""
    text = f"{call.function}({distinct}{arguments}{nulls})"
    if call.order:
        text += f" WITHIN GROUP ({order_text(call.order, names)})"
    return text if call.filter is None else f"{text} FILTER {names[call.filter]}"


def order_text(keys: Sequence[SortKey], names: Sequence[str]) -> str:
    """Return sort keys as text."""
    return ", ".join(f"{names[key.index]} {'DESC' if key.descending else 'ASC'}" for key in keys)
