"""Window assigners (PyFlink's `pyflink.datastream.window`): which windows a record belongs to.

Assigners are declared, small and immutable. The operators do not ask them record by record: each kind has an
operator of its own that computes windows for whole batches (`operators.windowing.spec`). `assign_windows`
says the same thing for one record.

Lengths are milliseconds; the factories `of` and `with_gap` also take `Time`, `Duration` and `timedelta`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from millstream.common.errors import ConfigurationError, NotSupportedError
from millstream.common.time import Duration, Time, to_milliseconds
from millstream.common.windows import GlobalWindow, TimeWindow, Window
from millstream.operators.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "Length",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
]

Length = Duration | Time | timedelta | int


class WindowAssigner(ABC):
    """Says which windows a record belongs to."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Collection[Window]:
        """Return the windows of a record whose event time is `timestamp`, the newest first."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that is used unless another is given."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows follow event time (or the clock)."""


class MergingWindowAssigner(WindowAssigner):
    """An assigner whose windows merge."""

    @abstractmethod
    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: Callable[[list[TimeWindow], TimeWindow], None]
    ) -> None:
        """Call `callback` with each group of windows to merge and the window they become."""


class SessionWindowTimeGapExtractor(ABC):
    """Gives the gap of a record's session."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds, larger than 0."""


def _check_positive(what: str, length_ms: int) -> None:
    if length_ms <= 0:
        raise ConfigurationError(
            f"the {what} of a window is {length_ms} ms", hint="Give it a length larger than 0."
        )


def _check_offset(offset_ms: int, limit_ms: int, limit: str) -> None:
    if abs(offset_ms) >= limit_ms:
        raise ConfigurationError(
            f"the offset of a window is {offset_ms} ms",
            detail=f"Its absolute value has to be smaller than the {limit}, {limit_ms} ms.",
        )


class _EventTime(WindowAssigner, ABC):
    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return an `EventTimeTrigger`."""
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class _ProcessingTime(WindowAssigner, ABC):
    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a `ProcessingTimeTrigger`."""
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class _Tumbling(WindowAssigner, ABC):
    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_positive("size", self.size)
        _check_offset(self.offset, self.size, "size")

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[TimeWindow]:
        """Return the one window that holds `timestamp`."""
        start = TimeWindow.get_window_start_with_offset(timestamp, self.offset, self.size)
        return [TimeWindow(start, start + self.size)]


@dataclass(frozen=True)
class _Sliding(WindowAssigner, ABC):
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_positive("size", self.size)
        _check_positive("slide", self.slide)
        _check_offset(self.offset, self.slide, "slide")

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[TimeWindow]:
        """Return all windows that hold `timestamp`, the newest first; none in a gap (slide > size)."""
        newest = TimeWindow.get_window_start_with_offset(timestamp, self.offset, self.slide)
        return [
            TimeWindow(start, start + self.size)
            for start in range(newest, timestamp - self.size, -self.slide)
        ]


class TumblingEventTimeWindows(_Tumbling, _EventTime):
    """Windows of one size, side by side, by event time.

    >>> TumblingEventTimeWindows.of(Time.seconds(5)).assign_windows(None, -1)
    [TimeWindow(start=-5000, end=0)]
    """

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows:
        """Make windows of `size`, whose starts are multiples of it, moved by `offset`.

        Raises:
            ConfigurationError: If the size is not positive or the offset not smaller than it.
        """
        return TumblingEventTimeWindows(to_milliseconds(size), to_milliseconds(offset or 0))


class SlidingEventTimeWindows(_Sliding, _EventTime):
    """Windows of one size that start every `slide`, by event time.

    >>> SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)).assign_windows(None, 7_000)
    [TimeWindow(start=5000, end=15000), TimeWindow(start=0, end=10000)]
    """

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows:
        """Make windows of `size` whose starts are multiples of `slide`, moved by `offset`.

        Raises:
            ConfigurationError: If a length is not positive or the offset not smaller than the slide.
        """
        return SlidingEventTimeWindows(
            to_milliseconds(size), to_milliseconds(slide), to_milliseconds(offset or 0)
        )


