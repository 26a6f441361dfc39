"""Windows of all records by expression, beside the operators for rows."""

from __future__ import annotations

from unittest import mock

from column_runs import Subtasks
from column_windows import AGGREGATES, GRIDS, RECORD, InPython, check_windows
from hypothesis import given
from hypothesis import strategies as st
from test_column_marks import check_marked, marked

from millstream.common.functions import ProcessAllWindowFunction
from millstream.operators.columnar import waiting_rows
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.windows import ColumnWindowSpec, SessionGap
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.operators.windowing.spec import AggregateWindow, WindowSpec


class WithBounds(ProcessAllWindowFunction):
    def process(self, context, elements):
        window = context.window()
        yield (window.start, window.end, *next(iter(elements)))


def all_alike(record):
    return 0


def specs(windows, lateness, tag):
    """The operator for rows and the one for columns."""
    if isinstance(windows, SessionGap):
        assigner = EventTimeSessionWindows(windows.gap_ms)
    elif windows.tumbles:
        assigner = TumblingEventTimeWindows(windows.size_ms, windows.offset_ms)
    else:
        assigner = SlidingEventTimeWindows(windows.size_ms, windows.slide_ms, windows.offset_ms)
    function = AggregateWindow(InPython(), WithBounds())
    rows = WindowSpec(all_alike, assigner, function, allowed_lateness_ms=lateness, late_tag_id=tag)
    return rows, ColumnWindowSpec((), AGGREGATES, windows, True, lateness, tag, names=("k", "v"))


EVENT = (
    st.tuples(st.just("batch"), st.lists(RECORD, min_size=1, max_size=12))
    | st.tuples(st.just("watermark"), st.integers(-10, 70))
    | st.tuples(st.just("restart"), st.just(1))
    | st.tuples(st.just("checkpoint"), st.none())
)
WINDOWS = GRIDS.map(lambda grid: SliceGrid(*grid)) | st.sampled_from([1, 3, 12]).map(SessionGap)


@given(
    st.lists(EVENT, max_size=15),
    WINDOWS,
    st.sampled_from([0, 0, 4, 15]),
    st.sampled_from([None, "late"]),
    st.sampled_from(["columns", "rows", "dicts", "tuples"]),
    st.sampled_from([1, 7, 1_000]),
)
def test_windows_of_all_records_are_those_of_rows(events, windows, lateness, tag, form, waiting):
    with mock.patch.object(waiting_rows, "_MOST_WAITING", waiting):
        check_windows(events, specs(windows, lateness, tag), form)


@given(st.lists(marked(), max_size=4), WINDOWS, st.sampled_from([0, 4]), st.booleans())
def test_windows_of_all_records_see_each_watermark_where_it_stands(batches, windows, lateness, refuses):
    check_marked(batches, specs(windows, lateness, "late"), "columns", refuses=refuses)


def test_what_all_records_come_to_is_kept_under_the_key_of_windows_of_rows():
    kept = []
    for spec in specs(SliceGrid(10, 10), 0, None):
        subtasks = Subtasks(spec)
        subtasks.add([(1, 5, 3), (2, 6, 4), (3, 7, 15)], "tuples")
        subtasks.checkpoint()
        kept.append({place for _, held in subtasks.saved for of_name in held.values() for place in of_name})
    assert kept[0] == kept[1] == {(0, 0), (10, 0)}
