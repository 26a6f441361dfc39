"""Tables and queries of databases, cut into ranges of keys: what is asked for, and who reads which range.

How rows are cut and how statements are written is each database's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millstream.base.errors import SourceError, shorten
from millstream.spi.source import Pending, RangeEnd
from millstream.types.datatypes import RowType

__all__ = [
    "ColumnKind",
    "Key",
    "KeyRange",
    "Position",
    "RangeAssignment",
    "Request",
    "check_same_columns",
    "listed_columns",
    "range_id",
    "range_number",
    "wanted_columns",
]

Key = tuple[str, ...]
"""Values of a key as text."""
Position = Key | int
"""The key of the last row that was read, or how many rows were."""

_AHEAD = 4
"""So many splits of a subtask are planned in an epoch at most."""


@dataclass(frozen=True)
class Request:
    """What a program asks for.

    Attributes:
        table: Name of a table, as SQL has it; None if it is a query.
        query: The query.
        columns: Which of the columns, None for all.
        split_column: What to cut the rows by, None for what tells them apart.
        row_type: Names and types of the columns, None for those of the catalogue.
    """

    table: str | None
    query: str | None
    columns: tuple[str, ...] | None
    split_column: str | None
    row_type: RowType | None

    def __str__(self) -> str:
        return f"table {self.table}" if self.query is None else "the query"


class ColumnKind(Protocol):
    """The type of a column as a server has it; equal if it is the same."""

    @property
    def shown(self) -> str:
        """As SQL has it."""


def listed_columns(found: Sequence[str]) -> str:
    """Return which columns there are, for messages."""
    return f"Its columns: {shorten(list(found), 1000)}."


def wanted_columns(request: Request, found: Sequence[str], name: str) -> list[str]:
    """Return the names of the columns that are read.

    Args:
        request: What is asked for.
        found: The columns that are there.
        name: What is read, for messages.

    Raises:
        SourceError: If one is not there, or there are none.
    """
    if request.row_type is not None:
        wanted = request.row_type.field_names()
    else:
        wanted = list(found if request.columns is None else request.columns)
    missing = [column for column in wanted if column not in found]
    if missing:
        raise SourceError(
            f"{name} has no column {missing[0]!r}",
            detail=listed_columns(found),
            hint="Name its columns as the catalogue has them: usually in lower case.",
        )
    if not wanted:
        raise SourceError(f"{name} has no columns")
    return wanted


def check_same_columns(name: str, before: Mapping[str, ColumnKind], now: Mapping[str, ColumnKind]) -> None:
    """Check that the columns that are read are there, and of the types that they had when reading began.

    Raises:
        SourceError: If they are not.
    """
    for column, kind in before.items():
        if column not in now:
            raise SourceError(
                f"{name} has no column {column!r} any more",
                detail=listed_columns(list(now)),
                hint="Start the job anew, without its checkpoint.",
            )
        if now[column] != kind:
            raise SourceError(
                f"column {column!r} of {name} was of type {kind.shown} when reading began, "
                f"and is of type {now[column].shown}",
                hint="Start the job anew, without its checkpoint.",
            )


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows of a split.

    Attributes:
        number: Names it.
        after: The last key before it, None if it is the first.
        up_to: Its last key, None if it is the last.
        has_nulls: Whether it is the rows that have no value to be split by, and no others.
    """

    number: int
    after: Key | None = None
    up_to: Key | None = None
    has_nulls: bool = False


def range_id(relation: str, number: int) -> str:
    """Return the id of a split.

    >>> range_id("table shop.orders", 3)
    'table shop.orders[3]'
    """
    return f"{relation}[{number}]"


def range_number(split_id: str) -> int:
    """Return the number of the range that a split is."""
    return int(split_id.rpartition("[")[2][:-1])


class RangeAssignment:
    """Which subtask reads which ranges; the next one goes to whoever has the fewest.

    Args:
        parallelism: Number of subtasks.
        waiting: Ranges not finished, in order.
        owners: Subtask of each range that was assigned, by its number. They count if the parallelism is the same: how
            far event time has come is kept for each subtask.
        owners_parallelism: The parallelism that `owners` is of.

    Attributes:
        assigned: The ranges of each subtask, by their numbers.
    """

    def __init__(
        self,
        parallelism: int,
        waiting: Sequence[KeyRange],
        owners: Mapping[int, int],
        owners_parallelism: int,
    ) -> None:
        self._waiting = deque(waiting)
        self.assigned: list[dict[int, KeyRange]] = [{} for _ in range(parallelism)]
        if owners_parallelism == parallelism:
            for keys in [keys for keys in waiting if keys.number in owners]:
                self._waiting.remove(keys)
                self.assigned[owners[keys.number]][keys.number] = keys

    @property
    def has_ended(self) -> bool:
        """Whether all ranges are finished."""
        return not self._waiting and not any(self.assigned)

    def assign(self) -> None:
        """Hand out waiting ranges."""
        while self._waiting:
            subtask = min(range(len(self.assigned)), key=lambda index: (len(self.assigned[index]), index))
            if len(self.assigned[subtask]) >= _AHEAD:
                return
            keys = self._waiting.popleft()
            self.assigned[subtask][keys.number] = keys

    def range_of(self, end: RangeEnd) -> KeyRange:
        """Return the range that a subtask read."""
        number = range_number(end.split_id)
        return next(ranges[number] for ranges in self.assigned if number in ranges)

    def finish(self, number: int) -> None:
        """Take note that all rows of a range were read."""
        for ranges in self.assigned:
            ranges.pop(number, None)

    def left(self) -> tuple[KeyRange, ...]:
        """Return the ranges that are not finished, those first that were begun."""
        begun = (keys for ranges in self.assigned for keys in ranges.values())
        return (*sorted(begun, key=lambda keys: keys.number), *self._waiting)

    def pending(self) -> Pending:
        """Return how many ranges are not finished."""
        splits = {subtask: len(ranges) for subtask, ranges in enumerate(self.assigned)}
        return Pending(splits=splits, unassigned_splits=len(self._waiting))

    def owners(self) -> dict[int, int]:
        """Return the subtask of each range that is assigned, by its number."""
        return {number: subtask for subtask, ranges in enumerate(self.assigned) for number in ranges}
