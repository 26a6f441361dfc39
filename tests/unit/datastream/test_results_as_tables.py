"""What streams give as tables of Arrow, pandas and polars; and what becomes of tables on their way through."""

from __future__ import annotations

import datetime
import re
import sys
from decimal import Decimal

import pandas as pd
import pandas.testing
import pyarrow as pa
import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    JobExecutionError,
    NotSupportedError,
    TypeMismatchError,
)
from millstream.base.time import MIN_TIMESTAMP, Duration, Time
from millstream.common import Configuration, Row, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import ProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.window import TumblingEventTimeWindows

DAY = datetime.datetime(2024, 1, 1)
TABLE = pa.table(
    {
        "i": pa.array([1, None, -3], pa.int32()),
        "f": [0.5, None, float("inf")],
        "s": ["é", None, ""],
        "b": [b"\x00", None, b""],
        "t": [True, None, False],
        "day": [DAY.date(), None, datetime.date(1900, 1, 1)],
        "time": [datetime.time(1, 2, 3, 4), None, datetime.time(0)],
        "at": [DAY, None, DAY.replace(year=1969)],
        "moment": pa.array([1, None, -1], pa.timestamp("us", "UTC")),
        "dec": pa.array([Decimal("1.5"), None, Decimal("-2")], pa.decimal128(38, 18)),
        "l": [[1, None], None, []],
        "m": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
        "r": [{"x": 1, "at": DAY}, None, {"x": None, "at": None}],
    }
)


def environment(parallelism=1, **options):
    settings = {"execution.target": "local", "parallelism.default": parallelism}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings | options))


def test_every_type_comes_back_from_arrow_as_it_went_in():
    result = environment().from_arrow(TABLE).to_arrow()
    assert result.schema == TABLE.schema
    assert result.to_pylist() == TABLE.to_pylist()


def test_frames_of_pandas_come_back_as_they_went_in():
    frame = TABLE.drop_columns(["m", "l", "r", "dec"]).to_pandas()
    frame["i"] = frame["i"].astype("Int32")
    pandas.testing.assert_frame_equal(environment().from_pandas(frame).to_pandas(), frame)


def test_frames_of_polars_come_back_as_they_went_in():
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(TABLE.drop_columns(["m"]))
    assert environment().from_polars(frame).to_polars().equals(frame)


def test_large_integers_survive_missing_ones_in_pandas():
    large = 2**60 + 1
    frame = environment().from_collection([(large,), (None,)], Types.ROW([Types.LONG()])).to_pandas()
    assert frame["f0"].tolist() == [large, pd.NA] and str(frame["f0"].dtype) == "Int64"
    nested = environment().from_arrow(TABLE.select(["m", "r"])).to_pandas()
    assert nested["m"][0] == {"a": 1, "b": None} and nested["r"][0] == {"x": 1, "at": DAY}


