"""The driver's half of the Delta sink: one commit of the table for each checkpoint.

::

    the table's log has the transaction (application, number)?  ─ yes ─►  done before
      │ no
      ▼
    files get their names ──► one commit: all files and the transaction (application, number)
      ▲                          │ another writer was faster
      └──────────────────────────┘

An application is one attempt of one sink of one job, so its numbers, those of checkpoints, only go up. Two drivers that
commit the same name the same application, and Delta lets only one of them through.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.crash_points import reach
from millstream.base.errors import LostOutputError, SinkError
from millstream.connectors.delta.files import DeltaCommittable
from millstream.connectors.delta.table import Conflict, Table
from millstream.files.output import open_output
from millstream.spi.sink import Committer

__all__ = ["DeltaCommitter"]

_TRIES = 20
_PAUSE_S = 0.05


class DeltaCommitter(Committer):
    """Adds files to a table.

    Args:
        path: Its directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = open_output(path)
        self._clock = SystemClock()

    def commit(self, committables: Sequence[Any]) -> None:
        """Add the files of each checkpoint in one commit, unless that was done before."""
        groups: dict[tuple[str, int], list[DeltaCommittable]] = {}
        for committable in committables:
            groups.setdefault((committable.application, committable.number), []).append(committable)
        applications = list(dict.fromkeys(application for application, _ in groups))
        for application, number in sorted(groups, key=lambda group: (applications.index(group[0]), group[1])):
            reach("sink.publish", application)
            self._commit(application, number, groups[application, number])

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove files that will never be committed."""
        for committable in committables:
            self._files.remove(committable.staged_path)

    def _commit(self, application: str, number: int, files: list[DeltaCommittable]) -> None:
        for attempt in range(1, _TRIES + 1):
            table = Table(self._path)
            if table.committed(application) >= number:
                self._refuse_unpublished(files)
                return
            table.refuse_computed()
            for columns, partition in {(f.columns, tuple(name for name, _ in f.partition)) for f in files}:
                table.check_fits(columns, partition)
            self._publish(files)
            try:
                table.add(files, application, number)
                return
            except Conflict as conflict:
                if attempt == _TRIES:
                    raise SinkError(
                        f"the Delta table at {self._path!r} is changed by others all the time",
                        detail=f"The commit was tried {_TRIES} times; at last: {conflict}",
                        hint="The files are kept; the commit is repeated when the job is restarted.",
                    ) from conflict
            self._clock.wait(_PAUSE_S * attempt)

    def _publish(self, files: Sequence[DeltaCommittable]) -> None:
        """Give files their names; nobody reads them before they are in the log."""
        try:
            for file in files:
                if self._files.size(file.final_path) is None:
                    self._rename(file)
            for directory in sorted({posixpath.dirname(file.final_path) for file in files}):
                self._files.sync_directory(directory)
        except OSError as error:
            raise SinkError(
                f"files of the Delta table at {self._path!r} could not be published",
                detail=str(error),
                hint="Check the directory's permissions; the files are kept for the next attempt.",
            ) from error

    def _rename(self, file: DeltaCommittable) -> None:
        try:
            self._files.publish(file.staged_path, file.final_path)
        except FileNotFoundError as error:
            if self._files.size(file.final_path) is not None:  # by another driver, a moment ago
                return
            raise LostOutputError(
                f"staged file {file.staged_path!r} is gone before it was committed",
                detail=f"It should have become {file.final_path!r}.",
                hint="Keep the table in a directory that all hosts share, and leave files alone that begin with a "
                "dot while a job may be resumed.",
            ) from error

    def _refuse_unpublished(self, files: Sequence[DeltaCommittable]) -> None:
        """See that what counts as committed was: files have their names before they are in the log."""
        for file in files:
            if self._files.size(file.staged_path) is not None:
                raise SinkError(
                    f"file {file.staged_path!r} is not in the Delta table, though its checkpoint {file.number} counts "
                    "as committed",
                    detail=f"The table's log has a transaction of {file.application!r}.",
                    hint="This must not happen; please report it. Nothing was removed.",
                )
