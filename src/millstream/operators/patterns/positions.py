"""From a pattern to positions and the ways between them.

A **position** is a place in the pattern that takes one event: each part has one, a part that occurs up to three times
three of them. After an event was taken at a position there are several **ways** on, one to each position that may take
the next event: round the loop again, to the part behind it, over optional parts to those behind them. A way tells which
events it may take, and which it lets pass while it waits::

    begin a, followed_by b {1,}, followed_by c

      START ──a──► [a] ──b──► [b]──┐ b      ways from [b]:  b again   takes b, lets pass what is not b
                                ▲──┘                        to c      takes c, lets pass what is not c
                               [b] ──c──► [c]  accepting

This is the position automaton of Glushkov ("The abstract theory of automata", 1961) with what lies between two events
as a property of the ways. A way whose first step differs from the later ones (`not_next`, what a greedy part claims)
has another way as its form for waiting.

Order matters where one event completes several matches: ways of a position are numbered, on round a loop first, then
as the pattern has its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millstream.operators.patterns.parts import Condition, Contiguity, Forbidden, Part, PatternSpec

__all__ = ["END", "START", "Literal", "Position", "Positions", "Way", "build_positions"]

START = -1
END = -2

Literal = tuple[int, bool]
"""Number of a condition, and what it has to say."""


@dataclass(frozen=True)
class Position:
    """A place that takes one event.

    Attributes:
        name: Of the part.
        round: Which of the part's events it is, from 1; of a loop the last one stands for all further ones.
        takes: What an event has to fit.
        passes: What must not be true of an event that is let pass on the way to it, nor of the one taken.
    """

    name: str
    round: int
    takes: int
    passes: tuple[Literal, ...] = ()


@dataclass(frozen=True)
class Way:
    """A way from a position to the next.

    Attributes:
        source: The position, START for the beginning.
        target: The position that takes the event; END if the pattern ends there without one.
        choice: Its number among the ways of the source; forms for waiting have that of their way.
        takes: All that has to be so for an event to be taken; None if none is.
        passes: All that has to be so for an event to be let pass; None if none may.
        waiting: Number of the way that this one is once an event was let pass.
        gap_ms: Ends when this has passed since the last event taken, milliseconds.
        kind: Which events it lets pass, as the pattern says.
        is_waiting: Whether it is only a form for waiting, on which no event may be the very next.
    """

    source: int
    target: int
    choice: int
    takes: tuple[Literal, ...] | None
    passes: tuple[Literal, ...] | None
    waiting: int
    gap_ms: int | None
    kind: Contiguity
    is_waiting: bool = False


@dataclass(frozen=True)
class Positions:
    """A pattern as positions and ways.

    Attributes:
        positions: All of them.
        ways: All of them, those from START first; numbers are indexes.
        accepting: Positions at which a match may end.
        conditions: By number.
        names: What each condition is called.
    """

    positions: tuple[Position, ...]
    ways: tuple[Way, ...]
    accepting: frozenset[int]
    conditions: tuple[Condition, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class _End:
    """A position from which the pattern goes on.

    Attributes:
        position: The position.
        nots: What must not come until the next event is taken.
        first_nots: What the very next event must not be.
        claimed: What greedy parts before claim: (condition, the condition that ends the part or None).
        claims_last: Whether that holds for as long as the way waits, and not for the next event only.
    """

    position: int
    nots: tuple[int, ...] = ()
    first_nots: tuple[int, ...] = ()
    claimed: tuple[tuple[int, int | None], ...] = ()
    claims_last: bool = True


@dataclass(frozen=True)
class _Fragment:
    """A piece of the pattern.

    Attributes:
        entries: Positions that may take its first event, each with its own contiguity; None has that of the piece.
        ends: Where it may end.
        nullable: Whether it may be left out.
    """

    entries: tuple[tuple[int, Contiguity | None], ...]
    ends: tuple[_End, ...]
    nullable: bool


@dataclass(frozen=True)
class _Link:
    """What holds on ways into a piece.

    Attributes:
        contiguity: Which events may lie between.
        gap_ms: How much time.
        nots: What must not come on the way.
        first_nots: What the very next event must not be.
        passes_not: What must not be let pass either.
        lasting: Whether what a greedy part before claims holds for as long as the way waits.
    """

    contiguity: Contiguity
    gap_ms: int | None = None
    nots: tuple[int, ...] = ()
    first_nots: tuple[int, ...] = ()
    passes_not: tuple[int, ...] = ()
    lasting: bool = True


def build_positions(spec: PatternSpec) -> Positions:
    """Return a pattern's positions and ways; they depend on nothing but the pattern."""
    return _Builder().build(spec)


