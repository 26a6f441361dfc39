"""The buffer of an interval join finds what a list of all records has, wherever the looks go."""

from __future__ import annotations

import os
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.interval_buffers import Buffer, extent_of, runs_of

common = settings(deadline=None, derandomize="CI" in os.environ, max_examples=300)

KEEP_MS = 20

keys = st.sampled_from("aaab")
near = st.integers(0, 40)
far = st.integers(0, 3_000)
times = st.one_of(near, near, far)
added = st.tuples(st.just("add"), st.lists(st.tuples(keys, times), min_size=1, max_size=30))
hot = st.builds(lambda start: ("add", [("a", start + place // 2) for place in range(40)]), times)
looks = st.tuples(st.just("look"), st.lists(st.tuples(keys, times), min_size=1, max_size=8))
others = st.one_of(st.just(("hold", None)), st.tuples(st.just("pass"), times))


def walk(start, step_ms):
    """Return actions that go through time with ever new keys, of which each has records for a while."""
    for place in range(30):
        now_ms = start + place * step_ms
        yield "add", [(f"k{place // 4}", now_ms)]
        yield "look", [(f"k{each}", now_ms) for each in range(max(place // 4 - 2, 0), place // 4 + 1)]


walks = st.builds(lambda start, step_ms: list(walk(start, step_ms)), times, st.integers(1, 9))
single = st.one_of(added, hot, looks, looks, others).map(lambda action: [action])
actions = st.lists(st.one_of(single, single, single, single, walks), max_size=30).map(
    lambda parts: sum(parts, [])
)


class Model:
    """All records in order of arrival: key, time, number, whether it is at the edge."""

    def __init__(self):
        self.records = []
        self.gone_ms = MIN_TIMESTAMP

    def add(self, records):
        self.records += [(*record, record[1] <= self.gone_ms) for record in records]

    def pass_over(self, time_ms):
        if time_ms - KEEP_MS >= self.gone_ms:
            self.gone_ms = time_ms - KEEP_MS
            self.records = [each for each in self.records if each[1] > self.gone_ms]
            self.records = [(*each[:3], False) for each in self.records]

    def matches(self, key, time_ms, from_ms, to_ms):
        found = [
            (not edge, stamp, number)
            for own, stamp, number, edge in self.records
            if own == key and time_ms + from_ms <= stamp <= time_ms + to_ms
        ]
        return [record[1:] for record in sorted(found)]


def looked_up(buffer, width_ms, wanted, from_ms, to_ms):
    """Look as an interval join does; return the matches of each record."""
    stamps = [stamp for _, stamp in wanted]
    extent = extent_of(stamps)
    runs = runs_of(stamps, extent, width_ms)
    spans = [(0, len(wanted), extent.lowest_ms, extent.highest_ms)]
    if runs is not None:
        spans = [(start, stop, low, (step + 1) * width_ms - 1) for step, start, stop, low in runs]
    matches = []
    for start, stop, lowest_ms, last_ms in spans:
        own, at = [key for key, _ in wanted[start:stop]], stamps[start:stop]
        found = buffer.near(own, at, lowest_ms, last_ms, (from_ms, to_ms))
        for stamp, cell in zip(at, found or [[]] * len(at), strict=True):
            matches.append([each for each in cell if stamp + from_ms <= each[0] <= stamp + to_ms])
    return matches


@common
@given(actions, st.sampled_from([3, 10, 100]), st.integers(-KEEP_MS, 10), st.integers(0, 25))
def test_a_buffer_finds_what_is_there_wherever_is_looked(each_action, width_ms, from_ms, more_ms):
    buffer, model, numbers, to_ms = Buffer(width_ms, KEEP_MS), Model(), count(), from_ms + more_ms
    for action, what in each_action:
        if action == "add":
            records = [(key, stamp, next(numbers)) for key, stamp in what]
            model.add(records)
            own, stamps, values = (list(column) for column in zip(*records, strict=True))
            extent = extent_of(stamps)
            buffer.add(own, stamps, values, extent.lowest_ms, runs_of(stamps, extent, width_ms))
        elif action == "look":
            # What a record on time looks for is not gone, but for what is at the very time.
            wanted = [(key, max(stamp, model.gone_ms - from_ms)) for key, stamp in what]
            expected = [model.matches(key, stamp, from_ms, to_ms) for key, stamp in wanted]
            assert looked_up(buffer, width_ms, wanted, from_ms, to_ms) == expected
        elif action == "hold":
            held = [
                (start_ms, key, record)
                for start_ms, cells in buffer.held().items()
                for key, cell in cells.items()
                for record in cell
            ]
            assert sorted(held) == sorted(
                (stamp // width_ms * width_ms, key, (stamp, number))
                for key, stamp, number, edge in model.records
                if not edge
            )
        else:
            model.pass_over(what)
            buffer.pass_over(what)
