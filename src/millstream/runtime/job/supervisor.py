"""Keeps a job running: one attempt after the other, each from the last completed checkpoint.

::

    CREATED ─► RUNNING ─► FINISHED
       ▲          │ failure
       │          ▼
       │       FAILING ─► FAILED     (the strategy gives up, or starting again cannot help)
       │          │
       └─ RESTARTING                 (for as long as the restart strategy says)
    RUNNING ─► RESTARTING when the job is rescaled
    any of them but the ends, when cancelled ─► CANCELLING ─► CANCELED
                              when its driver is told to end, and another can go on with the job ─► SUSPENDED
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from millstream.base.clock import Clock
from millstream.base.crash_points import reach
from millstream.base.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    ConfigurationError,
    DriverSupersededError,
    JobDefinitionError,
    JobExecutionError,
    MillstreamError,
    NotSerializableError,
    NotSupportedError,
    SessionLostError,
    StateIncompatibleError,
)
from millstream.base.interrupts import is_interruption
from millstream.base.log_context import add_to_log_context
from millstream.common.functions import CheckpointedFunction
from millstream.graph.epoch_plan import EpochPlan
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.restore import Restored, Saved, discard, find_saved, fit_to_job
from millstream.runtime.control.events import (
    AttemptBegan,
    AttemptFailed,
    CheckpointRestored,
    JobEvent,
    StatusChanged,
)
from millstream.runtime.control.views import RestoredView
from millstream.runtime.job.job_master import JobMaster
from millstream.runtime.job.steering import JobControl
from millstream.runtime.recovery.failures import (
    FailureHistory,
    JobFailure,
    describe_briefly,
    describe_failure,
)
from millstream.runtime.recovery.restart import RestartStrategy
from millstream.runtime.recovery.results import EndedJob, JobResultStore, dump_accumulators

__all__ = ["JobSupervisor"]

log = logging.getLogger(__name__)

_MOVES = {
    "CREATED": {"RUNNING", "FAILING", "CANCELLING", "SUSPENDED"},
    "RUNNING": {"FINISHED", "FAILING", "RESTARTING", "CANCELLING", "SUSPENDED"},
    "FAILING": {"RESTARTING", "FAILED", "CANCELLING", "SUSPENDED"},
    "RESTARTING": {"CREATED", "CANCELLING", "SUSPENDED"},
    "CANCELLING": {"CANCELED"},
}
"""Where a job may go from each status."""

_HOPELESS = (
    CheckpointDamagedError,
    ConfigurationError,
    DriverSupersededError,
    JobDefinitionError,
    NotSerializableError,
    NotSupportedError,
    SessionLostError,
    StateIncompatibleError,
)
"""Errors that come again, however often the job is started."""


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
        results: Where to leave how the job ended; None if nobody asks.
        failures: Where to keep its failures.
        find_saved: Finds the checkpoint or savepoint at a path.
        tell: Told of what happens.
        adopt_plan: Told which plan the next attempts have, when the job is rescaled.

    Attributes:
        history: Every Flink job status so far, with when it began, epoch milliseconds.
        failures: The last failures.
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
        results: JobResultStore | None = None,
        failures: FailureHistory | None = None,
        find_saved: Callable[[str], Saved] = find_saved,
        tell: Callable[[JobEvent], None] = lambda event: None,
        adopt_plan: Callable[[EpochPlan], None] = lambda plan: None,
    ) -> None:
        self._adopt_plan = adopt_plan
        self._former: tuple[EpochPlan, Mapping[str, int]] | None = None
        self._tell = tell
        self._find_saved = find_saved
        self._results = results
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
        self._begin_saved: Saved | None = None
        self._last_error: BaseException | None = None
        self.history: list[tuple[str, int]] = [("CREATED", clock.now_ms())]
        self.failures = FailureHistory() if failures is None else failures
        self.master: JobMaster | None = None
        tell(StatusChanged(*self.history[0]))

    @property
    def status(self) -> str:
        """The Flink job status; any thread may ask."""
        status = self.history[-1][0]
        is_cancelled = self._control.cancel.is_set() and not self._control.suspended
        return "CANCELLING" if status in _MOVES and is_cancelled else status

    @property
    def restarts(self) -> int:
        """How often the job was started again."""
        return sum(status == "RESTARTING" for status, _ in self.history)

    def prepare(self) -> None:
        """Find the checkpoint to begin from and make the first attempt's job master.

        Raises:
            MillstreamError: If it is not there, damaged or does not fit, or a source or sink is not there.
        """
        try:
            self._prepare()
        except MillstreamError as error:
            self._check_owner(error)
            raise

    def _prepare(self) -> None:
        if self._checkpoints.enabled:
            _warn_without_uid(self._job_graph)
            self._checkpoints.check()
        restored = None
        if self._restore_path is not None:
            saved = self._find_saved(self._restore_path)
            restored = fit_to_job(saved, self._job_graph, allow_non_restored=self._allow_non_restored)
            self._checkpoints.continue_after(saved.manifest.checkpoint_id)
            self._checkpoints.adopt(saved)
            if self._claim_behind is not None and self._checkpoints.latest is None:
                self._claimed = saved
            self._begin_saved = saved
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
                    if not self._rescale():
                        break
                except BaseException as error:
                    if is_interruption(error):
                        raise
                    self._recover(error, attempt)
                attempt += 1
            succeeded = True
        finally:
            try:
                self._clean_up("FINISHED" if succeeded else self._unfinished())
            except DriverSupersededError:
                succeeded = False
                raise
            finally:
                self._end(succeeded=succeeded)

    def abandon(self) -> bool:
        """Clean up in the place of the thread that runs the job, whose functions do not return; the process ends.

        Returns:
            Whether that is done: else that thread does it now.
        """
        if self.master is None or not self.master.abandon():
            return False
        self._clean_up(self._unfinished())
        return True

    def _unfinished(self) -> str:
        """Return how a job ends that has not finished."""
        if not self._control.cancel.is_set():
            return "FAILED"
        return "SUSPENDED" if self._control.suspended else "CANCELED"

    def _clean_up(self, status: str) -> None:
        """Note how the job ended, remove what it leaves, note that; what goes wrong does not change how it ended.

        Raises:
            DriverSupersededError: If another driver has taken the job over: it goes on with it.
        """
        if status == "FAILED" and self._can_be_recovered():
            log.warning("job has ended with its Spark session, and can be recovered: --recover")
            return
        if self.master is not None and self.master.is_committing:
            log.warning("job was interrupted while its sinks committed, so nothing of it is removed")
            return
        try:
            self._checkpoints.check_owner()
            if status == "SUSPENDED":
                log.warning(
                    'job "%s" was suspended, and can be recovered: --recover', self._checkpoints.job_name
                )
                self._checkpoints.release()
                return
            self._release_claimed()
            self._note_end(status)
        except DriverSupersededError as error:
            log.error("driver is superseded and ends, with nothing more published or removed: %s", error)
            self._checkpoints.release()
            raise
        except CheckpointStorageError as error:
            log.warning("whose the job is cannot be seen, so nothing of it is removed: %s", error.message)
            self._checkpoints.release()

    def _note_end(self, status: str) -> None:
        if self._results is None:
            self._checkpoints.close(status)
            return
        try:
            ended = self._describe_end(status)
            self._results.begin(ended)
            if self._checkpoints.close(status):
                self._results.commit(ended)
        except DriverSupersededError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the job has ended
            log.warning(
                "job has ended, %s, but that could not be noted or cleaned up; --recover does it: %s",
                status,
                describe_briefly(error),
            )

    def _can_be_recovered(self) -> bool:
        """Return whether the job ends as if its driver had been killed: what it needs to go on is gone."""
        return self._results is not None and isinstance(self._last_error, SessionLostError)

    def _describe_end(self, status: str) -> EndedJob:
        master = self.master
        return EndedJob(
            job_id=self._checkpoints.job_id,
            name=self._checkpoints.job_name,
            status=status,
            ended_ms=self._clock.now_ms(),
            runtime_ms=0 if master is None else master.runtime_ms,
            checkpoints=self._checkpoints.goes_with(status),
            accumulators="" if master is None else dump_accumulators(master.accumulators.results()),
            failures=tuple(map(describe_failure, self.failures)),
        )

    def _rescale(self) -> bool:
        """Have the next attempt run the plan that was asked for; return whether one was."""
        request = self._control.rescaling
        if request is None or self.master is None or not self.master.ended_for_rescaling:
            return False
        if self._control.cancel.is_set():
            raise self._control.cancelled()
        latest = self._checkpoints.latest
        assert latest is not None, "an attempt ended for rescaling, without a checkpoint"
        request.begun, request.checkpoint = True, latest.path
        log.info("job goes on from %s with parallelism %d", latest.path, request.plan.slots)
        self._former = self.master.plan, self._checkpoints.rescaled
        self._move("RESTARTING")
        self._use(request.plan, request.rescaled)
        return True

    def _use(self, plan: EpochPlan, rescaled: Mapping[str, int]) -> None:
        self._job_graph = plan.job_graph
        self._checkpoints.use(plan.job_graph, rescaled)
        self._adopt_plan(plan)

    def _rescaling_failed(self, error: BaseException) -> bool:
        """Go back to the plan before, if the first attempt with the new one came to no epoch; return whether so."""
        former, request = self._former, self._control.rescaling
        if former is None or request is None or isinstance(error, (DriverSupersededError, SessionLostError)):
            return False
        log.warning("job cannot run with parallelism %d, and goes back: %s", request.plan.slots, error)
        self._use(*former)
        self._former = self._control.rescaling = None
        request.done.set_exception(
            JobExecutionError(
                f"the job could not run with parallelism {request.plan.slots}, and goes on as before",
                detail=describe_briefly(error),
            )
        )
        return True

    def epoch_ended(self) -> None:
        """Learn that an epoch has ended: a checkpoint may have taken the place of the one that was restored."""
        request = self._control.rescaling
        if self._former is not None and request is not None:
            self._former = self._control.rescaling = None
            request.done.set_result(request.outcome)
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
        self._checkpoints.check_owner()
        try:
            discard(claimed)
            log.info("job no longer needs %s, and removed it", claimed.path)
        except CheckpointStorageError as error:
            log.warning("%s was restored and claimed, and cannot be removed: %s", claimed.path, error.message)

    def _move(self, status: str) -> None:
        before = self.history[-1][0]
        assert status in _MOVES.get(before, ()), f"a job went from {before} to {status}: {self.history}"
        self.history.append((status, self._clock.now_ms()))
        self._tell(StatusChanged(*self.history[-1]))

    def _end(self, *, succeeded: bool) -> None:
        if succeeded:
            self._move("FINISHED")
        elif self._unfinished() == "SUSPENDED":
            self._move("SUSPENDED")
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
        add_to_log_context(attempt=attempt)
        self._tell_began(attempt)
        self._move("RUNNING")
        try:
            self.master.run()
        finally:
            self.master.release()

    def _tell_began(self, attempt: int) -> None:
        now_ms = self._clock.now_ms()
        self._tell(AttemptBegan(attempt, now_ms))
        saved = self._checkpoints.latest if attempt > 0 else None
        saved = saved or self._begin_saved
        if saved is not None:
            manifest = saved.manifest
            restored = RestoredView(manifest.checkpoint_id, manifest.is_savepoint, saved.path, now_ms)
            self._tell(CheckpointRestored(restored))

    def _recover(self, error: BaseException, attempt: int) -> None:
        """Wait as the strategy says; raises `error` if there is to be no further attempt."""
        if self._control.cancel.is_set():
            raise error
        self._last_error = error
        self._move("FAILING")
        try:
            self._check_owner(error)
        except DriverSupersededError as superseded:
            error = superseded
        now_ms = self._clock.now_ms()
        delay_ms: int | None
        if self._rescaling_failed(error):
            delay_ms = 0
        else:
            hopeless = isinstance(error, _HOPELESS)
            delay_ms = None if hopeless else self._strategy.delay_after_failure(now_ms)
        failure = JobFailure(attempt, now_ms, error, delay_ms)
        self.failures.add(failure)
        self._tell(AttemptFailed(describe_failure(failure)))
        if delay_ms is None:
            raise error
        self._move("RESTARTING")
        log.warning(
            "attempt %d failed and is repeated in %d ms: %s", attempt, delay_ms, describe_briefly(error)
        )
        self._wait(delay_ms)
        if self._control.cancel.is_set():
            raise self._control.cancelled() from error

    def _check_owner(self, error: BaseException) -> None:
        """See whether an error is one that another driver brought about: it removes what this one needs.

        Raises:
            DriverSupersededError: If there is another one.
        """
        try:
            self._checkpoints.check_owner()
        except DriverSupersededError as superseded:
            raise superseded from error
        except CheckpointStorageError as unknown:
            log.warning("whose the job is cannot be seen: %s", unknown.message)

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
    nodes = [node for vertex in job_graph.vertices for node in vertex.nodes if _needs_uid(node)]
    if nodes:
        log.warning(
            "operators with state have no uid(...), so it is lost to a program that has changed: %s. Give each a "
            'uid("...") before its first checkpoint; to keep state that is there already, give the operator in the '
            'changed program set_uid_hash("...") with what is in brackets',
            ", ".join(f'"{node.name}" ({node.operator_id})' for node in nodes),
        )


def _needs_uid(node: StreamNode) -> bool:
    spec: Any = node.spec
    if node.uid is not None or node.uid_hash is not None:
        return False
    if spec.keeps_state:
        return True
    return any(isinstance(getattr(spec, field.name), CheckpointedFunction) for field in fields(spec))
