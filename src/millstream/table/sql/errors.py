"""What is wrong with a SQL text, and where in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from millstream.table.errors import SqlError
from millstream.table.sql.ast import Position

__all__ = ["SqlParseError", "closest"]


class SqlParseError(SqlError):
    """A text is not of Flink's SQL.

    Attributes:
        expected: What could have stood there.
        at_end: Whether the text ended too early.
    """

    code = "SQL_SYNTAX"

    def __init__(
        self,
        message: str,
        *,
        at: Position | None = None,
        text: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
        expected: tuple[str, ...] = (),
        at_end: bool = False,
    ) -> None:
        super().__init__(message, at=at, detail=detail, hint=hint)
        self.expected = expected
        self.at_end = at_end
        self.text = text


def closest(seen: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name most like what was seen, whatever the case; None if none is like it.

    >>> closest("biddr", ["auction", "bidder"])
    'bidder'
    """
    by_lower = {name.lower(): name for name in names}
    found = difflib.get_close_matches(seen.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None
