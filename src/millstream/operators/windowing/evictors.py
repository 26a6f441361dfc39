"""Evictors (Java Flink's; PyFlink has none): which records of a window are taken out before or after it fires.

A window with an evictor keeps its records one by one, with their timestamps, also where they are reduced or
aggregated, so it costs what a window function costs that gets all records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.operators.windowing.checks import check_instance
from millstream.operators.windowing.triggers import DeltaFunction, delta_of

__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor", "TimestampedValue", "check_evictor"]


class TimestampedValue:
    """A record in a window with an evictor.

    Attributes:
        value: The record.
        timestamp: Its event time in epoch milliseconds; None if it has none.

    Example:
        >>> from millstream.datastream.window import TimestampedValue
        >>> element = TimestampedValue("tea", 1_000)
        >>> element.get_value(), element.get_timestamp(), TimestampedValue("cake").has_timestamp()
        ('tea', 1000, False)
    """

    __slots__ = ("timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None = None) -> None:
        self.value = value
        self.timestamp = timestamp

    def get_value(self) -> Any:
        """Return the record."""
        return self.value

    def get_timestamp(self) -> int | None:
        """Return its timestamp."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Return whether it has a timestamp."""
        return self.timestamp is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimestampedValue):
            return NotImplemented
        return bool(self.value == other.value) and self.timestamp == other.timestamp

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp})"


class Evictor(ABC):
    """Takes records out of a window that fires.

    Example:
        >>> from millstream.datastream.window import CountTumblingWindowAssigner, Evictor
        >>> from millstream.testing import OperatorHarness
        >>> class WithoutHighest(Evictor):
        ...     def evict_before(self, elements, size, window, evictor_context):
        ...         elements.remove(max(elements, key=lambda element: element.value[1]))
        ...     def evict_after(self, elements, size, window, evictor_context):
        ...         pass
        >>> def sums(rows):
        ...     windows = rows.key_by(lambda row: row[0]).window(CountTumblingWindowAssigner.of(3))
        ...     return windows.evictor(WithoutHighest()).sum(1)
        >>> harness = OperatorHarness(sums)
        >>> for number in 1, 100, 2:
        ...     harness.push(("a", number))
        >>> harness.take()
        [('a', 3)]
    """

    class EvictorContext(ABC):
        """What an evictor may ask."""

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
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        """Called before the window function sees the records.

        Args:
            elements: The records in order of arrival; remove from the list what is to go.
            size: Their number.
            window: The window.
            evictor_context: Time.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        """Called when the window function has seen the records; the same arguments."""


class _OneSided(Evictor, ABC):
    """Evicts before or after.

    Attributes:
        evict_after_function: Whether after the window function.
    """

    evict_after_function: bool

    def evict_before(
        self,
        elements: list[TimestampedValue],
        size: int,
        window: Any,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        """Evict, unless that is to be done after."""
        if not self.evict_after_function:
            self._evict(elements)

    def evict_after(
        self,
        elements: list[TimestampedValue],
        size: int,
        window: Any,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        """Evict, if that is to be done after."""
        if self.evict_after_function:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None: ...


@dataclass(frozen=True)
class CountEvictor(_OneSided):
    """Keeps the newest records, up to a number.

    >>> from millstream.datastream.window import CountEvictor, TimestampedValue
    >>> elements = [TimestampedValue(number) for number in range(5)]
    >>> CountEvictor.of(2).evict_before(elements, 5, None, None)
    >>> [element.value for element in elements]
    [3, 4]
    """

    max_count: int
    evict_after_function: bool = False

    def __post_init__(self) -> None:
        if self.max_count < 0:
            raise ConfigurationError(f"a CountEvictor was given {self.max_count} records to keep")

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Make the evictor.

        Raises:
            ConfigurationError: If the number is negative.
        """
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(len(elements) - self.max_count, 0)]


@dataclass(frozen=True)
class TimeEvictor(_OneSided):
    """Keeps the records that are younger than a length of time, seen from the youngest.

    Records without timestamps stay.

    >>> from millstream.datastream.window import TimeEvictor, TimestampedValue
    >>> elements = [TimestampedValue(time, time) for time in (1, 9, 4, 5)]
    >>> TimeEvictor.of(5).evict_before(elements, 4, None, None)
    >>> [element.value for element in elements]
    [9, 5]
    """

    window_size: int
    evict_after_function: bool = False

    @staticmethod
    def of(window_size: Duration | Time | int, do_evict_after: bool = False) -> TimeEvictor:
        """Make the evictor."""
        return TimeEvictor(to_milliseconds(window_size), do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements or elements[0].timestamp is None:
            return
        cut_off = max(element.timestamp or 0 for element in elements) - self.window_size
        elements[:] = [element for element in elements if (element.timestamp or 0) > cut_off]


@dataclass(frozen=True)
class DeltaEvictor(_OneSided):
    """Keeps the records whose distance to the last one is below a threshold.

    >>> from millstream.datastream.window import DeltaEvictor, TimestampedValue
    >>> elements = [TimestampedValue(number) for number in (1, 7, 3, 8)]
    >>> DeltaEvictor.of(5, lambda old, new: new - old).evict_before(elements, 4, None, None)
    >>> [element.value for element in elements]
    [7, 8]
    """

    threshold: float
    delta_function: DeltaFunction | Callable[[Any, Any], float]
    evict_after_function: bool = False

    def __post_init__(self) -> None:
        delta_of(self.delta_function)

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """Make the evictor.

        Raises:
            TypeMismatchError: If the function is neither a DeltaFunction nor a callable.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            delta, last = delta_of(self.delta_function), elements[-1].value
            elements[:] = [element for element in elements if delta(element.value, last) < self.threshold]


def check_evictor(where: str, evictor: object) -> None:
    """Check an argument.

    Raises:
        TypeMismatchError: If it is not an Evictor.
    """
    check_instance(where, evictor, Evictor, "CountEvictor.of(10)")
