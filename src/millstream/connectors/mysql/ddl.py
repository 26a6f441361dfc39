"""Statements in the log of changes that rows of a table come from, or go by, without being told."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["TableName", "lost_by"]

TableName = tuple[str, str]
"""Schema and name of a table."""

_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*|#[^\n]*", re.DOTALL)
_PREFIX = re.compile(r"SET\s+STATEMENT\b.*?\bFOR\s+", re.IGNORECASE | re.DOTALL)  # MariaDB
_WORDS = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
_LOSSES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), what)
    for pattern, what in [
        (r"TRUNCATE\b", "was truncated"),
        (r"DROP\s+(TABLE|DATABASE|SCHEMA)\b", "was dropped"),
        (r"CREATE\s+OR\s+REPLACE\s+TABLE\b", "was replaced"),
        (r"RENAME\s+TABLES?\b", "was renamed"),
        (r"ALTER\b.*\bRENAME\s+(?!COLUMN\b|INDEX\b|KEY\b)", "was renamed"),
        (r"ALTER\b.*\b(DROP|TRUNCATE|EXCHANGE|DISCARD)\s+PARTITION\b", "lost a partition"),
        (
            r"(INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH)\b",
            "was changed by a statement that is logged, not its rows",
        ),
    ]
]


def lost_by(statement: str, schema: str, tables: Iterable[TableName]) -> tuple[TableName, str] | None:
    """Return which of the tables has rows after a statement that no change tells of, and what happened to it.

    A statement that only mentions a table is taken for one that changes it: better one error too many.

    Args:
        statement: The statement.
        schema: The database that it was run in.
        tables: The tables.

    >>> lost_by("ALTER TABLE a.b ADD c int", "a", [("a", "b")])
    >>> lost_by("TRUNCATE TABLE `b`", "a", [("a", "b"), ("x", "b")])
    (('a', 'b'), 'was truncated')
    """
    text = _COMMENTS.sub(" ", statement).strip()
    if prefix := _PREFIX.match(text):
        text = text[prefix.end() :]
    what = next((what for pattern, what in _LOSSES if pattern.match(text)), None)
    if what is None:
        return None
    words = {(in_quotes or bare).replace("``", "`").casefold() for in_quotes, bare in _WORDS.findall(text)}
    is_database = re.match(r"DROP\s+(DATABASE|SCHEMA)", text, re.IGNORECASE) is not None
    for table in tables:
        place, name = table[0].casefold(), table[1].casefold()
        if (is_database and place in words) or (name in words and place in {*words, schema.casefold()}):
            return table, what
    return None
