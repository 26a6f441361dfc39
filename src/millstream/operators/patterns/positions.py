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
        free: All that has to be so for an event to be taken, or let pass, but not for one that completes a match.
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
    free: tuple[Literal, ...]
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


_Claims = tuple[tuple[int, int | None], ...]
"""What greedy parts claim: (condition, the condition that ends the part or None)."""


@dataclass(frozen=True)
class _End:
    """A position from which the pattern goes on.

    Attributes:
        position: The position.
        nots: What must not come until the next event is taken.
        first_nots: What the very next event must not be.
        claimed: What greedy parts before claim.
        claims_last: Whether that holds for as long as the way waits, and not for the next event only.
    """

    position: int
    nots: tuple[int, ...] = ()
    first_nots: tuple[int, ...] = ()
    claimed: _Claims = ()
    claims_last: bool = True


@dataclass(frozen=True)
class _Entry:
    """A position that may take the first event of a piece.

    Attributes:
        position: The position.
        contiguity: Which events may lie before; None where that of the piece counts.
        claimed: What greedy parts claim that are left out before it.
        lasting: Whether what a greedy part before claims holds for as long as the way waits: not where its own part is
            optional, also as the first one of a group, nor behind parts that are left out.
    """

    position: int
    contiguity: Contiguity | None = None
    claimed: _Claims = ()
    lasting: bool = True


@dataclass(frozen=True)
class _Fragment:
    """A piece of the pattern.

    Attributes:
        entries: What may take its first event.
        ends: Where it may end.
        nullable: Whether it may be left out.
    """

    entries: tuple[_Entry, ...]
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
    """

    contiguity: Contiguity
    gap_ms: int | None = None
    nots: tuple[int, ...] = ()
    first_nots: tuple[int, ...] = ()
    passes_not: tuple[int, ...] = ()


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
        for entry in whole.entries:
            self._connect(_End(START), entry, _Link(Contiguity.STRICT))
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
        entries: list[_Entry] = []
        skipped: _Claims = ()
        claims_last = True
        ends: tuple[_End, ...] = ()
        nullable = True
        for index, step in enumerate(steps):
            if isinstance(step, Forbidden):
                ends = self._forbid(ends, step)
                continue
            piece = self._part(step, _forbidden_behind(steps, index))
            own = step.contiguity
            link = _Link(own, step.gap_ms)
            for end in ends:
                for entry in piece.entries:
                    self._connect(end, entry, link)
            if nullable:
                entries += [
                    replace(
                        each,
                        contiguity=each.contiguity or own,
                        claimed=skipped + each.claimed,
                        lasting=each.lasting and claims_last,
                    )
                    if index
                    else each
                    for each in piece.entries
                ]
            nullable = nullable and piece.nullable
            claim = self._claim(step)
            skipped += claim
            claims_last = bool(claim)
            ends = self._ends_behind(piece, ends, claim)
        return _Fragment(tuple(entries), ends, nullable)

    def _claim(self, step: Part) -> _Claims:
        quantity = step.quantity
        if not quantity.greedy or quantity.least == quantity.most:
            return ()
        until = None if step.until is None else self._number(step.until, f"until of {step.name}")
        return ((self._number(step.condition, step.name), until),)

    @staticmethod
    def _ends_behind(piece: _Fragment, before: tuple[_End, ...], claim: _Claims) -> tuple[_End, ...]:
        passed = tuple(replace(end, claims_last=False) for end in before) if piece.nullable else ()
        ends = piece.ends + passed
        if not claim:
            return ends
        return tuple(replace(end, claimed=end.claimed + claim, claims_last=True) for end in ends)

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
        entries = pieces[0].entries
        if quantity.optional:
            entries = tuple(replace(each, lasting=False) for each in entries)
        return _Fragment(entries, ends, quantity.optional or all(each.nullable for each in pieces))

    def _round(self, part: Part, number: int, until: tuple[int, ...]) -> _Fragment:
        if part.is_group:
            return self._sequence(part.steps)
        passes = tuple((each, False) for each in self._untils)
        position = Position(part.name, number, self._number(part.condition, part.name), passes)
        if until:
            self._until_of[len(self._positions)] = until
        self._positions.append(position)
        number_of = len(self._positions) - 1
        return _Fragment((_Entry(number_of),), (_End(number_of),), False)

    def _link(self, before: _Fragment, piece: _Fragment, link: _Link) -> None:
        for end in before.ends:
            for entry in piece.entries:
                self._connect(end, entry, link)

    # Ways

    def _connect(self, end: _End, entry: _Entry, link: _Link) -> None:
        target = entry.position
        position = self._positions[target]
        nots = (*end.nots, *link.nots)
        first_nots = (*end.first_nots, *link.first_nots)
        takes = ((position.takes, True), *position.passes, *_false(self._until_of.get(target, ())))
        # Over an optional head the next part of a group is entered as it says itself.
        kind = entry.contiguity or link.contiguity
        passes: tuple[Literal, ...] | None
        if kind is Contiguity.STRICT:
            passes = None
        elif kind is Contiguity.RELAXED:
            passes = ((position.takes, False), *position.passes, *_false(link.passes_not))
        else:
            passes = (*position.passes, *_false(link.passes_not))
        choice = self._next_choice(end.position)
        way = Way(end.position, target, choice, takes, passes, _false(nots), -1, link.gap_ms, kind)
        lasting = entry.lasting and end.claims_last
        for first, later in _claims(end.claimed + entry.claimed):
            waiting = self._add(way, later if lasting else (), None)
            self._add(way, (*_false(first_nots), *first), waiting)

    def _add(self, way: Way, guard: Iterable[Literal], waiting: int | None) -> int:
        """Add a way, or take the one that is there already as its own form for waiting; return its number.

        Args:
            way: The way.
            guard: What has to be so besides.
            waiting: Its form for waiting; None if it is that.
        """
        more = tuple(guard)
        takes = None if way.takes is None else _distinct((*way.takes, *more))
        passes = None if way.passes is None else _distinct((*way.passes, *more))
        if waiting is not None:
            form = self._ways[waiting]
            if (form.takes, form.passes) == (takes, passes):
                self._ways[waiting] = replace(form, is_waiting=False)
                return waiting
        number = len(self._ways)
        self._ways.append(
            replace(
                way,
                takes=takes,
                passes=passes,
                waiting=number if waiting is None else waiting,
                is_waiting=waiting is None,
            )
        )
        return number

    def _next_choice(self, source: int) -> int:
        choice = self._choices.get(source, 0)
        self._choices[source] = choice + 1
        return choice

    def _end_without_event(self, end: _End, spec: PatternSpec) -> bool:
        """Add the way of a pattern that ends with something that must not come; return whether it does."""
        last = spec.steps[-1]
        if not isinstance(last, Forbidden):
            return False
        choice = self._next_choice(end.position)
        nots, first_nots = _false(end.nots), _false(end.first_nots)
        if last.at_once:
            way = Way(end.position, END, choice, (), None, nots, -1, last.gap_ms, Contiguity.STRICT)
            number = self._add(way, first_nots, None)
        else:
            way = Way(end.position, END, choice, None, (), nots, -1, last.gap_ms, Contiguity.ANY)
            number = self._add(way, (), None)
            if first_nots:
                self._add(way, first_nots, number)
                return True
        self._ways[number] = replace(self._ways[number], is_waiting=False)
        return True


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


def _claims(
    claimed: tuple[tuple[int, int | None], ...],
) -> list[tuple[tuple[Literal, ...], tuple[Literal, ...]]]:
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
