"""What outlives a job's driver: where the job had come to, and how it ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from millstream.common import options_checkpointing as keys
from millstream.common.configuration import Configuration
from millstream.common.errors import CheckpointStorageError, ConfigurationError
from millstream.runtime.checkpoint.pointer import LostJob, RecoveryPointer
from millstream.runtime.job.identity import check_unambiguous, file_stem_of
from millstream.runtime.job.results import EndedJob, JobResultStore

__all__ = ["JobTraces", "find_traces"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobTraces:
    """What earlier drivers left of a job, and where this one leaves the like.

    Attributes:
        pointer: Where the job notes its checkpoints; None if nothing outlives the driver.
        results: Where it notes how it ended; None likewise.
        lost: The job whose driver was lost, if this one is to recover it.
        ended: How the job ended, if this driver is to recover it and need not.
    """

    pointer: RecoveryPointer | None = None
    results: JobResultStore | None = None
    lost: LostJob | None = None
    ended: EndedJob | None = None

    def begin_anew(self) -> None:
        """Forget how an earlier run ended, and remove what it left.

        Raises:
            CheckpointStorageError: If that is not possible.
        """
        if self.results is None or self.pointer is None or self.ended is not None:
            return
        former = self.results.read()
        if former is None:
            return
        if not former.clean:
            self.results.clean_up(former, self.pointer)
        self.results.forget()


def find_traces(configuration: Configuration, job_name: str | None, *, number: int) -> JobTraces:
    """Return what is there of a job.

    Args:
        configuration: All options.
        job_name: Its name; None if nobody gave it one.
        number: Which job of that name it is in its program, from 1: each has traces of its own.

    Raises:
        ConfigurationError: If it is to recover, but nothing outlived its driver, or nothing tells it from others.
        CheckpointDamagedError: If something cannot be understood.
        CheckpointStorageError: If something cannot be read.
    """
    get = configuration.get
    directory, recovers = get(keys.HA_DIRECTORY), get(keys.RECOVER)
    if directory is None:
        if recovers:
            raise ConfigurationError(
                "a job is to recover, but there is no directory that outlived its driver",
                hint=f"Set {keys.HA_DIRECTORY.key}, in the run that is lost and in this one.",
            )
        return JobTraces()
    name = file_stem_of(configuration, job_name, number=number)
    pointer = RecoveryPointer(directory, name)
    results = JobResultStore.of(configuration, name)
    assert results is not None, "a directory for the pointer, and none for the result"
    if not recovers:
        return JobTraces(pointer, results)
    ended = results.read()
    if ended is not None:
        if not ended.clean:
            try:
                results.clean_up(ended, pointer)
            except CheckpointStorageError as error:  # the job has ended all the same
                log.warning("what an ended job left cannot be removed yet: %s", error.message)
        return JobTraces(pointer, results, ended=ended)
    lost = pointer.read()
    if lost is None:
        check_unambiguous(directory, name)
    else:
        log.info("job goes on from a lost driver's checkpoint: %s", lost.checkpoint)
    return JobTraces(pointer, results, lost=lost)
