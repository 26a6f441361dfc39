"""Columns of the connector `datagen` that are made at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.connectors.datagen import RateLimiterStrategy
from millstream.table import DataTypes, Schema, TableDescriptor
from millstream.table.datagen import build_datagen_columns
from millstream.table.datagen_columns import ColumnsSource, hashes
from millstream.table.functions.kernels.arithmetic import divide_integers

MASK = (1 << 64) - 1


def splitmix64(state):
    """The published algorithm, one number at a time."""
    mixed = state
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5), st.integers(0, MASK))
def test_hashes_are_those_of_splitmix64(numbers, seed):
    found = hashes(np.array(numbers, np.int64), seed).tolist()
    assert found == [splitmix64(((n + 1) * 0x9E3779B97F4A7C15 + seed) & MASK) for n in numbers]


def descriptor(columns, **options):
    schema = Schema.new_builder()
    for name, kind in columns:
        schema.column(name, kind)
    builder = TableDescriptor.for_connector("datagen").schema(schema.build())
    for key, value in options.items():
        builder.option(key.replace("__", ".").replace("_", "-"), str(value))
    return builder.build()


NUMBERS = descriptor(
    [
        ("i", DataTypes.INT()),
        ("t", DataTypes.TINYINT()),
        ("d", DataTypes.DOUBLE()),
        ("b", DataTypes.BOOLEAN()),
        ("n", DataTypes.BIGINT()),
        ("s", DataTypes.STRING()),
    ],
    fields__i__min=-3,
    fields__i__max=3,
    fields__d__min=-1.5,
    fields__d__max=2.5,
    fields__n__kind="sequence",
    fields__n__start=5,
    fields__n__end=3004,
)


def test_values_are_of_their_types_and_bounds():
    source = build_datagen_columns(NUMBERS, ("i", "t", "d", "b", "n"))
    data = source._batch(range(0, 3000)).data
    assert data.schema.names == ["f0", "f1", "f2", "f3", "f4"]
    assert data.schema.types == [pa.int32(), pa.int8(), pa.float64(), pa.bool_(), pa.int64()]
    i, t, d, b, n = (column.to_pylist() for column in data.columns)
    assert set(i) == set(range(-3, 4))
    assert min(t) < -100 and max(t) > 100
    assert -1.5 <= min(d) < -1.4 and 2.4 < max(d) <= 2.5
    assert 1200 < sum(b) < 1800
    assert n == list(range(5, 3005))


def test_a_column_does_not_depend_on_the_others_that_are_read_nor_on_the_batch():
    wide = build_datagen_columns(NUMBERS, ("i", "d"))
    narrow = ColumnsSource(wide._columns[1:], wide._seed, None, RateLimiterStrategy.no_op())
    assert wide._batch(range(0, 100, 2)).data.column(1).equals(narrow._batch(range(0, 100, 2)).data.column(0))
    whole = wide._batch(range(100)).data
    assert whole.slice(40, 20).equals(wide._batch(range(40, 60)).data)


def test_columns_come_in_the_order_in_which_they_are_wanted():
    data = build_datagen_columns(NUMBERS, ("n", "b"))._batch(range(3)).data
    assert data.schema.types == [pa.int64(), pa.bool_()]


def test_texts_and_numbers_beyond_their_type_are_made_as_rows():
    assert build_datagen_columns(NUMBERS, ("n", "s")) is None
    options = {"fields__t__kind": "sequence", "fields__t__start": 0, "fields__t__end": 1000}
    assert build_datagen_columns(descriptor([("t", DataTypes.TINYINT())], **options), ("t",)) is None


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_subtasks_take_turns_at_the_rows(count, parallelism):
    source = ColumnsSource((), 0, count, RateLimiterStrategy.no_op())
    splits = [each for _, each, _ in source.build_enumerator(parallelism, None).snapshot()]
    assert sorted(number for split in splits for number in split) == list(range(count))
    assert all(number % parallelism == place for place, split in enumerate(splits) for number in split)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@given(data=st.data())
def test_quotients_by_a_constant_are_cut_towards_zero(bits, data):
    largest = (1 << bits - 1) - 1
    values = data.draw(st.lists(st.none() | st.integers(-largest - 1, largest), max_size=20))
    by, first = data.draw(st.integers(1, largest)), data.draw(st.integers(0, 3))
    kind = getattr(pa, f"int{bits}")()
    found = divide_integers(pa.array(values, kind)[first:], pa.scalar(by, kind)).to_pylist()
    expected = [None if n is None else abs(n) // by * (1 if n >= 0 else -1) for n in values[first:]]
    assert found == expected
