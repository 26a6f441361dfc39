"""The general operator against the fast ones, and against Flink's definition written as a simulation by ticks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_harness import Harness, Listing, Sum, Totals, Unmergeable, by_first

from millstream.base.time import MAX_TIMESTAMP
from millstream.common.windows import GlobalWindow
from millstream.operators.windowing.assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.operators.windowing.count_assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from millstream.operators.windowing.general import GeneralWindowOperator
from millstream.operators.windowing.spec import AggregateWindow, ApplyWindow, ProcessWindow, ReduceWindow
from millstream.operators.windowing.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    PurgingTrigger,
)


def gap_of(record):
    return record[1] % 4 + 1


def tumbling(kind):
    return st.integers(1, 8).flatmap(
        lambda size: st.builds(kind, st.just(size), st.integers(1 - size, size - 1))
    )


def sliding(kind):
    return st.integers(1, 6).flatmap(
        lambda slide: st.builds(kind, st.integers(1, 14), st.just(slide), st.integers(1 - slide, slide - 1))
    )


gaps = st.integers(1, 5)
event_time = st.one_of(
    tumbling(TumblingEventTimeWindows),
    sliding(SlidingEventTimeWindows),
    st.builds(EventTimeSessionWindows, gaps),
    st.just(DynamicEventTimeSessionWindows(gap_of)),
)
by_clock = st.one_of(
    tumbling(TumblingProcessingTimeWindows),
    sliding(SlidingProcessingTimeWindows),
    st.builds(ProcessingTimeSessionWindows, gaps),
    st.just(DynamicProcessingTimeSessionWindows(gap_of)),
)
by_count = st.one_of(
    st.builds(CountTumblingWindowAssigner, st.integers(1, 5)),
    st.builds(CountSlidingWindowAssigner, st.integers(1, 6), st.integers(1, 7)),
)
FUNCTIONS = {
    "aggregate": AggregateWindow(Sum()),
    "aggregate without merge": AggregateWindow(Unmergeable()),
    "aggregate and process": AggregateWindow(Sum(), Totals()),
    "reduce": ReduceWindow(by_first),
    "reduce and apply": ReduceWindow(by_first, Listing(unwrap=False)),
    "apply": ApplyWindow(Listing(unwrap=False)),
    "process": ProcessWindow(Totals()),
}
records = st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(-12, 25))
steps = st.one_of(
    records,
    records,
    records,
    st.tuples(st.just("watermark"), st.integers(-12, 30)),
    st.tuples(st.just("clock"), st.integers(0, 12)),
)
scripts = st.lists(steps, max_size=40)


def runs(script):
    """Join records between watermarks and clocks into batches; the end is a watermark."""
    batch = []
    for step in [*script, ("watermark", MAX_TIMESTAMP)]:
        if len(step) == 3:
            batch.append(step)
            continue
        if batch:
            yield "records", batch
        batch = []
        yield step


def drive(run, kind, step):
    if kind == "records":
        return run.add(*step)
    return run.watermark(step) if kind == "watermark" else run.clock(run.harness.processing_time + step)


def in_order_of_time(elements):
    """Sort what has the same timestamp: the order of keys is not defined."""
    return sorted(elements, key=lambda element: (str(element[-1]).zfill(6), repr(element)))


def compare(script, fast, general):
    """Run both; return how many results there were."""
    results = 0
    for kind, step in runs(script):
        if kind == "watermark" and step <= fast.operator.watermark_ms:
            continue
        seen, expected = drive(fast, kind, step), drive(general, kind, step)
        if kind == "records":
            # One batch: late records first, then each firing in order of its record.
            assert seen == expected
        else:
            assert in_order_of_time(seen) == in_order_of_time(expected)
        results += len(seen)
        due = general.operator.next_processing_time()
        early = fast.operator.next_processing_time()
        # Sessions that grew may be looked at too early, never too late.
        assert (early is None) if due is None else (early is not None and early <= due)
    assert fast.counters() == general.counters()
    return results


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.one_of(event_time, by_clock), st.sampled_from(sorted(FUNCTIONS)), st.integers(0, 9), scripts)
def test_fast_operators_by_time_give_what_the_general_one_gives(assigner, name, lateness, script):
    if "Session" in type(assigner).__name__ and name == "aggregate without merge":
        name = "aggregate"
    options = {"allowed_lateness_ms": lateness, "late_tag_id": "late"}
    fast = Harness(assigner, FUNCTIONS[name], **options)
    general = Harness(assigner, FUNCTIONS[name], general=True, **options)
    assert not isinstance(fast.operator, GeneralWindowOperator)
    assert isinstance(general.operator, GeneralWindowOperator)
    compare(script, fast, general)
    if assigner.is_event_time():
        assert fast.is_empty() and general.is_empty()


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(by_count, st.sampled_from(sorted(FUNCTIONS)), scripts, st.booleans())
def test_count_windows_give_what_the_general_operator_gives(assigner, name, script, stamped):
    if not stamped:
        script = [(*step[:2], None) if len(step) == 3 else step for step in script]
    fast, general = Harness(assigner, FUNCTIONS[name]), Harness(assigner, FUNCTIONS[name], general=True)
    assert not isinstance(fast.operator, GeneralWindowOperator)
    compare(script, fast, general)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.sampled_from(sorted(FUNCTIONS)), scripts)
def test_purging_count_trigger_on_global_windows_gives_what_the_general_operator_gives(size, name, script):
    trigger = PurgingTrigger.of(CountTrigger.of(size))
    fast = Harness(GlobalWindows.create(), FUNCTIONS[name], trigger=trigger)
    general = Harness(GlobalWindows.create(), FUNCTIONS[name], trigger=trigger, general=True)
    assert not isinstance(fast.operator, GeneralWindowOperator)
    compare(script, fast, general)


# --- Flink's definition, tick by tick ------------------------------------------------------------------------


class Ticks:
    """Windows of each key that do not merge, with a trigger named by (kind, number, purging).

    Time is advanced millisecond by millisecond; at each the windows that have something due are looked up.
    """

    def __init__(self, assigner, trigger, lateness):
        self.assigner, self.lateness = assigner, lateness
        self.kind, self.number, self.purging = trigger
        self.now = -50
        self.seen_watermark = False
        self.panes, self.out = {}, []

    def late(self, last):
        return self.seen_watermark and last + self.lateness <= self.now

    def record(self, key, number, timestamp):
        windows = self.assigner.assign_windows(None, timestamp)
        taken = False
        for window in windows:
            last = window.max_timestamp()
            if self.assigner.is_event_time() and self.late(last):
                continue
            taken = True
            pane = self.panes.setdefault((key, window), {"values": [], "count": 0, "next": None})
            pane["values"].append(number)
            over = self.seen_watermark and last <= self.now
            if self.kind == "count":
                pane["count"] += 1
                if pane["count"] == self.number:
                    pane["count"] = 0
                    self.fire(key, window, timestamp)
            elif self.kind in ("event", "continuous"):
                if over:
                    self.fire(key, window, timestamp)
                elif self.kind == "continuous" and pane["next"] is None:
                    pane["next"] = min(timestamp // self.number * self.number + self.number, last)
        if self.assigner.is_event_time() and not taken and self.late(timestamp):
            self.out.append(("side", "late", (key, number), timestamp))

    def fire(self, key, window, at):
        pane = self.panes[key, window]
        last = window.max_timestamp()
        if pane["values"]:
            self.out.append(((key, sum(pane["values"])), at if last == MAX_TIMESTAMP else last))
        if self.purging:
            pane["values"] = []

    def tick(self, at):
        for (key, window), pane in list(self.panes.items()):
            last = window.max_timestamp()
            # A record behind the watermark sets a time that is past already: that is caught up with.
            while pane["next"] is not None and pane["next"] <= at and pane["next"] < last:
                self.fire(key, window, pane["next"])
                pane["next"] = min(pane["next"] + self.number, last)
            if self.kind in ("event", "continuous") and at == last:
                self.fire(key, window, at)
            if self.assigner.is_event_time() and at == last + self.lateness:
                del self.panes[key, window]

    def advance(self, watermark):
        self.seen_watermark = True
        for at in range(self.now + 1, min(watermark, 100) + 1):
            self.now = at
            self.tick(at)
        if watermark == MAX_TIMESTAMP:
            self.now = watermark
            for key, window in [pair for pair in self.panes if pair[1] == GlobalWindow.get()]:
                if self.kind == "event":
                    self.fire(key, window, watermark)


def build(trigger):
    kind, number, purging = trigger
    made = {
        "event": EventTimeTrigger.create(),
        "continuous": ContinuousEventTimeTrigger(number),
        "count": CountTrigger(number),
        "never": NeverTrigger(),
    }[kind]
    return PurgingTrigger.of(made) if purging else made


triggers = st.tuples(
    st.sampled_from(["event", "continuous", "count", "never"]), st.integers(1, 6), st.booleans()
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        tumbling(TumblingEventTimeWindows), sliding(SlidingEventTimeWindows), st.just(GlobalWindows.create())
    ),
    triggers,
    st.integers(0, 9),
    st.lists(st.one_of(records, records, st.tuples(st.just("watermark"), st.integers(-12, 30))), max_size=30),
)
def test_triggers_follow_the_definition_tick_by_tick(assigner, trigger, lateness, script):
    if trigger[0] == "continuous" and isinstance(assigner, GlobalWindows):
        trigger = ("event", *trigger[1:])
    run = Harness(
        assigner,
        AggregateWindow(Unmergeable()),
        trigger=build(trigger),
        allowed_lateness_ms=lateness,
        late_tag_id="late",
        general=True,
    )
    model = Ticks(assigner, trigger, lateness)
    for kind, step in runs(script):
        if kind == "records":
            for record in step:
                model.record(*record)
            late = [element for element in model.out if element[0] == "side"]
            assert run.add(*step) == [*late, *(element for element in model.out if element[0] != "side")]
        elif step > run.operator.watermark_ms:
            model.advance(step)
            *fired, forwarded = run.watermark(step)
            assert forwarded == ("watermark", step)
            assert in_order_of_time(fired) == in_order_of_time(model.out)
        model.out.clear()
    if assigner.is_event_time():
        assert run.is_empty()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.one_of(event_time, by_clock, by_count),
    st.sampled_from(["fast", "default", "count", "purging count"]),
    st.sampled_from(["aggregate", "reduce", "apply"]),
    scripts,
    st.integers(0, 40),
)
def test_job_restored_on_two_subtasks_then_on_one_goes_on_as_if_nothing_had_been(
    assigner, trigger, name, script, cut
):
    triggers = {"count": CountTrigger(3), "purging count": PurgingTrigger(CountTrigger(2))}
    options = {"general": trigger != "fast", "trigger": triggers.get(trigger), "allowed_lateness_ms": 3}
    steps = [pair for pair in runs(script) if pair[0] != "watermark" or pair[1] < MAX_TIMESTAMP]
    through = Harness(assigner, FUNCTIONS[name], **options)

    def restored(before, parallelism):
        now_ms = through.harness.processing_time
        return Harness(
            assigner,
            FUNCTIONS[name],
            restore=before.checkpoint(),
            parallelism=parallelism,
            now_ms=now_ms,
            **options,
        )

    def go(pieces, other):
        for kind, step in pieces:
            if kind == "watermark" and step <= through.harness.watermark:
                continue
            expected, seen = drive(through, kind, step), drive(other, kind, step)
            assert in_order_of_time(results_of(seen)) == in_order_of_time(results_of(expected))

    for before in steps[:cut]:
        drive_on(through, before)
    two = restored(through, 2)
    half = (cut + len(steps)) // 2
    go(steps[cut:half], two)
    whole = restored(two, 1)
    assert (whole.harness.next_processing_time is None) == (through.harness.next_processing_time is None)
    go([*steps[half:], ("watermark", MAX_TIMESTAMP)], whole)


def drive_on(run, pair):
    if pair[0] != "watermark" or pair[1] > run.operator.watermark_ms:
        drive(run, *pair)


def results_of(elements):
    """Leave out watermarks: each subtask hands them on."""
    return [element for element in elements if element[0] != "watermark"]
