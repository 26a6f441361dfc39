"""Windows of so many records by expression, beside the operator for rows with a function in Python."""

from __future__ import annotations

import pytest
from column_runs import Subtasks, batch_of
from column_windows import AGGREGATES, InPython, by_key
from hypothesis import given
from hypothesis import strategies as st
from test_column_marks import marked, process
from test_column_windows_of_all import all_alike

from millstream.common.functions import ProcessAllWindowFunction, ProcessWindowFunction
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.count_windows import ColumnCountWindowSpec
from millstream.operators.windowing.count_assigners import count_windows
from millstream.operators.windowing.spec import AggregateWindow, WindowSpec


class WithNumber(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (key, context.window().id, *next(iter(elements)))


class WithNumberOfAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield (context.window().id, *next(iter(elements)))


MORE = (("middle", Aggregate(AggregateKind.QUANTILE, "v")),)


def specs(size, *, keyed=True):
    """The operator for rows and the one for columns."""
    function = AggregateWindow(InPython(), WithNumber() if keyed else WithNumberOfAll())
    rows = WindowSpec(by_key if keyed else all_alike, count_windows(size, 0), function)
    return rows, ColumnCountWindowSpec(("k",) if keyed else (), AGGREGATES, size, ("k", "v"))


RECORD = st.tuples(st.integers(0, 3), st.none() | st.integers(-9, 9), st.integers(-20, 60))
EVENT = (
    st.tuples(st.just("batch"), st.lists(RECORD, min_size=1, max_size=40))
    | st.tuples(st.just("restart"), st.integers(1, 3))
    | st.tuples(st.just("checkpoint"), st.none())
)
SIZES = st.sampled_from([1, 2, 3, 7])


@given(
    st.lists(EVENT, max_size=15),
    SIZES,
    st.sampled_from(["columns", "rows", "dicts", "tuples"]),
    st.booleans(),
    st.booleans(),
)
def test_windows_of_so_many_records_are_those_of_rows(events, size, form, keyed, stamps):
    by_rows, by_columns = map(Subtasks, specs(size, keyed=keyed))
    for kind, what in events:
        if kind == "batch":
            expected, found = by_rows.add(what, "tuples", stamps), by_columns.add(what, form, stamps)
            assert found == expected
            continue
        for subtasks in (by_rows, by_columns):
            subtasks.checkpoint() if kind == "checkpoint" else subtasks.restart(what if keyed else 1)


@given(st.lists(st.lists(RECORD, min_size=1, max_size=40), max_size=6), SIZES)
def test_results_come_in_the_order_of_the_records_that_fill_their_windows(batches, size):
    by_rows, by_columns = map(Subtasks, specs(size))
    for records in batches:
        for subtasks in (by_rows, by_columns):
            subtasks.operators[0].process(batch_of(records, "tuples"))
        assert by_columns.recorders[0].results == by_rows.recorders[0].results


@given(st.lists(st.lists(RECORD, min_size=1, max_size=40), max_size=6), SIZES)
def test_what_is_kept_begins_anew_with_each_window(batches, size):
    """Against the records themselves: the n-th window of a key has its records from n * size on."""
    spec = ColumnCountWindowSpec(("k",), (*AGGREGATES[:2], *MORE), size, ("k", "v"))
    subtasks = Subtasks(spec)
    for records in batches:
        subtasks.operators[0].process(batch_of(records, "columns"))
        subtasks.checkpoint()
    of_keys: dict = {}
    for key, number, _ in (record for records in batches for record in records):
        of_keys.setdefault(key, []).append(number)
    found = {result[:2]: result[2:] for result, _ in subtasks.recorders[0].results}
    assert set(found) == {(key, place) for key, held in of_keys.items() for place in range(len(held) // size)}
    for (key, place), (n, total, middle) in found.items():
        held = of_keys[key][place * size : (place + 1) * size]
        numbers = sorted(number for number in held if number is not None)
        assert n == size
        assert total == (sum(numbers) if numbers else None)
        if numbers:
            exact = numbers[(len(numbers) - 1) // 2]
            assert middle == pytest.approx(exact, rel=0.011)
        else:
            assert middle is None


@given(marked(), SIZES)
def test_watermarks_between_records_do_not_matter(batch, size):
    records, marks = batch
    _, spec = specs(size)
    plainly, with_marks = Subtasks(spec), Subtasks(spec)
    plainly.operators[0].process(batch_of(records, "columns"))
    columns = batch_of(records, "columns")
    columns.marks = marks
    process(with_marks.operators[0], columns, refuses=False)
    assert with_marks.take() == plainly.take()
    assert with_marks.recorders[0].watermarks[-1] == marks.watermarks[-1]
