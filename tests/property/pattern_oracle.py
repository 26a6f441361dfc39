"""Patterns at random as plain data, and all matches of one, found by trying everything.

A pattern is a dict that JSON can hold, so that Flink can be asked as well:

    {"steps": [step, ...], "within": ms or None, "skip": [kind, name]}
    step: {"kind": "part" | "group" | "not", "name", "how", "letters", "above", "least", "most", "optional", "greedy",
           "inner", "until", "steps"}

An event is (letter, value, time). A part takes an event whose letter is one of its letters and, if `above` names a
part, whose value is above that of the last event of that part, if there is one.

The oracle writes out each way to read the pattern - each number of rounds, each choice of optional parts - as a word,
a row of slots with what may lie between two of them, and lays each word on the events in every possible way.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

RELAXED, STRICT, ANY = "followed_by", "next", "followed_by_any"


@dataclass(frozen=True)
class Slot:
    name: str
    letters: str
    above: str | None
    how: str | None = None  # what may lie before it; None where the group says it
    nots: tuple[str, ...] = ()
    first_nots: tuple[str, ...] = ()
    untils: tuple[str, ...] = ()  # it takes none of these
    passes_not: tuple[str, ...] = ()  # nor are these let pass before it
    claims: tuple[tuple[tuple[str, str | None], str | None], ...] = ()  # (what fits, what ends it)
    claims_last: bool = True
    path: tuple[int, ...] = ()  # step and round, of groups first


def words(pattern, most):
    """Return every word of the pattern; those with more slots are cut, for no match has so many events."""
    steps = pattern["steps"]
    found = set()
    for word, state in sequence(steps, most, ()):
        found.add((tuple(word), state))
    return [(list(word), state) for word, state in found]


def sequence(steps, most, outer):
    """Yield (slots, what holds behind them)."""
    yield from _sequence(list(steps), 0, [], ((), (), (), True), most, outer)


def _sequence(steps, index, word, state, most, outer):
    if index == len(steps) or len(word) >= most:
        yield word[:most], state
        return
    step = steps[index]
    nots, first_nots, claims, claims_last = state
    if step["kind"] == "not":
        if step["how"] == "not_next":
            state = nots, (*first_nots, step["letters"]), claims, claims_last
        else:
            state = (*nots, step["letters"]), first_nots, claims, claims_last
        yield from _sequence(steps, index + 1, word, state, most, outer)
        return
    greedy = step["greedy"] and step["least"] != step["most"]
    claim = (((step["letters"], step["above"]), step["until"]),) if greedy else ()
    for slots, behind in rounds(step, behind_of(steps, index), most - len(word), outer):
        slots = under(index, slots)
        first = slots[0]
        own = step["how"] if index or first.how else None
        entered = replace(
            first,
            how=first.how or own,
            nots=first.nots + nots,
            first_nots=first.first_nots + first_nots,
            claims=claims + first.claims,
            claims_last=claims_last and not step["optional"] and first.claims_last,
        )
        after = behind[0], behind[1], behind[2] + claim, True if claim else behind[3]
        yield from _sequence(steps, index + 1, [*word, entered, *slots[1:]], after, most, outer)
    if step["optional"]:
        skipped = nots, first_nots, claims + claim, bool(claim)
        yield from _sequence(steps, index + 1, word, skipped, most, outer)


def behind_of(steps, index):
    nots, first_nots = [], []
    for step in steps[index + 1 :]:
        if step["kind"] != "not":
            break
        (first_nots if step["how"] == "not_next" else nots).append(step["letters"])
    return tuple(nots), tuple(first_nots)


def under(number, slots):
    return [replace(slot, path=(number, *slot.path)) for slot in slots]


def rounds(step, behind, most, outer):
    """Yield (slots, what holds behind them) of a part, at least one slot."""
    until = (step["until"],) if step["until"] else ()
    top = step["most"] or most
    if step["kind"] == "part":
        slot = Slot(step["name"], step["letters"], step["above"], untils=(*outer, *until), passes_not=outer)
        again = replace(
            slot, how=step["inner"], nots=behind[0], first_nots=behind[1], passes_not=(*outer, *until)
        )
        for number in range(min(step["least"], most), min(top, most) + 1):
            row = [slot] + [again] * (number - 1)
            yield [replace(each, path=(place,)) for place, each in enumerate(row)], ((), (), (), True)
        return
    inside = {
        (tuple(slots), after) for slots, after in sequence(step["steps"], most, (*outer, *until)) if slots
    }
    inside = [(list(slots), after) for slots, after in inside]
    yield from _group(step, behind, most, inside, [], ((), (), (), True), 0)


def _group(step, behind, most, inside, word, state, number):
    if len(word) >= most:
        yield word[:most], state
        return
    if number >= step["least"]:
        yield word, state
    if step["most"] is not None and number == step["most"]:
        return
    for slots, after in inside:
        slots = under(number, slots)
        first = slots[0]
        if number:
            first = replace(
                first,
                how=first.how or step["inner"],
                nots=first.nots + state[0] + behind[0],
                first_nots=first.first_nots + state[1] + behind[1],
                claims=state[2] + first.claims,
                claims_last=state[3] and first.claims_last,
            )
        yield from _group(step, behind, most, inside, [*word, first, *slots[1:]], after, number + 1)


def fits(slot, event, taken, events):
    if event[0] not in slot.letters or any(event[0] in each for each in slot.untils):
        return False
    if slot.above is None:
        return True
    before = [events[place][1] for name, place in taken if name == slot.above]
    return not before or event[1] > before[-1]


def passes(slot, event, taken, events):
    """Whether an event may lie before the slot's."""
    if slot.how == STRICT or any(event[0] in each for each in slot.passes_not):
        return False
    if slot.how == ANY:
        return True
    # What is not let pass for `until` does not fit the part's own condition only.
    return not fits(replace(slot, untils=()), event, taken, events)


