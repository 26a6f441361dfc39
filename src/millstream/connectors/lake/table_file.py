"""A data file of a table, as it waits, is read and is kept in checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from millstream.types.row import RowKind

__all__ = ["TableFile", "TableFileSplit", "cut_files"]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file, or a part of it.

    Attributes:
        version: Of the table, that the file is read for: a snapshot's id, a number.
        path: Where it is, without credentials.
        size_bytes: Its size.
        schema: What is read of it, as the format has it; the same object for all files that are found at once.
        extra: What the format has to know besides: values of partitions, deleted rows.
        kind: Of its rows; None if it has a column that says so.
        part: Bytes within which row groups begin that are read, from the first up to the last; None for all.
    """

    version: str
    path: str
    size_bytes: int
    schema: Any
    extra: Any = None
    kind: RowKind | None = RowKind.INSERT
    part: tuple[int, int] | None = None

    @property
    def split_id(self) -> str:
        """Names it: a file may be read for several versions, when it is added and when it is removed."""
        part = "" if self.part is None else f"[{self.part[0]}:{self.part[1]}]"
        sign = "-" if self.kind is RowKind.DELETE else ""
        return f"{sign}{self.version}:{self.path}{part}"


@dataclass(frozen=True, slots=True)
class TableFileSplit:
    """What a reader needs.

    Attributes:
        file: The file.
        turn: Number of the plan; ranges of one turn share one budget.
    """

    file: TableFile
    turn: int


def cut_files(files: Sequence[TableFile], most_bytes: int) -> Iterator[TableFile]:
    """Cut files into parts of nearly equal size.

    Args:
        files: Whole files.
        most_bytes: How large a part is at most.
    """
    for file in files:
        if file.size_bytes <= most_bytes:
            yield file
            continue
        count = -(-file.size_bytes // most_bytes)
        bounds = [file.size_bytes * number // count for number in range(count + 1)]
        for first, last in pairwise(bounds):
            yield replace(file, part=(first, last), size_bytes=last - first)