class _Builder:
    def __init__(self) -> None:
        self._positions: list[Position] = []
        self._ways: list[Way] = []
        self._conditions: list[Condition] = []
        self._names: list[str] = []
        self._numbers: dict[int, int] = {}
        self._choices: dict[int, int] = {}
        self._untils: tuple[int, ...] = ()
        self._until_of: dict[int, tuple[int, ...]] = {}  # conditions that end the part of a position

    def build(self, spec: PatternSpec) -> Positions:
        whole = self._sequence(spec.steps)
        accepting = set()
        for end in whole.ends:
            if not self._end_without_event(end, spec):
                accepting.add(end.position)
        for position, _ in whole.entries:
            self._connect(_End(START), position, _Link(Contiguity.STRICT))
        ways = self._start_first()
        return Positions(
            tuple(self._positions), ways, frozenset(accepting), tuple(self._conditions), tuple(self._names)
        )

    def _start_first(self) -> tuple[Way, ...]:
        """Return the ways, those from the beginning first and the forms for waiting at their places."""
        order = sorted(range(len(self._ways)), key=lambda number: self._ways[number].source != START)
        place = {number: index for index, number in enumerate(order)}
        return tuple(
            replace(self._ways[number], waiting=place[self._ways[number].waiting]) for number in order
        )

    def _number(self, condition: Condition, name: str) -> int:
        number = self._numbers.get(id(condition))
        if number is None:
            number = self._numbers[id(condition)] = len(self._conditions)
            self._conditions.append(condition)
            self._names.append(name)
        return number

    # Pieces

    def _sequence(self, steps: tuple[Part | Forbidden, ...]) -> _Fragment:
        entries: list[tuple[int, Contiguity | None]] = []
        ends: tuple[_End, ...] = ()
        nullable = True
        for index, step in enumerate(steps):
            if isinstance(step, Forbidden):
                ends = self._forbid(ends, step)
                continue
            piece = self._part(step, _forbidden_behind(steps, index))
            own = step.contiguity
            link = _Link(own, step.gap_ms, lasting=not step.quantity.optional)
            for end in ends:
                for position, contiguity in piece.entries:
                    self._connect(end, position, replace(link, contiguity=contiguity or own))
            if nullable:
                entries += [(place, each or (own if index else None)) for place, each in piece.entries]
            nullable = nullable and piece.nullable
            ends = self._ends_behind(step, piece, ends)
        return _Fragment(tuple(entries), ends, nullable)

    def _ends_behind(self, step: Part, piece: _Fragment, before: tuple[_End, ...]) -> tuple[_End, ...]:
        passed = tuple(replace(end, claims_last=False) for end in before) if piece.nullable else ()
        ends = piece.ends + passed
        quantity = step.quantity
        if not quantity.greedy or quantity.least == quantity.most:
            return ends
        until = None if step.until is None else self._number(step.until, f"until of {step.name}")
        claim = (self._number(step.condition, step.name), until)
        return tuple(replace(end, claimed=(*end.claimed, claim), claims_last=True) for end in ends)

    def _forbid(self, ends: tuple[_End, ...], step: Forbidden) -> tuple[_End, ...]:
        number = self._number(step.condition, step.name)
        if step.at_once:
            return tuple(replace(end, first_nots=(*end.first_nots, number)) for end in ends)
        return tuple(replace(end, nots=(*end.nots, number)) for end in ends)

    def _part(self, part: Part, behind: tuple[Forbidden, ...]) -> _Fragment:
        nots = tuple(self._number(each.condition, each.name) for each in behind if not each.at_once)
        first_nots = tuple(self._number(each.condition, each.name) for each in behind if each.at_once)
        quantity = part.quantity
        until = () if part.until is None else (self._number(part.until, f"until of {part.name or 'group'}"),)
        again = _Link(quantity.inner, quantity.gap_ms, nots, first_nots, until)
        rounds = quantity.most or quantity.least
        outer = self._untils
        if part.is_group:
            self._untils += until
        pieces = [self._round(part, number, until) for number in range(1, rounds + 1)]
        self._untils = outer
        if quantity.loops:
            self._link(pieces[-1], pieces[-1], again)
        ends: tuple[_End, ...] = ()
        for number, piece in enumerate(pieces, 1):
            if number > 1:
                self._link(pieces[number - 2], piece, again)
            if number >= quantity.least or all(each.nullable for each in pieces):
                ends += piece.ends
        return _Fragment(pieces[0].entries, ends, quantity.optional or all(each.nullable for each in pieces))

    def _round(self, part: Part, number: int, until: tuple[int, ...]) -> _Fragment:
        if part.is_group:
            return self._sequence(part.steps)
        passes = tuple((each, False) for each in self._untils)
        position = Position(part.name, number, self._number(part.condition, part.name), passes)
        if until:
            self._until_of[len(self._positions)] = until
        self._positions.append(position)
        return _Fragment(((len(self._positions) - 1, None),), (_End(len(self._positions) - 1),), False)

    def _link(self, before: _Fragment, piece: _Fragment, link: _Link) -> None:
        for end in before.ends:
            for position, contiguity in piece.entries:
                # Over an optional head the next part of a group is entered as it says itself.
                self._connect(end, position, replace(link, contiguity=contiguity or link.contiguity))

    # Ways

    def _connect(self, end: _End, target: int, link: _Link) -> None:
        position = self._positions[target]
        nots = (*end.nots, *link.nots)
        first_nots = (*nots, *end.first_nots, *link.first_nots)
        until = self._until_of.get(target, ())
        takes = ((position.takes, True), *position.passes, *_false(until))
        passes: tuple[Literal, ...] | None
        if link.contiguity is Contiguity.STRICT:
            passes = None
        elif link.contiguity is Contiguity.RELAXED:
            passes = ((position.takes, False), *position.passes, *_false(link.passes_not))
        else:
            passes = (*position.passes, *_false(link.passes_not))
        choice = self._next_choice(end.position)
        lasting = link.lasting and end.claims_last
        for first, later in _claims(end.claimed):
            held = later if lasting else ()
            waiting = self._add(end, target, choice, takes, passes, (*_false(nots), *held), link, None)
            self._add(end, target, choice, takes, passes, (*_false(first_nots), *first), link, waiting)

    def _add(
        self,
        end: _End,
        target: int,
        choice: int,
        takes: tuple[Literal, ...] | None,
        passes: tuple[Literal, ...] | None,
        guard: Iterable[Literal],
        link: _Link,
        waiting: int | None,
    ) -> int:
        """Add a way, or take the one that is there already as its own form for waiting; return its number."""
        more = tuple(guard)
        way = Way(
            end.position,
            target,
            choice,
            None if takes is None else _distinct((*takes, *more)),
            None if passes is None else _distinct((*passes, *more)),
            len(self._ways),
            link.gap_ms,
            link.contiguity,
            waiting is None,
        )
        if waiting is not None:
            form = self._ways[waiting]
            if (form.takes, form.passes) == (way.takes, way.passes):
                self._ways[waiting] = replace(form, is_waiting=False)
                return waiting
            way = replace(way, waiting=waiting)
        self._ways.append(way)
        return len(self._ways) - 1

    def _next_choice(self, source: int) -> int:
        choice = self._choices.get(source, 0)
        self._choices[source] = choice + 1
        return choice

    def _end_without_event(self, end: _End, spec: PatternSpec) -> bool:
        """Add the way of a pattern that ends with something that must not come; return whether it does."""
        last = spec.steps[-1]
        if not isinstance(last, Forbidden):
            return False
        link = _Link(Contiguity.ANY, last.gap_ms)
        choice = self._next_choice(end.position)
        if last.at_once:
            strict = replace(link, contiguity=Contiguity.STRICT)
            self._add_only(end, choice, (), None, (*end.nots, *end.first_nots), strict)
        elif end.first_nots:
            waiting = self._add(end, END, choice, None, (), _false(end.nots), link, None)
            self._add(end, END, choice, None, (), _false((*end.nots, *end.first_nots)), link, waiting)
        else:
            self._add_only(end, choice, None, (), end.nots, link)
        return True

    def _add_only(
        self,
        end: _End,
        choice: int,
        takes: tuple[Literal, ...] | None,
        passes: tuple[Literal, ...] | None,
        nots: tuple[int, ...],
        link: _Link,
    ) -> None:
        """Add a way to the end that is the same for the next event and for later ones."""
        number = self._add(end, END, choice, takes, passes, _false(nots), link, None)
        self._ways[number] = replace(self._ways[number], is_waiting=False)


