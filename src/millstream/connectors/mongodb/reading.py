"""Who reads which range of ids, and the reader: a query for each batch, so nothing is open between two of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.mongodb.connection import MongoAddress, MongoClient
from millstream.connectors.mongodb.ids import IdRange, Query, cut_into_ranges
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

__all__ = ["MongoEnumerator", "MongoReader", "MongoSnapshot", "MongoSplit"]

_AHEAD = 4
"""So many splits of a subtask are planned in an epoch at most."""


@dataclass(frozen=True, slots=True)
class MongoSplit:
    """What a reader needs.

    Attributes:
        ids: Which documents.
        turn: Number of the plan; ranges of one turn share one budget.
    """

    ids: IdRange
    turn: int


@dataclass(frozen=True)
class MongoSnapshot:
    """Where reading stands.

    Attributes:
        waiting: Ranges not finished, in order.
        positions: The last id read of ranges that were begun, by their numbers.
        owners: Subtask of each range that was assigned, by its number.
        parallelism: Number of subtasks.
    """

    waiting: tuple[IdRange, ...] = ()
    positions: dict[int, Any] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    parallelism: int = 0


class MongoEnumerator(SplitEnumerator):
    """Plans the ranges of a `MongoSource`.

    Args:
        address: The collection.
        query: What is read of it.
        split_size: Documents of a split.
        parallelism: Number of subtasks.
        restored: A snapshot to go on from, also of another parallelism.

    Raises:
        SourceError: If the server is away or refuses us.
        NotSupportedError: If ids are of several types.
    """

    def __init__(
        self,
        address: MongoAddress,
        query: Query,
        split_size: int,
        parallelism: int,
        restored: MongoSnapshot | None,
    ) -> None:
        self._name = str(address)
        self._turn = 0
        self._assigned: list[dict[int, IdRange]] = [{} for _ in range(parallelism)]
        if restored is None:
            client = MongoClient(address, SourceError)
            try:
                cut = client.call(
                    "cutting the ids", lambda collection: cut_into_ranges(collection, split_size)
                )
                client.call("trying the filter", lambda collection: collection.find_one(query.condition))
            finally:
                client.close()
            restored = MongoSnapshot(cut)
        self._waiting = deque(restored.waiting)
        self._positions = dict(restored.positions)
        if restored.parallelism == parallelism:  # how far event time has come is kept for each subtask
            for ids in restored.waiting:
                if ids.number in restored.owners:
                    self._waiting.remove(ids)
                    self._assigned[restored.owners[ids.number]][ids.number] = ids

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan what each subtask reads."""
        self._assign()
        self._turn += 1
        ranges = {
            subtask: [
                SplitRange(
                    f"{self._name}[{number}]",
                    MongoSplit(ids, self._turn),
                    self._positions.get(number),
                    None,
                    request.max_records,
                    sequential=True,
                )
                for number, ids in splits.items()
            ]
            for subtask, splits in enumerate(self._assigned)
            if splits
        }
        idle = frozenset(range(len(self._assigned))) - ranges.keys()
        return SourcePlan(ranges, finished=idle, backlog=bool(ranges))

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished ranges."""
        for end in ends:
            number = int(end.split_id.rpartition("[")[2][:-1])
            if end.finished:
                self._positions.pop(number, None)
                for splits in self._assigned:
                    splits.pop(number, None)
            elif end.position is not None:
                self._positions[number] = end.position

    def snapshot(self) -> MongoSnapshot:
        """Return the ranges that are not finished, and the positions in them."""
        begun = sorted(
            (ids for splits in self._assigned for ids in splits.values()), key=lambda ids: ids.number
        )
        return MongoSnapshot(
            (*begun, *self._waiting),
            dict(self._positions),
            {number: subtask for subtask, splits in enumerate(self._assigned) for number in splits},
            len(self._assigned),
        )

    def _assign(self) -> None:
        """Hand out waiting ranges, the next one to whoever has the fewest."""
        while self._waiting:
            subtask = min(range(len(self._assigned)), key=lambda index: (len(self._assigned[index]), index))
            if len(self._assigned[subtask]) >= _AHEAD:
                return
            ids = self._waiting.popleft()
            self._assigned[subtask][ids.number] = ids


class MongoReader(SourceReader):
    """Reads the ranges of one subtask, one after the other."""

    gives_away = True

    def __init__(self, address: MongoAddress, query: Query, fetch_size: int) -> None:
        self._address = address
        self._query = query
        self._fetch_size = fetch_size
        self._client: MongoClient | None = None
        self._turn = -1
        self._budget = 0

    def open(self) -> None:
        """Make the connection; the server is asked for nothing yet."""
        self._client = MongoClient(self._address, SourceError)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of ids until its end, until the turn's budget is spent, or until no more is wanted."""
        split: MongoSplit = split_range.split
        if split.turn != self._turn:
            self._turn, self._budget = split.turn, split_range.max_records
        position, count, has_ended = split_range.start, 0, False
        while self._budget > 0 and not has_ended:
            wanted = min(self._budget, self._fetch_size)
            documents = self._fetch(split.ids, position, wanted)
            has_ended = len(documents) < wanted
            if not documents:
                break
            position = documents[-1]["_id"]
            has_ended = has_ended or position == split.ids.up_to
            count += len(documents)
            self._budget -= len(documents)
            if not emit(Rows(self._query.without_id(documents))):
                self._budget = 0
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def _fetch(self, ids: IdRange, position: Any, wanted: int) -> list[dict[str, Any]]:
        assert self._client is not None
        return self._client.call(
            "reading documents", lambda collection: self._query.read(collection, ids, position, wanted)
        )

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None
