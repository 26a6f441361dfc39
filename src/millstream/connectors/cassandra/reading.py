"""Who reads which range of tokens, and the reader: a page at a time, so nothing is open between two of them.

Rows of a range come in the order of tokens, those of a partition in that of their clustering columns. A position is
what the cluster says at the end of a page, its paging state: the key of the last row. No node has to remember it::

    range 3 ──► page │ position ──► page │ position ──► page │ the end
                         └ in checkpoints: the same pages come again behind it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.cluster import ClusterBuilder, ConsistencyLevel
from millstream.connectors.cassandra.token_ranges import bounds
from millstream.connectors.cassandra.values import RowReader, shown_type
from millstream.connectors.key_ranges import (
    KeyRange,
    RangeAssignment,
    check_same_columns,
    range_id,
    range_number,
)
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

__all__ = ["CassandraRead", "CassandraSnapshot", "Scan", "TokenEnumerator", "TokenReader", "prepare_scan"]

_PAGES_WITHOUT_ROWS = 50
"""Behind so many of them in a row (deleted rows, filters) a reader says where it is."""


@dataclass(frozen=True)
class CassandraRead:
    """How a cluster is read.

    Attributes:
        builder: Makes connections.
        patience: How long the cluster is waited for.
        level: How many replicas must answer; None for what the connection says.
        page_rows: Rows of a page.
    """

    builder: ClusterBuilder
    patience: Patience = field(default_factory=Patience)
    level: ConsistencyLevel | None = None
    page_rows: int = 2_000

    def new_client(self) -> CassandraClient:
        """Return a client, not connected."""
        return CassandraClient(self.builder, self.patience, SourceError)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The type of a column of the result."""

    shown: str


@dataclass(frozen=True)
class Scan:
    """What is executed for each range.

    Attributes:
        declared: What the program asks for, as text: a checkpoint goes on with the same only.
        name: The table, for messages.
        cql: With the token before a range and its last one as parameters.
        columns: Name and type of each column of the result.
    """

    declared: str
    name: str
    cql: str
    columns: tuple[tuple[str, str], ...] = ()

    def check(self, prepared: Any) -> None:
        """Check that the result still has the columns that it had when reading began.

        Raises:
            SourceError: If it has not.
        """
        now = _columns_of(prepared)
        check_same_columns(f"table {self.name}", _kinds(self.columns), _kinds(now))
        if now != self.columns:
            others = [name for name, _ in now if name not in dict(self.columns)]
            raise SourceError(
                f"the columns of table {self.name} are others than when reading began",
                detail=f"New among them: {', '.join(others) or 'their order'}.",
                hint="Name the columns in the query, and start the job anew, without its checkpoint.",
            )


def prepare_scan(client: CassandraClient, declared: str, name: str, cql: str) -> Scan:
    """Have the cluster look at a statement for ranges; return it with its columns.

    Raises:
        SourceError: If it is refused, or has parameters of its own.
    """
    prepared = client.prepare(cql)
    if len(prepared.column_metadata or ()) != 2:
        raise SourceError(
            f"the query of table {name} has parameters: {cql[:300]}", hint="Write their values into it."
        )
    return Scan(declared, name, cql, _columns_of(prepared))


def _columns_of(prepared: Any) -> tuple[tuple[str, str], ...]:
    return tuple((each[2], shown_type(each[3])) for each in prepared.result_metadata or ())


def _kinds(columns: Sequence[tuple[str, str]]) -> dict[str, _Shown]:
    return {name: _Shown(shown) for name, shown in columns}


@dataclass(frozen=True, slots=True)
class TokenSplit:
    """What a reader needs.

    Attributes:
        scan: What is executed.
        keys: The range.
        turn: Number of the plan; ranges of one turn share one budget.
    """

    scan: Scan
    keys: KeyRange
    turn: int


