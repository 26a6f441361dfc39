"""Reads queries: SELECT, VALUES, WITH, set operations, and what stands behind FROM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from millstream.table.sql import ast
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.expression_parser import ExpressionParser
from millstream.table.sql.lexer import Token, TokenKind
from millstream.table.sql.match_parser import parse_match_recognize
from millstream.types.datatypes import IntType

__all__ = ["QueryParser"]

_QUERY_WORDS = ("SELECT", "VALUES", "WITH", "TABLE")
_BEHIND_QUERY = ("UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH", "ON")
_JOIN_WORDS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")


class QueryParser:
    """Reads queries at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expressions = ExpressionParser(cursor, self)

    @property
    def at_query(self) -> bool:
        """Whether a query begins here, perhaps in parentheses."""
        cursor, count = self.cursor, 0
        while cursor.ahead_is(count, "("):
            count += 1
        token = cursor.ahead(count)
        if token.kind is not TokenKind.WORD or token.value not in _QUERY_WORDS:
            return False
        if token.value == "TABLE":
            return cursor.ahead(count + 1).kind in (TokenKind.WORD, TokenKind.QUOTED) and not count
        if token.value == "WITH" or count == 0:
            return True
        return self._parenthesis_is_query(count)

    def _parenthesis_is_query(self, count: int) -> bool:
        """Tell `(SELECT 1) UNION ...` from `(SELECT 1) + 1`: by what follows the parentheses."""
        depth, index = 0, 0
        while True:
            token = self.cursor.ahead(index)
            index += 1
            if token.kind is TokenKind.END:
                return True
            if token.kind is not TokenKind.SYMBOL or token.value not in "()":
                continue
            depth += 1 if token.value == "(" else -1
            if token.value == ")" and depth < count:
                behind = self.cursor.ahead(index)
                if behind.kind is TokenKind.WORD and behind.value in _BEHIND_QUERY:
                    return True
                closes = behind.kind is TokenKind.END or behind.value in (")", ";")
                if not closes or depth <= 0:
                    return closes

    def parse(self) -> ast.Query:
        """Read a query with its ORDER BY, LIMIT and WITH."""
        self.cursor.enter()
        found = self._with() if self.cursor.is_word("WITH") else self._ordered()
        self.cursor.leave()
        return found

    def _with(self) -> ast.Query:
        cursor = self.cursor
        start = cursor.expect("WITH")
        if cursor.is_word("RECURSIVE"):
            raise cursor.error("recursive queries (WITH RECURSIVE) are not in Flink's SQL")
        ctes = [self._cte()]
        while cursor.take_symbol(","):
            ctes.append(self._cte())
        query = self._ordered()
        return ast.With(tuple(ctes), query, at=cursor.since(start))

    def _cte(self) -> ast.Cte:
        cursor = self.cursor
        name = cursor.name("a name")
        columns = cursor.names_in_parentheses("a column") if cursor.is_symbol("(") else ()
        cursor.expect("AS")
        cursor.expect_symbol("(")
        query = self.parse()
        cursor.expect_symbol(")")
        return ast.Cte(name, query, columns)

    def _ordered(self) -> ast.Query:
        cursor = self.cursor
        query = self._union()
        order = self.order_by() if cursor.is_word("ORDER", "BY") else ()
        offset, limit = self._limits()
        if not order and offset is None and limit is None:
            return query
        if query.order or query.offset is not None or query.limit is not None or isinstance(query, ast.With):
            query = ast.Select((ast.SelectItem(ast.Star()),), ast.Derived(query, at=query.at), at=query.at)
        return replace(query, order=order, offset=offset, limit=limit)

    def _limits(self) -> tuple[ast.Expression | None, ast.Expression | None]:
        cursor = self.cursor
        offset: ast.Expression | None = None
        limit: ast.Expression | None = None
        if cursor.take("LIMIT") and not cursor.take("ALL"):
            limit = self._count()
            if cursor.take_symbol(","):
                offset, limit = limit, self._count()
        if offset is None and cursor.take("OFFSET"):
            offset = self._count()
            cursor.take_one_of("ROW", "ROWS")
            if limit is None and cursor.take("LIMIT"):
                limit = self._count()
        if limit is None and cursor.take("FETCH"):
            cursor.expect_one_of("FIRST", "NEXT")
            limit = ast.LiteralValue(1, IntType(False)) if cursor.is_one_of("ROW", "ROWS") else self._count()
            cursor.expect_one_of("ROW", "ROWS")
            cursor.expect("ONLY")
        return offset, limit

    def _count(self) -> ast.Expression:
        token = self.cursor.current
        value = self.cursor.integer("a number of rows")
        return ast.LiteralValue(value, IntType(False), at=token.position)

    def _union(self) -> ast.Query:
        cursor, start = self.cursor, self.cursor.current
        left = self._intersection()
        while word := cursor.take_one_of("UNION", "EXCEPT", "MINUS"):
            every = self._every()
            right = self._intersection()
            kind = "EXCEPT" if word == "MINUS" else word
            left = ast.SetQuery(left, right, kind, every, at=cursor.since(start))
        return left

    def _intersection(self) -> ast.Query:
        cursor, start = self.cursor, self.cursor.current
        left = self._term()
        while cursor.take("INTERSECT"):
            every = self._every()
            left = ast.SetQuery(left, self._term(), "INTERSECT", every, at=cursor.since(start))
        return left

    def _every(self) -> bool:
        every = self.cursor.take("ALL")
        if not every:
            self.cursor.take("DISTINCT")
        return every

    def _term(self) -> ast.Query:
        cursor, start = self.cursor, self.cursor.current
        if cursor.take_symbol("("):
            query = self.parse()
            cursor.expect_symbol(")")
            return query
        if cursor.is_word("SELECT"):
            return self._select()
        if cursor.take("VALUES"):
            rows = [self._row()]
            while cursor.take_symbol(","):
                rows.append(self._row())
            return ast.ValuesQuery(tuple(rows), at=cursor.since(start))
        if cursor.take("TABLE"):
            named = cursor.current
            relation = ast.TableName(cursor.dotted_name("a table"), at=cursor.since(named))
            return ast.Select((ast.SelectItem(ast.Star()),), relation, at=cursor.since(start))
        cursor.fail("a query (SELECT, VALUES, WITH)")

    def _row(self) -> tuple[ast.Expression, ...]:
        cursor = self.cursor
        cursor.take("ROW")
        if not cursor.take_symbol("("):
            return (self.expressions.parse(),)
        row = self.expressions.parse_list()
        cursor.expect_symbol(")")
        return row

    def _select(self) -> ast.Query:
        cursor = self.cursor
        start = cursor.expect("SELECT")
        hints = self.hints()
        cursor.take("STREAM")
        distinct = cursor.take("DISTINCT")
        if not distinct:
            cursor.take("ALL")
        items = [self._item()]
        while cursor.take_symbol(","):
            items.append(self._item())
        source = self._from() if cursor.take("FROM") else None
        where = self.expressions.parse() if source is not None and cursor.take("WHERE") else None
        group = self._group() if source is not None and cursor.take("GROUP", "BY") else None
        having = self.expressions.parse() if source is not None and cursor.take("HAVING") else None
        windows = self._windows() if source is not None and cursor.take("WINDOW") else ()
        qualify = self.expressions.parse() if source is not None and cursor.take("QUALIFY") else None
        return ast.Select(
            tuple(items),
            source,
            where,
            group,
            having,
            distinct,
            windows,
            qualify,
            hints,
            at=cursor.since(start),
        )

    def _item(self) -> ast.SelectItem:
        cursor, start = self.cursor, self.cursor.current
        if cursor.take_symbol("*"):
            return ast.SelectItem(ast.Star(at=start.position))
        if cursor.is_one_of("FROM", "WHERE", "GROUP") or cursor.at_end:
            cursor.fail("an expression")
        expression = self.expressions.parse()
        if isinstance(expression, ast.Column) and cursor.is_symbol(".") and cursor.ahead_is(1, "*"):
            cursor.advance()
            cursor.advance()
            return ast.SelectItem(ast.Star(expression.parts, at=cursor.since(start)))
        return ast.SelectItem(expression, self._alias())

    def _alias(self) -> str:
        cursor = self.cursor
        if cursor.take("AS"):
            return cursor.name("a name")
        return cursor.name() if cursor.is_name else ""

    def _group(self) -> tuple[ast.Expression | ast.GroupingSets, ...]:
        cursor = self.cursor
        cursor.take_one_of("ALL", "DISTINCT")
        if cursor.is_symbol("(") and cursor.ahead_is(1, ")") and not cursor.ahead_is(2, ","):
            cursor.advance()
            cursor.advance()
            return ()
        items = [self._group_item()]
        while cursor.take_symbol(","):
            items.append(self._group_item())
        return tuple(items)

    def _group_item(self) -> ast.Expression | ast.GroupingSets:
        cursor = self.cursor
        kind = ""
        if cursor.take("GROUPING", "SETS"):
            kind = "GROUPING SETS"
        elif cursor.is_one_of("ROLLUP", "CUBE"):
            kind = cursor.advance().value
        if not kind:
            if cursor.is_symbol("(") and cursor.ahead_is(1, ")"):
                cursor.advance()
                cursor.advance()
                return ast.GroupingSets("GROUPING SETS", ((),))
            return self.expressions.parse()
        cursor.expect_symbol("(")
        sets = [self._grouping_set(kind)]
        while cursor.take_symbol(","):
            sets.append(self._grouping_set(kind))
        cursor.expect_symbol(")")
        return ast.GroupingSets(kind, tuple(sets))

    def _grouping_set(self, kind: str) -> tuple[ast.Expression, ...]:
        cursor = self.cursor
        if kind == "GROUPING SETS" and cursor.is_one_of("ROLLUP", "CUBE"):
            raise cursor.error(f"{cursor.current.value} inside GROUPING SETS is not in millstream yet")
        if not cursor.is_symbol("("):
            return (self.expressions.parse(),)
        if cursor.ahead_is(1, ")"):
            cursor.advance()
            cursor.advance()
            return ()
        found = self.expressions.parse()
        row = isinstance(found, ast.Function) and found.name == "ROW"
        return found.arguments if row else (found,)  # type: ignore[attr-defined]

    def _windows(self) -> tuple[tuple[str, ast.WindowSpec], ...]:
        cursor = self.cursor
        windows: list[tuple[str, ast.WindowSpec]] = []
        while True:
            name = cursor.name("a window")
            cursor.expect("AS")
            windows.append((name, self.expressions.calls.window()))
            if not cursor.take_symbol(","):
                return tuple(windows)

    def order_by(self) -> tuple[ast.OrderItem, ...]:
        """Read `ORDER BY a DESC NULLS LAST, b`."""
        cursor = self.cursor
        cursor.expect("ORDER", "BY")
        items = [self.order_item()]
        while cursor.take_symbol(","):
            items.append(self.order_item())
        return tuple(items)

    def order_item(self) -> ast.OrderItem:
        """Read `a DESC NULLS LAST`."""
        cursor = self.cursor
        expression = self.expressions.parse()
        descending = cursor.take_one_of("ASC", "DESC") == "DESC"
        nulls_first: bool | None = None
        if cursor.take("NULLS"):
            nulls_first = cursor.expect_one_of("FIRST", "LAST") == "FIRST"
        return ast.OrderItem(expression, descending, nulls_first)

    # --- FROM

    def _from(self) -> ast.Relation:
        cursor, start = self.cursor, self.cursor.current
        left = self._joined()
        while cursor.take_symbol(","):
            left = ast.JoinRelation(left, self._joined(), "CROSS", at=cursor.since(start))
        return left

    def _joined(self) -> ast.Relation:
        cursor, start = self.cursor, self.cursor.current
        left = self._table()
        while cursor.is_one_of(*_JOIN_WORDS):
            natural = cursor.take("NATURAL")
            kind = cursor.take_one_of("INNER", "LEFT", "RIGHT", "FULL", "CROSS") or "INNER"
            if kind in ("LEFT", "RIGHT", "FULL"):
                cursor.take("OUTER")
            cursor.expect("JOIN")
            right = self._table()
            condition: ast.Expression | None = None
            using: tuple[str, ...] = ()
            if kind != "CROSS" and not natural:
                if cursor.take("ON"):
                    condition = self.expressions.parse()
                elif cursor.take("USING"):
                    using = cursor.names_in_parentheses("a column")
                elif kind != "INNER":
                    cursor.fail("ON", "USING")
            left = ast.JoinRelation(left, right, kind, condition, using, natural, at=cursor.since(start))
        return left

    def _table(self) -> ast.Relation:
        cursor, start = self.cursor, self.cursor.current
        relation = self._source(start)
        while True:
            if cursor.take("FOR", "SYSTEM_TIME", "AS", "OF"):
                relation = ast.TemporalTable(relation, self.expressions.parse(), at=cursor.since(start))
            elif cursor.is_word("MATCH_RECOGNIZE"):
                relation = parse_match_recognize(self, relation, start)
            elif cursor.is_one_of("TABLESAMPLE", "PIVOT", "UNPIVOT"):
                raise cursor.error(f"{cursor.current.value} is not in Flink's streaming SQL")
            else:
                break
        relation = self._aliased(relation, start)
        if cursor.is_word("FOR", "SYSTEM_TIME", "AS", "OF") and isinstance(relation, ast.Alias):
            cursor.expect("FOR", "SYSTEM_TIME", "AS", "OF")
            inner = ast.TemporalTable(relation.relation, self.expressions.parse(), at=cursor.since(start))
            relation = replace(relation, relation=inner)
        if cursor.is_word("MATCH_RECOGNIZE"):
            relation = self._aliased(parse_match_recognize(self, relation, start), start)
        return relation

    def _aliased(self, relation: ast.Relation, start: Token) -> ast.Relation:
        cursor = self.cursor
        has_as = cursor.take("AS")
        if not has_as and not cursor.is_name:
            return relation
        name = cursor.name("a name")
        columns = cursor.names_in_parentheses("a column") if cursor.is_symbol("(") else ()
        return ast.Alias(relation, name, columns, at=cursor.since(start))

    def _source(self, start: Token) -> ast.Relation:
        cursor = self.cursor
        if cursor.take("LATERAL"):
            return self._lateral(start)
        if cursor.is_word("TABLE") and cursor.ahead_is(1, "("):
            cursor.advance()
            return self._table_function(start)
        if cursor.take("TABLE"):
            return ast.TableName(cursor.dotted_name("a table"), self.hints(), at=cursor.since(start))
        if cursor.take("UNNEST"):
            return self._unnest(start)
        if cursor.is_symbol("("):
            cursor.advance()
            if self.at_query:
                query = self.parse()
                cursor.expect_symbol(")")
                return ast.Derived(query, at=cursor.since(start))
            cursor.enter()
            relation = self._from()
            cursor.expect_symbol(")")
            cursor.leave()
            return relation
        if cursor.is_name or cursor.current.kind is TokenKind.WORD:
            named = cursor.index
            if cursor.is_name:
                parts = cursor.dotted_name("a table")
                if not cursor.is_symbol("("):
                    return ast.TableName(parts, self.hints(), at=cursor.since(start))
                cursor.index = named
                call = self.expressions.parse(80)
                if isinstance(call, ast.Function):
                    return ast.TableFunction(call, at=cursor.since(start))
        cursor.fail("a table")

    def _lateral(self, start: Token) -> ast.Relation:
        cursor = self.cursor
        if cursor.take("TABLE"):
            return ast.Lateral(self._table_function(start), at=cursor.since(start))
        if cursor.take("UNNEST"):
            return self._unnest(start)
        if cursor.is_symbol("("):
            cursor.advance()
            query = self.parse()
            cursor.expect_symbol(")")
            return ast.Lateral(ast.Derived(query, at=cursor.since(start)), at=cursor.since(start))
        if cursor.is_name:
            call = self.expressions.parse(80)
            if isinstance(call, ast.Function):
                return ast.Lateral(ast.TableFunction(call, at=call.at), at=cursor.since(start))
        cursor.fail("TABLE(function(...))", "a query in parentheses")

    def _table_function(self, start: Token) -> ast.Relation:
        cursor = self.cursor
        cursor.expect_symbol("(")
        token = cursor.current
        call = self.expressions.parse(80)
        if not isinstance(call, ast.Function):
            raise cursor.error("TABLE(...) takes a call of a table function", token=token)
        cursor.expect_symbol(")")
        return ast.TableFunction(call, at=cursor.since(start))

    def _unnest(self, start: Token) -> ast.Relation:
        cursor = self.cursor
        cursor.expect_symbol("(")
        arguments = self.expressions.parse_list()
        cursor.expect_symbol(")")
        ordinality = cursor.take("WITH", "ORDINALITY")
        return ast.Unnest(arguments, ordinality, at=cursor.since(start))

    # --- hints

    def hints(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """Read `/*+ NAME(argument, 'key' = 'value'), ... */`; arguments are strings, or pairs of them."""
        cursor = self.cursor
        found: list[tuple[str, tuple[Any, ...]]] = []
        while cursor.current.kind is TokenKind.HINT:
            cursor.advance()
            while True:
                name = cursor.any_name("a hint").upper()
                found.append((name, self._hint_arguments() if cursor.is_symbol("(") else ()))
                cursor.take_symbol(",")
                if cursor.take_symbol("*/"):
                    break
        return tuple(found)

    def _hint_arguments(self) -> tuple[Any, ...]:
        cursor = self.cursor
        cursor.expect_symbol("(")
        arguments: list[Any] = []
        while not cursor.is_symbol(")"):
            if arguments:
                cursor.expect_symbol(",")
            key = self._hint_word()
            arguments.append((key, self._hint_word()) if cursor.take_symbol("=") else key)
        cursor.advance()
        return tuple(arguments)

    def _hint_word(self) -> str:
        cursor = self.cursor
        if cursor.current.kind is TokenKind.STRING:
            return cursor.string()
        if cursor.current.kind is TokenKind.NUMBER:
            return cursor.advance().text
        parts = [cursor.any_name("an option")]
        while cursor.take_symbol("."):
            parts.append(cursor.any_name())
        return ".".join(parts)
