"""What a key has of a pattern: its partial matches, which share the events that they have in common.

The shared buffer, after Agrawal, Diao, Gyllstrom and Immerman, "Efficient Pattern Matching over Event Streams"
(SIGMOD 2008). There an event is stored once for each state that takes it, and edges with version numbers tell which of
them belong to which run. Here an **edge** is a version of its own: it says which event was taken where and which edge
it goes on from, so a run is its last edge, and whatever two runs have in common is there once::

    events      a1      b1      b2
    edges       e0 ◄─── e1 ◄─── e2        runs: e1 (a1 b1), e2 (a1 b1 b2), e3 (a1 b2)
                 ▲────────────── e3

An event goes with its last edge, and an edge with the last run that needs it. In checkpoints edges are numbered, in the
order in which they were made, and refer to each other by number: a match may have as many events as it likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Edge", "Event", "Held", "Match", "Run", "events_of", "order_of", "path_of", "restore_held"]

Event = tuple[int, int, Any]
"""Time, number among the events of the key, and the event itself."""

Edge = tuple[Any, int, Event, int]
"""Edge before (None for the first), position, event, and choice of the way: order among several matches."""

Run = tuple[int, Edge, Event]
"""State (the ways that are open), last edge, first event."""

Match = tuple[Event, Edge]
"""First event and last edge of a match that is complete."""


class Held:
    """What one key has.

    Attributes:
        runs: Partial matches, in order of their first events.
        complete: Matches that wait until no partial match is left that began earlier, in order.
        count: How many events were numbered: all that came while there was anything.
        timer_ms: When the key's timer is due; None if there is none.
    """

    __slots__ = ("complete", "count", "runs", "timer_ms")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.complete: list[Match] = []
        self.count = 0
        self.timer_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing worth keeping."""
        return not self.runs and not self.complete

    def __repr__(self) -> str:
        def values(edge: Edge) -> list[Any]:
            return [event[2] for _, event in path_of(edge)]

        partial = [values(edge) for _, edge, _ in self.runs]
        return f"Held(partial={partial!r}, complete={[values(edge) for _, edge in self.complete]!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.__reduce__()[1] == other.__reduce__()[1]

    __hash__ = None  # type: ignore[assignment]

    def plain(self) -> tuple[Any, ...]:
        """Return it as numbers, lists and the events, with edges numbered."""
        parts: tuple[Any, ...] = self.__reduce__()[1]
        return parts

    def __reduce__(self) -> tuple[Any, ...]:
        events: dict[int, int] = {}
        stored: list[Event] = []
        edges: dict[int, int] = {}
        flat: list[tuple[int, int, int, int]] = []

        def event_number(event: Event) -> int:
            number = events.setdefault(event[1], len(stored))
            if number == len(stored):
                stored.append(event)
            return number

        def edge_number(edge: Edge) -> int:
            chain = []
            at: Any = edge
            while at is not None and id(at) not in edges:
                chain.append(at)
                at = at[0]
            for each in reversed(chain):
                before = -1 if each[0] is None else edges[id(each[0])]
                edges[id(each)] = len(flat)
                flat.append((before, each[1], event_number(each[2]), each[3]))
            return edges[id(edge)]

        runs = [(state, edge_number(edge), event_number(start)) for state, edge, start in self.runs]
        complete = [(event_number(start), edge_number(edge)) for start, edge in self.complete]
        return _restore, (stored, flat, runs, complete, self.count, self.timer_ms)


def restore_held(plain: tuple[Any, ...]) -> Held:
    """Return what `Held.plain` gave."""
    return _restore(*plain)


def _restore(
    events: list[Event],
    flat: list[tuple[int, int, int, int]],
    runs: list[tuple[int, int, int]],
    complete: list[tuple[int, int]],
    count: int,
    timer_ms: int | None,
) -> Held:
    edges: list[Edge] = []
    for before, position, event, choice in flat:
        edges.append((None if before < 0 else edges[before], position, events[event], choice))
    held = Held()
    held.runs = [(state, edges[edge], events[start]) for state, edge, start in runs]
    held.complete = [(events[start], edges[edge]) for start, edge in complete]
    held.count = count
    held.timer_ms = timer_ms
    return held


def path_of(edge: Edge) -> list[tuple[int, Event]]:
    """Return the positions and events of a run, first to last."""
    path = []
    at: Any = edge
    while at is not None:
        path.append((at[1], at[2]))
        at = at[0]
    path.reverse()
    return path


def events_of(edge: Edge | None, positions: frozenset[int]) -> Iterator[Any]:
    """Yield the events that a run has taken at some positions, first to last."""
    found: list[Any] = []
    at: Any = edge
    while at is not None:
        if at[1] in positions:
            found.append(at[2][2])
        at = at[0]
    found.reverse()
    return iter(found)


def order_of(edge: Edge) -> list[tuple[int, int]]:
    """Return what orders matches with the same first event: choices and numbers of events, first to last."""
    steps = []
    at: Any = edge
    while at is not None:
        steps.append((at[3], at[2][1]))
        at = at[0]
    steps.reverse()
    return steps
