"""Where a job's newest checkpoint is, told to the driver that comes after one that was killed.

The counterpart of Flink's high-availability storage: one small file for each job, in a directory that outlives
drivers. It is written after each checkpoint and removed when the job ends, however it ends, and how it ended has
been noted (`runtime.job.results`); so if it is there and no result is, a driver was lost, and `millstream run
--recover` goes on from it. Each driver that takes the job over writes a file of its own
(`runtime.checkpoint.ownership`): one that was superseded, and does not know it yet, replaces nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from millstream.common.errors import CheckpointDamagedError
from millstream.runtime.checkpoint.ownership import of_term
from millstream.runtime.checkpoint.storage import open_store

__all__ = ["LostJob", "RecoveryPointer"]


@dataclass(frozen=True, slots=True)
class LostJob:
    """A job whose driver was lost.

    Attributes:
        job_id: Its id, which the job keeps.
        checkpoint: Path of its newest checkpoint.
    """

    job_id: str
    checkpoint: str


class RecoveryPointer:
    """The file of one driver of a job.

    Args:
        directory: Directory or URI that outlives drivers.
        name: Names the job among those that use the directory: the file's name, without its suffix.
        term: The driver's term.
    """

    def __init__(self, directory: str, name: str, term: int = 1) -> None:
        self._directory = directory
        self._name = name
        self._store = open_store(directory)
        self._path = f"{of_term(name, term)}.recovery"

    def of_term(self, term: int) -> RecoveryPointer:
        """Return the file of another driver of the job."""
        return RecoveryPointer(self._directory, self._name, term)

    def read(self) -> LostJob | None:
        """Return the job that was lost; None if there is none.

        Raises:
            CheckpointDamagedError: If the file cannot be understood.
        """
        data = self._store.read_if_there(self._path)
        if data is None:
            return None
        try:
            content = json.loads(data)
            return LostJob(content["job_id"], content["checkpoint"])
        except (ValueError, KeyError, TypeError) as error:
            where = self._store.describe(self._path)
            raise CheckpointDamagedError(
                f'"{where}" does not tell where a checkpoint is',
                hint="Start from a checkpoint by its path: millstream run -s PATH.",
            ) from error

    def write(self, job: LostJob) -> None:
        """Tell that this is what to go on from.

        Raises:
            CheckpointStorageError: If it cannot be written.
        """
        content = {"job_id": job.job_id, "checkpoint": job.checkpoint}
        self._store.write(self._path, json.dumps(content).encode())

    def clear(self) -> None:
        """Tell that there is nothing to go on from: the job has ended."""
        self._store.delete(self._path)
