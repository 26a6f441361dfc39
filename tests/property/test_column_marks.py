"""Watermarks between the records of columns: operators give what they give where batches are cut there."""

from __future__ import annotations

import pyarrow.compute as pc
from column_runs import Subtasks, batch_of
from column_windows import RECORD
from hypothesis import given
from hypothesis import strategies as st
from test_column_windows import specs

from millstream.operators.columnar.functions import FilterBatchesSpec, MapBatchesSpec
from millstream.spi.batch import Marks
from millstream.testing.recorder import Record, Recorder

GRIDS = st.sampled_from([(10, 10, 0), (10, 10, 3), (7, 7, -2), (10, 5, 0)])


@st.composite
def marked(draw):
    """Records, and watermarks between them: two ascending columns."""
    records = draw(st.lists(RECORD, min_size=1, max_size=20))
    positions = sorted(draw(st.lists(st.integers(0, len(records)), min_size=1, max_size=6)))
    watermarks = sorted(draw(st.sets(st.integers(-10, 70), min_size=len(positions), max_size=len(positions))))
    return records, Marks(positions, watermarks)


def process(operator, batch, *, refuses):
    """Process a batch as the runtime does, which may have no time for a watermark until the next epoch."""
    refused = [] if refuses else [True]

    def reach(timestamp_ms):
        if not refused:
            refused.append(True)
            return False
        operator.process_watermark(timestamp_ms)
        return True

    while batch.marks is not None:
        marks, count = batch.marks, len(batch)
        index = operator.process_marked(batch, reach)
        if index is None:
            return
        operator.process_watermark(marks.watermarks[index])
        batch = batch.behind(index, count)
    if len(batch):
        operator.process(batch)


@given(
    st.lists(marked(), max_size=4),
    GRIDS,
    st.sampled_from([0, 0, 4]),
    st.sampled_from([None, "late"]),
    st.sampled_from(["columns", "rows"]),
    st.booleans(),
)
def test_windows_see_each_watermark_where_it_stands(batches, grid, lateness, tag, form, refuses):
    check_marked(batches, specs(*grid, lateness, tag), form, refuses=refuses)


def check_marked(batches, both, form, *, refuses):
    by_rows, by_columns = map(Subtasks, both)
    before = -11
    for records, marks in batches:
        marks = Marks(marks.positions, [before + 1 + number + 10 for number in marks.watermarks])
        before = marks.watermarks[-1]
        batch = batch_of(records, form)
        batch.marks = marks
        process(by_columns.operators[0], batch, refuses=refuses)
        start = 0
        for position, watermark_ms in zip(*marks, strict=True):
            by_rows.operators[0].process(batch_of(records[start:position], "tuples"))
            by_rows.operators[0].process_watermark(watermark_ms)
            start = position
        by_rows.operators[0].process(batch_of(records[start:], "tuples"))
        assert by_columns.take() == by_rows.take()
        assert by_columns.dropped() == by_rows.dropped()
        assert by_columns.recorders[0].watermarks[-1] == before


@given(marked(), GRIDS)
def test_what_a_window_has_given_is_never_ahead_of_its_watermark(batch, grid):
    check_never_ahead(batch, specs(*grid, 0, None)[1])


def check_never_ahead(batch, spec):
    """An epoch may end without time for a watermark; results by it would begin anew behind a rescaling."""
    records, marks = batch
    subtasks = Subtasks(spec)
    columns = batch_of(records, "columns")
    columns.marks = marks
    operator, recorder = subtasks.operators[0], subtasks.recorders[0]
    operator.process_marked(columns, lambda timestamp_ms: False)
    reached = recorder.watermarks[-1] if recorder.watermarks else -11
    assert all(timestamp <= reached for _, timestamp in recorder.results)


def seen(elements):
    """Each record with the watermark that it comes behind, and the last watermark."""
    found, watermark_ms = [], None
    for each in elements:
        if isinstance(each, Record):
            found.append((each, watermark_ms))
        else:
            watermark_ms = each.timestamp_ms
    return found, watermark_ms


def run(spec, records, marks):
    operator, recorder = spec.build(), Recorder()
    operator.setup(Subtasks(spec).operators[0].context, recorder)
    batch = batch_of(records, "columns")
    batch.marks = marks
    process(operator, batch, refuses=False)
    return seen(recorder.elements)


def wanted(records, marks, keeps):
    """What `seen` gives of the records that are kept."""
    found = []
    for place, (key, number, timestamp) in enumerate(records):
        before = [mark for position, mark in zip(*marks, strict=True) if position <= place]
        if keeps(key):
            found.append(((key, number, timestamp), before[-1] if before else None))
    return found, marks.watermarks[-1]


def plain(result):
    found, last = result
    return [((each.value.k, each.value.v, each.timestamp), mark) for each, mark in found], last


@given(marked(), st.integers(-1, 4))
def test_a_filter_leaves_each_watermark_between_the_rows_that_stay(batch, least):
    records, marks = batch
    spec = FilterBatchesSpec(lambda data: pc.greater_equal(data["k"], least))
    assert plain(run(spec, records, marks)) == wanted(records, marks, lambda key: key >= least)


@given(marked())
def test_a_map_of_as_many_rows_leaves_watermarks_where_they_are(batch):
    records, marks = batch
    spec = MapBatchesSpec(lambda data: data)
    assert plain(run(spec, records, marks)) == wanted(records, marks, lambda key: True)


@given(marked())
def test_a_map_to_other_rows_gives_them_before_any_watermark(batch):
    records, marks = batch
    found, last = run(MapBatchesSpec(lambda data: data.slice(0, 1)), records, marks)
    assert last == marks.watermarks[-1]
    assert [mark for _, mark in found] == ([None] if len(records) > 1 else [mark for _, mark in found])
