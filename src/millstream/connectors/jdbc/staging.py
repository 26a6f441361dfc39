"""Writes exactly once: rows wait in the database itself, and are published by the driver with a marker row.

::

    slot     write … write ─► stage `<writer>+7`, batch by batch      prepare_commit ─► JdbcCommittable(writer, 7)
             ═════════════════════════════════ checkpoint ═════════════════════════════════
    driver   one transaction: marker of the writer 6 ─► 7, INSERT .. SELECT from the stage; then DROP TABLE

A commit that is repeated, by this driver, a later one or one that was only paused, finds the marker at 7 and publishes
nothing. A batch that is written again because the answer to it was lost finds the stage's marker likewise. What killed
slots leave is known by the names of the stages, and dropped by the next attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.crash_points import reach
from millstream.base.errors import LostOutputError, MillstreamError, SinkError
from millstream.connectors.jdbc.commits import Markers
from millstream.connectors.jdbc.database import Database, RowValues, Session
from millstream.connectors.jdbc.link import Link
from millstream.connectors.jdbc.options import JdbcExactlyOnceOptions
from millstream.connectors.jdbc.stages import stage_for
from millstream.connectors.jdbc.work import Work, refusal
from millstream.connectors.jdbc.writer import Batches
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, SinkWriter, WriterContext

__all__ = ["JdbcCommittable", "StageCommitter", "StageWriter"]

log = logging.getLogger(__name__)
_CLOCK = SystemClock()
NewLink = Callable[[float | None], Link]
NewWork = Callable[[Session], Work]


@dataclass(frozen=True, slots=True)
class JdbcCommittable:
    """Rows that wait to be published.

    Attributes:
        writer: Who staged them.
        number: Of the writer's stages, from 1.
        batches: How many batches it has.
        staged_ms: When it was ended, epoch milliseconds.
    """

    writer: str
    number: int
    batches: int
    staged_ms: int

    @property
    def stage(self) -> str:
        """The stage's name."""
        return f"{self.writer}+{self.number}"


class StageWriter(SinkWriter):
    """Puts rows into stages, one for each checkpoint.

    Args:
        database: The database.
        new_link: Makes a connection, with a patience of its own or the usual one.
        new_work: Makes what is done with rows, and looks at the table for it.
        batches: Gathers rows.
        options: Where markers are.
        context: Whose writer it is.
    """

    def __init__(
        self,
        database: Database,
        new_link: NewLink,
        new_work: NewWork,
        batches: Batches,
        options: JdbcExactlyOnceOptions,
        context: WriterContext,
    ) -> None:
        self._markers = Markers(database, options.marker_table)
        self._new_link = new_link
        self._link = new_link(None)
        self._new_work = new_work
        self._batches = batches
        self._retention_ms = options.retention_ms
        self._context = context
        self._name = context.new_name()
        self._stage_number = 0
        self._batch_number = 0  # of the stage that is open; 0 if none is
        self._ended = False
        self._aborted = False

    def open(self) -> None:
        """Look at the table; drop what killed attempts left: what a checkpoint holds has been published before."""
        self._work = self._link.run(self._new_work, what="looking at the table")
        self._stage = stage_for(self._work)
        if self._context.subtask_index == 0:
            self._drop_left(or_own=False)

    def _drop_left(self, *, or_own: bool) -> None:
        """Drop what former attempts of this sink left, and what nobody came back for; one subtask does it for all."""
        markers, is_of_former = self._markers, self._context.is_of_former
        old_ms = _CLOCK.now_ms() - self._retention_ms

        def find(session: Session) -> list[str]:
            markers.forget_writers(session, old_ms)
            left = [name for name in markers.stages(session) if is_of_former(name, or_own=or_own)]
            return left + markers.stages(session, before_ms=old_ms)

        for stage in self._link.run(find, what="looking for what earlier attempts left"):
            self._try_to_drop(self._link, stage)

    def _try_to_drop(self, link: Link, stage: str) -> None:
        """Drop a stage; one that is in use, of a zombie that was stopped, or away, is left to those who come later."""
        try:
            link.run(lambda session: self._markers.drop_stages(session, [stage]), what="dropping staged rows")
        except Exception as error:  # noqa: BLE001 - errors of drivers have no common class; what is left is harmless
            log.warning("staged rows %s could not be dropped: %s", stage, error)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Gather rows; put full batches into the stage."""
        if not batch.values:
            return
        self._batches.add(self._work.read(batch.values), now_ms)
        for rows in self._batches.take_full(now_ms):
            self._load(rows)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Put the rest into the stage, which ends with the checkpoint."""
        self._ended = end_of_input
        if not (checkpoint or end_of_input):
            return []
        if rows := self._batches.take_all():
            self._load(rows)
        if not self._batch_number:
            return []
        committable = JdbcCommittable(self._name, self._stage_number, self._batch_number, _CLOCK.now_ms())
        self._batch_number = 0
        return [committable]

    def _load(self, rows: list[RowValues]) -> None:
        """Put a batch into the stage that is open; the first one makes it."""
        if not self._batch_number:
            self._stage_number += 1
        self._batch_number += 1
        number, stage, markers = self._batch_number, self._stage_name, self._markers
        table = markers.stage_table(stage)

        def load(session: Session) -> None:
            if number == 1:
                markers.begin(session, stage, _CLOCK.now_ms())
                self._stage.create(session, table)
            if markers.advance(session, stage, number, _CLOCK.now_ms()):
                self._stage.load(session, table, number, rows)

        def try_one(session: Session, row: list[RowValues]) -> None:
            self._stage.create(session, table)
            self._stage.load(session, table, number, row)

        try:
            self._link.run(load, what=f"staging {len(rows)} rows")
        except MillstreamError:
            raise
        except Exception as error:
            raise refusal(self._link, try_one, rows, error) from error

    @property
    def _stage_name(self) -> str:
        return f"{self._name}+{self._stage_number}"

    def abort(self) -> None:
        """Drop the stage that is open."""
        self._aborted = True
        self._drop_open()

    def close(self) -> None:
        """Drop what was begun behind the last checkpoint, and at the end of the job what zombies left."""
        try:
            if not self._aborted:
                self._drop_open()
                if (
                    self._ended and self._context.subtask_index == 0
                ):  # all is published: what waits is of zombies
                    self._drop_left(or_own=True)
        finally:
            self._link.close()

    def _drop_open(self) -> None:
        """Drop the stage that is open, without waiting for a server that is away."""
        self._batches.take_all()
        if self._batch_number:
            self._batch_number = 0
            self._link.close()
            link = self._new_link(0.0)
            self._try_to_drop(link, self._stage_name)
            link.close()


