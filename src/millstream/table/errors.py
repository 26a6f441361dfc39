"""Errors of SQL texts and of tables: where in the text, what was seen, what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from millstream.base.errors import MillstreamError

if TYPE_CHECKING:
    from millstream.table.sql.ast import Position

__all__ = ["SqlError", "ValidationError", "did_you_mean"]


class SqlError(MillstreamError, ValueError):
    """A statement, or a program of the Table API, cannot be what it is meant to be.

    Attributes:
        position: Where in the text; None if it has no place there (the Table API).
        text: The statement, once `in_text` was called.
    """

    code = "SQL"
    domain = "user"

    def __init__(
        self, message: str, *, at: Position | None = None, detail: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.position = at
        self.text: str | None = None

    def in_text(self, text: str) -> Self:
        """Take the text that `position` is a place in, to show its line; an earlier one stays. Returns itself."""
        if self.text is None:
            self.text = text
        return self

    def __str__(self) -> str:
        """Return the message, with the line and a caret below its place."""
        lines = super().__str__().split("\n")
        if self.position is None:
            return "\n".join(lines)
        lines[0] += f" (line {self.position.line}, column {self.position.column})"
        return "\n".join([lines[0], *self._excerpt(), *lines[1:]])

    def _excerpt(self) -> list[str]:
        if self.text is None or self.position is None:
            return []
        rows = self.text.splitlines()
        if not 1 <= self.position.line <= len(rows):
            return []
        row = rows[self.position.line - 1]
        shown = min(max(self.position.length, 1), max(len(row) - self.position.column + 1, 1))
        blank = "".join("\t" if each == "\t" else " " for each in row[: self.position.column - 1])
        return [f"  {row}", f"  {blank}{'^' * shown}"]


class ValidationError(SqlError):
    """A statement parses, but names, types or operations in it do not fit."""

    code = "SQL_VALIDATION"


def did_you_mean(name: str, options: Iterable[str]) -> str | None:
    """Return a hint that names the option nearest to a name; None if none is near.

    >>> did_you_mean("bider", ["bidder", "price"])
    'Did you mean "bidder"?'
    """
    by_lower = {each.lower(): each for each in options}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f'Did you mean "{by_lower[near[0]]}"?' if near else None