def _forbidden_behind(steps: tuple[Part | Forbidden, ...], index: int) -> tuple[Forbidden, ...]:
    """Return what must not come right behind a part: nor does it between two of the part's events."""
    found = []
    for step in steps[index + 1 :]:
        if not isinstance(step, Forbidden):
            break
        found.append(step)
    return tuple(found)


def _false(numbers: Iterable[int]) -> tuple[Literal, ...]:
    return tuple((number, False) for number in numbers)


def _distinct(literals: tuple[Literal, ...]) -> tuple[Literal, ...]:
    return tuple(dict.fromkeys(literals))


def _claims(claimed: tuple[tuple[int, int | None], ...]) -> list[tuple[tuple[Literal, ...], tuple[Literal, ...]]]:
    """Return what holds on a way behind greedy parts, for the next event and for later ones; one pair for each form.

    What ends a greedy part frees what it claims: there the way has two forms, of which one fits.
    """
    forms: list[tuple[tuple[Literal, ...], tuple[Literal, ...]]] = [((), ())]
    for condition, until in claimed:
        claim: Literal = (condition, False)
        if until is None:
            forms = [((*first, claim), (*later, claim)) for first, later in forms]
        else:
            forms = [
                each
                for first, later in forms
                for each in (
                    ((*first, (until, True)), later),
                    ((*first, (until, False), claim), (*later, claim)),
                )
            ]
    return forms
