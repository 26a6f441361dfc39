"""Windows by expression, beside the operators for rows with functions in Python; in any cut, form and parallelism."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from column_runs import Subtasks
from hypothesis import given
from hypothesis import strategies as st

from millstream.common.functions import AggregateFunction, ProcessWindowFunction
from millstream.common.windows import TimeWindow
from millstream.operators.columnar import waiting_rows
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.windows import ColumnWindowSpec
from millstream.operators.windowing.assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.operators.windowing.spec import AggregateWindow, WindowSpec
from millstream.spi.batch import Columns

AGGREGATES = (
    ("n", Aggregate(AggregateKind.COUNT)),
    ("total", Aggregate(AggregateKind.SUM, "v")),
    ("low", Aggregate(AggregateKind.MIN, "v")),
    ("high", Aggregate(AggregateKind.MAX, "v")),
    ("mean", Aggregate(AggregateKind.MEAN, "v")),
    ("first", Aggregate(AggregateKind.FIRST, "v")),
    ("last", Aggregate(AggregateKind.LAST, "v")),
)


class InPython(AggregateFunction):
    """The same aggregates, record by record."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[1]]

    def get_result(self, accumulator):
        numbers = [number for number in accumulator if number is not None]
        if not numbers:
            return (len(accumulator), None, None, None, None, accumulator[0], accumulator[-1])
        mean = sum(numbers) / len(numbers)
        total = (sum(numbers), min(numbers), max(numbers), mean)
        return (len(accumulator), *total, accumulator[0], accumulator[-1])

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        window: TimeWindow = context.window()
        yield (key, window.start, window.end, *next(iter(elements)))


def by_key(record):
    return record[0]


def specs(size, slide, offset, lateness, tag, event_time=True):
    """The operator for rows and the one for columns."""
    if event_time:
        tumbling, sliding = TumblingEventTimeWindows, SlidingEventTimeWindows
    else:
        tumbling, sliding = TumblingProcessingTimeWindows, SlidingProcessingTimeWindows
    assigner = tumbling(size, offset) if slide == size else sliding(size, slide, offset)
    rows = WindowSpec(
        by_key,
        assigner,
        AggregateWindow(InPython(), WithWindow()),
        allowed_lateness_ms=lateness,
        late_tag_id=tag,
    )
    columns = ColumnWindowSpec(
        ("k",), AGGREGATES, SliceGrid(size, slide, offset), event_time, lateness, tag, names=("k", "v")
    )
    return rows, columns


RECORD = st.tuples(st.integers(0, 3), st.none() | st.integers(-9, 9), st.integers(-20, 60))
EVENT = (
    st.tuples(st.just("batch"), st.lists(RECORD, min_size=1, max_size=12))
    | st.tuples(st.just("watermark"), st.integers(-10, 70))
    | st.tuples(st.just("restart"), st.integers(1, 3))
    | st.tuples(st.just("checkpoint"), st.none())
)
GRIDS = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 5, 0), (7, 3, 0), (9, 3, 1), (3, 7, 0), (5, 5, 2)])


@given(
    st.lists(EVENT, max_size=15),
    GRIDS,
    st.sampled_from([0, 0, 4, 15]),
    st.sampled_from([None, "late"]),
    st.sampled_from(["columns", "rows", "dicts", "tuples"]),
    st.sampled_from([1, 7, 1_000]),
)
def test_windows_of_columns_give_what_windows_of_rows_give(events, grid, lateness, tag, form, waiting):
    with mock.patch.object(waiting_rows, "_MOST_WAITING", waiting):
        check_windows(events, specs(*grid, lateness, tag), form)


