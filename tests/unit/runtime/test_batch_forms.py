"""What has other tests run in rows, columns and both: that it does, keeps values as they are, and shows faults."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from batch_forms import FORMS, columns_of, in_each_form, in_form, is_columnar
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.spi.batch import Columns, Rows
from millstream.types.row import Row

RECORDS = [(n % 5, f"text {n}", [n]) for n in range(60)]
shared = [1]


def environment():
    options = {"execution.target": "local", "millstream.epoch.fixed-records": 7}
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return made.set_parallelism(2)


def run():
    """Give records to functions behind an exchange by key; they look at types too."""
    stream = environment().from_collection(RECORDS).key_by(lambda record: record[0]).map(repr)
    with stream.execute_and_collect() as results:
        return sorted(results)


@pytest.mark.parametrize("form", FORMS)
def test_batches_are_in_the_form_that_is_named_and_functions_see_what_was_emitted(form):
    with in_form(form) as emitted:
        assert run() == sorted(map(repr, RECORDS))
    assert {name for name, count in emitted.items() if count} == (
        {"rows", "columns"} if form == "mixed" else {form}
    )


def test_a_fault_on_the_edge_between_columns_and_rows_shows(monkeypatch):
    to_rows = Columns.to_rows

    def without_the_last(columns):
        rows = to_rows(columns)
        return Rows(rows.values[:-1] or rows.values, None)

    monkeypatch.setattr(Columns, "to_rows", without_the_last)

    @in_each_form
    def check():
        assert run() == sorted(map(repr, RECORDS))

    with pytest.raises(AssertionError) as failed:
        check()
    assert failed.value.__notes__ == ['Batches were in the form "columns" (batch_forms.py).']


@pytest.mark.parametrize(
    "records",
    [
        [1, None, -(1 << 63)],
        ["a", ""],
        [(1, "a"), (None, None)],
        [[1, 2.5], [2, float("inf")]],
        [{"a": 1, "b": b"x"}, {"a": 2, "b": b""}],
        [Row(1, True), Row(2, None)],
        [Row(a=1, b=Row(c="x")), Row(a=None, b=None)],
        [(datetime.date(2024, 1, 1), datetime.time(1, 2, 3, 4), datetime.datetime(1, 1, 1))],
        [([1, None], {"k": [1.5]}, None), ([], {}, None), (None, None, None)],
    ],
)
def test_what_columns_hold_comes_back_as_it_was(records):
    assert is_columnar(records)
    with in_form("rows"):
        again = columns_of(Rows(list(records))).to_rows().values
    assert [(type(each), repr(each)) for each in again] == [(type(each), repr(each)) for each in records]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [None],
        [1, "a"],
        [1, 2.0],
        [1 << 63],
        [Decimal("1.10"), Decimal("1.1")],
        [(1,), (1, 2)],
        [((1, 2), 3)],
        [()],
        [Row(a=1), Row(b=1)],
        [{"a": 1}, {"b": 1}],
        [{1: 2}],
        [(shared, shared)],
        [(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),)],
        [object()],
        [({None: 1},)],
    ],
)
def test_what_columns_would_change_stays_rows(records):
    assert not is_columnar(records)
