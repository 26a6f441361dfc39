"""Results as text tables, the way Flink prints them.

Columns of queries are as wide as their types want, at most 30 characters, so that rows are printed as they come; other
results are as wide as what is in them.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from millstream.table.expressions.rex import RowSchema
from millstream.types import datatypes as sql

__all__ = ["Tableau", "display_width", "print_line"]

_NULL = "<NULL>"
_KINDS = ("+I", "-U", "+U", "-D")
_INTEGERS = {sql.TinyIntType: 4, sql.SmallIntType: 6, sql.IntType: 11, sql.BigIntType: 20}


def print_line(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def display_width(text: str) -> int:
    """Return how many places a text takes on a screen: wide characters take two.

    >>> display_width("ünï日本")
    7
    """
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def type_width(kind: sql.DataType, max_width: int) -> int:
    """Return how wide the column of a type is."""
    for integer, width in _INTEGERS.items():
        if isinstance(kind, integer):
            return width
    if isinstance(kind, sql.BooleanType):
        return 5
    if isinstance(kind, sql.DecimalType):
        return kind.precision + 2
    if isinstance(kind, sql.DateType):
        return 10
    if isinstance(kind, sql.TimeType):
        return 8 if kind.precision == 0 else 9 + kind.precision
    if isinstance(kind, sql.TimestampType):
        return 19 if kind.precision == 0 else 20 + kind.precision
    return max_width


class Tableau:
    """Prints one result.

    Args:
        schema: Names and types of its columns.
        shows_kinds: Whether the kind of each row is a column.
        fixed_widths: Whether widths follow from types.
        max_width: Of columns whose type has no width of its own.
        zone: Zone that moments are shown in.
    """

    def __init__(
        self,
        schema: RowSchema,
        *,
        shows_kinds: bool,
        fixed_widths: bool,
        max_width: int = 30,
        zone: str = "UTC",
    ) -> None:
        self._schema = schema
        self._shows_kinds = shows_kinds
        self._fixed_widths = fixed_widths
        self._max_width = max_width
        self._zone = zone

    def print(self, batches: Iterator[tuple[Any, Any]]) -> None:
        """Print all rows, then how many there are."""
        for line in self.lines(batches):
            print_line(line)

    def lines(self, batches: Iterator[tuple[Any, Any]]) -> Iterator[str]:
        """Yield the lines of the table; those of rows as they come, if widths follow from types."""
        rows = self._texts(batches)
        if not self._fixed_widths:
            known = list(rows)
            widths = self._widths_of(known)
            rows = iter(known)
        else:
            widths = self._widths_of_types()
        count = 0
        for row in rows:
            if not count:
                yield from self._head(widths)
            count += 1
            yield from self._row(row, widths)
        if not count:
            yield "Empty set"
            return
        yield self._border(widths)
        yield f"{count} row{'' if count == 1 else 's'} in set"

    def _names(self) -> list[str]:
        return (["op"] if self._shows_kinds else []) + list(self._schema.names)

    def _texts(self, batches: Iterator[tuple[Any, Any]]) -> Iterator[list[str]]:
        from millstream.table.session.values import text_rows  # the column kernels, only when rows are there

        for kinds, batch in batches:
            for kind, texts in text_rows(kinds, batch, self._schema, self._zone):
                shown = [_NULL if text is None else text for text in texts]
                yield [_KINDS[kind], *shown] if self._shows_kinds else shown

    def _widths_of_types(self) -> list[int]:
        widths = [2] if self._shows_kinds else []
        for name, kind in zip(self._schema.names, self._schema.types, strict=True):
            widths.append(max(type_width(kind, self._max_width), len(_NULL), display_width(name)))
        return widths

    def _widths_of(self, rows: Sequence[Sequence[str]]) -> list[int]:
        widths = [display_width(name) for name in self._names()]
        for row in rows:
            for place, text in enumerate(row):
                widths[place] = max(widths[place], *(display_width(line) for line in text.split("\n")))
        return widths

    def _border(self, widths: Sequence[int]) -> str:
        return "+" + "+".join("-" * (width + 2) for width in widths) + "+"

    def _head(self, widths: Sequence[int]) -> Iterator[str]:
        yield self._border(widths)
        yield from self._row(self._names(), widths)
        yield self._border(widths)

    def _row(self, texts: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        cells = []
        for text, width in zip(texts, widths, strict=True):
            shown = _cut(text, width) if self._fixed_widths else text
            cells.append(" " * max(0, width - display_width(shown)) + shown)
        yield "| " + " | ".join(cells) + " |"


def _cut(text: str, width: int) -> str:
    if display_width(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        step = _character_width(character)
        if used + step > width - 3:
            break
        kept.append(character)
        used += step
    return "".join(kept) + "..."