def check_windows(events, both, form):
    by_rows, by_columns = map(Subtasks, both)
    watermark = None
    for kind, what in [*events, ("watermark", 1_000)]:
        if kind == "batch":
            expected, found = by_rows.add(what, "tuples"), by_columns.add(what, form)
        elif kind == "watermark":
            if watermark is not None and what <= watermark:
                continue
            watermark = what
            expected, found = by_rows.watermark(what), by_columns.watermark(what)
            assert by_rows.recorders[0].watermarks[-1:] == by_columns.recorders[0].watermarks[-1:]
        else:
            assert by_rows.dropped() == by_columns.dropped()
            for subtasks in (by_rows, by_columns):
                subtasks.checkpoint() if kind == "checkpoint" else subtasks.restart(what)
            continue
        assert found == expected
        assert by_rows.dropped() == by_columns.dropped()
    by_columns.checkpoint()
    assert not any(entries for _, held in by_columns.saved for entries in held.values())


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(RECORD, min_size=1, max_size=6), st.integers(1, 8)), max_size=10
    ),
    GRIDS,
)
def test_windows_by_the_clock_give_what_those_of_rows_give(steps, grid):
    by_rows, by_columns = map(Subtasks, specs(*grid, 0, None, event_time=False))
    now_ms = 0
    for advances, records, step in steps:
        if advances:
            now_ms += step
            assert by_columns.clock(now_ms) == by_rows.clock(now_ms)
        assert by_columns.add(records, stamps=False) == by_rows.add(records, "tuples", stamps=False)
    assert by_columns.clock(now_ms + 100) == by_rows.clock(now_ms + 100)


def test_one_batch_whose_records_are_in_many_windows_fires_them_in_one_batch():
    _, spec = specs(10, 10, 0, 0, None)
    subtasks = Subtasks(spec)
    emitted = []
    subtasks.recorders[0].emit = emitted.append
    subtasks.add([(1, number, number * 10) for number in range(50)])
    subtasks.watermark(10_000)
    assert [len(batch) for batch in emitted] == [50]
    assert emitted[0].data.schema.names == [
        "k",
        "window_start",
        "window_end",
        *(name for name, _ in AGGREGATES),
    ]
    assert emitted[0].timestamps.to_pylist() == [number * 10 + 9 for number in range(50)]


def test_windows_fire_in_order_of_time_whether_their_rows_wait_or_are_in_slices():
    _, spec = specs(10, 10, 0, 0, None)
    subtasks = Subtasks(spec)
    subtasks.add([(1, number, stamp) for number, stamp in enumerate([5, 25, 41])])
    subtasks.checkpoint()
    subtasks.add([(1, number, stamp) for number, stamp in enumerate([55, 35, 15, 28, 44, 75])])
    emitted = []
    subtasks.recorders[0].emit = lambda batch: emitted.extend(batch.timestamps.to_pylist())
    subtasks.watermark(60)
    assert emitted == [9, 19, 29, 39, 49, 59]
    subtasks.watermark(100)
    assert emitted[6:] == [79]


def test_a_window_of_many_keys_fires_in_portions():
    _, spec = specs(10, 10, 0, 0, None)
    subtasks = Subtasks(spec)
    emitted = []
    subtasks.recorders[0].emit = emitted.append
    subtasks.add([(key, 1, 0) for key in range(70_000)])
    subtasks.watermark(9)
    assert sum(map(len, emitted)) == 70_000
    assert max(map(len, emitted)) <= 40_000


FIELDS = {
    "texts": pa.array(["a", "b", None, "a", None, "b"]),
    "dictionaries": pa.array(["a", "b", None, "a", None, "b"]).dictionary_encode(),
    "floats": pa.array(np.array([np.nan, 0.0, -0.0, -np.nan, -0.0, 0.0])),
    "nulls": pa.nulls(6),
    "lists": pa.array([[1], [], None, [1], None, []]),
}


@pytest.mark.parametrize("second", FIELDS)
@pytest.mark.parametrize("first", FIELDS)
def test_keys_of_windows_that_fire_while_their_rows_wait_are_those_of_slices(first, second):
    found = []
    for settles in (False, True):
        aggregates = (("n", Aggregate(AggregateKind.COUNT)),)
        subtasks = Subtasks(ColumnWindowSpec(("a", "b"), aggregates, SliceGrid(10, 10)))
        operator, recorder = subtasks.operators[0], subtasks.recorders[0]
        data = pa.RecordBatch.from_arrays([FIELDS[first], FIELDS[second]], ["a", "b"])
        operator.process(Columns(data, pa.array([15, 3, 5, 17, 4, 2])))
        if settles:
            operator.snapshot_state()
        operator.process_watermark(100)
        found.append([repr(result) for result in recorder.results])
    assert found[0] == found[1]
    assert len(found[0]) < 6
