from __future__ import annotations

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import TypeMismatchError
from millstream.spi.batch import Columns, Marks, Rows, Watermark, column_of, concat_columns
from millstream.types.arrow_values import bare_schema
from millstream.types.row import Row, RowKind

SIMPLE = {
    "n": st.none() | st.integers(-(2**63), 2**63 - 1),
    "x": st.none() | st.floats(allow_nan=False),
    "s": st.none() | st.text(),
    "b": st.none() | st.binary(),
    "t": st.none() | st.booleans(),
    "at": st.none() | st.datetimes(),
    "day": st.none() | st.dates(),
}
NESTED = {
    "pair": st.none() | st.builds(lambda p, q: Row(p=p, q=q), st.integers(0, 9), st.none() | st.text()),
    "counts": st.none() | st.dictionaries(st.text(), st.integers(0, 9), max_size=3),
    "pairs": st.none() | st.lists(st.builds(lambda p: Row(p=p), st.integers(0, 9)), max_size=3),
    "lists": st.none() | st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=3),
}
FIELDS = {**SIMPLE, **NESTED}
NAMES = tuple(FIELDS)


def row_of(kind, *values):
    row = Row(**dict(zip(NAMES, values, strict=True)))
    row.set_row_kind(kind)
    return row


ROWS = st.builds(row_of, st.sampled_from(RowKind), *FIELDS.values())


@st.composite
def batches(draw):
    values = draw(st.lists(ROWS, min_size=1, max_size=6))
    stamps = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(values), max_size=len(values))
    positions = sorted(draw(st.lists(st.integers(0, len(values)), max_size=3)))
    marks = Marks(positions, list(range(len(positions)))) if positions else None
    return Rows(values, draw(st.none() | stamps), marks)


@given(batches())
def test_rows_made_columns_are_the_same_rows_again(rows):
    columns = Columns.from_rows(rows)
    assert len(columns) == len(rows)
    assert columns.to_rows() == rows
    assert Columns.from_rows(rows, columns.data.schema) == columns


@given(batches(), st.data())
def test_parts_of_columns_are_parts_of_the_rows(rows, data):
    columns, count = Columns.from_rows(rows), len(rows)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    part = columns.cut(start, stop)
    places = data.draw(st.lists(st.integers(0, count - 1)))
    stamps = rows.timestamps
    assert columns.take(pa.array(places, pa.int64())).to_rows() == Rows(
        [rows.values[place] for place in places], stamps and [stamps[place] for place in places]
    )
    assert pickle.loads(pickle.dumps(part, 5)) == part
    assert part.to_rows() == rows.cut(start, stop)


@given(batches(), st.data())
def test_both_forms_fall_into_the_same_pieces(rows, data):
    columns = Columns.from_rows(rows)
    taken = [piece if isinstance(piece, Watermark) else piece.to_rows() for piece in columns.pieces()]
    if rows.marks is not None:
        index = data.draw(st.integers(0, len(rows.marks.positions) - 1))
        copied = Rows(list(rows.values), rows.timestamps, rows.marks)
        assert columns.behind(index, len(rows)).to_rows() == copied.behind(index, len(rows))
        assert columns.last_mark_ms == rows.last_mark_ms == rows.marks.watermarks[-1]
    assert taken == rows.pieces()


@given(batches(), batches())
def test_columns_put_together_are_all_the_rows(one, other):
    schema = Columns.from_rows(Rows(one.values + other.values)).data.schema
    if one.timestamps is None or other.timestamps is None:
        one.timestamps = other.timestamps = None
    parts = [Columns.from_rows(Rows(each.values, each.timestamps), schema) for each in (one, other)]
    for part, rows in zip(parts, (one, other), strict=True):
        part.kinds = pa.array([row.get_row_kind().value for row in rows.values], pa.int8())
        part.marks = rows.marks
    stamps = None if one.timestamps is None else one.timestamps + other.timestamps
    whole = concat_columns(parts).to_rows()
    assert whole.unmarked() == Rows(one.values + other.values, stamps)
    assert one_by_one([whole]) == one_by_one([one, other])


def one_by_one(batches):
    """Return values and the watermarks between them, in order."""
    pieces = [piece for batch in batches for piece in batch.pieces()]
    return [item for piece in pieces for item in ([piece] if isinstance(piece, Watermark) else piece.values)]


def test_columns_that_are_nested_encoded_or_empty_come_through_bytes():
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    data = pa.record_batch(
        {
            "words": words,
            "decimals": pa.array([Decimal("1.20"), None, Decimal("-3"), None], pa.decimal128(9, 2)),
            "moments": pa.array([datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)] * 4),
            "nothing": pa.nulls(4),
        }
    )
    for batch in (
        Columns(data, pa.array([4, 3, 2, 1])),
        Columns(data.slice(1, 2)),
        Columns(data.slice(1, 0)),
        Columns(data.slice(3, 1), None, pa.array([2], pa.int8())),
        Columns(pa.record_batch([pa.array([1, 2])], schema=bare_schema("number", pa.int64()))),
    ):
        sent = pickle.loads(pickle.dumps(batch, 5))
        assert sent == batch
        assert sent.to_rows() == batch.to_rows()
    together = concat_columns([Columns(data.slice(2)), Columns(data.slice(0, 2))])
    assert [row.words for row in together.to_rows().values] == [None, "a", "a", "b"]


def test_a_slice_is_sent_without_the_rest():
    columns = Columns.from_rows(Rows([Row(text="x" * 1_000)] * 1_000))
    assert len(pickle.dumps(columns.slice(10, 12), 5)) < 5_000


def test_bare_values_stay_bare():
    assert Columns.from_rows(Rows(["a", None])).to_rows() == Rows(["a", None])
    assert Columns.from_rows(Rows([1, 2], [3, 4])).to_rows() == Rows([1, 2], [3, 4])


def test_tuples_and_dicts_become_rows():
    expected = Rows([Row(a=1, b="x"), Row(a=2, b="y")])
    dicts = Columns.from_rows(Rows([{"a": 1, "b": "x"}, {"b": "y", "a": 2}]))
    schema = dicts.data.schema
    assert dicts.to_rows() == expected
    assert Columns.from_rows(Rows([(1, "x"), (2, "y")]), schema).to_rows() == expected
    assert Columns.from_rows(Rows([(1, "x")])).data.schema.names == ["f0", "f1"]
    assert len(Columns.from_rows(Rows([]))) == 0
    assert Columns.from_rows(Rows([]), schema).data.schema == schema


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ([Row(a=1), Row(a="x")], "column 'a'"),
        ([Row(a=1), Row(b=1)], "Row\\(b=1\\)"),
        ([Row(a=1), 7], "columns of its batch: 7"),
        ([(1, 2), (1,)], r"\(1,\)"),
        ([Row(a=2**70)], "column 'a'"),
        ([Row(a=object())], "column 'a'"),
    ],
)
def test_what_makes_no_columns_is_named(records, named):
    with pytest.raises(TypeMismatchError, match=named):
        Columns.from_rows(Rows(records))


def test_a_field_that_is_not_there_is_named():
    columns = Columns.from_rows(Rows([Row(a=1, b=2)]))
    assert column_of(columns, "b").to_pylist() == [2]
    with pytest.raises(TypeMismatchError, match="(?s)no field 'c'.*a, b"):
        column_of(columns, "c")


def test_columns_never_change_when_their_rows_do():
    columns = Columns.from_rows(Rows([Row(a=1)]))
    columns.to_rows().values[0].a = 2
    assert columns.to_rows() == Rows([Row(a=1)])
    assert np.array_equal(column_of(columns, "a"), [1])
