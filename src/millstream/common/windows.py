"""Windows (PyFlink's `pyflink.datastream.window`): the values that assigners give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from millstream.base.time import MAX_TIMESTAMP

__all__ = ["CountWindow", "GlobalWindow", "TimeWindow", "Window"]


class Window(ABC):
    """A finite group of records of a key.

    Example:
        >>> from millstream.datastream.window import TimeWindow, Window
        >>> window: Window = TimeWindow(0, 60_000)
        >>> window.max_timestamp()
        59999
    """

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp that belongs to the window, in epoch milliseconds."""


class TimeWindow(Window):
    """An interval of time, `[start, end)` in epoch milliseconds.

    >>> from millstream.datastream import TimeWindow
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

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Any) -> None:
        """Find windows that overlap or touch.

        Args:
            windows: The candidates, in any order.
            callback: A `MergingWindowAssigner.MergeCallback`; its `merge(windows, cover)` is called for each
                group of two or more different windows, the group in order of time.
        """
        group: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(set(windows)):
            if cover is not None and cover.intersects(window):
                group.append(window)
                cover = cover.cover(window)
                continue
            if cover is not None and len(group) > 1:
                callback.merge(group, cover)
            group, cover = [window], window
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) <= (other.start, other.end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"

    def __reduce__(self) -> tuple[type[TimeWindow], tuple[int, int]]:
        return TimeWindow, (self.start, self.end)


class CountWindow(Window):
    """A number of records, counted from 0 for each key.

    >>> from millstream.datastream import CountWindow
    >>> CountWindow(3)
    CountWindow(id=3)
    """

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """Return the end of time: such a window has no end in time."""
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"

    def __reduce__(self) -> tuple[type[CountWindow], tuple[int]]:
        return CountWindow, (self.id,)


class GlobalWindow(Window):
    """The one window that holds everything.

    Example:
        >>> from millstream.datastream.window import GlobalWindow
        >>> GlobalWindow.get() is GlobalWindow.get(), GlobalWindow.get().max_timestamp() == 2**63 - 1
        (True, True)
    """

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
