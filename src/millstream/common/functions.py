"""What users implement (PyFlink's `pyflink.datastream.functions`).

Every function may be a plain callable instead, where that makes sense. A function instance lives as long
as the attempt of its subtask: `open` is called once before the first record and `close` once at the end,
both on the thread that calls everything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from millstream.base.type_variables import ACC, IN, OUT, K, V, W

if TYPE_CHECKING:
    from millstream.common.accumulators import (
        Accumulator,
        DoubleCounter,
        Histogram,
        IntCounter,
        LongCounter,
    )
    from millstream.common.distributed_cache import DistributedCache
    from millstream.common.output_tag import OutputTag
    from millstream.common.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        OperatorStateStore,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from millstream.common.windows import Window
    from millstream.metrics.groups import MetricGroup

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "TimeDomain",
    "TimerService",
    "WindowFunction",
]


class TimeDomain(Enum):
    """Whether a timer follows event time or the clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class KeyedStateStore(ABC):
    """Hands out keyed state."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of that name.

        Raises:
            StateAccessError: If the stream is not keyed.
            ConfigurationError: If it is another kind of descriptor, or the name is taken by another kind of
                state. The other getters raise the same.
        """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of that name."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of that name."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of that name."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return the aggregating state of that name."""


class RuntimeContext(KeyedStateStore):
    """What a function may ask about the subtask it runs in."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the operator's name."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the operator's parallelism."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the subtask's index, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the attempt's number, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with `(index+1/parallelism)`."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group that the function makes its metrics in."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator (Java's `addAccumulator`).

        Raises:
            ConfigurationError: If the operator has one of that name, or it is none.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any, Any] | None:
        """Return an accumulator that this operator registered, None if there is none of that name."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Return the IntCounter of that name; the first call registers it.

        Raises:
            ConfigurationError: If the name is taken by another class. The other getters raise the same.
        """

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """Return the LongCounter of that name; the first call registers it."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return the DoubleCounter of that name; the first call registers it."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """Return the accumulator Histogram of that name; the first call registers it."""

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """Return the files of `register_cached_file` (Java's `getDistributedCache`)."""


