"""Patterns give what trying everything gives, and what Flink gives: for any epochs, parallelism, arrival and crash."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from random import Random

import pytest
from pattern_oracle import matches, skipped
from pattern_programs import Generator, build

from millstream.cep import (
    CEP,
    GrowingStateWarning,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from millstream.cep.compiling import compile_pattern
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.operators.patterns.automaton import PatternAutomaton
from millstream.operators.patterns.codes import Codes
from millstream.operators.patterns.held import Held
from millstream.operators.patterns.linear import LinearAutomaton, is_linear
from millstream.operators.patterns.table import PatternTable
from millstream.testing import MiniCluster
from millstream.testing.failures import Tap

FLINK = json.loads((Path(__file__).parent / "expected" / "flink_patterns.json").read_text())
BOUND_MS = 6
DEFAULT_SEEDS = 50
ALL_SEEDS = 2_000


def taken(match, place):
    pairs = [(name, place(event)) for name, events in match.items() for event in events]
    return tuple(sorted(pairs, key=lambda pair: pair[1]))


def found_by_automaton(pattern, events):
    """Return matches and partial ones as [(time, ((name, place), ...))].

    Conditions are asked for each partial match, and what is held is pickled between events; then they are asked for all
    events at once, and events that fit nowhere left out where that changes nothing: with the same results.
    """
    table = PatternTable(compile_pattern(build(pattern)))
    automaton = PatternAutomaton(table, reports_partial=True)
    placed = [(*event, place) for place, event in enumerate(events)]
    held, found = Held(), []
    for event in placed:
        automaton.expire(held, event[2], found)
        automaton.advance(held, event[2], event, found)
        held = pickle.loads(pickle.dumps(held))
    automaton.expire(held, 1 << 40, found)
    held, again = Held(), []
    for event, code in zip(
        placed, Codes([table.tests[each] for each in table.simple]).of(placed), strict=True
    ):
        if (code or not table.passes_misfits()) and (held.runs or automaton.starts[code] is not None):
            if automaton.is_due(held, event[2]):
                automaton.expire(held, event[2], again)
            automaton.advance(held, event[2], event, again, code)
    automaton.expire(held, 1 << 40, again)
    assert again == found
    if is_linear(table):
        assert found_by_stages(table, placed) == found
    rows = [(each.timestamp_ms, taken(each.events, lambda event: event[3]), each.timed_out) for each in found]
    return [row[:2] for row in rows if not row[2]], {row[:2] for row in rows if row[2]}


def found_by_stages(table, placed):
    """Return what the automaton of patterns that are one row of events finds; all is pickled between events."""
    automaton, lines, found = LinearAutomaton(table, reports_partial=True), {}, []
    codes = Codes([table.tests[each] for each in table.simple]).of(placed)
    for event, code in zip(placed, codes, strict=True):
        for _, _, told in automaton.run([(event[2], 0, event, code)], lines, lambda *timer: None, None):
            found += told
        lines = pickle.loads(pickle.dumps(lines))
    if lines:
        automaton.fire(0, 1 << 40, lines, lambda *timer: None, found)
    return found


def check_by_oracle(seed):
    generator = Generator(seed)
    pattern = generator.pattern()
    events = generator.events(8)
    found, partial = found_by_automaton(pattern, events)
    if pattern["skip"][0] != "no_skip":
        assert sorted(row[1] for row in found) == skipped(pattern, events)
        return
    complete, expected_partial, _ = matches(pattern, events)
    assert sorted(found) == sorted(row[:2] for row in complete)
    assert partial == expected_partial


@pytest.mark.parametrize("seed", range(DEFAULT_SEEDS))
def test_automaton_finds_what_trying_everything_finds(seed):
    check_by_oracle(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(DEFAULT_SEEDS, ALL_SEEDS, 50))
def test_automaton_finds_what_trying_everything_finds_for_many_patterns(first):
    for seed in range(first, min(first + 50, ALL_SEEDS)):
        check_by_oracle(seed)


@pytest.mark.parametrize("number", range(len(FLINK)))
def test_automaton_finds_what_flink_finds(number):
    case = FLINK[number]
    found, partial = found_by_automaton(case["pattern"], case["events"])
    rows = {
        kind: [(time, tuple(map(tuple, row))) for time, row in case[kind]] for kind in ("matches", "partial")
    }
    # Flink tells when it came to know of a match that waited for another one; we tell the same events.
    assert sorted(row[1] for row in found) == sorted(row[1] for row in rows["matches"])
    assert partial == set(rows["partial"])
    if case["pattern"]["skip"][0] == "no_skip" and case["pattern"]["steps"][-1]["kind"] != "not":
        assert sorted(found) == sorted(rows["matches"])


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Tell(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        yield "match", ctx.get_current_key(), ctx.timestamp(), taken(match, lambda event: event[4])

    def process_timed_out_match(self, match, ctx):
        yield "partial", ctx.get_current_key(), ctx.timestamp(), taken(match, lambda event: event[4])


def keyed_events(generator, random):
    """Return (letter, value, time, key, place) in an order of arrival in which none is late, and events by key."""
    rows, by_key = [], {}
    for key in range(3):
        by_key[key] = generator.events(8)
        delays = {}
        for place, event in enumerate(by_key[key]):
            delay = delays.setdefault(event[2], random.randrange(BOUND_MS))  # those of one time stay in order
            rows.append((event[2] + delay, key, place, (*event, key, place)))
    return [row[3] for row in sorted(rows)], by_key


def check_job(seed):
    generator, random = Generator(seed), Random(seed)
    pattern = generator.pattern()
    rows, by_key = keyed_events(generator, random)
    options = {
        "millstream.epoch.fixed-records": random.randint(1, 12),
        "state.backend.type": random.choice(["hashmap", "rocksdb"]),
    }
    with MiniCluster(virtual_time=True) as cluster, warnings.catch_warnings():
        warnings.simplefilter("ignore", GrowingStateWarning)
        environment = cluster.environment(random.randint(1, 3), options)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
        stream = environment.from_collection(rows).assign_timestamps_and_watermarks(
            strategy.with_timestamp_assigner(Stamp())
        )
        cluster.fail_after(random.randint(2, 20), random.randint(2, 30))
        keyed = stream.map(Tap()).key_by(lambda event: event[3])
        # Events of the same time come through several subtasks, in any order.
        found = CEP.pattern(keyed, build(pattern), lambda one, other: one[4] - other[4]).process(Tell())
        told = cluster.collect(found)
        assert cluster.failures
    for key, events in by_key.items():
        matched = [row[2:] for row in told if row[:2] == ("match", key)]
        if pattern["skip"][0] != "no_skip":
            assert sorted(row[1] for row in matched) == skipped(pattern, events)
            continue
        complete, partial, _ = matches(pattern, events)
        assert sorted(matched) == sorted(row[:2] for row in complete)
        # Ways that differ in rounds only may tell of the same events more than once.
        assert {row[2:] for row in told if row[:2] == ("partial", key)} == partial


@pytest.mark.parametrize("seed", range(10_000, 10_010))
def test_job_that_fails_and_goes_on_finds_what_trying_everything_finds(seed):
    check_job(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10_010, 10_510))
def test_many_jobs_that_fail_and_go_on_find_what_trying_everything_finds(seed):
    check_job(seed)
