"""What a window assigner is: the contract that the operators call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from types import GenericAlias
from typing import Any, ClassVar

from millstream.common.functions import RuntimeContext
from millstream.operators.windowing.checks import check_instance
from millstream.operators.windowing.serializers import PickledWindowSerializer
from millstream.operators.windowing.trigger import Trigger
from millstream.types.serializer import TypeSerializer

__all__ = ["MergingWindowAssigner", "WindowAssigner", "check_assigner"]


class WindowAssigner(ABC):
    """Says which windows a record belongs to.

    The windows may be of a class of one's own, derived from `Window`: they have to be equal and hash alike if
    they are the same window, and to pickle.

    Example:
        >>> from millstream.datastream.window import EventTimeTrigger, TimeWindow, TimeWindowSerializer
        >>> from millstream.datastream.window import WindowAssigner
        >>> from millstream.testing import OperatorHarness
        >>> class Shifts(WindowAssigner):
        ...     def assign_windows(self, element, timestamp, context):
        ...         start = timestamp - timestamp % 86_400_000  # midnight
        ...         noon = start + 43_200_000
        ...         if timestamp < noon:
        ...             return [TimeWindow(start, noon)]
        ...         return [TimeWindow(noon, noon + 43_200_000)]
        ...     def get_default_trigger(self, env):
        ...         return EventTimeTrigger.create()
        ...     def get_window_serializer(self):
        ...         return TimeWindowSerializer()
        ...     def is_event_time(self):
        ...         return True
        >>> harness = OperatorHarness(lambda work: work.key_by(lambda row: row[0]).window(Shifts()).sum(1))
        >>> harness.push(("ann", 3), timestamp=30_000_000)
        >>> harness.push(("ann", 4), timestamp=50_000_000)
        >>> harness.push_watermark(86_400_000)
        >>> harness.take()
        [('ann', 3), ('ann', 4)]
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    class WindowAssignerContext(ABC):
        """What an assigner may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in epoch milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the operator's runtime context; its state is that of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[Any]:
        """Return the windows of a record.

        Args:
            element: The record.
            timestamp: Its event time in epoch milliseconds; -2**63 if it has none.
            context: Time, and state of the record's key.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that is used unless another is given."""

    def get_window_serializer(self) -> TypeSerializer[Any]:
        """Return a serializer of the windows; PyFlink wants it, here it is not used."""
        return PickledWindowSerializer()

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows follow event time (or the clock)."""


class MergingWindowAssigner(WindowAssigner):
    """An assigner whose windows merge, as sessions do.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import EventTimeSessionWindows, MergingWindowAssigner
        >>> class Show(MergingWindowAssigner.MergeCallback):
        ...     def merge(self, to_be_merged, merge_result):
        ...         print(len(to_be_merged), "windows become", merge_result)
        >>> sessions = EventTimeSessionWindows.with_gap(Time.seconds(2))
        >>> windows = [window for time in (500, 2_000) for window in sessions.assign_windows(None, time)]
        >>> sessions.merge_windows(windows, Show())
        2 windows become TimeWindow(start=500, end=4000)
    """

    class MergeCallback(ABC):
        """Takes what is to be merged."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
            """Have windows become one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: MergingWindowAssigner.MergeCallback) -> None:
        """Call `callback.merge` with each group of windows to merge and the window they become.

        Called for each record whose window is new to its key, with the windows of the key and the new one.
        """


def check_assigner(where: str, assigner: object) -> None:
    """Check an argument.

    Raises:
        TypeMismatchError: If it is not a WindowAssigner.
    """
    check_instance(where, assigner, WindowAssigner, "TumblingEventTimeWindows.of(Time.seconds(5))")
