"""Patterns that are one row of events give what the general automaton and the oracle give, wherever a stream is cut."""

from __future__ import annotations

import warnings
from random import Random

import pytest
from pattern_oracle import matches, skipped
from pattern_programs import build, step

from millstream.cep import CEP, GrowingStateWarning, PatternProcessFunction, TimedOutPartialMatchHandler
from millstream.cep.compiling import compile_pattern
from millstream.operators.patterns.linear import is_linear
from millstream.operators.patterns.table import PatternTable
from millstream.testing import OperatorHarness

SEEDS = 30
KEYS = 3
SKIPS = ["no_skip", "skip_to_next", "skip_past_last_event"]


def random_pattern(random):
    steps = []
    for number in range(random.randint(2, 4)):
        letters = "".join(random.sample("abcd", random.choice([1, 1, 1, 2])))
        more = {}
        if random.random() < 0.2:
            rounds = random.randint(2, 3)
            more = {"least": rounds, "most": rounds, "inner": random.choice(["next", "followed_by"])}
        steps.append(
            step(f"p{number}", letters, random.choice(["next", "followed_by", "followed_by"]), **more)
        )
    within = random.choice([None, 3, 6, 12, 30])
    return {"steps": steps, "within": within, "skip": [random.choice(SKIPS), ""]}


def random_events(random):
    """Return (letter, place, time, key), in order of time; some have the same time."""
    time, events = 0, []
    for place in range(60):
        time += random.choice([0, 0, 1, 1, 2, 5])
        events.append((random.choice("abcdx"), place, time, random.randrange(KEYS)))
    return events


class Tell(PatternProcessFunction):
    def process_match(self, match, ctx):
        yield "match", ctx.get_current_key(), ctx.timestamp(), match


class TellAll(Tell, TimedOutPartialMatchHandler):
    def process_timed_out_match(self, match, ctx):
        yield "partial", ctx.get_current_key(), ctx.timestamp(), match


class Run:
    """Runs a pattern in an operator that may be cut: then another one goes on from its snapshot."""

    def __init__(self, pattern, function, *, event_time):
        def program(events):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GrowingStateWarning)
                found = CEP.pattern(events.key_by(lambda event: event[3]), build(pattern))
            return (found if event_time else found.in_processing_time()).process(function)

        self.program = program
        self.event_time = event_time
        self.told = []
        self.harness = None

    def go_on(self, *, general, restore=None, parallelism=1, backend="hashmap"):
        options = {"state.backend.type": backend, "execution.checkpointing.interval": "1 s"}
        if self.harness is not None:
            self.harness.close()
        self.harness = OperatorHarness(
            self.program, restore=restore, parallelism=parallelism, options=options, processing_time=-1
        )
        for operator in self.harness.operators:
            assert operator._linear is not None
            if general:
                operator._linear = None

    def take(self, events):
        for event in events:
            if not self.event_time:
                self.harness.set_processing_time(event[2])
            self.harness.push(event, timestamp=event[2])

    def reach(self, time):
        if self.event_time:
            self.harness.push_watermark(time)
        else:
            self.harness.set_processing_time(time)
        self.told += self.harness.take()

    def by_key(self):
        return [[row for row in self.told if row[1] == key] for key in range(KEYS)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_linear_patterns_find_what_the_general_automaton_finds(seed):
    random = Random(seed)
    pattern, events = random_pattern(random), random_events(random)
    assert is_linear(PatternTable(compile_pattern(build(pattern))))
    function, event_time = random.choice([Tell, TellAll]), random.random() < 0.8
    expected, found = (Run(pattern, function(), event_time=event_time) for _ in range(2))
    expected.go_on(general=True)
    found.go_on(general=False)
    begun = 0
    while begun < len(events):
        count = random.randint(1, 8)
        portion = events[begun : begun + count]
        begun += count
        for run in (expected, found):
            run.take(portion)
            # Events of the portion's last time may still come.
            run.reach(portion[-1][2] - 1)
        assert found.by_key() == expected.by_key()
        if random.random() < 0.25:
            found.go_on(
                restore=found.harness.snapshot(),
                general=random.random() < 0.3,
                parallelism=random.randint(1, 2),
                backend=random.choice(["hashmap", "hashmap", "rocksdb"]),
            )
    for run in (expected, found):
        run.reach(events[-1][2] + 100)
        run.harness.close()
    assert found.by_key() == expected.by_key()


@pytest.mark.parametrize("seed", range(30))
def test_linear_patterns_find_what_trying_everything_finds(seed):
    random = Random(seed)
    pattern = random_pattern(random)
    events = [(letter, place, time, 0) for letter, place, time, _ in random_events(random)[:9]]
    run = Run(pattern, TellAll(), event_time=True)
    run.go_on(general=False)
    run.take(events)
    run.reach(events[-1][2] + 100)
    run.harness.close()
    rows = {
        kind: [
            (time, tuple((name, event[1]) for name, taken in match.items() for event in taken))
            for told, _, time, match in run.told
            if told == kind
        ]
        for kind in ("match", "partial")
    }
    if pattern["skip"][0] != "no_skip":
        assert sorted(row[1] for row in rows["match"]) == skipped(pattern, events)
        return
    complete, partial, _ = matches(pattern, events)
    assert sorted(rows["match"]) == sorted(row[:2] for row in complete)
    assert set(rows["partial"]) == partial
