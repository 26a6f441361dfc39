"""Events that wait until event time has passed them, in order of time, then of arrival."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from functools import cmp_to_key
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["Events", "WaitingEvents", "sort_ties"]


class Events(NamedTuple):
    """Some events, in order of time.

    Attributes:
        stamps: Their times.
        keys: Their keys.
        values: The events themselves.
    """

    stamps: list[int]
    keys: list[Any]
    values: list[Any]

    def reordered(self, order: list[int]) -> Events:
        """Return them in another order, given by their places in this one."""
        return Events(*[list(map(each.__getitem__, order)) for each in self])


class WaitingEvents:
    """The events of one subtask that wait.

    What arrived lately is sorted into the rest when time advances, from the place on where it belongs: events are
    nearly in order, so that is little work, and none if they are in order.

    It tells which keys have other events than at the last checkpoint. An event that came and was taken since is nothing
    to tell of, so where the watermark follows closely few keys have others.

    Attributes:
        tracks: Whether to learn which keys these are.
    """

    __slots__ = ("_arrived", "_known_until_ms", "_lately", "_sorted", "_taken", "_taken_keys", "tracks")

    def __init__(self) -> None:
        self.tracks = False
        self._sorted = Events([], [], [])
        self._taken = 0  # so many of them are gone
        self._lately = Events([], [], [])
        self._known_until_ms = MAX_TIMESTAMP
        self._arrived: list[tuple[int, list[Any]]] = []
        self._taken_keys: set[Any] = set()

    def __len__(self) -> int:
        return len(self._sorted.stamps) - self._taken + len(self._lately.stamps)

    def add(self, stamps: list[int], keys: list[Any], values: list[Any]) -> None:
        """Add events, at least one, in the order in which they arrived; the list of keys must not change any more."""
        if self.tracks:
            self._arrived.append((max(stamps), keys))
        for held, new in zip(self._lately, (stamps, keys, values), strict=True):
            held += new

    def count_until(self, time_ms: int) -> int:
        """Return how many events have a time up to this one, inclusive."""
        self._settle()
        stamps = self._sorted.stamps
        if not stamps or stamps[-1] <= time_ms:
            return len(stamps) - self._taken
        return bisect_right(stamps, time_ms, self._taken) - self._taken

    def take(self, number: int) -> Events:
        """Remove and return the first events."""
        first, end = self._taken, self._taken + number
        taken = Events(*[each[first:end] for each in self._sorted])
        self._taken = end
        if 2 * end >= len(self._sorted.stamps):
            self._forget_taken()
        if self.tracks:
            self._taken_keys.update(taken.keys[: bisect_right(taken.stamps, self._known_until_ms)])
            first_ms = next(iter(self._sorted.stamps[self._taken : self._taken + 1]), None)
            self._arrived = [each for each in self._arrived if first_ms is not None and each[0] >= first_ms]
        return taken

    def _forget_taken(self) -> None:
        for each in self._sorted:
            del each[: self._taken]
        self._taken = 0

    def by_key(self) -> dict[Any, list[tuple[int, Any]]]:
        """Return times and events by key, for checkpoints."""
        self._settle()
        self._forget_taken()
        found: defaultdict[Any, list[tuple[int, Any]]] = defaultdict(list)
        for stamp, key, value in zip(*self._sorted, strict=True):
            found[key].append((stamp, value))
        return found

    def changed_keys(self) -> set[Any]:
        """Return the keys whose events may be others than at the last checkpoint."""
        return self._taken_keys.union(*[keys for _, keys in self._arrived])

    def forget_changes(self) -> None:
        """Take what is there as what is known."""
        self._settle()
        self._known_until_ms = self._sorted.stamps[-1] if self._sorted.stamps else MIN_TIMESTAMP
        self._arrived = []
        self._taken_keys = set()

    def _settle(self) -> None:
        new = self._lately
        if not new.stamps:
            return
        self._lately = Events([], [], [])
        self._forget_taken()
        held = self._sorted
        if not held.stamps:
            self._sorted = _in_order(new)
            return
        place = bisect_left(held.stamps, min(new.stamps))
        if place == len(held.stamps):
            new = _in_order(new)
        else:
            new = _in_order(Events(*[each[place:] + lately for each, lately in zip(held, new, strict=True)]))
        for each, last in zip(held, new, strict=True):
            each[place:] = last


def _in_order(events: Events) -> Events:
    stamps = events.stamps
    ordered = sorted(stamps)
    if ordered == stamps:
        return events
    return events.reordered(sorted(range(len(stamps)), key=stamps.__getitem__))


def sort_ties(events: Events, compare: Callable[[Any, Any], int]) -> Events:
    """Return events in order of time, then as a comparison of events says.

    Args:
        events: In order of time.
        compare: Gives a number below, equal to or above 0.
    """
    by_event = cmp_to_key(compare)
    order: list[int] = []
    for _, group in groupby(enumerate(events.stamps), itemgetter(1)):
        several = [place for place, _ in group]
        if len(several) > 1:
            several.sort(key=lambda place: by_event(events.values[place]))
        order += several
    return events.reordered(order)
