"""Patterns and events at random (see `pattern_oracle`), and patterns as programs of ours."""

from __future__ import annotations

import itertools
import random

from millstream.cep import AfterMatchSkipStrategy, IterativeCondition, Pattern

HOWS = ["next", "followed_by", "followed_by_any"]
SKIPS = ["skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last"]


def ends_optional(step):
    return step["optional"] or (step["kind"] == "group" and ends_optional(step["steps"][-1]))


class Generator:
    """Makes patterns; the same seed gives the same ones.

    Args:
        seed: The seed.
        like_flink: Leaves out what Flink does in another way (docs/cep.md names it).
    """

    def __init__(self, seed, like_flink=False):
        self.random = random.Random(seed)
        self.like_flink = like_flink
        self.names = 0

    def chance(self, share):
        return self.random.random() < share

    def pattern(self):
        self.names = 0
        steps = self.steps(self.random.randint(1, 4), depth=0)
        within = self.random.choice([3, 5, 8, 12]) if self.chance(0.6) else None
        if steps[-1]["kind"] == "not" and steps[-1]["how"] == "not_followed_by" and within is None:
            within = 6
        skip = ["no_skip", ""]
        if self.chance(0.4):
            kind = self.random.choice(SKIPS)
            names = [step["name"] for step in steps if step["kind"] == "part"]
            if kind in SKIPS[:2] or names:
                skip = [kind, self.random.choice(names) if kind in SKIPS[2:] else ""]
        return {"steps": steps, "within": within, "skip": skip}

    def steps(self, number, depth, group=False):
        steps = []
        for index in range(number):
            previous = steps[-1] if steps else None
            bare = previous is not None and previous["kind"] != "not" and not ends_optional(previous)
            is_last = index == number - 1
            bare = bare and not (is_last and (group or (self.like_flink and self.varies(previous))))
            if bare and self.chance(0.2):
                how = self.random.choice(["not_next", "not_followed_by"])
                steps.append(self.part("not", how))
                continue
            if depth == 0 and self.chance(0.2):
                steps.append(self.group(steps, index))
            else:
                steps.append(self.quantified(self.part("part", self.how(index)), group and index == 0))
        if all(step["kind"] == "not" or step["optional"] for step in steps):
            steps[-1 if steps[-1]["kind"] != "not" else 0]["optional"] = False
        for before, step in itertools.pairwise(steps):
            if step["optional"]:
                before["greedy"] = False
        return steps

    def varies(self, step):
        return step["least"] != step["most"] or step["kind"] == "group"

    def how(self, index):
        return self.random.choice(HOWS) if index else "next"

    def part(self, kind, how):
        self.names += 1
        letters = "".join(self.random.sample("abcd", 1 if self.chance(0.75) else 2))
        above = f"p{self.random.randint(1, self.names)}" if kind == "part" and self.chance(0.15) else None
        return {
            "kind": kind,
            "name": f"p{self.names}",
            "how": how,
            "letters": letters,
            "above": above,
            "least": 1,
            "most": 1,
            "optional": False,
            "greedy": False,
            "inner": "followed_by",
            "until": None,
            "steps": [],
        }

    def group(self, steps, index):
        group = self.part("group", self.how(index))
        group["name"] = ""
        group["steps"] = self.steps(self.random.randint(2, 3), depth=1, group=True)
        group["above"] = None
        return self.quantified(group, False)

    def quantified(self, step, is_head):
        if self.like_flink and (is_head or step["kind"] == "group"):
            if step["kind"] == "group" and self.chance(0.4):
                step["least"] = step["most"] = 2
            elif step["kind"] == "group" and self.chance(0.3):
                step["optional"] = True
            return step
        if self.chance(0.4):
            step["least"] = self.random.randint(1, 2)
            step["most"] = None if self.chance(0.6) else step["least"] + self.random.randint(0, 1)
            if step["most"] != 1:
                step["inner"] = self.random.choice(HOWS)
            if step["most"] is None and self.chance(0.3):
                step["until"] = self.random.choice("abcd")
            several = step["most"] != 1 and step["inner"] != "followed_by_any"
            if step["kind"] == "part" and several and self.chance(0.4):
                step["greedy"] = True
        if self.chance(0.2):
            step["optional"] = True
        return step

    def events(self, number, letters="abcd"):
        """Return events in order of time; some have the same time."""
        time, events = 0, []
        for _ in range(number):
            time += self.random.choice([0, 1, 1, 1, 2, 3])
            events.append([self.random.choice(letters), self.random.randint(0, 9), time])
        return events


