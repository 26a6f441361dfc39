"""Writes batches from the slot, at least once: what was given before a checkpoint is in the database when it is taken.

::

    write … write ─► batch is full, or old ─► one transaction        prepare_commit, a checkpoint ─► the rest

A failure behind a batch has its records come again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.connectors.jdbc.database import RowValues, Session
from millstream.connectors.jdbc.link import Link
from millstream.connectors.jdbc.options import JdbcExecutionOptions
from millstream.connectors.jdbc.work import Work, refusal
from millstream.spi.batch import Rows
from millstream.spi.sink import SinkWriter

__all__ = ["Batches", "JdbcWriter"]


class Batches:
    """Rows that wait for enough others, or for so long.

    Args:
        options: How many, how long.
    """

    def __init__(self, options: JdbcExecutionOptions) -> None:
        self._size = options.batch_size
        self._interval_ms = options.batch_interval_ms
        self._since_ms = 0
        self._rows: list[RowValues] = []

    def add(self, rows: list[RowValues], now_ms: int) -> None:
        """Take rows."""
        if not self._rows:
            self._since_ms = now_ms
            self._rows = rows
        else:
            self._rows += rows

    def take_full(self, now_ms: int) -> list[list[RowValues]]:
        """Give away the batches that are full."""
        rows, size = self._rows, self._size
        if not size or len(rows) < size:
            return []
        end = len(rows) - len(rows) % size
        self._rows, self._since_ms = rows[end:], now_ms
        return [rows[start : start + size] for start in range(0, end, size)]

    def take_old(self, now_ms: int) -> list[RowValues]:
        """Give away what has waited for long enough."""
        due = self.due_ms()
        return self.take_all() if due is not None and now_ms >= due else []

    def take_all(self) -> list[RowValues]:
        """Give away what waits."""
        rows, self._rows = self._rows, []
        return rows

    def due_ms(self) -> int | None:
        """Return when what waits has waited for long enough, None if nothing waits or it may wait."""
        return self._since_ms + self._interval_ms if self._rows and self._interval_ms else None


class JdbcWriter(SinkWriter):
    """Writes batches into a database.

    Args:
        new_link: Makes a connection, which does something in each new session.
        new_work: Makes what is done with rows, and looks at the table for it.
        options: How batches are made.
    """

    def __init__(
        self,
        new_link: Callable[[Callable[[Session], None]], Link],
        new_work: Callable[[Session], Work],
        options: JdbcExecutionOptions,
    ) -> None:
        self._new_work = new_work
        self._work: Work | None = None
        self._batches = Batches(options)
        self._link = new_link(self._prepare)

    def open(self) -> None:
        """Connect, and look at the table."""

        def begin(session: Session) -> None:
            self._work = self._new_work(session)
            self._work.prepare(session)

        self._link.run(begin, what="looking at the table")

    def _prepare(self, session: Session) -> None:
        if self._work is not None:
            self._work.prepare(session)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Gather rows; write full batches."""
        if not batch.values:
            return
        assert self._work is not None
        self._batches.add(self._work.read(batch.values), now_ms)
        for rows in self._batches.take_full(now_ms):
            self._flush(rows)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Write what is old; with a checkpoint, all."""
        ends = checkpoint or end_of_input
        if rows := self._batches.take_all() if ends else self._batches.take_old(now_ms):
            self._flush(rows)
        return []

    def _flush(self, rows: list[RowValues]) -> None:
        work = self._work
        assert work is not None

        def write(session: Session) -> None:
            work.write(session, rows)

        try:
            self._link.run(write, what=f"writing {len(rows)} rows")
        except MillstreamError:
            raise
        except Exception as error:
            raise refusal(self._link, work.write, rows, error) from error

    def next_processing_time(self) -> int | None:
        """Return when what waits is old."""
        return self._batches.due_ms()

    def abort(self) -> None:
        """Forget what waits: it comes again."""
        self._batches.take_all()

    def close(self) -> None:
        """End the connection."""
        self._link.close()
