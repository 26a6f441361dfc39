"""Replay of one key: its operator, from a checkpoint, record by record in this process.

The job is cut down to the operator and all that it reads; what remains runs with parallelism 1 on the local
executor, restored from the checkpoint, so sources go on where the checkpoint left them::

    source ─► … ─► key_by ─► operator     records of other keys are left out before the operator,
                                │          state of other keys is dropped before it is opened
                                └─► told: record, state before and after, timers, outputs

Everything that runs is what runs in a job. Operators upstream act on all records; what they do outside of the job,
they do again. Time by the clock is now, so timers of the clock that are overdue fire at the beginning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, NotSupportedError, shorten
from millstream.base.ids import new_id
from millstream.base.interrupts import Interruption
from millstream.base.time import MAX_TIMESTAMP
from millstream.config import options
from millstream.graph.epoch_plan import EpochPlan, build_epoch_plan
from millstream.graph.job_graph import build_job_graph
from millstream.graph.launcher import JobSubmission
from millstream.graph.stream_graph import StreamGraph, StreamNode, build_stream_graph
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import (
    BatchHandler,
    Operator,
    OperatorContext,
    OperatorSpec,
    Output,
    RestoreScope,
)
from millstream.operators.iteration import IterationHeadSpec
from millstream.operators.partitioners import KeyGroups
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.restore import Restored, fit_to_job
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.control.console import JobOutput
from millstream.runtime.job.job_master import JobMaster
from millstream.runtime.job.observer import JobObserver
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.job.steering import JobControl
from millstream.runtime.local.executor import LocalExecutor
from millstream.runtime.program.dependencies import collect_dependencies
from millstream.runtime.protocol.deployment import Deployment
from millstream.spi.batch import Batch, Rows, StreamStatus, Watermark
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.keyed import KeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.state.snapshots import Entries, KeyedStateSnapshot, TimerSnapshot
from millstream.state_processor.keys import KeyText
from millstream.state_processor.reader import SavepointReader, untimed
from millstream.state_processor.windows import own_entries
from millstream.types.row import Row, RowKind

__all__ = ["ReplayRequest", "replay"]

Selectors = Mapping[int, Callable[[Any], Any]]
"""What gives a record's key, by input; inputs without keys are not there."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is to be replayed.

    Attributes:
        checkpoint: Path of the checkpoint or savepoint.
        uid: The operator's uid; its id or name if it has none.
        key: The key.
        records: End after so many records of the key; None goes on to the end of the input.
        debug: Stop in the debugger before the first call.
    """

    checkpoint: str
    uid: str
    key: KeyText
    records: int | None = None
    debug: bool = False


class _Enough(Interruption):
    """As many records as were wanted have been replayed; not an Exception, so that programs let it pass."""


def replay(submission: JobSubmission, request: ReplayRequest, clock: Clock | None = None) -> None:
    """Replay a key of an operator of a job; what happens is printed to standard output.

    Args:
        submission: The job.
        request: What is to be replayed.
        clock: Time; by default the machine's.

    Raises:
        ConfigurationError: If job or checkpoint have no such operator, or it has no keys.
        CheckpointStorageError: If there is no checkpoint.
        CheckpointDamagedError: If it is damaged.
        StateIncompatibleError: If the program does not fit its state.
        MillstreamError: What the job raised.
    """
    clock = clock or SystemClock()
    reader = SavepointReader.read(request.checkpoint)
    graph, target = _cut(submission, request.uid)
    reader.operator(target.operator_id if target.uid is None else target.uid)
    restored = fit_to_job(reader.saved, build_job_graph(graph), allow_non_restored=True)
    graph.nodes[target.id] = replace(
        target,
        spec=WatchedSpec(
            inner=target.spec,
            key=request.key,
            selectors=_selectors(graph, target),
            side_outputs=_side_outputs(submission, target),
            records=request.records,
            debug=request.debug,
        ),
    )
    try:
        _run(submission, build_epoch_plan(build_job_graph(graph)), restored, clock)
    except _Enough:
        return


def _run(submission: JobSubmission, plan: EpochPlan, restored: Restored, clock: Clock) -> None:
    configuration = submission.configuration
    deployment = Deployment(
        job_id=new_id(),
        attempt=0,
        plan=plan,
        job_parameters=configuration.get(options.GLOBAL_JOB_PARAMETERS) or {},
        now_ms=clock.now_ms(),
        dependencies=collect_dependencies(configuration),
        restore=restored.order,
    )
    checkpoints = CheckpointCoordinator(
        CheckpointSettings(interval_ms=None),
        job_id=deployment.job_id,
        job_name=submission.name,
        job_graph=plan.job_graph,
        clock=clock,
    )
    master = JobMaster(
        deployment,
        JobSettings.of(configuration),
        executor=LocalExecutor(),
        clock=clock,
        output=JobOutput({}),
        control=JobControl(),
        on_progress=None,
        checkpoints=checkpoints,
        observer=JobObserver(plan, job_id=deployment.job_id, name=submission.name, batch=False, clock=clock),
        restored=restored.driver_states,
        job_name=submission.name,
    )
    try:
        master.run()
    finally:
        master.release()
        checkpoints.close("FINISHED")


# The graph


def _cut(submission: JobSubmission, uid: str) -> tuple[StreamGraph, StreamNode]:
    """Return the operator and all that it reads as a graph of parallelism 1, operator ids as in the whole job."""
    configuration = submission.configuration
    max_parallelism = configuration.get(options.MAX_PARALLELISM)
    whole = build_stream_graph(
        submission.transformations,
        parallelism=configuration.default_parallelism(),
        max_parallelism=max_parallelism,
    )
    target = _find(whole, uid)
    by_id = {each.id: each for each in submission.transformations}
    needed = _needed(by_id, target.id)
    copies: dict[int, Transformation] = {}
    for transformation in submission.transformations:
        if transformation.id in needed:
            node = whole.nodes[transformation.id]
            copies[transformation.id] = replace(
                transformation,
                parallelism=1,
                max_parallelism=node.max_parallelism,
                uid_hash=node.operator_id,
                inputs=[_copied(edge, copies) for edge in transformation.inputs],
            )
    graph = build_stream_graph(list(copies.values()), parallelism=1, max_parallelism=max_parallelism)
    return graph, graph.nodes[target.id]


def _copied(edge: Edge, copies: Mapping[int, Transformation]) -> Edge:
    return replace(edge, source=copies[edge.source.id])


def _find(graph: StreamGraph, uid: str) -> StreamNode:
    nodes = list(graph.nodes.values())
    for matches in (
        [node for node in nodes if node.uid == uid],
        [node for node in nodes if node.operator_id == uid],
        [node for node in nodes if node.name == uid],
    ):
        if len(matches) == 1:
            break
    else:
        keyed = ", ".join(f'"{node.uid or node.name}"' for node in nodes if node.spec.is_keyed)
        raise ConfigurationError(
            f'the job has no operator with uid "{uid}"', detail=f"Operators with keys: {keyed or 'none'}."
        )
    if not matches[0].spec.is_keyed:
        raise NotSupportedError(
            f'operator "{uid}" has no keys, so there is no key of it to replay',
            hint="Replay an operator behind key_by(...).",
        )
    return matches[0]


def _needed(by_id: Mapping[int, Transformation], target: int) -> set[int]:
    """Return the ids of the operator, of all that it reads, and of the ends of iterations among them."""
    tails = {each.spec.feeds: each.id for each in by_id.values() if each.spec.feeds is not None}
    needed: set[int] = set()
    waiting = [target]
    while waiting:
        current = waiting.pop()
        if current in needed:
            continue
        needed.add(current)
        waiting += [edge.source.id for edge in by_id[current].inputs]
        if isinstance(by_id[current].spec, IterationHeadSpec) and current in tails:
            waiting.append(tails[current])
    return needed


def _selectors(graph: StreamGraph, target: StreamNode) -> Selectors:
    selectors: dict[int, Callable[[Any], Any]] = {}
    for edge in graph.inputs(target.id):
        if isinstance(edge.partitioning, KeyGroups):
            selectors[edge.input_index] = edge.partitioning.key_selector
    if not selectors:  # a stream that is declared to be dealt by key already
        selectors[0] = target.spec.key_selector  # type: ignore[attr-defined]
    return selectors


def _side_outputs(submission: JobSubmission, target: StreamNode) -> frozenset[str]:
    return frozenset(
        edge.side_output
        for each in submission.transformations
        for edge in each.inputs
        if edge.source.id == target.id and edge.side_output is not None
    )


# The operator


@dataclass(frozen=True)
class WatchedSpec(OperatorSpec):
    """Declares an operator that is replayed.

    Attributes:
        inner: The operator.
        key: The key.
        selectors: Give the keys of records.
        side_outputs: Those that the whole job reads.
        records: End after so many.
        debug: Stop in the debugger before the first.
    """

    inner: OperatorSpec
    key: KeyText
    selectors: Selectors
    side_outputs: frozenset[str]
    records: int | None
    debug: bool
    is_keyed = True

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """Whether the operator takes columns: what has no exact form as objects stays as it is."""
        return self.inner.takes_columns

    def build(self) -> Operator:
        """Make the operator itself, watched."""
        operator = self.inner.build()
        _Watch(operator, self).attach()
        return operator


class _Watch:
    """Stands around an operator: lets the key's records and state through, and tells what happens."""

    def __init__(self, operator: Operator, spec: WatchedSpec) -> None:
        self._operator = operator
        self._spec = spec
        self._kind = type(spec.inner).__name__
        self._matches = spec.key.matches
        self._lines: list[str] = []
        self._records = 0
        self._outputs = 0
        self._open = operator.open
        self._setup = operator.setup
        self._close = operator.close
        self._restore_state = operator.restore_state
        self._restore_entries = operator.restore_entries

    def attach(self) -> None:
        """Take the place of the operator's methods."""
        operator = self._operator
        handlers = [
            partial(self._batch, index, handler) for index, handler in enumerate(operator.batch_handlers())
        ]
        changed: dict[str, Any] = {
            "setup": self.setup,
            "open": self.open,
            "close": self.close,
            "restore_state": self.restore_state,
            "restore_entries": self.restore_entries,
            "batch_handlers": lambda: handlers,
            "process": handlers[0],
            "process_watermark": partial(self._watermark, self._flushing(operator.process_watermark)),
            "advance_watermark": partial(Operator.advance_watermark, operator),
            "process_marked": partial(Operator.process_marked, operator),
            "on_processing_time": partial(self._clock, operator.on_processing_time),
            "end_input": partial(self._end, operator.end_input),
        }
        for name, method in changed.items():
            setattr(operator, name, method)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Have outputs told, those to all side outputs of the whole job too."""
        context.side_outputs = self._spec.side_outputs
        self._setup(context, _ToldOutput(output, self._tell_output))

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Restore what the operator itself keeps of the key."""
        self._restore_state(snapshot, replace(scope, owns=lambda key: self._matches(key) and scope.owns(key)))

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Restore what the operator itself keeps under the key."""
        self._restore_entries(name, [entry for entry in entries if self._matches(entry[1])])

    def open(self) -> None:
        """Drop state and timers of other keys, then open the operator."""
        context = self._operator.context
        assert context.keyed_state is not None, "a keyed operator without keyed state"
        context.keyed_state = self._pruned(context.keyed_state, context)
        self._open()
        _tell(
            [
                f"operator {context.name!r}, key {self._spec.key.text}: restored",
                *self._state_lines("state", None),
            ]
        )

    def close(self) -> None:
        """Say how much was replayed, then close the operator."""
        _tell([f"replayed: {self._records} records, {self._outputs} outputs"])
        self._close()

    def _pruned(self, backend: KeyedStateBackend, context: OperatorContext) -> KeyedStateBackend:
        of_windows = self._kind == "WindowSpec"
        if of_windows:
            backend.timer_key = itemgetter(0)
        whole = backend.snapshot()
        backend.close()
        kept = KeyedStateSnapshot(
            whole.schemas,
            {
                group: {
                    name: [entry for entry in entries if self._matches(entry[1])]
                    for name, entries in states.items()
                }
                for group, states in whole.groups.items()
            },
            {
                group: TimerSnapshot(self._own_timers(timers.event), self._own_timers(timers.processing))
                for group, timers in whole.timers.items()
            },
        )
        pruned = HeapKeyedStateBackend(
            operator=context.name, time=context.time, max_parallelism=context.max_parallelism
        )
        pruned.restore(kept)
        return pruned

    def _own_timers(self, timers: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
        return [(time_ms, timer) for time_ms, timer in timers if self._matches(self._timer_parts(timer)[0])]

    def _timer_parts(self, timer: Any) -> tuple[Any, Any]:
        return timer if self._kind == "WindowSpec" else (timer, None)

    # Calls

    def _flushing(self, process: Callable[[int], None]) -> Callable[[int], None]:
        """Return what has the operator act on a watermark at once, though it may wait for the epoch's end."""

        def act(timestamp_ms: int) -> None:
            process(timestamp_ms)
            self._operator.flush()

        return act

    def _batch(self, index: int, handler: BatchHandler, batch: Batch) -> None:
        selector = self._spec.selectors.get(index)
        for place, value in enumerate(batch.to_rows().values):
            key = None if selector is None else canonical_key(selector(value))
            if selector is None or self._matches(key):
                alone = batch.cut(place, place + 1)
                self._step(index, handler, value, alone, key, keyed=selector is not None)

    def _step(
        self, index: int, handler: BatchHandler, value: Any, alone: Batch, key: Any, *, keyed: bool
    ) -> None:
        """Have the operator process a record, `value`, which is `alone` in a batch."""
        self._records += keyed
        number = f"record {self._records}" if keyed else "broadcast record"
        where = f" of input {index}" if len(self._spec.selectors) > 1 else ""
        stamps = alone.to_rows().timestamps
        at = "" if stamps is None else f" at {stamps[0]}"
        _tell(["", f"{number}{where}{at}: {_text(value)}", *self._state_lines("before", key)])
        if self._spec.debug and self._records == 1 and keyed:
            _tell([_how_to_debug(self._spec.inner)])
            breakpoint()
        handler(alone)
        self._operator.flush()
        _tell([*self._take(), *self._state_lines("after", key)])
        if keyed and self._records == self._spec.records:
            raise _Enough

    def _watermark(self, advance: Callable[[int], None], timestamp_ms: int) -> None:
        name = "the end of the input" if timestamp_ms == MAX_TIMESTAMP else f"watermark {timestamp_ms}"
        self._tell_if_changed(name, partial(advance, timestamp_ms))

    def _clock(self, fire: Callable[[], None]) -> None:
        self._tell_if_changed(f"the clock, {self._operator.context.time.now_ms}", fire)

    def _end(self, end: Callable[[], None]) -> None:
        self._tell_if_changed("the end of the input", end)

    def _tell_if_changed(self, name: str, action: Callable[[], None]) -> None:
        before = self._state_lines("before", None)
        action()
        outputs, after = self._take(), self._state_lines("after", None)
        if outputs or [line[10:] for line in before] != [line[10:] for line in after]:
            _tell(["", name, *before, *outputs, *after])

    # What is told

    def _tell_output(self, tag: str | None, batch: Rows) -> None:
        values, timestamps = batch.values, batch.timestamps
        self._outputs += len(values)
        to = "" if tag is None else f" (side output {tag})"
        for place, value in enumerate(values):
            at = "" if timestamps is None else f" at {timestamps[place]}"
            self._lines.append(f"  output  {_text(value)}{at}{to}")

    def _take(self) -> list[str]:
        taken, self._lines = self._lines, []
        return taken

    def _state_lines(self, label: str, key: Any) -> list[str]:
        """Return state and timers, of one key or of all that match, as text: they may change afterwards."""
        lines = [f"  {label:<6}  {text}" for text in self._states(key)] or [f"  {label:<6}  no state"]
        return lines + [f"  {'':<6}  {text}" for text in self._timers(key)]

    def _states(self, key: Any) -> Iterator[str]:
        backend = self._operator.context.keyed_state
        assert backend is not None
        snapshot = backend.snapshot()
        entries = [
            (name, key_of, namespace, untimed(snapshot.schemas.get(name), value))
            for states in snapshot.groups.values()
            for name, held in states.items()
            for namespace, key_of, value in held
        ]
        own: dict[str, list[tuple[Any, Any, Any]]] = {}
        for name, namespace, held in self._operator.snapshot_entries():
            own.setdefault(name, []).extend((namespace, key_of, entry) for key_of, entry in held)
        entries += own_entries(own)
        for name, key_of, namespace, value in entries:
            if key is None or key == key_of:
                scope = "" if namespace is None else f"[{namespace!r}]"
                yield f"{name}{scope} = {shorten(value, 2_000)}"

    def _timers(self, key: Any) -> Iterator[str]:
        backend = self._operator.context.keyed_state
        assert backend is not None
        for kind, queue in (("event", backend.event_timers), ("processing", backend.processing_timers)):
            for timestamp_ms, timers in queue.snapshot():
                for timer in timers:
                    key_of, window = self._timer_parts(timer)
                    if key is None or key == key_of:
                        of = "" if window is None else f" of {window!r}"
                        yield f"{kind}-time timer at {timestamp_ms}{of}"