def step(name, letters, how="next", **more):
    """Return a part that takes one event, changed by what is given."""
    plain = {
        "kind": "part",
        "name": name,
        "how": how,
        "letters": letters,
        "above": None,
        "least": 1,
        "most": 1,
    }
    rest = {"optional": False, "greedy": False, "inner": "followed_by", "until": None, "steps": []}
    return {**plain, **rest, **more}


def group(*steps, how="next", **more):
    return step("", "", how, kind="group", steps=list(steps), **more)


def case(within, letters, *steps):
    """Return a pattern and events, one a millisecond."""
    events = [[letter, 0, time] for time, letter in enumerate(letters)]
    return {"pattern": {"steps": list(steps), "within": within, "skip": ["no_skip", ""]}, "events": events}


def chosen():
    """Return cases of greedy parts before groups: how long they claim events depends on the group's first part."""
    loop = {"least": 1, "most": 3, "greedy": True}
    first = step("p1", "a", **loop)
    begun = group(step("p0", "d"), step("p1", "a", "followed_by", **loop))
    end = step("p4", "d", "followed_by")
    twice = group(
        step("p2", "b", optional=True), step("p3", "c", least=1, most=2, greedy=True), least=2, most=2
    )
    maybe = step("p2", "b", optional=True), step("p3", "c")
    always = step("p2", "b"), step("p3", "c")
    return [
        case(8, "adabc", first, group(*maybe, how="followed_by")),
        case(8, "adabc", first, group(*always, how="followed_by")),
        case(5, "dcbd", step("p1", "cd", **loop), group(*maybe, how="followed_by_any")),
        case(12, "cac", twice),
        case(12, "cacbcd", twice, step("p4", "d")),
        case(12, "dacabcd", begun, group(*always, how="followed_by", optional=True), end),
    ]


class Above(IterativeCondition):
    def __init__(self, letters, name):
        self.letters = letters
        self.name = name

    def filter(self, value, ctx):
        if value[0] not in self.letters:
            return False
        before = list(ctx.get_events_for_pattern(self.name))
        return not before or value[1] > before[-1][1]


def condition(step):
    letters = step["letters"]
    return Above(letters, step["above"]) if step["above"] else lambda event: event[0] in letters


def build(pattern):
    """Return a pattern as a program builds it."""
    kind, name = pattern["skip"]
    strategy = getattr(AfterMatchSkipStrategy, kind)
    built = build_steps(pattern["steps"], strategy(name) if name else strategy())
    return built if pattern["within"] is None else built.within(pattern["within"])


def build_steps(steps, skip=None):
    built = None
    for step in steps:
        what = build_steps(step["steps"]) if step["kind"] == "group" else step["name"]
        if built is None:
            built = Pattern.begin(what, skip)
        else:
            built = getattr(built, step["how"])(what)
        if step["kind"] != "group":
            built.where(condition(step))
        if step["kind"] != "not":
            quantify(built, step)
    return built


def quantify(built, step):
    least, most = step["least"], step["most"]
    if most is None:
        built.one_or_more() if least == 1 else built.times_or_more(least)
    elif most > 1:
        built.times(least, most) if least != most else built.times(least)
    if step["inner"] == "next":
        built.consecutive()
    elif step["inner"] == "followed_by_any":
        built.allow_combinations()
    if step["until"]:
        letters = step["until"]
        built.until(lambda event: event[0] in letters)
    if step["optional"]:
        built.optional()
    if step["greedy"]:
        built.greedy()
