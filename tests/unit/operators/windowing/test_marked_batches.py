"""Watermarks between the records of a batch do what they do between batches, whatever windows make of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_harness import Harness, Listing, Sum, Unmergeable, by_first

from millstream.operators.base import Operator
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.operators.windowing.spec import AggregateWindow, ApplyWindow, ReduceWindow
from millstream.spi.batch import Marks, Rows

FUNCTIONS = {
    "sum": AggregateWindow(Sum()),
    "sum without merge": AggregateWindow(Unmergeable()),
    "reduce": ReduceWindow(by_first),
    "list": ApplyWindow(Listing()),
}

tumbling = st.integers(1, 8).flatmap(
    lambda size: st.builds(TumblingEventTimeWindows, st.just(size), st.integers(1 - size, size - 1))
)
sliding = st.integers(1, 6).flatmap(
    lambda slide: st.builds(
        SlidingEventTimeWindows, st.integers(1, 14), st.just(slide), st.integers(1 - slide, slide - 1)
    )
)
sessions = st.builds(EventTimeSessionWindows, st.integers(1, 5))
events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(-12, 20)),
        st.integers(0, 4),
    ),
    max_size=40,
)
batches = st.lists(events, max_size=4)


def marked(script, watermark):
    """Return records, marks and the watermark reached: a number in the script makes it advance by so much."""
    records, marks = [], Marks([], [])
    for event in script:
        if isinstance(event, tuple):
            records.append(event)
        elif event:
            watermark += event
            marks.positions.append(len(records))
            marks.watermarks.append(watermark)
    return records, marks, watermark


def give(run, process, records, marks, refuse=frozenset()):
    """Give a batch; of the watermarks in `refuse` the operator says once that it has no room for what is due."""
    refuse = set(refuse)

    def reach(watermark):
        if watermark in refuse:
            refuse.discard(watermark)
            return False
        return run.operator.reach_watermark(watermark)

    values = [(key, number) for key, number, _ in records]
    timestamps = [timestamp for *_, timestamp in records]
    while marks.positions:
        stopped_at = process(Rows(list(values), list(timestamps), marks), reach)
        if stopped_at is None:
            return run.take()
        begin = marks.positions[stopped_at]
        values, timestamps = values[begin:], timestamps[begin:]
        assert reach(marks.watermarks[stopped_at])
        left = marks.positions[stopped_at + 1 :]
        marks = Marks([position - begin for position in left], marks.watermarks[stopped_at + 1 :])
    if values:
        run.operator.process(Rows(values, timestamps))
    return run.take()


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(tumbling, sliding, sessions),
    st.sampled_from(sorted(FUNCTIONS)),
    st.integers(0, 4),
    st.booleans(),
    batches,
    st.sets(st.integers(-15, 60), max_size=6),
)
def test_whole_or_cut_at_each_watermark_the_output_is_the_same(
    assigner, name, lateness, tagged, scripts, refuse
):
    if isinstance(assigner, EventTimeSessionWindows) and name == "sum without merge":
        name = "sum"  # sessions have to merge
    options = {"allowed_lateness_ms": lateness, "late_tag_id": "late" if tagged else None}
    whole = Harness(assigner, FUNCTIONS[name], **options)
    pieces = Harness(assigner, FUNCTIONS[name], **options)
    watermark = -15
    for script in scripts:
        records, marks, watermark = marked(script, watermark)
        given_whole = give(whole, whole.operator.process_marked, records, marks, refuse)
        given_cut = give(
            pieces, lambda *batch: Operator.process_marked(pieces.operator, *batch), records, marks
        )
        assert given_whole == given_cut
        assert whole.operator.watermark_ms == pieces.operator.watermark_ms
    assert whole.watermark(1_000) == pieces.watermark(1_000)
    assert whole.counters() == pieces.counters()
    assert whole.is_empty()


def test_records_between_watermarks_at_which_nothing_is_due_are_added_together(monkeypatch):
    #  records      1  2  3      9  12     4        window [0, 10) is due at 9, 4 is late then
    #  watermarks    1  2  3  5      9
    run = Harness(TumblingEventTimeWindows(10), FUNCTIONS["sum"], late_tag_id="late")
    added = []
    process = run.operator.process
    monkeypatch.setattr(
        run.operator,
        "process",
        lambda batch: (added.append(list(batch.timestamps)), process(batch)),
    )
    records = [("a", 1, time) for time in (1, 2, 3, 9, 12, 4)]
    out = give(run, run.operator.process_marked, records, Marks([1, 2, 3, 3, 5], [1, 2, 3, 5, 9]))
    assert added == [[1, 2, 3, 9, 12], [4]]
    assert out == [
        *(("watermark", time) for time in (1, 2, 3, 5)),
        (("a", 4), 9),
        ("watermark", 9),
        ("side", "late", ("a", 1), 4),
    ]


def test_late_records_between_watermarks_cut_nothing():
    #  records      12  3  13  4  14        3 and 4 are late: window [0, 10) has ended
    #  watermarks      10   11   12
    run = Harness(TumblingEventTimeWindows(10), FUNCTIONS["list"], late_tag_id="late")
    run.watermark(9)
    records = [("a", number, time) for number, time in enumerate((12, 3, 13, 4, 14))]
    out = give(run, run.operator.process_marked, records, Marks([1, 3, 5], [10, 11, 12]))
    assert out == [
        ("watermark", 10),
        ("side", "late", ("a", 1), 3),
        ("watermark", 11),
        ("side", "late", ("a", 3), 4),
        ("watermark", 12),
    ]
    assert run.watermark(19) == [(("a", 10, 20, [0, 2, 4]), 19), ("watermark", 19)]


def test_windows_by_the_clock_take_no_notice():
    run = Harness(TumblingProcessingTimeWindows(10), FUNCTIONS["sum"], now_ms=3)
    out = give(run, run.operator.process_marked, [("a", 1, 50), ("a", 2, 1)], Marks([1], [40]))
    assert out == [("watermark", 40)]
    assert run.clock(10) == [(("a", 3), 9)]


@pytest.mark.parametrize(
    "function", [AggregateWindow(Sum()), ReduceWindow(by_first)], ids=["panes or slices", "tried first"]
)
def test_each_window_of_a_record_counts(function):
    run = Harness(SlidingEventTimeWindows(10, 5), function)
    out = give(
        run, run.operator.process_marked, [("a", 1, 3), ("a", 2, 6), ("a", 4, 11)], Marks([1, 2], [2, 4])
    )
    out += run.watermark(20)
    assert [element for element in out if element[0] != "watermark"] == [
        (("a", 1), 4),
        (("a", 3), 9),
        (("a", 6), 14),
        (("a", 4), 19),
    ]
