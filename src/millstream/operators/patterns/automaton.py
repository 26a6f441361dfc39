"""Running a pattern: one key's events in order, one key's time, and the matches that come of them.

Pure: it knows neither streams nor where state is kept. For each key its caller has a `Held` (none for a key that has
nothing), calls `expire` with the time before each event and `advance` with the event, and keeps what is left.

A match's times are that of the event that completes it, or, where time completes it (nothing followed), the time at
which that is so. The same holds for partial matches that end because their time is up: so nothing depends on when the
caller learns what time it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from millstream.base.errors import JobDefinitionError
from millstream.operators.patterns.codes import UNTOLD
from millstream.operators.patterns.held import Edge, Event, Held, Match, Run, events_of, order_of, path_of
from millstream.operators.patterns.parts import SkipTo
from millstream.operators.patterns.positions import END
from millstream.operators.patterns.table import UNDECIDED, Outcome, PatternTable, State

__all__ = ["Access", "Found", "PatternAutomaton"]


class Found(NamedTuple):
    """A match, or a partial match whose time is up.

    Attributes:
        timestamp_ms: When it is complete, or its time is up.
        events: Its events by name, names in the order of their first events.
        timed_out: Whether it is a partial match.
    """

    timestamp_ms: int
    events: dict[str, list[Any]]
    timed_out: bool


class Access:
    """What a condition may look at: the events that the partial match has so far.

    Attributes:
        edge: Last edge of the partial match; None before the first event.
        stamp: Time of the event that is looked at.
    """

    __slots__ = ("_places", "edge", "now_ms", "stamp")

    def __init__(self, places: dict[str, frozenset[int]], now_ms: Callable[[], int]) -> None:
        self._places = places
        self.edge: Edge | None = None
        self.stamp = 0
        self.now_ms = now_ms

    def get_events_for_pattern(self, name: str) -> Iterator[Any]:
        """Return the events that the match has so far under a name, in order; none for a name without events."""
        return events_of(self.edge, self._places.get(name, frozenset()))

    def timestamp(self) -> int:
        """Return the time of the event, milliseconds."""
        return self.stamp

    def current_processing_time(self) -> int:
        """Return processing time, milliseconds."""
        return self.now_ms()


class PatternAutomaton:
    """Runs a pattern for any number of keys.

    Args:
        table: The pattern.
        now_ms: Gives processing time, for conditions that ask for it.
        reports_partial: Whether partial matches whose time is up are wanted.

    Attributes:
        table: The pattern.
        starts: What an event begins, by its number; None if it begins nothing.
        has_gaps: Whether the time between two events is bounded: then what is due next may come before what was.
    """

    def __init__(
        self, table: PatternTable, now_ms: Callable[[], int] = lambda: 0, *, reports_partial: bool = False
    ) -> None:
        self.table = table
        self._within_ms = table.spec.within_ms
        self._skip = table.spec.skip
        self._skips = table.spec.skip.to is not SkipTo.NOWHERE
        self._reports_partial = reports_partial
        self._names = [position.name for position in table.positions.positions]
        places: dict[str, set[int]] = {}
        for index, name in enumerate(self._names):
            places.setdefault(name, set()).add(index)
        self._places = {name: frozenset(each) for name, each in places.items()}
        self._access = Access(self._places, now_ms)
        ways = table.positions.ways
        self.has_gaps = any(way.gap_ms is not None for way in ways)
        self._by_code = table.by_code
        self._start_number = table.start.number
        self.starts = table.by_code[self._start_number]
        pending = any(way.target == END and way.takes is None for way in ways)
        self._only_drops = not (self.has_gaps or pending or reports_partial or self._within_ms is None)
        self._waits = self._within_ms is not None or self.has_gaps

    # Events

    def advance(  # noqa: C901 - one loop: calls for each partial match would cost a third of its speed
        self, held: Held, stamp: int, value: Any, found: list[Found], code: int = UNTOLD
    ) -> bool:
        """Take an event; matches are added to `found`.

        Args:
            held: What the key has; changed.
            stamp: The event's time; not before that of the key's last event or `expire`.
            value: The event.
            found: Gets matches, in order.
            code: The event's number, if conditions were asked (`Codes`).

        Returns:
            Whether it changed what is held.
        """
        by_code, has_gaps = self._by_code, self.has_gaps
        known: dict[int, Any] = {}
        complete: list[Match] = []
        event: Any = None  # an `Event`, once it is taken
        kept: list[Run] | None = None
        runs = held.runs
        for index, run in enumerate(runs):
            number, edge, start = run
            if has_gaps:
                number = self._still_open(number, edge, stamp)
            outcome = by_code[number][code]
            if outcome is UNDECIDED:
                outcome = self._ask(number, edge, stamp, value, known)
            if outcome is None:
                if kept is not None:
                    kept.append(run)
                continue
            if kept is None:
                kept = runs[:index]
                event = (stamp, held.count, value)
            step, takes, stays, ended = outcome
            if step is not None:
                choice, position, behind = step
                kept.append((behind, (edge, position, event, choice), start))
                continue
            for choice, position, behind, completes in takes:
                taken: Edge = (edge, position, event, choice)
                if completes:
                    complete.append((start, taken))
                if behind:
                    kept.append((behind, taken, start))
            if ended is not None:
                complete.append((start, edge))
            if stays:
                kept.append(run if stays == number else (stays, edge, start))
        outcome = self.starts[code]
        if outcome is UNDECIDED:
            outcome = self._ask(self._start_number, None, stamp, value, known)
        if outcome is not None and outcome.takes:
            if event is None:
                event = (stamp, held.count, value)
            if kept is None:
                kept = runs
            for choice, position, behind, completes in outcome.takes:
                taken = (None, position, event, choice)
                if completes:
                    complete.append((event, taken))
                if behind:
                    kept.append((behind, taken, event))
        if kept is None:
            return False
        held.count += 1
        held.runs = kept
        if complete:
            self._add_complete(held, complete, stamp, found)
        elif held.complete:
            self._release(held, stamp, found)
        return True

    def _ask(
        self, number: int, edge: Edge | None, stamp: int, value: Any, known: dict[int, Any]
    ) -> Outcome | None:
        """Return what an event does, by what the conditions say that a state asks for.

        Args:
            number: Of the state.
            edge: Last edge of the partial match; None before the first event.
            stamp: The event's time.
            value: The event.
            known: What conditions of the event alone said; added to.
        """
        table, access = self.table, self._access
        tests, looks_back = table.tests, table.looks_back
        state = table.state(number)
        bits = 0
        fits: Any
        for place, asked in enumerate(state.asks):
            if looks_back[asked]:
                access.edge, access.stamp = edge, stamp
                fits = bool(tests[asked](value, access))
            else:
                fits = known.get(asked)
                if fits is None:
                    fits = known[asked] = bool(tests[asked](value))
            if fits:
                bits |= 1 << place
        return table.outcome(state, bits)

    def _still_open(self, number: int, edge: Edge, stamp: int) -> int:
        state = self.table.state(number)
        return self.table.without(state, stamp - edge[2][0]) if state.has_gaps else number

    def is_due(self, held: Held, stamp: int) -> bool:
        """Return whether `expire` would do anything; may be true if it would not."""
        if self.has_gaps or self._within_ms is None:
            return self._waits
        runs = held.runs  # in order of their first events
        return bool(runs) and runs[0][2][0] + self._within_ms <= stamp

    # Matches

    def _add_complete(self, held: Held, complete: list[Match], stamp: int, found: list[Found]) -> None:
        ordered = complete if len(complete) == 1 else _in_order(complete)
        if not self._skips:
            found += [Found(stamp, self.events(edge), False) for _, edge in ordered]
            return
        if held.complete:
            ordered = sorted(held.complete + ordered, key=lambda match: match[0][1])
        elif self._skip.to is SkipTo.PAST_LAST:
            start, edge = ordered[0]
            last = edge[2][1]
            if last == held.count - 1 and (not held.runs or start[1] <= held.runs[0][2][1]):
                # It ends with the last event that was taken, so it rules out all that there is.
                held.runs = []
                found.append(Found(stamp, self.events(edge), False))
                return
        held.complete = ordered
        self._release(held, stamp, found)

    def _release(self, held: Held, stamp: int, found: list[Found]) -> None:
        """Hand out the matches that no partial match may rule out any more."""
        while held.complete and (not held.runs or held.complete[0][0][1] <= held.runs[0][2][1]):
            start, edge = held.complete.pop(0)
            events = self.events(edge)
            first = self._goes_on_at(start, edge, events)
            if first is not None:
                held.runs = [run for run in held.runs if run[2][1] >= first]
                held.complete = [match for match in held.complete if match[0][1] >= first]
            found.append(Found(stamp, events, False))

    def _goes_on_at(self, start: Event, edge: Edge, events: dict[str, list[Any]]) -> int | None:
        """Return the number of the event at which another match may begin; None if any may."""
        skip = self._skip
        if skip.to is SkipTo.NEXT:
            return start[1] + 1
        if skip.to is SkipTo.PAST_LAST:
            return edge[2][1] + 1
        places = self._places.get(skip.name, frozenset())
        numbers = [event[1] for position, event in path_of(edge) if position in places]
        if not numbers:
            if skip.strict:
                raise _no_such_event(skip.name, events)
            return None
        first = numbers[0] if skip.to is SkipTo.FIRST else numbers[-1]
        if skip.strict and first == start[1]:
            raise _same_event(skip.name, events)
        return first

    def release_all(self, held: Held, stamp: int, found: list[Found]) -> None:
        """Hand out the matches that wait, as if no partial match could rule them out; those end."""
        held.runs = []
        self._release(held, stamp, found)

    def events(self, edge: Edge) -> dict[str, list[Any]]:
        """Return the events of a match, or of a partial one, by name."""
        names = self._names
        events: dict[str, list[Any]] = {}
        for position, event in path_of(edge):
            events.setdefault(names[position], []).append(event[2])
        return events

    # Time

    def next_deadline(self, held: Held) -> int | None:
        """Return when time does something for a key next, milliseconds; None if it never does."""
        if not self._waits or not held.runs:
            return None
        if not self.has_gaps:  # runs are in order of their first events
            assert self._within_ms is not None
            return held.runs[0][2][0] + self._within_ms
        deadlines = [each for run in held.runs if (each := self._deadline(run)) is not None]
        return min(deadlines, default=None)

    def expire(self, held: Held, now_ms: int, found: list[Found]) -> None:
        """Let time go on: matches that it completes, and partial ones whose time is up, are added to `found`.

        Args:
            held: What the key has; changed.
            now_ms: The time; what is due at it counts.
            found: Gets matches, in order of time.
        """
        if not self._waits:
            return
        if self._only_drops and not held.complete:
            within_ms = self._within_ms
            assert within_ms is not None
            held.runs = [run for run in held.runs if run[2][0] + within_ms > now_ms]
            return
        while (due_ms := self.next_deadline(held)) is not None and due_ms <= now_ms:
            complete: list[Match] = []
            kept: list[Run] = []
            ended: set[int] = set()
            for run in held.runs:
                if self._deadline(run) != due_ms:
                    kept.append(run)
                    continue
                number, edge, start = run
                state = self.table.state(number)
                if state.pending is not None:
                    complete.append((start, edge))
                    left = self._behind_deadline(state, edge, start, due_ms)
                    if left:
                        kept.append((left, edge, start))
                elif self._reports_partial and id(edge) not in ended:
                    ended.add(id(edge))
                    found.append(Found(due_ms, self.events(edge), True))
            held.runs = kept
            if complete:
                self._add_complete(held, complete, due_ms, found)
            elif held.complete:
                self._release(held, due_ms, found)

    def _deadline(self, run: Run) -> int | None:
        number, edge, start = run
        state = self.table.state(number)
        deadlines = []
        if self._within_ms is not None:
            deadlines.append(start[0] + self._within_ms)
        if state.pending is not None and state.pending.gap_ms is not None:
            deadlines.append(edge[2][0] + state.pending.gap_ms)
        if state.lasting_ms is not None:
            deadlines.append(edge[2][0] + state.lasting_ms)
        return min(deadlines, default=None)

    def _behind_deadline(self, state: State, edge: Edge, start: Event, due_ms: int) -> int:
        """Return the ways that are open to a match that time has completed, and that may go on."""
        if self._within_ms is not None and due_ms >= start[0] + self._within_ms:
            return 0
        assert state.pending is not None
        pending = self.table.positions.ways.index(state.pending)
        return self.table.without(state, due_ms - edge[2][0]) & ~(1 << pending)


def _in_order(complete: list[Match]) -> list[Match]:
    """Return matches that one event completes, in order; they come in order of their first events."""
    ordered: list[Match] = []
    for _, group in groupby(complete, lambda match: match[0][1]):
        several = list(group)
        if len(several) > 1:
            several.sort(key=lambda match: order_of(match[1]))
        ordered += several
    return ordered


def _no_such_event(name: str, events: dict[str, list[Any]]) -> JobDefinitionError:
    return JobDefinitionError(
        f'a match has no event "{name}" to skip to',
        detail="It has " + ", ".join(f'"{each}"' for each in events) + ".",
        hint="Leave out throw_exception_on_miss(), or skip to a part that is not optional.",
    )


def _same_event(name: str, events: dict[str, list[Any]]) -> JobDefinitionError:
    return JobDefinitionError(
        f'a match begins with the event "{name}" that is to be skipped to',
        detail="The next match would begin where this one did, without end.",
        hint="Leave out throw_exception_on_miss(), or skip to a part behind the first.",
    )
