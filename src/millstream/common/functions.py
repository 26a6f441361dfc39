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
    """Whether a timer follows event time or the clock.

    Example:
        >>> from millstream.datastream import TimeDomain
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Ring(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         ctx.timer_service().register_event_time_timer(50)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.time_domain()
        >>> harness = OperatorHarness(lambda stream: stream.key_by(lambda value: value).process(Ring()))
        >>> harness.push("clock", timestamp=0); harness.push_watermark(50)
        >>> harness.take()
        [<TimeDomain.EVENT_TIME: 0>]
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class KeyedStateStore(ABC):
    """Hands out keyed state.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class First(KeyedProcessFunction):
        ...     def open(self, runtime_context):  # the runtime context is such a store
        ...         self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))
        ...     def process_element(self, value, ctx):
        ...         if not self.seen.contains(value[1]):
        ...             self.seen.put(value[1], True)
        ...             yield value
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).process(First()))
        >>> for row in ("ann", "tea"), ("bob", "tea"), ("ann", "tea"):
        ...     harness.push(row)
        >>> harness.take()
        [('ann', 'tea'), ('bob', 'tea')]
    """

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
    """What a function may ask about the subtask it runs in.

    Example:
        >>> from millstream.datastream.functions import MapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Tagged(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.index = runtime_context.get_index_of_this_subtask()
        ...         self.seen = runtime_context.get_int_counter("seen")
        ...     def map(self, value):
        ...         self.seen.add(1)
        ...         return self.index, value
        >>> harness = OperatorHarness(lambda words: words.map(Tagged()), parallelism=2)
        >>> harness.push("to"); harness.push("be")
        >>> harness.take(), harness.accumulator("seen")
        ([(0, 'to'), (1, 'be')], 2)
    """

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
    """Base of all user functions; their types may be told in brackets, as `WindowFunction[In, Out, Key, Window]`.

    Example:
        >>> from millstream.datastream.functions import MapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Prices(MapFunction[str, int]):
        ...     def open(self, runtime_context):
        ...         self.prices = {"tea": 3}  # once in each subtask: connections, models, state
        ...     def map(self, value):
        ...         return self.prices[value]
        ...     def close(self):
        ...         print("closed")
        >>> with OperatorHarness(lambda things: things.map(Prices())) as harness:
        ...     harness.push("tea")
        ...     harness.take()
        [3]
        closed
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def open(self, runtime_context: RuntimeContext) -> Any:
        """Called once before the first record; what it returns does not count (an `AsyncFunction`'s is awaited)."""

    def close(self) -> Any:
        """Called once after the last record, also when the job fails; what it returns does not count either."""


class FunctionInitializationContext(ABC):
    """What a function may ask while its state is initialised.

    Example:
        >>> from millstream.datastream.functions import CheckpointedFunction, MapFunction
        >>> from millstream.datastream.state import ListStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Counted(MapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         store = context.get_operator_state_store()
        ...         self.saved = store.get_list_state(ListStateDescriptor("count"))
        ...         self.count = sum(self.saved.get()) if context.is_restored() else 0
        ...     def snapshot_state(self, context):
        ...         self.saved.update([self.count])
        ...     def map(self, value):
        ...         self.count += 1
        ...         return self.count
        >>> first = OperatorHarness(lambda words: words.map(Counted()))
        >>> first.push("to"); first.push("be")
        >>> second = OperatorHarness(lambda words: words.map(Counted()), restore=first.snapshot())
        >>> second.push("or")
        >>> second.take()
        [3]
    """

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
    """What a function may ask about the checkpoint that is being made.

    Example:
        >>> from millstream.datastream.functions import CheckpointedFunction, MapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Told(MapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         pass
        ...     def snapshot_state(self, context):
        ...         print("checkpoint", context.get_checkpoint_id())
        ...     def map(self, value):
        ...         return value
        >>> harness = OperatorHarness(lambda words: words.map(Told()))
        >>> snapshot = harness.snapshot()
        checkpoint 1
    """

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the checkpoint's id: the number of the epoch that it ends."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the checkpoint's time, epoch milliseconds."""


class CheckpointedFunction(ABC):
    """A function with state of its subtask (Java's `CheckpointedFunction`); mix it into a function.

    Example:
        >>> from millstream.datastream.functions import CheckpointedFunction, FlatMapFunction
        >>> from millstream.datastream.state import ListStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Pairs(FlatMapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         store = context.get_operator_state_store()
        ...         self.saved = store.get_list_state(ListStateDescriptor("waiting"))
        ...         self.waiting = list(self.saved.get())
        ...     def snapshot_state(self, context):
        ...         self.saved.update(self.waiting)
        ...     def flat_map(self, value):
        ...         self.waiting.append(value)
        ...         if len(self.waiting) == 2:
        ...             yield tuple(self.waiting)
        ...             self.waiting.clear()
        >>> before = OperatorHarness(lambda words: words.flat_map(Pairs()))
        >>> before.push("to")
        >>> after = OperatorHarness(lambda words: words.flat_map(Pairs()), restore=before.snapshot())
        >>> after.push("be")
        >>> after.take()
        [('to', 'be')]
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state, and take from it what an earlier attempt left; called once, before `open`."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into the state what has to survive; called at the end of each epoch with a checkpoint."""


class CheckpointListener(ABC):
    """A function that is told of checkpoints (Java's `CheckpointListener`); mix it into a function.

    Example:
        >>> from millstream.datastream.functions import CheckpointListener, MapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Acknowledged(MapFunction, CheckpointListener):
        ...     def map(self, value):
        ...         return value
        ...     def notify_checkpoint_complete(self, checkpoint_id):
        ...         print("checkpoint", checkpoint_id, "is safe")
        >>> harness = OperatorHarness(lambda messages: messages.map(Acknowledged()))
        >>> harness.push("hello")
        >>> snapshot = harness.snapshot()
        >>> harness.complete_checkpoint()
        checkpoint 1 is safe
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete: it, or a later one, is what a failed job begins from again.

        Called with the next epoch; not at all if the job fails or ends before it. Sinks may be committing still what
        the checkpoint holds.
        """


class MapFunction(Function, Generic[IN, OUT]):
    """One record in, one out.

    Example:
        >>> from millstream.datastream.functions import MapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Celsius(MapFunction):
        ...     def map(self, value):
        ...         return round((value - 32) / 1.8, 1)
        >>> harness = OperatorHarness(lambda degrees: degrees.map(Celsius()))
        >>> harness.push(212); harness.push(50)
        >>> harness.take()
        [100.0, 10.0]
    """

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Return the record to emit."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """One record in, any number out.

    Example:
        >>> from millstream.datastream.functions import FlatMapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Words(FlatMapFunction):
        ...     def flat_map(self, value):
        ...         yield from value.lower().split()
        >>> harness = OperatorHarness(lambda lines: lines.flat_map(Words()))
        >>> harness.push("To be"); harness.push(""); harness.push("or not")
        >>> harness.take()
        ['to', 'be', 'or', 'not']
    """

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Yield the records to emit."""


class FilterFunction(Function, Generic[IN]):
    """Keeps or drops records.

    Example:
        >>> from millstream.datastream.functions import FilterFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Large(FilterFunction):
        ...     def filter(self, value):
        ...         return value >= 100
        >>> harness = OperatorHarness(lambda amounts: amounts.filter(Large()))
        >>> harness.push(99); harness.push(100)
        >>> harness.take()
        [100]
    """

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Return whether to keep the record."""


class ReduceFunction(Function, Generic[V]):
    """Combines two records into one of the same type.

    Example:
        >>> from millstream.datastream.functions import ReduceFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Latest(ReduceFunction):
        ...     def reduce(self, value1, value2):
        ...         return max(value1, value2, key=lambda reading: reading["at"])
        >>> harness = OperatorHarness(
        ...     lambda readings: readings.key_by(lambda reading: reading["sensor"]).reduce(Latest())
        ... )
        >>> harness.push({"sensor": "door", "at": 9, "value": 20})
        >>> harness.push({"sensor": "door", "at": 5, "value": 18})
        >>> harness.take()[-1]
        {'sensor': 'door', 'at': 9, 'value': 20}
    """

    @abstractmethod
    def reduce(self, value1: V, value2: V) -> V:
        """Return the combination of what was reduced so far and the next record."""


class KeySelector(Function, Generic[IN, OUT]):
    """Gives a record's key.

    Example:
        >>> from millstream.datastream.functions import KeySelector
        >>> from millstream.testing import OperatorHarness
        >>> class Carrier(KeySelector):
        ...     def get_key(self, value):
        ...         return value[0]
        >>> harness = OperatorHarness(lambda flights: flights.key_by(Carrier()).max(1))
        >>> for flight in ("UA", 5), ("AA", 9), ("UA", 2):
        ...     harness.push(flight)
        >>> harness.take()
        [('UA', 5), ('AA', 9), ('UA', 5)]
    """

    @abstractmethod
    def get_key(self, value: IN) -> OUT:
        """Return the key; hashable, and the same for the same record at any time."""


class Partitioner(Function):
    """Chooses the partition for a key.

    Example:
        >>> from millstream.datastream.functions import Partitioner
        >>> class ByFirstLetter(Partitioner):
        ...     def partition(self, key, num_partitions):
        ...         return ord(key[0]) % num_partitions
        >>> ByFirstLetter().partition("abc", 4)
        1
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> words = StreamExecutionEnvironment.get_execution_environment().from_collection(["be", "not"])
        >>> dealt = words.partition_custom(ByFirstLetter(), lambda word: word)
    """

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition's index, in `[0, num_partitions)`."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Folds records into an accumulator.

    Example:
        >>> from millstream.datastream.functions import AggregateFunction
        >>> from millstream.datastream.window import CountTumblingWindowAssigner
        >>> from millstream.testing import OperatorHarness
        >>> class Average(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0, 0
        ...     def add(self, value, accumulator):
        ...         return accumulator[0] + value[1], accumulator[1] + 1
        ...     def get_result(self, accumulator):
        ...         return accumulator[0] / accumulator[1]
        ...     def merge(self, acc_a, acc_b):
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> windows = CountTumblingWindowAssigner.of(2)
        >>> harness = OperatorHarness(
        ...     lambda rows: rows.key_by(lambda row: row[0]).window(windows).aggregate(Average())
        ... )
        >>> harness.push(("ann", 10)); harness.push(("bob", 7)); harness.push(("ann", 20))
        >>> harness.take()
        [15.0]
    """

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
    """Time and timers of a process function.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Remind(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         timers = ctx.timer_service()
        ...         timers.register_processing_time_timer(timers.current_processing_time() + 1_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield timestamp, ctx.get_current_key()
        >>> harness = OperatorHarness(
        ...     lambda tasks: tasks.key_by(lambda task: task).process(Remind()), processing_time=500
        ... )
        >>> harness.push("water the plants"); harness.set_processing_time(1_500)
        >>> harness.take()
        [(1500, 'water the plants')]
    """

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
    """Any logic for each record, with access to time and side outputs.

    Example:
        >>> from millstream.datastream.functions import ProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Delays(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         if value["delay"] > 0:
        ...             yield value["flight"], value["delay"], ctx.timestamp()
        >>> harness = OperatorHarness(lambda flights: flights.process(Delays()))
        >>> harness.push({"flight": 1545, "delay": 2}, timestamp=1_000)
        >>> harness.push({"flight": 1714, "delay": -4}, timestamp=2_000)
        >>> harness.take()
        [(1545, 2, 1000)]
    """

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
    """Any logic for each record of a keyed stream, with state and timers.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import ValueStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Silent(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.due = runtime_context.get_state(ValueStateDescriptor("due"))
        ...     def process_element(self, value, ctx):
        ...         if self.due.value() is not None:
        ...             ctx.timer_service().delete_event_time_timer(self.due.value())
        ...         self.due.update(ctx.timestamp() + 60_000)
        ...         ctx.timer_service().register_event_time_timer(self.due.value())
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"{ctx.get_current_key()} is silent"
        >>> harness = OperatorHarness(lambda sensors: sensors.key_by(lambda name: name).process(Silent()))
        >>> for name, time in ("door", 0), ("roof", 0), ("roof", 50_000):
        ...     harness.push(name, timestamp=time)
        >>> harness.push_watermark(60_000)
        >>> harness.take()
        ['door is silent']
    """

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
    """Makes results from all records of a window.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.functions import WindowFunction
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> class Sold(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield key, window.start, len(list(inputs))
        >>> windows = TumblingEventTimeWindows.of(Time.seconds(10))
        >>> harness = OperatorHarness(
        ...     lambda things: things.key_by(lambda name: name).window(windows).apply(Sold())
        ... )
        >>> for time in 1_000, 9_000, 11_000:
        ...     harness.push("tea", timestamp=time)
        >>> harness.push_watermark(20_000)
        >>> harness.take()
        [('tea', 0, 2), ('tea', 10000, 1)]
    """

    @abstractmethod
    def apply(self, key: K, window: W, inputs: Iterable[IN]) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield the results of one window of one key."""


class ProcessWindowFunction(Function, Generic[IN, OUT, K, W]):
    """Makes results from all records of a window, with access to time, state and side outputs.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.functions import ProcessWindowFunction
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> class Median(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         delays = sorted(delay for _, delay in elements)
        ...         yield key, context.window().start, delays[len(delays) // 2]
        >>> hours = TumblingEventTimeWindows.of(Time.hours(1))
        >>> harness = OperatorHarness(
        ...     lambda rows: rows.key_by(lambda row: row[0]).window(hours).process(Median())
        ... )
        >>> for minute, delay in enumerate((2, 40, 3)):
        ...     harness.push(("UA", delay), timestamp=60_000 * minute)
        >>> harness.push_watermark(3_600_000)
        >>> harness.take()
        [('UA', 0, 3)]
    """

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
    """Makes results from all records of a window of a stream without keys.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.functions import AllWindowFunction
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> class Sorted(AllWindowFunction):
        ...     def apply(self, window, inputs):
        ...         yield window.end, sorted(inputs)
        >>> windows = TumblingEventTimeWindows.of(Time.seconds(10))
        >>> harness = OperatorHarness(lambda numbers: numbers.window_all(windows).apply(Sorted()))
        >>> harness.push(8, timestamp=1_000); harness.push(3, timestamp=2_000)
        >>> harness.push_watermark(10_000)
        >>> harness.take()
        [(10000, [3, 8])]
    """

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield the results of one window."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes results from all records of a window of a stream without keys, with state and side outputs.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.functions import ProcessAllWindowFunction
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> class Busiest(ProcessAllWindowFunction):
        ...     def process(self, context, elements):
        ...         yield context.window().start, max(elements, key=lambda row: row[1])
        >>> windows = TumblingEventTimeWindows.of(Time.seconds(10))
        >>> harness = OperatorHarness(lambda rows: rows.window_all(windows).process(Busiest()))
        >>> harness.push(("JFK", 30), timestamp=1_000); harness.push(("EWR", 41), timestamp=2_000)
        >>> harness.push_watermark(10_000)
        >>> harness.take()
        [(0, ('EWR', 41))]
    """

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
    """Takes records out of the job, one by one, at least once.

    Example:
        >>> from millstream.datastream.functions import SinkFunction
        >>> from millstream.testing import MiniCluster
        >>> class Show(SinkFunction):
        ...     def invoke(self, value, context):
        ...         print("sold", value)
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     sink = env.from_collection(["tea", "cake"]).add_sink(Show())
        ...     result = env.execute("shop")
        sold tea
        sold cake
    """

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
