"""The automaton's table: what an event does to a partial match, looked up by what the conditions say.

The state of a partial match is the set of ways that are still open to it, as a number with a bit for each. What an
event does depends on the state and on the truth of the conditions that its ways ask for, so it is worked out once for
each combination that occurs and kept::

    state 0b0110     asks conditions 2, 0
    bits  0b01       (2 is true, 0 is not)  ->  Outcome(taken at position 3, 0b0100 stays)

Most states ask one condition or two. A state's number depends on the pattern alone, so it is what checkpoints hold.

Of the conditions that look at the event only, all of which are asked beforehand (`codes`), the answers are one number;
what an event does is looked up by that. Where conditions that look at the match decide, these are asked then.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

from millstream.operators.patterns.codes import UNTOLD
from millstream.operators.patterns.parts import PatternSpec
from millstream.operators.patterns.positions import END, START, Literal, Positions, Way, build_positions

__all__ = ["UNDECIDED", "Outcome", "PatternTable", "State", "Taken"]

_MOST_OPEN = 4
"""So many conditions that look at the match are tried both ways; where there are more of them they are asked."""


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
        step: The only thing that it does, if that is one partial match taking it, and not ending: choice, position and
            state of what was taken; else None.
        takes: The partial matches that it makes by being taken, in order of choice.
        stays: The ways that are open to the match without the event; 0 if there are none.
        ended: Choice of the way on which the match is complete without the event; None if there is none.
    """

    step: tuple[int, int, int] | None
    takes: tuple[Taken, ...]
    stays: int
    ended: int | None


UNDECIDED = Outcome(None, (), 0, None)
"""Stands for what conditions that look at the match decide."""


class State:
    """Ways that are open together.

    Attributes:
        number: A bit for each.
        ways: The ways, by choice.
        asks: Numbers of the conditions that decide.
        outcomes: What happens, by the conditions' bits; None if the match stays what it was.
        pending: The way on which time completes the match; None if there is none.
        has_gaps: Whether ways end some time after the last event.
        lasting_ms: How long after the last event any way but the pending one is open; None if one always is.
    """

    __slots__ = ("asks", "has_gaps", "lasting_ms", "number", "outcomes", "pending", "ways")

    def __init__(self, number: int, ways: tuple[Way, ...], asks: tuple[int, ...]) -> None:
        self.number = number
        self.ways = ways
        self.asks = asks
        self.outcomes: dict[int, Outcome | None] = {}
        self.pending = next((way for way in ways if way.target == END and way.takes is None), None)
        gaps = [way.gap_ms for way in ways if way is not self.pending]
        self.has_gaps = any(way.gap_ms is not None for way in ways)
        known = [gap for gap in gaps if gap is not None]
        self.lasting_ms = max(known) if known and len(known) == len(gaps) else None


class _ByCode(dict[int, "Outcome | None"]):
    """What happens to partial matches of a state, by events' numbers; worked out when it is asked for first."""

    def __init__(self, table: PatternTable, state: State) -> None:
        super().__init__()
        self._table = table
        self._state = state

    def __missing__(self, code: int) -> Outcome | None:
        outcome = self[code] = self._table.decided(self._state, code)
        return outcome


class _ByState(dict[int, _ByCode]):
    """The same for all states."""

    def __init__(self, table: PatternTable) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, number: int) -> _ByCode:
        by_code = self[number] = _ByCode(self._table, self._table.state(number))
        return by_code


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
        simple: Numbers of those that do not: an event's number has a bit for each, in this order.
        states: Those that have been asked for, by number.
        by_code: What happens, by number of a state, then by an event's; None if nothing does, `UNDECIDED` if conditions
            have to be asked.
    """

    def __init__(self, spec: PatternSpec) -> None:
        self.spec = spec
        self.positions: Positions = build_positions(spec)
        self.tests: tuple[Callable[..., Any], ...] = tuple(each.test for each in self.positions.conditions)
        self.looks_back = tuple(each.looks_back for each in self.positions.conditions)
        self.simple = tuple(number for number, looks_back in enumerate(self.looks_back) if not looks_back)
        self._bits = {number: 1 << bit for bit, number in enumerate(self.simple)}
        self.states: dict[int, State] = {}
        self.by_code = _ByState(self)
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

    def outcome(self, state: State, bits: int) -> Outcome | None:
        """Return what an event does; None if nothing.

        Args:
            state: The state.
            bits: Of the conditions that it asks, in their order, the first one lowest.
        """
        if bits not in state.outcomes:
            state.outcomes[bits] = self._work_out(state, bits)
        return state.outcomes[bits]

    def decided(self, state: State, code: int) -> Outcome | None:
        """Return what an event does, as `outcome`; `UNDECIDED` if its number does not decide it.

        Args:
            state: The state.
            code: The event's number, or `UNTOLD`.
        """
        if code == UNTOLD:
            return UNDECIDED
        known, open_bits = 0, []
        for place, number in enumerate(state.asks):
            if self.looks_back[number]:
                open_bits.append(1 << place)
            elif code & self._bits[number]:
                known |= 1 << place
        if len(open_bits) > _MOST_OPEN:
            return UNDECIDED
        choices = product(*((0, bit) for bit in open_bits))
        first, *others = (self.outcome(state, known | sum(choice)) for choice in choices)
        return first if all(each == first for each in others) else UNDECIDED

    def passes_misfits(self) -> bool:
        """Return whether an event for which no condition is true changes nothing, whatever a key has."""
        nothing = dict.fromkeys(range(len(self.tests)), False)
        if any(self.looks_back) or self.outcome(self.start, 0) is not None:
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
        return State(number, ways, asks)

    def _work_out(self, state: State, bits: int) -> Outcome | None:
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
        if not takes and ended is None and (stays == state.number or state is self.start):
            return None
        step = None
        if len(takes) == 1 and not stays and ended is None and takes[0].state and not takes[0].completes:
            step = takes[0][:3]
        return Outcome(step, tuple(sorted(takes)), stays, ended)


def _all(literals: tuple[Literal, ...], says: dict[int, bool]) -> bool:
    return all(says[each] is wanted for each, wanted in literals)


def _bits(number: int) -> list[int]:
    return [place for place in range(number.bit_length()) if number >> place & 1]
