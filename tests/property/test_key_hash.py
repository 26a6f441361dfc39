"""The hash of columns is the hash of the values in them, whatever they are."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.state.key_groups import key_group, key_groups_of_columns
from millstream.state.key_hash import hash_columns, key_hash
from millstream.types.row import Row

NAIVE = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
SECONDS = NAIVE.map(lambda moment: moment.replace(microsecond=0))
MILLISECONDS = NAIVE.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
SMALL = st.integers(-128, 127)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", "a", "\0", "a\0", "é" * 200, "x" * 300]
)
KINDS = {
    **{
        f"int{bits}": (getattr(pa, f"int{bits}")(), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for bits in (8, 16, 32, 64)
    },
    **{
        f"uint{bits}": (getattr(pa, f"uint{bits}")(), st.integers(0, 2**bits - 1)) for bits in (8, 16, 32, 64)
    },
    "bool": (pa.bool_(), st.booleans()),
    "float16": (pa.float16(), st.floats(width=16).map(np.float16)),
    "float32": (pa.float32(), st.floats(width=32) | SMALL.map(float)),
    "float64": (pa.float64(), st.floats() | SMALL.map(float) | st.integers(2**60, 2**66).map(float)),
    "string": (pa.string(), TEXT),
    "large string": (pa.large_string(), TEXT),
    "string view": (pa.string_view(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=12) | st.just(b"x" * 1000)),
    "large binary": (pa.large_binary(), st.binary()),
    "fixed binary": (pa.binary(5), st.binary(min_size=5, max_size=5)),
    "date32": (pa.date32(), st.dates()),
    "date64": (pa.date64(), st.dates()),
    "timestamp[s]": (pa.timestamp("s"), SECONDS),
    "timestamp[ms]": (pa.timestamp("ms"), MILLISECONDS),
    "timestamp[us]": (pa.timestamp("us"), NAIVE),
    "timestamp[us, zone]": (
        pa.timestamp("us", "Europe/Berlin"),
        NAIVE.map(lambda t: t.replace(tzinfo=datetime.UTC)),
    ),
    "timestamp[ns]": (
        pa.timestamp("ns"),
        st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
    ),
    "time32": (pa.time32("s"), st.times().map(lambda t: t.replace(microsecond=0))),
    "time64": (pa.time64("us"), st.times()),
    "duration": (pa.duration("us"), st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999))),
    "decimal": (pa.decimal128(12, 3), st.decimals("-99999999", "99999999", places=3) | SMALL.map(Decimal)),
    "null": (pa.null(), st.none()),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXT),
    "list": (pa.list_(pa.int64()), st.lists(SMALL, max_size=3)),
}


def columns(kind: str, size: int | None = None) -> st.SearchStrategy[pa.Array]:
    arrow_type, values = KINDS[kind]
    values |= st.none()
    if size is not None:
        return st.lists(values, min_size=size, max_size=size).map(lambda given: pa.array(given, arrow_type))
    return st.lists(values, max_size=30).map(lambda given: pa.array(given, arrow_type))


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_column_has_the_hashes_of_its_values(kind, data):
    column = data.draw(columns(kind))
    start = data.draw(st.integers(0, len(column)))
    column = column.slice(start, data.draw(st.integers(0, len(column) - start)))
    keys = column.to_pylist()
    assert hash_columns([column]).tolist() == [key_hash(key) for key in keys]
    groups = key_groups_of_columns([column], 128)
    assert groups.dtype == np.int32
    assert groups.tolist() == [key_group(key, 128) for key in keys]


@given(st.data(), st.lists(st.sampled_from(list(KINDS)), min_size=2, max_size=3), st.integers(0, 10))
def test_several_columns_have_the_hashes_of_tuples(data, kinds, size):
    keys = [data.draw(columns(kind, size)) for kind in kinds]
    most = data.draw(st.sampled_from([1, 2, 100, 128, 32_768]))
    rows = list(zip(*(column.to_pylist() for column in keys), strict=True))
    assert key_groups_of_columns(keys, most).tolist() == [key_group(row, most) for row in rows]


@given(st.integers(-(2**70), 2**70) | SMALL, st.sampled_from([float, Decimal, np.float64, np.int64, bool]))
def test_numbers_that_are_equal_have_one_hash(number, kind):
    try:
        other = kind(number)
    except OverflowError:
        return
    if other == number:
        assert key_hash(other) == key_hash(number)
        assert key_hash((other, "a")) == key_hash((number, "a"))


@given(st.lists(st.integers() | st.text() | st.none() | st.floats()))
def test_tuples_lists_and_rows_of_the_same_elements_have_one_hash(elements):
    assert key_hash(tuple(elements)) == key_hash(elements) == key_hash(Row(*elements))


@given(st.lists(st.integers() | st.text(), min_size=2, max_size=5, unique=True), st.randoms())
def test_order_and_number_of_elements_count(elements, random):
    shuffled = random.sample(elements, len(elements))
    assert (key_hash(tuple(shuffled)) == key_hash(tuple(elements))) == (shuffled == elements)
    assert key_hash(tuple(elements)) != key_hash(tuple(elements[:-1]))
