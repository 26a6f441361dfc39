"""Statements with JDBC's `?`, as drivers of Python want them.

`?` stands for a parameter, `??` for a question mark (operators of PostgreSQL such as `??|`). In texts, quoted names and
comments both are what they are. For drivers that format statements a `%` is written twice, wherever it stands.
"""

from __future__ import annotations

import re
from functools import lru_cache

from millstream.base.errors import ConfigurationError

__all__ = ["Syntax", "count_parameters", "translate"]

_COMMON = r"/\*.*?(?:\*/|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)"
_STANDARD_TEXT = r"'(?:[^']|'')*(?:'|\Z)"
_BACKSLASH_TEXT = r"'(?:[^'\\]|''|\\.)*(?:'|\Z)"


class Syntax:
    """How a database writes texts and comments.

    Attributes:
        skipped: What is left as it is, as a regular expression.
    """

    STANDARD = re.compile(rf"{_STANDARD_TEXT}|{_COMMON}|--[^\n]*", re.S)
    POSTGRES = re.compile(
        rf"\b[eE]{_BACKSLASH_TEXT}|{_STANDARD_TEXT}|{_COMMON}|--[^\n]*"
        r"|(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)",
        re.S,
    )
    MYSQL = re.compile(
        rf"{_BACKSLASH_TEXT}|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\]|\"\"|\\.)*(?:\"|\Z)"
        r"|`(?:[^`]|``)*(?:`|\Z)|--(?=\s|\Z)[^\n]*|\#[^\n]*",
        re.S,
    )


_MARK = re.compile(r"\?\??")


@lru_cache(maxsize=1_000)
def translate(sql: str, syntax: re.Pattern[str], style: str) -> str:
    """Return a statement with a driver's placeholders.

    Args:
        sql: The statement.
        syntax: One of `Syntax`.
        style: What PEP 249 calls the driver's style: `qmark`, `format`, `pyformat`, `named` or `numeric`, with
            names p1, p2, …; or `dollar`, as PostgreSQL itself has it.

    >>> translate("INSERT INTO t VALUES (?, '?', ?::int) -- why?", Syntax.POSTGRES, "format")
    "INSERT INTO t VALUES (%s, '?', %s::int) -- why?"
    >>> translate("SELECT data ??| ? FROM t WHERE a LIKE '5%'", Syntax.POSTGRES, "format")
    "SELECT data ?| %s FROM t WHERE a LIKE '5%%'"
    """
    numbers = iter(range(1, len(sql) + 1))
    doubled = style in ("format", "pyformat")

    def mark(match: re.Match[str]) -> str:
        if match[0] == "??":
            return "?"
        number = next(numbers)
        return {
            "qmark": "?",
            "format": "%s",
            "pyformat": f"%(p{number})s",
            "named": f":p{number}",
            "numeric": f":{number}",
            "dollar": f"${number}",
        }[style]

    def escape(text: str) -> str:
        return text.replace("%", "%%") if doubled else text

    parts = []
    for text, is_code in _parts(sql, syntax):
        parts.append(_MARK.sub(mark, escape(text)) if is_code else escape(text))
    return "".join(parts)


def count_parameters(sql: str, syntax: re.Pattern[str]) -> int:
    """Return how many parameters a statement has.

    Raises:
        ConfigurationError: If there is no statement.

    >>> count_parameters("UPDATE t SET a = ? WHERE b ?? 'x' AND c = ? /* ? */", Syntax.POSTGRES)
    2
    """
    if not isinstance(sql, str) or not sql.strip():
        raise ConfigurationError(f"the statement of a database sink is {sql!r}, must be SQL")
    codes = [text for text, is_code in _parts(sql, syntax) if is_code]
    return sum(mark == "?" for text in codes for mark in _MARK.findall(text))


def _parts(sql: str, syntax: re.Pattern[str]) -> list[tuple[str, bool]]:
    """Cut a statement into code and what is left as it is."""
    parts, start = [], 0
    for match in syntax.finditer(sql):
        parts += [(sql[start : match.start()], True), (match[0], False)]
        start = match.end()
    return [*parts, (sql[start:], True)]
