"""The job master: deploys an attempt and drives its epochs until the end.

One epoch::

    plan     sources' enumerators hand out ranges within the budget
    run      the executor runs all levels on all slots
    report   one report for each slot: positions, committables, lines, timers
    commit   positions to the enumerators, committables to the committers, then the next epoch

Where checkpoints are made, committables wait for one: the manifest is published first (`runtime.checkpoint`), then
enumerators are told, then functions and readers with the next epoch. The committers work meanwhile, on a thread of
their own (`commit_thread`): what a checkpoint holds is committed before the next one is complete, and before the
attempt ends. Otherwise each epoch is committed as it ends, and the job waits.

::

    epoch 7 ─► checkpoint 3 ─► epoch 8 ─► epoch 9 ──────► checkpoint 4
                    └─ commit 3 ──────────► done: older checkpoints go    └─ commit 4 …

If commit 3 takes longer than the time to checkpoint 4, the job goes on, and makes the checkpoint when the commit has
ended. One that has not kept up with its sources for some time would only stage the more for the next commit: it waits.

An epoch without input, due timer, due checkpoint or end is not run at all. Where records go round
(`operators.iteration`), epochs follow until none does; then comes the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from millstream.base.clock import Clock
from millstream.base.crash_points import reach
from millstream.base.interrupts import JobInterrupted, is_interruption
from millstream.graph.epoch_plan import EpochPlan
from millstream.graph.launcher import EpochProgress
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.control.console import JobOutput
from millstream.runtime.control.events import SlotsDeployed
from millstream.runtime.control.queryable import answer_queries
from millstream.runtime.control.views import EpochView, SlotView, WatermarksView
from millstream.runtime.job.checkpointing import EpochCheckpoints
from millstream.runtime.job.commit_pace import CommitPace
from millstream.runtime.job.flow import FlowControl
from millstream.runtime.job.observer import JobObserver
from millstream.runtime.job.reports import EpochReports, most_held, slowest_levels, what_bounds
from millstream.runtime.job.results import CollectedResults
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.job.sinks import SinkCoordinator
from millstream.runtime.job.sources import EpochWork, SourceCoordinator
from millstream.runtime.job.steering import EndedForRescaling, JobControl, StoppedWithSavepoint
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.executor import Executor
from millstream.runtime.protocol.orders import CheckpointOrder
from millstream.runtime.protocol.report import EpochHeader
from millstream.runtime.watermarks.alignment import SplitAligner
from millstream.runtime.watermarks.progress import WatermarkMonitor
from millstream.runtime.watermarks.watch import WatermarkWatch

__all__ = ["JobMaster"]

log = logging.getLogger(__name__)

_POLL_MS = 1_000
_LOOK_S = 0.5
_ENDING_S = 1.0
"""As the process ends, a commit that is under way is waited for no longer."""


class JobMaster:
    """Drives one attempt; everything but commits happens on the thread that calls `run`.

    Args:
        deployment: The attempt.
        settings: Options.
        executor: Where the slots run.
        clock: Time.
        output: Takes lines and collected records.
        control: How others steer the job.
        on_progress: Told after each epoch.
        job_name: Shown to users.
        checkpoints: Of the job, over all its attempts.
        restored: What the driver keeps in the checkpoint that the attempt begins from, by node id.
        observer: Shows the job, over all its attempts.

    Attributes:
        observer: The same.
        metrics: What is measured, over all attempts.
        accumulators: What functions of the attempt have accumulated.
        progress: As of the last epoch; None before the first.
        ended_for_rescaling: Whether it has ended behind a checkpoint, so that one with another plan goes on.
        runtime_ms: How long an attempt that finished has run, without the start of Spark and of its slots.
    """

    def __init__(
        self,
        deployment: Deployment,
        settings: JobSettings,
        *,
        executor: Executor,
        clock: Clock,
        output: JobOutput,
        control: JobControl,
        on_progress: Callable[[EpochProgress], None] | None,
        checkpoints: CheckpointCoordinator,
        observer: JobObserver,
        restored: Mapping[int, Any] | None = None,
        job_name: str = "",
    ) -> None:
        self._coordinator = checkpoints
        checkpoints.begin_attempt()
        observer.begin_attempt()
        self.observer = observer
        self.metrics, self.accumulators = observer.metrics, observer.accumulators
        self._deployment = deployment
        self._settings = settings
        self._executor = executor
        executor.watch_cancel(control.cancel.is_set)
        self._clock = clock
        self._control = control
        self._on_progress = on_progress
        job_graph = deployment.plan.job_graph
        nodes = [node for vertex in job_graph.vertices for node in vertex.nodes]
        monitor = WatermarkMonitor(
            job_graph, started_ms=deployment.now_ms, stall_ms=settings.watermark_stall_ms
        )
        self._watermarks = WatermarkWatch(
            monitor,
            job_id=deployment.job_id,
            job_name=job_name,
            batch=deployment.batch,
            clock=clock,
            publish=self._publish,
        )
        self._sources = SourceCoordinator(
            job_graph, SplitAligner(monitor, started_ms=deployment.now_ms), restored
        )
        self._sinks = SinkCoordinator(job_graph)
        for node in nodes:
            if node.spec.writes is not None:
                self._sinks.restore(node.id, (restored or {}).get(node.id, ()))
        self._flow = FlowControl(deployment.plan, settings, restored=restored is not None)
        # Batch mode gives its results once, whatever they are.
        self._results = CollectedResults(output, None if deployment.batch else settings.collect_max_bytes)
        self._reports = EpochReports(
            {node.id: node.name for node in nodes},
            sources=self._sources,
            sinks=self._sinks,
            results=self._results,
            output=output,
            metrics=observer.metrics,
            accumulators=observer.accumulators,
        )
        self._checkpoints = EpochCheckpoints(
            checkpoints,
            control,
            sources=self._sources,
            sinks=self._sinks,
            observer=observer,
            clock=clock,
            slots=deployment.plan.slots,
            batch=deployment.batch,
        )
        self._epoch = 0
        self._iterates = any(node.spec.feeds is not None for node in nodes)
        self._going_round = self._iterates
        self._started = self._last_input = clock.monotonic()
        self._have_begun = False
        self._unrecorded = False
        self._pace = CommitPace(
            clock,
            put_off_s=checkpoints.timeout_s,
            wait_when_behind_s=settings.wait_when_behind_ms / 1000,
            job_id=deployment.job_id,
        )
        self.progress: EpochProgress | None = None
        self.runtime_ms = 0
        self.ended_for_rescaling = False

    def run(self) -> None:
        """Run the attempt to its end.

        Raises:
            MillstreamError: Why it failed; what was staged has been removed.
            JobExecutionError: If it was cancelled.
        """
        try:
            reach("attempt.start", str(self._deployment.attempt))
            self._coordinator.check_owner()
            self._sinks.commit()  # what a checkpoint holds and the attempt before may not have committed
            self._executor.deploy(self._deployment)
            self._tell_slots()
            self._started = self._last_input = self._clock.monotonic()  # slots may have taken long to start
            try:
                while self._control.stopping is None and not self._turn():
                    pass
            except StoppedWithSavepoint:
                log.info("job ends behind its savepoint", extra={"job": self._deployment.job_id})
            except EndedForRescaling:
                self.ended_for_rescaling = True
            if self._wait_for_commit(self._executor.keep_alive):
                self._coordinator.tidy()
            self._executor.finish(self._checkpoints.completed)
            self.observer.publish_pending(self._sources.pending())
            self._control.tell_stopped()
            self.runtime_ms = round((self._clock.monotonic() - self._started) * 1000)
        except BaseException as error:
            self._abort(error)
            if self._control.cancel.is_set() and (
                isinstance(error, JobInterrupted) or not is_interruption(error)
            ):
                raise self._control.cancelled() from error
            raise
        finally:
            self._control.fail_savepoints()
            self.observer.end_attempt(self._watermarks.view())
            self._sources.close()
            self._sinks.close()

    def _publish(self, view: WatermarksView) -> None:
        self.observer.publish_watermarks(view)
        self.observer.publish_pending(self._sources.pending())

    def _abort(self, failure: BaseException) -> None:
        """End the failed attempt; what goes wrong by that is logged: the attempt's own failure is what counts."""
        for undo in (self._executor.abort, partial(self._abort_sinks, failure)):
            try:
                undo()
            except BaseException as error:
                if is_interruption(error):
                    raise
                log.warning(
                    "another error while the failed attempt was ended: %s",
                    error,
                    extra={"job": self._deployment.job_id},
                )

    def _abort_sinks(self, failure: BaseException) -> None:
        """Have sinks remove what they staged, behind the commit that is under way."""
        began = self._clock.monotonic()

        def press() -> None:
            """Have what committers run on the executor's system end with the slots of a job that is cancelled."""
            waited_ms = (self._clock.monotonic() - began) * 1000
            if self._control.cancel.is_set() and waited_ms >= self._settings.slot_timeout_ms:
                self._executor.cancel_jobs()

        # Who presses Ctrl-C where the job runs on the main thread gets it back.
        interrupted = isinstance(failure, KeyboardInterrupt) and is_interruption(failure)
        if not self._sinks.abort(_LOOK_S, press, patience_s=_ENDING_S if interrupted else None):
            log.warning(
                "what sinks have staged stays: they are committing still",
                extra={"job": self._deployment.job_id},
            )

    @property
    def is_committing(self) -> bool:
        """Whether it has ended, interrupted, without waiting for its sinks: then they may be committing still."""
        return self._sinks.is_committing

    @property
    def plan(self) -> EpochPlan:
        """What it runs."""
        return self._deployment.plan

    def abandon(self) -> bool:
        """Abort the attempt from another thread, as the process ends and a function does not return.

        Returns:
            Whether that is done: else the thread that calls `run` does it now.
        """
        # As long as a commit is under way nobody can say that the job has ended: a later driver may go on with it.
        return self._executor.abandon() and self._sinks.abort(patience_s=_ENDING_S)

    def release(self) -> None:
        """Give back what the executor holds; called once, after `run`."""
        self._executor.release()

    def _turn(self) -> bool:
        """Run an epoch if there is anything to do, else wait; return whether the job has ended."""
        if self._control.cancel.is_set():
            raise self._control.cancelled()
        self._look_at_commit()
        self._answer_queries()
        self._watermarks.publish()
        now_ms = self._clock.now_ms()
        reach("plan")
        draining = self._draining()
        full = self._results.is_full
        if full and not (draining or self._checkpoint_wanted() or self._can_make_room()):
            self._last_input = self._clock.monotonic()  # nothing is read, but the sources are not idle
            self._wait_until(now_ms, [])
            return False
        budgets = self._flow.budgets()
        work = self._sources.plan(dict.fromkeys(budgets) if full else budgets, now_ms=now_ms, drain=draining)
        timer_due = self._reports.next_timer_ms is not None and self._reports.next_timer_ms <= now_ms
        busy = self._flow.is_busy
        self._pace.plan(is_behind=busy or bool(work.backlogged))
        last = work.all_finished and not self._going_round and not busy
        # What was done since the last checkpoint waits for the next one, though nothing more may come.
        wanted = self._checkpoint_wanted() or (self._unrecorded and self._checkpoint_due())
        if not (work.has_ranges or work.newly_finished or timer_due or work.all_finished or wanted or busy):
            self._wait(work, now_ms)
            return False
        began = self._clock.monotonic()
        self._reports.has_read = busy
        self._run_epoch(work, now_ms, last=last)
        if not self._have_begun:  # only now sources have begun
            self._have_begun, self._last_input = True, self._clock.monotonic()
        elif self._reports.has_read:
            self._last_input = began
        took_ms = (self._clock.monotonic() - began) * 1000
        self._tell_progress(took_ms / 1000)
        return last and self._flow.has_ended

    def _draining(self) -> bool:
        settings = self._settings
        if self._control.stop.is_set() or any(each.drain for each in self._control.savepoints):
            return True
        if settings.max_epochs is not None and self._epoch >= settings.max_epochs:
            return True
        idle_ms = (self._clock.monotonic() - self._last_input) * 1000
        return settings.stop_when_idle_ms is not None and idle_ms >= settings.stop_when_idle_ms

    def _checkpoint_due(self) -> bool:
        """Return whether it is time for a checkpoint: sooner if results wait for it and there is no room for more."""
        early = self._results.is_full and self._results.wait_for_record
        return self._coordinator.due(early=early) and self._may_record()

    def _checkpoint_wanted(self) -> bool:
        return self._checkpoints.wanted and self._may_record()

    def _may_record(self) -> bool:
        """Return whether a checkpoint may be made with the next epoch: none is committed, or it is time to wait."""
        return not self._sinks.is_committing or self._pace.may_record()

    def _can_make_room(self) -> bool:
        """Return whether an epoch helps, though more results wait than may: a checkpoint is due.

        Results that wait for a checkpoint, which cannot be made in the middle of a record, wait for the record.
        """
        if self._flow.is_suspended:
            return self._results.wait_for_record
        return self._unrecorded and self._checkpoint_due()

    def _wait(self, work: EpochWork, now_ms: int) -> None:
        self._wait_until(now_ms, [work.next_ms, self._reports.next_timer_ms])

    def _wait_until(self, now_ms: int, times: Sequence[int | None]) -> None:
        candidates = [now_ms + _POLL_MS, now_ms + self._settings.slot_lease_ms // 3]
        candidates += [time for time in times if time is not None]
        if self._settings.stop_when_idle_ms is not None:
            candidates.append(now_ms + max(self._settings.stop_when_idle_ms // 4, 1))
        self._clock.wait(max(min(candidates) - now_ms, 1) / 1000, self._control.wake)
        self._control.wake.clear()
        self._executor.keep_alive()

    def _run_epoch(self, work: EpochWork, now_ms: int, *, last: bool) -> None:
        self._epoch += 1
        began, records = self._clock.monotonic(), self._reports.records_in
        may_record = last or self._may_record()
        orders = self._checkpoints.begin(
            self._epoch,
            due=self._checkpoint_due(),
            last=last,
            held=self._flow.is_suspended or not may_record,
        )
        headers = self._headers(work, now_ms, orders, last=last)
        ran = self._clock.monotonic()
        try:
            reports = self._executor.run_epoch(headers)
        except BaseException as error:
            self._checkpoints.epoch_failed(error)
            raise
        ran_ms = (self._clock.monotonic() - ran) * 1000
        reach("epoch.report", str(self._epoch))
        writing_ms = max((report.writing_ms for report in reports), default=0.0)
        self._flow.learn(reports, took_ms=ran_ms - writing_ms, backlogged=work.backlogged)
        last = last and self._flow.has_ended
        self._reports.record(reports)
        self._watermarks.record(reports, now_ms)
        # What goes round in the epoch in which the sources end is known only behind it.
        self._going_round = self._iterates and (not work.all_finished or any(r.going_round for r in reports))
        if orders or last:
            self._make_way()
        recorded = self._checkpoints.complete(orders, reports, epoch=self._epoch, last=last)
        self._commit(recorded=recorded, last=last)
        held = most_held(reports)
        self.observer.tell(
            EpochView(
                attempt=self._deployment.attempt,
                epoch=self._epoch,
                began_ms=now_ms,
                run_ms=ran_ms,
                total_ms=(self._clock.monotonic() - began) * 1000,
                levels_ms=slowest_levels(reports),
                writing_ms=writing_ms,
                records=self._reports.records_in - records,
                held=held,
                sent_bytes=max((report.sent_bytes for report in reports), default=0),
                bound=what_bounds(work, held=held, last=last),
                checkpoint=bool(orders),
                watermark_ms=self._reports.watermark_ms,
            )
        )
        if self._control.stopping is not None:
            raise StoppedWithSavepoint
        rescaling = self._control.rescaling
        if recorded and not last and rescaling is not None and not rescaling.begun:
            raise EndedForRescaling

    def _headers(
        self, work: EpochWork, now_ms: int, orders: Sequence[CheckpointOrder], *, last: bool
    ) -> dict[int, EpochHeader]:
        """Return what each slot is told of the epoch."""
        completed = self._checkpoints.take_completed()
        # What goes round must come to its end in the last epoch: the final watermark is behind it.
        limits = () if last and self._iterates else self._flow.limits()
        return {
            slot: EpochHeader(
                attempt=self._deployment.attempt,
                epoch=self._epoch,
                committed=self._epoch - 1,
                now_ms=now_ms,
                checkpoint=bool(orders) or last,
                end_of_input=last,
                sources=work.by_slot.get(slot, {}),
                orders=tuple(order.of_slot(slot) for order in orders),
                completed_checkpoint=completed,
                limits=limits,
            )
            for slot in range(self._deployment.plan.slots)
        }

    def _look_at_commit(self) -> None:
        is_near = self._sinks.is_committing and (self._checkpoints.wanted or self._coordinator.due())
        if self._sinks.look(self._pace.take_moment_s() if is_near else 0.0):
            self._coordinator.tidy()
        elif self._sinks.is_committing:
            self._pace.look()

    def _make_way(self) -> None:
        """Wait until what the last checkpoint holds is committed: it is not in the next one."""
        try:
            self._wait_for_commit(self._while_standing_still)  # nothing is removed yet: slots have written
        except BaseException as error:
            self._checkpoints.epoch_failed(error)
            raise

    def _while_standing_still(self) -> None:
        if self._control.cancel.is_set():
            raise self._control.cancelled()
        self._executor.keep_alive()
        self._answer_queries()

    def _answer_queries(self) -> None:
        if self._control.queries:
            answer_queries(self._control.queries, self._deployment.plan.job_graph, self._executor.query)

    def _commit(self, *, recorded: bool, last: bool) -> None:
        """Begin to commit what the epoch has staged, if a checkpoint holds it or none is going to.

        Without checkpoints each epoch is its own record. Batch mode has none and gives its results once. What no
        checkpoint holds is committed when this returns.
        """
        self._unrecorded = not (recorded or self._deployment.batch)
        if not (recorded or last) and (self._coordinator.enabled or self._deployment.batch):
            return
        self._results.hand_on()
        reach("seal")
        if not recorded:  # otherwise it was looked at behind the record, by which a successor knows of it
            self._coordinator.check_owner()
        self._sinks.seal()
        self._pace.begin()
        self._sinks.begin_commit(self._control.wake.set, self._executor.as_job)
        if not recorded:
            self._wait_for_commit(self._executor.keep_alive)
        reach("commit.done")
        # At once: enumerators and readers are told that a checkpoint holds all that they have read until now.
        if recorded and self._checkpoints.completed is not None:
            self._sources.checkpoint_completed(self._checkpoints.completed)
        self._coordinator.tidy(committing=self._sinks.is_committing)

    def _wait_for_commit(self, meanwhile: Callable[[], None]) -> bool:
        return self._sinks.wait(min(self._settings.slot_lease_ms / 3000, _LOOK_S), meanwhile)

    def _tell_slots(self) -> None:
        slots = tuple(
            SlotView(each.slot, each.host, each.pid, each.executor) for each in self._executor.places()
        )
        self.observer.tell(SlotsDeployed(slots, self._clock.now_ms()))

    def _tell_progress(self, epoch_s: float) -> None:
        elapsed_s = self._clock.monotonic() - self._started
        self.progress = self._reports.progress(self._epoch, elapsed_s=elapsed_s, epoch_s=epoch_s)
        if self._on_progress is not None:
            self._on_progress(self.progress)
