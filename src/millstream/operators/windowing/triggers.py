"""Triggers (PyFlink's `pyflink.datastream.window`): when a window fires.

Only `EventTimeTrigger` runs so far, and it is built into the operators. The others are declared, so that
programs import; `WindowedStream.trigger` refuses them with a `NotSupportedError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from millstream.common.errors import NotSupportedError
from millstream.common.time import Duration, Time, to_milliseconds
from millstream.common.windows import Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
]


class TriggerResult(Enum):
    """What to do with a window: the value is (fire, purge)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window's contents are to be emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the window's contents are to be removed."""
        return self.value[1]


class Trigger(ABC):
    """Decides when a window fires."""

    class TriggerContext(ABC):
        """Time, timers and state of one window of one key."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in epoch milliseconds."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the watermark in epoch milliseconds."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called at `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called when the watermark reaches `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Remove a processing-time timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Remove an event-time timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: Any) -> Any:
            """Return state of the trigger for this window and key."""

    class OnMergeContext(TriggerContext, ABC):
        """The same while windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: Any) -> None:
            """Merge the trigger's state of the windows that merge."""

    @abstractmethod
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Called for each record added to a window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of the trigger fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of the trigger fires."""

    def can_merge(self) -> bool:
        """Return whether windows with this trigger may merge."""
        return False

    @abstractmethod
    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows have merged into `window`."""

    @abstractmethod
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Called when a window is cleaned up: remove timers and state."""


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Fires once the watermark reaches the end of the window, then again for each late record."""

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


class _Declared(Trigger, ABC):
    """A trigger that can be named but not used yet."""

    def _refuse(self) -> NoReturn:
        raise NotSupportedError(f"{type(self).__name__} is not supported yet")

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Not supported yet."""
        self._refuse()

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Not supported yet."""
        self._refuse()

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Not supported yet."""
        self._refuse()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Not supported yet."""
        self._refuse()

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Not supported yet."""
        self._refuse()


@dataclass(frozen=True)
class ProcessingTimeTrigger(_Declared):
    """Fires when the clock reaches the end of the window; not supported yet."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Make the trigger."""
        return ProcessingTimeTrigger()


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(_Declared):
    """Fires at every interval of event time; not supported yet."""

    interval: int

    @staticmethod
    def of(interval: Duration | Time) -> ContinuousEventTimeTrigger:
        """Make the trigger."""
        return ContinuousEventTimeTrigger(to_milliseconds(interval))


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(_Declared):
    """Fires at every interval of the clock; not supported yet."""

    interval: int

    @staticmethod
    def of(interval: Duration | Time) -> ContinuousProcessingTimeTrigger:
        """Make the trigger."""
        return ContinuousProcessingTimeTrigger(to_milliseconds(interval))


@dataclass(frozen=True)
class PurgingTrigger(_Declared):
    """Empties the window whenever another trigger fires; not supported yet."""

    nested_trigger: Trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Make the trigger."""
        return PurgingTrigger(nested_trigger)


@dataclass(frozen=True)
class CountTrigger(_Declared):
    """Fires when a window has a number of records; not supported yet."""

    window_size: int

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Make the trigger."""
        return CountTrigger(window_size)


@dataclass(frozen=True)
class NeverTrigger(_Declared):
    """Never fires; not supported yet."""
