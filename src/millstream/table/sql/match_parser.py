"""Reads MATCH_RECOGNIZE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.table.sql import ast
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.lexer import Token
from millstream.table.sql.literals import parse_interval

if TYPE_CHECKING:
    from millstream.table.sql.query_parser import QueryParser

__all__ = ["parse_match_recognize"]


def parse_match_recognize(queries: QueryParser, relation: ast.Relation, start: Token) -> ast.Relation:
    """Read the clause behind a relation.

    A pattern is `("variable", name)`, `("sequence", parts)`, `("alternation", parts)`, `("permutation", parts)`,
    `("exclusion", part)` or `("quantified", part, minimum, maximum or None, greedy)`.
    """
    cursor = queries.cursor
    cursor.expect("MATCH_RECOGNIZE")
    cursor.expect_symbol("(")
    partition = queries.expressions.parse_list() if cursor.take("PARTITION", "BY") else ()
    order = queries.order_by() if cursor.is_word("ORDER", "BY") else ()
    measures = _measures(queries) if cursor.take("MEASURES") else ()
    rows = ""
    if cursor.take("ONE", "ROW", "PER", "MATCH"):
        rows = "ONE ROW PER MATCH"
    elif cursor.take("ALL", "ROWS", "PER", "MATCH"):
        rows = "ALL ROWS PER MATCH"
    after = _after(cursor) if cursor.take("AFTER", "MATCH") else ("", "")
    cursor.expect("PATTERN")
    cursor.expect_symbol("(")
    pattern_start = cursor.current
    pattern = _pattern(cursor)
    pattern_at = cursor.since(pattern_start)
    cursor.expect_symbol(")")
    within: ast.Expression | None = None
    if cursor.take("WITHIN"):
        cursor.expect("INTERVAL")
        within, _, _ = parse_interval(cursor)
        if within is None:
            cursor.fail("an interval in quotes")
    subsets = _subsets(cursor) if cursor.take("SUBSET") else ()
    defines = _defines(queries) if cursor.take("DEFINE") else ()
    cursor.expect_symbol(")")
    return ast.MatchRecognize(
        relation,
        partition,
        order,
        measures,
        rows,
        after,
        pattern,
        within,
        subsets,
        defines,
        at=cursor.since(start),
        pattern_at=pattern_at,
    )


def _measures(queries: QueryParser) -> tuple[tuple[ast.Expression, str], ...]:
    cursor = queries.cursor
    measures: list[tuple[ast.Expression, str]] = []
    while True:
        mode = cursor.take_one_of("FINAL", "RUNNING") if not cursor.ahead_is(1, "(") else ""
        expression = queries.expressions.parse()
        if mode:
            expression = ast.Function(mode, (expression,), at=expression.at)
        cursor.expect("AS")
        measures.append((expression, cursor.name("a name")))
        if not cursor.take_symbol(","):
            return tuple(measures)


def _after(cursor: Cursor) -> tuple[str, str]:
    cursor.expect("SKIP")
    if cursor.take("PAST", "LAST", "ROW"):
        return "PAST LAST ROW", ""
    cursor.expect("TO")
    if cursor.take("NEXT", "ROW"):
        return "TO NEXT ROW", ""
    if cursor.take("FIRST"):
        return "TO FIRST", cursor.name("a pattern variable")
    cursor.take("LAST")
    return "TO LAST", cursor.name("a pattern variable")


def _pattern(cursor: Cursor) -> Any:
    cursor.enter()
    options = [_sequence(cursor)]
    while cursor.take_symbol("|"):
        options.append(_sequence(cursor))
    cursor.leave()
    return options[0] if len(options) == 1 else ("alternation", tuple(options))


def _sequence(cursor: Cursor) -> Any:
    parts: list[Any] = []
    while not any(map(cursor.is_symbol, (")", "|", "}", ","))):
        if not parts or not cursor.at_end:
            parts.append(_quantified(cursor, _factor(cursor)))
    if not parts:
        cursor.fail("a pattern variable")
    return parts[0] if len(parts) == 1 else ("sequence", tuple(parts))


def _factor(cursor: Cursor) -> Any:
    if cursor.take_symbol("("):
        inner = _pattern(cursor)
        cursor.expect_symbol(")")
        return inner
    if cursor.is_symbol("{") and cursor.ahead_is(1, "-"):
        raise cursor.error("exclusions {- ... -} are not supported in patterns")
    if cursor.take("PERMUTE"):
        cursor.expect_symbol("(")
        parts = [_pattern(cursor)]
        while cursor.take_symbol(","):
            parts.append(_pattern(cursor))
        cursor.expect_symbol(")")
        return "permutation", tuple(parts)
    return "variable", cursor.name("a pattern variable")


def _quantified(cursor: Cursor, part: Any) -> Any:
    bounds: tuple[int, int | None] | None = None
    if cursor.take_symbol("*"):
        bounds = (0, None)
    elif cursor.take_symbol("+"):
        bounds = (1, None)
    elif cursor.take_symbol("?"):
        bounds = (0, 1)
    elif cursor.take_symbol("{"):
        low = 0 if cursor.is_symbol(",") else cursor.integer("a number of rows")
        high: int | None = low
        if cursor.take_symbol(","):
            high = None if cursor.is_symbol("}") else cursor.integer("a number of rows")
        cursor.expect_symbol("}")
        bounds = (low, high)
    if bounds is None:
        return part
    return "quantified", part, *bounds, not cursor.take_symbol("?")


def _subsets(cursor: Cursor) -> tuple[tuple[str, tuple[str, ...]], ...]:
    subsets: list[tuple[str, tuple[str, ...]]] = []
    while True:
        name = cursor.name("a name")
        cursor.expect_symbol("=")
        subsets.append((name, cursor.names_in_parentheses("a pattern variable")))
        if not cursor.take_symbol(","):
            return tuple(subsets)


def _defines(queries: QueryParser) -> tuple[tuple[str, ast.Expression], ...]:
    cursor = queries.cursor
    defines: list[tuple[str, ast.Expression]] = []
    while True:
        name = cursor.name("a pattern variable")
        cursor.expect("AS")
        defines.append((name, queries.expressions.parse()))
        if not cursor.take_symbol(","):
            return tuple(defines)