class Function(ABC):
    """Base of all user functions; their types may be told in brackets, as `WindowFunction[In, Out, Key, Window]`."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def open(self, runtime_context: RuntimeContext) -> Any:
        """Called once before the first record; what it returns does not count (an `AsyncFunction`'s is awaited)."""

    def close(self) -> Any:
        """Called once after the last record, also when the job fails; what it returns does not count either."""


class FunctionInitializationContext(ABC):
    """What a function may ask while its state is initialised."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether there is state of an earlier attempt or job."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint that the state comes from; None if it begins empty."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return operator state: of this subtask, not of a key."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return keyed state; only on keyed streams."""


class FunctionSnapshotContext(ABC):
    """What a function may ask about the checkpoint that is being made."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the checkpoint's id: the number of the epoch that it ends."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the checkpoint's time, epoch milliseconds."""


class CheckpointedFunction(ABC):
    """A function with state of its subtask (Java's `CheckpointedFunction`); mix it into a function.

    Example::

        class Buffer(SinkFunction, CheckpointedFunction):
            def initialize_state(self, context):
                self._saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffer"))
                self._buffer = list(self._saved.get())

            def snapshot_state(self, context):
                self._saved.update(self._buffer)
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state, and take from it what an earlier attempt left; called once, before `open`."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into the state what has to survive; called at the end of each epoch with a checkpoint."""


class CheckpointListener(ABC):
    """A function that is told of checkpoints (Java's `CheckpointListener`); mix it into a function."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete: it, or a later one, is what a failed job begins from again.

        Called with the next epoch; not at all if the job fails or ends before it.
        """


class MapFunction(Function, Generic[IN, OUT]):
    """One record in, one out."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Return the record to emit."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Yield the records to emit."""


class FilterFunction(Function, Generic[IN]):
    """Keeps or drops records."""

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Return whether to keep the record."""


class ReduceFunction(Function, Generic[V]):
    """Combines two records into one of the same type."""

    @abstractmethod
    def reduce(self, value1: V, value2: V) -> V:
        """Return the combination of what was reduced so far and the next record."""


class KeySelector(Function, Generic[IN, OUT]):
    """Gives a record's key."""

    @abstractmethod
    def get_key(self, value: IN) -> OUT:
        """Return the key; hashable, and the same for the same record at any time."""


class Partitioner(Function):
    """Chooses the partition for a key."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition's index, in `[0, num_partitions)`."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Folds records into an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return a new, empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with `value` added; may change and return the given one."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result for an accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Return both accumulators combined; for session and sliding windows."""


class TimerService(ABC):
    """Time and timers of a process function."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the epoch's processing time in epoch milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the event-time watermark in epoch milliseconds; -2**63 before the first."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the clock reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a processing-time timer; nothing happens if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove an event-time timer; nothing happens if there is none."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Any logic for each record, with access to time and side outputs."""

    class Context(ABC):
        """What a record comes with."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return time and timers; only keyed streams have timers."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's event time in epoch milliseconds, -2**63 if it has none."""

    @abstractmethod
    def process_element(
        self, value: IN, ctx: ProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield records to emit, or `(OutputTag, record)` for a side output."""


class KeyedProcessFunction(Function, Generic[IN, OUT, K]):
    """Any logic for each record of a keyed stream, with state and timers."""

    class Context(ProcessFunction.Context, ABC):
        """What a record comes with."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

    class OnTimerContext(Context, ABC):
        """What a timer comes with."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return which kind of timer fired."""

    @abstractmethod
    def process_element(
        self, value: IN, ctx: KeyedProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield records to emit, or `(OutputTag, record)` for a side output."""

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Called when a timer fires; yields as `process_element` does."""
        return None


class WindowFunction(Function, Generic[IN, OUT, K, W]):
    """Makes results from all records of a window."""

    @abstractmethod
    def apply(self, key: K, window: W, inputs: Iterable[IN]) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield the results of one window of one key."""


class ProcessWindowFunction(Function, Generic[IN, OUT, K, W]):
    """Makes results from all records of a window, with access to time, state and side outputs."""

    class Context(ABC):
        """What a firing comes with."""

        __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

        @abstractmethod
        def window(self) -> Window:
            """Return the window that fired."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in epoch milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in epoch milliseconds."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return state of this key and window; cleared in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return state of this key over all windows."""

    @abstractmethod
    def process(
        self, key: K, context: ProcessWindowFunction.Context, elements: Iterable[IN]
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield the results of one window of one key."""

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """Clear per-window state; called when the window is cleaned up."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes results from all records of a window of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield the results of one window."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes results from all records of a window of a stream without keys, with state and side outputs."""

    class Context(ABC):
        """What a firing comes with."""

        __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

        @abstractmethod
        def window(self) -> Window:
            """Return the window that fired."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return state of this window; cleared in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return state over all windows."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context, elements: Iterable[IN]
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield the results of one window."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:
        """Clear per-window state; called when the window is cleaned up."""


class SinkFunction(Function, Generic[IN]):
    """Takes records out of the job, one by one, at least once."""

    class Context(ABC):
        """What a function may ask about the record that it is given; valid during that call."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's timestamp, epoch milliseconds; None if it has none."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark, epoch milliseconds; `MIN_TIMESTAMP` before the first."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time, epoch milliseconds."""

    @abstractmethod
    def invoke(self, value: IN, *args: Any, **kwargs: Any) -> None:
        """Write one record: `invoke(self, value)` or, with a `SinkFunction.Context`, `invoke(self, value, context)`."""

    def finish(self) -> None:
        """Write what is still held back; called once, when no record will follow. Not called after a failure."""


SideOutput = "tuple[OutputTag, Any]"