def allowed(slot, event, distance, freed, taken, events):
    """Whether what lies around the slot lets an event come: so far behind the last one taken."""
    if distance == 1 and any(event[0] in each for each in slot.first_nots):
        return False
    if distance == 1 or slot.claims_last:
        for number, ((letters, above), _) in enumerate(slot.claims):
            if number not in freed and fits(Slot("", letters, above), event, taken, events):
                return False
    return True


def order_of(word, taken):
    """Return what orders matches that begin with the same event: round a loop first, then on in the pattern."""
    steps, before = [], ()
    for slot, (_, place) in zip(word, taken, strict=False):
        common = len(
            list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, slot.path, strict=False)))
        )
        steps.append((-common, slot.path, place))
        before = slot.path
    return steps


def freed_by(slot, event):
    """Return the claims that the very next event ends."""
    return {number for number, (_, until) in enumerate(slot.claims) if until and event[0] in until}


def lay(word, events, within, more_to_come):
    """Yield each way to lay the word, or a part of its beginning, on the events, see `_lay`."""
    for start, event in enumerate(events):
        freed = freed_by(word[0], event)
        if fits(word[0], event, (), events) and allowed(word[0], event, 1, freed, (), events):
            yield from _lay(word, events, within, ((word[0].name, start),), start, more_to_come)


def _lay(word, events, within, taken, start, more_to_come):
    """Yield each prefix with whether it is whole, and the place up to which it may wait for its next slot."""
    until_time = None if within is None else events[start][2] + within
    if len(taken) == len(word):
        yield taken, True, None
        return
    slot = word[len(taken)]
    place = taken[-1][1]
    freed = freed_by(slot, events[place + 1]) if place + 1 < len(events) else set()
    for next_place in range(place + 1, len(events)):
        event = events[next_place]
        if until_time is not None and event[2] >= until_time:
            yield taken, False, until_time
            return
        distance = next_place - place
        if not allowed(slot, event, distance, freed, taken, events):
            return
        forbidden = any(event[0] in each for each in slot.nots)
        # What completes the match does not lie between two of its events.
        completes = len(taken) + 1 == len(word) and not more_to_come
        if fits(slot, event, taken, events) and (completes or not forbidden):
            more = (*taken, (slot.name, next_place))
            yield from _lay(word, events, within, more, start, more_to_come)
        if forbidden or not passes(slot, event, taken, events):
            return
    yield taken, False, until_time  # None: it waits for ever


def matches(pattern, events):
    """Return matches [(time, ((name, place), ...), order)], partial ones whose time is up, who waits for ever."""
    within = pattern["within"]
    last = pattern["steps"][-1]
    complete, partial, endless = [], set(), set()

    def wait(taken, until):
        if until is None:
            endless.add(taken)
        else:
            partial.add((until, taken))

    for word, (nots, first_nots, _, _) in words(pattern, len(events) + 1):
        if not word:
            continue
        for taken, whole, until in lay(word, events, within, last["kind"] == "not"):
            order = order_of(word, taken)
            if not whole:
                wait(taken, until)
            elif last["kind"] != "not":
                complete.append((events[taken[-1][1]][2], taken, order))
            else:
                until = None if within is None else events[taken[0][1]][2] + within
                behind = events[taken[-1][1] + 1 :]
                end = ending(last["how"] == "not_next", behind, until, nots, first_nots)
                if end == "waits":
                    wait(taken, until)
                elif end is not None:
                    complete.append((end, taken, order))
    # What time completes is a match, although it might have gone on.
    partial -= {(time, taken) for time, taken, _ in complete if last["kind"] == "not"}
    return complete, partial, endless


def ending(at_once, behind, until, nots, first_nots):
    """Return when what must not come has not come; "waits" if that is open, None if it came."""
    if at_once:
        if not behind or (until is not None and behind[0][2] >= until):
            return "waits"
        return None if any(behind[0][0] in each for each in (*nots, *first_nots)) else behind[0][2]
    inside = [event for event in behind if event[2] < until]
    if any(event[0] in each for event in inside for each in nots):
        return None
    return None if inside and any(inside[0][0] in each for each in first_nots) else until


def completed_at(match, events, pattern):
    """Return by which event a match is complete; time that completes it comes first at its moment."""
    time, taken, _ = match
    last = pattern["steps"][-1]
    if last["kind"] != "not":
        return taken[-1][1]
    if last["how"] == "not_next":
        return taken[-1][1] + 1
    return time


def skipped(pattern, events):
    """Return the matches that are left by the pattern's skip strategy: [((name, place), ...)]."""
    kind, name = pattern["skip"]
    complete, _, endless = matches(pattern, events)
    if kind == "no_skip":
        return sorted(taken for _, taken, _ in complete)
    rows = sorted(
        complete, key=lambda match: (match[1][0][1], completed_at(match, events, pattern), match[2])
    )
    kept, first = [], 0
    for start, several in itertools.groupby(rows, lambda match: match[1][0][1]):
        if any(first <= taken[0][1] < start for taken in endless):
            break
        for _, taken, _ in several:
            if start < first:
                continue
            kept.append(taken)
            if kind == "skip_to_next":
                first = max(first, start + 1)
            elif kind == "skip_past_last_event":
                first = max(first, taken[-1][1] + 1)
            else:
                places = [place for each, place in taken if each == name]
                if places:
                    first = max(first, places[0 if kind == "skip_to_first" else -1])
    return sorted(kept)
