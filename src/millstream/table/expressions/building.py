"""What the members of `Expression` are made of: nodes of `sql/ast.py`, and the text that Flink shows for them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any, Self

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.table.sql import ast
from millstream.types import datatypes as t
from millstream.types.row import Row

__all__ = ["Built", "literal_node", "node_of", "shown"]

_DAY_MS = 86_400_000


class Built:
    """An expression: a node, and how Flink shows it.

    Attributes:
        node: Of the tree that SQL texts make, too.
        names: Aliases; () without.
        order: What `asc` and `desc` made of it; else None.
    """

    node: ast.Expression
    names: tuple[str, ...]
    order: ast.OrderItem | None

    def __init__(
        self,
        node: ast.Expression,
        text: str = "",
        names: tuple[str, ...] = (),
        order: ast.OrderItem | None = None,
    ) -> None:
        self.node = node
        self.names = names
        self.order = order
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    def _of(self, node: ast.Expression, text: str) -> Self:
        return type(self)(node, text)

    def _call(self, function: str, name: str, *operands: Any) -> Self:
        """Return a call of a function; operands that are None at the end were left out.

        Args:
            function: Its name in SQL.
            name: How Flink shows it.
            operands: Expressions and values.
        """
        given = list(operands)
        while given and given[-1] is None:
            given.pop()
        node = ast.Function(function, tuple(map(node_of, given)))
        return self._of(node, f"{name}({', '.join(map(shown, given))})")

    def _operator(self, function: str, name: str, *operands: Any) -> Self:
        node = ast.Operator(function, tuple(map(node_of, operands)))
        return self._of(node, f"{name}({', '.join(map(shown, operands))})")


def node_of(value: Any) -> ast.Expression:
    """Return the node of an expression, or of a value as a literal.

    Raises:
        TypeMismatchError: If a value is none of SQL's.
    """
    return value.node if isinstance(value, Built) else literal_node(value)


def shown(value: Any) -> str:
    """Return an expression or a value as Flink's summaries show it."""
    if isinstance(value, Built):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


def literal_node(value: Any, kind: t.DataType | None = None) -> ast.Expression:
    """Return a value as a literal, of its own type or of a given one.

    >>> literal_node(12).type, literal_node("abc").type
    (INT NOT NULL, CHAR(3) NOT NULL)

    Raises:
        TypeMismatchError: If it is none.
    """
    if kind is not None:
        if value is None:
            return ast.Cast(ast.LiteralValue(None, None), kind)
        natural = literal_node(value)
        return ast.Cast(natural, kind)
    if value is None:
        return ast.LiteralValue(None, None)
    if isinstance(value, datetime.timedelta):
        return ast.IntervalLiteral(value // datetime.timedelta(milliseconds=1), False)
    if isinstance(value, Row):
        return ast.Function("ROW", tuple(map(literal_node, value)))
    if isinstance(value, dict):
        pairs = [literal_node(part) for pair in value.items() for part in pair]
        return ast.Function("MAP", tuple(pairs))
    if isinstance(value, list | tuple):
        return ast.Function("ARRAY", tuple(map(node_of, value)))
    return ast.LiteralValue(value, _type_of(value))


def _type_of(value: Any) -> t.DataType:
    if isinstance(value, bool):
        return t.BooleanType(False)
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return t.DoubleType(False)
    if isinstance(value, str):
        return t.CharType(max(len(value), 1), False) if value else t.VarCharType(nullable=False)
    if isinstance(value, bytes | bytearray):
        return t.BinaryType(max(len(value), 1), False)
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, datetime.datetime):
        made = t.TimestampType if value.tzinfo is None else t.LocalZonedTimestampType
        return made(6, False)
    if isinstance(value, datetime.date):
        return t.DateType(False)
    if isinstance(value, datetime.time):
        return t.TimeType(0 if value.microsecond == 0 else 6, False)
    raise TypeMismatchError(
        f"value {shorten(value)} of type {type(value).__name__} is no literal",
        hint="Give a column (col('name')), a number, a text, a time, a list or a dict.",
    )


def _integer(value: int) -> t.DataType:
    if -(2**31) <= value < 2**31:
        return t.IntType(False)
    if -(2**63) <= value < 2**63:
        return t.BigIntType(False)
    raise ConfigurationError(f"literal {value} is larger than BIGINT", hint="Use a decimal.Decimal.")


def _decimal(value: decimal.Decimal) -> t.DataType:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ConfigurationError(f"literal {value} is no DECIMAL")
    scale = max(-exponent, 0)
    return t.DecimalType(max(len(digits) + max(exponent, 0), scale, 1), scale, False)


def interval(value: Any, unit: str) -> tuple[ast.Expression, int, bool]:
    """Return the node of a number of units, the length of one, and whether these are months."""
    months = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}.get(unit)
    length = months or _LENGTHS[unit]
    node = node_of(value)
    if isinstance(node, ast.LiteralValue) and isinstance(node.value, int | decimal.Decimal | float):
        return ast.IntervalLiteral(int(node.value * length), months is not None), length, months is not None
    one = ast.IntervalLiteral(length, months is not None)
    return ast.Operator("*", (one, node)), length, months is not None


_LENGTHS = {
    "WEEK": 7 * _DAY_MS,
    "DAY": _DAY_MS,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
    "MILLI": 1,
}


def nodes_of(values: Sequence[Any]) -> tuple[ast.Expression, ...]:
    """Return the nodes of expressions and values."""
    return tuple(map(node_of, values))
