"""Windows against a brute-force oracle: any batching, any order of arrival within the watermark's bound."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_harness import Harness, Listing, Sum, Unmergeable, by_first

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.operators.windowing.spec import AggregateWindow, ApplyWindow, ReduceWindow

FUNCTIONS = {
    "sum": AggregateWindow(Sum()),
    "sum without merge": AggregateWindow(Unmergeable()),
    "reduce": ReduceWindow(by_first),
    "list": ApplyWindow(Listing()),
}
BOUND = 6

tumbling = st.integers(1, 8).flatmap(
    lambda size: st.builds(TumblingEventTimeWindows, st.just(size), st.integers(1 - size, size - 1))
)
sliding = st.integers(1, 6).flatmap(
    lambda slide: st.builds(
        SlidingEventTimeWindows, st.integers(1, 14), st.just(slide), st.integers(1 - slide, slide - 1)
    )
)
sessions = st.builds(EventTimeSessionWindows, st.integers(1, 5))
assigners = st.one_of(tumbling, sliding, sessions)
records = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(-20, 30)), max_size=30)
events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(-12, 25)),
        st.integers(-12, 30).map(lambda time: ("watermark", time)),
    ),
    max_size=40,
)


def windows_of_keys(assigner, arrived):
    """Return {(key, start, end): numbers} by looking at every record for every window."""
    panes = {}
    for key, number, timestamp in arrived:
        for window in assigner.assign_windows(None, timestamp):
            panes.setdefault((key, window.start, window.end), []).append(number)
    if not isinstance(assigner, EventTimeSessionWindows):
        return panes
    merged = {}
    for key in {key for key, *_ in arrived}:
        times = sorted(timestamp for other, _, timestamp in arrived if other == key)
        start = last = times[0]
        for time in [*times[1:], None]:
            if time is None or time - last > assigner.session_gap:
                inside = [n for other, n, t in arrived if other == key and start <= t <= last]
                merged[key, start, last + assigner.session_gap] = inside
                start = time
            last = time
    return merged


def expected_results(name, panes):
    results = Counter()
    for (key, start, end), numbers in panes.items():
        value = (key, start, end, tuple(sorted(numbers))) if name == "list" else (key, sum(numbers))
        results[value, end - 1] += 1
    return results


def counted(name, elements):
    results = Counter()
    for element in elements:
        if element[0] == "watermark":
            continue
        value, timestamp = element
        results[(*value[:3], tuple(sorted(value[3]))) if name == "list" else value, timestamp] += 1
    return results


def cut(arrived, sizes):
    """Cut a list into runs of the sizes given, the rest into one."""
    position = 0
    for size in sizes:
        yield arrived[position : position + size]
        position += size
    yield arrived[position:]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(assigners, st.sampled_from(sorted(FUNCTIONS)), records, st.data())
def test_any_order_within_the_bound_and_any_batching_gives_the_oracles_panes(assigner, name, arrived, data):
    if isinstance(assigner, EventTimeSessionWindows) and name == "sum without merge":
        name = "sum"  # sessions have to merge
    delays = data.draw(st.lists(st.integers(0, BOUND), min_size=len(arrived), max_size=len(arrived)))
    order = sorted(range(len(arrived)), key=lambda i: arrived[i][2] + delays[i])
    arrived = [arrived[i] for i in order]
    run = Harness(assigner, FUNCTIONS[name])
    elements, highest = [], -(10**6)
    for batch in cut(arrived, data.draw(st.lists(st.integers(1, 7), max_size=8))):
        elements += run.add(*batch)
        highest = max([highest, *(timestamp for *_, timestamp in batch)])
        elements += run.watermark(highest - BOUND - 1)
    elements += run.watermark(MAX_TIMESTAMP)
    assert counted(name, elements) == expected_results(name, windows_of_keys(assigner, arrived))
    assert run.counters() == {}
    assert run.is_empty()


class Model:
    """Flink's rules, window by window and record by record, for windows that do not merge."""

    def __init__(self, assigner, lateness):
        self.assigner, self.lateness = assigner, lateness
        self.watermark, self.panes, self.out = -(2**63), {}, []

    def record(self, key, number, timestamp):
        taken = False
        for window in self.assigner.assign_windows(None, timestamp):
            if window.end - 1 + self.lateness <= self.watermark:
                continue
            taken = True
            pane = self.panes.setdefault((window.end, window.start), {})
            pane.setdefault(key, []).append(number)
            if window.end - 1 <= self.watermark:
                self.fire(window.end, key, pane[key])
        if not taken and timestamp + self.lateness <= self.watermark:
            self.out.append(("late", (key, number), timestamp))

    def fire(self, end, key, numbers):
        self.out.append(((key, sum(numbers)), end - 1))

    def advance(self, watermark):
        for (end, start), pane in sorted(self.panes.items()):
            if self.watermark < end - 1 <= watermark:
                for key, numbers in pane.items():
                    self.fire(end, key, numbers)
            if end - 1 + self.lateness <= watermark:
                del self.panes[end, start]
        self.watermark = watermark


