"""Batches in order of time, or all in one window: their records are added pane by pane, not one by one."""

from __future__ import annotations

from bisect import bisect_left
from operator import le

__all__ = ["is_ascending", "stretches"]

_FIRST = 64


def is_ascending(timestamps: list[int]) -> bool:
    """Return whether no timestamp is below the one before it.

    >>> is_ascending([1, 2, 2]), is_ascending([1, 3, 2])
    (True, False)
    """
    # Most that are not show it soon: sorting those would take long.
    head = timestamps[:_FIRST]
    return all(map(le, head, head[1:])) and sorted(timestamps) == timestamps


def stretches(timestamps: list[int], slide_ms: int, offset_ms: int) -> list[tuple[int, int, int]] | None:
    """Return which neighbours have the same newest window; None if records of several windows are out of order.

    Args:
        timestamps: Of a batch, at least one.
        slide_ms: From the start of a window to that of the next.
        offset_ms: Moves all starts.

    Returns:
        For each stretch the window's start, the place of the first record and that behind the last one.

    >>> stretches([12, 15, 21], 10, 0), stretches([19, 12], 10, 0), stretches([19, 22, 12], 10, 5)
    ([(10, 0, 2), (20, 2, 3)], [(10, 0, 2)], None)
    """
    lowest = min(timestamps)
    start = lowest - (lowest - offset_ms) % slide_ms
    if max(timestamps) < start + slide_ms:
        return [(start, 0, len(timestamps))]
    if not is_ascending(timestamps):
        return None
    found, begin = [], 0
    while begin < len(timestamps):
        first = timestamps[begin]
        start = first - (first - offset_ms) % slide_ms
        stop = bisect_left(timestamps, start + slide_ms, begin)
        found.append((start, begin, stop))
        begin = stop
    return found
