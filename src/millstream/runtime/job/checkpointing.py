"""The checkpoints and savepoints of one attempt: what is ordered with an epoch, and what becomes of it.

::

    due, or asked for ─► orders (with the epoch) ─► complete ─► recorded: sinks may commit
                                      │                 ├─ failed: tolerated, or the attempt fails
                                      │                 └─ postponed: a slot is in the middle of a record
                                      └─ the epoch fails, and with it whoever waits for the savepoint
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from millstream.base.clock import Clock
from millstream.base.errors import (
    CheckpointStorageError,
    ConfigurationError,
    DriverSupersededError,
    JobExecutionError,
)
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.manifest import Manifest
from millstream.runtime.control.events import (
    CheckpointCompleted,
    CheckpointFailed,
    CheckpointPostponed,
    CheckpointTriggered,
)
from millstream.runtime.control.views import CheckpointSizes, SlotCheckpointView
from millstream.runtime.job.observer import JobObserver
from millstream.runtime.job.sinks import SinkCoordinator
from millstream.runtime.job.sources import SourceCoordinator
from millstream.runtime.job.steering import JobControl, SavepointRequest
from millstream.runtime.protocol.orders import CheckpointDeclined, CheckpointOrder, WrittenState
from millstream.runtime.protocol.report import SlotReport
from millstream.runtime.recovery.failures import describe_briefly

__all__ = ["EpochCheckpoints"]

log = logging.getLogger(__name__)


class EpochCheckpoints:
    """Orders and completes; the job master's thread calls it: `begin`, then `complete` or `epoch_failed`.

    Args:
        coordinator: Of the job, over all its attempts.
        control: What is asked for.
        sources: Whose positions belong to a checkpoint.
        sinks: Whose committables do.
        observer: Told of what happens.
        clock: Time.
        slots: How many slots write.
        batch: Whether the job runs in batch mode, where there are savepoints at most.

    Attributes:
        completed: A checkpoint that has been completed since functions were told of one; None if there is none.
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        control: JobControl,
        *,
        sources: SourceCoordinator,
        sinks: SinkCoordinator,
        observer: JobObserver,
        clock: Clock,
        slots: int,
        batch: bool,
    ) -> None:
        self._coordinator = coordinator
        self._control = control
        self._sources = sources
        self._sinks = sinks
        self._observer = observer
        self._clock = clock
        self._slots = slots
        self._batch = batch
        self._request: SavepointRequest | None = None
        self.completed: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody has asked for one."""
        return bool(self._control.savepoints or self._control.checkpoints)

    def take_completed(self) -> int | None:
        """Return the checkpoint that functions are to be told of, once; None if there is none."""
        completed, self.completed = self.completed, None
        return completed

    def begin(self, epoch: int, *, due: bool, last: bool, held: bool) -> list[CheckpointOrder]:
        """Begin what is due with an epoch: a checkpoint, a savepoint, or both.

        A savepoint of a job that goes on comes with a checkpoint. What sinks have staged belongs to both, so no later
        attempt begins before the savepoint and removes what it refers to.

        Args:
            epoch: The epoch's number.
            due: Whether it is time for a checkpoint.
            last: Whether the epoch is the last.
            held: Whether none is begun now: a slot is in the middle of a record, and cannot write its state, or sinks
                are committing what the last one holds.
        """
        coordinator, request = self._coordinator, self._next_savepoint(last=last, held=held)
        self._request = request
        location = None
        if request is not None:
            try:
                location = coordinator.savepoint_location(request.directory)
            except ConfigurationError as error:
                request.done.set_exception(error)
                request.stop = False
        stops = request is not None and request.stop and not last
        if held:
            return []
        # The last epoch is one as well: a failure while its results are committed must not repeat it.
        wanted = last or location is not None or due or bool(self._control.checkpoints)
        orders = []
        if coordinator.enabled and not self._batch and wanted and not stops:
            orders.append(coordinator.begin())
        if location is not None:
            orders.append(coordinator.begin_savepoint(location, beside=orders[0] if orders else None))
        now_ms = self._clock.now_ms()
        for order in orders:
            stopping = order.is_savepoint and stops
            self._observer.tell(
                CheckpointTriggered(
                    order.checkpoint_id, order.is_savepoint, stopping, epoch, now_ms, self._slots
                )
            )
        return orders

    def _next_savepoint(self, *, last: bool, held: bool) -> SavepointRequest | None:
        """Return the savepoint to make with this epoch: one that drains waits for the last."""
        requests = self._control.savepoints
        if not requests or (requests[0].drain and not last) or held:
            return None
        return requests.popleft()

    def epoch_failed(self, error: BaseException) -> None:
        """Tell who waits for the savepoint of the epoch that there is none."""
        request = self._request
        if request is not None and not request.done.done():
            request.done.set_exception(
                JobExecutionError(
                    "a savepoint was not made: the attempt of the job failed meanwhile",
                    detail=describe_briefly(error),
                    hint="Ask for it again if the job goes on.",
                )
            )

    def complete(
        self, orders: Sequence[CheckpointOrder], reports: Sequence[SlotReport], *, epoch: int, last: bool
    ) -> bool:
        """Publish what was ordered; return whether it is there and later attempts begin from it.

        Raises:
            CheckpointStorageError: If a checkpoint cannot be written, and more failed than are tolerated, or it is
                the last: what is committed behind it has to be recorded.
        """
        request = self._request
        recorded = False
        if self._declined(orders, reports, last=last):
            return False
        for position, order in enumerate(orders):
            try:
                manifest = self._publish(order, position, reports, epoch=epoch)
            except (CheckpointStorageError, DriverSupersededError) as error:
                self._give_up(order, orders, error)
                if isinstance(error, DriverSupersededError):
                    raise
                if not order.is_savepoint:
                    self._answer(None, error)
                    self._coordinator.failed(order, error)
                    if last:
                        raise
                break
            if not order.is_savepoint:
                recorded = True
                self._answer(self._coordinator.path_of(order), None)
            elif request is not None:
                request.path = self._coordinator.path_of(order)
                # A savepoint belongs to the user. If the job goes on, its own checkpoints say what is committed.
                if request.stop:
                    self._end_behind(order, manifest, request)
                    recorded = True
                else:
                    request.done.set_result(request.path)
            if recorded:
                self.completed = manifest.checkpoint_id
        return recorded

    def _give_up(
        self,
        order: CheckpointOrder,
        orders: Sequence[CheckpointOrder],
        error: CheckpointStorageError | DriverSupersededError,
    ) -> None:
        """Take note of an order that failed; a savepoint beside a checkpoint that did is given up with it."""
        self._tell_failed(order, error)
        request = self._request
        if request is None or request.done.done():
            return
        request.done.set_exception(error)
        savepoint = orders[-1]
        if savepoint is not order:
            self._tell_failed(savepoint, error)
        self._coordinator.give_up(savepoint)

    def _answer(self, path: str | None, error: CheckpointStorageError | None) -> None:
        """Answer all who have asked for a checkpoint."""
        requests = self._control.checkpoints
        while requests:
            request = requests.popleft()
            if request.done.set_running_or_notify_cancel():
                if error is not None:
                    request.done.set_exception(error)
                elif path is not None:
                    request.done.set_result(path)

    def _declined(
        self, orders: Sequence[CheckpointOrder], reports: Sequence[SlotReport], *, last: bool
    ) -> bool:
        """Give up what was ordered if a slot could not write its state now, or a savepoint is to drain and is early.

        It is ordered again as soon as it can be made.
        """
        request = self._request
        answers = [each for report in reports for each in report.written]
        declined = next((each for each in answers if isinstance(each, CheckpointDeclined)), None)
        if declined is not None:
            log.info("checkpoint waits for %s, which is in the middle of a record", declined.operator)
        elif request is not None and request.drain and not last:
            log.info("savepoint waits for records that came with the end of the input")
        else:
            return False
        coordinator = self._coordinator
        coordinator.learn([each for each in answers if isinstance(each, WrittenState)])
        for position, order in enumerate(orders):
            self._observer.tell(CheckpointPostponed(order.checkpoint_id, order.is_savepoint))
            if order.is_savepoint:
                coordinator.give_up(order)
                continue
            outcomes = [report.written[position] for report in reports]
            coordinator.discard(order, [each.file for each in outcomes if isinstance(each, WrittenState)])
            coordinator.declined(order)
        if request is not None and not request.done.done():
            self._control.savepoints.appendleft(request)
        return True

    def _end_behind(self, savepoint: CheckpointOrder, manifest: Manifest, request: SavepointRequest) -> None:
        """Have this attempt, and any that has to follow, only commit what a savepoint holds."""
        try:
            self._coordinator.end_behind(savepoint, manifest)
        except (CheckpointStorageError, DriverSupersededError) as error:
            request.done.set_exception(error)
            raise
        self._control.stopping = request

    def _publish(
        self, order: CheckpointOrder, position: int, reports: Sequence[SlotReport], *, epoch: int
    ) -> Manifest:
        outcomes = [report.written[position] for report in reports]
        written = [each for each in outcomes if isinstance(each, WrittenState)]
        self._coordinator.learn(written)
        for each in outcomes:
            if isinstance(each, CheckpointStorageError):
                self._coordinator.discard(order, [state.file for state in written])
                raise each
        manifest = self._coordinator.complete(
            order,
            epoch=epoch,
            written=written,
            driver_states={**self._sources.positions(), **self._sinks.pending()},
            offer=self._sinks.offer,
        )
        self._tell_completed(order, manifest, written, reports)
        return manifest

    def _tell_completed(
        self,
        order: CheckpointOrder,
        manifest: Manifest,
        written: Sequence[WrittenState],
        reports: Sequence[SlotReport],
    ) -> None:
        writing_ms = {report.slot: round(report.writing_ms) for report in reports}
        drivers = [(each.operator_id, each.driver) for each in manifest.operators if each.driver is not None]
        operators = tuple(CheckpointSizes(operator_id, file.size) for operator_id, file in drivers)
        slots = tuple(
            SlotCheckpointView(each.slot, each.file.size, each.is_delta, writing_ms[each.slot])
            for each in sorted(written, key=lambda each: each.slot)
        )
        self._observer.tell(
            CheckpointCompleted(
                checkpoint_id=order.checkpoint_id,
                is_savepoint=order.is_savepoint,
                at_ms=self._clock.now_ms(),
                checkpointed_size=sum(each.size for each in slots) + sum(each.size for each in operators),
                state_size=manifest.size(),
                path=self._coordinator.path_of(order),
                slots=slots,
                operators=operators,
            )
        )

    def _tell_failed(self, order: CheckpointOrder, error: BaseException) -> None:
        reason = describe_briefly(error)
        self._observer.tell(
            CheckpointFailed(order.checkpoint_id, order.is_savepoint, self._clock.now_ms(), reason)
        )
