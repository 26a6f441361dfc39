"""What is wrong with a SQL text, and where in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from millstream.base.errors import MillstreamError
from millstream.table.sql.ast import Position

__all__ = ["SqlError", "SqlParseError", "closest", "show_position"]


class SqlError(MillstreamError, ValueError):
    """A SQL statement that cannot be run.

    Attributes:
        line: Where it is wrong, from 1; 0 if that is not known.
        column: From 1.
    """

    code = "SQL"
    domain = "user"

    def __init__(
        self,
        message: str,
        *,
        at: Position | None = None,
        text: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.line = 0 if at is None else at.line
        self.column = 0 if at is None else at.column
        self._length = 1 if at is None else at.length
        self._shown = False
        if text is not None:
            self.show_in(text)

    def show_in(self, text: str) -> None:
        """Show the place in the text the statement was read from; the first text that is given counts."""
        if self._shown or not self.line:
            return
        shown = show_position(text, Position(self.line, self.column, self._length))
        if shown:
            self.detail = f"\n{shown}\n{self.detail}" if self.detail else f"\n{shown}"
            self._shown = True


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
        super().__init__(message, at=at, text=text, detail=detail, hint=hint)
        self.expected = expected
        self.at_end = at_end


def show_position(text: str, at: Position, width: int = 100) -> str:
    """Return the line of a place with a caret below it.

    >>> print(show_position("SELECT a FORM t", Position(1, 10, 4)))
    1 | SELECT a FORM t
      |          ^^^^
    """
    lines = text.split("\n")
    if not 1 <= at.line <= len(lines):
        return ""
    line = lines[at.line - 1].rstrip("\r").replace("\t", " ")
    start = at.column - 1
    cut = max(0, start - width // 2)
    piece = line[cut : cut + width]
    dots = "…" if cut else ""
    marks = "^" * max(1, min(at.length, len(piece) - (start - cut)))
    number = str(at.line)
    return f"{number} | {dots}{piece}\n{' ' * len(number)} | {' ' * (start - cut + len(dots))}{marks}"


def closest(seen: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name most like what was seen, whatever the case; None if none is like it.

    >>> closest("biddr", ["auction", "bidder"])
    'bidder'
    """
    by_lower = {name.lower(): name for name in names}
    found = difflib.get_close_matches(seen.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None
