"""Sessions by expression, beside the operator for rows with a function in Python, and beside a plain sort."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from column_runs import Subtasks, batch_of
from column_windows import (
    AGGREGATES,
    CLOCK_STEPS,
    RECORDS,
    InPython,
    WithWindow,
    by_key,
    check_clock,
    check_windows,
    steps_of,
)
from hypothesis import given
from hypothesis import strategies as st
from test_column_marks import check_marked, check_never_ahead, marked, process

from millstream.operators.columnar import session_cuts, session_table, waiting_rows
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.windows import ColumnWindowSpec, SessionGap
from millstream.operators.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from millstream.operators.windowing.spec import AggregateWindow, WindowSpec
from millstream.spi.batch import Columns, Marks


def specs(gap, lateness, tag, event_time=True):
    """The operator for rows and the one for columns."""
    assigner = (EventTimeSessionWindows if event_time else ProcessingTimeSessionWindows)(gap)
    function = AggregateWindow(InPython(), WithWindow())
    rows = WindowSpec(by_key, assigner, function, allowed_lateness_ms=lateness, late_tag_id=tag)
    windows = SessionGap(gap)
    return rows, ColumnWindowSpec(("k",), AGGREGATES, windows, event_time, lateness, tag, names=("k", "v"))


NEAR = st.tuples(st.integers(0, 1), st.none() | st.integers(-9, 9), st.integers(0, 30))
MANY_NEAR = st.lists(NEAR, min_size=1, max_size=25)
GAPS = st.sampled_from([1, 2, 3, 5, 12])


@given(
    steps_of(RECORDS, MANY_NEAR),
    GAPS,
    st.sampled_from([0, 0, 4, 15]),
    st.sampled_from([None, "late"]),
    st.sampled_from(["columns", "rows", "dicts", "tuples"]),
    st.sampled_from([1, 7, 1_000]),
    st.sampled_from([1, 1_024]),
)
def test_sessions_of_columns_give_what_sessions_of_rows_give(
    events, gap, lateness, tag, form, waiting, least_slots
):
    with (
        mock.patch.object(waiting_rows, "_MOST_WAITING", waiting),
        mock.patch.object(session_table, "_LEAST_SLOTS", least_slots),
    ):
        check_windows(events, specs(gap, lateness, tag), form)


@given(CLOCK_STEPS, GAPS)
def test_sessions_by_the_clock_give_what_those_of_rows_give(steps, gap):
    check_clock(steps, specs(gap, 0, None, event_time=False))


@given(
    st.lists(marked(), max_size=4),
    GAPS,
    st.sampled_from([0, 0, 4]),
    st.sampled_from([None, "late"]),
    st.sampled_from(["columns", "rows"]),
    st.booleans(),
)
def test_sessions_see_each_watermark_where_it_stands(batches, gap, lateness, tag, form, refuses):
    check_marked(batches, specs(gap, lateness, tag), form, refuses=refuses)


def test_a_session_that_has_ended_is_not_continued_by_a_record_behind_its_watermark():
    # event time   0 [=== 3)   watermark 2   3 [=== 6)   watermark 4
    _, spec = specs(3, 0, None)
    subtasks = Subtasks(spec)
    batch = batch_of([(1, 1, 0), (1, 2, 3)], "columns")
    batch.marks = Marks([1, 2], [2, 4])
    process(subtasks.operators[0], batch, refuses=False)
    assert [result[:4] for result, _ in subtasks.take()[0]] == [(1, 0, 3, 1)]
    assert [result[:4] for result, _ in subtasks.watermark(5)[0]] == [(1, 3, 6, 1)]


@given(marked(), GAPS)
def test_what_a_session_has_given_is_never_ahead_of_its_watermark(batch, gap):
    check_never_ahead(batch, specs(gap, 0, None)[1])


def sessions_of(records, gap):
    """Sort, and cut where there is a gap: key, start, end, records, sum."""
    found = []
    for key, number, time in sorted(records, key=lambda record: (record[0], record[2])):
        if found and found[-1][0] == key and time <= found[-1][2]:
            last = found[-1]
            found[-1] = (key, last[1], time + gap, last[3] + 1, last[4] + (number or 0))
        else:
            found.append((key, time, time + gap, 1, number or 0))
    return found


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9), st.integers(0, 2_000)), max_size=60)),
    st.integers(1, 60),
    st.sampled_from([1, 40, 32_768]),
)
def test_sessions_are_the_records_by_time_cut_where_there_is_a_gap(batches, gap, waiting):
    aggregates = (("n", Aggregate(AggregateKind.COUNT)), ("total", Aggregate(AggregateKind.SUM, "v")))
    subtasks = Subtasks(ColumnWindowSpec(("k",), aggregates, SessionGap(gap)))
    with mock.patch.object(waiting_rows, "_MOST_WAITING", waiting):
        for records in batches:
            subtasks.add(records)
        results, _ = subtasks.watermark(10_000)
    expected = sessions_of([record for batch in batches for record in batch], gap)
    assert sorted(result for result, _ in results) == expected
    assert all(stamp == result[2] - 1 for result, stamp in results)


@given(st.lists(st.lists(NEAR, min_size=1, max_size=30), max_size=6), st.data())
def test_sums_of_floats_do_not_depend_on_how_the_input_was_cut(batches, data):
    """Also where sessions are joined by a record that comes between them."""
    records = [(key, number or 0, time) for batch in batches for key, number, time in batch]
    aggregates = (("total", Aggregate(AggregateKind.SUM, "v")), ("last", Aggregate(AggregateKind.LAST, "v")))
    found = []
    for waiting in (1_000, 3, 1):
        operator = Subtasks(ColumnWindowSpec(("k",), aggregates, SessionGap(3)))
        with mock.patch.object(waiting_rows, "_MOST_WAITING", waiting):
            start = 0
            while start < len(records):
                stop = start + data.draw(st.integers(1, 40))
                operator.operators[0].process(batch_of_floats(records[start:stop]))
                start = stop
        found.append(operator.watermark(1_000))
    assert found[0] == found[1] == found[2]


def batch_of_floats(records):
    keys, numbers, times = zip(*records, strict=True)
    values = pa.array([number * 0.1 + number**9 * 1e7 for number in numbers], pa.float64())
    return Columns(pa.RecordBatch.from_arrays([pa.array(keys), values], ["k", "v"]), pa.array(times))


KEYS = {
    "texts": pa.array(["a", "b", None, "a", None, "b"]),
    "dictionaries": pa.array(["a", "b", None, "a", None, "b"]).dictionary_encode(),
    "floats": pa.array([float("nan"), 0.0, -0.0, float("nan"), -0.0, 0.0]),
    "nulls": pa.nulls(6),
    "lists": pa.array([[1], [], None, [1], None, []]),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("restarts", [False, True])
def test_keys_of_any_type_have_sessions(kind, restarts):
    subtasks = Subtasks(ColumnWindowSpec(("k",), (("n", Aggregate(AggregateKind.COUNT)),), SessionGap(10)))
    batch = Columns(pa.RecordBatch.from_arrays([KEYS[kind]], ["k"]), pa.array([0, 30, 60, 5, 65, 100]))
    subtasks.operators[0].process(batch)
    if restarts:
        subtasks.restart(1)
    results, _ = subtasks.watermark(1_000)
    bounds = sorted((start, end, n) for (_, start, end, n), _ in results)
    assert bounds == [(0, 15, 2), (30, 40, 1), (60, 75, 2), (100, 110, 1)]


def test_times_that_lie_far_apart_are_compared_all_the_same():
    far = 1 << 60
    _, spec = specs(10, 0, None)
    subtasks = Subtasks(spec)
    records = [(key, 1, base + step) for key in range(9) for base in (-far, 0, far) for step in (0, 4, 30, 8)]
    with mock.patch.object(session_cuts, "_MOST", 1):
        subtasks.add(records[:50])
        subtasks.checkpoint()
        subtasks.add(records[50:])
        subtasks.checkpoint()
    results, _ = subtasks.watermark(2 * far)
    found = sorted((key, start, end, n) for (key, start, end, n, *_), _ in results)
    expected = [
        (key, base + first, base + end, n)
        for key in range(9)
        for base in (-far, 0, far)
        for first, end, n in ((0, 18, 3), (30, 40, 1))
    ]
    assert found == expected


def test_sessions_that_end_together_come_in_the_order_in_which_they_began():
    _, spec = specs(10, 0, None)
    subtasks = Subtasks(spec)
    subtasks.operators[0].process(
        batch_of([(3, 1, 5), (1, 1, 5), (2, 1, 0), (2, 2, 5), (0, 1, 4)], "columns")
    )
    stamped = []
    subtasks.recorders[0].emit = lambda batch: stamped.extend(batch.data["k"].to_pylist())
    subtasks.watermark(100)
    assert stamped == [0, 3, 1, 2]


def test_slots_and_keys_of_sessions_that_are_gone_do_not_stay():
    _, spec = specs(10, 0, None)
    subtasks = Subtasks(spec)
    table = subtasks.operators[0]._table
    for number in range(300):
        subtasks.add([(number * 100 + key, 1, number * 100) for key in range(100)])
        subtasks.checkpoint()
        subtasks.watermark(number * 100 + 50)
    assert len(table._of.live) < 20_000
    assert len(table._keys) < 20_000


@given(steps_of(RECORDS, MANY_NEAR), GAPS, st.sampled_from([0, 0, 4, 15]), st.sampled_from([1, 7, 1_000]))
def test_sessions_are_the_same_where_the_order_of_records_does_not_matter(events, gap, lateness, waiting):
    """Without `first` and `last` rows are added all at once."""
    windows = SessionGap(gap)
    some, all_of_them = (
        Subtasks(ColumnWindowSpec(("k",), aggregates, windows, True, lateness, "late"))
        for aggregates in (AGGREGATES[:5], AGGREGATES)
    )
    with mock.patch.object(waiting_rows, "_MOST_WAITING", waiting):
        for kind, what in [*events, ("watermark", 1_000)]:
            outcomes = []
            for subtasks in (some, all_of_them):
                if kind == "batch":
                    outcomes.append(subtasks.add(what))
                elif kind == "watermark":
                    outcomes.append(subtasks.watermark(what))
                elif kind == "restart":
                    subtasks.restart(what)
                else:
                    subtasks.checkpoint()
            if outcomes:
                (found, late), (expected, expected_late) = outcomes
                shortened = [(result[:8], stamp) for result, stamp in expected]
                assert sorted(found, key=repr) == sorted(shortened, key=repr)
                assert late == expected_late
        assert some.dropped() == all_of_them.dropped()


def test_records_that_join_thousands_of_sessions_are_added_all_at_once():
    """One source gives every second record, then another the ones between."""
    aggregates = (("n", Aggregate(AggregateKind.COUNT)), ("total", Aggregate(AggregateKind.SUM, "v")))
    subtasks = Subtasks(ColumnWindowSpec(("k",), aggregates, SessionGap(5)))
    accumulators = subtasks.operators[0]._table.accumulators
    with mock.patch.object(accumulators, "add", wraps=accumulators.add) as add:
        for first, settles in ((0, True), (3, False)):
            subtasks.add([(1, 1, number * 6 + first) for number in range(3_000)])
            if settles:
                subtasks.checkpoint()
        assert [result for result, _ in subtasks.watermark(100_000)[0]] == [(1, 0, 18_002, 6_000, 6_000)]
    assert add.call_count == 2


def test_a_session_may_be_kept_for_ever():
    kept = 2**63 - 1
    by_rows, by_columns = map(Subtasks, specs(10, kept, "late"))
    for subtasks in (by_rows, by_columns):
        assert [result[:4] for result, _ in again(subtasks)] == [(1, 0, 15, 2), (1, 0, 15, 3)]


def again(subtasks):
    """What comes of a session that has fired long ago, and of one more record of it."""
    subtasks.add([(1, 1, 0), (1, 2, 5)], "tuples")
    results = subtasks.watermark(1_000_000)[0]
    subtasks.checkpoint()
    return results + subtasks.add([(1, 3, 3)], "tuples")[0]


VALUES = {
    "text": (pa.string(), st.text("abc", max_size=2), ["count", "min", "max"]),
    "decimal": (
        pa.decimal128(6, 2),
        st.decimals("-99", "99", places=2),
        ["count", "min", "max", "sum", "quantile"],
    ),
    "bool": (pa.bool_(), st.booleans(), ["count", "min", "max", "sum"]),
    "int": (pa.int16(), st.integers(-99, 99), ["count", "min", "max", "sum", "quantile"]),
}


@st.composite
def typed_batches(draw):
    kind = draw(st.sampled_from(list(VALUES)))
    record = st.tuples(st.integers(0, 1), st.none() | VALUES[kind][1], st.integers(0, 40))
    return kind, draw(st.lists(st.lists(record, min_size=1, max_size=20), min_size=1, max_size=5))


@given(typed_batches(), st.sampled_from([1, 7, 1_000]))
def test_sessions_that_are_joined_have_values_of_any_type(given_batches, waiting):
    (kind, batches), gap = given_batches, 3
    arrow, _, names = VALUES[kind]
    aggregates = tuple((name, Aggregate(AggregateKind(name), "v")) for name in names)
    subtasks = Subtasks(ColumnWindowSpec(("k",), aggregates, SessionGap(gap)))
    with mock.patch.object(waiting_rows, "_MOST_WAITING", waiting):
        for place, records in enumerate(batches):
            keys, values, times = zip(*records, strict=True)
            columns = [pa.array(keys, pa.int64()), pa.array(values, arrow)]
            subtasks.operators[0].process(
                Columns(pa.RecordBatch.from_arrays(columns, ["k", "v"]), pa.array(times))
            )
            if place == 1:
                subtasks.restart(1)
        results, _ = subtasks.watermark(1_000)
    records = [record for batch in batches for record in batch]
    expected = sessions_of([(key, 0, time) for key, _, time in records], gap)
    found = sorted(result for result, _ in results)
    assert [result[:3] for result in found] == [session[:3] for session in expected]
    for key, start, end, *computed in found:
        held = [value for k, value, time in records if k == key and start <= time <= end - gap]
        check_values(dict(zip(names, computed, strict=True)), [value for value in held if value is not None])


def check_values(found, values):
    assert found["count"] == len(values)
    if not values:
        assert all(value is None for name, value in found.items() if name != "count")
        return
    assert (found["min"], found["max"]) == (min(values), max(values))
    if "sum" in found:
        assert found["sum"] == sum(values)
    if "quantile" in found:
        exact = float(sorted(values)[(len(values) - 1) // 2])
        assert abs(found["quantile"] - exact) <= abs(exact) * 0.01 + 1e-9
