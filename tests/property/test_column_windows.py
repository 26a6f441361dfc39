"""Windows by expression, beside the operators for rows with functions in Python; in any cut, form and parallelism."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from column_runs import Subtasks
from column_windows import (
    AGGREGATES,
    CLOCK_STEPS,
    GRIDS,
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


@given(
    steps_of(RECORDS),
    GRIDS,
    st.sampled_from([0, 0, 4, 15]),
    st.sampled_from([None, "late"]),
    st.sampled_from(["columns", "rows", "dicts", "tuples"]),
    st.sampled_from([1, 7, 1_000]),
    st.sampled_from([1, 2, 256]),
)
def test_windows_of_columns_give_what_windows_of_rows_give(events, grid, lateness, tag, form, waiting, parts):
    with (
        mock.patch.object(waiting_rows, "_MOST_WAITING", waiting),
        mock.patch.object(waiting_rows, "_MOST_PARTS", parts),
    ):
        check_windows(events, specs(*grid, lateness, tag), form)


@given(CLOCK_STEPS, GRIDS)
def test_windows_by_the_clock_give_what_those_of_rows_give(steps, grid):
    check_clock(steps, specs(*grid, 0, None, event_time=False))


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
