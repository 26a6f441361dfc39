"""Triggers (PyFlink's `pyflink.datastream.window`): when a window fires.

A trigger is asked about each record of each window and about each timer that it has set; what it answers says
whether the window's contents are emitted and whether they are dropped. Triggers are small, immutable and shared
by all keys: what they have to remember goes into `get_partitioned_state`, which is kept for each key and window.

`DeltaTrigger` and `ProcessingTimeoutTrigger` are Java Flink's; PyFlink does not have them.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.common.state import ReducingState, ReducingStateDescriptor, ValueStateDescriptor
from millstream.common.windows import Window
from millstream.operators.windowing.trigger import QuietTrigger, Trigger, TriggerResult, check_trigger

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaFunction",
    "DeltaTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
    "delta_of",
]

# The names cannot clash with those of per-window state, which lives in the same namespace.
_FIRE_TIME = ReducingStateDescriptor("trigger-fire-time", min)
_COUNT = ReducingStateDescriptor("trigger-count", operator.add)
_LAST_ELEMENT = ValueStateDescriptor("trigger-last-element")
_TIMEOUT = ValueStateDescriptor("trigger-timeout")


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Fires once the watermark reaches the end of the window, then again for each late record.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import EventTimeTrigger, TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     seconds = rows.key_by(lambda row: row[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        ...     return seconds.trigger(EventTimeTrigger.create()).sum(1)  # the default of such windows
        >>> harness = OperatorHarness(sums)
        >>> harness.push(("tea", 3), timestamp=100); harness.push(("tea", 4), timestamp=1_100)
        >>> harness.push_watermark(1_500)
        >>> harness.take()
        [('tea', 3)]
    """

    @staticmethod
    def create() -> EventTimeTrigger:
        """Make the trigger."""
        return EventTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire if the window has ended, else wait for its end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the merged window."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Stop waiting."""
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(QuietTrigger):
    """Fires once the clock has passed the end of the window.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import ProcessingTimeTrigger, TumblingProcessingTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     windows = TumblingProcessingTimeWindows.of(Time.seconds(1))
        ...     seconds = rows.key_by(lambda row: row[0]).window(windows)
        ...     return seconds.trigger(ProcessingTimeTrigger.create()).sum(1)  # the default of such windows
        >>> harness = OperatorHarness(sums)
        >>> harness.push(("tea", 3)); harness.push(("tea", 4))
        >>> harness.set_processing_time(1_000)
        >>> harness.take()
        [('tea', 7)]
    """

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Make the trigger."""
        return ProcessingTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the merged window."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Stop waiting."""
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(QuietTrigger):
    """Fires at every full interval of event time, and at the end of the window.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import ContinuousEventTimeTrigger, TumblingEventTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     assigner = TumblingEventTimeWindows.of(Time.minutes(20))
        ...     windows = rows.key_by(lambda row: row[0]).window(assigner)
        ...     return windows.trigger(ContinuousEventTimeTrigger.of(Time.minutes(10))).sum(1)
        >>> harness = OperatorHarness(sums)
        >>> harness.push(("tea", 3), timestamp=60_000)
        >>> harness.push_watermark(600_000)  # ten minutes: what there is so far
        >>> harness.push(("tea", 4), timestamp=660_000)
        >>> harness.push_watermark(1_200_000)
        >>> harness.take()
        [('tea', 3), ('tea', 7)]
    """

    interval: int

    def __post_init__(self) -> None:
        _check_interval(self.interval)

    @staticmethod
    def of(interval: Duration | Time) -> ContinuousEventTimeTrigger:
        """Make the trigger.

        Raises:
            ConfigurationError: If the interval is not positive.
        """
        return ContinuousEventTimeTrigger(to_milliseconds(interval))

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire if the window has ended, else wait for its end and for the next interval."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, fire_time)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the end of the window and of each interval."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return TriggerResult.FIRE

    def register_next_fire_timestamp(
        self,
        time: int,
        window: Window,
        ctx: Trigger.TriggerContext,
        fire_timestamp_state: ReducingState[int],
    ) -> None:
        """Wait for one interval behind `time`, or the end of the window."""
        next_ms = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_ms)
        ctx.register_event_time_timer(next_ms)

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the earliest interval of the windows that merged."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        next_ms = ctx.get_partitioned_state(_FIRE_TIME).get()
        if next_ms is not None:
            ctx.register_event_time_timer(next_ms)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Stop waiting for intervals."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        next_ms = fire_time.get()
        if next_ms is not None:
            ctx.delete_event_time_timer(next_ms)
            fire_time.clear()


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(QuietTrigger):
    """Fires at every full interval of the clock; the last time as the window ends.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import ContinuousProcessingTimeTrigger
        >>> from millstream.datastream.window import TumblingProcessingTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     hours = TumblingProcessingTimeWindows.of(Time.hours(1))
        ...     windows = rows.key_by(lambda row: row[0]).window(hours)
        ...     return windows.trigger(ContinuousProcessingTimeTrigger.of(Time.minutes(1))).sum(1)
        >>> harness = OperatorHarness(sums)
        >>> harness.push(("tea", 3)); harness.set_processing_time(60_001)
        >>> harness.push(("tea", 4)); harness.set_processing_time(120_001)
        >>> harness.take()
        [('tea', 3), ('tea', 7)]
    """

    interval: int

    def __post_init__(self) -> None:
        _check_interval(self.interval)

    @staticmethod
    def of(interval: Duration | Time) -> ContinuousProcessingTimeTrigger:
        """Make the trigger.

        Raises:
            ConfigurationError: If the interval is not positive.
        """
        return ContinuousProcessingTimeTrigger(to_milliseconds(interval))

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the next interval."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is None:
            now_ms = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now_ms - now_ms % self.interval, window, ctx, fire_time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the end of each interval."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return TriggerResult.FIRE

    def register_next_fire_timestamp(
        self,
        time: int,
        window: Window,
        ctx: Trigger.TriggerContext,
        fire_timestamp_state: ReducingState[int],
    ) -> None:
        """Wait for one interval behind `time`, or the end of the window."""
        next_ms = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_ms)
        ctx.register_processing_time_timer(next_ms)

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the earliest interval of the windows that merged."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        next_ms = ctx.get_partitioned_state(_FIRE_TIME).get()
        if next_ms is not None:
            ctx.register_processing_time_timer(next_ms)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Stop waiting."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        next_ms = fire_time.get()
        if next_ms is not None:
            ctx.delete_processing_time_timer(next_ms)
            fire_time.clear()


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Empties the window whenever another trigger fires.

    Raises:
        TypeMismatchError: If `nested_trigger` is not a Trigger.

    Example:
        >>> from millstream.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     trigger = PurgingTrigger.of(CountTrigger.of(2))
        ...     return rows.key_by(lambda row: row[0]).window(GlobalWindows.create()).trigger(trigger).sum(1)
        >>> harness = OperatorHarness(sums)
        >>> for number in 1, 2, 3, 4:
        ...     harness.push(("a", number))
        >>> harness.take()
        [('a', 3), ('a', 7)]
    """

    nested_trigger: Trigger

    def __post_init__(self) -> None:
        check_trigger("PurgingTrigger", self.nested_trigger)

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Make the trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire and purge if the other trigger fires."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire and purge if the other trigger fires."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire and purge if the other trigger fires."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Return whether the other trigger can."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Have the other trigger merge."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Have the other trigger clear."""
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is TriggerResult.FIRE else result


