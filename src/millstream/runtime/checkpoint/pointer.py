"""Where a job's newest checkpoint is, told to the driver that comes after one that was killed.

The counterpart of Flink's high-availability storage: one small file for each job, in a directory that outlives
drivers. It is written after each checkpoint and removed when the job ends, however it ends, and how it ended has
been noted (`runtime.job.results`); so if it is there and no result is, a driver was lost, and `millstream run
--recover` goes on from it. Each driver that takes the job over writes a file of its own
(`runtime.checkpoint.ownership`): one that was superseded, and does not know it yet, replaces nothing.

Nor does a write that comes late, by a server or a thread that was given up, or comes twice: each has a name of its own,
and the highest number counts::

    <name>.recovery, <name>~2.recovery, …               of term 1; those before go when the next one is there
    <name>@2.recovery, <name>@2~2.recovery, …           of term 2
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError
from millstream.files.stores import open_store
from millstream.runtime.checkpoint.ownership import of_term

__all__ = ["LostJob", "RecoveryPointer"]

log = logging.getLogger(__name__)

_MOST_TRIES = 50


@dataclass(frozen=True, slots=True)
class LostJob:
    """A job whose driver was lost.

    Attributes:
        job_id: Its id, which the job keeps.
        checkpoint: Path of its newest checkpoint.
        rescaled: The parallelism of operators by id, where it is not the program's.
    """

    job_id: str
    checkpoint: str
    rescaled: Mapping[str, int] = field(default_factory=dict)


class RecoveryPointer:
    """What one driver of a job tells of it; any thread of it may write.

    Args:
        directory: Directory or URI that outlives drivers.
        name: Names the job among those that use the directory: the file's name, without its suffix.
        term: The driver's term.
    """

    def __init__(self, directory: str, name: str, term: int = 1) -> None:
        self._directory = directory
        self._name = name
        self._store = open_store(directory)
        self._stem = of_term(name, term)
        self._numbering = threading.Lock()
        self._number: int | None = None
        self._former: set[int] = set()

    def of_term(self, term: int) -> RecoveryPointer:
        """Return the file of another driver of the job."""
        return RecoveryPointer(self._directory, self._name, term)

    def read(self) -> LostJob | None:
        """Return the job that was lost; None if there is none.

        Raises:
            CheckpointDamagedError: If the file cannot be understood.
        """
        for _ in range(_MOST_TRIES):
            newest = max(self._numbers(), default=None)
            if newest is None:
                return None
            data = self._store.read_if_there(self._path(newest))
            if data is not None:
                return self._parse(data, newest)
            # Its driver lives, and has replaced it since.
        raise CheckpointStorageError(
            f'"{self._store.describe(self._stem)}" is replaced faster than it can be read'
        )

    def _parse(self, data: bytes, number: int) -> LostJob | None:
        try:
            content = json.loads(data)
            if not content:
                return None
            rescaled = {str(key): int(value) for key, value in content.get("parallelism", {}).items()}
            return LostJob(content["job_id"], content["checkpoint"], rescaled)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            where = self._store.describe(self._path(number))
            raise CheckpointDamagedError(
                f'"{where}" does not tell where a checkpoint is',
                hint="Start from a checkpoint by its path: millstream run -s PATH.",
            ) from error

    def write(self, job: LostJob | None) -> None:
        """Tell that this is what to go on from; None for nothing, whatever is written late.

        Raises:
            CheckpointStorageError: If it cannot be written.
        """
        with self._numbering:
            if self._number is None:
                self._former.update(self._numbers())
                self._number = max(self._former, default=0)
            self._number += 1
            number = self._number
            self._former.add(number)
        content: dict[str, Any] = {}
        if job is not None:
            content = {"job_id": job.job_id, "checkpoint": job.checkpoint}
            if job.rescaled:
                content["parallelism"] = dict(job.rescaled)
        self._store.write(self._path(number), json.dumps(content).encode())
        try:
            for former in sorted(each for each in list(self._former) if each < number):
                self._store.delete(self._path(former), may_return=True)
                self._former.discard(former)
        except CheckpointStorageError as error:  # a higher number counts
            log.info("an old recovery pointer stays: %s", error.message)

    def clear(self) -> None:
        """Tell that there is nothing to go on from: the job has ended.

        Raises:
            CheckpointStorageError: If what is there cannot be removed.
        """
        for number in sorted(self._numbers()):
            self._store.delete(self._path(number))

    def _numbers(self) -> list[int]:
        own = re.compile(rf"{re.escape(self._stem)}(?:~(\d+))?\.recovery")
        found = map(own.fullmatch, self._store.names(""))
        return [int(each[1] or 1) for each in found if each is not None]

    def _path(self, number: int) -> str:
        return f"{self._stem}{'' if number == 1 else f'~{number}'}.recovery"
