"""What was seen of jobs that have ended: one JSON file for each, with all views, for some time.

::

    <directory>/<when it was written>-<job id>.json      {"job": …, "checkpoints": …, "exceptions": …, …}

Who writes a file, or looks for jobs, removes those that are too old or too many. The directory is the user's own and
for nobody else, as views hold what users' functions said; nothing in it is ever unpickled.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import JobRequestError
from millstream.config import options_operating as keys
from millstream.config.configuration import Configuration
from millstream.files.private_files import check_private, find_private, private_directory
from millstream.runtime.control.codec import KEPT_VIEWS, decode, encode, view_name
from millstream.runtime.control.commands import Command
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.views import JobView

__all__ = ["ArchivedJob", "JobArchive"]

V = TypeVar("V")

_LOG = logging.getLogger("millstream")
_NAME = re.compile(r"(\d{15})-([0-9a-f]{32})\.json")


class JobArchive:
    """The ended jobs of this user.

    Args:
        directory: Where they are; None for the user's own below the temporary directory.
        expiration_ms: For how long; 0 for not at all.
        max_capacity: How many.
        clock: Time.
    """

    def __init__(
        self,
        directory: str | None = None,
        *,
        expiration_ms: int = 3_600_000,
        max_capacity: int = 100,
        clock: Clock | None = None,
    ) -> None:
        self._named = None if directory is None else Path(directory).expanduser()
        self._expiration_ms = expiration_ms
        self._max_capacity = max_capacity
        self._clock = clock or SystemClock()

    @staticmethod
    def of(configuration: Configuration, clock: Clock | None = None) -> JobArchive:
        """Read the options."""
        get = configuration.get
        return JobArchive(
            get(keys.ARCHIVE_DIRECTORY),
            expiration_ms=get(keys.ARCHIVE_EXPIRATION) * 1_000,
            max_capacity=get(keys.ARCHIVE_MAX_CAPACITY),
            clock=clock,
        )

    def write(self, job: JobGateway) -> None:
        """Keep all views of a job that has ended; called once.

        What cannot be kept is logged: the job has ended all the same.
        """
        if self._expiration_ms <= 0 or self._max_capacity <= 0:
            return
        try:
            directory = self._make_directory()
            path = directory / f"{self._clock.now_ms():015d}-{job.job_id}.json"
            document = encode({name: job.view(kind) for name, kind in KEPT_VIEWS.items()})
            partial = path.with_suffix(".partial")
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(document)
            os.replace(partial, path)
            self._sweep(directory)
        except Exception as error:  # noqa: BLE001 - user data may refuse to be shown; that fails no job
            _LOG.warning("what was seen of the job is not kept: %s: %s", type(error).__name__, error)

    def jobs(self) -> list[ArchivedJob]:
        """Return the jobs that are kept, the latest end first.

        Raises:
            NotPrivateError: If the directory belongs to somebody else, or others can change it.
        """
        directory = self._find_directory()
        if directory is None:
            return []
        self._sweep(directory)
        found = []
        for path in self._files(directory):
            try:
                document = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
                job = decode(bytes(document["job"]), JobView)
            except FileNotFoundError:
                continue  # another process has just removed it
            except (msgspec.MsgspecError, KeyError, JobRequestError) as error:
                _LOG.warning("file does not tell of a job and is left out: %s: %s", path, error)
                continue
            found.append(ArchivedJob(job.job_id, job.name, job.started_ms, job, document))
        return found

    def find(self, job_id: str) -> ArchivedJob | None:
        """Return the job of that id; None if it is not kept."""
        return next((job for job in self.jobs() if job.job_id == job_id), None)

    def _make_directory(self) -> Path:
        if self._named is None:
            return private_directory("archive")
        self._named.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(self._named)
        return self._named

    def _find_directory(self) -> Path | None:
        if self._named is None:
            return find_private("archive")
        if not self._named.exists():
            return None
        check_private(self._named)
        return self._named

    def _files(self, directory: Path) -> list[Path]:
        """Return the files, the latest end first."""
        return sorted((path for path in directory.iterdir() if _NAME.fullmatch(path.name)), reverse=True)

    def _sweep(self, directory: Path) -> None:
        oldest = f"{max(self._clock.now_ms() - self._expiration_ms, 0):015d}"
        for position, path in enumerate(self._files(directory)):
            if position >= self._max_capacity or path.name < oldest:
                with suppress(OSError):
                    path.unlink()


@dataclass(frozen=True)
class ArchivedJob(JobGateway):
    """A job that has ended.

    Attributes:
        job_id: Of the job.
        name: Of the job.
        started_ms: When it was submitted, epoch milliseconds.
        job: How it ended.
        document: Its views by name, as JSON.
    """

    job_id: str
    name: str
    started_ms: int
    job: JobView
    document: Mapping[str, msgspec.Raw] = field(repr=False)

    def view(self, kind: type[V]) -> V:
        """Return a view of the job as it was at its end.

        Raises:
            JobRequestError: If there is no such view.
        """
        raw = self.document.get(view_name(kind))
        if raw is None:
            raise JobRequestError(
                f'of job {self.job_id} "{self.name}", which has ended, no {kind.__name__} is kept'
            )
        return decode(bytes(raw), kind)

    def perform(self, command: Command) -> Future[Any]:
        """Tell that there is nothing to be done any more."""
        future: Future[Any] = Future()
        future.set_exception(
            JobRequestError(
                f'job {self.job_id} "{self.name}" has ended: {self.job.status}', reason="JOB_ENDED"
            )
        )
        return future
