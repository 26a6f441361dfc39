"""The driver's half of the Spark sink: one DataFrame for each checkpoint.

::

    the ledger has (sink, checkpoint)?  ─ yes ─►  done before
      │ no
      ▼
    files get their names ──► session.read.parquet(files) ──► write(DataFrame, SparkCommit) ──► ledger ──► files go
                                                                                           ▲
                                         killed here, and the rows are written again, with the same id
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.errors import MillstreamError, SessionLostError, SinkError
from millstream.connectors.spark.ledger import Ledger
from millstream.connectors.staged_parquet import StagedParquet, publish_files
from millstream.files.output import open_output
from millstream.spi.sink import Committer

__all__ = ["SparkCommit", "SparkCommitter", "check_session"]

_log = logging.getLogger(__name__)
_NAME = "the Spark sink"
_DETAIL_LINES = 6


@dataclass(frozen=True, slots=True)
class SparkCommit:
    """Which rows a DataFrame holds: the same id comes with the same rows, and with no others.

    Attributes:
        application: Job, sink and attempt: letters, digits and dashes.
        number: Of the checkpoint; within an application it only goes up. For Delta, these two are `txnAppId` and
            `txnVersion`.

    Example:
        >>> from millstream.datastream.connectors.spark import SparkCommit
        >>> def write(frame, commit: SparkCommit):  # SparkSink.builder().set_write(write)
        ...     options = {"txnAppId": commit.application, "txnVersion": commit.number}
        ...     frame.write.format("delta").options(**options).mode("append").save("/tables/orders")
    """

    application: str
    number: int

    def __str__(self) -> str:
        return f"{self.application}-{self.number}"


Write = Callable[[Any, SparkCommit], object]


def check_session(session: Any) -> None:
    """See that a session can still be used.

    Raises:
        SessionLostError: If it was stopped.
    """
    context = getattr(session, "_sc", None)  # none with Spark Connect
    if context is not None and context._jsc is None:
        raise SessionLostError(
            "the Spark session of a sink has been stopped",
            hint="Give the sink the session that SparkSession.builder.getOrCreate() returns.",
        )


class SparkCommitter(Committer):
    """Has Spark write what was staged.

    Args:
        session: The Spark session.
        directory: Where it is staged.
        write: Writes a DataFrame.
    """

    def __init__(self, session: Any, directory: str, write: Write) -> None:
        self._session = session
        self._write = write
        self._files = open_output(directory)
        self._ledger = Ledger(directory)

    def commit(self, committables: Sequence[Any]) -> None:
        """Write the rows of each checkpoint as one DataFrame, unless that was done before."""
        groups: dict[tuple[str, tuple[int, ...]], list[StagedParquet]] = {}
        for committable in committables:
            groups.setdefault((committable.owner, committable.order), []).append(committable)
        for owner, order in sorted(groups):
            reach("sink.publish", owner)
            self._commit(owner, order, groups[owner, order])

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove files that will never be written."""
        self._remove(committables)

    def _commit(self, owner: str, order: tuple[int, ...], files: list[StagedParquet]) -> None:
        if self._ledger.last(owner) < order:
            publish_files(_NAME, files, self._files)
            self._hand_over(SparkCommit(_application(files[0]), files[0].number), files)
            self._ledger.note(owner, order)
        self._remove(files)

    def _hand_over(self, commit: SparkCommit, files: Sequence[StagedParquet]) -> None:
        check_session(self._session)
        records = sum(file.records for file in files)
        try:
            frame = self._session.read.parquet(*sorted(file.final_path for file in files))
            self._write(frame, commit)
        except MillstreamError:
            raise
        except Exception as error:
            check_session(self._session)
            raise SinkError(
                f"Spark did not write the {records} records of checkpoint {commit.number}",
                detail="\n".join(f"{type(error).__name__}: {error}".splitlines()[:_DETAIL_LINES]),
                hint="The records are kept, and given to Spark again when the job is restarted.",
            ) from error
        _log.debug("Spark has written %d records of %s", records, commit)

    def _remove(self, files: Sequence[StagedParquet]) -> None:
        for file in files:
            self._files.remove(file.staged_path)
            self._files.remove(file.final_path)


def _application(file: StagedParquet) -> str:
    generation, began_ms, attempt = file.age
    driver = f"{generation}x" if generation else ""
    return f"{file.owner}-{driver}{began_ms}-{attempt}"
