"""What is seen of a job that this process drives: told by the parts of the driver, asked by everybody else.

::

    supervisor, job master, checkpointing ── events ──► JobHistory ┐
    slots' reports ─────────────────────────────────► JobMetrics   ├──► views, on the asker's thread
    watermark watch ── a snapshot each second ──────────────────── ┘

The driver's thread only takes notes: nothing is put together that nobody asks for, and an asker holds a lock for no
longer than it takes to copy references.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from millstream.base.clock import Clock
from millstream.base.errors import MillstreamError, shorten
from millstream.base.time import MIN_TIMESTAMP
from millstream.graph.epoch_plan import EpochPlan
from millstream.runtime.control.codec import to_plain, view_name
from millstream.runtime.control.events import JobEvent
from millstream.runtime.control.job_history import HistorySizes, JobHistory
from millstream.runtime.control.job_metrics import job_metrics, pending_metrics, source_lags
from millstream.runtime.control.plan import describe_plan
from millstream.runtime.control.status_files import StatusFile
from millstream.runtime.control.threads import describe_threads
from millstream.runtime.control.views import (
    AccumulatorsView,
    AccumulatorView,
    CheckpointConfigView,
    CheckpointsView,
    ConfigView,
    EpochsView,
    ExceptionsView,
    JobView,
    MetricsView,
    SubtaskAccumulatorsView,
    SubtaskView,
    ThreadsView,
    VertexPlan,
    VertexView,
    WatermarksView,
)
from millstream.runtime.job.accumulators import JobAccumulators
from millstream.runtime.job.metrics import JobMetrics, SubtaskFigures
from millstream.spi.source import Pending

__all__ = ["JobObserver"]

V = TypeVar("V")


class JobObserver:
    """Takes notes of one job over all its attempts, and shows it; `view` may be called on any thread.

    Args:
        plan: What runs.
        job_id: Of the job.
        name: Of the job.
        batch: Whether it runs in batch mode.
        clock: Time.
        checkpoints: What the options say of checkpoints.
        sizes: How much is kept.
        configuration: Gives what the options say of all else; called when somebody asks.
        status_file: Where other processes read of watermarks; None for nowhere.

    Attributes:
        metrics: What is measured, over all attempts.
        accumulators: What functions of the attempt have accumulated.
    """

    def __init__(
        self,
        plan: EpochPlan,
        *,
        job_id: str,
        name: str,
        batch: bool,
        clock: Clock,
        checkpoints: CheckpointConfigView | None = None,
        sizes: HistorySizes | None = None,
        configuration: Callable[[], ConfigView] = ConfigView,
        status_file: StatusFile | None = None,
    ) -> None:
        self.job_id = job_id
        self.name = name
        self._batch = batch
        self._clock = clock
        self._plan = describe_plan(plan)
        self._configuration = configuration
        self._status_file = status_file
        self._lock = threading.Lock()
        self._history = JobHistory(self._plan, checkpoints or CheckpointConfigView(), sizes or HistorySizes())
        self.metrics = JobMetrics(name, self._plan, clock)
        self.accumulators = JobAccumulators()
        self._watermarks = WatermarksView(
            job_id, name, clock.now_ms(), clock.now_ms(), batch, 0, MIN_TIMESTAMP
        )
        self._pending: Mapping[int, Pending] = {}
        self._views: dict[type[Any], Callable[[], Any]] = {
            JobView: self._job,
            CheckpointsView: lambda: self._under_lock(self._history.checkpoints_view),
            ExceptionsView: lambda: self._under_lock(self._history.exceptions_view),
            EpochsView: lambda: self._under_lock(self._history.epochs_view),
            WatermarksView: lambda: self._watermarks,
            MetricsView: self._metrics,
            AccumulatorsView: self._accumulators,
            ConfigView: self._configuration,
            ThreadsView: describe_threads,
        }

    # The driver's side

    def tell(self, event: JobEvent) -> None:
        """Take note of what happened; any thread of the driver."""
        with self._lock:
            self._history.handle(event)

    def use(self, plan: EpochPlan) -> None:
        """Learn that the attempts from now on have another plan, as the job was rescaled."""
        described = describe_plan(plan)
        self.metrics.use(described)
        with self._lock:
            self._plan = described
            self._history.use(described)

    def begin_attempt(self) -> None:
        """Learn that functions, what they count and what they accumulate begin anew."""
        self.metrics.begin_attempt()
        self.accumulators = JobAccumulators()

    def publish_watermarks(self, view: WatermarksView) -> None:
        """Take note of how far event time is; called about once a second."""
        self._watermarks = view
        self.metrics.tick()
        if self._status_file is not None:
            self._status_file.write(to_plain(view))

    def publish_pending(self, pending: Mapping[int, Pending]) -> None:
        """Take note of what waits to be read outside, by node id; called about once a second."""
        self._pending = pending

    def end_attempt(self, view: WatermarksView) -> None:
        """Take note of how far event time was; other processes read of it no more."""
        self._watermarks = view
        if self._status_file is not None:
            self._status_file.remove()

    # The readers' side

    @property
    def status(self) -> str:
        """The job's status."""
        return self._history.status

    def view(self, kind: type[V]) -> V:
        """Return a view of the job as it is now.

        Raises:
            JobRequestError: If there is no such view.
        """
        view_name(kind)
        view: V = self._views[kind]()
        return view

    def _under_lock(self, ask: Callable[[], V]) -> V:
        with self._lock:
            return ask()

    def _job(self) -> JobView:
        figures = self.metrics.by_subtask()
        now_ms = self._clock.now_ms()
        with self._lock:
            history, plan = self._history, self._plan
            epoch = history.last_epoch
            task = SubtaskView(
                0,
                history.task_status,
                history.attempt,
                started_ms=history.attempt_began_ms,
                ended_ms=history.attempt_ended_ms,
            )
            return JobView(
                job_id=self.job_id,
                name=self.name,
                job_type="BATCH" if self._batch else "STREAMING",
                status=history.status,
                seen_ms=now_ms,
                started_ms=history.started_ms or now_ms,
                ended_ms=history.ended_ms,
                timestamps=dict(history.timestamps),
                changes=history.changes,
                attempt=history.attempt,
                restarts=history.restarts,
                parallelism=plan.slots,
                max_parallelism=max((each.max_parallelism for each in plan.vertices), default=0),
                epoch=0 if epoch is None else epoch.epoch,
                epochs=history.epochs,
                records_read=history.records_read,
                watermark_ms=None if epoch is None else epoch.watermark_ms,
                stoppable=not self._batch,
                failure=history.failure,
                pid=os.getpid(),
                host=socket.gethostname(),
                plan=plan,
                vertices=tuple(_vertex(each, task, figures) for each in plan.vertices),
                slots=history.slots,
            )

    def _metrics(self) -> MetricsView:
        now_ms = self._clock.now_ms()
        of_subtasks = self.metrics.views()
        with self._lock:
            of_job = job_metrics(self._history, now_ms)
            hosts = tuple(slot.host for slot in self._history.slots)
            attempt = self._history.attempt
        lags = source_lags(self._watermarks, self._plan, now_ms)
        found = (*of_job, *of_subtasks, *lags, *pending_metrics(self._pending, self._plan))
        return MetricsView(self.job_id, self.name, now_ms, found, attempt, hosts)

    def _accumulators(self) -> AccumulatorsView:
        plan = self._plan
        vertex_of = {each.node_id: vertex.vertex_id for vertex in plan.vertices for each in vertex.operators}
        try:
            results = self.accumulators.results()
            of_vertices = self.accumulators.results_by(lambda node_id, subtask: vertex_of[node_id])
            of_subtasks = self.accumulators.results_by(lambda node_id, subtask: (vertex_of[node_id], subtask))
        except MillstreamError as error:
            return AccumulatorsView((AccumulatorView("", type(error).__name__, error.message),))
        return AccumulatorsView(
            _accumulator_views(results),
            {vertex_id: _accumulator_views(found) for vertex_id, found in sorted(of_vertices.items())},
            tuple(
                SubtaskAccumulatorsView(vertex_id, subtask, _accumulator_views(found))
                for (vertex_id, subtask), found in sorted(of_subtasks.items())
            ),
        )


def _accumulator_views(results: Mapping[str, Any]) -> tuple[AccumulatorView, ...]:
    return tuple(
        AccumulatorView(name, type(result).__name__, shorten(result))
        for name, result in sorted(results.items())
    )


def _vertex(
    plan: VertexPlan, task: SubtaskView, figures: dict[tuple[str, int], SubtaskFigures]
) -> VertexView:
    subtasks = []
    for subtask in range(plan.parallelism):
        seen = figures.get((plan.vertex_id, subtask)) or SubtaskFigures()  # if it is rescaled just now
        subtasks.append(
            replace(
                task,
                subtask=subtask,
                records_in=seen.records_in,
                records_out=seen.records_out,
                bytes_in=seen.bytes_in,
                bytes_out=seen.bytes_out,
                busy_ms_per_second=seen.busy,
                idle_ms_per_second=seen.idle,
                back_pressured_ms_per_second=seen.back_pressured,
                held_records=seen.held,
                input_watermark_ms=seen.watermark_ms,
            )
        )
    return VertexView(plan.vertex_id, plan.name, task.status, tuple(subtasks))
