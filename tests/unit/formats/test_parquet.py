from __future__ import annotations

import datetime
import io
import os
import sys
import time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.base.errors import ConfigurationError, SourceError, TypeMismatchError
from millstream.base.time import Instant
from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.table import DataTypes
from millstream.types.arrow_values import records_of, values_of
from millstream.types.row import Row

ROW = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.INT()),
        DataTypes.FIELD("name", DataTypes.STRING()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(8, 2)),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP()),
        DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
    ]
)


def row(i):
    at = datetime.datetime(2013, 1, 1, 0, 0, i)
    return Row(id=i, name=None if i % 3 == 0 else f"n{i}", price=Decimal("1.25"), at=at, tags=["a"] * (i % 2))


def written(row_type, *batches):
    file = io.BytesIO()
    writer = ParquetBulkWriters.for_row_type(row_type).create(file)
    for batch in batches:
        writer.add_elements(batch)
    writer.finish()
    return file.getvalue()


def records(data, row_type=ROW, position=None, **options):
    fmt = ParquetColumnarRowInputFormat(row_type, batch_size=4, **options)
    return fmt.open(io.BytesIO(data), "x.parquet", position)


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 100])
@pytest.mark.parametrize("fresh", [True, False])
def test_rows_in_any_pieces_are_all_rows(piece, fresh, monkeypatch):
    monkeypatch.setattr("millstream.formats.parquet.writer._ROW_GROUP_ROWS", 5)
    monkeypatch.setattr("millstream.formats.parquet.reader._READ_ROWS", 1)  # the batch size is four
    rows = [row(i) for i in range(23)]
    data = written(ROW, rows[:3], rows[3:12], rows[12:])
    read, opened = [], records(data)
    while not opened.exhausted:
        read += opened.read(piece) if len(read) % 2 else records_of(opened.read_columns(piece))
        if fresh:
            opened = records(data, position=opened.position)
    assert read == rows


def test_columns_are_chosen_by_name_and_case_may_be_ignored():
    some = DataTypes.ROW(
        [DataTypes.FIELD("NAME", DataTypes.STRING()), DataTypes.FIELD("ID", DataTypes.BIGINT())]
    )
    data = written(ROW, [row(1)])
    assert records(data, some, is_case_sensitive=False).read(9) == [Row(NAME="n1", ID=1)]
    with pytest.raises(SourceError, match=r"(?s)file 'x.parquet' has no column 'NAME'.*'name'"):
        records(data, some)


def test_type_that_does_not_fit_is_named():
    wrong = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.INT())])
    with pytest.raises(SourceError, match="column 'name': type string does not fit int32"):
        records(written(ROW, [row(1)]), wrong).read(9)


def test_file_that_is_no_parquet_is_named():
    with pytest.raises(SourceError, match=r"'x\.parquet' is no Parquet file"):
        records(b"hello, this is text")


def test_empty_file_has_no_rows():
    opened = records(written(ROW))
    assert opened.exhausted
    assert opened.read(5) == []


def test_value_that_does_not_fit_is_named_with_its_column():
    small = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.TINYINT())])
    with pytest.raises(
        TypeMismatchError, match="column 'n': value 300 of type int does not fit type TINYINT"
    ):
        written(small, [Row(n=1), Row(n=300)])
    with pytest.raises(TypeMismatchError, match="2 fields, the file has 1 columns"):
        written(small, [(1, 2)])


