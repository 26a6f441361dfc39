"""Windows (PyFlink's `pyflink.datastream.window`): the values that assigners give."""

from __future__ import annotations

from abc import ABC, abstractmethod

from millstream.common.time import MAX_TIMESTAMP

__all__ = ["GlobalWindow", "TimeWindow", "Window"]


class Window(ABC):
    """A finite group of records of a key."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp that belongs to the window, in epoch milliseconds."""


class TimeWindow(Window):
    """An interval of time, `[start, end)` in epoch milliseconds.

    >>> window = TimeWindow(0, 5_000)
    >>> window.max_timestamp(), window.intersects(TimeWindow(5_000, 6_000))
    (4999, True)
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        """Return `end - 1`."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether both overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that covers both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the tumbling window that holds `timestamp`."""
        return timestamp - (timestamp - offset) % window_size

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"

    def __reduce__(self) -> tuple[type[TimeWindow], tuple[int, int]]:
        return TimeWindow, (self.start, self.end)


class GlobalWindow(Window):
    """The one window that holds everything."""

    _instance: GlobalWindow | None = None

    @staticmethod
    def get() -> GlobalWindow:
        """Return the global window."""
        if GlobalWindow._instance is None:
            GlobalWindow._instance = GlobalWindow()
        return GlobalWindow._instance

    def max_timestamp(self) -> int:
        """Return the end of time."""
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"
