"""Who reads which range of keys.

A snapshot of MySQL or MariaDB belongs to one connection, and no other can join it. So each subtask reads its ranges in
a transaction of its own, which begins with its first range: one moment for each subtask. Where the moments have to fit
together, which is so for changes, each one's position in the log of changes is kept (`Part`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from millstream.base.errors import SourceError
from millstream.connectors.key_ranges import (
    Key,
    KeyRange,
    Position,
    RangeAssignment,
    Request,
    range_id,
    range_number,
)
from millstream.connectors.mysql.address import MySqlAddress, load_pymysql, said
from millstream.connectors.mysql.moments import BinlogPosition
from millstream.connectors.mysql.relation import Relation, describe
from millstream.connectors.mysql.splits import cut_into_ranges
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["MySqlEnumerator", "MySqlSnapshot", "MySqlSplit", "Part", "RowPosition", "read_relation"]


@dataclass(frozen=True, slots=True)
class RowPosition:
    """Where reading a range stands.

    Attributes:
        rows: Position behind the last row; None if none was read.
        moment: Where in the binlog the transaction is that it was read in; None if that is not asked for.
    """

    rows: Position | None
    moment: BinlogPosition | None = None


@dataclass(frozen=True, slots=True)
class MySqlSplit:
    """What a reader needs.

    Attributes:
        relation: What is read.
        keys: Which of its rows.
        turn: Number of the plan; ranges of one turn share one budget.
        wants_moment: Whether the position of the transaction in the binlog is wanted.
    """

    relation: Relation
    keys: KeyRange
    turn: int
    wants_moment: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a table that were read in one transaction.

    Attributes:
        up_to: The last key among them; None if they are those up to the end.
        moment: Where in the binlog the transaction is.
        order: Number of the range, for their order.
    """

    up_to: Key | None
    moment: BinlogPosition
    order: int


@dataclass(frozen=True)
class MySqlSnapshot:
    """Where reading stands.

    Attributes:
        relation: What is read.
        waiting: Ranges not finished, in order.
        positions: Position in ranges that were begun, by their numbers.
        owners: Subtask of each range that was assigned, by its number.
        parallelism: Number of subtasks.
        parts: What was read when, if that is kept.
    """

    relation: Relation
    waiting: tuple[KeyRange, ...] = ()
    positions: dict[int, RowPosition] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    parallelism: int = 0
    parts: tuple[Part, ...] = ()


class MySqlEnumerator(SplitEnumerator):
    """Plans the ranges of a `MySqlSource`.

    Args:
        address: The database.
        request: What is read.
        rows: Rows of a split; None if their number is given.
        splits: How many there are at most.
        parallelism: Number of subtasks.
        restored: A snapshot to go on from, also of another parallelism.
        keeps_moments: Whether it is kept when each row was read.

    Raises:
        SourceError: If the server is away or refuses us, or what is to be read is not there.
    """

    def __init__(
        self,
        address: MySqlAddress,
        request: Request,
        rows: int | None,
        splits: int | None,
        parallelism: int,
        restored: MySqlSnapshot | None,
        *,
        keeps_moments: bool = False,
    ) -> None:
        self._keeps_moments = keeps_moments
        self._turn = 0
        if restored is None:
            restored = _begin(address, request, rows, splits, keeps_moments=keeps_moments)
        elif restored.waiting:
            now = read_relation(address, request)
            restored.relation.check_same(_comparable(now) if keeps_moments else now)
        self._relation = restored.relation
        self._shares = RangeAssignment(parallelism, restored.waiting, restored.owners, restored.parallelism)
        self._positions = dict(restored.positions)
        self._parts = list(restored.parts)

    @property
    def relation(self) -> Relation:
        """What is read."""
        return self._relation

    @property
    def has_ended(self) -> bool:
        """Whether all ranges are finished."""
        return self._shares.has_ended

    @property
    def parts(self) -> list[Part]:
        """What was read when, in the order of keys; whole when reading has ended."""
        merged: list[Part] = []
        for part in sorted(
            self._parts, key=lambda part: part.order
        ):  # stable: those of one range are in order
            if merged and merged[-1].moment == part.moment:
                merged.pop()
            merged.append(part)
        return merged

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan what each subtask reads."""
        self._shares.assign()
        assigned = self._shares.assigned
        self._turn += 1
        ranges = {
            subtask: [
                SplitRange(
                    range_id(self._relation.name, number),
                    MySqlSplit(self._relation, keys, self._turn, self._keeps_moments),
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
        return SourcePlan(ranges, finished=idle, backlog=bool(ranges))

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished ranges."""
        for end in ends:
            number = range_number(end.split_id)
            if self._keeps_moments and end.position is not None:
                self._note(number, end)
            if end.finished:
                self._positions.pop(number, None)
                self._shares.finish(number)
            elif end.position is not None:
                self._positions[number] = end.position

    def _note(self, number: int, end: RangeEnd) -> None:
        """Note when the rows were read: those of a range may be read in several transactions."""
        position: RowPosition = end.position
        before = self._positions.get(number)
        if before is not None and before.moment not in (None, position.moment) and before.rows is not None:
            assert isinstance(before.rows, tuple), "rows without a key are read at once"
            assert before.moment is not None
            self._parts.append(Part(before.rows, before.moment, number))
        if end.finished:
            assert position.moment is not None, "a moment without a position"
            self._parts.append(Part(self._shares.range_of(end).up_to, position.moment, number))

    def snapshot(self) -> MySqlSnapshot:
        """Return the ranges that are not finished, and the positions in them."""
        shares = self._shares
        return MySqlSnapshot(
            self._relation,
            shares.left(),
            dict(self._positions),
            shares.owners(),
            len(shares.assigned),
            tuple(self._parts),
        )


def _comparable(relation: Relation) -> Relation:
    """Return a table as if it had no key, if keys of changes could not be compared with that."""
    return relation if all(part.is_comparable for part in relation.key) else replace(relation, key=())


def _begin(
    address: MySqlAddress, request: Request, rows: int | None, splits: int | None, *, keeps_moments: bool
) -> MySqlSnapshot:
    connection = address.connect()
    try:
        relation = describe(connection, request, address)
        if keeps_moments:
            relation = _comparable(relation)
        return MySqlSnapshot(relation, tuple(cut_into_ranges(connection, relation, rows, splits)))
    except load_pymysql().err.MySQLError as error:
        raise SourceError(f"{request} in MySQL at {address} cannot be read", detail=said(error)) from error
    finally:
        connection.close()


def read_relation(address: MySqlAddress, request: Request) -> Relation:
    """Return what is to be read, as it is now.

    Raises:
        SourceError: If the server is away or refuses us, or what is to be read is not there.
    """
    connection = address.connect()
    try:
        return describe(connection, request, address)
    except load_pymysql().err.MySQLError as error:
        raise SourceError(f"{request} in MySQL at {address} cannot be read", detail=said(error)) from error
    finally:
        connection.close()