class SessionModel(Model):
    """The same for sessions."""

    def record(self, key, number, timestamp):
        start, end, numbers = timestamp, timestamp + self.assigner.session_gap, []
        sessions = self.panes.setdefault(key, [])
        touched = [one for one in sessions if one[0] <= end and start <= one[1]]
        for one in touched:
            sessions.remove(one)
            start, end, numbers = min(start, one[0]), max(end, one[1]), numbers + one[2]
        if end - 1 + self.lateness <= self.watermark:
            self.out.append(("late", (key, number), timestamp))
            return
        sessions.append((start, end, [*numbers, number]))
        if end - 1 <= self.watermark:
            self.fire(end, key, [*numbers, number])

    def advance(self, watermark):
        every = sorted((end, key, numbers) for key, own in self.panes.items() for _, end, numbers in own)
        for end, key, numbers in every:
            if self.watermark < end - 1 <= watermark:
                self.fire(end, key, numbers)
        for key, own in self.panes.items():
            self.panes[key] = [one for one in own if one[1] - 1 + self.lateness > watermark]
        self.watermark = watermark


def without_tag(elements):
    return [("late", *element[2:]) if element[0] == "side" else element for element in elements]


def runs(script):
    """Join records between watermarks into batches."""
    batch = []
    for event in script:
        if event[0] == "watermark":
            yield batch, event[1]
            batch = []
        else:
            batch.append(event)
    yield batch, MAX_TIMESTAMP


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(
    assigners,
    st.sampled_from(["sum", "sum without merge", "reduce"]),
    st.integers(0, 9),
    events,
    st.sampled_from(["one by one", "as they come", "in order of time"]),
)
def test_late_records_and_lateness_follow_the_rules_step_by_step(assigner, name, lateness, script, batches):
    run = Harness(assigner, FUNCTIONS[name], allowed_lateness_ms=lateness, late_tag_id="late")
    is_session = isinstance(assigner, EventTimeSessionWindows)
    if is_session and name == "sum without merge":
        name = "sum"
        run = Harness(assigner, FUNCTIONS[name], allowed_lateness_ms=lateness, late_tag_id="late")
    model = (SessionModel if is_session else Model)(assigner, lateness)
    for batch, watermark in runs(script):
        elements = []
        if batches == "in order of time":
            batch = sorted(batch, key=lambda record: record[2])
        for piece in [[one] for one in batch] if batches == "one by one" else [batch]:
            elements += run.add(*piece)
        for one in batch:
            model.record(*one)
        late = [element for element in model.out if element[0] == "late"]
        fired = [element for element in model.out if element[0] != "late"]
        seen = without_tag(elements)
        assert [element for element in seen if element[0] == "late"] == late
        assert [element for element in seen if element[0] != "late"] == fired
        model.out.clear()
        if watermark > model.watermark:
            model.advance(watermark)
            *fired, forwarded = run.watermark(watermark)
            assert forwarded == ("watermark", watermark)
            assert [timestamp for _, timestamp in fired] == [timestamp for _, timestamp in model.out]
            assert sorted(fired) == sorted(model.out)
            model.out.clear()
    assert run.is_empty()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(assigners, st.integers(0, 5), events, st.data())
def test_output_is_the_same_element_for_element_however_batches_are_cut(assigner, lateness, script, data):
    outputs = []
    for _ in range(2):
        run = Harness(assigner, FUNCTIONS["list"], allowed_lateness_ms=lateness)
        elements, highest = [], -(2**63)
        for batch, watermark in runs(script):
            for piece in cut(batch, data.draw(st.lists(st.integers(1, 4), max_size=5))):
                elements += run.add(*piece)
            if watermark > highest:
                elements += run.watermark(watermark)
                highest = watermark
        outputs.append((elements, run.counters()))
    assert outputs[0] == outputs[1]
