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
    """One record of either stream in, at most one out."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Return the record to emit for one of the first stream; None emits nothing."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Return the record to emit for one of the second stream; None emits nothing."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One record of either stream in, any number out."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Yield the records to emit for one of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Yield the records to emit for one of the second stream."""


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Any logic for each record of two streams, with access to time and side outputs."""

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
    """Any logic for each record of two keyed streams: state and timers of a key are shared by both."""

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
    """What the two kinds of broadcast process functions have in common."""

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
    """Any logic for a stream without keys and a broadcast one."""

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
    """Any logic for a keyed stream and a broadcast one."""

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
    """Makes one record of a pair."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Return the record to emit."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes any number of records of a pair."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Yield the records to emit."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes results of all records that two streams have for a key in a window; one side may be empty."""

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None:
        """Yield the records to emit."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Any logic for each pair of an interval join."""

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
