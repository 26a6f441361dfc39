"""What a trigger is: the contract that the operators call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from types import GenericAlias
from typing import Any, ClassVar

from millstream.common.windows import Window
from millstream.operators.windowing.checks import check_instance

__all__ = ["QuietTrigger", "Trigger", "TriggerResult", "check_trigger"]


class TriggerResult(Enum):
    """What to do with a window: the value is (fire, purge).

    Example:
        >>> from millstream.datastream.window import TriggerResult
        >>> [result.name for result in TriggerResult if result.is_fire()]
        ['FIRE_AND_PURGE', 'FIRE']
        >>> [result.name for result in TriggerResult if result.is_purge()]
        ['FIRE_AND_PURGE', 'PURGE']
    """

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
    """Decides when a window fires.

    Example:
        >>> from millstream.datastream.window import GlobalWindows, Trigger, TriggerResult
        >>> from millstream.testing import OperatorHarness
        >>> class AtTheEndOfAnOrder(Trigger):
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         return TriggerResult.FIRE_AND_PURGE if element == "pay" else TriggerResult.CONTINUE
        ...     def on_processing_time(self, time, window, ctx):
        ...         return TriggerResult.CONTINUE
        ...     def on_event_time(self, time, window, ctx):
        ...         return TriggerResult.CONTINUE
        ...     def on_merge(self, window, ctx):
        ...         pass
        ...     def clear(self, window, ctx):
        ...         pass
        >>> def orders(things):
        ...     windows = things.key_by(lambda thing: "all").window(GlobalWindows.create())
        ...     return windows.trigger(AtTheEndOfAnOrder()).reduce(lambda one, other: f"{one}, {other}")
        >>> harness = OperatorHarness(orders)
        >>> for thing in ("tea", "cake", "pay", "tea"):
        ...     harness.push(thing)
        >>> harness.take()
        ['tea, cake, pay']
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    class TriggerContext(ABC):
        """Time, timers and state of one window of one key."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in epoch milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """Return the operator's metric group."""

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
            """Return state of the trigger for this window and key: the kind that the descriptor describes."""

    class OnMergeContext(TriggerContext, ABC):
        """The same while windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: Any) -> None:
            """Merge the trigger's state of the windows that merge into that of the window they become.

            Raises:
                ConfigurationError: If it is neither list, reducing nor aggregating state.
            """

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


class QuietTrigger(Trigger, ABC):
    """Does nothing unless a subclass says otherwise."""

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Do nothing."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Do nothing."""


def check_trigger(where: str, trigger: object) -> None:
    """Check an argument.

    Raises:
        TypeMismatchError: If it is not a Trigger.
    """
    check_instance(where, trigger, Trigger, "CountTrigger.of(10)")
