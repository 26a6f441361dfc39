"""Splits of a query, and who reads them.

A split is a row of parameters; a position in it is how many rows were read. A reader keeps the result that it is in
between epochs. Behind a failure the query is executed again, and as many rows are passed over.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from millstream.base.errors import MalformedRecordError, SourceError, shorten
from millstream.connectors.jdbc.alchemy import Alchemy, load_sqlalchemy
from millstream.connectors.jdbc.database import Trouble
from millstream.connectors.key_ranges import KeyRange, RangeAssignment, range_id, range_number
from millstream.connectors.patience import Patience
from millstream.spi.batch import Rows
from millstream.spi.source import (
    EmitBatch,
    PlanRequest,
    RangeEnd,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)
from millstream.types import datatypes as types
from millstream.types.datatypes import DataType, RowType
from millstream.types.row import Row

__all__ = ["JdbcQuery", "QueryEnumerator", "QueryReader", "QuerySnapshot"]

_log = logging.getLogger(__name__)

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
        self._patience = Patience(total_s=query.patience_s)
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
                goes_on = emit(Rows(self._records(rows)))
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

        errors = load_sqlalchemy().exc
        try:
            return self._patience.call(
                attempt,
                is_passing=lambda error: database.judge(error) is Trouble.AWAY,
                what=f"reading {database}",
                log=_log,
            )
        except errors.SQLAlchemyError as error:
            is_away = database.judge(error) is Trouble.AWAY
            detail = " ".join(str(getattr(error, "orig", None) or error).split())[:500]
            raise SourceError(
                f"{database} is away, and was waited for {query.patience_s:g} s"
                if is_away
                else f"{database} does not give the rows of the query",
                detail=detail,
                hint="Start the server, or correct the URL."
                if is_away
                else "Look at the query, at user and password, and at what the user may read.",
            ) from None

    def _execute(self, parameters: tuple[Any, ...], position: int) -> None:
        self.close()
        self._connection = self._query.database.connect_to_read(self._query.fetch_size)
        self._result = self._query.database.execute_in(self._connection, self._query.sql, parameters)
        left = position
        while left and (passed := len(self._result.fetchmany(min(left, self._query.fetch_size)))):
            left -= passed

    def _records(self, rows: Sequence[Any]) -> list[Any]:
        query = self._query
        if query.row_type is not None:
            return self._typed(rows, query.row_type)
        if query.extractor is not None:
            return [query.extractor(row) for row in rows]
        return _as_rows(rows, list(self._result.keys()))

    def _typed(self, rows: Sequence[Any], row_type: RowType) -> list[Any]:
        names = row_type.field_names()
        converters = [_converter(each) for each in row_type.field_types()]
        if len(rows[0]) != len(names):
            raise SourceError(
                f"the query of {self._query.database} gives {len(rows[0])} columns, and {len(names)} are declared",
                hint="Declare a type for each column (set_row_type).",
            )
        records = []
        for row in rows:
            values = []
            for name, value, convert in zip(names, row, converters, strict=True):
                try:
                    values.append(None if value is None else convert(value))
                except (ValueError, ArithmeticError, TypeError) as error:
                    raise MalformedRecordError(
                        f"column {name!r} of {self._query.database}: {shorten(value)} does not fit its type",
                        detail=str(error),
                    ) from error
            records.append(values)
        made = _as_rows(records, names)
        return made if self._query.extractor is None else [self._query.extractor(row) for row in made]

    def close(self) -> None:
        """Close the connection, and with it a result that has not ended."""
        if self._connection is not None:
            self._connection.invalidate()  # a rollback would wait for the rows that are left
            self._connection.close()
        self._connection = self._result = self._place = None


def _as_rows(rows: Sequence[Any], names: list[str]) -> list[Row]:
    made = []
    for values in rows:
        row = Row(*values)
        row.set_field_names(names)
        made.append(row)
    return made


def _decimal(scale: int) -> Callable[[Any], Decimal]:
    unit = Decimal(1).scaleb(-scale)
    return lambda value: Decimal(str(value)).quantize(unit)


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: parse(value) if isinstance(value, str) else value


def _moment(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


_CONVERTERS: list[tuple[type[DataType], Callable[[Any], Any]]] = [
    (types.BooleanType, bool),
    (types.DoubleType, float),
    (types.DateType, _parsed(datetime.date.fromisoformat)),
    (types.TimeType, _parsed(datetime.time.fromisoformat)),
    (types.LocalZonedTimestampType, _parsed(_moment)),
    (types.TimestampType, _parsed(datetime.datetime.fromisoformat)),
    (types.VarBinaryType, bytes),
    (types.VarCharType, str),
    (types.NumericType, int),
]


def _converter(declared: DataType) -> Callable[[Any], Any]:
    if isinstance(declared, types.DecimalType):
        return _decimal(declared.scale)
    for kind, convert in _CONVERTERS:
        if isinstance(declared, kind):
            return convert
    return lambda value: value
