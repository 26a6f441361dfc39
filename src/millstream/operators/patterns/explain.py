"""A pattern's automaton as text."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.operators.patterns.parts import Contiguity, PatternSpec
from millstream.operators.patterns.positions import END, START, Literal, Positions, Way, build_positions

__all__ = ["explain"]

_LETS_PASS = {
    Contiguity.STRICT: "the very next event",
    Contiguity.RELAXED: "the next that fits",
    Contiguity.ANY: "any that fits",
}


def explain(spec: PatternSpec) -> str:
    """Return the states of a pattern and what leads from one to the next.

    A state is an event that was taken last. A transition says which event it takes, and which it lets pass while it
    waits.
    """
    positions = build_positions(spec)
    lines = [spec.describe(), ""]
    for source in (START, *range(len(positions.positions))):
        ends = "  (a match ends here)" if source in positions.accepting else ""
        lines.append(f"[{_place(positions, source)}]{ends}")
        ways = [way for way in positions.ways if way.source == source and not way.is_waiting]
        lines += [f"  {line}" for way in sorted(ways, key=_by_choice) for line in _describe(positions, way)]
    return "\n".join(lines)


def _by_choice(way: Way) -> int:
    return way.choice


def _place(positions: Positions, number: int) -> str:
    if number == START:
        return "start"
    if number == END:
        return "end"
    position = positions.positions[number]
    several = sum(each.name == position.name for each in positions.positions) > 1
    if not several:
        return position.name
    same = [place for place, each in enumerate(positions.positions) if each.name == position.name]
    return f"{position.name} {same.index(number) + 1}"


def _describe(positions: Positions, way: Way) -> list[str]:
    target = _place(positions, way.target)
    gap = "" if way.gap_ms is None else f", less than {way.gap_ms} ms later"
    if way.target == END:
        unless = _all(positions, (*(way.takes or ()), *(way.passes or ()), *way.free))
        if way.takes is None:
            when = "when time is up" if way.gap_ms is None else f"when {way.gap_ms} ms have passed"
            return [f"──► {target}: {when}, while {unless}"]
        return [f"──► {target}: if of the very next event {unless}"]
    kind = "any event" if way.source == START else _LETS_PASS[way.kind]
    text = [f"──► {target}: {kind}, {_all(positions, way.takes)}{gap}"]
    later = positions.ways[way.waiting]
    if way.source != START and way.passes is not None:
        text.append(f"     lets pass {_all(positions, way.passes) or 'everything'}")
        if later is not way:
            text.append(f"     later takes {_all(positions, later.takes)}")
            text.append(f"     later lets pass {_all(positions, later.passes) or 'everything'}")
    if way.free:
        text.append(f"     while {_all(positions, way.free)}")
    return text


def _all(positions: Positions, literals: Iterable[Literal] | None) -> str:
    words = [
        positions.names[number] if wanted else f"not {positions.names[number]}"
        for number, wanted in literals or ()
    ]
    return " and ".join(words)