class TumblingProcessingTimeWindows(_Tumbling, _ProcessingTime):
    """Windows of one size, side by side, by the clock; not supported yet."""

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows:
        """Make windows of `size`, moved by `offset`."""
        return TumblingProcessingTimeWindows(to_milliseconds(size), to_milliseconds(offset or 0))


class SlidingProcessingTimeWindows(_Sliding, _ProcessingTime):
    """Windows of one size that start every `slide`, by the clock; not supported yet."""

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        """Make windows of `size` that start every `slide`, moved by `offset`."""
        return SlidingProcessingTimeWindows(
            to_milliseconds(size), to_milliseconds(slide), to_milliseconds(offset or 0)
        )


class _Sessions(MergingWindowAssigner, ABC):
    @abstractmethod
    def _gap_ms(self, element: Any) -> int: ...

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[TimeWindow]:
        """Return the window that lasts from the record for one gap, before merging."""
        return [TimeWindow(timestamp, timestamp + self._gap_ms(element))]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: Callable[[list[TimeWindow], TimeWindow], None]
    ) -> None:
        """Merge windows that overlap or touch."""
        group: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(windows):
            if cover is not None and cover.intersects(window):
                group.append(window)
                cover = cover.cover(window)
                continue
            if cover is not None and len(group) > 1:
                callback(group, cover)
            group, cover = [window], window
        if cover is not None and len(group) > 1:
            callback(group, cover)


@dataclass(frozen=True)
class _FixedGap(_Sessions, ABC):
    session_gap: int

    def __post_init__(self) -> None:
        _check_positive("session gap", self.session_gap)

    def _gap_ms(self, element: Any) -> int:
        return self.session_gap


@dataclass(frozen=True)
class _DynamicGap(_Sessions, ABC):
    session_window_time_gap_extractor: SessionWindowTimeGapExtractor

    def _gap_ms(self, element: Any) -> int:
        gap_ms = self.session_window_time_gap_extractor.extract(element)
        _check_positive("session gap", gap_ms)
        return gap_ms


class EventTimeSessionWindows(_FixedGap, _EventTime):
    """Windows that last until a key has been silent for a gap, by event time; those that touch are one.

    >>> EventTimeSessionWindows.with_gap(Time.seconds(2)).assign_windows(None, 500)
    [TimeWindow(start=500, end=2500)]
    """

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows:
        """Make sessions that end `size` after their last record.

        Raises:
            ConfigurationError: If the gap is not positive.
        """
        return EventTimeSessionWindows(to_milliseconds(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Make sessions whose gap depends on the record; not supported yet."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap, _ProcessingTime):
    """Windows that last until a key has been silent for a gap, by the clock; not supported yet."""

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """Make sessions that end `size` after their last record."""
        return ProcessingTimeSessionWindows(to_milliseconds(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Make sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap, _EventTime):
    """Sessions whose gap depends on the record, by event time; not supported yet."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Make sessions whose gap `extractor` gives."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTime):
    """Sessions whose gap depends on the record, by the clock; not supported yet."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Make sessions whose gap `extractor` gives."""
        return DynamicProcessingTimeSessionWindows(extractor)


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner):
    """One window for everything; not supported yet."""

    @staticmethod
    def create() -> GlobalWindows:
        """Make the assigner."""
        return GlobalWindows()

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[GlobalWindow]:
        """Return the global window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that never fires."""
        return NeverTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class _Counting(WindowAssigner, ABC):
    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[Window]:
        """Not supported yet."""
        raise NotSupportedError(f"{type(self).__name__} is not supported yet")

    def is_event_time(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class CountTumblingWindowAssigner(_Counting):
    """Windows of a number of records; not supported yet."""

    window_size: int

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Make windows of `window_size` records."""
        return CountTumblingWindowAssigner(window_size)

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that fires and purges full windows."""
        return PurgingTrigger.of(CountTrigger.of(self.window_size))


@dataclass(frozen=True)
class CountSlidingWindowAssigner(_Counting):
    """Windows of a number of records that start every `window_slide` records; not supported yet."""

    window_size: int
    window_slide: int

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Make windows of `window_size` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that fires full windows."""
        return CountTrigger.of(self.window_size)
