"""Patterns that replace each other give what trying everything gives, for the events of each one's time: for any
epochs, parallelism, arrival and crash, also when the job is stopped and goes on at another parallelism.
"""

from __future__ import annotations

from bisect import bisect_right
from random import Random

import pytest
from pattern_oracle import matches
from pattern_programs import Generator, build
from test_patterns import BOUND_MS, Stamp, Tell, keyed_events

from millstream.cep import CEP
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.testing import MiniCluster
from millstream.testing.failures import Tap

END = 1 << 40


class ControlStamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Case:
    """Random patterns with their times, and events."""

    def __init__(self, seed):
        self.random = Random(seed)
        generator = Generator(seed)
        patterns = []
        while len(patterns) < self.random.randint(2, 4):
            pattern = generator.pattern()
            if pattern["skip"][0] == "no_skip":
                patterns.append(pattern)
        self.rows, self.by_key = keyed_events(generator, self.random)
        last = max(row[2] for row in self.rows)
        self.first = patterns.pop(0) if self.random.random() < 0.5 else None
        times = sorted(self.random.sample(range(last + 2), len(patterns)))
        self.changes = list(zip(patterns, times, strict=True))

    def program(self, environment):
        """Return what the job tells."""
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
        events = environment.from_collection(self.rows).uid("events").map(Tap()).uid("tap")
        events = events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))
        in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ControlStamp())
        control = environment.from_collection(self.changes).uid("changes").set_parallelism(1)
        control = control.assign_timestamps_and_watermarks(in_order).uid("times").set_parallelism(1)
        found = CEP.dynamic_patterns(
            events.uid("stamps").key_by(lambda event: event[3]),
            control.map(lambda change: build(change[0])).uid("patterns").set_parallelism(1),
            None if self.first is None else build(self.first),
            lambda one, other: one[4] - other[4],
        )
        return found.process(Tell()).uid("pattern")

    def expected(self):
        """Return (kind, key, time, events) of all matches, and of partial ones as a set."""
        times = [time for _, time in self.changes]
        patterns = [self.first, *[pattern for pattern, _ in self.changes]]
        complete, partial = [], set()
        for key, events in self.by_key.items():
            for number, (pattern, end) in enumerate(zip(patterns, [*times, END], strict=True)):
                own = [place for place, event in enumerate(events) if bisect_right(times, event[2]) == number]
                if pattern is None or not own:
                    continue
                first = own[0]
                rows, timed_out, _ = matches(pattern, [events[place] for place in own])

                def row(kind, each, key=key, first=first):
                    return kind, key, each[0], tuple((name, place + first) for name, place in each[1])

                # What time brings about counts up to the next pattern's time.
                complete += [row("match", each) for each in rows if each[0] <= end]
                partial |= {row("partial", each) for each in timed_out if each[0] <= end}
        return sorted(complete), partial

    def check(self, told):
        complete, partial = self.expected()
        assert sorted(row for row in told if row[0] == "match") == complete
        assert {row for row in told if row[0] == "partial"} == partial

    def options(self):
        return {
            "millstream.epoch.fixed-records": self.random.randint(1, 12),
            "state.backend.type": self.random.choice(["hashmap", "rocksdb"]),
        }


pytestmark = pytest.mark.filterwarnings("ignore::millstream.cep.GrowingStateWarning")


def check_crashes(seed):
    case = Case(seed)
    with MiniCluster(virtual_time=True) as cluster:
        environment = cluster.environment(case.random.randint(1, 3), case.options())
        stream = case.program(environment)
        cluster.fail_after(case.random.randint(2, 10), case.random.randint(2, 12))
        told = cluster.collect(stream)
        assert cluster.failures
    case.check(told)


@pytest.mark.parametrize("seed", [1, 11, 12, 35, 49, 53])  # several keys have matches
def test_replaced_patterns_of_a_job_that_fails_and_goes_on(seed):
    check_crashes(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_replaced_patterns_of_many_jobs_that_fail_and_go_on(seed):
    check_crashes(seed)


def check_rescaled(seed):
    """Stop a job with a savepoint, before or behind a replacement, and go on at another parallelism, with a crash."""
    case = Case(seed)
    random, told, futures = case.random, [], []
    with MiniCluster(virtual_time=True) as cluster:
        parallelism = random.randint(1, 3)
        options = case.options()
        environment = cluster.environment(parallelism, options)
        at = random.randint(1, 12)
        cluster.do_after(
            at, lambda: futures.append(cluster.job().savepoint(f"{cluster.directory}/saved", stop=True))
        )
        told += cluster.collect(case.program(environment))
        path = futures[0].result(10)
        other = random.choice([each for each in (1, 2, 3) if each != parallelism])
        environment = cluster.environment(other, {**options, "execution.state-recovery.path": path})
        stream = case.program(environment)
        cluster.fail_after(random.randint(1, 6))
        told += cluster.collect(stream)
    case.check(told)


@pytest.mark.parametrize("seed", [1_002, 1_004, 1_010, 1_029, 1_030])
def test_replaced_patterns_of_a_job_that_is_rescaled(seed):
    check_rescaled(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_replaced_patterns_of_many_jobs_that_are_rescaled(seed):
    check_rescaled(seed)
