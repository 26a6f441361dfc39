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

from collections.abc import Sequence
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.crash_points import reach
from millstream.base.errors import SinkError
from millstream.connectors.delta.table import Conflict, Table, name_of
from millstream.connectors.staged_parquet import StagedParquet, publish_files, refuse_unpublished
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
        self._name = name_of(path)
        self._files = open_output(path)
        self._clock = SystemClock()

    def commit(self, committables: Sequence[Any]) -> None:
        """Add the files of each checkpoint in one commit, unless that was done before."""
        groups: dict[tuple[str, int], list[StagedParquet]] = {}
        for committable in committables:
            groups.setdefault((_application(committable), committable.number), []).append(committable)
        applications = list(dict.fromkeys(application for application, _ in groups))
        for application, number in sorted(groups, key=lambda group: (applications.index(group[0]), group[1])):
            reach("sink.publish", application)
            self._commit(application, number, groups[application, number])

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove files that will never be committed."""
        for committable in committables:
            self._files.remove(committable.staged_path)

    def _commit(self, application: str, number: int, files: list[StagedParquet]) -> None:
        for attempt in range(1, _TRIES + 1):
            table = Table(self._path)
            if table.committed(application) >= number:
                refuse_unpublished(self._name, files, self._files)
                return
            table.refuse_computed()
            for columns, partition in {(f.columns, tuple(name for name, _ in f.partition)) for f in files}:
                table.check_fits(columns, partition)
            publish_files(self._name, files, self._files)
            try:
                table.add(files, application, number)
                return
            except Conflict as conflict:
                if attempt == _TRIES:
                    raise SinkError(
                        f"{self._name} is changed by others all the time",
                        detail=f"The commit was tried {_TRIES} times; at last: {conflict}",
                        hint="The files are kept; the commit is repeated when the job is restarted.",
                    ) from conflict
            self._clock.wait(_PAUSE_S * attempt)


def _application(file: StagedParquet) -> str:
    """Return the id of Delta's transactions of an attempt."""
    generation, began_ms, attempt = file.age
    driver = f"{generation}x" if generation else ""
    return f"{file.owner}-{driver}{began_ms}-{attempt}"
