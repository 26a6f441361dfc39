"""Messages of a replication stream (output plugin pgoutput, version 1), as PostgreSQL's documentation lays them out.

Numbers are big-endian. A transaction comes when it is committed: begin, a description of each table before its first
change, the changes in their order, commit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from millstream.types.row import RowKind

__all__ = [
    "Change",
    "TableMessage",
    "TupleReader",
    "commit_end",
    "read_change",
    "read_table",
    "truncated_tables",
]

_UNCHANGED = object()
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LONG = struct.Struct(">q")

Values = list[Any]
"""Text of each column as bytes, or None."""


@dataclass(frozen=True, slots=True)
class TableMessage:
    """What a table is like from here on.

    Attributes:
        oid: Its number.
        name: Its schema and its name.
        columns: Names of the columns in order, with number and modifier of their types.
    """

    oid: int
    name: tuple[str, str]
    columns: tuple[tuple[str, tuple[int, int]], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row.

    Attributes:
        oid: Number of the table.
        kind: INSERT, UPDATE_AFTER or DELETE.
        old: The row before; None if it was inserted, or if the server did not log it.
        is_whole: Whether the row before is whole, not only its key.
        new: The row behind it; None if it was deleted.
    """

    oid: int
    kind: RowKind
    old: Values | None
    is_whole: bool
    new: Values | None


class TupleReader:
    """Takes a message apart."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1  # behind the kind of message

    def letter(self) -> bytes:
        """Return one byte."""
        self._at += 1
        return self._data[self._at - 1 : self._at]

    def short(self) -> int:
        """Return a number of two bytes."""
        self._at += 2
        return int(_SHORT.unpack_from(self._data, self._at - 2)[0])

    def number(self) -> int:
        """Return a number of four bytes."""
        self._at += 4
        return int(_INT.unpack_from(self._data, self._at - 4)[0])

    def text(self) -> str:
        """Return a text that ends with a zero."""
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def values(self) -> Values:
        """Return the columns of a row."""
        data, at = self._data, self._at + 2
        values: Values = []
        for _ in range(self.short()):
            kind = data[at]
            at += 1
            if kind == 0x74:  # t: as text
                (length,) = _INT.unpack_from(data, at)
                at += 4
                values.append(data[at : at + length])
                at += length
            else:
                values.append(None if kind == 0x6E else _UNCHANGED)  # n: null; u: large, and as it was
        self._at = at
        return values


def commit_end(data: bytes) -> int:
    """Return the position behind the transaction that a commit ends."""
    return int(_LONG.unpack_from(data, 10)[0])


def read_table(data: bytes) -> TableMessage:
    """Read the description of a table."""
    reader = TupleReader(data)
    oid = reader.number()
    name = (reader.text(), reader.text())
    reader.letter()  # replica identity: each change tells itself what it has
    columns = []
    for _ in range(reader.short()):
        reader.letter()  # whether it is part of the key
        columns.append((reader.text(), (reader.number() & 0xFFFFFFFF, reader.number())))
    return TableMessage(oid & 0xFFFFFFFF, name, tuple(columns))


def read_change(data: bytes) -> Change:
    """Read an insert, an update or a delete."""
    reader = TupleReader(data)
    kind, oid = data[:1], reader.number() & 0xFFFFFFFF
    part = reader.letter()
    old: Values | None = None
    is_whole = part == b"O"
    if part in (b"O", b"K"):
        old = reader.values()
        if kind == b"U":
            reader.letter()
    if kind == b"D":
        return Change(oid, RowKind.DELETE, old, is_whole, None)
    new = reader.values()
    if old is not None:
        new = [before if now is _UNCHANGED else now for before, now in zip(old, new, strict=True)]
    return Change(oid, RowKind.INSERT if kind == b"I" else RowKind.UPDATE_AFTER, old, is_whole, new)


def truncated_tables(data: bytes) -> list[int]:
    """Return the numbers of the tables that a message says were emptied."""
    reader = TupleReader(data)
    count = reader.number()
    reader.letter()
    return [reader.number() & 0xFFFFFFFF for _ in range(count)]
