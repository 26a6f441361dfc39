"""Window assigners by time (PyFlink's `pyflink.datastream.window`): which windows a record belongs to.

Assigners are declared, small and immutable. With their default triggers each kind has an operator of its own
that computes windows for whole batches (`operators.windowing.spec`) and does not ask them record by record;
`assign_windows` says the same thing for one record.

Lengths are milliseconds; the factories `of` and `with_gap` also take `Time`, `Duration` and `timedelta`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from millstream.base.errors import ConfigurationError, JobDefinitionError, TypeMismatchError, shorten
from millstream.base.time import MIN_TIMESTAMP, Duration, Time, to_milliseconds
from millstream.common.windows import TimeWindow
from millstream.operators.windowing.assigner import MergingWindowAssigner, WindowAssigner
from millstream.operators.windowing.serializers import TimeWindowSerializer
from millstream.operators.windowing.trigger import Trigger
from millstream.operators.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from millstream.types.serializer import TypeSerializer

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "Length",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "WindowStagger",
    "check_gap",
    "no_timestamp",
]

Length = Duration | Time | timedelta | int
TumblingT = TypeVar("TumblingT", bound="_Tumbling")


class WindowStagger(Enum):
    """Whether tumbling windows of all subtasks end at the same time (Java Flink's).

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import TumblingProcessingTimeWindows, WindowStagger
        >>> windows = TumblingProcessingTimeWindows.of(Time.minutes(1), window_stagger=WindowStagger.RANDOM)
        >>> WindowStagger.ALIGNED.get_stagger_offset(current_processing_time=1_234, size=60_000)
        0
    """

    ALIGNED = "aligned"
    """They do."""
    RANDOM = "random"
    """Each subtask moves its windows by a random part of their size."""
    NATURAL = "natural"
    """Each subtask moves its windows so that one begins with its first record, by the clock."""

    def get_stagger_offset(self, current_processing_time: int, size: int) -> int:
        """Return by how much to move the windows of a subtask whose first record comes now, milliseconds."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size)
        return current_processing_time % size if self is WindowStagger.NATURAL else 0


class SessionWindowTimeGapExtractor(ABC):
    """Gives the gap of a record's session.

    Example:
        >>> from millstream.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor
        >>> class Patience(SessionWindowTimeGapExtractor):
        ...     def extract(self, element):
        ...         return 60_000 if element["device"] == "phone" else 10_000
        >>> sessions = EventTimeSessionWindows.with_dynamic_gap(Patience())
        >>> sessions.assign_windows({"device": "phone"}, 0)
        [TimeWindow(start=0, end=60000)]
    """

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds, larger than 0."""


GapExtractor = SessionWindowTimeGapExtractor | Callable[[Any], int]


def no_timestamp(element: Any) -> JobDefinitionError:
    """Return the error of a record that has no timestamp where one is needed."""
    return JobDefinitionError(
        f"a record has no timestamp: {shorten(element)}",
        detail="Event-time windows place records by their timestamps.",
        hint="Call assign_timestamps_and_watermarks(...), with a TimestampAssigner, before key_by.",
    )


def _check_positive(what: str, length_ms: int) -> None:
    if length_ms <= 0:
        raise ConfigurationError(
            f"the {what} of a window is {length_ms} ms", hint="Give it a length larger than 0."
        )


def check_gap(gap_ms: int) -> None:
    """Check the gap of a session.

    Raises:
        ConfigurationError: If it is not positive.
    """
    _check_positive("session gap", gap_ms)


def _check_offset(offset_ms: int, limit_ms: int, limit: str) -> None:
    if abs(offset_ms) >= limit_ms:
        raise ConfigurationError(
            f"the offset of a window is {offset_ms} ms",
            detail=f"Its absolute value has to be smaller than the {limit}, {limit_ms} ms.",
        )


class _OfTime(WindowAssigner, ABC):
    def get_window_serializer(self) -> TypeSerializer[Any]:
        """Return a `TimeWindowSerializer`."""
        return TimeWindowSerializer()

    @abstractmethod
    def _time_of(self, element: Any, timestamp: int, context: Any) -> int:
        """Return the time by which a record is placed."""


class _EventTime(_OfTime, ABC):
    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return an `EventTimeTrigger`."""
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return True."""
        return True

    def _time_of(self, element: Any, timestamp: int, context: Any) -> int:
        if timestamp == MIN_TIMESTAMP:
            raise no_timestamp(element)
        return timestamp


class _ProcessingTime(_OfTime, ABC):
    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a `ProcessingTimeTrigger`."""
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def _time_of(self, element: Any, timestamp: int, context: Any) -> int:
        now_ms: int = context.get_current_processing_time()
        return now_ms


@dataclass(frozen=True)
class _Tumbling(_OfTime, ABC):
    size: int
    offset: int = 0
    stagger: WindowStagger = WindowStagger.ALIGNED

    def __post_init__(self) -> None:
        _check_positive("size", self.size)
        _check_offset(self.offset, self.size, "size")

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[TimeWindow]:
        """Return the one window that holds the record's time."""
        time_ms = self._time_of(element, timestamp, context)
        start = time_ms - (time_ms - self.offset) % self.size
        return [TimeWindow(start, start + self.size)]

    def staggered(self: TumblingT, now_ms: int) -> TumblingT:
        """Return the assigner of a subtask whose first record comes at `now_ms`."""
        if self.stagger is WindowStagger.ALIGNED:
            return self
        offset = (self.offset + self.stagger.get_stagger_offset(now_ms, self.size)) % self.size
        return replace(self, offset=offset, stagger=WindowStagger.ALIGNED)


@dataclass(frozen=True)
class _Sliding(_OfTime, ABC):
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_positive("size", self.size)
        _check_positive("slide", self.slide)
        _check_offset(self.offset, self.slide, "slide")

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[TimeWindow]:
        """Return all windows that hold the record's time, the newest first; none in a gap (slide > size)."""
        time_ms, size = self._time_of(element, timestamp, context), self.size
        newest = time_ms - (time_ms - self.offset) % self.slide
        return [TimeWindow(start, start + size) for start in range(newest, time_ms - size, -self.slide)]


class TumblingEventTimeWindows(_Tumbling, _EventTime):
    """Windows of one size, side by side, by event time.

    >>> from millstream.common import Time
    >>> from millstream.datastream.window import TumblingEventTimeWindows
    >>> TumblingEventTimeWindows.of(Time.seconds(5)).assign_windows(None, -1)
    [TimeWindow(start=-5000, end=0)]
    """

    @staticmethod
    def of(
        size: Length, offset: Length | None = None, window_stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> TumblingEventTimeWindows:
        """Make windows of `size`, whose starts are multiples of it, moved by `offset`.

        Raises:
            ConfigurationError: If the size is not positive or the offset not smaller than it.
        """
        return TumblingEventTimeWindows(to_milliseconds(size), to_milliseconds(offset or 0), window_stagger)


class SlidingEventTimeWindows(_Sliding, _EventTime):
    """Windows of one size that start every `slide`, by event time.

    >>> from millstream.common import Time
    >>> from millstream.datastream.window import SlidingEventTimeWindows
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
    """Windows of one size, side by side, by the clock.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import TumblingProcessingTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> windows = TumblingProcessingTimeWindows.of(Time.seconds(1))
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).window(windows).sum(1))
        >>> harness.push(("a", 1)); harness.push(("a", 5))
        >>> harness.set_processing_time(1_000)
        >>> harness.take()
        [('a', 6)]
    """

    @staticmethod
    def of(
        size: Length, offset: Length | None = None, window_stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> TumblingProcessingTimeWindows:
        """Make windows of `size`, moved by `offset`."""
        return TumblingProcessingTimeWindows(
            to_milliseconds(size), to_milliseconds(offset or 0), window_stagger
        )


class SlidingProcessingTimeWindows(_Sliding, _ProcessingTime):
    """Windows of one size that start every `slide`, by the clock.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import SlidingProcessingTimeWindows
        >>> from millstream.testing import OperatorHarness
        >>> windows = SlidingProcessingTimeWindows.of(Time.seconds(2), Time.seconds(1))
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).window(windows).sum(1))
        >>> harness.push(("a", 1)); harness.set_processing_time(1_000)
        >>> harness.push(("a", 5)); harness.set_processing_time(2_000)
        >>> harness.take()
        [('a', 1), ('a', 6)]
    """

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        """Make windows of `size` that start every `slide`, moved by `offset`."""
        return SlidingProcessingTimeWindows(
            to_milliseconds(size), to_milliseconds(slide), to_milliseconds(offset or 0)
        )


class _Sessions(_OfTime, MergingWindowAssigner, ABC):
    @abstractmethod
    def gap_ms(self, element: Any) -> int:
        """Return the gap behind a record, milliseconds."""

    def assign_windows(self, element: Any, timestamp: int, context: Any = None) -> Collection[TimeWindow]:
        """Return the window that lasts from the record for one gap, before merging."""
        time_ms = self._time_of(element, timestamp, context)
        return [TimeWindow(time_ms, time_ms + self.gap_ms(element))]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback
    ) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)


@dataclass(frozen=True)
class _FixedGap(_Sessions, ABC):
    session_gap: int

    def __post_init__(self) -> None:
        _check_positive("session gap", self.session_gap)

    def gap_ms(self, element: Any) -> int:
        """Return the gap."""
        return self.session_gap


@dataclass(frozen=True)
class _DynamicGap(_Sessions, ABC):
    session_window_time_gap_extractor: GapExtractor

    def __post_init__(self) -> None:
        extractor = self.session_window_time_gap_extractor
        if not isinstance(extractor, SessionWindowTimeGapExtractor) and not callable(extractor):
            raise TypeMismatchError(
                f"with_dynamic_gap was given a {type(extractor).__name__}",
                detail="It takes a SessionWindowTimeGapExtractor or a callable that returns milliseconds.",
            )

    def gap_ms(self, element: Any) -> int:
        """Return the gap that the extractor gives.

        Raises:
            ConfigurationError: If it is not positive.
        """
        extractor = self.session_window_time_gap_extractor
        if isinstance(extractor, SessionWindowTimeGapExtractor):
            gap_ms = extractor.extract(element)
        else:
            gap_ms = extractor(element)
        check_gap(gap_ms)
        return gap_ms


class EventTimeSessionWindows(_FixedGap, _EventTime):
    """Windows that last until a key has been silent for a gap, by event time; those that touch are one.

    >>> from millstream.common import Time
    >>> from millstream.datastream.window import EventTimeSessionWindows
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
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicEventTimeSessionWindows:
        """Make sessions whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap, _ProcessingTime):
    """Windows that last until a key has been silent for a gap, by the clock.

    Example:
        >>> from millstream.common import Time
        >>> from millstream.datastream.window import ProcessingTimeSessionWindows
        >>> from millstream.testing import OperatorHarness
        >>> sessions = ProcessingTimeSessionWindows.with_gap(Time.seconds(2))
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).window(sessions).sum(1))
        >>> harness.push(("ann", 1)); harness.set_processing_time(1_500)
        >>> harness.push(("ann", 1)); harness.set_processing_time(3_500)  # silent for two seconds
        >>> harness.take()
        [('ann', 2)]
    """

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """Make sessions that end `size` after their last record."""
        return ProcessingTimeSessionWindows(to_milliseconds(size))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicProcessingTimeSessionWindows:
        """Make sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap, _EventTime):
    """Sessions whose gap depends on the record, by event time.

    Example:
        >>> from millstream.datastream.window import DynamicEventTimeSessionWindows
        >>> sessions = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda click: click["patience_ms"])
        >>> sessions.assign_windows({"patience_ms": 2_000}, 500)
        [TimeWindow(start=500, end=2500)]
    """

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicEventTimeSessionWindows:
        """Make sessions whose gap `extractor` gives."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTime):
    """Sessions whose gap depends on the record, by the clock.

    Example:
        >>> from millstream.datastream.window import DynamicProcessingTimeSessionWindows
        >>> from millstream.testing import OperatorHarness
        >>> sessions = DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda row: row[1])
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).window(sessions).sum(1))
        >>> harness.push(("ann", 2_000)); harness.set_processing_time(1_000)
        >>> harness.push(("ann", 5_000)); harness.set_processing_time(6_000)
        >>> harness.take()
        [('ann', 7000)]
    """

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicProcessingTimeSessionWindows:
        """Make sessions whose gap `extractor` gives."""
        return DynamicProcessingTimeSessionWindows(extractor)
