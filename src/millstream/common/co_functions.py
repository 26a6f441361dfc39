"""What users implement for two streams at once: connected, with broadcast state, joined.

The first group has PyFlink's names and signatures (`pyflink.datastream.functions`); joins are Java Flink's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic

from millstream.base.type_variables import IN1, IN2, OUT, K
from millstream.common.functions import Function, KeyedProcessFunction, ProcessFunction, TimerService

if TYPE_CHECKING:
    from millstream.common.functions import TimeDomain
    from millstream.common.output_tag import OutputTag
    from millstream.common.state import (
        BroadcastState,
        MapStateDescriptor,
        ReadOnlyBroadcastState,
        StateDescriptor,
    )

__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FlatJoinFunction",
    "JoinFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "ProcessJoinFunction",
]


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One record of either stream in, at most one out.

    Example:
        >>> from millstream.datastream.functions import CoMapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Cents(CoMapFunction):
        ...     def map1(self, value):
        ...         return value * 100  # euros
        ...     def map2(self, value):
        ...         return value  # cents
        >>> harness = OperatorHarness(lambda euros, cents: euros.connect(cents).map(Cents()), inputs=2)
        >>> harness.push(3); harness.push(250, input=1)
        >>> harness.take()
        [300, 250]
    """

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Return the record to emit for one of the first stream; None emits nothing."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Return the record to emit for one of the second stream; None emits nothing."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One record of either stream in, any number out.

    Example:
        >>> from millstream.datastream.functions import CoFlatMapFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Words(CoFlatMapFunction):
        ...     def flat_map1(self, value):
        ...         return value.split()
        ...     def flat_map2(self, value):
        ...         yield str(value)
        >>> harness = OperatorHarness(lambda texts, ids: texts.connect(ids).flat_map(Words()), inputs=2)
        >>> harness.push("to be"); harness.push(7, input=1)
        >>> harness.take()
        ['to', 'be', '7']
    """

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Yield the records to emit for one of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Yield the records to emit for one of the second stream."""


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Any logic for each record of two streams, with access to time and side outputs.

    Example:
        >>> from millstream.datastream.functions import CoProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Both(CoProcessFunction):
        ...     def process_element1(self, value, ctx):
        ...         yield "order", value, ctx.timestamp()
        ...     def process_element2(self, value, ctx):
        ...         yield "payment", value, ctx.timestamp()
        >>> harness = OperatorHarness(lambda orders, paid: orders.connect(paid).process(Both()), inputs=2)
        >>> harness.push(7, timestamp=1_000); harness.push(7, timestamp=4_000, input=1)
        >>> harness.take()
        [('order', 7, 1000), ('payment', 7, 4000)]
    """

    class Context(ProcessFunction.Context, ABC):
        """What a record comes with."""

    @abstractmethod
    def process_element1(
        self, value: IN1, ctx: CoProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a record of the first stream; yield records, or `(OutputTag, record)` for a side output."""

    @abstractmethod
    def process_element2(
        self, value: IN2, ctx: CoProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a record of the second stream; yields as `process_element1` does."""

    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Called when a timer fires, as in Java Flink; only where both streams are keyed there are timers."""
        return None


class KeyedCoProcessFunction(Function, Generic[IN1, IN2, OUT, K]):
    """Any logic for each record of two keyed streams: state and timers of a key are shared by both.

    Example:
        >>> from millstream.datastream.functions import KeyedCoProcessFunction
        >>> from millstream.datastream.state import ValueStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Unpaid(KeyedCoProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.due = runtime_context.get_state(ValueStateDescriptor("due"))
        ...     def process_element1(self, value, ctx):  # an order
        ...         self.due.update(ctx.timestamp() + 60_000)
        ...         ctx.timer_service().register_event_time_timer(self.due.value())
        ...     def process_element2(self, value, ctx):  # its payment
        ...         ctx.timer_service().delete_event_time_timer(self.due.value())
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"order {ctx.get_current_key()} was not paid"
        >>> harness = OperatorHarness(
        ...     lambda orders, paid: orders.connect(paid).key_by(lambda o: o, lambda p: p).process(Unpaid()),
        ...     inputs=2,
        ... )
        >>> harness.push(7, timestamp=0); harness.push(8, timestamp=0)
        >>> harness.push(7, timestamp=5_000, input=1)
        >>> harness.push_watermark(60_000)
        >>> harness.take()
        ['order 8 was not paid']
    """

    class Context(KeyedProcessFunction.Context, ABC):
        """What a record comes with."""

    class OnTimerContext(Context, KeyedProcessFunction.OnTimerContext, ABC):
        """What a timer comes with."""

    @abstractmethod
    def process_element1(
        self, value: IN1, ctx: KeyedCoProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a record of the first stream; yield records, or `(OutputTag, record)` for a side output."""

    @abstractmethod
    def process_element2(
        self, value: IN2, ctx: KeyedCoProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a record of the second stream; yields as `process_element1` does."""

    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Called when a timer fires; yields as `process_element1` does."""
        return None


class BaseBroadcastProcessFunction(Function):
    """What the two kinds of broadcast process functions have in common.

    Example:
        >>> from millstream.datastream import functions
        >>> kinds = functions.BroadcastProcessFunction, functions.KeyedBroadcastProcessFunction
        >>> [issubclass(kind, functions.BaseBroadcastProcessFunction) for kind in kinds]
        [True, True]
    """

    class BaseContext(ABC):
        """What every call comes with."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record or timer in epoch milliseconds, -2**63 if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the epoch's processing time in epoch milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the event-time watermark in epoch milliseconds; -2**63 before the first."""

    class Context(BaseContext, ABC):
        """What a broadcast record comes with: broadcast state to read and write."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return the broadcast state of that name.

            Raises:
                StateAccessError: If the descriptor was not given to `broadcast(...)`.
            """

    class ReadOnlyContext(BaseContext, ABC):
        """What a record of the other stream comes with: broadcast state to read."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a view of the broadcast state of that name.

            Raises:
                StateAccessError: If the descriptor was not given to `broadcast(...)`.
            """


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Any logic for a stream without keys and a broadcast one.

    Example:
        >>> from millstream.datastream.functions import BroadcastProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> names = MapStateDescriptor("names")
        >>> class Named(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(names).put(*value)
        ...     def process_element(self, value, ctx):
        ...         yield ctx.get_broadcast_state(names).get(value) or "nobody"
        >>> harness = OperatorHarness(
        ...     lambda ids, people: ids.connect(people.broadcast(names)).process(Named()), inputs=2
        ... )
        >>> harness.push((7, "ann"), input=1)
        >>> harness.push(7); harness.push(8)
        >>> harness.take()
        ['ann', 'nobody']
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What a broadcast record comes with."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What a record of the other stream comes with."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a record of the stream that is not broadcast; yields records or `(OutputTag, record)`."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: BroadcastProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a broadcast record; called in every subtask, and has to do the same in each.

        Yields as `process_element` does: what it yields comes once from every subtask.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT, K]):
    """Any logic for a keyed stream and a broadcast one.

    Example:
        >>> from millstream.datastream.functions import KeyedBroadcastProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> limits = MapStateDescriptor("limits")
        >>> class OverLimit(KeyedBroadcastProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.spent = runtime_context.get_state(ValueStateDescriptor("spent"))
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(limits).put("limit", value)
        ...     def process_element(self, value, ctx):
        ...         self.spent.update((self.spent.value() or 0) + value[1])
        ...         if self.spent.value() > ctx.get_broadcast_state(limits).get("limit"):
        ...             yield ctx.get_current_key(), self.spent.value()
        >>> def over_limit(rows, rules):
        ...     return rows.key_by(lambda row: row[0]).connect(rules.broadcast(limits)).process(OverLimit())
        >>> harness = OperatorHarness(over_limit, inputs=2)
        >>> harness.push(100, input=1)
        >>> harness.push(("ann", 60)); harness.push(("bob", 90)); harness.push(("ann", 50))
        >>> harness.take()
        [('ann', 110)]
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What a broadcast record comes with; there is no current key."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
        ) -> None:
            """Call `function(key, state)` for every key of this subtask that has a value in a keyed state.

            The function may change or clear the state of the key it is given.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What a record of the keyed stream comes with."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return time and timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """What a timer comes with."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return which kind of timer fired."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a record of the keyed stream, with its key's state; yields records or `(OutputTag, record)`."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Take a broadcast record; called in every subtask, and has to do the same in each.

        Yields as `process_element` does: what it yields comes once from every subtask.
        """

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Called when a timer fires; yields as `process_element` does."""
        return None


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes one record of a pair.

    Example:
        >>> from millstream.common import Time, WatermarkStrategy
        >>> from millstream.datastream.functions import JoinFunction
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import MiniCluster
        >>> class Paid(JoinFunction):
        ...     def join(self, first, second):
        ...         return first["id"], first["of"], second["paid"]
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     orders = env.from_collection([{"id": 7, "of": "tea", "at": 1_000}])
        ...     paid = env.from_collection([{"id": 7, "paid": 3, "at": 2_000}])
        ...     joined = (
        ...         orders.assign_timestamps_and_watermarks(strategy)
        ...         .join(paid.assign_timestamps_and_watermarks(strategy))
        ...         .where(lambda order: order["id"]).equal_to(lambda payment: payment["id"])
        ...         .window(TumblingEventTimeWindows.of(Time.seconds(10))).apply(Paid())
        ...     )
        ...     cluster.collect(joined)
        [(7, 'tea', 3)]
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Return the record to emit."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes any number of records of a pair.

    Example:
        >>> from millstream.datastream.functions import FlatJoinFunction
        >>> class Changed(FlatJoinFunction):
        ...     def join(self, first, second):
        ...         if first["price"] != second["price"]:
        ...             yield second["price"] - first["price"]
        >>> list(Changed().join({"price": 3}, {"price": 5})), list(Changed().join({"price": 3}, {"price": 3}))
        ([2], [])
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Yield the records to emit."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes results of all records that two streams have for a key in a window; one side may be empty.

    Example:
        >>> from millstream.common import Time, WatermarkStrategy
        >>> from millstream.datastream.functions import CoGroupFunction
        >>> from millstream.datastream.window import TumblingEventTimeWindows
        >>> from millstream.testing import MiniCluster
        >>> class Counts(CoGroupFunction):
        ...     def co_group(self, first, second):
        ...         yield len(list(first)), len(list(second))
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     orders = env.from_collection([{"id": 7, "at": 1_000}, {"id": 8, "at": 1_500}])
        ...     paid = env.from_collection([{"id": 7, "at": 2_000}, {"id": 7, "at": 3_000}])
        ...     grouped = (
        ...         orders.assign_timestamps_and_watermarks(strategy)
        ...         .co_group(paid.assign_timestamps_and_watermarks(strategy))
        ...         .where(lambda order: order["id"]).equal_to(lambda payment: payment["id"])
        ...         .window(TumblingEventTimeWindows.of(Time.seconds(10))).apply(Counts())
        ...     )
        ...     sorted(cluster.collect(grouped))
        [(1, 0), (1, 2)]
    """

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None:
        """Yield the records to emit."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Any logic for each pair of an interval join.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.functions import ProcessJoinFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Paid(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
        >>> def paid_orders(orders, payments):
        ...     pairs = orders.key_by(lambda o: o["id"]).interval_join(payments.key_by(lambda p: p["id"]))
        ...     return pairs.between(Time.seconds(0), Time.minutes(5)).process(Paid())
        >>> harness = OperatorHarness(paid_orders, inputs=2)
        >>> harness.push({"id": 7}, timestamp=1_000)
        >>> harness.push({"id": 7, "paid": 3}, timestamp=31_000, input=1)
        >>> harness.take()
        [({'id': 7}, {'id': 7, 'paid': 3}, 30000)]
    """

    class Context(ABC):
        """What a pair comes with."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the left record's time in epoch milliseconds."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the right record's time in epoch milliseconds."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the pair's time, the later one of both."""

    @abstractmethod
    def process_element(
        self, left: IN1, right: IN2, ctx: ProcessJoinFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield records to emit, or `(OutputTag, record)` for a side output."""