class _ToldOutput(Output):
    """Tells what is emitted; nobody reads it."""

    def __init__(self, inner: Output, tell: Callable[[str | None, Rows], None]) -> None:
        self._inner = inner
        self._tell = tell

    def emit(self, batch: Batch) -> None:
        """Tell a batch."""
        for piece in batch.to_rows().pieces():
            if isinstance(piece, Watermark):
                self._inner.emit_watermark(piece.timestamp_ms)
            else:
                self.records_out += len(piece)
                self._tell(None, piece)
                self._inner.emit(piece)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Tell a batch of a side output."""
        self.records_out += len(batch)
        rows = batch.to_rows()
        self._tell(tag_id, rows)
        self._inner.emit_side(tag_id, rows)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Hand on a watermark."""
        self._inner.emit_watermark(timestamp_ms)

    def emit_status(self, status: StreamStatus) -> None:
        """Hand on a change of status."""
        self._inner.emit_status(status)


def _text(record: Any) -> str:
    """Return a record as text, with its kind if it changes a table."""
    kind = record.get_row_kind() if isinstance(record, Row) else RowKind.INSERT
    return f"{'' if kind is RowKind.INSERT else f'{kind} '}{shorten(record, 2_000)}"


def _tell(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _how_to_debug(spec: OperatorSpec) -> str:
    function = getattr(spec, "function", None)
    for name in ("process_element", "process_element1", "reduce", "process", "apply", "aggregate"):
        code = getattr(getattr(function, name, None), "__code__", None)
        if code is not None:
            return f"  debug   stop in the function: b {code.co_filename}:{code.co_firstlineno + 1}, then c"
    return "  debug   step into the operator: s"
