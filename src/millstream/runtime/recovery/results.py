"""How jobs ended, for whoever starts a driver anew although its job is done (Flink's job result store).

A wrapper, or Kubernetes, starts a process again whatever became of it. So a job that has ended leaves an entry
beside where it noted its checkpoints, and its clean-up is part of that::

    job ends ─► entry "dirty" ─► pointer and checkpoints go ─► entry "clean", or gone (delete-on-commit)
                  │ killed                │ killed
                  └───────────────────────┴─► millstream run --recover: clean-up once more, then as if it had been clean
    killed before: no entry, the pointer is there: --recover goes on from the last checkpoint, and ends again

With an entry `--recover` runs nothing, and says how the job ended. A run without it begins anew, and the entry goes.
As with the pointer, each driver that takes the job over writes an entry of its own (`runtime.checkpoint.ownership`).
"""

from __future__ import annotations

import base64
import json
import logging
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError
from millstream.common.job_failure import JobFailureInfo
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.files.stores import open_store
from millstream.runtime.checkpoint.ownership import of_term
from millstream.runtime.checkpoint.pointer import RecoveryPointer

__all__ = ["EndedJob", "JobResultStore", "dump_accumulators", "load_accumulators", "read_results"]

log = logging.getLogger(__name__)

_SUFFIX = ".result"
_DIRECTORY = "job-result-store"


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that has ended.

    Attributes:
        job_id: Of the job.
        name: Of the job.
        status: FINISHED, FAILED or CANCELED.
        ended_ms: When, epoch milliseconds.
        runtime_ms: How long its last attempt ran.
        checkpoints: Directory of its checkpoints, which is to go; None if nothing of it is.
        clean: Whether its clean-up is done.
        accumulators: Results by name, pickled, as base64.
        failures: Its last failures.
    """

    job_id: str
    name: str
    status: str
    ended_ms: int
    runtime_ms: int = 0
    checkpoints: str | None = None
    clean: bool = False
    accumulators: str = ""
    failures: tuple[JobFailureInfo, ...] = ()


class JobResultStore:
    """The entry of one driver of a job.

    Args:
        directory: Directory or URI that outlives drivers.
        name: Names the job among those that use the directory, as its pointer's.
        delete_on_commit: Whether the entry goes as soon as it is clean.
        term: The driver's term.
    """

    def __init__(self, directory: str, name: str, *, delete_on_commit: bool = False, term: int = 1) -> None:
        self._directory = directory
        self._name = name
        self._store = open_store(directory)
        self._path = f"{of_term(name, term)}{_SUFFIX}"
        self._delete_on_commit = delete_on_commit

    def of_term(self, term: int) -> JobResultStore:
        """Return the entry of another driver of the job."""
        return JobResultStore(self._directory, self._name, delete_on_commit=self._delete_on_commit, term=term)

    @staticmethod
    def of(configuration: Configuration, name: str) -> JobResultStore | None:
        """Read the options; None if nothing outlives the driver."""
        storage: str | None = configuration.get(keys.HA_DIRECTORY)
        if storage is None:
            return None
        return JobResultStore(
            configuration.get(keys.JOB_RESULT_DIRECTORY) or f"{storage.rstrip('/')}/{_DIRECTORY}",
            name,
            delete_on_commit=configuration.get(keys.JOB_RESULT_DELETE_ON_COMMIT),
        )

    @property
    def where(self) -> str:
        """Where the entry is, as users name it."""
        return self._store.describe(self._path)

    def read(self) -> EndedJob | None:
        """Return the entry; None if there is none.

        Raises:
            CheckpointDamagedError: If it cannot be understood.
        """
        data = self._store.read_if_there(self._path)
        return None if data is None else _parse(data, self.where)

    def begin(self, job: EndedJob) -> None:
        """Tell how the job ended; what it leaves is still to be removed.

        Raises:
            CheckpointStorageError: If it cannot be written.
        """
        reach("result.write", job.status)
        self._write(replace(job, clean=False))
        reach("result.written", job.status)

    def commit(self, job: EndedJob) -> None:
        """Tell that all that was to be removed is.

        Raises:
            CheckpointStorageError: If it cannot be written: the next `--recover` finds it dirty.
        """
        reach("result.commit", job.status)
        if self._delete_on_commit:
            self.forget()
        else:
            self._write(replace(job, clean=True))
        reach("result.committed", job.status)

    def clean_up(self, job: EndedJob, pointer: RecoveryPointer) -> None:
        """Do what was left undone when the driver was lost as its job ended.

        Raises:
            CheckpointStorageError: If something cannot be removed.
        """
        pointer.clear()
        if job.checkpoints is not None:
            open_store(job.checkpoints).delete("")
        self.commit(job)

    def forget(self) -> None:
        """Remove the entry: the job is run anew.

        Raises:
            CheckpointStorageError: If it cannot be removed.
        """
        self._store.delete(self._path)

    def _write(self, job: EndedJob) -> None:
        self._store.write(self._path, json.dumps(asdict(job), indent=1).encode())


def read_results(directory: str) -> list[EndedJob]:
    """Return the entries in a directory, by time; either of high availability or of results.

    Raises:
        CheckpointStorageError: If it cannot be read.
        CheckpointDamagedError: If an entry cannot be understood.
    """
    found = []
    for store in (open_store(f"{directory.rstrip('/')}/{_DIRECTORY}"), open_store(directory)):
        for name in store.names(""):
            data = store.read_if_there(name) if name.endswith(_SUFFIX) else None
            if data is not None:
                found.append(_parse(data, store.describe(name)))
    return sorted(found, key=lambda job: job.ended_ms)


def _parse(data: bytes, where: str) -> EndedJob:
    try:
        content = json.loads(data)
        known = {each.name: content[each.name] for each in fields(EndedJob) if each.name in content}
        failures = tuple(map(JobFailureInfo.from_dict, content.get("failures", ())))
        return EndedJob(**{**known, "failures": failures})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointDamagedError(
            f'"{where}" does not tell how a job ended',
            hint="Remove the file to have the job run again.",
        ) from error


def dump_accumulators(results: Mapping[str, Any]) -> str:
    """Pickle the results of accumulators; those that cannot be pickled are left out, and named in the log."""
    kept = {}
    for name, result in results.items():
        try:
            pickle.dumps(result, protocol=5)
        except Exception as error:  # noqa: BLE001 - any object may refuse to be pickled in any way
            log.warning('accumulator "%s" is not kept with the result of its job: %s', name, error)
        else:
            kept[name] = result
    return base64.b64encode(pickle.dumps(kept, protocol=5)).decode("ascii")


def load_accumulators(text: str) -> dict[str, Any]:
    """Return what `dump_accumulators` was given.

    Raises:
        CheckpointStorageError: If a class in it is not there any more.
    """
    if not text:
        return {}
    try:
        results: dict[str, Any] = pickle.loads(base64.b64decode(text))
    except Exception as error:
        raise CheckpointStorageError(
            f"the accumulators of a job that has ended cannot be read: {type(error).__name__}: {error}"
        ) from error
    return results
