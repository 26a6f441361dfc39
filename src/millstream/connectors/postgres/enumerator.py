"""Who reads which range of keys, in which snapshot of the database.

The enumerator's connection holds a transaction open for as long as rows are read. Its snapshot is exported, and readers
join it: so all of them see the database at one moment, however long they take. The transaction also holds the lock of
a reader on the table: nobody can truncate or alter it meanwhile, which snapshots would not save us from.

When the server was restarted, or the job goes on from a checkpoint, there is another snapshot from there on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.base.errors import SourceError
from millstream.connectors.key_ranges import (
    KeyRange,
    Position,
    RangeAssignment,
    Request,
    range_id,
    range_number,
)
from millstream.connectors.postgres.address import PostgresAddress, load_psycopg, said
from millstream.connectors.postgres.relation import Relation, describe, find_table, literal
from millstream.connectors.postgres.splits import cut_into_ranges
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["PostgresEnumerator", "PostgresSnapshot", "PostgresSplit", "read_relation"]

_log = logging.getLogger(__name__)

_LOOK_MS = 10_000
"""How often it is looked whether the transaction is still there."""


@dataclass(frozen=True, slots=True)
class PostgresSplit:
    """What a reader needs.

    Attributes:
        relation: What is read.
        keys: Which of its rows.
        snapshot: Name of the snapshot to read in.
        turn: Number of the plan; ranges of one turn share one budget.
    """

    relation: Relation
    keys: KeyRange
    snapshot: str
    turn: int


@dataclass(frozen=True)
class PostgresSnapshot:
    """Where reading stands.

    Attributes:
        relation: What is read.
        waiting: Ranges not finished, in order.
        positions: Position in ranges that were begun, by their numbers.
        owners: Subtask of each range that was assigned, by its number.
        parallelism: Number of subtasks.
    """

    relation: Relation
    waiting: tuple[KeyRange, ...] = ()
    positions: dict[int, Position] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    parallelism: int = 0


class _Moment:
    """The transaction that all readers share.

    Attributes:
        relation: What is read, as it is at that moment.
        snapshot: Name of the exported snapshot.
    """

    def __init__(self, address: PostgresAddress, request: Request, joined: str | None = None) -> None:
        self.connection = address.connect()
        try:
            self.relation, self.snapshot = self._begin(address, request, joined)
        except BaseException:
            self.connection.close()
            raise

    def _begin(self, address: PostgresAddress, request: Request, joined: str | None) -> tuple[Relation, str]:
        psycopg, connection = load_psycopg(), self.connection
        try:
            table = None if request.table is None else find_table(connection, request.table, address)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if joined is not None:
                connection.execute(f"SET TRANSACTION SNAPSHOT {literal(joined)}")
            if table is not None and table.can_be_locked:  # before the first look at the data
                connection.execute(f"LOCK TABLE {table.name} IN ACCESS SHARE MODE")
            relation = describe(connection, request, table, address)
            (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone()
        except psycopg.errors.InsufficientPrivilege as error:
            raise SourceError(
                f"the user may not read {request} in PostgreSQL at {address}",
                detail=said(error),
                hint="GRANT SELECT on it to the user that the source connects as.",
            ) from error
        except psycopg.Error as error:
            raise SourceError(
                f"{request} in PostgreSQL at {address} cannot be read", detail=said(error)
            ) from error
        return relation, str(snapshot)

    def is_there(self) -> bool:
        """Return whether the transaction is."""
        try:
            self.connection.execute("SELECT 1")
        except load_psycopg().Error:
            return False
        return True


class PostgresEnumerator(SplitEnumerator):
    """Plans the ranges of a `PostgresSource`.

    Args:
        address: The database.
        request: What is read.
        rows: Rows of a split; None if their number is given.
        splits: How many there are at most.
        parallelism: Number of subtasks.
        restored: A snapshot to go on from, also of another parallelism.
        joined: Name of the snapshot of the database to begin in; None for one of its own.

    Raises:
        SourceError: If the server is away or refuses us, or what is to be read is not there.
    """

    def __init__(
        self,
        address: PostgresAddress,
        request: Request,
        rows: int | None,
        splits: int | None,
        parallelism: int,
        restored: PostgresSnapshot | None,
        joined: str | None = None,
    ) -> None:
        self._address = address
        self._request = request
        self._moment: _Moment | None = None
        self._turn = 0
        self._look_ms: int | None = None
        if restored is None:
            self._moment = _Moment(address, request, joined)
            self._relation = self._moment.relation
            restored = PostgresSnapshot(self._relation, self._cut(rows, splits))
        self._relation = restored.relation
        self._shares = RangeAssignment(parallelism, restored.waiting, restored.owners, restored.parallelism)
        self._positions = dict(restored.positions)
        if self._moment is None and restored.waiting:
            self._join()

    def _cut(self, rows: int | None, splits: int | None) -> tuple[KeyRange, ...]:
        assert self._moment is not None, "nothing to cut"
        psycopg = load_psycopg()
        try:
            return tuple(cut_into_ranges(self._moment.connection, self._relation, rows, splits))
        except psycopg.Error as error:
            self.close()
            raise SourceError(
                f"{self._relation.name} cannot be cut into splits",
                detail=said(error),
                hint="Split by a column whose type has an order, such as a number, a text or a timestamp.",
            ) from error

    def _join(self) -> _Moment:
        """Look at the database as it is now."""
        moment = _Moment(self._address, self._request)
        try:
            self._relation.check_same(moment.relation)
        except BaseException:
            moment.connection.close()
            raise
        self._moment = moment
        return moment

    @property
    def relation(self) -> Relation:
        """What is read."""
        return self._relation

    @property
    def has_ended(self) -> bool:
        """Whether all ranges are finished."""
        return self._shares.has_ended

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan what each subtask reads."""
        self._shares.assign()
        assigned = self._shares.assigned
        if not any(assigned):
            self.close()
            return SourcePlan(finished=frozenset(range(len(assigned))))
        moment = self._hold(request.now_ms)
        self._turn += 1
        ranges = {
            subtask: [
                SplitRange(
                    range_id(self._relation.name, number),
                    PostgresSplit(self._relation, keys, moment.snapshot, self._turn),
                    self._positions.get(number),
                    None,
                    request.max_records,
                    sequential=True,
                )
                for number, keys in splits.items()
            ]
            for subtask, splits in enumerate(assigned)
            if splits
        }
        idle = frozenset(range(len(assigned))) - ranges.keys()
        return SourcePlan(ranges, finished=idle, backlog=True)

    def _hold(self, now_ms: int) -> _Moment:
        """Return the transaction; another one if the connection was lost."""
        if self._moment is not None and self._look_ms is not None and now_ms < self._look_ms:
            return self._moment
        self._look_ms = now_ms + _LOOK_MS
        if self._moment is not None and self._moment.is_there():
            return self._moment
        if self._moment is not None:
            self._moment.connection.close()
            _log.warning(
                "PostgreSQL at %s ended the transaction in which %s is read; what is left is read in another snapshot",
                self._address,
                self._relation.name,
            )
        return self._join()

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished ranges."""
        for end in ends:
            number = range_number(end.split_id)
            if end.finished:
                self._positions.pop(number, None)
                self._shares.finish(number)
            elif end.position is not None:
                self._positions[number] = end.position
            if not end.finished and not end.records:
                self._look_ms = None  # the server may have gone away

    def snapshot(self) -> PostgresSnapshot:
        """Return the ranges that are not finished, and the positions in them."""
        shares = self._shares
        return PostgresSnapshot(
            self._relation, shares.left(), dict(self._positions), shares.owners(), len(shares.assigned)
        )

    def close(self) -> None:
        """End the transaction."""
        if self._moment is not None:
            self._moment.connection.close()
            self._moment = None


def read_relation(address: PostgresAddress, request: Request) -> Relation:
    """Return what is to be read, as it is now.

    Raises:
        SourceError: If the server is away or refuses us, or what is to be read is not there.
    """
    moment = _Moment(address, request)
    moment.connection.close()
    return moment.relation
