"""Keeps a job running: one attempt after the other, each from the last completed checkpoint.

::

    CREATED ─► RUNNING ─► FINISHED
       ▲          │ failure
       │          ▼
       │       FAILING ─► FAILED     (the strategy gives up, or starting again cannot help)
       │          │
       └─ RESTARTING                 (for as long as the restart strategy says)
    any of them but the ends, when cancelled ─► CANCELLING ─► CANCELED
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from millstream.common.clock import Clock
from millstream.common.crash_points import reach
from millstream.common.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    ConfigurationError,
    JobDefinitionError,
    JobExecutionError,
    MillstreamError,
    NotSerializableError,
    NotSupportedError,
    StateIncompatibleError,
    UserFunctionError,
)
from millstream.common.functions import CheckpointedFunction
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.operators.broadcast_process import BroadcastProcessSpec
from millstream.operators.sink import SinkSpec
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.restore import Restored, Saved, discard, find_saved, fit_to_job
from millstream.runtime.job.job_master import JobControl, JobMaster
from millstream.runtime.job.restart import RestartStrategy

__all__ = ["JobFailure", "JobSupervisor", "describe_briefly"]

log = logging.getLogger(__name__)

_MOVES = {
    "CREATED": {"RUNNING", "FAILING", "CANCELLING"},
    "RUNNING": {"FINISHED", "FAILING", "CANCELLING"},
    "FAILING": {"RESTARTING", "FAILED", "CANCELLING"},
    "RESTARTING": {"CREATED", "CANCELLING"},
    "CANCELLING": {"CANCELED"},
}
"""Where a job may go from each status."""

_HOPELESS = (
    CheckpointDamagedError,
    ConfigurationError,
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
        claim_behind: The job owns what it was restored from, and removes it when it has made so many checkpoints
            of its own; None leaves it to the user.
        clock: Time.
        control: How others steer the job.

    Attributes:
        history: Every Flink job status so far, with when it began, epoch milliseconds.
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
        claim_behind: int | None = None,
    ) -> None:
        self._build_master = build_master
        self._job_graph = job_graph
        self._checkpoints = checkpoints
        self._strategy = strategy
        self._restore_path = restore_path
        self._allow_non_restored = allow_non_restored
        self._clock = clock
        self._control = control
        self._claim_behind = claim_behind
        self._claimed: Saved | None = None
        self._begin_from: Restored | None = None
        self.history: list[tuple[str, int]] = [("CREATED", clock.now_ms())]
        self.failures: list[JobFailure] = []
        self.master: JobMaster | None = None

    @property
    def status(self) -> str:
        """The Flink job status; any thread may ask."""
        status = self.history[-1][0]
        return "CANCELLING" if status in _MOVES and self._control.cancel.is_set() else status

    def prepare(self) -> None:
        """Find the checkpoint to begin from and make the first attempt's job master.

        Raises:
            MillstreamError: If it is not there, damaged or does not fit, or a source or sink is not there.
        """
        if self._checkpoints.enabled:
            _warn_without_uid(self._job_graph)
        restored = None
        if self._restore_path is not None:
            saved = find_saved(self._restore_path)
            restored = fit_to_job(saved, self._job_graph, allow_non_restored=self._allow_non_restored)
            self._checkpoints.continue_after(saved.manifest.checkpoint_id)
            self._checkpoints.adopt(saved)
            if self._claim_behind is not None and self._checkpoints.latest is None:
                self._claimed = saved
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
        finally:
            self._release_claimed()
            self._checkpoints.close(succeeded=succeeded)
            self._end(succeeded=succeeded)

    def epoch_ended(self) -> None:
        """Learn that an epoch has ended: a checkpoint may have taken the place of the one that was restored."""
        if self._claimed is not None:
            self._release_claimed()

    def _release_claimed(self) -> None:
        """Remove what the job was restored from, if it owns it and has enough checkpoints of its own."""
        claimed, latest = self._claimed, self._checkpoints.latest
        if claimed is None or latest is None or self._claim_behind is None:
            return
        if latest.manifest.checkpoint_id - claimed.manifest.checkpoint_id < self._claim_behind:
            return
        self._claimed = None
        try:
            discard(claimed)
            log.info("job no longer needs %s, and removed it", claimed.path)
        except CheckpointStorageError as error:
            log.warning("%s was restored and claimed, and cannot be removed: %s", claimed.path, error.message)

    def _move(self, status: str) -> None:
        before = self.history[-1][0]
        assert status in _MOVES.get(before, ()), f"a job went from {before} to {status}: {self.history}"
        self.history.append((status, self._clock.now_ms()))

    def _end(self, *, succeeded: bool) -> None:
        if succeeded:
            self._move("FINISHED")
        elif self._control.cancel.is_set():
            self._move("CANCELLING")
            self._move("CANCELED")
        else:
            if self.history[-1][0] != "FAILING":
                self._move("FAILING")
            self._move("FAILED")

    def _run_attempt(self, attempt: int) -> None:
        if attempt > 0:
            self._move("CREATED")
            self.master = self._build_master(attempt, self._last_checkpoint())
        assert self.master is not None, "prepare() comes before run()"
        self._move("RUNNING")
        try:
            self.master.run()
        finally:
            self.master.release()

    def _recover(self, error: Exception, attempt: int) -> None:
        """Wait as the strategy says; raises `error` if there is to be no further attempt."""
        if self._control.cancel.is_set():
            raise error
        self._move("FAILING")
        now_ms = self._clock.now_ms()
        self.failures.append(JobFailure(attempt, now_ms, error))
        if isinstance(error, _HOPELESS):
            raise error
        delay_ms = self._strategy.delay_after_failure(now_ms)
        if delay_ms is None:
            raise error
        self._move("RESTARTING")
        log.warning(
            "attempt %d failed and is repeated in %d ms: %s", attempt, delay_ms, describe_briefly(error)
        )
        self._wait(delay_ms)
        if self._control.cancel.is_set():
            raise JobExecutionError("the job was cancelled") from error

    def _last_checkpoint(self) -> Restored | None:
        reach("restore")
        self._checkpoints.retract()
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


def _warn_without_uid(job_graph: JobGraph) -> None:
    """Name the operators with state that a changed program could not find again."""
    names = [node.name for vertex in job_graph.vertices for node in vertex.nodes if _needs_uid(node)]
    if names:
        log.warning(
            "operators with state have no uid(...), so it is lost to a program that has changed: %s",
            ", ".join(f'"{name}"' for name in names),
        )


def _needs_uid(node: StreamNode) -> bool:
    spec: Any = node.spec
    if node.uid is not None:
        return False
    if spec.is_keyed or spec.is_source or isinstance(spec, (BroadcastProcessSpec, SinkSpec)):
        return True
    return any(isinstance(getattr(spec, field.name), CheckpointedFunction) for field in fields(spec))


def describe_briefly(error: BaseException) -> str:
    """Return what a job failed with in one line."""
    if isinstance(error, UserFunctionError):
        last = error.user_traceback.strip().splitlines()[-1:]
        return f'{"".join(last)} in operator "{error.operator}", subtask {error.subtask}'
    return error.message if isinstance(error, MillstreamError) else f"{type(error).__name__}: {error}"
