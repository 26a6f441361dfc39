"""Trees back to text, in the form Flink shows expressions of tables in: names in backquotes, words in upper case."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

from millstream.table.sql import ast
from millstream.types import datatypes as sql

__all__ = ["quote_name", "quote_text", "type_text", "unparse"]

_STRENGTH = {
    "OR": 22,
    "AND": 24,
    "NOT": 26,
    "=": 30,
    "<>": 30,
    "<": 30,
    "<=": 30,
    ">": 30,
    ">=": 30,
    "IS DISTINCT FROM": 30,
    "IS NOT DISTINCT FROM": 30,
    "+": 40,
    "-": 40,
    "*": 60,
    "/": 60,
    "%": 60,
    "||": 60,
    "NEGATE": 80,
    "POSITIVE": 80,
}
_NILADIC = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")


def quote_name(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """Return a string in quotes."""
    return "'" + text.replace("'", "''") + "'"


def type_text(kind: sql.DataType) -> str:
    """Return a type as Flink writes it in CREATE TABLE.

    >>> type_text(sql.VarCharType(nullable=False))
    'VARCHAR(2147483647) NOT NULL'
    """
    end = "" if kind.nullable else " NOT NULL"
    if type(kind) is sql.VarCharType:
        return f"VARCHAR({kind.length}){end}"
    if type(kind) is sql.VarBinaryType:
        return f"VARBINARY({kind.length}){end}"
    if isinstance(kind, sql.LocalZonedTimestampType):
        return f"TIMESTAMP({kind.precision}) WITH LOCAL TIME ZONE{end}"
    if isinstance(kind, sql.ArrayType):
        return f"ARRAY<{type_text(kind.element_type)}>{end}"
    if isinstance(kind, sql.MapType):
        return f"MAP<{type_text(kind.key_type)}, {type_text(kind.value_type)}>{end}"
    if isinstance(kind, sql.RowType):
        fields = ", ".join(f"{quote_name(field.name)} {type_text(field.data_type)}" for field in kind.fields)
        return f"ROW<{fields}>{end}"
    return str(kind)


def unparse(expression: ast.Expression) -> str:
    """Return the text of an expression.

    Raises:
        TypeError: If it holds a query: those keep their own text.
    """
    return _text(expression, 0)


def _text(node: Any, outer: int) -> str:
    writer = _WRITERS.get(type(node))
    if writer is None:
        raise TypeError(f"{type(node).__name__} is not written back")
    text: str
    text, strength = writer(node)
    return f"({text})" if strength < outer else text


def _operator(node: ast.Operator) -> tuple[str, int]:
    strength = _STRENGTH.get(node.name, 30)
    if node.name in ("NEGATE", "POSITIVE"):
        return f"{'-' if node.name == 'NEGATE' else '+'}{_text(node.operands[0], strength)}", strength
    if node.name == "NOT":
        return f"NOT {_text(node.operands[0], strength)}", strength
    if len(node.operands) != 2:
        pairs = [f"({_list(node.operands[:2])})", f"({_list(node.operands[2:])})"]
        return f" {node.name} ".join(pairs), strength
    left, right = node.operands
    return f"{_text(left, strength)} {node.name} {_text(right, strength + 1)}", strength


def _literal(node: ast.LiteralValue) -> tuple[str, int]:
    value, kind = node.value, node.type
    if value is None:
        return "NULL", 100
    if isinstance(value, bool):
        return str(value).upper(), 100
    if isinstance(value, str):
        return quote_text(value), 100
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'", 100
    if isinstance(value, datetime.datetime):
        word = "TIMESTAMP_LTZ" if isinstance(kind, sql.LocalZonedTimestampType) else "TIMESTAMP"
        return f"{word} '{value.isoformat(sep=' ')}'", 100
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'", 100
    if isinstance(value, datetime.time):
        return f"TIME '{value.isoformat()}'", 100
    if isinstance(value, float):
        return f"{value:E}", 100
    if isinstance(value, decimal.Decimal):
        return f"{value:f}", 100
    return str(value), 100


def _interval(node: ast.IntervalLiteral) -> tuple[str, int]:
    sign = "-" if node.value < 0 else ""
    amount = abs(node.value)
    if node.months:
        unit = "YEAR" if amount % 12 == 0 and amount else "MONTH"
        count = str(amount // 12 if unit == "YEAR" else amount)
    else:
        units = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000))
        unit, size = next(((name, ms) for name, ms in units if amount and amount % ms == 0), ("SECOND", 1000))
        whole, rest = divmod(amount, size)
        count = str(whole) + (f".{rest:03d}" if rest else "")
    digits = len(count.partition(".")[0])
    precision = f"({digits})" if digits > 2 else ""
    return f"INTERVAL {sign}'{count}' {unit}{precision}", 100


def _function(node: ast.Function) -> tuple[str, int]:
    name = node.name.upper() if "." not in node.name else node.name
    if name in _NILADIC and not node.arguments:
        return name, 100
    arguments = node.arguments
    if name == "ITEM":
        return f"{_text(arguments[0], 90)}[{_text(arguments[1], 0)}]", 95
    if name == "FIELD":
        field = arguments[1]
        assert isinstance(field, ast.LiteralValue)
        return f"{_text(arguments[0], 90)}.{quote_name(field.value)}", 95
    if name in ("ARRAY", "MAP"):
        return f"{name}[{_list(arguments)}]", 100
    special = _SPECIAL.get(name)
    if special is not None and not node.clauses:
        return special(arguments), 100
    inside = "*" if node.star else ("DISTINCT " if node.distinct else "") + _list(arguments)
    shown = name if "." not in name else ".".join(map(quote_name, name.split(".")))
    text = f"{shown}({inside}{''.join(_clause(clause) for clause in node.clauses)})"
    if node.nulls:
        text += f" {node.nulls}"
    if node.order:
        text += f" WITHIN GROUP (ORDER BY {', '.join(map(_order, node.order))})"
    if node.filter is not None:
        text += f" FILTER (WHERE {_text(node.filter, 0)})"
    if node.over is not None:
        text += f" OVER {_window(node.over)}"
    return text, 100


def _unit(argument: ast.Expression) -> str:
    return str(argument.value) if isinstance(argument, ast.LiteralValue) else _text(argument, 0)


def _trim(arguments: Sequence[ast.Expression]) -> str:
    if len(arguments) != 3:
        return f"TRIM({_list(arguments)})"
    return f"TRIM({_unit(arguments[0])} {_text(arguments[1], 0)} FROM {_text(arguments[2], 0)})"


def _rounding(name: str, arguments: Sequence[ast.Expression]) -> str:
    if (
        len(arguments) == 2
        and isinstance(arguments[1], ast.LiteralValue)
        and isinstance(arguments[1].value, str)
    ):
        return f"{name}({_text(arguments[0], 0)} TO {arguments[1].value})"
    return f"{name}({_list(arguments)})"


def _with_unit(name: str, arguments: Sequence[ast.Expression]) -> str:
    texts = [_unit(arguments[0]), *(_text(each, 0) for each in arguments[1:])]
    return f"{name}({', '.join(texts)})"


_SPECIAL: dict[str, Any] = {
    "TRIM": _trim,
    "EXTRACT": lambda each: f"EXTRACT({_unit(each[0])} FROM {_text(each[1], 0)})",
    "POSITION": lambda each: f"POSITION({_text(each[0], 40)} IN {_text(each[1], 40)})",
    "FLOOR": lambda each: _rounding("FLOOR", each),
    "CEIL": lambda each: _rounding("CEIL", each),
    "TIMESTAMPADD": lambda each: _with_unit("TIMESTAMPADD", each),
    "TIMESTAMPDIFF": lambda each: _with_unit("TIMESTAMPDIFF", each),
}


def _clause(clause: tuple[str, Any]) -> str:
    name, value = clause
    if name == "RETURNING":
        return f" RETURNING {type_text(value)}"
    if name == "WRAPPER":
        return f" {value} ARRAY WRAPPER"
    if name.startswith("ON "):
        shown = f"DEFAULT {_text(value, 0)}" if isinstance(value, ast.Expression) else value
        return f" {shown} {name}"
    raise TypeError(f"clause {name} is not written back")


def _list(items: Sequence[ast.Expression]) -> str:
    return ", ".join(_text(item, 0) for item in items)


def _order(item: ast.OrderItem) -> str:
    text = _text(item.expression, 0) + (" DESC" if item.descending else "")
    if item.nulls_first is not None:
        text += f" NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return text


def _bound(bound: ast.FrameBound) -> str:
    if bound.current:
        return "CURRENT ROW"
    amount = "UNBOUNDED" if bound.amount is None else _text(bound.amount, 0)
    return f"{amount} {'FOLLOWING' if bound.following else 'PRECEDING'}"


def _window(window: ast.WindowSpec | str) -> str:
    if isinstance(window, str):
        return quote_name(window)
    parts = [quote_name(window.base)] if window.base else []
    if window.partition:
        parts.append(f"PARTITION BY {_list(window.partition)}")
    if window.order:
        parts.append(f"ORDER BY {', '.join(map(_order, window.order))}")
    if window.lower is not None:
        unit = "ROWS" if window.rows else "RANGE"
        frame = _bound(window.lower)
        if window.upper is not None:
            frame = f"BETWEEN {frame} AND {_bound(window.upper)}"
        parts.append(f"{unit} {frame}")
    return f"({' '.join(parts)})"


def _case(node: ast.Case) -> tuple[str, int]:
    operand = "" if node.operand is None else f" {_text(node.operand, 0)}"
    branches = "".join(f" WHEN {_text(when, 0)} THEN {_text(then, 0)}" for when, then in node.branches)
    default = "" if node.default is None else f" ELSE {_text(node.default, 0)}"
    return f"CASE{operand}{branches}{default} END", 100


def _cast(node: ast.Cast) -> tuple[str, int]:
    word = "TRY_CAST" if node.attempt else "CAST"
    return f"{word}({_text(node.operand, 0)} AS {type_text(node.type)})", 100


def _between(node: ast.Between) -> tuple[str, int]:
    words = ("NOT " if node.negated else "") + "BETWEEN" + (" SYMMETRIC" if node.symmetric else "")
    return f"{_text(node.operand, 33)} {words} {_text(node.low, 33)} AND {_text(node.high, 33)}", 32


def _like(node: ast.Like) -> tuple[str, int]:
    words = ("NOT " if node.negated else "") + ("SIMILAR TO" if node.similar else "LIKE")
    escape = "" if node.escape is None else f" ESCAPE {_text(node.escape, 33)}"
    return f"{_text(node.operand, 33)} {words} {_text(node.pattern, 33)}{escape}", 32


def _in(node: ast.InList) -> tuple[str, int]:
    return f"{_text(node.operand, 33)} {'NOT ' if node.negated else ''}IN ({_list(node.options)})", 32


def _is(node: ast.IsTest) -> tuple[str, int]:
    return f"{_text(node.operand, 29)} IS {'NOT ' if node.negated else ''}{node.test}", 28


_WRITERS: dict[type, Any] = {
    ast.Between: _between,
    ast.Case: _case,
    ast.Cast: _cast,
    ast.Column: lambda node: (".".join(map(quote_name, node.parts)), 100),
    ast.Descriptor: lambda node: (f"DESCRIPTOR({', '.join(map(quote_name, node.columns))})", 100),
    ast.Function: _function,
    ast.InList: _in,
    ast.IntervalLiteral: _interval,
    ast.IsTest: _is,
    ast.Like: _like,
    ast.LiteralValue: _literal,
    ast.NamedArgument: lambda node: (f"{quote_name(node.name)} => {_text(node.value, 0)}", 20),
    ast.Operator: _operator,
}