@dataclass(frozen=True)
class CountTrigger(QuietTrigger):
    """Fires each time that a window has got a number of records.

    Example:
        >>> from millstream.datastream.window import CountTrigger, GlobalWindows
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     windows = rows.key_by(lambda row: row[0]).window(GlobalWindows.create())
        ...     return windows.trigger(CountTrigger.of(2)).sum(1)
        >>> harness = OperatorHarness(sums)
        >>> for number in 1, 2, 3, 4:
        ...     harness.push(("a", number))
        >>> harness.take()  # the window keeps what it has: see PurgingTrigger
        [('a', 3), ('a', 10)]
    """

    window_size: int

    def __post_init__(self) -> None:
        if not isinstance(self.window_size, int) or self.window_size < 1:
            raise ConfigurationError(
                f"a CountTrigger was given {self.window_size!r}", detail="It counts up to a positive integer."
            )

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Make the trigger.

        Raises:
            ConfigurationError: If the number is not positive.
        """
        return CountTrigger(window_size)

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Count the record; fire and begin anew at the number."""
        count = ctx.get_partitioned_state(_COUNT)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Add up the counts."""
        ctx.merge_partitioned_state(_COUNT)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forget the count."""
        ctx.get_partitioned_state(_COUNT).clear()


@dataclass(frozen=True)
class NeverTrigger(QuietTrigger):
    """Never fires.

    Example:
        >>> from millstream.datastream.window import GlobalWindows, NeverTrigger
        >>> GlobalWindows.create().get_default_trigger()
        NeverTrigger()
    """

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE


class DeltaFunction(ABC):
    """Measures how far a record is from another (Java Flink's; a callable does as well).

    Example:
        >>> from millstream.datastream.window import DeltaFunction
        >>> class Degrees(DeltaFunction):
        ...     def get_delta(self, old_data_point, new_data_point):
        ...         return abs(new_data_point["degrees"] - old_data_point["degrees"])
        >>> Degrees().get_delta({"degrees": 20}, {"degrees": 17})
        3
    """

    @abstractmethod
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        """Return the distance."""