def test_rows_have_the_names_of_the_columns_and_are_rows_like_others():
    stream = environment().from_arrow(TABLE.select(["s", "i"]))
    assert stream.get_type() == Types.ROW_NAMED(["s", "i"], [Types.STRING(), Types.INT()])
    kept = stream.filter(lambda row: row.i is not None).map(
        lambda row: Row(twice=row["i"] * 2), Types.ROW_NAMED(["twice"], [Types.LONG()])
    )
    assert kept.to_arrow().equals(pa.table({"twice": [2, -6]}))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_results_of_several_subtasks_are_one_table(parallelism):
    numbers = environment(parallelism).from_source(
        NumberSequenceSource(1, 1_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    table = numbers.map(lambda n: (n, str(n)), Types.TUPLE([Types.LONG(), Types.STRING()])).to_arrow()
    assert table.schema == pa.schema([("f0", pa.int64()), ("f1", pa.string())])
    assert table.sort_by("f0").to_pydict() == {"f0": [*range(1, 1_001)], "f1": [*map(str, range(1, 1_001))]}


def test_values_that_are_not_declared_have_the_type_that_all_of_them_fit():
    stream = environment(2, **{"millstream.epoch.fixed-records": 2}).from_collection([1, 2, 3, 4])
    mapped = stream.map(lambda n: Row(n=n, half=None if n < 4 else n / 2)).force_non_parallel()
    assert mapped.to_arrow().equals(pa.table({"n": [1, 2, 3, 4], "half": [None, None, None, 2.0]}))
    assert environment().from_collection([]).to_arrow().num_rows == 0


def test_an_empty_table_keeps_its_columns():
    assert environment().from_arrow(TABLE.slice(0, 0)).to_arrow().equals(TABLE.slice(0, 0))


def test_values_of_several_types_that_are_not_declared_are_refused():
    with pytest.raises(TypeMismatchError, match="column 'value': values of type int and str"):
        environment().from_collection([1, "x"]).to_arrow()


def test_values_that_have_no_columns_fail_where_they_are():
    decimals = environment().from_collection([Decimal("1e30")], Types.BIG_DEC())
    with pytest.raises(
        JobExecutionError, match=r'do not fit Arrow type decimal128.* in operator "Collect", subtask 0'
    ):
        decimals.to_arrow()


def test_batches_come_while_the_job_runs():
    source = DataGeneratorSource(int, 2**60, type_info=Types.LONG())
    numbers = environment(**{"millstream.epoch.fixed-records": 10}).from_source(
        source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    seen = []
    with numbers.collect_arrow() as batches:
        assert batches.schema == pa.schema([("value", pa.int64())])
        for batch in batches:
            seen += batch["value"].to_pylist()
            if len(seen) > 50:
                break
    assert seen == list(range(len(seen)))


def test_streams_that_do_not_end_are_no_table():
    follow = DataGeneratorSource(int, 2**60)
    follow.get_boundedness = lambda: __import__("millstream.spi.source").spi.source.Boundedness("unbounded")
    stream = environment().from_source(follow, WatermarkStrategy.no_watermarks(), "endless")
    for call in (stream.to_arrow, stream.to_pandas, stream.to_spark):
        with pytest.raises(
            JobDefinitionError, match=f'{call.__name__} was called on a .* "endless"'
        ) as error:
            call()
        assert "collect_arrow()" in str(error.value)


# Event time


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


MINUTE = 60_000


def times(stream):
    with stream.process(Times()).execute_and_collect() as results:
        return [(row.n, at, watermark) for row, at, watermark in results]


def test_event_time_is_that_of_the_column_and_nothing_is_late():
    table = pa.table({"n": [0, 1, 2, 3], "at": pa.array([5_000, 9_000, 6_000, 20_000], pa.timestamp("ms"))})
    read = times(environment(**{"millstream.epoch.fixed-records": 1}).from_arrow(table, timestamp="at"))
    assert [(n, at) for n, at, _ in read] == [(0, 5_000), (1, 9_000), (2, 6_000), (3, 20_000)]
    assert all(watermark < at for _, at, watermark in read)
    assert read[2][2] == 9_000 - 3_000 - 1  # as far behind as the table is out of order
    assert [at for _, at, _ in times(environment().from_arrow(table))] == [MIN_TIMESTAMP] * 4


def test_windows_over_a_table_hold_every_row():
    moments = [DAY + datetime.timedelta(seconds=7 * n % 600) for n in range(600)]
    frame = pd.DataFrame({"at": moments, "n": range(600)})
    totals = (
        environment(2, **{"millstream.epoch.fixed-records": 50})
        .from_pandas(frame, timestamp="at")
        .map(lambda row: (int(row.at.timestamp()) // 60, row.n))
        .key_by(lambda pair: 0)
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(lambda pair: pair[1], Types.LONG())
        .to_arrow()
    )
    expected = frame.groupby(frame["at"].dt.floor("min"))["n"].sum()
    assert sorted(totals["value"].to_pylist()) == sorted(expected.tolist())


class Tens(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.n * 10 + record_timestamp


def test_a_strategy_goes_before_what_the_table_says():
    table = pa.table({"n": [1, 2], "at": [100, 200]})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(7))
    read = times(environment(**{"millstream.epoch.fixed-records": 1}).from_arrow(table, "at", strategy))
    assert read[1] == (2, 200, 100 - 7 - 1)
    assigned = strategy.with_timestamp_assigner(Tens())
    assert [at for _, at, _ in times(environment().from_arrow(table, "at", assigned))] == [110, 220]


def test_mistakes_are_told_where_the_table_is_given():
    env = environment()
    with pytest.raises(ConfigurationError, match="no column 'when'"):
        env.from_arrow(TABLE, timestamp="when")
    with pytest.raises(TypeMismatchError, match="timestamp is 5"):
        env.from_arrow(TABLE, timestamp=5)
    for make in (lambda: env.from_pandas(TABLE.to_pandas()[[]]), lambda: env.from_arrow(TABLE.select([]))):
        with pytest.raises(TypeMismatchError, match="the table has 3 rows and no column"):
            make()
    with pytest.raises(TypeMismatchError, match="the table has 2 columns named 'a'"):
        env.from_arrow(pa.table([[1], [2]], ["a", "a"]))
    with pytest.raises(TypeMismatchError, match="watermark strategy"):
        env.from_arrow(TABLE, watermark_strategy=5)
    with pytest.raises(TypeMismatchError, match="from_spark was given a DataFrame, not a Spark DataFrame"):
        env.from_spark(pd.DataFrame())
    with pytest.raises(TypeMismatchError, match="has the Arrow type|cannot be read|no one type"):
        env.from_pandas(pd.DataFrame({"x": [1, "a"]}))


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (pa.array([1]), pa.array([2.5]), pa.float64()),
        (pa.array([1], pa.int8()), pa.array([2]), pa.int64()),
        (pa.array(["a"]), pa.array(["b"], pa.large_string()), pa.large_string()),
        (pa.nulls(1), pa.array([2]), pa.int64()),
    ],
)
def test_columns_of_several_types_have_the_widest(first, second, together):
    table = of_both(first, second).to_arrow()
    assert table.schema == pa.schema([("x", together)])
    assert set(table["x"].to_pylist()) == {first[0].as_py(), second[0].as_py()}


@pytest.mark.parametrize("second", [["b"], [datetime.date(2024, 1, 1)], [True]])
def test_columns_that_fit_no_one_type_are_named(second):
    with pytest.raises(TypeMismatchError, match="do not fit into one table") as error:
        of_both(pa.array([1]), pa.array(second)).to_arrow()
    assert "Field x has incompatible types" in str(error.value)
    with pytest.raises(TypeMismatchError, match="do not fit into one table") as error:
        of_both(pa.array(["a"]), pa.array([b"b"])).to_arrow()
    assert "Column 'x' holds text in some of them and bytes" in str(error.value)


def of_both(first, second):
    """A stream of two batches, each with a column x."""
    env = environment()
    streams = [
        env.from_collection([1]).map_batches(lambda _, column=column: pa.record_batch({"x": column}))
        for column in (first, second)
    ]
    return streams[0].union(streams[1])


def test_a_map_with_a_key_twice_makes_no_dict():
    table = pa.table({"m": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(TypeMismatchError, match="the results make no frame of pandas"):
        environment().from_arrow(table).to_pandas()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            pa.array([2**62], pa.timestamp("us")),
            r"column 'x' of type timestamp\[us\] holds a value that",
        ),
        (pa.array([[([1], 2)]], pa.map_(pa.list_(pa.int64()), pa.int64())), "column 'x' of type map<"),
    ],
)
def test_a_value_that_python_has_not_is_named_where_rows_are_made(column, said):
    stream = environment().from_arrow(pa.table({"x": column}))
    with pytest.raises(JobExecutionError) as failed:
        list(stream.map(lambda row: row).execute_and_collect())
    assert isinstance(failed.value.__cause__, TypeMismatchError)
    assert re.search(said, str(failed.value.__cause__))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_the_library_nothing_runs(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    ran = []
    stream = environment().from_collection([1]).map(ran.append)
    with pytest.raises(ConfigurationError, match=rf"to_{library} needs the package {library}") as error:
        getattr(stream, f"to_{library}")()
    assert f'pip install "millstream[{library}]"' in str(error.value)
    assert ran == []


def test_what_spark_has_no_type_for_is_told_before_the_job_runs():
    class Session:
        class conf:
            @staticmethod
            def get(key, default=None):
                return default

    ran = []
    stream = environment().from_arrow(TABLE.select(["time"])).filter(ran.append)
    with pytest.raises(NotSupportedError, match="no type for times of day"):
        stream.to_spark(Session())
    assert ran == []


def test_without_spark_a_session_has_to_be_given():
    if "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._active_spark_context is not None:
        pytest.skip("a session is there")
    with pytest.raises(ConfigurationError, match="there is no Spark session"):
        environment().from_arrow(TABLE).to_spark()
