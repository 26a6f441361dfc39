"""Keeps a job running: one attempt after the other, each from the last completed checkpoint.

::

    CREATED ─► RUNNING ─► FINISHED
                  │ ▲
          failure ▼ │ after the restart strategy's delay
               RESTARTING ─► FAILED     (the strategy gives up, or starting again cannot help)
    any of them, when cancelled ─► CANCELED
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from millstream.common.clock import Clock
from millstream.common.errors import (
    CheckpointDamagedError,
    JobDefinitionError,
    JobExecutionError,
    MillstreamError,
    NotSerializableError,
    NotSupportedError,
    StateIncompatibleError,
    UserFunctionError,
)
from millstream.graph.job_graph import JobGraph
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.restore import Restored, find_saved, fit_to_job
from millstream.runtime.job.job_master import JobControl, JobMaster
from millstream.runtime.job.restart import RestartStrategy

__all__ = ["JobFailure", "JobSupervisor"]

log = logging.getLogger(__name__)

_HOPELESS = (
    CheckpointDamagedError,
    JobDefinitionError,
    NotSerializableError,
    NotSupportedError,
    StateIncompatibleError,
)
"""Errors that come again, however often the job is started."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """One failure of a job.

    Attributes:
        attempt: The attempt that failed, from 0.
        time_ms: When, epoch milliseconds.
        error: Why.
    """

    attempt: int
    time_ms: int
    error: BaseException


class JobSupervisor:
    """Runs the attempts of one job; everything happens on the thread that calls `run`.

    Args:
        build_master: Makes the job master of an attempt: its number, and what it begins from.
        job_graph: The job.
        checkpoints: Of the job.
        strategy: What happens after a failure.
        restore_path: Checkpoint or savepoint that the first attempt begins from; None for none.
        allow_non_restored: Whether state in it that no operator takes may be dropped.
        clock: Time.
        control: How others steer the job.

    Attributes:
        status: A Flink job status.
        failures: All failures so far.
        master: Of the current attempt, or the last; None before the first.
    """

    def __init__(
        self,
        build_master: Callable[[int, Restored | None], JobMaster],
        *,
        job_graph: JobGraph,
        checkpoints: CheckpointCoordinator,
        strategy: RestartStrategy,
        restore_path: str | None,
        allow_non_restored: bool,
        clock: Clock,
        control: JobControl,
    ) -> None:
        self._build_master = build_master
        self._job_graph = job_graph
        self._checkpoints = checkpoints
        self._strategy = strategy
        self._restore_path = restore_path
        self._allow_non_restored = allow_non_restored
        self._clock = clock
        self._control = control
        self.status = "CREATED"
        self.failures: list[JobFailure] = []
        self.master: JobMaster | None = None

    def prepare(self) -> None:
        """Find the checkpoint to begin from and make the first attempt's job master.

        Raises:
            MillstreamError: If it is not there, damaged or does not fit, or a source or sink is not there.
        """
        restored = None
        if self._restore_path is not None:
            saved = find_saved(self._restore_path)
            restored = fit_to_job(saved, self._job_graph, allow_non_restored=self._allow_non_restored)
            self._checkpoints.continue_after(saved.manifest.checkpoint_id)
            log.info("job begins from %s", saved.path)
        self._begin_from = restored
        self.master = self._build_master(0, restored)

    def run(self) -> None:
        """Run attempts until one ends well.

        Raises:
            BaseException: What the last attempt failed with.
        """
        attempt = 0
        succeeded = False
        try:
            while True:
                try:
                    self._run_attempt(attempt)
                    break
                except Exception as error:  # noqa: BLE001 - whatever made it fail: the strategy decides
                    self._recover(error, attempt)
                attempt += 1
            succeeded = True
            self.status = "FINISHED"
        except BaseException:
            self.status = "CANCELED" if self._control.cancel.is_set() else "FAILED"
            raise
        finally:
            self._checkpoints.close(succeeded=succeeded)

    def _run_attempt(self, attempt: int) -> None:
        if attempt > 0:
            self.master = self._build_master(attempt, self._last_checkpoint())
        assert self.master is not None, "prepare() comes before run()"
        self.status = "RUNNING"
        try:
            self.master.run()
        finally:
            self.master.release()

    def _recover(self, error: Exception, attempt: int) -> None:
        """Wait as the strategy says; raises `error` if there is to be no further attempt."""
        if self._control.cancel.is_set() or isinstance(error, _HOPELESS):
            raise error
        now_ms = self._clock.now_ms()
        self.failures.append(JobFailure(attempt, now_ms, error))
        delay_ms = self._strategy.delay_after_failure(now_ms)
        if delay_ms is None:
            raise error
        self.status = "RESTARTING"
        log.warning("attempt %d failed and is repeated in %d ms: %s", attempt, delay_ms, _summary(error))
        self._wait(delay_ms)
        if self._control.cancel.is_set():
            raise JobExecutionError("the job was cancelled") from error

    def _last_checkpoint(self) -> Restored | None:
        latest = self._checkpoints.latest
        if latest is None:
            return self._begin_from
        return fit_to_job(latest, self._job_graph, allow_non_restored=True)

    def _wait(self, delay_ms: int) -> None:
        deadline = self._clock.monotonic() + delay_ms / 1000
        while not self._control.cancel.is_set():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.wait(left, self._control.wake)
            self._control.wake.clear()


def _summary(error: BaseException) -> str:
    if isinstance(error, UserFunctionError):
        last = error.user_traceback.strip().splitlines()[-1:]
        return f'{"".join(last)} in operator "{error.operator}", subtask {error.subtask}'
    return error.message if isinstance(error, MillstreamError) else f"{type(error).__name__}: {error}"
