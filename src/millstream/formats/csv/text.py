"""Lines of CSV as Flink writes them, byte by byte.

Text is enclosed when a look at its characters cannot rule out that it has to be: if it is longer than 24 characters,
holds a character up to the greater of separator and quotation mark, or the escape character (a backslash without
one). Within, quotation marks and escape characters are doubled. Numbers and truth values are written as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

__all__ = ["CsvLines"]

_LONGEST_LOOKED_AT = 24


class CsvLines:
    r"""Joins fields to lines.

    Args:
        separator: Between two fields, one character.
        quote: Around text, one character; None encloses nothing.
        escape: One character, or None.
        end: Of a line.

    >>> lines = CsvLines(",", quote='"', escape=None, end="\n")
    >>> lines.join([lines.text("a b"), "7", lines.text("x"), lines.text("y,")])
    '"a b",7,x,"y,"\n'
    """

    def __init__(self, separator: str, *, quote: str | None, escape: str | None, end: str) -> None:
        self._separator, self._quote, self._escape, self._end = separator, quote, escape, end
        if quote is None:
            marks = f"{separator}{escape or ''}\r\n"
            self._finds = re.compile(f"[{re.escape(marks)}]").search
        else:
            greatest = max(separator, quote, *(end or "\n"))
            self._finds = re.compile(f"[\0-{re.escape(greatest)}{re.escape(escape or chr(92))}]").search
            self._doubled = (quote,) if escape is None else (quote, escape)

    def text(self, value: str) -> str:
        """Return a field of text.

        Raises:
            ValueError: If nothing is enclosed, and it cannot be told from two fields or lines.
        """
        if self._quote is None:
            return self._bare(value)
        if len(value) <= _LONGEST_LOOKED_AT and self._finds(value) is None:
            return value
        return self._enclosed(value)

    def texts(self, values: Sequence[str | None], null: str) -> Sequence[str]:
        """Return fields of text, `null` for None.

        Raises:
            ValueError: As `text`.
        """
        if self._quote is None:
            return [null if value is None else self._bare(value) for value in values]
        finds, enclosed, longest = self._finds, self._enclosed, _LONGEST_LOOKED_AT
        if None not in values:
            texts = cast(Sequence[str], values)
            if not texts or (max(map(len, texts)) <= longest and finds("".join(texts)) is None):
                return texts
        return [  # text() in place, which saves a call for each value
            null
            if value is None
            else value
            if len(value) <= longest and finds(value) is None
            else enclosed(value)
            for value in values
        ]

    def join(self, fields: Sequence[str]) -> str:
        """Return a line."""
        return self._separator.join(fields) + self._end

    def join_columns(self, columns: Sequence[Sequence[str]]) -> str:
        """Return the lines of columns of equal length."""
        lines = [*map(self._separator.join, zip(*columns, strict=True)), ""]
        return self._end.join(lines)

    def _enclosed(self, value: str) -> str:
        quote = self._quote
        for mark in self._doubled:
            if mark in value:
                value = value.replace(mark, mark * 2)
        return f"{quote}{value}{quote}"

    def _bare(self, value: str) -> str:
        if self._finds(value) is None:
            return value
        if self._escape is None:
            raise ValueError(f"{value!r} holds a separator or line break, and there is no quotation mark")
        return re.sub(f"[{re.escape(self._separator + self._escape)}\r\n]", self._escaped, value)

    def _escaped(self, match: re.Match[str]) -> str:
        return f"{self._escape}{match[0]}"
