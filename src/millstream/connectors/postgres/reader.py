"""Reads ranges of keys: one connection for each subtask, one statement for each range."""

from __future__ import annotations

import logging
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.key_ranges import Position
from millstream.connectors.postgres.address import PostgresAddress, load_psycopg, said
from millstream.connectors.postgres.copying import ConnectionLost, Copying, is_gone
from millstream.connectors.postgres.enumerator import PostgresSplit
from millstream.connectors.postgres.relation import literal
from millstream.connectors.postgres.rows import RowParser
from millstream.connectors.postgres.splits import keys_within, statement_of
from millstream.spi.batch import Columns
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["PostgresReader"]

_log = logging.getLogger(__name__)

_BATCH_ROWS = 16_384
_FIRST_BATCH_ROWS = 64
_MOST_LOSSES = 10
"""A server that takes every connection away before a row came is no use."""


class PostgresReader(SourceReader):
    """Reads the ranges of one subtask, one after the other; keeps the statement it is in between epochs."""

    gives_away = True

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection: Any = None
        self._snapshot: str | None = None
        self._copying: Copying | None = None
        self._parser: RowParser | None = None
        self._place: tuple[str, Position | None] | None = None
        self._turn = -1
        self._budget = 0
        self._batch_rows = _FIRST_BATCH_ROWS
        self._losses = 0
        self._missed_since: float | None = None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read a range of keys until its end, until the turn's budget is spent, or until no more is wanted."""
        split: PostgresSplit = split_range.split
        if split.turn != self._turn:
            self._turn, self._budget = split.turn, split_range.max_records
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
                self._losses, self._missed_since = 0, None
                count += rows
                self._budget -= rows
                self._batch_rows = min(self._batch_rows * 8, _BATCH_ROWS)
                batch = Columns(data)
                if not emit(batch if self.wants_columns else batch.to_rows()):
                    self._budget = 0
            has_ended = copying.has_ended
        except ConnectionLost as error:
            self._lose(split, error)
            has_ended = False
        return RangeEnd(split_range.split_id, position, has_ended, count)

    def close(self) -> None:
        """Close the connection, and with it a statement that has not ended."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._snapshot = self._copying = self._place = None

    def _begin(
        self, split_id: str, split: PostgresSplit, position: Position | None
    ) -> tuple[Copying, RowParser]:
        """Go on with the statement, or begin one where the range starts."""
        if self._copying is not None and self._parser is not None and self._place == (split_id, position):
            return self._copying, self._parser
        if self._copying is not None and not self._copying.has_ended:
            self.close()
        self._join(split)
        statement = statement_of(split.relation, split.keys, position)
        self._copying = Copying(self._connection, statement, split.relation.name)
        self._parser = RowParser(split.relation, len(keys_within(split.relation, split.keys)))
        self._place = (split_id, position)
        return self._copying, self._parser

    def _join(self, split: PostgresSplit) -> None:
        """See the database as all readers do."""
        if self._connection is None:
            self._connection = self._address.connect()
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
                f"PostgreSQL at {self._address} gives no snapshot to read {split.relation.name} in",
                detail=said(error),
            ) from error
        self._snapshot = split.snapshot

    def _lose(self, split: PostgresSplit, error: ConnectionLost) -> None:
        """Give the connection up; whoever plans finds a new snapshot if that one is gone too."""
        self.close()
        self._losses += 1
        now = SystemClock().monotonic()
        self._missed_since = self._missed_since or now
        if self._losses > _MOST_LOSSES and now - self._missed_since > self._address.patience.total_s:
            raise SourceError(
                f"PostgreSQL at {self._address} ends each transaction in which {split.relation.name} is read",
                detail=str(error),
                hint="Name one server, no balancer or pooler of connections; see its log for why it ends transactions.",
            ) from error
        if self._losses == 1:
            _log.warning("reading %s from PostgreSQL at %s: %s", split.relation.name, self._address, error)
