"""What outlives a job's driver: where the job had come to, how it ended, and whose it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import CheckpointStorageError, ConfigurationError
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.runtime.checkpoint.ownership import Ownership, owned_terms
from millstream.runtime.checkpoint.pointer import LostJob, RecoveryPointer
from millstream.runtime.recovery.identity import check_unambiguous, file_stem_of
from millstream.runtime.recovery.results import EndedJob, JobResultStore

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
        ownership: This driver's term; None if nothing outlives it, or there is nothing to run.
    """

    pointer: RecoveryPointer | None = None
    results: JobResultStore | None = None
    lost: LostJob | None = None
    ended: EndedJob | None = None
    ownership: Ownership | None = None

    def begin_anew(self) -> None:
        """Forget what earlier drivers left, unless the job goes on from it.

        Raises:
            CheckpointStorageError: If that is not possible.
        """
        if self.results is None or self.pointer is None or self.ownership is None or self.ended is not None:
            return
        for term in _terms_to_look_at(self.ownership.former):
            former = self.results.of_term(term).read()
            if former is not None and not former.clean and self.lost is None:
                self.results.of_term(term).clean_up(former, self.pointer.of_term(term))
        self.results.forget()  # of a version that knew no terms
        self._forget_former()

    def take_over(self) -> JobTraces:
        """Look what the driver before left, and note that it is this one's now.

        Raises:
            DriverSupersededError: If yet another driver has taken the job over meanwhile.
            CheckpointDamagedError: If something cannot be understood.
            CheckpointStorageError: If something cannot be read or written.
        """
        pointer, results, ownership = self.pointer, self.results, self.ownership
        assert pointer is not None and results is not None and ownership is not None
        _, left = _left_by(ownership.former, pointer, results)
        if isinstance(left, LostJob):
            # At once: whatever the driver before still writes, nobody looks at it any more.
            pointer.write(left)
            ownership.check()
            log.info("job goes on from a lost driver's checkpoint: %s", left.checkpoint)
            return JobTraces(pointer, results, lost=left, ownership=ownership)
        ownership.check()
        if left is None:
            return self
        try:
            for term in _terms_to_look_at(ownership.former):
                pointer.of_term(term).clear()
            results.clean_up(left, pointer)
            self._forget_former()
        except CheckpointStorageError as error:  # the job has ended all the same
            log.warning("what an ended job left cannot be removed yet: %s", error.message)
        return JobTraces(pointer, results, ended=left, ownership=ownership)

    def _forget_former(self) -> None:
        """Remove what earlier drivers noted; nobody looks at it any more."""
        pointer, results, ownership = self.pointer, self.results, self.ownership
        assert pointer is not None and results is not None and ownership is not None
        for term in _terms_to_look_at(ownership.former):
            if term != ownership.term:
                pointer.of_term(term).clear()
                results.of_term(term).forget()
        ownership.forget_former()


def find_traces(
    configuration: Configuration, job_name: str | None, *, number: int, clock: Clock | None = None
) -> JobTraces:
    """Return what is there of a job, and take it over.

    Args:
        configuration: All options.
        job_name: Its name; None if nobody gave it one.
        number: Which job of that name it is in its program, from 1: each has traces of its own.
        clock: Time; by default the machine's.

    Raises:
        ConfigurationError: If it is to recover, but nothing outlived its driver, or nothing tells it from others.
        DriverSupersededError: If yet another driver takes it over at the same time.
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
    pointer, results = RecoveryPointer(directory, name), JobResultStore.of(configuration, name)
    assert results is not None, "a directory for the pointer, and none for the result"
    if recovers:
        term, left = _left_by(owned_terms(directory, name), pointer, results)
        if isinstance(left, EndedJob) and left.clean:
            return JobTraces(pointer, results.of_term(term), ended=left)
        if left is None:
            check_unambiguous(directory, name)
    ownership = Ownership.take(directory, name, job=job_name or name, clock=clock or SystemClock())
    traces = JobTraces(pointer.of_term(ownership.term), results.of_term(ownership.term), ownership=ownership)
    return traces.take_over() if recovers else traces


def _left_by(
    terms: Sequence[int], pointer: RecoveryPointer, results: JobResultStore
) -> tuple[int, EndedJob | LostJob | None]:
    """Return what the newest driver left that left anything, and its term."""
    for term in _terms_to_look_at(terms):
        left = results.of_term(term).read() or pointer.of_term(term).read()
        if left is not None:
            return term, left
    return 0, None


def _terms_to_look_at(terms: Sequence[int]) -> Sequence[int]:
    """Return the terms whose files count: without any, those of a version that knew no terms."""
    return terms or (1,)
