from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import NotSerializableError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.runtime.protocol.blocks import Block, decode_elements, encode_elements
from millstream.spi.batch import ACTIVE, IDLE, Marks, Rows, Watermark
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
