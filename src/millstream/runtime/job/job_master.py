"""The job master: deploys an attempt and drives its epochs until the end.

One epoch::

    plan     sources' enumerators hand out ranges within the budget
    run      the executor runs all levels on all slots
    report   one report for each slot: positions, committables, lines, timers
    commit   positions to the enumerators, committables to the committers, then the next epoch

Where checkpoints are made, committables wait for one: the manifest is published first (`runtime.checkpoint`), then
they are committed and enumerators told, then functions and readers with the next epoch. Otherwise each epoch is
committed as it ends.

An epoch without input, due timer, due checkpoint or end is not run at all. Where records go round
(`operators.iteration`), epochs follow until none does; then comes the last one.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from millstream.base.clock import Clock
from millstream.base.crash_points import reach
from millstream.base.errors import (
    CheckpointStorageError,
    ConfigurationError,
    DriverSupersededError,
    JobExecutionError,
)
from millstream.base.interrupts import JobInterrupted, is_interruption
from millstream.graph.launcher import EpochProgress
from millstream.operators.base import OperatorReport
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.manifest import Manifest
from millstream.runtime.control.console import JobOutput
from millstream.runtime.control.queryable import StateQuery, answer_queries
from millstream.runtime.control.status_files import StatusFile
from millstream.runtime.job.accumulators import JobAccumulators
from millstream.runtime.job.flow import FlowControl
from millstream.runtime.job.metrics import JobMetrics
from millstream.runtime.job.results import CollectedResults
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.job.sinks import SinkCoordinator
from millstream.runtime.job.sources import EpochWork, SourceCoordinator
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.executor import Executor
from millstream.runtime.protocol.orders import CheckpointDeclined, CheckpointOrder, WrittenState
from millstream.runtime.protocol.report import EpochHeader, SlotReport
from millstream.runtime.recovery.failures import describe_briefly
from millstream.runtime.watermarks.alignment import SplitAligner
from millstream.runtime.watermarks.progress import WatermarkMonitor
from millstream.runtime.watermarks.watch import WatermarkWatch

__all__ = ["JobControl", "JobMaster", "SavepointRequest"]

log = logging.getLogger(__name__)

_POLL_MS = 1_000


@dataclass(slots=True)
class SavepointRequest:
    """A savepoint that somebody waits for.

    Attributes:
        directory: Where to; None for the configured directory.
        stop: Whether the job is to end behind it.
        drain: Whether it is to come to its end before: windows fire, timers too.
        done: Gets the savepoint's path, or why there is none. If the job is to end: when what the savepoint holds is
            committed.
        path: Where the savepoint is, once it is.
    """

    directory: str | None
    stop: bool = False
    drain: bool = False
    done: Future[str] = field(default_factory=Future)
    path: str | None = None


@dataclass(slots=True)
class JobControl:
    """How others steer a running job: threads set events, the job master looks at them between epochs.

    Attributes:
        cancel: Stop at once; what is staged is removed.
        suspended: Whether that is because the driver ends, and another is to go on with the job; set before `cancel`.
        stop: Read no more, finish what is there.
        wake: Set with any of the others, to end a wait.
        savepoints: Those that are asked for.
        stopping: Whose savepoint is there: attempts commit what it holds, and end.
        queries: What is asked of the state.
    """

    cancel: threading.Event = field(default_factory=threading.Event)
    suspended: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    savepoints: deque[SavepointRequest] = field(default_factory=deque)
    stopping: SavepointRequest | None = None
    queries: deque[StateQuery] = field(default_factory=deque)

    def cancelled(self) -> JobExecutionError:
        """Return the error of a job that was told to stop."""
        return JobExecutionError(f"the job was {'suspended' if self.suspended else 'cancelled'}")


class StoppedWithSavepoint(Exception):
    """The job was to end behind a savepoint, and the savepoint is there."""


class JobMaster:
    """Drives one attempt; everything happens on the thread that calls `run`.

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
        status_file: What other processes read of the job.

    Attributes:
        metrics: What the subtasks measured.
        accumulators: What functions accumulated.
        progress: As of the last epoch; None before the first.
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
        status_file: StatusFile,
        restored: Mapping[int, Any] | None = None,
        job_name: str = "",
    ) -> None:
        self._checkpoints = checkpoints
        checkpoints.begin_attempt()
        self._deployment = deployment
        self._settings = settings
        self._executor = executor
        executor.watch_cancel(control.cancel.is_set)
        self._clock = clock
        self._output = output
        self._control = control
        self._on_progress = on_progress
        self._names = {
            node.id: node.name for vertex in deployment.plan.job_graph.vertices for node in vertex.nodes
        }
        monitor = WatermarkMonitor(
            deployment.plan.job_graph, started_ms=deployment.now_ms, stall_ms=settings.watermark_stall_ms
        )
        self._watermarks = WatermarkWatch(
            monitor,
            job_id=deployment.job_id,
            job_name=job_name,
            batch=deployment.batch,
            clock=clock,
            status_file=status_file,
        )
        self._sources = SourceCoordinator(
            deployment.plan.job_graph, SplitAligner(monitor, started_ms=deployment.now_ms), restored
        )
        self._sinks = SinkCoordinator(deployment.plan.job_graph)
        for vertex in deployment.plan.job_graph.vertices:
            for node in vertex.nodes:
                if node.spec.writes is not None:
                    self._sinks.restore(node.id, (restored or {}).get(node.id, ()))
        self._flow = FlowControl(deployment.plan, settings, restored=restored is not None)
        nodes = [node for vertex in deployment.plan.job_graph.vertices for node in vertex.nodes]
        self.metrics = JobMetrics(job_name, nodes, clock)
        self.accumulators = JobAccumulators()
        self._totals = _Totals()
        self._epoch = 0
        self._iterates = any(
            node.spec.feeds is not None
            for vertex in deployment.plan.job_graph.vertices
            for node in vertex.nodes
        )
        self._going_round = self._iterates
        self._next_timer_ms: int | None = None
        self._started = self._last_input = clock.monotonic()
        self._has_read = self._have_begun = False
        self._completed_checkpoint: int | None = None
        # Batch mode gives its results once, whatever they are.
        self._results = CollectedResults(output, None if deployment.batch else settings.collect_max_bytes)
        self._unrecorded = False
        self.progress: EpochProgress | None = None
        self.runtime_ms = 0

    def run(self) -> None:
        """Run the attempt to its end.

        Raises:
            MillstreamError: Why it failed; what was staged has been removed.
            JobExecutionError: If it was cancelled.
        """
        try:
            reach("attempt.start", str(self._deployment.attempt))
            self._checkpoints.check_owner()
            self._sinks.commit()  # what a checkpoint holds and the attempt before may not have committed
            self._executor.deploy(self._deployment)
            self._started = self._last_input = self._clock.monotonic()  # slots may have taken long to start
            try:
                while self._control.stopping is None and not self._turn():
                    pass
            except StoppedWithSavepoint:
                log.info("job ends behind its savepoint", extra={"job": self._deployment.job_id})
            self._executor.finish(self._completed_checkpoint)
            self._tell_stopped()
            self.runtime_ms = round((self._clock.monotonic() - self._started) * 1000)
        except BaseException as error:
            self._abort()
            if self._control.cancel.is_set() and (
                isinstance(error, JobInterrupted) or not is_interruption(error)
            ):
                raise self._control.cancelled() from error
            raise
        finally:
            for request in self._control.savepoints:
                request.done.set_exception(JobExecutionError("the job ended before the savepoint was made"))
            self._control.savepoints.clear()
            self._watermarks.close()
            self._sources.close()
            self._sinks.close()

    def _tell_stopped(self) -> None:
        stopping = self._control.stopping
        if stopping is not None and stopping.path is not None and not stopping.done.done():
            stopping.done.set_result(stopping.path)

    def _abort(self) -> None:
        """End the failed attempt; what goes wrong by that is logged: the attempt's own failure is what counts."""
        for undo in (self._executor.abort, self._sinks.abort):
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

    def abandon(self) -> bool:
        """Abort the attempt from another thread, as the process ends and a function does not return.

        Returns:
            Whether that is done: else the thread that calls `run` does it now.
        """
        if not self._executor.abandon():
            return False
        self._sinks.abort()
        return True

    def release(self) -> None:
        """Give back what the executor holds; called once, after `run`."""
        self._executor.release()

    def _turn(self) -> bool:
        """Run an epoch if there is anything to do, else wait; return whether the job has ended."""
        if self._control.cancel.is_set():
            raise self._control.cancelled()
        if self._control.queries:
            answer_queries(self._control.queries, self._deployment.plan.job_graph, self._executor.query)
        self._watermarks.publish()
        now_ms = self._clock.now_ms()
        reach("plan")
        draining = self._draining()
        full = self._results.is_full
        if full and not (draining or self._control.savepoints or self._can_make_room()):
            self._last_input = self._clock.monotonic()  # nothing is read, but the sources are not idle
            self._wait_until(now_ms, [])
            return False
        budgets = self._flow.budgets()
        work = self._sources.plan(dict.fromkeys(budgets) if full else budgets, now_ms=now_ms, drain=draining)
        timer_due = self._next_timer_ms is not None and self._next_timer_ms <= now_ms
        busy = self._flow.is_busy
        last = work.all_finished and not self._going_round and not busy
        # What was done since the last checkpoint waits for the next one, though nothing more may come.
        wanted = bool(self._control.savepoints) or (self._unrecorded and self._checkpoint_due())
        if not (work.has_ranges or work.newly_finished or timer_due or work.all_finished or wanted or busy):
            self._wait(work, now_ms)
            return False
        began = self._clock.monotonic()
        self._has_read = busy
        self._run_epoch(work, now_ms, last=last)
        if not self._have_begun:  # only now sources have begun
            self._have_begun, self._last_input = True, self._clock.monotonic()
        elif self._has_read:
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
        return self._checkpoints.due(early=self._results.is_full and self._results.wait_for_record)

    def _can_make_room(self) -> bool:
        """Return whether an epoch helps, though more results wait than may: a checkpoint is due.

        Results that wait for a checkpoint, which cannot be made in the middle of a record, wait for the record.
        """
        if self._flow.is_suspended:
            return self._results.wait_for_record
        return self._unrecorded and self._checkpoint_due()

    def _wait(self, work: EpochWork, now_ms: int) -> None:
        self._wait_until(now_ms, [work.next_ms, self._next_timer_ms])

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
        request = self._next_savepoint(last=last)
        orders = self._orders(request, last=last)
        completed, self._completed_checkpoint = self._completed_checkpoint, None
        # What goes round must come to its end in the last epoch: the final watermark is behind it.
        limits = () if last and self._iterates else self._flow.limits()
        headers = {
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
        began = self._clock.monotonic()
        try:
            reports = self._executor.run_epoch(headers)
        except BaseException as error:
            if request is not None and not request.done.done():
                request.done.set_exception(_no_savepoint(error))
            raise
        ran_ms = (self._clock.monotonic() - began) * 1000
        reach("epoch.report", str(self._epoch))
        writing_ms = max((report.writing_ms for report in reports), default=0.0)
        self._flow.learn(reports, took_ms=ran_ms - writing_ms, backlogged=work.backlogged)
        last = last and self._flow.has_ended
        self._record(reports)
        self._watermarks.record(reports, now_ms)
        # What goes round in the epoch in which the sources end is known only behind it.
        self._going_round = self._iterates and (not work.all_finished or any(r.going_round for r in reports))
        recorded = self._complete(orders, reports, request, last=last)
        self._unrecorded = not (recorded or self._deployment.batch)
        # Without checkpoints each epoch is its own record. Batch mode has none and gives its results once.
        if recorded or last or not (self._checkpoints.enabled or self._deployment.batch):
            self._results.hand_on()
            reach("seal")
            if not recorded:  # otherwise it was looked at behind the record, by which a successor knows of it
                self._checkpoints.check_owner()
            self._sinks.seal()
            self._sinks.commit()
            reach("commit.done")
            if recorded and self._completed_checkpoint is not None:
                self._sources.checkpoint_completed(self._completed_checkpoint)
            self._checkpoints.tidy()
        if self._control.stopping is not None:
            raise StoppedWithSavepoint

    def _next_savepoint(self, *, last: bool) -> SavepointRequest | None:
        """Return the savepoint to make with this epoch: one that drains waits for the last."""
        requests = self._control.savepoints
        if not requests or (requests[0].drain and not last) or self._flow.is_suspended:
            return None
        return requests.popleft()

    def _orders(self, request: SavepointRequest | None, *, last: bool) -> list[CheckpointOrder]:
        """Begin what is due: a checkpoint, a savepoint, or both.

        A savepoint of a job that goes on comes with a checkpoint. What sinks have staged belongs to both, so no later
        attempt begins before the savepoint and removes what it refers to.
        """
        checkpoints = self._checkpoints
        location = None
        if request is not None:
            try:
                location = checkpoints.savepoint_location(request.directory)
            except ConfigurationError as error:
                request.done.set_exception(error)
                request.stop = False
        stops = request is not None and request.stop and not last
        if self._flow.is_suspended:
            return []  # no slot can write its state in the middle of a record
        # The last epoch is one as well: a failure while its results are committed must not repeat it.
        wanted = last or location is not None or self._checkpoint_due()
        checkpoint = savepoint = None
        if checkpoints.enabled and not self._deployment.batch and wanted and not stops:
            checkpoint = checkpoints.begin()
        if location is not None:
            savepoint = checkpoints.begin_savepoint(location, beside=checkpoint)
        return [order for order in (checkpoint, savepoint) if order is not None]

    def _complete(
        self,
        orders: Sequence[CheckpointOrder],
        reports: Sequence[SlotReport],
        request: SavepointRequest | None,
        *,
        last: bool,
    ) -> bool:
        """Publish what was ordered; return whether it is there and later attempts begin from it.

        Raises:
            CheckpointStorageError: If a checkpoint cannot be written, and more failed than are tolerated, or it is
                the last: what is committed behind it has to be recorded.
        """
        recorded = False
        if self._declined(orders, reports, request, last=last):
            return False
        for position, order in enumerate(orders):
            try:
                manifest = self._publish(order, [report.written[position] for report in reports])
            except (CheckpointStorageError, DriverSupersededError) as error:
                if request is not None and not request.done.done():
                    request.done.set_exception(error)
                    self._checkpoints.give_up(orders[-1])
                if isinstance(error, DriverSupersededError):
                    raise
                if order.is_savepoint:
                    break
                self._checkpoints.failed(order, error)
                if last:
                    raise
                break
            if not order.is_savepoint:
                recorded = True
            elif request is not None:
                request.path = self._checkpoints.path_of(order)
                # A savepoint belongs to the user. If the job goes on, its own checkpoints say what is committed.
                if request.stop:
                    self._end_behind(order, manifest, request)
                    recorded = True
                else:
                    request.done.set_result(request.path)
            if recorded:
                self._completed_checkpoint = manifest.checkpoint_id
        return recorded

    def _declined(
        self,
        orders: Sequence[CheckpointOrder],
        reports: Sequence[SlotReport],
        request: SavepointRequest | None,
        *,
        last: bool,
    ) -> bool:
        """Give up what was ordered if a slot could not write its state now, or a savepoint is to drain and is early.

        It is ordered again as soon as it can be made.
        """
        answers = [each for report in reports for each in report.written]
        declined = next((each for each in answers if isinstance(each, CheckpointDeclined)), None)
        if declined is not None:
            log.info("checkpoint waits for %s, which is in the middle of a record", declined.operator)
        elif request is not None and request.drain and not last:
            log.info("savepoint waits for records that came with the end of the input")
        else:
            return False
        self._checkpoints.learn([each for each in answers if isinstance(each, WrittenState)])
        for position, order in enumerate(orders):
            if order.is_savepoint:
                self._checkpoints.give_up(order)
                continue
            outcomes = [report.written[position] for report in reports]
            self._checkpoints.discard(
                order, [each.file for each in outcomes if isinstance(each, WrittenState)]
            )
            self._checkpoints.declined(order)
        if request is not None and not request.done.done():
            self._control.savepoints.appendleft(request)
        return True

    def _end_behind(self, savepoint: CheckpointOrder, manifest: Manifest, request: SavepointRequest) -> None:
        """Have this attempt, and any that has to follow, only commit what a savepoint holds."""
        try:
            self._checkpoints.end_behind(savepoint, manifest)
        except (CheckpointStorageError, DriverSupersededError) as error:
            request.done.set_exception(error)
            raise
        self._control.stopping = request

    def _publish(
        self,
        order: CheckpointOrder,
        outcomes: Sequence[WrittenState | CheckpointStorageError | CheckpointDeclined],
    ) -> Manifest:
        written = [each for each in outcomes if isinstance(each, WrittenState)]
        self._checkpoints.learn(written)
        for each in outcomes:
            if isinstance(each, CheckpointStorageError):
                self._checkpoints.discard(order, [state.file for state in written])
                raise each
        return self._checkpoints.complete(
            order,
            epoch=self._epoch,
            written=written,
            driver_states={**self._sources.positions(), **self._sinks.pending()},
            offer=self._sinks.offer,
        )

    def _record(self, reports: Sequence[SlotReport]) -> None:
        for report in sorted(reports, key=lambda report: report.slot):
            self._output.logs(report.logs)
            for node_id, operator in report.operators:
                self._record_operator(node_id, operator)
                if operator.ranges_left_early:
                    self._has_read = True
                    self._sources.left_early(node_id, report.slot)
                self.metrics.record(node_id, report.slot, operator)
                self.accumulators.record(node_id, report.slot, self._names[node_id], operator)
        timers = [report.next_timer_ms for report in reports if report.next_timer_ms is not None]
        self._next_timer_ms = min(timers, default=None)
        marks = [report.watermark_ms for report in reports if report.watermark_ms is not None]
        self._totals.watermark_ms = min(marks, default=self._totals.watermark_ms)

    def _record_operator(self, node_id: int, report: OperatorReport) -> None:
        totals = self._totals
        if report.range_ends:
            self._sources.advance(node_id, report.range_ends)
            totals.records_in += sum(end.records for end in report.range_ends)
            # A source function is asked again and again; it has no position, so it shows whether there was anything.
            if any(end.records or end.finished or end.position is not None for end in report.range_ends):
                self._has_read = True
        if report.max_timestamp_ms is not None:
            totals.event_time_ms = max(
                totals.event_time_ms or report.max_timestamp_ms, report.max_timestamp_ms
            )
        if report.committables:
            self._sinks.stage(node_id, report.committables)
        if report.lines:
            self._output.lines(report.lines, stderr=report.stderr)
        if report.collected:
            self._results.add(node_id, report.collected)
        for name, count in report.counters.items():
            key = (self._names[node_id], name)
            totals.counters[key] = totals.counters.get(key, 0) + count

    def _tell_progress(self, epoch_s: float) -> None:
        totals = self._totals
        self.progress = EpochProgress(
            epoch=self._epoch,
            records_in=totals.records_in,
            event_time_ms=totals.event_time_ms,
            watermark_ms=totals.watermark_ms,
            elapsed_s=self._clock.monotonic() - self._started,
            epoch_s=epoch_s,
            counters=dict(totals.counters),
        )
        if self._on_progress is not None:
            self._on_progress(self.progress)


def _no_savepoint(error: BaseException) -> JobExecutionError:
    return JobExecutionError(
        "a savepoint was not made: the attempt of the job failed meanwhile",
        detail=describe_briefly(error),
        hint="Ask for it again if the job goes on.",
    )


@dataclass(slots=True)
class _Totals:
    records_in: int = 0
    event_time_ms: int | None = None
    watermark_ms: int | None = None
    counters: dict[tuple[str, str], int] = field(default_factory=dict)