def delta_of(function: DeltaFunction | Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    """Return what measures.

    Raises:
        TypeMismatchError: If it is neither a DeltaFunction nor a callable.
    """
    if isinstance(function, DeltaFunction):
        return function.get_delta
    if callable(function):
        return function
    raise TypeMismatchError(f"a {type(function).__name__} is not a DeltaFunction, nor can it be called")


@dataclass(frozen=True)
class DeltaTrigger(QuietTrigger):
    """Fires when a record is further than a threshold from the one that fired last (Java Flink's).

    The first record of a window is what the next ones are measured against.

    Attributes:
        threshold: Fires above it.
        delta_function: Measures from the record that fired last, or came first, to the new one.

    Example:
        >>> from millstream.datastream.window import DeltaTrigger, GlobalWindows
        >>> from millstream.testing import OperatorHarness
        >>> def moved(rows):
        ...     trigger = DeltaTrigger.of(5, lambda old, new: abs(new[1] - old[1]))
        ...     windows = rows.key_by(lambda row: row[0]).window(GlobalWindows.create()).trigger(trigger)
        ...     return windows.reduce(lambda one, other: other)
        >>> harness = OperatorHarness(moved)
        >>> for degrees in 20, 22, 27, 26, 33:
        ...     harness.push(("door", degrees))
        >>> harness.take()
        [('door', 27), ('door', 33)]
    """

    threshold: float
    delta_function: DeltaFunction | Callable[[Any, Any], float]

    def __post_init__(self) -> None:
        delta_of(self.delta_function)

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        state_serializer: Any = None,
    ) -> DeltaTrigger:
        """Make the trigger; a serializer is accepted for compatibility.

        Raises:
            TypeMismatchError: If the function is neither a DeltaFunction nor a callable.
        """
        return DeltaTrigger(threshold, delta_function)

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire if the record is far enough from the last one."""
        last = ctx.get_partitioned_state(_LAST_ELEMENT)
        before = last.value()
        if before is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if delta_of(self.delta_function)(before, element) <= self.threshold:
            return TriggerResult.CONTINUE
        last.update(element)
        return TriggerResult.FIRE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forget the last record."""
        ctx.get_partitioned_state(_LAST_ELEMENT).clear()


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger):
    """Fires when another trigger does, or a timeout after the first record (Java Flink's).

    Attributes:
        nested_trigger: The other trigger.
        interval: The timeout in milliseconds.
        reset_timer_on_new_record: Whether each record begins the timeout anew.
        should_clear_on_timeout: Whether the other trigger is cleared when the time is out.

    Raises:
        TypeMismatchError: If `nested_trigger` is not a Trigger.
        ConfigurationError: If the timeout is not positive.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import CountTrigger, GlobalWindows, ProcessingTimeoutTrigger
        >>> from millstream.testing import OperatorHarness
        >>> def sums(rows):
        ...     trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(100), Time.seconds(5))
        ...     return rows.key_by(lambda row: row[0]).window(GlobalWindows.create()).trigger(trigger).sum(1)
        >>> harness = OperatorHarness(sums)
        >>> harness.push(("a", 1)); harness.push(("a", 2))
        >>> harness.set_processing_time(5_001)  # no hundred records have come within five seconds
        >>> harness.take()
        [('a', 3)]
    """

    nested_trigger: Trigger
    interval: int
    reset_timer_on_new_record: bool = False
    should_clear_on_timeout: bool = True

    def __post_init__(self) -> None:
        check_trigger("ProcessingTimeoutTrigger", self.nested_trigger)
        _check_interval(self.interval)

    @staticmethod
    def of(
        nested_trigger: Trigger,
        timeout: Duration | Time,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Make the trigger."""
        return ProcessingTimeoutTrigger(
            nested_trigger, to_milliseconds(timeout), reset_timer_on_new_record, should_clear_on_timeout
        )

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire if the other trigger does, else wait for the timeout."""
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        timeout = ctx.get_partitioned_state(_TIMEOUT)
        at_ms = timeout.value()
        if at_ms is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(at_ms)
            at_ms = None
        if at_ms is None:
            at_ms = ctx.get_current_processing_time() + self.interval
            timeout.update(at_ms)
            ctx.register_processing_time_timer(at_ms)
        return result

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire."""
        return self._time_out(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire."""
        return self._time_out(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def _time_out(self, result: TriggerResult, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Never called: windows with this trigger do not merge, as in Flink."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Stop waiting; have the other trigger clear."""
        timeout = ctx.get_partitioned_state(_TIMEOUT)
        at_ms = timeout.value()
        if at_ms is not None:
            ctx.delete_processing_time_timer(at_ms)
            timeout.clear()
        self.nested_trigger.clear(window, ctx)


def _check_interval(interval_ms: int) -> None:
    if interval_ms <= 0:
        raise ConfigurationError(
            f"the interval of a trigger is {interval_ms} ms", hint="Give it a length larger than 0."
        )
