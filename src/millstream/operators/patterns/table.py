"""The automaton's table: what an event does to a partial match, looked up by what the conditions say.

The state of a partial match is the set of ways that are still open to it, as a number with a bit for each. What an
event does depends on the state and on the truth of the conditions that its ways ask for, so it is worked out once for
each combination that occurs and kept::

    state 0b0110     asks conditions 2, 0
    bits  0b01       (2 is true, 0 is not)  ->  Outcome(taken at position 3, 0b0100 stays)

Most states ask one condition or two. A state's number depends on the pattern alone, so it is what checkpoints hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.operators.patterns.parts import PatternSpec
from millstream.operators.patterns.positions import END, START, Literal, Positions, Way, build_positions

__all__ = ["Outcome", "PatternTable", "State", "Taken"]


class Taken(NamedTuple):
    """An event is taken.

    Attributes:
        choice: Number of the way among those of the position before.
        position: Where.
        state: The ways that are open behind it; 0 if there are none.
        completes: Whether the match may end there.
    """

    choice: int
    position: int
    state: int
    completes: bool


class Outcome(NamedTuple):
    """What an event does to a partial match.

    Attributes:
        takes: The partial matches that it makes by being taken, in order of choice.
        stays: The ways that are open to the match without the event; 0 if there are none.
        ended: Choice of the way on which the match is complete without the event; None if there is none.
    """

    takes: tuple[Taken, ...]
    stays: int
    ended: int | None
    idle: bool
    """Whether the match is what it was before."""


class State:
    """Ways that are open together.

    Attributes:
        number: A bit for each.
        ways: The ways, by choice.
        asks: Numbers of the conditions that decide.
        single: The only condition that decides, if there is one and it looks at the event only; else None.
        looks_back: Whether one of the conditions looks at events that the match has.
        outcomes: What happens, by the conditions' bits.
        by_row: What happens, by the truth of all conditions of the pattern, in their order.
        pending: The way on which time completes the match; None if there is none.
        has_gaps: Whether ways end some time after the last event.
        lasting_ms: How long after the last event any way but the pending one is open; None if one always is.
    """

    __slots__ = (
        "asks",
        "by_row",
        "has_gaps",
        "lasting_ms",
        "looks_back",
        "number",
        "outcomes",
        "pending",
        "single",
        "ways",
    )

    def __init__(self, number: int, ways: tuple[Way, ...], asks: tuple[int, ...], looks_back: bool) -> None:
        self.number = number
        self.ways = ways
        self.asks = asks
        self.looks_back = looks_back
        self.single = asks[0] if len(asks) == 1 and not looks_back else None
        self.outcomes: dict[int, Outcome] = {}
        self.by_row: dict[tuple[bool, ...], Outcome] = {}
        self.pending = next((way for way in ways if way.target == END and way.takes is None), None)
        gaps = [way.gap_ms for way in ways if way is not self.pending]
        self.has_gaps = any(way.gap_ms is not None for way in ways)
        known = [gap for gap in gaps if gap is not None]
        self.lasting_ms = max(known) if known and len(known) == len(gaps) else None


class PatternTable:
    """A pattern, ready to be run; holds nothing that belongs to a match.

    Args:
        spec: The pattern.

    Attributes:
        spec: The pattern.
        positions: Its positions and ways.
        start: The state in which a match may begin, with every event.
        tests: What tells whether an event fits, by number of condition.
        looks_back: Which of them look at events that the match has.
        states: Those that have been asked for, by number.
    """

    def __init__(self, spec: PatternSpec) -> None:
        self.spec = spec
        self.positions: Positions = build_positions(spec)
        self.tests: tuple[Callable[..., Any], ...] = tuple(each.test for each in self.positions.conditions)
        self.looks_back = tuple(each.looks_back for each in self.positions.conditions)
        self.states: dict[int, State] = {}
        self._behind: dict[int, int] = {}
        for number, way in enumerate(self.positions.ways):
            if not way.is_waiting:
                self._behind[way.source] = self._behind.get(way.source, 0) | 1 << number
        self.start = self.state(self._behind[START])

    def state(self, number: int) -> State:
        """Return the state of a number."""
        found = self.states.get(number)
        if found is None:
            found = self.states[number] = self._build(number)
        return found

    def fresh(self, position: int) -> int:
        """Return the ways that are open behind a position; 0 if there are none."""
        return self._behind.get(position, 0)

    def outcome(self, state: State, bits: int) -> Outcome:
        """Return what an event does.

        Args:
            state: The state.
            bits: Of the conditions that it asks, in their order, the first one lowest.
        """
        found = state.outcomes.get(bits)
        if found is None:
            found = state.outcomes[bits] = self._work_out(state, bits)
        return found

    def outcome_of_row(self, state: State, row: tuple[bool, ...]) -> Outcome:
        """Return what an event does.

        Args:
            state: The state.
            row: What all conditions of the pattern say of it, in their order.
        """
        found = state.by_row.get(row)
        if found is None:
            bits = sum(1 << place for place, number in enumerate(state.asks) if row[number])
            found = state.by_row[row] = self.outcome(state, bits)
        return found

    def passes_misfits(self) -> bool:
        """Return whether an event for which no condition is true changes nothing, whatever a key has."""
        nothing = dict.fromkeys(range(len(self.tests)), False)
        if self.outcome(self.start, 0).takes:
            return False
        return all(
            way.source == START
            or (
                way.passes is not None
                and self.positions.ways[way.waiting] is way
                and _all((*way.passes, *way.free), nothing)
                and not (way.takes is not None and _all(way.takes, nothing))
            )
            for way in self.positions.ways
        )

    def without(self, state: State, age_ms: int) -> int:
        """Return the ways that are still open some time after the last event, milliseconds; 0 if none is."""
        number = state.number
        for index, way in self._indexed(state):
            if way.gap_ms is not None and age_ms >= way.gap_ms:
                number &= ~(1 << index)
        return number

    def _indexed(self, state: State) -> list[tuple[int, Way]]:
        return list(zip(_bits(state.number), state.ways, strict=True))

    def _build(self, number: int) -> State:
        ways = tuple(self.positions.ways[index] for index in _bits(number))
        asked = {each for way in ways for each, _ in (*(way.takes or ()), *(way.passes or ()), *way.free)}
        asks = tuple(sorted(asked))
        return State(number, ways, asks, any(self.looks_back[each] for each in asks))

    def _work_out(self, state: State, bits: int) -> Outcome:
        says = {each: bool(bits >> place & 1) for place, each in enumerate(state.asks)}
        takes: list[Taken] = []
        stays, ended = 0, None
        for way in state.ways:
            free = _all(way.free, says)
            if way.takes is not None and _all(way.takes, says):
                completes = way.target in self.positions.accepting
                if way.target == END:
                    ended = way.choice if free else ended
                elif free or completes:
                    behind = self.fresh(way.target) if free else 0
                    takes.append(Taken(way.choice, way.target, behind, completes))
            if free and way.passes is not None and _all(way.passes, says):
                stays |= 1 << way.waiting
        idle = not takes and ended is None and stays == state.number
        return Outcome(tuple(sorted(takes)), stays, ended, idle)


def _all(literals: tuple[Literal, ...], says: dict[int, bool]) -> bool:
    return all(says[each] is wanted for each, wanted in literals)


def _bits(number: int) -> list[int]:
    return [place for place in range(number.bit_length()) if number >> place & 1]
