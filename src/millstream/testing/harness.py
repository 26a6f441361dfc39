"""Runs one operator by hand, in the manner of Flink's test harnesses: records in, results out, time as you say.

::

    push, push_watermark, push_idle ─► dealt to subtasks (by key) ─► the operator ─► take, take_side, take_elements
    set_processing_time ─────────────► timers                            │
    snapshot ◄── what a checkpoint would hold ◄──────────────────────────┘
        └─► OperatorHarness(…, restore=snapshot, parallelism=3)

The operator is the one that a job would run, with the state backends, checkpoints and rules of rescaling of a job;
there is no job, no thread and no clock but the one that the test moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from millstream.base.declared import as_declared
from millstream.base.errors import ConfigurationError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.accumulators import Accumulators, merge_accumulators
from millstream.common.output_tag import OutputTag
from millstream.common.state import StateDescriptor
from millstream.config.configuration import Configuration
from millstream.datastream.streams.data_stream import DataStream
from millstream.graph.stream_graph import DEFAULT_GROUP, StreamNode
from millstream.graph.transformation import ChainingStrategy
from millstream.metrics.groups import MetricKind
from millstream.operators.base import (
    EpochTime,
    Operator,
    OperatorContext,
    OperatorReport,
    OperatorSpec,
)
from millstream.operators.partitioners import ColumnSelector, Forward, Partitioning, Rebalance
from millstream.runtime.checkpoint.state_file import StateFileWriter
from millstream.runtime.protocol.orders import RestoreOrder, StateFile
from millstream.runtime.task.channels import ChannelId, ChannelMerger
from millstream.runtime.task.checkpoint import (
    SavedState,
    add_operator_state,
    begin_checkpoint,
    restore_operator,
)
from millstream.runtime.task.measures import counted
from millstream.spi.batch import ACTIVE, IDLE, Batch, Columns, Element, Rows, Watermark
from millstream.state.backends import KeyedStateSettings
from millstream.state.key_groups import key_group, subtask_of
from millstream.state.keyed import KeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.state.operator_state import OperatorStateBackend
from millstream.testing.declared import DeclaredInput, DeclaredOperator, find_operator
from millstream.testing.recorder import Emitted, Record, Recorder, SideRecord
from millstream.testing.storage import MemoryStores
from millstream.types.arrow_records import int8_array, int64_array
from millstream.types.row import RowKind

if TYPE_CHECKING:
    import pyarrow

__all__ = ["OperatorHarness", "OperatorSnapshot"]

_OPERATOR_ID = "operator"
_STORE = "memory://harness"


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """What an operator keeps in a checkpoint; picklable, so that a test may keep one of an older version.

    Attributes:
        checkpoint_id: Number of the checkpoint.
        files: Contents of the state files of each subtask: one with everything, then what changed since.
        max_parallelism: Number of key groups.

    Example:
        >>> from millstream.testing import OperatorHarness
        >>> def totals(rows):
        ...     return rows.key_by(lambda row: row[0]).sum(1)
        >>> before = OperatorHarness(totals)
        >>> before.push(("ann", 3))
        >>> after = OperatorHarness(totals, restore=before.snapshot(), parallelism=2)
        >>> after.push(("ann", 4))
        >>> after.take()
        [('ann', 7)]
    """

    checkpoint_id: int
    files: tuple[tuple[bytes, ...], ...]
    max_parallelism: int


class _Every(frozenset[str]):
    """Every side output is read."""

    def __contains__(self, item: object) -> bool:
        return True


class OperatorHarness:
    """All subtasks of one operator, run by the thread that calls.

    Errors that functions raise come out as they are.

    Args:
        program: Takes a stream for each input and gives the stream that the operator makes, as in
            `lambda words: words.key_by(first).process(Count())`. It may build one operator only. Or a declared operator
            of one's own; its first subtask has the function itself, not a copy.
        inputs: How many streams it takes.
        parallelism: Number of subtasks. Each has a copy of the function.
        max_parallelism: Number of key groups.
        processing_time: What the clock shows at first, epoch milliseconds.
        restore: What the operator begins from; it may be of another parallelism.
        options: Options by key, such as `{"state.backend.type": "rocksdb"}`.

    Attributes:
        operators: The running operators, one for each subtask: internals of the engine, which may change.

    Raises:
        JobDefinitionError: If the program does not build one operator.
        StateIncompatibleError: If what is restored does not fit.

    Example:
        >>> from millstream.testing import OperatorHarness
        >>> harness = OperatorHarness(lambda numbers: numbers.map(lambda number: number + 1))
        >>> harness.push(1, timestamp=5)
        >>> harness.push_watermark(7)
        >>> harness.take_elements()
        [Record(value=2, timestamp=5), Watermark(timestamp_ms=7)]
    """

    def __init__(
        self,
        program: Callable[..., DataStream[Any]] | OperatorSpec,
        *,
        inputs: int = 1,
        parallelism: int = 1,
        max_parallelism: int = 128,
        processing_time: int = 0,
        restore: OperatorSnapshot | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(program, OperatorSpec):
            declared = DeclaredOperator("operator", program, tuple(map(DeclaredInput, range(inputs))))
        else:
            declared = find_operator(program, inputs)
        self._node = _node(declared, parallelism, max_parallelism)
        self._time = EpochTime(processing_time)
        self._output = Recorder()
        self._side: dict[str, list[SideRecord]] = {}
        self._keyed = KeyedStateSettings.of(Configuration.from_dict(dict(options or {})))
        self._marks = [MIN_TIMESTAMP] * inputs
        self._idle = [False] * inputs
        self._counters: dict[str, int] = {}
        self._own_counters: dict[tuple[int, str], int] = {}
        self._chains: list[tuple[bytes, ...]] | None = None  # of the last snapshot
        self._checkpoint_id = 0 if restore is None else restore.checkpoint_id
        self._selectors = [
            _resolve(each.partitioning, parallelism).build(0, 1, parallelism, max_parallelism)
            for each in declared.inputs
        ]
        self._closed = False
        self.operators = [self._build(index, declared.spec) for index in range(parallelism)]
        if restore is not None:
            self._restore(restore)
        for operator in self.operators:
            operator.open()
        self._mergers = [_merger(operator, declared) for operator in self.operators]

    def _build(self, index: int, spec: OperatorSpec) -> Operator:
        operator = (spec if index == 0 else as_declared(spec)).build()
        operator_state = OperatorStateBackend(self._node.name)
        context = OperatorContext(
            job_id="harness",
            name=self._node.name,
            operator_id=_OPERATOR_ID,
            subtask_index=index,
            parallelism=self._node.parallelism,
            max_parallelism=self._node.max_parallelism,
            attempt=0,
            time=self._time,
            keyed_state=self._build_keyed_state(index) if spec.is_keyed else None,
            side_outputs=_Every(),
            operator_state=operator_state,
            accumulators=Accumulators(),
        )
        operator.setup(context, self._output)
        return operator

    def _build_keyed_state(self, index: int) -> KeyedStateBackend:
        return self._keyed.build(
            operator=self._node.name,
            operator_id=_OPERATOR_ID,
            subtask=index,
            time=self._time,
            max_parallelism=self._node.max_parallelism,
        )

    # Input

    def push(self, value: Any, timestamp: int | None = None, *, input: int = 0) -> None:
        """Have a record processed.

        Args:
            value: The record.
            timestamp: Its event time, epoch milliseconds; None if it has none.
            input: The input that it comes from, from 0.
        """
        self.push_batch([value], None if timestamp is None else [timestamp], input=input)

    def push_batch(
        self, values: Iterable[Any], timestamps: Iterable[int] | None = None, *, input: int = 0
    ) -> None:
        """Have records processed as one batch, in order.

        Args:
            values: The records.
            timestamps: Event time of each; None if they have none.
            input: The input that they come from.
        """
        given = list(values)
        stamps = None if timestamps is None else list(timestamps)
        if stamps is not None and len(stamps) != len(given):
            raise ConfigurationError(f"{len(given)} records were pushed with {len(stamps)} timestamps")
        self._deal(Rows(given, stamps), input)

    def push_columns(
        self,
        data: pyarrow.RecordBatch,
        timestamps: Iterable[int] | None = None,
        *,
        kinds: Iterable[RowKind] | None = None,
        input: int = 0,
    ) -> None:
        """Have records processed as one batch of columns; operators that take none are given rows, as in a job.

        Args:
            data: The records.
            timestamps: Event time of each; None if they have none.
            kinds: Kind of change of each; None if all are inserts.
            input: The input that they come from.
        """
        stamps = None if timestamps is None else int64_array(list(timestamps))
        changes = None if kinds is None else int8_array([kind.value for kind in kinds])
        self._deal(Columns(data, stamps, changes), input)

    def _check_input(self, index: int) -> None:
        if not 0 <= index < len(self._marks):
            raise ConfigurationError(
                f'input {index} of operator "{self._node.name}" was given something, and it has {len(self._marks)}',
                hint="Inputs are counted from 0; inputs=2 gives the program two.",
            )

    def _deal(self, batch: Batch, index: int) -> None:
        """Deal a batch to the subtasks, as an exchange does."""
        self._check_input(index)
        self._wake(index)
        selector = self._selectors[index]
        if type(batch) is Columns and isinstance(selector, ColumnSelector):
            parts: Sequence[tuple[int, Batch]] = selector.split_columns(batch)
        else:
            parts = selector.split(batch.to_rows())
        for target, part in parts:
            self._mergers[target].run({ChannelId(index, 0): [part]})

    def push_watermark(self, timestamp: int, *, input: int | None = None) -> None:
        """Have event time of the inputs advance; the operator's is the lowest of its inputs that are not idle.

        Of an idle input nothing is heard until its next record.

        Args:
            timestamp: The watermark, epoch milliseconds.
            input: The only input that has it; None for all.

        Raises:
            ConfigurationError: If it is before the input's last one.
        """
        for index in range(len(self._marks)) if input is None else [input]:
            self._check_input(index)
            if timestamp < self._marks[index]:
                raise ConfigurationError(
                    f"watermark {timestamp} was pushed to input {index} behind watermark {self._marks[index]}"
                )
            self._marks[index] = timestamp
            self._send(index, Watermark(timestamp))

    def push_idle(self, *, input: int = 0) -> None:
        """Have an input be idle: the operator's event time does not wait for it until its next record."""
        self._check_input(input)
        self._idle[input] = True
        self._send(input, IDLE)

    def _wake(self, index: int) -> None:
        if self._idle[index]:
            self._idle[index] = False
            self._send(index, ACTIVE)

    def _send(self, index: int, element: Element) -> None:
        """Send something to every subtask, as the engine does with what is no record."""
        for merger in self._mergers:
            merger.run({ChannelId(index, 0): [element]})

    def set_processing_time(self, timestamp: int) -> None:
        """Move the clock, also back, as machines' clocks may be set back; timers that are due fire."""
        self._time.now_ms = timestamp
        for operator in self.operators:
            operator.on_processing_time()

    def end_epoch(self) -> None:
        """End an epoch, as the engine does a few times a second: results of asynchronous calls come, for example."""
        for operator in self.operators:
            self._end_epoch(operator, checkpoint=False)

    def end_input(self) -> None:
        """Tell the operator that nothing follows: event time comes to its end, what it holds is flushed."""
        self._time.final = True
        for index in range(len(self._marks)):
            self._wake(index)
        self.push_watermark(MAX_TIMESTAMP)
        for operator in self.operators:
            operator.end_input()
            self._end_epoch(operator, checkpoint=True)

    def _end_epoch(self, operator: Operator, *, checkpoint: bool) -> None:
        report = OperatorReport()
        operator.end_epoch(report, checkpoint=checkpoint)
        for name, count in report.counters.items():
            self._counters[name] = self._counters.get(name, 0) + count
        for metric, value in operator.context.metrics.collect_changes().items():
            if value.kind is MetricKind.COUNTER:
                self._own_counters[operator.context.subtask_index, ".".join(metric.path)] = value.value

    # Output

    def take(self) -> list[Any]:
        """Return the records of the main output that came since the last call, without their timestamps."""
        return [record.value for record in self.take_records()]

    def take_records(self) -> list[Record]:
        """Return the records of the main output that came since the last call."""
        return self._output.take(Record)

    def take_side(self, tag: OutputTag | str) -> list[Any]:
        """Return the records of a side output that came since the last call.

        Args:
            tag: The side output, or its id.
        """
        for record in self._output.take(SideRecord):
            self._side.setdefault(record.tag_id, []).append(record)
        tag_id = tag.tag_id if isinstance(tag, OutputTag) else tag
        return [record.value for record in self._side.pop(tag_id, [])]

    def take_elements(self) -> list[Emitted]:
        """Return all that came since the last call, in order.

        Records and side records, `Watermark`s, and `StreamStatus`es.
        """
        return self._output.take()

    # What can be seen of it

    @property
    def watermark(self) -> int:
        """The operator's event time; -2**63 before its first watermark."""
        return min(operator.watermark_ms for operator in self.operators)

    @property
    def processing_time(self) -> int:
        """What the clock shows, epoch milliseconds."""
        return self._time.now_ms

    @property
    def next_processing_time(self) -> int | None:
        """When the operator wants to be woken by `set_processing_time`; None if it does not."""
        times = [operator.next_processing_time() for operator in self.operators]
        return min((time for time in times if time is not None), default=None)

    def event_time_timers(self) -> int:
        """Return how many event-time timers functions have set; windows keep their ends themselves."""
        return sum(state.event_timers.count() for state in self._states())

    def processing_time_timers(self) -> int:
        """Return how many processing-time timers functions have set."""
        return sum(state.processing_timers.count() for state in self._states())

    def keyed_state_entries(self) -> int:
        """Return how many entries are kept by key: one for each key, state and window; also contents of windows."""
        count = 0
        for operator in self.operators:
            count += sum(len(list(held)) for _, _, held in operator.snapshot_entries())
            if operator.context.keyed_state is not None:
                groups = operator.context.keyed_state.snapshot(timers=False).groups
                count += sum(len(entries) for states in groups.values() for entries in states.values())
        return count

    def state(self, descriptor: StateDescriptor, key: Any) -> Any:
        """Return a key's state, to be read or written at once: its key changes with the next record or call.

        Raises:
            ConfigurationError: If the operator has no state by key.
        """
        group = key_group(key, self._node.max_parallelism)
        operator = self.operators[subtask_of(group, self._node.max_parallelism, self._node.parallelism)]
        state = operator.context.keyed_state
        if state is None:
            raise ConfigurationError(
                f'operator "{self._node.name}" has no state by key', hint="Call key_by(...) before it."
            )
        state.current_key = canonical_key(key)
        return state.get_state(descriptor)

    def counter(self, name: str) -> int:
        """Return what a counter has come to in all subtasks; this ends the epoch.

        Args:
            name: `numLateRecordsDropped`, or the name of a counter that a function has made, behind those of its
                groups: `parser.broken`.

        Returns:
            The count; 0 if no such counter has counted.
        """
        self.end_epoch()
        own = [count for (_, counter), count in self._own_counters.items() if counter == name]
        return self._counters.get(name, 0) + sum(own)

    def accumulator(self, name: str) -> Any:
        """Return what functions have added to an accumulator, over all subtasks.

        Raises:
            ConfigurationError: If no function has one of that name.
        """
        found = [operator.context.accumulators.get(name) for operator in self.operators]
        parts = [each for each in found if each is not None]
        if not parts:
            raise ConfigurationError(f'no function has an accumulator "{name}"')
        return merge_accumulators(parts)

    # Checkpoints

    def snapshot(self, *, incremental: bool = False) -> OperatorSnapshot:
        """Return what the next checkpoint would hold; the operator goes on.

        Args:
            incremental: Write what changed since the last snapshot only, where the operator can tell; the files of that
                one are part of this one. Changes are known if the options ask for checkpoints, as in
                `{"execution.checkpointing.interval": "1 s"}`.
        """
        self._checkpoint_id += 1
        patched = incremental and self._chains is not None
        chains = self._chains if patched and self._chains is not None else [()] * len(self.operators)
        self._chains = [
            (*chain, self._write(index, operator, patched=patched))
            for index, (chain, operator) in enumerate(zip(chains, self.operators, strict=True))
        ]
        return OperatorSnapshot(self._checkpoint_id, tuple(self._chains), self._node.max_parallelism)

    def _write(self, index: int, operator: Operator, *, patched: bool) -> bytes:
        """Return the state file of a subtask."""
        self._end_epoch(operator, checkpoint=True)
        begin_checkpoint(operator, self._node, self._checkpoint_id, self._time.now_ms)
        writer = StateFileWriter()
        add_operator_state(writer, self._node, index, operator, patched=patched)
        return writer.finish()

    def complete_checkpoint(self) -> None:
        """Tell functions (`CheckpointListener`) that the checkpoint of the last snapshot is complete."""
        for operator in self.operators:
            if operator.context.operator_state is not None:
                operator.context.operator_state.notify_complete(self._checkpoint_id)

    def _restore(self, snapshot: OperatorSnapshot) -> None:
        if self._node.spec.is_keyed and snapshot.max_parallelism != self._node.max_parallelism:
            raise ConfigurationError(
                f"a snapshot with {snapshot.max_parallelism} key groups was restored with "
                f"{self._node.max_parallelism}",
                hint=f"Give the harness max_parallelism={snapshot.max_parallelism}: it is fixed for state.",
            )
        stores = MemoryStores()
        store = stores(_STORE)
        state = tuple(
            StateFile(store.write(f"files/{slot}-{number}", data), slot, is_delta=number > 0)
            for slot, chain in enumerate(snapshot.files)
            for number, data in enumerate(chain)
        )
        parallelism = {_OPERATOR_ID: len(snapshot.files)}
        order = RestoreOrder(_STORE, snapshot.checkpoint_id, state, parallelism)
        saved = SavedState(order, stores)
        for index, operator in enumerate(self.operators):
            restore_operator(saved, self._node, index, operator)

    # The end

    def close(self) -> None:
        """Close the functions; once is enough, more do nothing."""
        if self._closed:
            return
        self._closed = True
        for operator in self.operators:
            operator.close()
        for state in self._states():
            state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _states(self) -> list[KeyedStateBackend]:
        states = [operator.context.keyed_state for operator in self.operators]
        return [state for state in states if state is not None]


def _node(declared: DeclaredOperator, parallelism: int, max_parallelism: int) -> StreamNode:
    return StreamNode(
        id=1,
        operator_id=_OPERATOR_ID,
        name=declared.name,
        spec=declared.spec,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        chaining=ChainingStrategy.ALWAYS,
        slot_sharing_group=DEFAULT_GROUP,
        uid=None,
        description=None,
    )


def _merger(operator: Operator, declared: DeclaredOperator) -> ChannelMerger:
    """Return what brings an operator's inputs together, as in a subtask."""
    columnar = declared.spec.takes_columns
    merger = ChannelMerger(
        {ChannelId(number, 0): each.index for number, each in enumerate(declared.inputs)},
        [counted(operator, handler, takes_columns=columnar) for handler in operator.batch_handlers()],
        operator.process_watermark,
        operator.process_status,
    )
    merger.restore(operator.watermark_ms)
    return merger


def _resolve(partitioning: Partitioning | None, parallelism: int) -> Partitioning:
    return partitioning or (Forward() if parallelism == 1 else Rebalance())
