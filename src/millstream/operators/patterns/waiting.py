"""Events that wait until event time has passed them, in order of time, then of arrival."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from itertools import count, groupby
from operator import itemgetter
from typing import Any

__all__ = ["WaitingEvents", "sort_ties"]

Entry = tuple[int, int, Any, Any]
"""Time, number in order of arrival, key, event."""

_TIME = itemgetter(0)


class WaitingEvents:
    """The events of one subtask that wait.

    What arrived lately is sorted into the rest when time advances, from the place on where it belongs: events are
    nearly in order, so that is little work.
    """

    __slots__ = ("_lately", "_numbers", "_sorted")

    def __init__(self) -> None:
        self._sorted: list[Entry] = []
        self._lately: list[Entry] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._lately)

    def add(self, stamps: Iterable[int], keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Add events in the order in which they arrived."""
        self._lately += zip(stamps, self._numbers, keys, values, strict=False)

    def first(self) -> int | None:
        """Return the time of the first event; None if none waits."""
        self._settle()
        return self._sorted[0][0] if self._sorted else None

    def count_until(self, time_ms: int) -> int:
        """Return how many events have a time up to this one, inclusive."""
        self._settle()
        waiting = self._sorted
        if not waiting or waiting[-1][0] <= time_ms:
            return len(waiting)
        return bisect_left(waiting, time_ms + 1, key=_TIME)

    def take(self, number: int) -> list[Entry]:
        """Remove and return the first events."""
        waiting = self._sorted
        if number == len(waiting):
            self._sorted = []
            return waiting
        taken = waiting[:number]
        del waiting[:number]
        return taken

    def by_key(self) -> dict[Any, list[tuple[int, Any]]]:
        """Return times and events by key, for checkpoints."""
        self._settle()
        found: defaultdict[Any, list[tuple[int, Any]]] = defaultdict(list)
        for stamp, _, key, value in self._sorted:
            found[key].append((stamp, value))
        return found

    def _settle(self) -> None:
        lately = self._lately
        if not lately:
            return
        self._lately = []
        waiting = self._sorted
        if not waiting:
            lately.sort(key=_TIME)
            self._sorted = lately
            return
        place = bisect_left(waiting, min(map(_TIME, lately)), key=_TIME)
        rest = waiting[place:]
        del waiting[place:]
        rest += lately
        rest.sort(key=_TIME)
        waiting += rest


def sort_ties(entries: list[Entry], compare: Callable[[Any, Any], int]) -> list[Entry]:
    """Return events in order of time, then as a comparison of events says.

    Args:
        entries: In order of time.
        compare: Gives a number below, equal to or above 0.
    """
    by_event = cmp_to_key(compare)
    ordered: list[Entry] = []
    for _, group in groupby(entries, _TIME):
        several = list(group)
        if len(several) > 1:
            several.sort(key=lambda entry: by_event(entry[3]))
        ordered += several
    return ordered
