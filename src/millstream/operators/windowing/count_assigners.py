"""Window assigners without time (PyFlink's `pyflink.datastream.window`): everything, or so many records.

Count windows fire once, when they are full (Java Flink's sliding ones fire after each slide, PyFlink's do not)::

    size 3, slide 2     records of a key   1  2  3  4  5  6  7
                        windows            [=======)
                                                 [=======)
                                                       [=======)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.common.state import ValueStateDescriptor
from millstream.common.windows import CountWindow, GlobalWindow
from millstream.operators.windowing.assigner import WindowAssigner
from millstream.operators.windowing.serializers import CountWindowSerializer, GlobalWindowSerializer
from millstream.operators.windowing.trigger import Trigger
from millstream.operators.windowing.triggers import CountTrigger, EventTimeTrigger, NeverTrigger
from millstream.types.serializer import TypeSerializer

__all__ = ["CountSlidingWindowAssigner", "CountTumblingWindowAssigner", "GlobalWindows", "count_windows"]

_TUMBLING_COUNT = ValueStateDescriptor("tumble-count-assigner")
_SLIDING_COUNT = ValueStateDescriptor("slide-count-assigner")


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner):
    """One window for everything; it fires only if a trigger says so.

    Attributes:
        fires_at_end: Whether the default trigger fires at the end of a bounded input.

    Example:
        >>> from millstream.datastream.window import CountTrigger, GlobalWindows
        >>> from millstream.testing import OperatorHarness
        >>> def every_third(rows):
        ...     windows = rows.key_by(lambda row: row[0]).window(GlobalWindows.create())
        ...     return windows.trigger(CountTrigger.of(3)).sum(1)
        >>> harness = OperatorHarness(every_third)
        >>> for number in 1, 2, 3:
        ...     harness.push(("a", number))
        >>> harness.take()
        [('a', 6)]
    """

    fires_at_end: bool = False

    @staticmethod
    def create() -> GlobalWindows:
        """Make the assigner; by default its window never fires."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """Make the assigner; by default its window fires at the end of the input (Java Flink's)."""
        return GlobalWindows(fires_at_end=True)

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[GlobalWindow]:
        """Return the global window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that never fires, or one that fires at the end of the input."""
        return EventTimeTrigger.create() if self.fires_at_end else NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[Any]:
        """Return a `GlobalWindowSerializer`."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


def _check_count(what: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigurationError(
            f"the {what} of a count window is {count!r}", detail="It is a positive number of records."
        )


def _next_count(descriptor: ValueStateDescriptor, context: Any) -> int:
    """Return how many records the key had before this one."""
    state = context.get_runtime_context().get_state(descriptor)
    count: int = state.value() or 0
    state.update(count + 1)
    return count


@dataclass(frozen=True)
class CountTumblingWindowAssigner(WindowAssigner):
    """Windows of a number of records of a key, side by side.

    Example:
        >>> from millstream.datastream.window import CountTumblingWindowAssigner
        >>> from millstream.testing import OperatorHarness
        >>> windows = CountTumblingWindowAssigner.of(2)
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).window(windows).sum(1))
        >>> for row in ("a", 1), ("b", 5), ("a", 2), ("a", 3):
        ...     harness.push(row)
        >>> harness.take()
        [('a', 3)]
    """

    window_size: int

    def __post_init__(self) -> None:
        _check_count("size", self.window_size)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Make windows of `window_size` records.

        Raises:
            ConfigurationError: If the number is not positive.
        """
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Collection[CountWindow]:
        """Return the one window of the key's next record."""
        return [CountWindow(_next_count(_TUMBLING_COUNT, context) // self.window_size)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that fires full windows."""
        return CountTrigger.of(self.window_size)

    def get_window_serializer(self) -> TypeSerializer[Any]:
        """Return a `CountWindowSerializer`."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class CountSlidingWindowAssigner(WindowAssigner):
    """Windows of a number of records of a key that start every `window_slide` records.

    Example:
        >>> from millstream.datastream.window import CountSlidingWindowAssigner
        >>> from millstream.testing import OperatorHarness
        >>> windows = CountSlidingWindowAssigner.of(3, 2)
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).window(windows).sum(1))
        >>> for number in range(1, 6):
        ...     harness.push(("a", number))
        >>> harness.take()
        [('a', 6), ('a', 12)]
    """

    window_size: int
    window_slide: int

    def __post_init__(self) -> None:
        _check_count("size", self.window_size)
        _check_count("slide", self.window_slide)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Make windows of `window_size` records.

        Raises:
            ConfigurationError: If a number is not positive.
        """
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Collection[CountWindow]:
        """Return the windows of the key's next record, the newest first; none in a gap (slide > size)."""
        count = _next_count(_SLIDING_COUNT, context)
        newest = count // self.window_slide
        oldest = max((count - self.window_size) // self.window_slide + 1, 0)
        return [CountWindow(number) for number in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that fires full windows."""
        return CountTrigger.of(self.window_size)

    def get_window_serializer(self) -> TypeSerializer[Any]:
        """Return a `CountWindowSerializer`."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


def count_windows(size: int, slide: int) -> WindowAssigner:
    """Return windows of `size` records, a new one every `slide`; side by side if that is 0.

    Raises:
        ConfigurationError: If a number is not positive.
    """
    if slide == 0:
        return CountTumblingWindowAssigner(size)
    return CountSlidingWindowAssigner(size, slide)
