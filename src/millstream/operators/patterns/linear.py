"""Patterns that are one row of events, each the next or one that follows: without branches, and with little work.

In such a pattern every partial match has one way on, and what an event does depends on how far a match is and on the
event's number (`codes`) alone. So partial matches that are equally far go on together, or end together, and one that
began earlier is never behind one that began later. What a key has is then one list for each **stage**, the number of
events taken less one; going on moves a whole list in one step, whatever is in it::

    a followed_by b followed_by c

    events      a1        a2        b1                  a3        b2
    stage 0     [a1]      [a1 a2]   []                  [a3]      []
    stage 1     []        []        [([a1 a2], b1)]     ...       [([a1 a2], b1), ([a3], b2)]

`PatternAutomaton` gives the same for such patterns, one match at a time: it takes over where conditions cannot be asked
beforehand, and what a checkpoint has of a key is its form (`Held`) in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.patterns.automaton import Found
from millstream.operators.patterns.held import Edge, Event, Held, Run, path_of
from millstream.operators.patterns.parts import Contiguity, SkipTo
from millstream.operators.patterns.positions import Way
from millstream.operators.patterns.table import PatternTable

__all__ = ["Line", "LinearAutomaton", "is_linear"]

_NEVER = MAX_TIMESTAMP
"""When nothing is due."""

Node = Any
"""Of stage 0 the event that a match begins with; else the list of nodes that went on together, and the event."""

_SKIPS = frozenset({SkipTo.NOWHERE, SkipTo.NEXT, SkipTo.PAST_LAST})
"""Of matches that one event completes no two begin with the same event, so skipping to the next leaves them all."""

_MOST_CONDITIONS = 8
"""So many conditions make 256 numbers, of each of which is worked out beforehand what it does."""


class Line:
    """What one key has of a linear pattern; pickled as a `Held`.

    Attributes:
        stages: Partial matches by stage, each list in order of first events; the highest stage has the earliest.
        due_ms: When the time of the earliest is up; `_NEVER` if there is none, or no bound.
        count: How many events were numbered.
        timer_ms: When the key's timer is due; None if there is none.
        states: What the general automaton calls the stages.
    """

    __slots__ = ("count", "due_ms", "stages", "states", "timer_ms")

    def __init__(self, states: tuple[int, ...]) -> None:
        self.states = states
        self.stages: list[list[Node]] = [[] for _ in states]
        self.due_ms = _NEVER
        self.count = 0
        self.timer_ms: int | None = None

    def end_all(self) -> None:
        """End all partial matches."""
        for nodes in self.stages:
            nodes.clear()
        self.due_ms = _NEVER

    def general(self) -> Held:
        """Return it as the general automaton has it."""
        held = Held()
        held.count, held.timer_ms = self.count, self.timer_ms
        for stage in range(len(self.stages) - 1, -1, -1):
            held.runs += [_run_of(path, self.states[stage]) for path in _paths(self.stages[stage], stage)]
        return held

    def __repr__(self) -> str:
        return repr(self.general())

    def __reduce__(self) -> tuple[Any, ...]:
        return self.general().__reduce__()


def is_linear(table: PatternTable) -> bool:
    """Return whether a pattern can be run by a `LinearAutomaton`."""
    positions = table.positions
    return (
        table.spec.skip.to in _SKIPS
        and not any(table.looks_back)
        and len(table.tests) <= _MOST_CONDITIONS
        and len(positions.ways) == len(positions.positions) > 1
        and positions.accepting == {len(positions.positions) - 1}
        and len({way.source for way in positions.ways}) == len(positions.ways)
        and all(_is_plain(number, way) for number, way in enumerate(positions.ways))
    )


def _is_plain(number: int, way: Way) -> bool:
    return (
        way.target == way.source + 1
        and way.kind is not Contiguity.ANY
        and way.waiting == number
        and way.takes is not None
        and not way.free
        and way.gap_ms is None
    )


class _Effect(NamedTuple):
    """What an event does.

    Attributes:
        begins: Whether a match begins with it.
        steps: The stages that go on, latest first; ~stage of one that ends.
        only: The one thing that it does, if that is not an end: the stage that goes on, or `_BEGINS`; else `_SEVERAL`.
    """

    begins: bool
    steps: tuple[int, ...]
    only: int


_BEGINS = -1
_SEVERAL = -2


def _effect(table: PatternTable, code: int) -> _Effect:
    begun = table.by_code[table.start.number][code]
    begins = begun is not None and bool(begun.takes)
    steps = []
    for stage in range(len(table.positions.positions) - 2, -1, -1):
        outcome = table.by_code[table.fresh(stage)][code]
        if outcome is not None:
            steps.append(stage if outcome.takes else ~stage)
    only = _SEVERAL
    if begins and not steps:
        only = _BEGINS
    elif len(steps) == 1 and not begins and steps[0] >= 0:
        only = steps[0]
    return _Effect(begins, tuple(steps), only)


class LinearAutomaton:
    """Runs a linear pattern for any number of keys.

    Args:
        table: The pattern; `is_linear`.
        reports_partial: Whether partial matches whose time is up are wanted.
    """

    def __init__(self, table: PatternTable, *, reports_partial: bool = False) -> None:
        self._names = [position.name for position in table.positions.positions]
        self._last = len(self._names) - 2
        self._states = tuple(map(table.fresh, range(self._last + 1)))
        self._first = _first_of(self._names)
        self._within_ms = table.spec.within_ms
        self._skips = table.spec.skip.to is SkipTo.PAST_LAST
        self._reports_partial = reports_partial
        self._effects = [_effect(table, code) for code in range(1 << len(table.tests))]

    def line_of(self, held: Held) -> Line:
        """Return what a key has, as this automaton has it."""
        line = Line(self._states)
        line.count, line.timer_ms = held.count, held.timer_ms
        paths = [[event for _, event in path_of(edge)] for _, edge, _ in held.runs]
        for length, alike in groupby(paths, len):
            line.stages[length - 1] = _nodes(list(alike), length - 1)
        line.due_ms = self._due(line)
        return line

    def run(  # noqa: C901 - one loop: calls for each event would cost more than what they do
        self,
        entries: Iterable[tuple[int, Any, Any, int]],
        lines: MutableMapping[Any, Any],
        register: Callable[[int, Any], None],
        used: list[Any] | None,
    ) -> Iterator[tuple[Any, Any, list[Found]]]:
        """Take events; yield (key, event, found) where there are matches, or partial ones whose time is up.

        Args:
            entries: Time, key, event and number of each event; times ascend.
            lines: What each key has; changed.
            register: Sets a timer, at a time for a key.
            used: Gets the keys of which something was used; None if nobody asks.
        """
        find, effects, within_ms, skips = lines.get, self._effects, self._within_ms, self._skips
        begins, only = [each.begins for each in effects], [each.only for each in effects]
        found: list[Found] = []
        last, first = self._last, self._first
        for stamp, key, value, code in entries:
            line = find(key)
            if line is None:
                if not begins[code]:
                    continue
                line = Line(self._states)
            elif type(line) is not Line:
                line = self.line_of(line)
            if used is not None:
                used.append(key)
            if line.due_ms <= stamp:
                self.expire(line, stamp, found)
                lines[key] = line
            step = only[code]
            if step == _BEGINS:
                line.stages[0].append((stamp, line.count, value))
                line.count += 1
                if within_ms is not None and line.due_ms == _NEVER:
                    line.due_ms = stamp + within_ms
                    if line.timer_ms is None:
                        line.timer_ms = line.due_ms
                        register(line.due_ms, key)
                lines[key] = line
            elif step < last and step != _SEVERAL:
                stages = line.stages
                nodes = stages[step]
                if nodes:
                    stages[step + 1].append((nodes, (stamp, line.count, value)))
                    stages[step] = []
                    line.count += 1
                    lines[key] = line
            elif step == last and skips:
                nodes = line.stages[last]
                if nodes:
                    found.append(Found(stamp, first(nodes, value), False))
                    line.end_all()  # it rules out all that there is
                    if line.timer_ms is not None:
                        lines[key] = line
                    else:
                        lines.pop(key, None)
            elif self._advance(line, stamp, value, effects[code], found):
                if line.timer_ms is None and line.due_ms != _NEVER:
                    line.timer_ms = line.due_ms
                    register(line.due_ms, key)
                if line.timer_ms is None and not any(line.stages):
                    lines.pop(key, None)
                else:
                    lines[key] = line
            if found:
                yield key, value, found
                found = []

    def _advance(self, line: Line, stamp: int, value: Any, effect: _Effect, found: list[Found]) -> bool:
        """Take an event; matches are added to `found`. Return whether it changed anything."""
        event, stages, last = (stamp, line.count, value), line.stages, self._last
        changed = effect.begins
        for step in effect.steps:
            stage = step if step >= 0 else ~step
            nodes = stages[stage]
            if not nodes:
                continue
            changed = True
            stages[stage] = []
            if step < 0:
                continue
            if stage < last:
                stages[stage + 1].append((nodes, event))
            elif self._skips:
                found.append(Found(stamp, self._first(nodes, value), False))
                line.end_all()
                return True
            else:
                found += [self._found(stamp, (*path, event)) for path in _paths(nodes, stage)]
        if changed:
            line.count += 1
            if effect.begins:
                stages[0].append(event)
            line.due_ms = self._due(line)
        return changed

    def fire(
        self,
        key: Any,
        now_ms: int,
        lines: MutableMapping[Any, Any],
        register: Callable[[int, Any], None],
        found: list[Found],
    ) -> None:
        """Let time go on for a key whose timer has fired, as `expire`; set the next one if anything is left."""
        line = lines[key]
        if type(line) is not Line:
            line = self.line_of(line)
        self.expire(line, now_ms, found)
        if line.due_ms == _NEVER:
            del lines[key]
            return
        line.timer_ms = line.due_ms
        register(line.due_ms, key)
        lines[key] = line

    def expire(self, line: Line, now_ms: int, found: list[Found]) -> None:
        """Let time go on: partial matches whose time is up end, and are added to `found` if they are wanted."""
        within_ms, stages = self._within_ms, line.stages
        if within_ms is None:
            return
        latest_ms = now_ms - within_ms
        for stage in range(self._last, -1, -1):
            nodes = stages[stage]
            if not nodes:
                continue
            if self._reports_partial:
                ended = takewhile(lambda path: path[0][0] <= latest_ms, _paths(nodes, stage))
                found += [self._found(path[0][0] + within_ms, path, timed_out=True) for path in ended]
            if not _drop_begun_by(latest_ms, nodes, stage):
                break
        line.due_ms = self._due(line)

    def _due(self, line: Line) -> int:
        if self._within_ms is None:
            return _NEVER
        for stage in range(self._last, -1, -1):
            nodes = line.stages[stage]
            if nodes:
                for _ in range(stage):
                    nodes = nodes[0][0]
                first_ms: int = nodes[0][0]
                return first_ms + self._within_ms
        return _NEVER

    def _found(self, stamp: int, path: Sequence[Event], *, timed_out: bool = False) -> Found:
        events: dict[str, list[Any]] = {}
        for name, event in zip(self._names, path, strict=False):
            events.setdefault(name, []).append(event[2])
        return Found(stamp, events, timed_out)


def _paths(nodes: list[Node], stage: int) -> Iterator[tuple[Event, ...]]:
    """Yield the events of each partial match of a stage, by first event."""
    if stage == 0:
        for event in nodes:
            yield (event,)
        return
    for before, event in nodes:
        for path in _paths(before, stage - 1):
            yield (*path, event)


def _first_of(names: list[str]) -> Callable[[list[Node], Any], dict[str, list[Any]]]:
    """Return what makes a match of the nodes of the last stage and the last event: that which began first.

    It is written for the pattern, as the match has to be made for each that is found:

    >>> _first_of(["a", "b", "c"])([([(5, 0, "a1"), (6, 1, "a2")], (7, 2, "b1"))], "c1")
    {'a': ['a1'], 'b': ['b1'], 'c': ['c1']}
    """
    last = len(names) - 1
    places: dict[str, list[str]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append("value" if place == last else f"event{place}[2]")
    lines = [f"nodes, event{stage} = nodes[0]" for stage in range(last - 1, 0, -1)]
    events = ", ".join(f"{name!r}: [{', '.join(taken)}]" for name, taken in places.items())
    body = "".join(f"    {line}\n" for line in (*lines, "event0 = nodes[0]", f"return {{{events}}}"))
    made: dict[str, Any] = {}
    exec(f"def first(nodes, value):\n{body}", made)
    first: Callable[[list[Node], Any], dict[str, list[Any]]] = made["first"]
    return first


def _drop_begun_by(time_ms: int, nodes: list[Node], stage: int) -> bool:
    """Remove the partial matches of a stage that began by a time; return whether none is left."""
    ended = 0
    for node in nodes:
        if node[0] > time_ms if stage == 0 else not _drop_begun_by(time_ms, node[0], stage - 1):
            break
        ended += 1
    del nodes[:ended]
    return not nodes


def _nodes(paths: list[list[Event]], stage: int) -> list[Node]:
    """Return partial matches of a stage as nodes; those that went on with the same event are one."""
    if stage == 0:
        return [path[0] for path in paths]
    together = groupby(paths, lambda path: path[stage][1])
    return [
        (_nodes(several, stage - 1), several[0][stage]) for _, each in together if (several := list(each))
    ]


def _run_of(path: tuple[Event, ...], state: int) -> Run:
    edge: Edge | None = None
    for position, event in enumerate(path):
        edge = (edge, position, event, 0)
    assert edge is not None
    return state, edge, path[0]
