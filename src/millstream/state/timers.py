"""Timers of one subtask, in order of time.

Timers with the same timestamp share a bucket, so registering is a dict access and the heap holds distinct
timestamps only. Order: by timestamp, then by registration. A timer registered while others fire that is due
before them fires first, as in Flink.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["TimerQueue"]


class TimerQueue:
    """Registered timers of one time domain; the subtask's thread calls it.

    >>> fired = []
    >>> timers = TimerQueue()
    >>> timers.register(10, "b"); timers.register(5, "a"); timers.register(10, "b")
    >>> timers.fire_until(10, lambda timestamp, key: fired.append((timestamp, key)))
    >>> fired, timers.next_timestamp()
    ([(5, 'a'), (10, 'b')], None)
    """

    __slots__ = ("_buckets", "_heap")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Any, None]] = {}
        self._heap: list[int] = []

    def register(self, timestamp_ms: int, key: Any) -> None:
        """Add a timer; one that is there already stays one."""
        bucket = self._buckets.get(timestamp_ms)
        if bucket is None:
            self._buckets[timestamp_ms] = {key: None}
            heappush(self._heap, timestamp_ms)
        else:
            bucket[key] = None

    def delete(self, timestamp_ms: int, key: Any) -> None:
        """Remove a timer; nothing happens if there is none."""
        bucket = self._buckets.get(timestamp_ms)
        if bucket is not None:
            bucket.pop(key, None)

    def next_timestamp(self) -> int | None:
        """Return when the first timer is due, or None."""
        heap, buckets = self._heap, self._buckets
        while heap and not buckets[heap[0]]:
            del buckets[heappop(heap)]
        return heap[0] if heap else None

    def fire_until(self, time_ms: int, fire: Callable[[int, Any], None]) -> None:
        """Remove every timer due at `time_ms` and call `fire(timestamp_ms, key)` for it, in order."""
        heap, buckets = self._heap, self._buckets
        while heap and heap[0] <= time_ms:
            timestamp_ms = heap[0]
            bucket = buckets[timestamp_ms]
            for key in list(bucket):
                if key in bucket:
                    del bucket[key]
                    fire(timestamp_ms, key)
                    if heap and heap[0] < timestamp_ms:
                        break
            else:
                if not bucket and buckets.get(timestamp_ms) is bucket:
                    heappop(heap)
                    del buckets[timestamp_ms]

    def snapshot(self) -> list[tuple[int, list[Any]]]:
        """Return all timers: (timestamp, keys in order of registration), by timestamp."""
        return [(timestamp, list(keys)) for timestamp, keys in sorted(self._buckets.items()) if keys]
