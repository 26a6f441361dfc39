"""Reads scalar expressions, by precedence climbing.

From weak to strong: OR; AND; NOT; IS NULL and its like; comparisons; BETWEEN, IN, LIKE; + and -; *, / and ||; signs;
[...] and dots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.table.sql import ast
from millstream.table.sql.call_parser import CallParser
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.lexer import Token, TokenKind
from millstream.table.sql.literals import (
    interval_unit,
    number_literal,
    parse_interval,
    string_literal,
    time_literal,
)
from millstream.table.sql.reserved import FUNCTION_WORDS, NILADIC, RESERVED
from millstream.table.sql.type_parser import parse_type
from millstream.types import datatypes as sql

if TYPE_CHECKING:
    from millstream.table.sql.query_parser import QueryParser

__all__ = ["ExpressionParser"]

_OR, _AND, _NOT, _IS, _COMPARE, _RANGE, _ADD, _MULTIPLY, _SIGN = 22, 24, 26, 28, 30, 32, 40, 60, 80
_INFIX = {
    "=": _COMPARE,
    "<>": _COMPARE,
    "<": _COMPARE,
    "<=": _COMPARE,
    ">": _COMPARE,
    ">=": _COMPARE,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    "%": _MULTIPLY,
    "||": _MULTIPLY,
}
_PERIODS = ("OVERLAPS", "CONTAINS", "EQUALS", "PRECEDES", "SUCCEEDS")
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_MOMENT_LONG = ("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE")


class ExpressionParser:
    """Reads expressions at a cursor; queries in them through `queries`."""

    def __init__(self, cursor: Cursor, queries: QueryParser) -> None:
        self.cursor = cursor
        self.queries = queries
        self.calls = CallParser(self)
        self._primaries: dict[str, Callable[[Token], ast.Expression]] = {
            "NULL": lambda token: ast.LiteralValue(None, None, at=token.position),
            "UNKNOWN": lambda token: ast.LiteralValue(None, sql.BooleanType(), at=token.position),
            "TRUE": lambda token: ast.LiteralValue(True, sql.BooleanType(False), at=token.position),
            "FALSE": lambda token: ast.LiteralValue(False, sql.BooleanType(False), at=token.position),
            "CASE": self._case,
            "CAST": lambda token: self._cast(token, attempt=False),
            "TRY_CAST": lambda token: self._cast(token, attempt=True),
            "EXISTS": self._exists,
            "INTERVAL": self._interval,
            "ARRAY": self._collection,
            "MAP": self._collection,
            "MULTISET": self._collection,
        }

    def parse(self, minimum: int = 0) -> ast.Expression:
        """Read an expression whose operators bind at least as strongly as `minimum`."""
        self.cursor.enter()
        start = self.cursor.current
        left = self._prefix()
        while True:
            longer = self._infix(left, minimum, start)
            if longer is None:
                break
            left = longer
        self.cursor.leave()
        return left

    def parse_list(self) -> tuple[ast.Expression, ...]:
        """Read expressions with commas between."""
        found = [self.parse()]
        while self.cursor.take_symbol(","):
            found.append(self.parse())
        return tuple(found)

    # --- operators

    def _prefix(self) -> ast.Expression:
        cursor, token = self.cursor, self.cursor.current
        if cursor.take("NOT"):
            return ast.Operator("NOT", (self.parse(_NOT),), at=cursor.since(token))
        if token.kind is TokenKind.SYMBOL and token.value in ("-", "+"):
            cursor.advance()
            number = cursor.current
            if number.kind is TokenKind.NUMBER and not cursor.ahead_is(1, "["):
                cursor.advance()
                made = number_literal(cursor, number, token.value == "-")
                return replace(made, at=cursor.since(token))
            name = "NEGATE" if token.value == "-" else "POSITIVE"
            return ast.Operator(name, (self.parse(_SIGN),), at=cursor.since(token))
        return self._postfix(self._primary(), token)

    def _infix(self, left: ast.Expression, minimum: int, start: Token) -> ast.Expression | None:
        """Return the expression that goes on behind `left`; None if nothing that binds strongly enough follows."""
        cursor, token = self.cursor, self.cursor.current
        if token.kind is TokenKind.SYMBOL:
            strength = _INFIX.get(token.value)
            if strength is None or strength < minimum:
                return None
            cursor.advance()
            if strength == _COMPARE and cursor.is_one_of("SOME", "ANY", "ALL") and cursor.ahead_is(1, "("):
                return self._quantified(left, token.value, start)
            right = self.parse(strength + 1)
            return ast.Operator(token.value, (left, right), at=cursor.since(start))
        if token.kind is not TokenKind.WORD:
            return None
        if token.value in ("AND", "OR"):
            strength = _AND if token.value == "AND" else _OR
            return None if strength < minimum else self._chain(left, token.value, strength, start)
        if token.value == "IS":
            return None if minimum > _IS else self._is(left, start)
        return None if minimum > _RANGE else self._range(left, start)

    def _chain(self, left: ast.Expression, word: str, strength: int, start: Token) -> ast.Expression:
        """Read `a AND b AND c` as a balanced tree: long conditions are common, deep ones are not."""
        cursor = self.cursor
        operands = [left]
        while cursor.take(word):
            operands.append(self.parse(strength + 1))
        at = cursor.since(start)
        if len(operands) <= 8:
            made = operands[0]
            for operand in operands[1:]:
                made = ast.Operator(word, (made, operand), at=at)
            return made
        while len(operands) > 1:
            pairs = zip(operands[::2], operands[1::2], strict=False)
            joined: list[ast.Expression] = [ast.Operator(word, pair, at=at) for pair in pairs]
            operands = joined + ([operands[-1]] if len(operands) % 2 else [])
        return operands[0]

    def _quantified(self, left: ast.Expression, comparison: str, start: Token) -> ast.Expression:
        cursor = self.cursor
        every = cursor.advance().value == "ALL"
        cursor.expect_symbol("(")
        if self.queries.at_query:
            query = self.queries.parse()
            cursor.expect_symbol(")")
            return ast.InQuery(left, query, comparison=comparison, every=every, at=cursor.since(start))
        options = self.parse_list()
        cursor.expect_symbol(")")
        at = cursor.since(start)
        made: ast.Expression = ast.Operator(comparison, (left, options[0]), at=at)
        for option in options[1:]:
            part = ast.Operator(comparison, (left, option), at=at)
            made = ast.Operator("AND" if every else "OR", (made, part), at=at)
        return made

    def _is(self, left: ast.Expression, start: Token) -> ast.Expression:
        cursor = self.cursor
        cursor.expect("IS")
        negated = cursor.take("NOT")
        if cursor.take("DISTINCT", "FROM"):
            name = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
            right = self.parse(_RANGE)
            return ast.Operator(name, (left, right), at=cursor.since(start))
        if cursor.take("JSON"):
            test = f"JSON {cursor.take_one_of('VALUE', 'OBJECT', 'ARRAY', 'SCALAR') or 'VALUE'}"
        else:
            test = cursor.expect_one_of("NULL", "TRUE", "FALSE", "UNKNOWN")
        return ast.IsTest(left, test, negated, at=cursor.since(start))

    def _range(self, left: ast.Expression, start: Token) -> ast.Expression | None:
        cursor = self.cursor
        negated = cursor.is_word("NOT")
        if negated and cursor.ahead(1).value not in ("BETWEEN", "IN", "LIKE", "SIMILAR"):
            return None
        if negated:
            cursor.advance()
        if cursor.take("BETWEEN"):
            symmetric = cursor.take("SYMMETRIC")
            if not symmetric:
                cursor.take("ASYMMETRIC")
            low = self.parse(_RANGE + 1)
            cursor.expect("AND")
            high = self.parse(_RANGE + 1)
            return ast.Between(left, low, high, negated, symmetric, at=cursor.since(start))
        if cursor.take("IN"):
            return self._in(left, negated, start)
        similar = cursor.take("SIMILAR", "TO")
        if similar or cursor.take("LIKE"):
            pattern = self.parse(_RANGE + 1)
            escape = self.parse(_RANGE + 1) if cursor.take("ESCAPE") else None
            return ast.Like(left, pattern, escape, negated, similar, at=cursor.since(start))
        return self._period(left, start)

    def _in(self, left: ast.Expression, negated: bool, start: Token) -> ast.Expression:
        cursor = self.cursor
        cursor.expect_symbol("(")
        if self.queries.at_query:
            query = self.queries.parse()
            cursor.expect_symbol(")")
            return ast.InQuery(left, query, negated, at=cursor.since(start))
        options = self.parse_list()
        cursor.expect_symbol(")")
        return ast.InList(left, options, negated, at=cursor.since(start))

    def _period(self, left: ast.Expression, start: Token) -> ast.Expression | None:
        cursor = self.cursor
        if not _is_pair(left):
            return None
        immediately = cursor.is_word("IMMEDIATELY") and cursor.ahead(1).value in ("PRECEDES", "SUCCEEDS")
        if immediately:
            cursor.advance()
        word = cursor.take_one_of(*_PERIODS)
        if not word:
            return None
        right = self.parse(_COMPARE + 1)
        operands = (*left.arguments, *(right.arguments if _is_pair(right) else (right,)))  # type: ignore[attr-defined]
        name = f"IMMEDIATELY {word}" if immediately else word
        return ast.Operator(name, operands, at=cursor.since(start))

    # --- operands

    def _primary(self) -> ast.Expression:
        cursor, token = self.cursor, self.cursor.current
        if token.kind is TokenKind.WORD:
            return self._word(token)
        if token.kind is TokenKind.QUOTED:
            return self._named(token)
        if token.kind is TokenKind.STRING:
            return replace(string_literal(cursor.string()), at=cursor.since(token))
        if token.kind is TokenKind.NUMBER:
            cursor.advance()
            return replace(number_literal(cursor, token), at=token.position)
        if token.kind is TokenKind.BINARY:
            cursor.advance()
            value = bytes.fromhex(token.value)
            return ast.LiteralValue(value, sql.BinaryType(len(value), False), at=token.position)
        if cursor.is_symbol("("):
            return self._parenthesis(token)
        cursor.fail("an expression")

    def _word(self, token: Token) -> ast.Expression:
        cursor, word = self.cursor, token.value
        call_follows = cursor.ahead_is(1, "(")
        reader = self._primaries.get(word)
        if reader is not None and (word not in ("MAP",) or cursor.ahead_is(1, "[") or call_follows):
            cursor.advance()
            return reader(token)
        if word in _TIMES and cursor.ahead(1).kind is TokenKind.STRING:
            cursor.advance()
            shown = cursor.current
            return replace(time_literal(cursor, word, shown, cursor.string()), at=cursor.since(token))
        if word == "TIMESTAMP" and cursor.take(*_MOMENT_LONG):
            shown = cursor.current
            text = cursor.string("a time in quotes")
            return replace(time_literal(cursor, "TIMESTAMP_LTZ", shown, text), at=cursor.since(token))
        if word in NILADIC and not call_follows:
            cursor.advance()
            return ast.Function(word, (), at=token.position)
        if call_follows and (word in FUNCTION_WORDS or word not in RESERVED):
            cursor.advance()
            return self.calls.parse((token.text,), token)
        if word == "PERIOD" and call_follows:
            cursor.advance()
            return self._parenthesis(token)
        if word in RESERVED:
            cursor.fail("an expression")
        return self._named(token)

    def _named(self, token: Token) -> ast.Expression:
        """Read a column, or a call of a function of a catalog."""
        cursor = self.cursor
        parts = [cursor.name("a column")]
        while cursor.is_symbol(".") and cursor.ahead(1).value != "*":
            cursor.advance()
            parts.append(cursor.any_name("a name behind the dot"))
        if cursor.is_symbol("("):
            return self.calls.parse(tuple(parts), token)
        return ast.Column(tuple(parts), at=cursor.since(token))

    def _postfix(self, made: ast.Expression, start: Token) -> ast.Expression:
        cursor = self.cursor
        while True:
            if cursor.take_symbol("["):
                index = self.parse()
                cursor.expect_symbol("]")
                made = ast.Function("ITEM", (made, index), at=cursor.since(start))
            elif cursor.is_symbol(".") and cursor.ahead(1).value != "*" and not isinstance(made, ast.Column):
                cursor.advance()
                name = string_literal(cursor.any_name("a field"))
                made = ast.Function("FIELD", (made, name), at=cursor.since(start))
            else:
                return made

    def _parenthesis(self, token: Token) -> ast.Expression:
        cursor = self.cursor
        cursor.expect_symbol("(")
        if self.queries.at_query:
            query = self.queries.parse()
            cursor.expect_symbol(")")
            return ast.Subquery(query, at=cursor.since(token))
        items = self.parse_list()
        cursor.expect_symbol(")")
        if len(items) == 1:
            return items[0]
        return ast.Function("ROW", items, at=cursor.since(token))

    def _case(self, token: Token) -> ast.Expression:
        cursor = self.cursor
        operand = None if cursor.is_word("WHEN") else self.parse()
        branches: list[tuple[ast.Expression, ast.Expression]] = []
        while cursor.take("WHEN"):
            start = cursor.current
            condition = self.parse()
            conditions = [condition]
            while operand is not None and cursor.take_symbol(","):
                conditions.append(self.parse())
            if len(conditions) > 1 and operand is not None:
                raise cursor.error("WHEN has several values", token=start, hint="Write a WHEN for each.")
            cursor.expect("THEN")
            branches.append((condition, self.parse()))
        if not branches:
            cursor.fail("WHEN")
        default = self.parse() if cursor.take("ELSE") else None
        cursor.expect("END")
        return ast.Case(operand, tuple(branches), default, at=cursor.since(token))

    def _cast(self, token: Token, *, attempt: bool) -> ast.Expression:
        cursor = self.cursor
        cursor.expect_symbol("(")
        operand = self.parse()
        cursor.expect("AS")
        kind = parse_type(cursor)
        cursor.expect_symbol(")")
        return ast.Cast(operand, kind, attempt, at=cursor.since(token))

    def _exists(self, token: Token) -> ast.Expression:
        cursor = self.cursor
        cursor.expect_symbol("(")
        query = self.queries.parse()
        cursor.expect_symbol(")")
        return ast.Exists(query, at=cursor.since(token))

    def _interval(self, token: Token) -> ast.Expression:
        cursor = self.cursor
        literal, _, negative = parse_interval(cursor)
        if literal is not None:
            return replace(literal, at=cursor.since(token))
        amount = self._parenthesis(cursor.current) if cursor.is_symbol("(") else self._prefix()
        unit, _ = interval_unit(cursor)
        months = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}.get(unit, 0)
        size = months or {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000}.get(
            unit, 1000
        )
        one = ast.IntervalLiteral(-size if negative else size, bool(months), f"1 {unit}", at=token.position)
        return ast.Operator("*", (amount, one), at=cursor.since(token))

    def _collection(self, token: Token) -> ast.Expression:
        """Read `ARRAY[...]`, `MAP[...]`, `MULTISET[...]`, or these of a query in parentheses."""
        cursor = self.cursor
        name = token.value
        if cursor.take_symbol("("):
            if not self.queries.at_query:
                cursor.fail("a query")
            query = self.queries.parse()
            cursor.expect_symbol(")")
            at = cursor.since(token)
            return ast.Function(name, (ast.Subquery(query, at=at),), clauses=(("QUERY", True),), at=at)
        if not cursor.take_symbol("["):
            cursor.fail('"["')
        items: tuple[ast.Expression, ...] = () if cursor.is_symbol("]") else self.parse_list()
        cursor.expect_symbol("]")
        if name == "MAP" and len(items) % 2:
            raise cursor.error(
                "MAP[...] has a key without a value", token=token, hint="Write MAP[key, value, key, value]."
            )
        return ast.Function(name, items, at=cursor.since(token))


def _is_pair(expression: ast.Expression) -> bool:
    return (
        isinstance(expression, ast.Function) and expression.name == "ROW" and len(expression.arguments) == 2
    )