def test_zoned_timestamps_come_in_utc_if_asked():
    moment = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
    file = io.BytesIO()
    pq.write_table(pa.table({"at": pa.array([moment], pa.timestamp("ms", "UTC"))}), file)
    only = DataTypes.ROW([DataTypes.FIELD("at", DataTypes.TIMESTAMP())])
    assert records(file.getvalue(), only, is_utc_timestamp=True).read(1) == [
        Row(at=moment.replace(tzinfo=None))
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_a_files_zone_and_unit_do_not_change_the_moment(zone, unit, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        moments = [datetime.datetime(2013, 7, 1, 12), None, datetime.datetime(1969, 12, 31, 23)]
        file = io.BytesIO()
        pq.write_table(
            pa.table({"at": pa.array(moments, pa.timestamp(unit)).view(pa.timestamp(unit, zone))}), file
        )
        only = DataTypes.ROW([DataTypes.FIELD("at", DataTypes.TIMESTAMP())])
        in_utc = records(file.getvalue(), only, is_utc_timestamp=True).read(9)
        assert [row.at for row in in_utc] == moments
        local = records(file.getvalue(), only).read(9)
        assert [row.at for row in local] == [
            datetime.datetime(2013, 7, 1, 8),
            None,
            datetime.datetime(1969, 12, 31, 18),
        ]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_large_rows_are_decoded_few_at_a_time():
    kind = DataTypes.ROW([DataTypes.FIELD("b", DataTypes.BYTES())])
    data = written(kind, [(os.urandom(1_000_000),) for _ in range(20)])
    opened = ParquetColumnarRowInputFormat(kind).open(io.BytesIO(data), "x", None)
    opened.read(1)
    assert len(opened._block) == 4


@pytest.mark.parametrize(
    "array",
    [
        pa.array([datetime.datetime(2013, 1, 1, 5, 15, 0, 7), None], pa.timestamp("us")),
        pa.array([datetime.datetime.min, datetime.datetime.max], pa.timestamp("us")),
        pa.array([datetime.datetime(2013, 1, 1), None], pa.timestamp("ms")),
        pa.array([datetime.datetime(1970, 1, 2), None], pa.timestamp("ns")),
        pa.array([datetime.date.min, None, datetime.date.max]),
        pa.array([datetime.time(5, 15, 0, 7), None, datetime.time.max]),
        pa.array([Decimal("1.50"), None, Decimal("-0.05")]),
        pa.array([None, None], pa.date32()),
        pa.array([], pa.timestamp("us")),
        pa.array([1, None], pa.int64()),
        pa.array([0.1, None, float("inf")]),
        pa.array([True, None]),
        pa.array(["é", None, ""]),
        pa.array([[1], None, []]),
    ],
    ids=lambda array: str(array.type),
)
def test_values_of_arrays_are_those_of_to_pylist_with_and_without_numpy(array, monkeypatch):
    for part in (array, array.slice(1)):
        expected = list(map(repr, part.to_pylist()))
        assert list(map(repr, values_of(part))) == expected
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "numpy", None)
            assert list(map(repr, values_of(part))) == expected


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0, 10**18], pa.int64()).view(pa.timestamp("us")),
        pa.array([10**7], pa.int32()).view(pa.date32()),
    ],
    ids=["timestamp", "date"],
)
def test_moments_that_python_cannot_hold_are_refused(array):
    with pytest.raises((ValueError, OverflowError)):
        values_of(array)


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"millstream\[parquet\]"):
        ParquetBulkWriters.for_row_type(ROW)


def test_maps_moments_bytes_and_rounded_decimals_come_back():
    kind = DataTypes.ROW(
        [
            DataTypes.FIELD("m", DataTypes.MAP(DataTypes.STRING(), DataTypes.DECIMAL(3, 1))),
            DataTypes.FIELD("t", DataTypes.TIMESTAMP_LTZ(3)),
            DataTypes.FIELD("c", DataTypes.CHAR(3)),
            DataTypes.FIELD("b", DataTypes.BINARY(2)),
            DataTypes.FIELD("v", DataTypes.VARBINARY(9)),
            DataTypes.FIELD("d", DataTypes.ARRAY(DataTypes.DECIMAL(3, 1))),
        ]
    )
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 6000, datetime.UTC)
    local = moment.astimezone().replace(tzinfo=None)
    instant = Instant(int(moment.timestamp()), 6_000_000)
    rows = [
        ({"a": Decimal("1.25")}, given, "abc", b"xy", b"z", [Decimal("-0.05"), None])
        for given in (moment, local, instant)
    ]
    rows.append((None, None, None, None, None, None))
    data = written(kind, rows)
    expected = Row(m={"a": Decimal("1.3")}, t=local, c="abc", b=b"xy", v=b"z", d=[Decimal("-0.1"), None])
    nothing = Row(m=None, t=None, c=None, b=None, v=None, d=None)
    assert records(data, kind).read(10) == [expected] * 3 + [nothing]
    assert records_of(records(data, kind).read_columns(10)) == ([expected] * 3 + [nothing])[:4]


def test_nested_rows_come_back_as_rows():
    point = DataTypes.ROW(
        [DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("y", DataTypes.DECIMAL(3, 1))]
    )
    kind = DataTypes.ROW(
        [
            DataTypes.FIELD("at", point),
            DataTypes.FIELD("path", DataTypes.ARRAY(point)),
            DataTypes.FIELD("named", DataTypes.MAP(DataTypes.STRING(), point)),
        ]
    )
    a, b = Row(x=1, y=Decimal("1.5")), Row(x=2, y=None)
    rows = [Row(at=a, path=[a, b], named={"b": b}), Row(at=None, path=None, named=None)]
    data = written(kind, rows, [((1, Decimal("1.5")), [a, {"y": None, "x": 2}], {"b": [2, None]})])
    assert records(data, kind).read(9) == [rows[0], rows[1], rows[0]][:4]
    with pytest.raises(TypeMismatchError, match="column 'at'"):
        written(kind, [((1, 2, 3), [], {})])


def test_a_decimal_with_too_many_digits_is_named():
    kind = DataTypes.ROW([DataTypes.FIELD("x", DataTypes.DECIMAL(3, 1))])
    with pytest.raises(TypeMismatchError, match="does not fit type DECIMAL"):
        written(kind, [(Decimal(100),)])