@dataclass(frozen=True)
class CassandraSnapshot:
    """Where reading stands.

    Attributes:
        scan: What is executed.
        waiting: Ranges not finished, in order.
        positions: Paging states of ranges that were begun, by their numbers.
        owners: Subtask of each range that was assigned, by its number.
        parallelism: Number of subtasks.
    """

    scan: Scan
    waiting: tuple[KeyRange, ...]
    positions: dict[int, bytes] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    parallelism: int = 0


class TokenEnumerator(SplitEnumerator):
    """Plans the ranges of a `CassandraSource`.

    Args:
        begun: What is left to read, also at another parallelism.
        parallelism: Number of subtasks.
    """

    def __init__(self, begun: CassandraSnapshot, parallelism: int) -> None:
        self._scan = begun.scan
        self._positions = dict(begun.positions)
        self._shares = RangeAssignment(parallelism, begun.waiting, begun.owners, begun.parallelism)
        self._turn = 0

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan what each subtask reads."""
        self._shares.assign()
        self._turn += 1
        ranges = {
            subtask: [
                SplitRange(
                    range_id(self._scan.name, number),
                    TokenSplit(self._scan, keys, self._turn),
                    self._positions.get(number),
                    None,
                    request.max_records,
                    sequential=True,
                )
                for number, keys in splits.items()
            ]
            for subtask, splits in enumerate(self._shares.assigned)
            if splits
        }
        idle = frozenset(range(len(self._shares.assigned))) - ranges.keys()
        return SourcePlan(ranges, finished=idle, backlog=bool(ranges))

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished ranges."""
        for end in ends:
            number = range_number(end.split_id)
            if end.finished:
                self._positions.pop(number, None)
                self._shares.finish(number)
            elif end.position is not None:
                self._positions[number] = end.position

    def snapshot(self) -> CassandraSnapshot:
        """Return the ranges that are not finished, and the positions in them."""
        shares = self._shares
        return CassandraSnapshot(
            self._scan, shares.left(), dict(self._positions), shares.owners(), len(shares.assigned)
        )


class TokenReader(SourceReader):
    """Reads the ranges of one subtask, one after the other."""

    gives_away = True

    def __init__(self, read: CassandraRead) -> None:
        self._settings = read
        self._client = read.new_client()
        self._prepared: Any = None
        self._metadata: Any = None
        self._rows: RowReader | None = None
        self._turn = -1
        self._budget = 0

    def open(self) -> None:
        """Connect.

        Raises:
            SourceError: If the cluster stays away, or refuses the user.
        """
        self._client.open()

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range until its end, until the turn's budget is spent, or until no more is wanted."""
        split: TokenSplit = split_range.split
        if split.turn != self._turn:
            self._turn, self._budget = split.turn, split_range.max_records
        position, count, has_ended, empty = split_range.start, 0, False, 0
        while self._budget > 0 and not has_ended and empty < _PAGES_WITHOUT_ROWS:
            found, position = self._fetch(split, position, min(self._budget, self._settings.page_rows))
            has_ended = position is None
            empty = 0 if found else empty + 1
            count += len(found)
            self._budget -= len(found)
            if found and not emit(Rows(self._records(split.scan, found))):
                self._budget = 0
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def _fetch(self, split: TokenSplit, position: bytes | None, rows: int) -> tuple[list[Any], bytes | None]:
        scan = split.scan
        if self._prepared is None or self._prepared.query_string != scan.cql:
            self._prepared = self._client.prepare(scan.cql)
            self._metadata = None
        bound = self._prepared.bind(bounds(split.keys))
        bound.fetch_size = rows
        if self._settings.level is not None:
            bound.consistency_level = self._settings.level.value
        return self._client.fetch(bound, position, what=f"reading table {scan.name}")

    def _records(self, scan: Scan, found: list[Any]) -> list[Any]:
        if self._rows is None or self._prepared.result_metadata is not self._metadata:
            scan.check(self._prepared)  # the driver prepares a statement again when a table has been changed
            self._metadata = self._prepared.result_metadata
            self._rows = RowReader.of(self._prepared, f"table {scan.name}")
        return self._rows.rows(found)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
