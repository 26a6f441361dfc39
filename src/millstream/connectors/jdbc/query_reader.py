"""Splits of a query, and who reads them.

A split is a row of parameters; a position in it is how many rows were read. A reader keeps the result that it is in
between epochs. Behind a failure the query is executed again, and as many rows are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.connectors.jdbc.alchemy import Alchemy
from millstream.connectors.jdbc.reading import RowMaker, read_patiently
from millstream.connectors.key_ranges import KeyRange, RangeAssignment, range_id, range_number
from millstream.spi.batch import Rows
from millstream.spi.source import (
    EmitBatch,
    Pending,
    PlanRequest,
    RangeEnd,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)
from millstream.types.datatypes import RowType

__all__ = ["JdbcQuery", "QueryEnumerator", "QueryReader", "QuerySnapshot"]

_NAME = "query"


@dataclass(frozen=True)
class JdbcQuery:
    """What is read.

    Attributes:
        database: Where.
        sql: The query.
        extractor: Makes records of rows; None for `Row`s.
        row_type: Names and types of the columns; None for those that the driver gives.
        fetch_size: How many rows are fetched at once.
        patience_s: How long a server that is away is waited for.
    """

    database: Alchemy
    sql: str
    extractor: Callable[[Any], Any] | None
    row_type: RowType | None
    fetch_size: int
    patience_s: float


@dataclass(frozen=True)
class QuerySnapshot:
    """Where reading stands.

    Attributes:
        parameters: Those of each split that is not finished, by its number.
        positions: How many rows were read of splits that were begun.
        owners: Subtask of each split that was assigned.
        parallelism: Number of subtasks.
    """

    parameters: dict[int, tuple[Any, ...]]
    positions: dict[int, int] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    parallelism: int = 0


class QueryEnumerator(SplitEnumerator):
    """Plans the splits of a `JdbcSource`.

    Args:
        splits: The parameters of each, if nothing was restored.
        parallelism: Number of subtasks.
        restored: A snapshot to go on from, also of another parallelism.
    """

    def __init__(
        self, splits: Sequence[tuple[Any, ...]], parallelism: int, restored: QuerySnapshot | None
    ) -> None:
        kept = restored or QuerySnapshot(dict(enumerate(splits)))
        self._parameters = dict(kept.parameters)
        self._positions = dict(kept.positions)
        ranges = [KeyRange(number) for number in sorted(self._parameters)]
        self._shares = RangeAssignment(parallelism, ranges, kept.owners, kept.parallelism)

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan what each subtask reads."""
        self._shares.assign()
        ranges = {
            subtask: [
                SplitRange(
                    range_id(_NAME, number),
                    self._parameters[number],
                    self._positions.get(number, 0),
                    None,
                    max(1, request.max_records // len(splits)),
                    sequential=True,
                )
                for number in splits
            ]
            for subtask, splits in enumerate(self._shares.assigned)
            if splits
        }
        idle = frozenset(range(len(self._shares.assigned))) - ranges.keys()
        return SourcePlan(ranges, finished=idle, backlog=bool(ranges))

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished splits."""
        for end in ends:
            number = range_number(end.split_id)
            self._positions[number] = end.position
            if end.finished:
                del self._positions[number], self._parameters[number]
                self._shares.finish(number)

    def pending(self) -> Pending:
        """Return how many splits are left: how many rows a query has nobody knows."""
        return self._shares.pending()

    def snapshot(self) -> QuerySnapshot:
        """Return the splits that are not finished, and the positions in them."""
        shares = self._shares
        return QuerySnapshot(
            dict(self._parameters), dict(self._positions), shares.owners(), len(shares.assigned)
        )


class QueryReader(SourceReader):
    """Reads the splits of one subtask, one after the other."""

    gives_away = True

    def __init__(self, query: JdbcQuery) -> None:
        self._query = query
        self._maker = RowMaker(query.database, query.extractor, query.row_type)
        self._connection: Any = None
        self._result: Any = None
        self._place: tuple[str, int] | None = None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a split until its end, until enough was read, or until no more is wanted."""
        position: int = split_range.start
        count, goes_on, has_ended = 0, True, False
        while goes_on and not has_ended and count < split_range.max_records:
            most = min(self._query.fetch_size, split_range.max_records - count)
            rows = self._fetch(split_range, position, most)
            has_ended = len(rows) < most
            position += len(rows)
            count += len(rows)
            self._place = None if has_ended else (split_range.split_id, position)
            if rows:
                goes_on = emit(Rows(self._maker.records(rows, list(self._result.keys()))))
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def _fetch(self, split_range: SplitRange, position: int, most: int) -> list[Any]:
        """Return the next rows; execute the query again if the server went away."""
        query, database = self._query, self._query.database

        def attempt() -> list[Any]:
            try:
                if self._result is None or self._place != (split_range.split_id, position):
                    self._execute(split_range.split, position)
                    self._place = (split_range.split_id, position)
                return list(self._result.fetchmany(most))
            except Exception:
                self.close()
                raise

        return read_patiently(database, query.patience_s, attempt)

    def _execute(self, parameters: tuple[Any, ...], position: int) -> None:
        self.close()
        self._connection = self._query.database.connect_to_read(self._query.fetch_size)
        self._result = self._query.database.execute_in(self._connection, self._query.sql, parameters)
        left = position
        while left and (passed := len(self._result.fetchmany(min(left, self._query.fetch_size)))):
            left -= passed

    def close(self) -> None:
        """Close the connection, and with it a result that has not ended."""
        if self._connection is not None:
            self._connection.invalidate()  # a rollback would wait for the rows that are left
            self._connection.close()
        self._connection = self._result = self._place = None
