"""Aggregates of columns, beside plain Python over the same rows; in any cut, merged, and through a snapshot."""

from __future__ import annotations

import math
import statistics
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.groups import Groups
from millstream.state.keys import canonical_key
from millstream.types.arrow_values import values_of

SMALL = st.integers(-50, 50)
VALUES = {
    "int64": (pa.int64(), st.integers(-(2**40), 2**40)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "float64": (pa.float64(), st.floats(-1e9, 1e9)),
    "decimal": (pa.decimal128(9, 2), st.decimals("-9999", "9999", places=2)),
    "string": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=3)),
    "date": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "timestamp": (pa.timestamp("us"), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from("abc")),
}
NUMERIC = ["int64", "int16", "uint32", "bool", "float64", "decimal"]
ALIKE = [
    "",
    "\0",
    "\0\0",
    "a",
    "a\0",
    "a\0\0\0",
    "abcd",
    "abcd\0",
    "abcde",
    "é" * 3,
    *("x" * n for n in (63, 64, 65, 200)),
]
KEYS = {
    **{kind: VALUES[kind] for kind in VALUES if kind not in ("int64", "float64")},
    "int64": (pa.int64(), SMALL | st.integers(-(2**63), 2**63 - 1)),
    "float64": (pa.float64(), st.floats() | SMALL.map(float) | st.sampled_from([0.0, -0.0, math.nan])),
    "float32": (pa.float32(), st.floats(width=32)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "alike": (pa.string(), st.sampled_from(ALIKE)),
    "long": (pa.large_string(), st.text(st.characters(codec="utf-8"), max_size=80)),
    "list": (pa.list_(pa.int64()), st.lists(SMALL, max_size=2)),
}

COUNT = Aggregate(AggregateKind.COUNT)


def of(kind: str, field: str = "v") -> Aggregate:
    return Aggregate(AggregateKind(kind), field)


MODEL = {
    "count": lambda values: sum(value is not None for value in values),
    "sum": lambda values: sum(present) if (present := [v for v in values if v is not None]) else None,
    "mean": lambda values: (
        statistics.fmean(present) if (present := [v for v in values if v is not None]) else None
    ),
    "min": lambda values: min((v for v in values if v is not None), default=None),
    "max": lambda values: max((v for v in values if v is not None), default=None),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


@st.composite
def rows(draw, kinds=None, keys=None):
    """The types of keys and values, and rows (key, value)."""
    key_kinds = draw(st.lists(st.sampled_from(keys or list(KEYS)), min_size=1, max_size=2))
    value_kind = draw(st.sampled_from(kinds or list(VALUES)))
    key_values = [draw(st.lists(KEYS[kind][1] | st.none(), min_size=1, max_size=4)) for kind in key_kinds]
    key = st.tuples(*map(st.sampled_from, key_values))
    value = st.none() | VALUES[value_kind][1]
    return (
        [KEYS[kind][0] for kind in key_kinds],
        VALUES[value_kind][0],
        draw(st.lists(st.tuples(key, value), max_size=30)),
    )


def add(groups: Groups, key_types, value_type, part, aggregates) -> None:
    keys = [pa.array([key[place] for key, _ in part], kind) for place, kind in enumerate(key_types)]
    column = pa.array([value for _, value in part], value_type)
    groups.add(keys, [column if each.field else None for each in aggregates])


def contents(groups: Groups) -> dict:
    columns = [values_of(column) for column in groups.columns(groups.every())]
    keys = groups.keys(groups.every())
    shown = list(zip(*columns, strict=True)) if keys else []
    names = len(columns) - len(groups.kinds[1])
    assert [canonical_key(row[0] if names == 1 else tuple(row[:names])) for row in shown] == keys
    return {key: row[names:] for key, row in zip(keys, shown, strict=True)}


def by_key(key_types, value_type, given_rows) -> dict:
    """The values of each key, as Arrow has them: floats of 32 bits are not those of 64."""
    model: dict = {}
    for key, value in given_rows:
        parts = tuple(values_of(pa.array([part], kind))[0] for part, kind in zip(key, key_types, strict=True))
        own = values_of(pa.array([value], value_type))[0]
        model.setdefault(canonical_key(parts[0] if len(parts) == 1 else parts), []).append(own)
    return model


def same(found, expected) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)
    return found == expected


def check(groups: Groups, key_types, value_type, given_rows, aggregates) -> None:
    model = by_key(key_types, value_type, given_rows)
    found = contents(groups)
    assert set(found) == set(model)
    in_order = [[key for key in keys if key is not None] for keys in (found, model)]
    assert in_order[0] == in_order[1]  # as they came; null may be behind others of its batch
    for key, values in model.items():
        expected = [len(values) if each == COUNT else MODEL[each.kind.value](values) for each in aggregates]
        for one, other, each in zip(found[key], expected, aggregates, strict=True):
            assert same(one, other), (str(each), key, one, other)


def cut(data, given_rows):
    """The rows in batches."""
    start = 0
    while start < len(given_rows):
        stop = start + data.draw(st.integers(1, len(given_rows) - start))
        yield given_rows[start:stop]
        start = stop


ANY = [COUNT, of("count"), of("min"), of("max"), of("first"), of("last")]
NUMBERS = [*ANY, of("sum"), of("mean")]


@given(rows(), st.data())
def test_aggregates_of_columns_are_those_of_plain_python_in_any_cut(given_rows, data):
    key_types, value_type, all_rows = given_rows
    groups = Groups(["a", "b"], ANY)
    for part in cut(data, all_rows):
        add(groups, key_types, value_type, part, ANY)
    check(groups, key_types, value_type, all_rows, ANY)


@given(rows(NUMERIC), st.data())
def test_sums_and_means_are_those_of_plain_python_in_any_cut(given_rows, data):
    key_types, value_type, all_rows = given_rows
    groups = Groups(["a", "b"], NUMBERS)
    for part in cut(data, all_rows):
        add(groups, key_types, value_type, part, NUMBERS)
    check(groups, key_types, value_type, all_rows, NUMBERS)


@given(rows(["int64", "float64"], ["int64", "string"]), st.data())
def test_a_float_sum_does_not_depend_on_the_cut(given_rows, data):
    key_types, value_type, all_rows = given_rows
    whole, parts = Groups(["a", "b"], [of("sum")]), Groups(["a", "b"], [of("sum")])
    add(whole, key_types, value_type, all_rows, [of("sum")])
    for part in cut(data, all_rows):
        add(parts, key_types, value_type, part, [of("sum")])
    assert contents(whole) == contents(parts)


@given(rows(NUMERIC), st.data())
def test_merged_groups_are_those_of_the_rows_of_both(given_rows, data):
    key_types, value_type, all_rows = given_rows
    middle = data.draw(st.integers(0, len(all_rows)))
    first, second = Groups(["a", "b"], NUMBERS), Groups(["a", "b"], NUMBERS)
    add(first, key_types, value_type, all_rows[:middle], NUMBERS)
    add(second, key_types, value_type, all_rows[middle:], NUMBERS)
    before = contents(second)
    first.merge(second)
    check(first, key_types, value_type, all_rows, NUMBERS)
    assert contents(second) == before


@given(rows(NUMERIC), st.data())
@settings(deadline=None)
def test_a_snapshot_by_key_is_restored_and_goes_on(given_rows, data):
    key_types, value_type, all_rows = given_rows
    middle = data.draw(st.integers(0, len(all_rows)))
    before = Groups(["a", "b"], NUMBERS)
    add(before, key_types, value_type, all_rows[:middle], NUMBERS)
    entries = list(zip(before.keys(before.every()), before.entries(before.every()), strict=True))
    after = Groups(["a", "b"], NUMBERS)
    after.learn(before.kinds)
    after.restore([key for key, _ in entries], [entry for _, entry in entries])
    add(after, key_types, value_type, all_rows[middle:], NUMBERS)
    check(after, key_types, value_type, all_rows, NUMBERS)


@pytest.mark.parametrize("spread", [3, 1_000, 100_000])
def test_many_integer_keys_get_one_slot_each_in_the_order_of_their_first_rows(spread):
    import random

    random.seed(spread)
    groups = Groups(["k"], [COUNT])
    model: dict = {}
    for _ in range(5):
        keys = [random.randrange(spread) * random.choice([1, 1 << 32, -1]) for _ in range(20_000)]
        keys[::1000] = [None] * 20
        groups.add([pa.array(keys)], [None])
        for key in keys:
            model[key] = model.get(key, 0) + 1
    found = contents(groups)
    assert {key: count for key, (count,) in found.items()} == model
    assert [key for key in found if key is not None] == [key for key in model if key is not None]


@pytest.mark.parametrize("spread", [3, 1_000, 100_000])
def test_many_texts_get_one_slot_each_in_the_order_of_their_first_rows(spread):
    import random

    random.seed(spread)
    groups = Groups(["k"], [COUNT])
    model: dict = {}
    for _ in range(4):
        keys = [f"{random.randrange(spread)}" * random.choice([1, 2, 5]) for _ in range(10_000)]
        groups.add([pa.array(keys)], [None])
        for key in keys:
            model[key] = model.get(key, 0) + 1
    assert list(contents(groups).items()) == [(key, (count,)) for key, count in model.items()]


def exact(values, quantile):
    return sorted(values)[math.floor(quantile * (len(values) - 1))]


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | SMALL.map(float), min_size=1, max_size=200),
    st.floats(0, 1),
    st.sampled_from([0.001, 0.01, 0.1]),
    st.integers(0, 200),
)
def test_a_quantile_is_within_its_error_and_merges_exactly(values, quantile, accuracy, middle):
    aggregate = Aggregate(AggregateKind.QUANTILE, "v", quantile=quantile, accuracy=accuracy)
    whole, first, second = (Groups(["k"], [aggregate]) for _ in range(3))
    for groups, part in ((whole, values), (first, values[:middle]), (second, values[middle:])):
        groups.add([pa.array([1] * len(part), pa.int64())], [pa.array(part, pa.float64())])
    first.merge(second)
    found = contents(whole)[1][0]
    expected = exact(values, quantile)
    assert abs(found - expected) <= accuracy * abs(expected) * (1 + 1e-9) + 3e-308
    assert contents(first) == contents(whole)


def test_min_max_and_quantiles_skip_nan():
    aggregates = [of("min"), of("max"), of("quantile")]
    groups = Groups(["k"], aggregates)
    add(groups, [pa.int64()], pa.float64(), [((1,), math.nan), ((2,), math.nan), ((2,), 5.0)], aggregates)
    assert contents(groups)[1] == (None, None, None)
    assert contents(groups)[2][:2] == (5.0, 5.0)
    assert Decimal(5) == round(Decimal(contents(groups)[2][2]), 1)
