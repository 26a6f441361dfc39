"""A SELECT of a program, made one of a range of tokens; and the one that is made for a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from millstream.base.errors import ConfigurationError

__all__ = ["Select", "quote"]

_PIECES = re.compile(
    r"""
    (?P<comment> --[^\n]* | //[^\n]* | /\*.*?\*/)
  | (?P<text> '(?:[^']|'')*' | \$\$.*?\$\$)
  | (?P<quoted> "(?:[^"]|"")*")
  | (?P<word> [A-Za-z_]\w*)
  | (?P<sign> \S)
    """,
    re.VERBOSE | re.DOTALL,
)
_AGGREGATES = ("COUNT", "MIN", "MAX", "SUM", "AVG")
_EXAMPLE = "SELECT id, cents FROM shop.orders WHERE cents > 100 ALLOW FILTERING"


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    text: str
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def name(self) -> str | None:
        """The name that it is, as the cluster has it; None if it is none."""
        if self.kind == "word":
            return self.text.lower()
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else None


def quote(name: str) -> str:
    """Return a name, quoted.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Select:
    """A SELECT of one table, without a range of tokens.

    Attributes:
        cql: It.
        keyspace: Where the table is, as the cluster writes it.
        table: Its name, likewise.
        before: Where a condition is put into it.
        has_where: Whether there are conditions.
    """

    cql: str
    keyspace: str
    table: str
    before: int
    has_where: bool

    @property
    def name(self) -> str:
        """The table, for messages."""
        return f"{self.keyspace}.{self.table}"

    @staticmethod
    def of_table(keyspace: str, table: str, columns: Sequence[str]) -> Select:
        """Make the one of some columns of a table."""
        cql = f"SELECT {', '.join(map(quote, columns))} FROM {quote(keyspace)}.{quote(table)}"
        return Select(cql, keyspace, table, len(cql), False)

    @staticmethod
    def of(query: str) -> Select:
        """Look at a program's.

        Raises:
            ConfigurationError: If it cannot be executed for one range of tokens after the other.

        Example:
            >>> Select.of("select a from shop.Orders where b > 1 ALLOW FILTERING;").ranged(["k", "L"])
            'select a from shop.Orders where token("k", "L") > ? AND token("k", "L") <= ? AND b > 1 ALLOW FILTERING'
        """
        cql = query.strip().rstrip(";").rstrip()
        pieces = [
            _Piece(found.lastgroup or "", found.group(), found.end())
            for found in _PIECES.finditer(cql)
            if found.lastgroup != "comment"
        ]
        if not pieces or not pieces[0].is_word("SELECT"):
            raise _refused(query, "It has to be a SELECT.")
        start = next((place for place, piece in enumerate(pieces) if piece.is_word("FROM")), None)
        named = pieces[start + 1 : start + 4] if start is not None else []
        if len(named) < 3 or named[1].text != "." or named[0].name is None or named[2].name is None:
            raise _refused(query, "It has to name keyspace and table: FROM shop.orders.")
        assert start is not None
        rest = pieces[start + 4 :]
        _check(query, pieces[:start], rest)
        has_where = bool(rest) and rest[0].is_word("WHERE")
        before = rest[0].end if has_where else named[2].end
        return Select(cql, named[0].name, named[2].name, before, has_where)

    def ranged(self, partition_key: Sequence[str]) -> str:
        """Return it with a range of tokens as parameters: the token before it, and its last one."""
        token = f"token({', '.join(map(quote, partition_key))})"
        condition = f"{token} > ? AND {token} <= ?"
        added = f" {condition} AND" if self.has_where else f" WHERE {condition}"
        return self.cql[: self.before] + added + self.cql[self.before :]


def _check(query: str, columns: Sequence[_Piece], rest: Sequence[_Piece]) -> None:
    for piece, after in pairwise(columns):
        if piece.is_word(*_AGGREGATES) and after.text == "(":
            raise _refused(query, f"It would give a {piece.text} of each range, not of the table.")
    for place, piece in enumerate(rest):
        if piece.is_word("GROUP", "ORDER"):
            raise _refused(query, f"{piece.text.upper()} BY would be of each range, not of the table.")
        if piece.is_word("LIMIT") and not (place and rest[place - 1].is_word("PARTITION")):
            raise _refused(query, "LIMIT would be of each range, not of the table.")
        if piece.is_word("TOKEN") and rest[place + 1 : place + 2] and rest[place + 1].text == "(":
            raise _refused(query, "Ranges of tokens are the source's own.")
        if piece.kind == "sign" and piece.text == "?":
            raise _refused(query, "It has a parameter: write its value.")


def _refused(query: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"a Cassandra source cannot read by ranges of tokens: {' '.join(query.split())[:300]}",
        detail=why,
        hint=f"Such as {_EXAMPLE}.",
    )
