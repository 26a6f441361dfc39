"""Reads ranges of keys: one connection for each subtask, one statement for each range."""

from __future__ import annotations

from millstream.base.errors import SourceError
from millstream.connectors.key_ranges import Position
from millstream.connectors.postgres.address import PostgresAddress, load_psycopg, said
from millstream.connectors.postgres.copying import Copying, is_gone
from millstream.connectors.postgres.enumerator import PostgresSplit
from millstream.connectors.postgres.relation import literal
from millstream.connectors.postgres.rows import RowParser
from millstream.connectors.postgres.splits import keys_within, statement_of
from millstream.connectors.reconnects import ConnectionLost
from millstream.connectors.table_reader import TableReader
from millstream.spi.source import EmitBatch, RangeEnd, SplitRange

__all__ = ["PostgresReader"]


class PostgresReader(TableReader):
    """Reads the ranges of one subtask, all of a turn in the snapshot that all subtasks read."""

    system = "PostgreSQL"
    loss_means = "what is left is read in the same snapshot, or a new one if it is gone too"
    hint = "Name one server, no balancer or pooler of connections; see its log for why it ends transactions."

    def __init__(self, address: PostgresAddress) -> None:
        super().__init__(address)
        self._snapshot: str | None = None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of keys until its end, until the turn's budget is spent, or until no more is wanted."""
        split: PostgresSplit = split_range.split
        self._begin_turn(split_range)
        position, count = split_range.start, 0
        if self._budget <= 0:  # another range spent it, and its statement is kept for the next turn
            return RangeEnd(split_range.split_id, position, False, 0)
        try:
            copying, parser = self._begin(split_range.split_id, split, position)
            while self._budget > 0 and not copying.has_ended:
                lines, rows = copying.take(min(self._budget, self._batch_rows))
                if not rows:
                    break  # the end, or nothing for a while
                data, last = parser.batch(lines)
                position = last or (position or 0) + rows
                self._place = (split_range.split_id, position)
                count += rows
                self._emit(data, emit)
            has_ended = copying.has_ended
        except ConnectionLost as error:
            self._lose(split.relation.name, error)
            has_ended = False
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def close(self) -> None:
        """Close the connection, and with it a statement that has not ended."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._snapshot = self._reading = self._place = None

    def _statement(self, split: PostgresSplit, position: Position | None) -> tuple[Copying, RowParser]:
        statement = statement_of(split.relation, split.keys, position)
        parser = RowParser(split.relation, len(keys_within(split.relation, split.keys)))
        return Copying(self._connection, statement, split.relation.name), parser

    def _join(self, split: PostgresSplit) -> None:
        """See the database as all readers do."""
        if self._connection is None:
            self._connection = self.address.connect()
        if self._snapshot == split.snapshot:
            return
        psycopg = load_psycopg()
        try:
            if self._snapshot is not None:
                self._connection.execute("ROLLBACK")
            self._snapshot = None
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._connection.execute(f"SET TRANSACTION SNAPSHOT {literal(split.snapshot)}")
            # Side by side, processes of the server would give rows in no order.
            self._connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as error:
            raise ConnectionLost(f"the snapshot is gone: {said(error)}") from error
        except psycopg.Error as error:
            if is_gone(error, self._connection):
                raise ConnectionLost(said(error)) from error
            raise SourceError(
                f"PostgreSQL at {self.address} gives no snapshot to read {split.relation.name} in",
                detail=said(error),
            ) from error
        self._snapshot = split.snapshot
