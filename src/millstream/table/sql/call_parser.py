"""Reads what stands in the parentheses of calls, and behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millstream.table.sql import ast
from millstream.table.sql.lexer import Token, TokenKind
from millstream.table.sql.literals import string_literal
from millstream.table.sql.reserved import words
from millstream.table.sql.type_parser import parse_type
from millstream.types.datatypes import IntType

if TYPE_CHECKING:
    from millstream.table.sql.expression_parser import ExpressionParser

__all__ = ["TIME_UNITS", "CallParser"]

TIME_UNITS = words(
    """
        YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND DOW DOY ISODOW
        ISOYEAR EPOCH DECADE CENTURY MILLENNIUM YEARS QUARTERS MONTHS WEEKS DAYS HOURS MINUTES SECONDS
        SQL_TSI_YEAR SQL_TSI_QUARTER SQL_TSI_MONTH SQL_TSI_WEEK SQL_TSI_DAY SQL_TSI_HOUR SQL_TSI_MINUTE
        SQL_TSI_SECOND SQL_TSI_MICROSECOND
        """
)
_WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPDIFF", "TIMESTAMP_DIFF", "TIMESTAMP_TRUNC", "TIME_DIFF", "TIME_TRUNC")
_FRAMES = ("ROWS", "RANGE")


class CallParser:
    """Reads calls; special syntax becomes plain arguments (`ast.Function` says which)."""

    def __init__(self, expressions: ExpressionParser) -> None:
        self.expressions = expressions
        self.cursor = expressions.cursor
        self._special: dict[str, Callable[[str], ast.Function]] = {
            "EXTRACT": self._extract,
            "TRIM": self._trim,
            "POSITION": self._position,
            "SUBSTRING": self._substring,
            "OVERLAY": self._overlay,
            "FLOOR": self._rounding,
            "CEIL": self._rounding,
            "CEILING": self._rounding,
            "DESCRIPTOR": self._descriptor,  # type: ignore[dict-item]
            "JSON_VALUE": self._json_path,
            "JSON_QUERY": self._json_path,
            "JSON_EXISTS": self._json_path,
            "JSON_OBJECT": self._json_object,
            "JSON_OBJECTAGG": self._json_object,
            "JSON_ARRAY": self._json_array,
            "JSON_ARRAYAGG": self._json_array,
            **dict.fromkeys(_WITH_UNIT, self._with_unit),
        }

    def parse(self, parts: tuple[str, ...], start: Token) -> ast.Expression:
        """Read a call whose name was read."""
        cursor = self.cursor
        name = ".".join(parts)
        cursor.expect_symbol("(")
        reader = self._special.get(name.upper()) if len(parts) == 1 else None
        made = reader(name.upper()) if reader is not None else self._plain(name)
        cursor.expect_symbol(")")
        if isinstance(made, ast.Function):
            made = self._behind(made)
        return replace(made, at=cursor.since(start))

    # --- arguments

    def _plain(self, name: str) -> ast.Function:
        cursor = self.cursor
        if cursor.is_symbol("*") and cursor.ahead_is(1, ")"):
            cursor.advance()
            return ast.Function(name, star=True)
        distinct = cursor.take("DISTINCT")
        if not distinct:
            cursor.take("ALL")
        if cursor.is_symbol(")") and not distinct:
            return ast.Function(name)
        arguments = [self.argument()]
        while cursor.take_symbol(","):
            arguments.append(self.argument())
        nulls = self._nulls()
        order = self.expressions.queries.order_by() if cursor.is_word("ORDER", "BY") else ()
        clauses: tuple[tuple[str, Any], ...] = ()
        if name.upper() == "GROUP_CONCAT" and cursor.take("SEPARATOR"):
            clauses = (("SEPARATOR", cursor.string()),)
        return ast.Function(name, tuple(arguments), distinct, order=order, nulls=nulls, clauses=clauses)

    def _nulls(self) -> str:
        cursor = self.cursor
        found = ""
        for word in ("IGNORE", "RESPECT"):
            if cursor.take(word, "NULLS"):
                found = f"{word} NULLS"
        return found

    def argument(self) -> ast.Expression:
        """Read an argument, perhaps with its name."""
        cursor, token = self.cursor, self.cursor.current
        if token.kind in (TokenKind.WORD, TokenKind.QUOTED) and cursor.ahead_is(1, "=>"):
            name = cursor.any_name()
            cursor.advance()
            return ast.NamedArgument(name, self._value(), at=cursor.since(token))
        return self._value()

    def _value(self) -> ast.Expression:
        cursor, token = self.cursor, self.cursor.current
        queries = self.expressions.queries
        if cursor.is_word("TABLE") or (cursor.is_symbol("(") and cursor.ahead_is(1, "TABLE")):
            return self._table_argument()
        if cursor.is_word("MODEL") and cursor.ahead(1).kind in (TokenKind.WORD, TokenKind.QUOTED):
            raise cursor.error("models (MODEL) are not in millstream yet")
        if queries.at_query and not cursor.is_symbol("("):
            query = queries.parse()
            return ast.Subquery(query, at=cursor.since(token))
        if cursor.take("DEFAULT"):
            return ast.Function("DEFAULT", (), at=token.position)
        found = self.expressions.parse()
        if isinstance(found, ast.Subquery) and cursor.is_one_of("PARTITION", "ORDER"):
            return self._distributed(ast.Derived(found.query, at=found.at), token)
        return found

    def _table_argument(self) -> ast.Expression:
        cursor, token = self.cursor, self.cursor.current
        parenthesis = cursor.take_symbol("(")
        cursor.expect("TABLE")
        relation: ast.Relation
        if cursor.take_symbol("("):
            if self.expressions.queries.at_query:
                query = self.expressions.queries.parse()
                relation = ast.Derived(query, at=cursor.since(token))
            else:
                start = cursor.current
                relation = ast.TableName(cursor.dotted_name("a table"), at=cursor.since(start))
            cursor.expect_symbol(")")
        else:
            start = cursor.current
            parts = cursor.dotted_name("a table")
            relation = ast.TableName(parts, self.expressions.queries.hints(), at=cursor.since(start))
        if parenthesis:
            cursor.expect_symbol(")")
        return self._distributed(relation, token)

    def _distributed(self, relation: ast.Relation, token: Token) -> ast.Expression:
        cursor = self.cursor
        partition: tuple[ast.Expression, ...] = ()
        if cursor.take("PARTITION", "BY"):
            partition = self._partition_columns()
        order = self._order_columns() if cursor.is_word("ORDER", "BY") else ()
        return ast.TableArgument(relation, partition, order, at=cursor.since(token))

    def _partition_columns(self) -> tuple[ast.Expression, ...]:
        """Read the columns of PARTITION BY; a comma may also begin the call's next argument."""
        cursor = self.cursor
        if cursor.take_symbol("("):
            found = self.expressions.parse_list()
            cursor.expect_symbol(")")
            return found
        columns = [self.expressions.parse()]
        while cursor.is_symbol(",") and self._is_column_ahead():
            cursor.advance()
            columns.append(self.expressions.parse())
        return tuple(columns)

    def _order_columns(self) -> tuple[ast.OrderItem, ...]:
        """Read ORDER BY of a table; a comma behind a column without parentheses begins the call's next argument."""
        cursor = self.cursor
        cursor.expect("ORDER", "BY")
        queries = self.expressions.queries
        if not cursor.take_symbol("("):
            return (queries.order_item(),)
        items = [queries.order_item()]
        while cursor.take_symbol(","):
            items.append(queries.order_item())
        cursor.expect_symbol(")")
        return tuple(items)

    def _is_column_ahead(self) -> bool:
        token, behind = self.cursor.ahead(1), self.cursor.ahead(2)
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED) or token.value in ("DESCRIPTOR", "INTERVAL"):
            return False
        return behind.value in (",", ")", "ORDER")

    def _unit(self) -> ast.LiteralValue:
        cursor, token = self.cursor, self.cursor.current
        if token.kind is TokenKind.WORD and token.value in TIME_UNITS:
            cursor.advance()
            return replace(string_literal(token.value), at=token.position)
        cursor.fail("a unit of time such as DAY, HOUR, MINUTE or SECOND")

    def _with_unit(self, name: str) -> ast.Function:
        cursor = self.cursor
        arguments: list[ast.Expression] = []
        while True:
            token = cursor.current
            is_unit = token.kind is TokenKind.WORD and token.value in TIME_UNITS
            is_unit = is_unit and cursor.ahead(1).value in (",", ")")
            arguments.append(self._unit() if is_unit else self.expressions.parse())
            if not cursor.take_symbol(","):
                return ast.Function(name, tuple(arguments))

    # --- special syntax

    def _extract(self, name: str) -> ast.Function:
        unit = self._unit()
        self.cursor.expect("FROM")
        return ast.Function(name, (unit, self.expressions.parse()))

    def _trim(self, name: str) -> ast.Function:
        cursor, token = self.cursor, self.cursor.current
        side = cursor.take_one_of("BOTH", "LEADING", "TRAILING")
        where = replace(string_literal(side or "BOTH"), at=token.position)
        blank = string_literal(" ")
        if side and cursor.take("FROM"):
            return ast.Function(name, (where, blank, self.expressions.parse()))
        first = self.expressions.parse()
        if cursor.take("FROM"):
            return ast.Function(name, (where, first, self.expressions.parse()))
        if side:
            cursor.fail("FROM")
        return ast.Function(name, (where, blank, first))

    def _position(self, name: str) -> ast.Function:
        # IN binds the two parts, so the first one stops before it.
        first = self.expressions.parse(33)
        self.cursor.expect("IN")
        arguments = [first, self.expressions.parse(33)]
        if self.cursor.take("FROM"):
            arguments.append(self.expressions.parse())
        return ast.Function(name, tuple(arguments))

    def _substring(self, name: str) -> ast.Function:
        cursor = self.cursor
        arguments = [self.expressions.parse()]
        if not cursor.take("FROM"):
            cursor.expect_symbol(",")
        arguments.append(self.expressions.parse())
        if cursor.take("FOR") or cursor.take_symbol(","):
            arguments.append(self.expressions.parse())
        return ast.Function(name, tuple(arguments))

    def _overlay(self, name: str) -> ast.Function:
        cursor = self.cursor
        arguments = [self.expressions.parse()]
        if not cursor.take("PLACING"):
            cursor.expect_symbol(",")
        arguments.append(self.expressions.parse())
        if not cursor.take("FROM"):
            cursor.expect_symbol(",")
        arguments.append(self.expressions.parse())
        if cursor.take("FOR") or cursor.take_symbol(","):
            arguments.append(self.expressions.parse())
        return ast.Function(name, tuple(arguments))

    def _rounding(self, name: str) -> ast.Function:
        name = "CEIL" if name == "CEILING" else name
        first = self.expressions.parse()
        if self.cursor.take("TO"):
            return ast.Function(name, (first, self._unit()))
        return ast.Function(name, (first,))

    def _descriptor(self, _: str) -> ast.Expression:
        cursor = self.cursor
        columns = [cursor.name("a column")]
        while cursor.take_symbol(","):
            columns.append(cursor.name("a column"))
        return ast.Descriptor(tuple(columns))

    # --- JSON: clauses are ("RETURNING", type), ("WRAPPER", words), ("ON EMPTY" | "ON ERROR" | "ON NULL", words or
    # expression of DEFAULT), ("FORMAT JSON", place of the argument)

    def _json_path(self, name: str) -> ast.Function:
        cursor = self.cursor
        arguments = [self.expressions.parse()]
        clauses: list[tuple[str, Any]] = []
        cursor.take("FORMAT", "JSON")
        cursor.expect_symbol(",")
        arguments.append(self.expressions.parse())
        while not cursor.is_symbol(")"):
            clauses.append(self._json_clause(name))
        return ast.Function(name, tuple(arguments), clauses=tuple(clauses))

    def _json_clause(self, name: str) -> tuple[str, Any]:
        cursor = self.cursor
        if name != "JSON_EXISTS" and cursor.take("RETURNING"):
            return "RETURNING", parse_type(cursor)
        if name == "JSON_QUERY" and cursor.is_one_of("WITH", "WITHOUT"):
            words = [cursor.advance().value]
            if words[0] == "WITH":
                kind = cursor.take_one_of("CONDITIONAL", "UNCONDITIONAL")
                words += [kind or "UNCONDITIONAL"]
            cursor.take("ARRAY")
            cursor.expect("WRAPPER")
            return "WRAPPER", " ".join(words)
        value: Any
        if name == "JSON_VALUE" and cursor.take("DEFAULT"):
            value = self.expressions.parse()
        elif name == "JSON_QUERY" and cursor.take("EMPTY"):
            value = f"EMPTY {cursor.expect_one_of('ARRAY', 'OBJECT')}"
        elif name == "JSON_EXISTS":
            value = cursor.expect_one_of("TRUE", "FALSE", "UNKNOWN", "ERROR")
        else:
            value = cursor.expect_one_of("NULL", "ERROR")
        cursor.expect("ON")
        event = (
            cursor.expect_one_of("ERROR") if name == "JSON_EXISTS" else cursor.expect_one_of("EMPTY", "ERROR")
        )
        return f"ON {event}", value

    def _json_object(self, name: str) -> ast.Function:
        cursor = self.cursor
        arguments: list[ast.Expression] = []
        clauses: list[tuple[str, Any]] = []
        while not cursor.is_symbol(")") and not self._null_clause_ahead():
            if arguments:
                cursor.expect_symbol(",")
            if cursor.take("KEY"):
                arguments.append(self.expressions.parse())
                cursor.expect("VALUE")
            else:
                arguments.append(self.expressions.parse())
                if not cursor.take("VALUE") and not cursor.take_symbol(":"):
                    cursor.expect_symbol(",")
            arguments.append(self.expressions.parse())
            self._json_format(clauses, len(arguments) - 1)
            if name == "JSON_OBJECTAGG":
                break
        self._on_null(clauses)
        return ast.Function(name, tuple(arguments), clauses=tuple(clauses))

    def _json_array(self, name: str) -> ast.Function:
        cursor = self.cursor
        arguments: list[ast.Expression] = []
        clauses: list[tuple[str, Any]] = []
        while not cursor.is_symbol(")") and not self._null_clause_ahead():
            if arguments:
                cursor.expect_symbol(",")
            arguments.append(self.expressions.parse())
            self._json_format(clauses, len(arguments) - 1)
            if name == "JSON_ARRAYAGG":
                break
        if name == "JSON_ARRAYAGG" and not arguments:
            cursor.fail("an expression")
        order: tuple[ast.OrderItem, ...] = ()
        if name == "JSON_ARRAYAGG" and cursor.is_word("ORDER", "BY"):
            order = self.expressions.queries.order_by()
        self._on_null(clauses)
        return ast.Function(name, tuple(arguments), order=order, clauses=tuple(clauses))

    def _null_clause_ahead(self) -> bool:
        cursor = self.cursor
        return cursor.is_one_of("NULL", "ABSENT") and cursor.ahead_is(1, "ON")

    def _json_format(self, clauses: list[tuple[str, Any]], place: int) -> None:
        if self.cursor.take("FORMAT", "JSON"):
            clauses.append(("FORMAT JSON", place))

    def _on_null(self, clauses: list[tuple[str, Any]]) -> None:
        cursor = self.cursor
        if self._null_clause_ahead():
            clauses.append(("ON NULL", cursor.advance().value))
            cursor.expect("ON")
            cursor.expect("NULL")

    # --- behind the parentheses

    def _behind(self, call: ast.Function) -> ast.Function:
        cursor = self.cursor
        nulls = self._nulls()
        if nulls:
            call = replace(call, nulls=nulls)
        if cursor.take("WITHIN", "GROUP"):
            cursor.expect_symbol("(")
            call = replace(call, order=self.expressions.queries.order_by())
            cursor.expect_symbol(")")
        if cursor.take("FILTER"):
            cursor.expect_symbol("(")
            cursor.expect("WHERE")
            call = replace(call, filter=self.expressions.parse())
            cursor.expect_symbol(")")
        if cursor.take("OVER"):
            over = self.window() if cursor.is_symbol("(") else cursor.name("a window")
            call = replace(call, over=over)
        return call

    def window(self) -> ast.WindowSpec:
        """Read `( [name] PARTITION BY ... ORDER BY ... ROWS|RANGE ... )`."""
        cursor = self.cursor
        cursor.expect_symbol("(")
        base = ""
        if cursor.is_name and not cursor.is_one_of("PARTITION", "ORDER", *_FRAMES):
            base = cursor.name("a window")
        partition = self.expressions.parse_list() if cursor.take("PARTITION", "BY") else ()
        order = self.expressions.queries.order_by() if cursor.is_word("ORDER", "BY") else ()
        unit = cursor.take_one_of(*_FRAMES)
        lower = upper = None
        if unit:
            if cursor.take("BETWEEN"):
                lower = self._bound()
                cursor.expect("AND")
                upper = self._bound()
            else:
                lower = self._bound()
        cursor.expect_symbol(")")
        rows = unit == "ROWS" if unit else None
        return ast.WindowSpec(partition, order, rows, lower, upper, base)

    def _bound(self) -> ast.FrameBound:
        cursor = self.cursor
        if cursor.take("CURRENT", "ROW"):
            return ast.FrameBound(ast.LiteralValue(0, IntType(False)), current=True)
        amount = None if cursor.take("UNBOUNDED") else self.expressions.parse()
        return ast.FrameBound(amount, following=cursor.expect_one_of("PRECEDING", "FOLLOWING") == "FOLLOWING")
