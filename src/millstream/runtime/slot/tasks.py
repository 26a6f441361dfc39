"""The subtasks of one slot and the blocks that wait in it; the slot's one thread calls it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from millstream.base.clock import Clock, SystemClock
from millstream.base.crash_points import reach
from millstream.base.errors import CheckpointStorageError, StateAccessError
from millstream.base.ids import new_id
from millstream.base.time import MIN_TIMESTAMP
from millstream.files.stores import open_store
from millstream.operators.base import EpochTime, OperatorReport
from millstream.operators.iteration import IterationHead, IterationTail
from millstream.runtime.checkpoint.deadline import within
from millstream.runtime.checkpoint.state_file import StateFileWriter
from millstream.runtime.protocol.blocks import Block
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.orders import CheckpointDeclined, CheckpointOrder, Compacted, WrittenState
from millstream.runtime.protocol.questions import AnyQuestion
from millstream.runtime.protocol.report import Backlog, EpochHeader, SlotReport
from millstream.runtime.slot.compactor import Compactor, ProcessCompactor
from millstream.runtime.slot.state_query import answer_question
from millstream.runtime.task.checkpoint import Changes, SavedState
from millstream.runtime.task.closing import call_all
from millstream.runtime.task.subtask import Subtask

__all__ = ["SlotTasks"]


class SlotTasks:
    """Subtask `slot` of every vertex, by level.

    Args:
        deployment: The attempt.
        slot: The slot's index.
        is_cancelled: Tells whether the job is being cancelled; None if nobody would say so.
        clock: Gives up what takes too long.
        compactor: Merges state files.
    """

    def __init__(
        self,
        deployment: Deployment,
        slot: int,
        is_cancelled: Callable[[], bool] | None = None,
        *,
        clock: Clock | None = None,
        compactor: Compactor | None = None,
    ) -> None:
        self.slot = slot
        self._clock: Clock = clock or SystemClock()
        self._compactor: Compactor = compactor or ProcessCompactor()
        self._compacted: Compacted | None = None
        self._time = EpochTime(deployment.now_ms)
        if is_cancelled is not None:
            self._time.is_cancelled = is_cancelled
        self._restore = deployment.restore
        self._changes = Changes()
        job_graph = deployment.plan.job_graph
        self._levels = [
            [
                Subtask(deployment, vertex, slot, self._time, self._clock)
                for vertex_id in level
                if slot < (vertex := job_graph.vertex(vertex_id)).parallelism
            ]
            for level in deployment.plan.levels
        ]
        self._loops = self._find_loops()
        self._target_vertex = {edge.id: edge.target_vertex for edge in job_graph.edges}
        self._inbox: dict[int, list[Block]] = defaultdict(list)
        self._regions = [
            [subtask for subtask in self._subtasks() if subtask.vertex.id in region]
            for region in deployment.plan.regions
        ]
        self._region_of = {vertex.id: deployment.plan.region_of(vertex.id) for vertex in job_graph.vertices}
        self._busy_s = [0.0] * len(self._regions)
        self._levels_ms: list[float] = []
        self._reports: list[tuple[int, OperatorReport]] = []

    def _find_loops(self) -> list[tuple[IterationTail, IterationHead]]:
        """Return the ends of the iterations that run in this slot."""
        operators = {
            node.id: (node.spec, operator)
            for level in self._levels
            for subtask in level
            for node, operator in subtask.operators
        }
        loops = []
        for spec, tail in operators.values():
            if spec.feeds is not None:
                _, head = operators[spec.feeds]
                assert isinstance(tail, IterationTail)
                assert isinstance(head, IterationHead)
                loops.append((tail, head))
        return loops

    @property
    def level_count(self) -> int:
        """How many levels an epoch has."""
        return len(self._levels)

    def name_of(self, node_id: int) -> str:
        """Return the name of one of the slot's operators."""
        return next(
            node.name for subtask in self._subtasks() for node, _ in subtask.operators if node.id == node_id
        )

    def open(self) -> None:
        """Restore every subtask's state, if there is any, then open them, the last level first.

        Raises:
            MillstreamError: If the state is damaged or does not fit, or a user's `open` raised.
        """
        if self._restore is not None:
            saved = SavedState(self._restore)
            for subtask in self._subtasks():
                subtask.restore(saved)
        for level in reversed(self._levels):
            for subtask in level:
                subtask.open()

    def run_level(self, header: EpochHeader, level: int, blocks: list[Block]) -> list[Block]:
        """Run one level of an epoch.

        Args:
            header: The epoch.
            level: The level, from 0; levels come in order.
            blocks: What other slots sent to this one on the level before, for this or a later level.

        Returns:
            Blocks for other slots; those for this slot wait in it.

        Raises:
            MillstreamError: What a subtask raised.
        """
        if level == 0:
            self._time.now_ms = header.now_ms
            self._time.final = header.end_of_input
            self._reports = []
            self._busy_s = [0.0] * len(self._regions)
            self._levels_ms = []
        self._deliver(blocks)
        leaving: list[Block] = []
        level_s = 0.0
        for subtask in self._levels[level]:
            reach("level", subtask.vertex.name)
            began, region = self._clock.monotonic(), self._region_of[subtask.vertex.id]
            subtask.run(header, self._inbox.pop(subtask.vertex.id, []), header.limits_of(region))
            sent, reports = subtask.end_epoch(header)
            took_s = self._clock.monotonic() - began
            self._busy_s[region] += took_s
            level_s += took_s
            self._reports += reports
            leaving += [block for block in sent if block.target != self.slot]
            self._deliver([block for block in sent if block.target == self.slot])
        self._levels_ms.append(level_s * 1000)
        return leaving

    def report(self, header: EpochHeader) -> SlotReport:
        """Return the epoch's report; called once, after the last level."""
        subtasks = self._subtasks()
        marks = [mark for subtask in subtasks if (mark := subtask.watermark_ms) != MIN_TIMESTAMP]
        going_round = [head.accept(tail.take()) for tail, head in self._loops]
        timers = [subtask.next_processing_time() for subtask in subtasks]
        began = self._clock.monotonic()
        written = tuple(self._write_state(order) for order in header.orders)
        writing_ms = (self._clock.monotonic() - began) * 1000
        reach("report")
        return SlotReport(
            slot=self.slot,
            epoch=header.epoch,
            operators=[(node, report) for node, report in self._reports if report != _EMPTY],
            watermark_ms=min(marks, default=None),
            next_timer_ms=min((time for time in timers if time is not None), default=None),
            going_round=any(going_round),
            event_timers=any(subtask.has_event_timers for subtask in subtasks),
            written=written,
            backlogs=tuple(map(_backlog, self._regions, self._busy_s)),
            writing_ms=writing_ms,
            levels_ms=tuple(self._levels_ms),
        )

    def query(self, question: AnyQuestion) -> bytes:
        """Return the pickled answer to a question about keyed state as of the last epoch.

        Raises:
            StateAccessError: If there is no such state.
        """
        for subtask in self._subtasks():
            for node, operator in subtask.operators:
                if node.id == question.node_id and operator.context.keyed_state is not None:
                    return answer_question(operator.context.keyed_state, question)
        raise StateAccessError(f"slot {self.slot} has no keyed operator {question.node_id}")

    def _write_state(
        self, order: CheckpointOrder
    ) -> WrittenState | CheckpointStorageError | CheckpointDeclined:
        """Write the state of all operators; storage that fails fails the checkpoint, not the attempt.

        What stores gave for a file that is not there is not lost: the driver asks for everything then.
        """
        suspended = _suspended(self._subtasks())
        if suspended is not None:
            return CheckpointDeclined(self.slot, suspended)
        reach("state.write", str(order.checkpoint_id))
        deadline = self._clock.monotonic() + order.timeout_s
        self._compact(order)
        store = open_store(order.location)
        name = f"{order.directory}/{order.checkpoint_id}-{self.slot}-{new_id()[:8]}"
        states: dict[int, dict[str, str]] = {}
        try:
            writer = StateFileWriter()
            for subtask in self._subtasks():
                states |= subtask.add_state(writer, self._changes, order)
            file = within(self._clock, deadline, partial(writer.write_to, store, name))
        except CheckpointStorageError as error:
            return error
        is_delta = self._changes.suffice(order)
        self._changes.wrote(order)
        compacted, self._compacted = self._compacted, None
        return WrittenState(self.slot, file, states, is_delta, compacted)

    def _compact(self, order: CheckpointOrder) -> None:
        """See what became of the compaction under way, and begin the one that is ordered."""
        self._compacted = self._compactor.poll() or self._compacted
        for compaction in order.compactions.values():
            reach("compaction.start", compaction.through)
            self._compactor.start(compaction)

    def _subtasks(self) -> list[Subtask]:
        return [subtask for level in self._levels for subtask in level]

    def abort(self) -> None:
        """Remove what was staged outside; the attempt failed."""
        call_all(subtask.abort for subtask in self._subtasks())

    def close(self, completed_checkpoint: int | None = None) -> None:
        """Close every subtask, the first level first; tell functions before of a checkpoint that is complete."""
        subtasks = self._subtasks()
        tell: list[Callable[[], None]] = []
        if completed_checkpoint is not None:
            tell = [partial(subtask.notify, completed_checkpoint) for subtask in subtasks]
        call_all([*tell, self._compactor.close, *(subtask.close for subtask in subtasks)])

    def _deliver(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._inbox[self._target_vertex[block.edge_id]].append(block)


_EMPTY = OperatorReport()


def _backlog(subtasks: Sequence[Subtask], busy_s: float) -> Backlog:
    """Return what the subtasks of a region have not come to; of a region that is not in this slot nothing."""
    slowest = max(subtasks, key=lambda subtask: subtask.held, default=None)
    return Backlog(
        held=0 if slowest is None else slowest.held,
        begun=0 if slowest is None else slowest.budget.begun,
        in_flight=sum(subtask.in_flight for subtask in subtasks),
        suspended=_suspended(subtasks),
        ended=all(subtask.has_ended for subtask in subtasks),
        busy_ms=busy_s * 1000,
    )


def _suspended(subtasks: Sequence[Subtask]) -> str | None:
    return next((each.vertex.name for each in subtasks if each.is_suspended), None)
