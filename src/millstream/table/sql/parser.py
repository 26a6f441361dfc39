"""Text of Flink's SQL to trees: the only way in.

Recursive descent, one class a topic (statements, DDL, queries, expressions, calls) over one cursor of tokens.
"""

from __future__ import annotations

from typing import Any

from millstream.table.sql.ast import Expression, Query
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.errors import SqlParseError
from millstream.table.sql.lexer import TokenKind, tokenize
from millstream.table.sql.query_parser import QueryParser
from millstream.table.sql.statement_parser import StatementParser
from millstream.table.sql.statements_ast import Statement
from millstream.table.sql.type_parser import parse_type as _parse_type
from millstream.types.datatypes import DataType

__all__ = [
    "SqlParseError",
    "is_complete",
    "parse_expression",
    "parse_identifier",
    "parse_query",
    "parse_statement",
    "parse_statements",
    "parse_type",
    "split_statements",
]


def parse_statements(text: str) -> list[Statement]:
    """Return the statements of a text; they are parted by semicolons, the last one may go without.

    Raises:
        SqlParseError: If the text is not of Flink's SQL; says where, what was expected, and perhaps what was meant.
    """
    cursor = Cursor(text)
    parser = StatementParser(cursor)
    statements: list[Statement] = []
    while True:
        _skip_semicolons(cursor)
        if cursor.at_text_end:
            return statements
        statements.append(_guarded(cursor, parser.parse))


def split_statements(text: str) -> list[str]:
    """Return the text of each statement, as written and without the semicolon behind it.

    >>> split_statements("SELECT 1; SELECT ';';")
    ['SELECT 1', "SELECT ';'"]

    Raises:
        SqlParseError: If the text is not of Flink's SQL.
    """
    cursor = Cursor(text)
    parser = StatementParser(cursor)
    parts: list[str] = []
    while True:
        _skip_semicolons(cursor)
        if cursor.at_text_end:
            return parts
        start = cursor.current.start
        _guarded(cursor, parser.parse)
        parts.append(text[start : cursor.tokens[cursor.index - 1].end])


def parse_statement(text: str) -> Statement:
    """Return the only statement of a text.

    Raises:
        SqlParseError: If there is none, another one follows, or it is not of Flink's SQL.
    """
    cursor = Cursor(text)
    _skip_semicolons(cursor)
    if cursor.at_text_end:
        raise SqlParseError("the text has no statement", hint="Write one, such as SELECT 1.", at_end=True)
    statement: Statement = _guarded(cursor, StatementParser(cursor).parse)
    _skip_semicolons(cursor)
    if not cursor.at_text_end:
        raise cursor.error(
            "a second statement follows",
            hint="execute_sql takes one statement; a script is run with millstream sql -f.",
        )
    return statement


def parse_query(text: str) -> Query:
    """Return the only query of a text.

    Raises:
        SqlParseError: If it is not a query, or something follows it.
    """
    cursor = Cursor(text)
    parser = QueryParser(cursor)
    if not parser.at_query:
        cursor.fail("a query (SELECT, VALUES, WITH)")
    query: Query = _guarded(cursor, parser.parse)
    cursor.take_symbol(";")
    _check_end(cursor)
    return query


def parse_expression(text: str) -> Expression:
    """Return a scalar expression.

    Raises:
        SqlParseError: If it is not one, or something follows it.
    """
    cursor = Cursor(text)
    expression: Expression = _guarded(cursor, QueryParser(cursor).expressions.parse)
    _check_end(cursor)
    return expression


def parse_type(text: str) -> DataType:
    """Return a type by its text, such as `ARRAY<INT NOT NULL>`.

    Raises:
        SqlParseError: If it is not one.
    """
    cursor = Cursor(text)
    found: DataType = _guarded(cursor, lambda: _parse_type(cursor))
    _check_end(cursor)
    return found


def parse_identifier(text: str) -> tuple[str, ...]:
    """Return the parts of a name with dots: `catalog`.`my database`.name.

    Raises:
        SqlParseError: If it is not one.
    """
    cursor = Cursor(text)
    parts = [cursor.any_name("a name")]
    while cursor.take_symbol("."):
        parts.append(cursor.any_name("a name"))
    _check_end(cursor)
    return tuple(parts)


def is_complete(text: str) -> bool:
    """Return whether a text that is being typed ends with a statement's semicolon.

    >>> is_complete("SELECT ';"), is_complete("SELECT 1;")
    (False, True)
    """
    try:
        tokens = tokenize(text)
    except SqlParseError as error:
        return not error.at_end
    words = [token for token in tokens if token.kind is not TokenKind.END]
    if not words or words[-1].value != ";" or words[-1].kind is not TokenKind.SYMBOL:
        return False
    values = [token.value for token in words]
    joined = " ".join(values)
    if "STATEMENT SET BEGIN" not in joined:
        return True
    begin = joined.rindex("STATEMENT SET BEGIN")
    return joined[begin:].rstrip(" ;").endswith(" END")


def _guarded(cursor: Cursor, read: Any) -> Any:
    try:
        return read()
    except RecursionError:
        raise cursor.error("the statement is nested too deeply") from None


def _skip_semicolons(cursor: Cursor) -> None:
    while cursor.take_symbol(";"):
        pass


def _check_end(cursor: Cursor) -> None:
    if not cursor.at_text_end:
        cursor.fail("the end of the text")
