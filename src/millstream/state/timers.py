"""Timers of one subtask, in order of time.

Timers with the same timestamp share a bucket, so registering is a dict access and the heap holds timestamps, not
timers. Order: by timestamp, then by registration. A timer registered while others fire that is due before them fires
first, as in Flink.

A bucket goes with its last timer, and its timestamp stays in the heap until it comes up, or until most of the heap is
such: timers that are put off again and again, a day ahead, take no more memory than they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from millstream.state.touched import pays

__all__ = ["TimerQueue"]

_STALE = 1_000


class TimerQueue:
    """Registered timers of one time domain; the subtask's thread calls it.

    Args:
        tracking: Whether to learn what changes between checkpoints.

    >>> fired = []
    >>> timers = TimerQueue()
    >>> timers.register(10, "b"); timers.register(5, "a"); timers.register(10, "b")
    >>> timers.fire_until(10, lambda timestamp, key: fired.append((timestamp, key)))
    True
    >>> fired, timers.next_timestamp()
    ([(5, 'a'), (10, 'b')], None)
    """

    __slots__ = ("_buckets", "_changed", "_heap", "_limit", "_tracking")

    def __init__(self, *, tracking: bool = False) -> None:
        self._buckets: dict[int, dict[Any, None]] = {}
        self._heap: list[int] = []
        self._tracking = tracking
        # Timers that came or went, and whether they were there at the last checkpoint; without those that came and
        # went since. None where that is not known, or they are too many.
        self._changed: dict[tuple[int, Any], bool] | None = None
        self._limit = 0

    def register(self, timestamp_ms: int, key: Any) -> None:
        """Add a timer; one that is there already stays one."""
        bucket = self._buckets.get(timestamp_ms)
        if bucket is None:
            self._buckets[timestamp_ms] = {key: None}
            heappush(self._heap, timestamp_ms)
        elif key in bucket:
            return
        else:
            bucket[key] = None
        changed = self._changed
        if changed is not None:
            timer = (timestamp_ms, key)
            changed[timer] = changed.pop(timer, False)  # one that had been deleted is the last again
            if len(changed) > self._limit:
                self._weigh(changed)

    def delete(self, timestamp_ms: int, key: Any) -> None:
        """Remove a timer; nothing happens if there is none."""
        bucket = self._buckets.get(timestamp_ms)
        if bucket is not None and key in bucket:
            del bucket[key]
            if not bucket:
                self._drop(timestamp_ms)
            if self._changed is not None:
                self._note_gone(self._changed, (timestamp_ms, key))

    def _drop(self, timestamp_ms: int) -> None:
        """Remove an empty bucket, and from time to time the timestamps that have none."""
        buckets, heap = self._buckets, self._heap
        del buckets[timestamp_ms]
        if len(heap) > 2 * len(buckets) + _STALE:
            heap[:] = buckets
            heapify(heap)

    def next_timestamp(self) -> int | None:
        """Return when the first timer is due, or None."""
        heap, buckets = self._heap, self._buckets
        while heap and not buckets.get(heap[0]):
            buckets.pop(heappop(heap), None)
        return heap[0] if heap else None

    def fire_until(
        self, time_ms: int, fire: Callable[[int, Any], None], grant: Callable[[], int] | None = None
    ) -> bool:
        """Remove timers due at `time_ms` and call `fire(timestamp_ms, key)` for each, in order.

        Args:
            time_ms: Until when, inclusive.
            fire: Called for each; may register and delete timers.
            grant: Returns how many more may be fired; 0 for no more. None for all.

        Returns:
            Whether every timer that was due has been fired.
        """
        heap, buckets = self._heap, self._buckets
        left: float = math.inf if grant is None else 0
        while heap and heap[0] <= time_ms:
            timestamp_ms = heap[0]
            bucket = buckets.get(timestamp_ms)
            if bucket is None:
                heappop(heap)
                continue
            for key in list(bucket):
                if key in bucket:
                    if not left:
                        assert grant is not None
                        left = grant()
                        if not left:
                            return False
                    left -= 1
                    del bucket[key]
                    if self._changed is not None:
                        self._note_gone(self._changed, (timestamp_ms, key))
                    fire(timestamp_ms, key)
                    if heap and heap[0] < timestamp_ms:
                        break
            else:
                if not bucket and buckets.get(timestamp_ms) is bucket:
                    heappop(heap)
                    del buckets[timestamp_ms]
        return True

    def snapshot(self) -> list[tuple[int, list[Any]]]:
        """Return all timers: (timestamp, keys in order of registration), by timestamp."""
        buckets = self._buckets
        return [(timestamp, list(buckets[timestamp])) for timestamp in sorted(buckets) if buckets[timestamp]]

    def count(self) -> int:
        """Return how many timers there are."""
        return sum(map(len, self._buckets.values()))

    def changes(self) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]] | None:
        """Return what changed since `forget_changes` was called: (timestamp, key) that are gone, and that are new.

        New ones come in the order of registration. None if that is not known, or they are most of those that there are.
        """
        changed = self._changed
        if changed is None or not pays(len(changed), self.count()):
            return None
        gone: list[tuple[int, Any]] = []
        new: list[tuple[int, Any]] = []
        for timer in changed:
            (new if timer[1] in self._buckets.get(timer[0], ()) else gone).append(timer)
        return gone, new

    def forget_changes(self) -> None:
        """Take what is there now as what is known."""
        if self._tracking:
            self._changed = {}
            self._weigh(self._changed)

    @staticmethod
    def _note_gone(changed: dict[tuple[int, Any], bool], timer: tuple[int, Any]) -> None:
        if changed.get(timer, True):
            changed[timer] = True
        else:
            del changed[timer]

    def _weigh(self, changed: dict[tuple[int, Any], bool]) -> None:
        """Stop noting if everything will be written anyway, else see how many more pay."""
        held = self.count()
        if pays(len(changed), held):
            self._limit = max(2 * len(changed), held // 2, 1_000)
        else:
            self._changed = None
