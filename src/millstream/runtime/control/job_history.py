"""What has become of a job over all its attempts: a pure machine, fed with events, asked for views.

::

    supervisor     status changed, attempt began, restored, failed ─┐
    job master     slots deployed, epoch ended                      ├─► JobHistory ─► views
    checkpointing  triggered, completed, failed, postponed         ─┘

Nothing is kept of a record, and little of an epoch: a job may run for months.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from millstream.runtime.control.checkpoint_history import CheckpointHistory
from millstream.runtime.control.events import (
    AttemptBegan,
    AttemptFailed,
    JobEvent,
    SlotsDeployed,
    StatusChanged,
)
from millstream.runtime.control.views import (
    CheckpointConfigView,
    CheckpointsView,
    EpochsView,
    EpochView,
    ExceptionsView,
    FailureView,
    PlanView,
    SlotView,
    StatusChange,
)

__all__ = ["ENDS", "HistorySizes", "JobHistory"]

ENDS = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})
"""Job statuses that nothing follows."""

_TASK_STATUS = {
    "CREATED": "CREATED",
    "RESTARTING": "CANCELED",
    "FAILING": "FAILED",
    "FAILED": "FAILED",
    "CANCELLING": "CANCELING",
    "CANCELED": "CANCELED",
    "SUSPENDED": "CANCELED",
    "FINISHED": "FINISHED",
}


@dataclass(frozen=True, slots=True)
class HistorySizes:
    """How much is kept.

    Attributes:
        checkpoints: Ended checkpoints.
        failures: Failures.
        epochs: Epochs.
        changes: Changes of the status.
    """

    checkpoints: int = 10
    failures: int = 16
    epochs: int = 300
    changes: int = 100


class JobHistory:
    """Takes events, gives views; one thread at a time.

    Args:
        plan: The job's graph.
        config: What the options say of checkpoints.
        sizes: How much is kept.

    Attributes:
        status: The job's status.
        attempt: The number of the attempt.
        restarts: How often the job was started again.
        started_ms: When it was submitted; None before the first event.
        ended_ms: When it ended; None while it runs.
        timestamps: When each status began last.
        attempt_began_ms: When the attempt began.
        deployed_ms: When the attempt's slots lived; None before.
        slots: Where they live.
        checkpoints: All of checkpoints.
        last_epoch: The last epoch of the attempt; None before the first.
        epochs: How many there were, over all attempts.
        records_read: Records that sources have read, over all attempts.
    """

    def __init__(
        self, plan: PlanView, config: CheckpointConfigView, sizes: HistorySizes = HistorySizes()
    ) -> None:
        self._plan = plan
        self.status = "INITIALIZING"
        self.attempt = 0
        self.restarts = 0
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.timestamps: dict[str, int] = {}
        self.attempt_began_ms: int | None = None
        self.deployed_ms: int | None = None
        self.attempt_ended_ms: int | None = None
        self.slots: tuple[SlotView, ...] = ()
        self.checkpoints = CheckpointHistory(config, size=sizes.checkpoints)
        self.last_epoch: EpochView | None = None
        self.epochs = self.records_read = 0
        self._changes: deque[StatusChange] = deque(maxlen=sizes.changes)
        self._failures: deque[FailureView] = deque(maxlen=sizes.failures)
        self._failure_count = 0
        self._timeline: deque[EpochView] = deque(maxlen=sizes.epochs)
        self._spent_ms: dict[str, int] = {}

    def handle(self, event: JobEvent) -> None:
        """Take note of what happened."""
        match event:
            case EpochView():  # the one that comes often
                self.epochs += 1
                self.records_read += event.records
                self.last_epoch = event
                self._timeline.append(event)
            case StatusChanged():
                self._change(event)
            case AttemptBegan():
                self.attempt, self.attempt_began_ms = event.attempt, event.at_ms
                self.deployed_ms = self.attempt_ended_ms = self.last_epoch = None
                self.slots = ()
            case SlotsDeployed():
                self.slots, self.deployed_ms = event.slots, event.at_ms
            case AttemptFailed():
                self._fail(event)
            case _:
                self.checkpoints.handle(event)

    def use(self, plan: PlanView) -> None:
        """Learn that the attempts from now on have another plan, as the job was rescaled."""
        self._plan = plan

    def checkpoints_view(self) -> CheckpointsView:
        """Return what is known of checkpoints."""
        return self.checkpoints.view()

    def exceptions_view(self) -> ExceptionsView:
        """Return the last failures."""
        return ExceptionsView(tuple(reversed(self._failures)), self._failure_count)

    def epochs_view(self) -> EpochsView:
        """Return the last epochs."""
        return EpochsView(tuple(self._timeline), self.epochs)

    @property
    def changes(self) -> tuple[StatusChange, ...]:
        """The last changes of the status, the oldest first."""
        return tuple(self._changes)

    @property
    def failure(self) -> str | None:
        """The last failure in one line; None if there was none."""
        return self._failures[-1].failure.message if self._failures else None

    @property
    def task_status(self) -> str:
        """Flink's execution state of the attempt's subtasks: all of them begin and end together."""
        if self.status == "RUNNING":
            return "DEPLOYING" if self.deployed_ms is None else "RUNNING"
        return _TASK_STATUS.get(self.status, "CREATED")

    def time_in(self, status: str, now_ms: int) -> int:
        """Return for how long the job has had a status by now, milliseconds; 0 if it has another."""
        since_ms = self.timestamps.get(status)
        return max(now_ms - since_ms, 0) if status == self.status and since_ms is not None else 0

    def total_time_in(self, status: str, now_ms: int) -> int:
        """Return for how long the job had a status in all, milliseconds."""
        return self._spent_ms.get(status, 0) + self.time_in(status, now_ms)

    def _change(self, event: StatusChanged) -> None:
        if self.started_ms is None:
            self.started_ms = event.at_ms
        self._spent_ms[self.status] = self.total_time_in(self.status, event.at_ms)
        self.status = event.status
        self.timestamps[event.status] = event.at_ms
        self._changes.append(StatusChange(event.status, event.at_ms))
        self.restarts += event.status == "RESTARTING"
        if event.status != "RUNNING" and self.attempt_ended_ms is None:
            self.attempt_ended_ms = event.at_ms if self.attempt_began_ms is not None else None
        if event.status in ENDS:
            self.ended_ms = event.at_ms
            self.checkpoints.fail_all(event.at_ms, f"the job has ended: {event.status}")

    def _fail(self, event: AttemptFailed) -> None:
        failure = event.failure
        self._failure_count += 1
        vertex = next(
            (
                vertex
                for vertex in self._plan.vertices
                if any(each.name == failure.operator for each in vertex.operators)
            ),
            None,
        )
        host = next((slot.host for slot in self.slots if slot.slot == failure.subtask), None)
        self._failures.append(
            FailureView(
                failure,
                vertex_id=None if vertex is None else vertex.vertex_id,
                vertex_name=None if vertex is None else vertex.name,
                host=host,
            )
        )
        self.checkpoints.fail_all(failure.timestamp_ms, f"the attempt failed: {failure.message}")
