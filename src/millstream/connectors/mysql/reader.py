"""Reads ranges of keys: one connection and one transaction for each subtask, one statement for each range."""

from __future__ import annotations

from millstream.base.errors import SourceError
from millstream.connectors.key_ranges import Position
from millstream.connectors.mysql.address import MySqlAddress, load_pymysql
from millstream.connectors.mysql.enumerator import MySqlSplit, RowPosition
from millstream.connectors.mysql.moments import BinlogPosition, begin_moment
from millstream.connectors.mysql.reading import Reading, failure
from millstream.connectors.mysql.rows import RowParser
from millstream.connectors.mysql.splits import statement_of
from millstream.connectors.reconnects import ConnectionLost
from millstream.connectors.table_reader import TableReader
from millstream.spi.source import EmitBatch, RangeEnd, SplitRange

__all__ = ["MySqlReader"]


class MySqlReader(TableReader):
    """Reads the ranges of one subtask in one transaction."""

    system = "MySQL"
    loss_means = "what is left is read as it is then"
    hint = "See the server's log for why it ends them; name a server, no balancer of connections."

    def __init__(self, address: MySqlAddress) -> None:
        super().__init__(address)
        self._moment: BinlogPosition | None = None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of keys until its end, until the turn's budget is spent, or until no more is wanted."""
        split: MySqlSplit = split_range.split
        self._begin_turn(split_range)
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
                    f"MySQL at {self.address} went away while {split.relation.name} was read, which has no key",
                    detail=str(error),
                    hint="A restart strategy has the job read it again; with a primary key it goes on where it was.",
                ) from error
            self._lose(split.relation.name, error)
            has_ended = False
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def close(self) -> None:
        """Close the connection, and with it a statement that has not ended."""
        if self._reading is not None and not self._reading.has_ended:
            self._reading.abandon()
        elif self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = self._moment = self._reading = self._place = None

    def _statement(self, split: MySqlSplit, position: RowPosition | None) -> tuple[Reading, RowParser]:
        statement = statement_of(split.relation, split.keys, _rows(position))
        return Reading(self._connection, statement, split.relation.name), RowParser(split.relation)

    def _join(self, split: MySqlSplit) -> None:
        """Begin the transaction that all ranges are read in."""
        if self._connection is not None:
            return
        self._connection = self.address.connect()
        try:
            self._moment = begin_moment(self._connection, self.address, wants_position=split.wants_moment)
        except (load_pymysql().err.MySQLError, OSError) as error:
            raise failure(split.relation.name, error) from error


def _rows(position: RowPosition | None) -> Position | None:
    return None if position is None else position.rows
