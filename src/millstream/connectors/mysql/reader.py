"""Reads ranges of keys: one connection and one transaction for each subtask, one statement for each range."""

from __future__ import annotations

import logging
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.key_ranges import Position
from millstream.connectors.mysql.address import ConnectionLost, MySqlAddress, load_pymysql
from millstream.connectors.mysql.enumerator import MySqlSplit, RowPosition
from millstream.connectors.mysql.moments import BinlogPosition, begin_moment
from millstream.connectors.mysql.reading import Reading, failure
from millstream.connectors.mysql.rows import RowParser
from millstream.connectors.mysql.splits import statement_of
from millstream.spi.batch import Columns
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["MySqlReader"]

_log = logging.getLogger(__name__)

_BATCH_ROWS = 16_384
_FIRST_BATCH_ROWS = 64
_MOST_LOSSES = 10
"""A server that takes every connection away before a row came is no use."""


class MySqlReader(SourceReader):
    """Reads the ranges of one subtask, one after the other; keeps the statement it is in between epochs."""

    gives_away = True

    def __init__(self, address: MySqlAddress) -> None:
        self._address = address
        self._connection: Any = None
        self._moment: BinlogPosition | None = None
        self._reading: Reading | None = None
        self._parser: RowParser | None = None
        self._place: tuple[str, RowPosition | None] | None = None
        self._turn = -1
        self._budget = 0
        self._batch_rows = _FIRST_BATCH_ROWS
        self._losses = 0
        self._missed_since: float | None = None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of keys until its end, until the turn's budget is spent, or until no more is wanted."""
        split: MySqlSplit = split_range.split
        if split.turn != self._turn:
            self._turn, self._budget = split.turn, split_range.max_records
        # Rows that nothing tells apart cannot be said to be of two moments.
        is_whole = split.wants_moment and not split.relation.key
        position: RowPosition | None = split_range.start
        count, has_ended = 0, False
        try:
            while not has_ended and (self._budget > 0 or (is_whole and count)):
                reading, parser = self._begin(split_range.split_id, split, position)
                most = self._batch_rows if is_whole else min(self._budget, self._batch_rows)
                rows = reading.take(most)
                has_ended = reading.has_ended
                position = RowPosition(_rows(position), self._moment)
                if rows:
                    data, last = parser.batch(rows)
                    done = position.rows if isinstance(position.rows, int) else 0
                    position = RowPosition(last or done + len(rows), self._moment)
                    self._emit(data, emit)
                    count += len(rows)
                self._place = (split_range.split_id, position)
        except ConnectionLost as error:
            if is_whole and count:
                raise SourceError(
                    f"MySQL at {self._address} went away while {split.relation.name} was read, which has no key",
                    detail=str(error),
                    hint="A restart strategy has the job read it again; with a primary key it goes on where it was.",
                ) from error
            self._lose(split, error)
            has_ended = False
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def _emit(self, data: Any, emit: EmitBatch) -> None:
        self._losses, self._missed_since = 0, None
        self._budget -= data.num_rows
        self._batch_rows = min(self._batch_rows * 8, _BATCH_ROWS)
        batch = Columns(data)
        if not emit(batch if self.wants_columns else batch.to_rows()):
            self._budget = 0

    def close(self) -> None:
        """Close the connection, and with it a statement that has not ended."""
        if self._reading is not None and not self._reading.has_ended:
            self._reading.abandon()
        elif self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = self._moment = self._reading = self._place = None

    def _begin(
        self, split_id: str, split: MySqlSplit, position: RowPosition | None
    ) -> tuple[Reading, RowParser]:
        """Go on with the statement, or begin one where the range starts."""
        if self._reading is not None and self._parser is not None and self._place == (split_id, position):
            return self._reading, self._parser
        if self._reading is not None and not self._reading.has_ended:
            self.close()
        self._join(split)
        statement = statement_of(split.relation, split.keys, _rows(position))
        self._reading = Reading(self._connection, statement, split.relation.name)
        self._parser = RowParser(split.relation)
        return self._reading, self._parser

    def _join(self, split: MySqlSplit) -> None:
        """Begin the transaction that all ranges are read in."""
        if self._connection is not None:
            return
        self._connection = self._address.connect()
        try:
            self._moment = begin_moment(self._connection, self._address, wants_position=split.wants_moment)
        except (load_pymysql().err.MySQLError, OSError) as error:
            raise failure(split.relation.name, error) from error

    def _lose(self, split: MySqlSplit, error: ConnectionLost) -> None:
        """Give the connection up; what is left is read in another transaction."""
        self.close()
        self._losses += 1
        now = SystemClock().monotonic()
        self._missed_since = self._missed_since or now
        if self._losses > _MOST_LOSSES and now - self._missed_since > self._address.patience.total_s:
            raise SourceError(
                f"MySQL at {self._address} ends each transaction in which {split.relation.name} is read",
                detail=str(error),
                hint="See the server's log for why it ends them; name a server, no balancer of connections.",
            ) from error
        if self._losses == 1:
            _log.warning(
                "reading %s from MySQL at %s: %s; what is left is read as it is then",
                split.relation.name,
                self._address,
                error,
            )


def _rows(position: RowPosition | None) -> Position | None:
    return None if position is None else position.rows
