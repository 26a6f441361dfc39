from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from millstream.base.time import Instant
from millstream.types.arrow_values import bare_schema, check_range, is_bare, records_of, values_of
from millstream.types.row import Row

POINT = pa.struct([("x", pa.int64()), ("at", pa.date32())])
EMPTY = Row.of((), ())
DAY = datetime.date(2024, 1, 31)


def test_structs_are_rows_and_maps_dicts_however_deep():
    structs = pa.array([{"x": 1, "at": DAY}, None, {"x": None, "at": None}], POINT)
    assert values_of(structs) == [Row(x=1, at=DAY), None, Row(x=None, at=None)]
    assert values_of(structs.slice(1, 2)) == [None, Row(x=None, at=None)]
    lists = pa.array([[{"x": 1}], None, [], [{"x": 2}, None]], pa.list_(pa.struct([("x", pa.int64())])))
    assert values_of(lists) == [[Row(x=1)], None, [], [Row(x=2), None]]
    assert values_of(lists.slice(2)) == [[], [Row(x=2), None]]
    maps = pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()))
    assert values_of(maps) == [{"a": 1}, None, {}]
    deep = pa.array([[("a", {"x": 1, "at": DAY})], None, [("b", None)]], pa.map_(pa.string(), POINT))
    assert values_of(deep) == [{"a": Row(x=1, at=DAY)}, None, {"b": None}]
    assert values_of(deep.slice(1)) == [None, {"b": None}]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_with_a_zone_are_instants_however_deep(unit):
    moments = [datetime.datetime(1969, 12, 31, 23, tzinfo=datetime.UTC), None]
    array = pa.array(moments, pa.timestamp(unit, "Asia/Kathmandu"))
    assert values_of(array) == [Instant(-3600, 0), None]
    assert values_of(pa.array([moments, None], pa.list_(array.type))) == [[Instant(-3600, 0), None], None]
    assert values_of(pa.array([[("a", moments[0])]], pa.map_(pa.string(), array.type))) == [
        {"a": Instant(-3600, 0)}
    ]


def test_instants_keep_nanoseconds():
    array = pa.array([-1, 1_000_000_001], pa.int64()).view(pa.timestamp("ns", "UTC"))
    assert values_of(array) == [Instant(-1, 999_999_999), Instant(1, 1)]


def test_structs_without_fields_are_empty_rows():
    assert values_of(pa.array([{}, None], pa.struct([]))) == [EMPTY, None]


def test_records_are_rows_or_bare_values():
    batch = pa.record_batch({"n": [1, 2], "s": ["a", None]})
    assert records_of(batch) == [Row(n=1, s="a"), Row(n=2, s=None)]
    lines = pa.record_batch([pa.array(["a", "b"])], schema=bare_schema("line", pa.string()))
    assert is_bare(lines.schema) and not is_bare(batch.schema)
    assert records_of(lines.slice(1)) == ["b"]
    assert records_of(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))) == [EMPTY, EMPTY]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_dates_that_python_has_not_are_told(kind):
    integer = pa.int32() if kind == pa.date32() else pa.int64()
    day = 1 if kind == pa.date32() else 86_400_000_000
    check_range(pa.array([0, None], integer).view(kind))
    with pytest.raises(ValueError, match="outside the years 1 to 9999"):
        check_range(pa.array([-800_000 * day], integer).view(kind))