class StageCommitter(Committer):
    """Publishes stages, on the driver.

    Args:
        database: The database.
        new_link: Makes a connection, with a patience of its own or the usual one.
        new_work: Makes what is done with rows.
        options: Where markers are.
    """

    def __init__(
        self, database: Database, new_link: NewLink, new_work: NewWork, options: JdbcExactlyOnceOptions
    ) -> None:
        self._database = database
        self._markers = Markers(database, options.marker_table)
        self._retention_ms = options.retention_ms
        self._new_link = new_link
        self._new_work = new_work
        self._link: Link | None = None
        self._work: Work | None = None

    def commit(self, committables: Sequence[Any]) -> None:
        """Publish each stage that was not, then drop it."""
        if self._link is None:
            self._link = self._new_link(None)
        if self._work is None:
            self._work = self._link.run(self._new_work, what="looking at the table")
        for committable in sorted(committables, key=lambda each: (each.staged_ms, each.writer, each.number)):
            reach("sink.publish", committable.stage)
            self._publish(self._link, self._work, committable)
            reach("sink.publish", f"{committable.stage}, published")
            self._drop(self._link, [committable])

    def _publish(self, link: Link, work: Work, committable: JdbcCommittable) -> None:
        markers, stage = self._markers, stage_for(work)

        def publish(session: Session) -> None:
            if markers.advance(session, committable.writer, committable.number, _CLOCK.now_ms()):
                if markers.number(session, committable.stage) != committable.batches:
                    self._miss(committable)
                else:
                    stage.publish(session, markers.stage_table(committable.stage))

        try:
            link.run(publish, what="publishing staged rows")
        except MillstreamError:
            raise
        except Exception as error:
            if suspects := stage.suspects():
                raise refusal(link, work.write, suspects, error) from error
            raise SinkError(
                "the database refused rows when they were to be published",
                detail=f"{type(error).__name__}: {' '.join(str(error).split())[:600]}",
                hint="Remove what stands against them, a row with the same key, say: they are published "
                "when the job is restarted from its checkpoint.",
            ) from error

    def _miss(self, committable: JdbcCommittable) -> None:
        """The stage is not there, or not whole. Markers are kept for some time: what is older was published long ago.

        Raises:
            LostOutputError: If it is not as old.
        """
        if committable.staged_ms >= _CLOCK.now_ms() - self._retention_ms:
            raise LostOutputError(
                f"rows that wait to be published in {self._database} are gone, and were not published",
                detail=f"Stage {committable.stage}.",
                hint="Was the database restored from a backup, or is the marker table another one now?",
            )
        log.warning("stage %s is gone, and so old that it was published long ago", committable.stage)

    def abort(self, committables: Sequence[Any]) -> None:
        """Drop stages, without waiting for a server that is away: the next attempt does it too."""
        link = self._new_link(0.0)
        try:
            self._drop(link, committables)
        except Exception as error:  # noqa: BLE001 - errors of drivers have no common class; what is left is harmless
            log.warning("staged rows could not be dropped: %s", error)
        finally:
            link.close()

    def _drop(self, link: Link, committables: Iterable[JdbcCommittable]) -> None:
        stages = [each.stage for each in committables]
        link.run(lambda session: self._markers.drop_stages(session, stages), what="dropping staged rows")

    def close(self) -> None:
        """End the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None
