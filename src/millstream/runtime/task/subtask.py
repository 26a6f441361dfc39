"""One subtask: one parallel instance of a chain, driven for one epoch at a time by its slot's thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.crash_points import reach
from millstream.base.time import MIN_TIMESTAMP
from millstream.graph.job_graph import JobEdge, JobGraph, JobVertex
from millstream.graph.stream_graph import StreamEdge, StreamNode
from millstream.operators.base import EpochTime, Operator, OperatorContext, OperatorReport, OperatorSpec
from millstream.operators.budget import EpochLimits, WorkBudget
from millstream.operators.combining import CombineMode, CombiningGate
from millstream.operators.latency import LatencyTracker
from millstream.operators.partitioners import Broadcast, KeyGroups
from millstream.operators.source import SourceOperator
from millstream.runtime.checkpoint.state_file import StateFileWriter
from millstream.runtime.protocol.blocks import Block
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.orders import CheckpointOrder
from millstream.runtime.protocol.report import EpochHeader, SourceWork
from millstream.runtime.task.batch_input import SortedInput
from millstream.runtime.task.batch_mode import fire_processing_timers, input_waits, keep_batch_timers
from millstream.runtime.task.channels import ChannelId, ChannelMerger
from millstream.runtime.task.checkpoint import (
    Changes,
    SavedState,
    add_operator_state,
    begin_checkpoint,
    restore_operator,
)
from millstream.runtime.task.closing import call_all
from millstream.runtime.task.failures import describing, guarded
from millstream.runtime.task.held_input import Recovered, add_held_input, restore_held_input
from millstream.runtime.task.load import SubtaskLoad
from millstream.runtime.task.measures import InputWatermarks, OperatorMeasures, counted, counted_marked
from millstream.runtime.task.origin import ORIGIN
from millstream.runtime.task.outputs import ChainOutput, ExchangeWriter
from millstream.runtime.task.routes import Route
from millstream.runtime.task.stack import WorkStack
from millstream.spi.batch import Columns
from millstream.state.keyed import KeyedStateBackend
from millstream.state.operator_state import OperatorStateBackend

__all__ = ["Subtask"]


class Subtask:
    """Operators of one chain, wired up; lives as long as the attempt.

    Args:
        deployment: The attempt.
        vertex: The chain.
        index: Subtask index.
        time: The slot's processing time.
        clock: Time as it passes; None for the machine's clock.

    Attributes:
        vertex: The chain.
        index: Subtask index.
        operators: Its operators, each after the one it reads.
        budget: How much it does in an epoch.
    """

    def __init__(
        self,
        deployment: Deployment,
        vertex: JobVertex,
        index: int,
        time: EpochTime,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._monotonic = self._clock.monotonic
        self.budget = WorkBudget(self._monotonic)
        self._load = SubtaskLoad(self._monotonic)
        self._stack = WorkStack()
        self._notices: list[int] = []
        self._recovered: list[Recovered] = []
        self._input_ended = False
        self.vertex = vertex
        self.index = index
        self._deployment = deployment
        self._time = time
        self.operators: list[tuple[StreamNode, Operator]] = []
        self._opened: list[tuple[StreamNode, Operator]] = []
        self._exchanges: list[ExchangeWriter] = []
        self._senders_of_exchanges: list[int] = []
        self._routes: list[Route] = []
        self._build(deployment.plan.job_graph)
        # In batch mode processing time stands still: timers of keys fire at the end of the input.
        self._timed = [
            (node, operator)
            for node, operator in self.operators
            if not (deployment.batch and node.spec.is_keyed)
        ]
        self._input_marks = InputWatermarks()
        self._measures = {node.id: OperatorMeasures(operator) for node, operator in self.operators}
        self._sorted: SortedInput | None = None
        self._merger = self._build_merger(deployment.plan.job_graph)

    def _build(self, job_graph: JobGraph) -> None:
        outputs: dict[int, ChainOutput] = {}
        operators: dict[int, Operator] = {}
        sides: dict[int, set[str]] = {node.id: set() for node in self.vertex.nodes}
        for node in self.vertex.nodes:
            operators[node.id] = node.spec.build()
            outputs[node.id] = ChainOutput(None if self._deployment.batch else self.budget)
            self.operators.append((node, operators[node.id]))
        for edge in self.vertex.chained:
            name, spec = next((node.name, node.spec) for node in self.vertex.nodes if node.id == edge.target)
            outputs[edge.source].add_operator(operators[edge.target], spec, name, edge.side_output)
            if edge.side_output is not None:
                sides[edge.source].add(edge.side_output)
        for exchange in job_graph.edges:
            if exchange.source_vertex == self.vertex.id:
                target = job_graph.vertex(exchange.target_vertex).head.spec
                combining = self._build_combining(exchange, target)
                writer = ExchangeWriter(exchange, self.index, self.budget, combining)
                self._exchanges.append(writer)
                self._senders_of_exchanges.append(exchange.edge.source)
                self._routes.append(Route.of(exchange, job_graph))
                outputs[exchange.edge.source].add_exchange(writer, target, exchange.edge.side_output)
                if exchange.edge.side_output is not None:
                    sides[exchange.edge.source].add(exchange.edge.side_output)
        for node, operator in self.operators:
            context = self._context(node, frozenset(sides[node.id]))
            context.latency = self._build_latency(node, outputs[node.id])
            operator.setup(context, outputs[node.id])
            if self._deployment.batch and node.spec.is_keyed:
                outputs[node.id].add_ending(guarded(partial(fire_processing_timers, operator), node.name))

    def _build_combining(self, exchange: JobEdge, target: OperatorSpec) -> CombiningGate | None:
        """Make what puts records together before they are sent, if the receiver knows how and it can bring anything."""
        mode = self._deployment.combine
        # In batch mode the receiver sorts its input by time, record by record.
        if mode is CombineMode.NEVER or self._deployment.batch:
            return None
        combiner = target.build_combiner() if isinstance(exchange.edge.partitioning, KeyGroups) else None
        if combiner is None:
            return None
        alone = exchange.senders == exchange.receivers == 1
        if alone and mode is CombineMode.AUTO and combiner.form is Columns:
            return None  # the receiver is as quick at it; at rows combiners are quicker
        return CombiningGate(combiner, always=mode is CombineMode.ALWAYS)

    def _context(self, node: StreamNode, side_outputs: frozenset[str]) -> OperatorContext:
        deployment = self._deployment
        operator_state = OperatorStateBackend(node.name)
        operator_state.uid = node.uid
        return OperatorContext(
            job_id=deployment.job_id,
            name=node.name,
            operator_id=node.operator_id,
            subtask_index=self.index,
            parallelism=node.parallelism,
            max_parallelism=node.max_parallelism,
            attempt=deployment.attempt,
            time=self._time,
            keyed_state=self._build_keyed_state(node) if node.spec.is_keyed else None,
            job_parameters=deployment.job_parameters,
            side_outputs=side_outputs,
            cached_files=deployment.cached_files,
            batch=deployment.batch,
            operator_state=operator_state,
            budget=self.budget,
            checkpoint_directory=deployment.checkpoint_directory,
            generation=deployment.generation,
        )

    def _build_latency(self, node: StreamNode, output: ChainOutput) -> LatencyTracker | None:
        settings = self._deployment.latency
        if settings is None or self._deployment.batch:
            return None
        return LatencyTracker(
            settings,
            operator_id=node.operator_id,
            subtask=self.index,
            now_ms=self._clock.now_ms,
            hand_on=output.emit_latency_marker,
        )

    def _build_keyed_state(self, node: StreamNode) -> KeyedStateBackend:
        state = self._deployment.keyed_state.build(
            operator=node.name,
            operator_id=node.operator_id,
            subtask=self.index,
            time=self._time,
            max_parallelism=node.max_parallelism,
        )
        state.uid = node.uid
        if self._deployment.batch:
            keep_batch_timers(state)
        return state

    def _build_merger(self, job_graph: JobGraph) -> ChannelMerger | None:
        if self.vertex.is_source:
            return None
        node, head = self.operators[0]
        columnar = node.spec.takes_columns
        handlers = [
            guarded(counted(head, handler, takes_columns=columnar), node.name)
            for handler in head.batch_handlers()
        ]
        channels = {
            ChannelId(exchange.id, sender): exchange.edge.input_index
            for exchange in job_graph.edges
            if exchange.target_vertex == self.vertex.id
            for sender in self._senders(exchange)
        }
        on_watermark = guarded(head.process_watermark, node.name)
        if self._deployment.batch:
            waits = input_waits(node.spec, len(handlers), self._inputs(job_graph))
            self._sorted = SortedInput(handlers, on_watermark, waits)
            handlers, on_watermark = self._sorted.handlers, self._sorted.on_watermark
        return ChannelMerger(
            channels,
            handlers,
            on_watermark,
            guarded(head.process_status, node.name),
            self.budget,
            self._broadcast_channels(job_graph),
            None if self._deployment.batch else guarded(head.advance_watermark, node.name),
            guarded(counted_marked(head, takes_columns=columnar), node.name),
            head.process_latency_marker,
        )

    def _broadcast_channels(self, job_graph: JobGraph) -> list[ChannelId]:
        return [
            ChannelId(exchange.id, sender)
            for exchange in job_graph.edges
            if exchange.target_vertex == self.vertex.id and isinstance(exchange.edge.partitioning, Broadcast)
            for sender in self._senders(exchange)
        ]

    def _inputs(self, job_graph: JobGraph) -> list[StreamEdge]:
        return [each.edge for each in job_graph.edges if each.target_vertex == self.vertex.id]

    def _senders(self, exchange: JobEdge) -> list[int]:
        targets = exchange.edge.partitioning.targets
        return [
            sender
            for sender in range(exchange.senders)
            if self.index in targets(sender, exchange.senders, exchange.receivers)
        ]

    @property
    def watermark_ms(self) -> int:
        """The head operator's watermark."""
        return self.operators[0][1].watermark_ms if self.operators else MIN_TIMESTAMP

    @property
    def has_event_timers(self) -> bool:
        """Whether timers wait for the watermark."""
        states = [operator.context.keyed_state for _, operator in self.operators]
        return any(state is not None and state.event_timers.next_timestamp() is not None for state in states)

    def restore(self, saved: SavedState) -> None:
        """Give the operators what they kept in a checkpoint; called before `open`.

        Raises:
            MillstreamError: If something does not fit; names the operator.
        """
        for node, operator in self.operators:
            restore_operator(saved, node, self.index, operator)
        if self._merger is not None:
            self._merger.restore(self.watermark_ms)
        job_graph = self._deployment.plan.job_graph
        self._recovered = restore_held_input(saved, job_graph, self.vertex, self.index, self._merger)
        # Those who read know no watermark of this subtask any more, and it may never advance: its source has ended.
        marks = {node.id: operator.watermark_ms for node, operator in self.operators}
        for source, exchange in zip(self._senders_of_exchanges, self._exchanges, strict=True):
            if marks[source] != MIN_TIMESTAMP:
                exchange.watermark(marks[source])

    def add_state(
        self, writer: StateFileWriter, changes: Changes, order: CheckpointOrder
    ) -> dict[int, dict[str, str]]:
        """Add the operators' state to a slot's file; return the kinds of their states, by node id.

        Args:
            writer: Of the slot's file.
            changes: Knows what changed.
            order: What is wanted.

        Raises:
            MillstreamError: If something cannot be pickled; names the operator.
        """
        if self._merger is not None:
            add_held_input(writer, self._deployment.plan.job_graph, self.vertex, self._merger)
        return {
            node.id: add_operator_state(
                writer,
                node,
                self.index,
                operator,
                patched=changes.suffice(order),
                keep_changes=order.is_savepoint,
            )
            for node, operator in self.operators
        }

    def open(self) -> None:
        """Open the operators, the last of the chain first, so that each can emit as soon as it is open.

        Raises:
            MillstreamError: What a user's `open` raised, with its traceback.
        """
        for node, operator in reversed(self.operators):
            self._opened.append((node, operator))
            self._call(node, operator.open)

    @property
    def held(self) -> int:
        """Records that wait for a later epoch before their processing begins."""
        waiting = 0 if self._merger is None else self._merger.held
        return waiting + sum(operator.held for _, operator in self.operators)

    @property
    def in_flight(self) -> int:
        """Records whose processing has begun and waits for something outside."""
        return sum(operator.in_flight for _, operator in self.operators)

    @property
    def is_suspended(self) -> bool:
        """Whether the epoch ended in the middle of a record."""
        return self._stack.is_suspended

    @property
    def has_ended(self) -> bool:
        """Whether all input has come and is processed."""
        if self.is_suspended or self.in_flight:
            return False
        if self._merger is not None:
            return self._merger.has_ended
        _, source = self.operators[0]
        assert isinstance(source, SourceOperator)
        return source.has_ended

    def run(self, header: EpochHeader, blocks: list[Block], limits: EpochLimits) -> None:
        """Process one epoch's input, as far as the limits allow.

        Raises:
            MillstreamError: What went wrong, with operator and subtask.
        """
        began = self._monotonic()
        with describing(self.index):
            self.budget.begin(limits)
            guarded(self._receive, self.operators[0][0].name)(blocks)
            if header.completed_checkpoint is not None:
                self._notices.append(header.completed_checkpoint)
            self.budget.suspend = self._leave
            outer = ORIGIN.operator
            ORIGIN.subtask = self.index
            try:
                self._stack.run(partial(self._work, header))
            finally:
                self.budget.suspend = None
                ORIGIN.operator = outer
        work = header.sources.get(self.operators[0][0].id)
        self._load.ran(began, pressed=work is not None and work.waits)

    def _receive(self, blocks: list[Block]) -> None:
        """Take what was sent; unpickling it may run user code."""
        self._load.received(blocks)
        if self._merger is not None:
            for block in blocks:
                self._merger.put(ChannelId(block.edge_id, block.sender), block.elements())

    def _work(self, header: EpochHeader) -> None:
        operators = {node.id: (node, operator) for node, operator in self.operators}
        while self._recovered:
            node_id, batch = self._recovered.pop(0)
            node, operator = operators[node_id]
            take = counted(operator, operator.process, takes_columns=node.spec.takes_columns)
            guarded(take, node.name)(batch)
        while self._notices:
            self.notify(self._notices.pop(0))
        for node, operator in self._timed:
            guarded(operator.on_processing_time, node.name)()
        if self._merger is not None:
            self._merger.run({})
            if header.orders:
                self._merger.align()
            return
        node, source = self.operators[0]
        assert isinstance(source, SourceOperator)
        work = header.sources.get(node.id, SourceWork((), False))
        guarded(source.read_ranges, node.name)(
            work.ranges, finished=work.finished, held=work.held, waits=work.waits
        )

    def _leave(self) -> None:
        origin = ORIGIN.operator
        self._stack.leave()
        ORIGIN.operator = origin

    def end_epoch(self, header: EpochHeader) -> tuple[list[Block], list[tuple[int, OperatorReport]]]:
        """End the epoch in every operator, in order; return blocks for other subtasks, and reports.

        Raises:
            MillstreamError: What went wrong, with operator and subtask.
        """
        reports: list[tuple[int, OperatorReport]] = []
        blocks: list[Block] = []
        checkpoint = header.checkpoint and not self.is_suspended
        ends = header.end_of_input and self.has_ended and not self._input_ended
        with describing(self.index):
            for node, operator in self.operators:
                if ends:
                    guarded(operator.end_input, node.name)()
                report = OperatorReport()
                guarded(operator.end_epoch, node.name)(report, checkpoint=checkpoint)
                guarded(self._measures[node.id].fill, node.name)(report, checkpoint=checkpoint)
                reports.append((node.id, report))
            if self._merger is not None:
                self._input_marks.fill(reports[0][1], self._merger.input_watermarks)
            self._input_ended = self._input_ended or ends
            if checkpoint:
                for node, operator in self.operators:
                    guarded(partial(_begin_checkpoint, node, operator, header), node.name)()
            for route, exchange in zip(self._routes, self._exchanges, strict=True):
                blocks += route.naming(exchange.flush)
        self._load.sent(blocks)
        self._load.tell(reports[0][1], held=self.held, final=header.checkpoint)
        return blocks, reports

    def next_processing_time(self) -> int | None:
        """Return when the next processing-time timer of any operator is due."""
        times = [operator.next_processing_time() for _, operator in self._timed]
        return min((time for time in times if time is not None), default=None)

    def abort(self) -> None:
        """Remove what was staged outside; the attempt failed."""
        self._stack.drop()
        call_all(operator.abort for _, operator in self._opened)

    def close(self) -> None:
        """Close every operator that was opened, first to last; the first error is raised when all are closed.

        Raises:
            MillstreamError: What a user's `close` raised.
        """
        self._stack.drop()
        failure: BaseException | None = None
        if self._sorted is not None:
            self._sorted.close()
        while self._opened:
            node, operator = self._opened.pop()
            try:
                self._call(node, operator.close)
            except Exception as error:  # noqa: BLE001 - the others have to be closed as well
                failure = failure or error
        for _, operator in self.operators:
            if operator.context.keyed_state is not None:
                operator.context.keyed_state.close()
        if failure is not None:
            raise failure

    def _call(self, node: StreamNode, action: Callable[[], Any]) -> None:
        with describing(self.index):
            guarded(action, node.name)()

    def notify(self, checkpoint_id: int) -> None:
        """Tell functions that a checkpoint is complete.

        Raises:
            MillstreamError: What a function raised.
        """
        reach("notify", str(checkpoint_id))
        with describing(self.index):
            for node, operator in self.operators:
                if operator.context.operator_state is not None:
                    guarded(operator.context.operator_state.notify_complete, node.name)(checkpoint_id)


def _begin_checkpoint(node: StreamNode, operator: Operator, header: EpochHeader) -> None:
    checkpoint_id = header.orders[0].checkpoint_id if header.orders else header.epoch
    begin_checkpoint(operator, node, checkpoint_id, header.now_ms)
