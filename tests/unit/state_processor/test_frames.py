"""Frames hold what the state holds, with types where Spark has them."""

from __future__ import annotations

import datetime
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal

import pytest
from pyspark.sql import types
from pyspark.sql.types import _make_type_verifier

from millstream.common import Row
from millstream.common.windows import CountWindow, TimeWindow
from millstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter, WindowStart
from millstream.state_processor.frames import infer, to_pandas, to_spark

Pair = namedtuple("Pair", "left right")


@dataclass
class Point:
    x: int
    y: float | None


@dataclass
class Empty:
    pass


class Opaque:
    def __repr__(self):
        return "Opaque!"


def struct(**fields):
    return types.StructType([types.StructField(name, kind) for name, kind in fields.items()])


LONG, DOUBLE, TEXT = types.LongType(), types.DoubleType(), types.StringType()


@pytest.mark.parametrize(
    ("values", "kind", "converted"),
    [
        ([True, None], types.BooleanType(), [True, None]),
        ([1, -(2**63)], LONG, [1, -(2**63)]),
        ([1, 2**63], TEXT, ["1", "9223372036854775808"]),
        ([1, 2.5], DOUBLE, [1.0, 2.5]),
        ([2.5, 2**60], TEXT, ["2.5", str(2**60)]),
        (["a"], TEXT, ["a"]),
        ([b"a"], types.BinaryType(), [b"a"]),
        ([datetime.date(2020, 1, 2)], types.DateType(), [datetime.date(2020, 1, 2)]),
        ([datetime.datetime(2020, 1, 2)], types.TimestampType(), [datetime.datetime(2020, 1, 2)]),
        ([Decimal("1.5")], types.DecimalType(38, 18), [Decimal("1.5")]),
        ([Decimal("1e-30")], TEXT, ["Decimal('1E-30')"]),
        ([[1, 2], []], types.ArrayType(LONG), [[1, 2], []]),
        ([[1, "a"]], types.ArrayType(TEXT), [["1", "'a'"]]),
        ([{"a": 1}, {}], types.MapType(TEXT, LONG), [{"a": 1}, {}]),
        ([{None: 1}], TEXT, ["{None: 1}"]),
        ([(1, "a"), (2, None)], struct(_1=LONG, _2=TEXT), [(1, "a"), (2, None)]),
        ([(1,), (1, 2)], TEXT, ["(1,)", "(1, 2)"]),
        ([()], TEXT, ["()"]),
        ([Pair(1, 2.5)], struct(left=LONG, right=DOUBLE), [(1, 2.5)]),
        ([Row(a=1, b="x")], struct(a=LONG, b=TEXT), [(1, "x")]),
        ([Row(1, "x")], struct(_1=LONG, _2=TEXT), [(1, "x")]),
        ([Point(1, None), Point(2, 2.0)], struct(x=LONG, y=DOUBLE), [(1, None), (2, 2.0)]),
        ([[Point(1, 2.0)]], types.ArrayType(struct(x=LONG, y=DOUBLE)), [[(1, 2.0)]]),
        ([Empty()], TEXT, ["Empty()"]),
        ([TimeWindow(0, 5)], struct(start=LONG, end=LONG), [(0, 5)]),
        ([WindowStart(7)], struct(start=LONG), [(7,)]),
        ([CountWindow(3)], struct(id=LONG), [(3,)]),
        ([Opaque(), None], TEXT, ["Opaque!", None]),
        ([1, "a"], TEXT, ["1", "'a'"]),
        ([True, 1], TEXT, ["True", "1"]),
        ([None], TEXT, [None]),
        ([], TEXT, []),
    ],
    ids=repr,
)
def test_columns_have_the_type_that_fits_all_values(values, kind, converted):
    column = infer(values)
    assert column.type == kind
    assert [column.convert(value) for value in values] == converted
    accept = _make_type_verifier(column.type)
    for value in converted:
        accept(value)


ENTRIES = [("a", None, Point(1, None)), ("b", None, Point(2, 0.5))]


class Session:
    """What is asked of a Spark session; Spark itself checks rows against their schema like this."""

    def createDataFrame(self, rows, schema):
        accept = _make_type_verifier(schema)
        for row in rows:
            accept(row)
        return rows, schema


def test_a_spark_frame_has_three_columns():
    rows, schema = to_spark(Session(), iter(ENTRIES))
    assert rows == [("a", None, (1, None)), ("b", None, (2, 0.5))]
    assert schema == struct(key=TEXT, namespace=TEXT, value=struct(x=LONG, y=DOUBLE))
    rows, schema = to_spark(Session(), iter([]))
    assert rows == []
    assert schema.names == ["key", "namespace", "value"]


def test_a_pandas_frame_has_three_columns_and_keeps_integers():
    frame = to_pandas(iter([("a", None, 1), ("b", None, None), ("c", None, 2**60 + 1)]))
    assert list(frame.columns) == ["key", "namespace", "value"]
    assert list(frame["value"]) == [1, None, 2**60 + 1]
    assert list(frame["key"]) == ["a", "b", "c"]
    assert to_pandas(iter([(1, None, 2)]))["value"].dtype == "int64"
    assert list(to_pandas(iter([])).columns) == ["key", "namespace", "value"]


def test_frames_are_made_of_state(tmp_path):
    rows = [("a", 1), ("b", 2), ("a", 3)]
    states = {"last": (ValueStateDescriptor("last"), 1), "all": (ListStateDescriptor("all"), 1)}
    path = (
        SavepointWriter.new().with_operator("op", KeyedBootstrap(rows, 0, states)).write(str(tmp_path / "sp"))
    )
    reader = SavepointReader.read(path)
    assert dict(reader.to_pandas("op", "last")[["key", "value"]].itertuples(index=False)) == {"a": 3, "b": 2}
    rows, schema = reader.to_spark(Session(), "op", "all")
    assert sorted(rows) == [("a", None, [1, 3]), ("b", None, [2])]
    assert schema["value"].dataType == types.ArrayType(LONG)


@pytest.mark.spark
def test_spark_reads_state_and_gives_rows_for_a_savepoint(tmp_path):
    from millstream.runtime.spark.session import SessionConfig, shared_session

    handle = shared_session(SessionConfig(master="local[1]", app_name="state"))
    from pyspark.sql import SparkSession

    session = SparkSession(handle.context)
    frame = session.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "name string, amount bigint")
    states = {"all": (ListStateDescriptor("all"), "amount")}
    path = (
        SavepointWriter.new()
        .with_operator("op", KeyedBootstrap(frame, "name", states))
        .write(str(tmp_path / "sp"))
    )
    back = SavepointReader.read(path).to_spark(session, "op", "all")
    assert back.selectExpr("key", "aggregate(value, 0L, (a, b) -> a + b) as total").orderBy(
        "key"
    ).collect() == [
        ("a", 4),
        ("b", 2),
    ]
