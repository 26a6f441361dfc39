from __future__ import annotations

import io
import itertools
import pickle
import threading
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import NotSerializableError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.runtime.protocol import blocks
from millstream.runtime.protocol.blocks import Block, decode_elements, encode_elements, join_columns
from millstream.spi.batch import ACTIVE, IDLE, Columns, Marks, Rows, Watermark
from millstream.types.row import Row, RowKind, rows_of

TIMES = st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP)
VALUES = st.none() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
STAMPED = st.lists(st.tuples(VALUES, TIMES), min_size=1).map(
    lambda pairs: Rows([value for value, _ in pairs], [stamp for _, stamp in pairs])
)
NAMES = st.none() | st.sampled_from([("a", "b"), ("b", "a"), ("x", "y")])
ROWS = st.builds(Row.of, NAMES, st.tuples(VALUES, VALUES), st.sampled_from(RowKind))
BATCHES_OF_ROWS = NAMES.flatmap(
    lambda names: st.lists(st.tuples(VALUES, VALUES), min_size=1).map(
        lambda tuples: Rows(rows_of(names, tuples), list(range(len(tuples))))
    )
)
MARKED = st.builds(
    lambda batch, pairs: Rows(batch.values, batch.timestamps, Marks(*map(list, zip(*pairs, strict=True)))),
    STAMPED | BATCHES_OF_ROWS,
    st.lists(st.tuples(st.integers(0, 9), TIMES), min_size=1),
)
ELEMENTS = st.lists(
    STAMPED
    | BATCHES_OF_ROWS
    | MARKED
    | st.lists(VALUES | ROWS).map(Rows)
    | TIMES.map(Watermark)
    | st.sampled_from([IDLE, ACTIVE])
)


@given(ELEMENTS)
def test_decoding_gives_back_what_was_encoded(elements):
    decoded = decode_elements(encode_elements(elements))
    assert decoded == elements
    assert [type(element) for element in decoded] == [type(element) for element in elements]


def record_by_record(elements):
    """Return records, with their times, and what stands between them, in order."""
    for element in elements:
        for piece in element.pieces() if isinstance(element, Rows) else [element]:
            if isinstance(piece, Rows):
                yield from zip(piece.values, piece.timestamps or itertools.repeat(None), strict=False)
            else:
                yield piece


FEW = st.lists(st.tuples(VALUES | ROWS, TIMES, st.booleans()), min_size=1)
MARKED_WITHIN = FEW.map(
    lambda records: Rows(
        [value for value, _, _ in records],
        [stamp for _, stamp, _ in records],
        Marks(
            [place for place, (_, _, marked) in enumerate(records) if marked],
            [place for place, (_, _, marked) in enumerate(records) if marked],
        )
        if any(marked for _, _, marked in records)
        else None,
    )
)


@given(
    st.lists(MARKED_WITHIN | STAMPED | BATCHES_OF_ROWS | TIMES.map(Watermark) | st.just(IDLE)),
    st.integers(1, 5),
)
def test_large_batches_come_in_several_with_the_same_records_times_and_watermarks(elements, together):
    with mock.patch.object(blocks, "_PICKLED_TOGETHER", together):
        decoded = decode_elements(encode_elements(elements))
    assert list(record_by_record(decoded)) == list(record_by_record(elements))
    assert all(len(each) <= together for each in decoded if isinstance(each, Rows))


def test_what_is_pickled_together_does_not_grow_with_the_block():
    payload = encode_elements([Rows([(str(number), number) for number in range(50_000)])])
    stream = io.BytesIO(payload)
    count = 0
    while stream.tell() < len(payload):
        pickle.load(stream)
        count += 1
    assert count == -(-50_000 // blocks._PICKLED_TOGETHER)


@given(ROWS, st.integers(1, 5))
def test_rows_keep_names_order_and_kind(row, times):
    (batch,) = decode_elements(encode_elements([Rows([row] * times)]))
    seen = {(value._fields, value.get_row_kind(), tuple(value)) for value in batch.values}
    assert seen == {(row._fields, row.get_row_kind(), tuple(row))}
    assert len({id(value) for value in batch.values}) == times


def test_rows_travel_as_tuples():
    rows = rows_of(("a", "b"), [(number, "x") for number in range(1000)])
    tuples = [(number, "x") for number in range(1000)]
    assert len(encode_elements([Rows(rows)])) < len(encode_elements([Rows(tuples)])) + 100


def test_rows_and_functions_travel():
    (batch,) = decode_elements(encode_elements([Rows([Row(a=1, b="x"), lambda: 7])]))
    assert batch.values[0] == Row(a=1, b="x")
    assert batch.values[1]() == 7


def test_block_within_a_slot_keeps_the_very_objects():
    lock = threading.Lock()
    elements = [Rows([lock])]
    assert Block(0, 0, 0, elements).elements()[0].values[0] is lock


def test_record_that_cannot_be_pickled_is_named():
    lock = threading.Lock()
    with pytest.raises(NotSerializableError, match="type lock cannot be pickled") as caught:
        encode_elements([Rows([1, 2]), Watermark(3), Rows(["fine", lock])])
    assert repr(lock) in caught.value.message
    assert caught.value.hint is not None


def columns(name, numbers, places):
    places = sorted(place % (len(numbers) + 1) for place in places)
    marks = Marks(places, places) if places else None
    return Columns.from_rows(Rows([Row(**{name: n}) for n in numbers], numbers, marks))


COLUMNS = st.builds(
    columns, st.sampled_from("ab"), st.lists(st.integers(0, 9), min_size=1), st.lists(st.integers(0, 9))
)


def one_by_one(elements):
    """Return records, with their names and times, and what stands between them, in order."""
    for element in elements:
        for piece in element.pieces() if isinstance(element, Columns) else [element]:
            if isinstance(piece, Columns):
                rows = piece.to_rows()
                yield from zip(map(repr, rows.values), rows.timestamps, strict=True)
            else:
                yield piece


@given(st.lists(COLUMNS | st.just(IDLE) | TIMES.map(Watermark)))
def test_columns_that_follow_each_other_are_joined_if_they_are_alike(elements):
    joined = join_columns(list(elements))
    assert list(one_by_one(joined)) == list(one_by_one(elements))
    for one, other in itertools.pairwise(joined):
        if isinstance(one, Columns) and isinstance(other, Columns):
            assert one.data.schema != other.data.schema


def test_columns_are_not_joined_without_end():
    numbers = list(range(30_000))
    joined = join_columns([columns("a", numbers, [len(numbers)]) for _ in range(5)])
    assert [len(each) for each in joined] == [60_000, 60_000, 30_000]
    assert joined[0].marks.positions == [30_000, 60_000]
