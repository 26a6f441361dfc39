"""Tables in and out of jobs on Spark: DataFrames of Spark through the slots, others as on the local executor."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal

import pyarrow as pa
import pytest

from millstream.base.errors import ConfigurationError, JobDefinitionError
from millstream.base.time import Instant, Time
from millstream.common import Row, Types
from millstream.datastream import MapFunction
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.graph.launcher import spark_session

pytestmark = pytest.mark.spark

TARGET = "local[2]"
DAY = datetime.datetime(2024, 1, 1, 12)


@pytest.fixture
def session(new_environment):
    return spark_session(new_environment(TARGET)._configuration)


def every_type(session):
    row = (
        1, 2**40, 0.5, "é", b"\x00", True, Decimal("1.50"), DAY.date(), DAY.replace(tzinfo=datetime.UTC),
        [1, None], {"a": 1}, (7, DAY.date()),
    )  # fmt: skip
    schema = (
        "i int, l long, d double, s string, b binary, t boolean, dec decimal(10,2), day date, at timestamp, "
        "li array<int>, m map<string,int>, r struct<x:int,day:date>"
    )
    return session.createDataFrame([row, (None,) * 12], schema)


def test_a_frame_of_spark_comes_as_rows_and_goes_back_the_same(new_environment, session):
    frame = every_type(session)
    stream = new_environment(TARGET, 2).from_spark(frame)
    with stream.map(lambda row: row).execute_and_collect() as results:
        first, second = sorted(results, key=lambda row: row.i is None)
    assert first == Row(
        i=1, l=2**40, d=0.5, s="é", b=b"\x00", t=True, dec=Decimal("1.50"), day=DAY.date(),
        at=Instant(int(DAY.replace(tzinfo=datetime.UTC).timestamp()), 0), li=[1, None], m={"a": 1},
        r=Row(x=7, day=DAY.date()),
    )  # fmt: skip
    assert set(second) == {None}
    back = new_environment(TARGET, 2).from_spark(frame).to_spark()
    assert sorted(map(str, back.collect())) == sorted(
        map(str, frame.withColumn("dec", frame.dec.cast("decimal(38,18)")).collect())
    )
    assert [kind for _, kind in back.dtypes if "decimal" not in kind] == [
        kind for _, kind in frame.dtypes if "decimal" not in kind
    ]


def test_partitions_are_read_in_parallel_and_in_order(new_environment, session):
    frame = session.range(0, 10_000, 1, 5)
    stream = new_environment(TARGET, 2, {"millstream.epoch.fixed-records": 700}).from_spark(frame)
    files = stream._transformation.spec.source.parts
    assert [part.rows for part in files] == [2_000] * 5
    ids = stream.to_arrow()["id"].to_pylist()
    assert sorted(ids) == list(range(10_000))
    for start in range(0, 10_000, 2_000):
        assert [n for n in ids if start <= n < start + 2_000] == list(range(start, start + 2_000))


class FailOnce(MapFunction):
    def __init__(self, path):
        self.path = path

    def map(self, value):
        if value.id == 3_333 and not os.path.exists(self.path):
            open(self.path, "w").close()
            raise RuntimeError("injected")
        return value


def test_after_a_failure_every_row_was_read_once(new_environment, session, tmp_path):
    options = {
        "millstream.epoch.fixed-records": 500,
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    stream = new_environment(TARGET, 2, options).from_spark(session.range(0, 4_000, 1, 3))
    fails = FailOnce(str(tmp_path / "failed"))
    result = stream.map(fails, Types.ROW_NAMED(["id"], [Types.LONG()])).to_spark()
    assert os.path.exists(fails.path)
    assert sorted(row.id for row in result.collect()) == list(range(4_000))


def test_windows_over_a_frame_are_those_that_spark_computes(new_environment, session):
    frame = session.range(0, 2_000, 1, 4).selectExpr(
        "id", "timestamp_millis(id * 37 % 60000) as at", "id % 3 as key"
    )
    stream = new_environment(TARGET, 2).from_spark(frame, timestamp="at")
    totals = (
        stream.map(lambda row: (row.key, row.at.to_epoch_milli() // 10_000, 1))
        .key_by(lambda each: each[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda a, b: (a[0], a[1], a[2] + b[2]))
        .map(lambda each: each, Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]))
        .to_spark()
    )
    expected = frame.groupBy("key", (frame.at.cast("double") / 10).cast("long").alias("w")).count()
    assert sorted(map(tuple, totals.collect())) == sorted(map(tuple, expected.collect()))


def test_results_that_are_not_declared_or_empty_are_frames_too(new_environment, session):
    made = new_environment(TARGET, 2).from_collection([1, 2, 3]).map(lambda n: Row(n=n)).to_spark(session)
    assert made.columns == ["n"] and sorted(row.n for row in made.collect()) == [1, 2, 3]
    nothing = new_environment(TARGET).from_collection([], Types.LONG()).to_spark()
    assert nothing.dtypes == [("value", "bigint")] and nothing.collect() == []


def test_a_frame_may_be_read_twice_and_from_the_local_executor(new_environment, session):
    frame = session.range(5)
    env = new_environment("local")
    stream = env.from_spark(frame)
    assert sorted(stream.to_arrow()["id"].to_pylist()) == sorted(stream.to_pandas()["id"]) == [0, 1, 2, 3, 4]
    assert session.createDataFrame([], "a int").schema is not None
    assert env.from_spark(session.createDataFrame([], "a int")).to_arrow() == pa.table(
        {"a": pa.array([], pa.int32())}
    )
    assert env.from_spark(frame).to_spark(session).count() == 5


def test_frames_that_no_job_can_read_are_refused(new_environment, session):
    env = new_environment(TARGET)
    streaming = session.readStream.format("rate").load()
    with pytest.raises(JobDefinitionError, match="streaming DataFrame"):
        env.from_spark(streaming)
    with pytest.raises(ConfigurationError, match="no column 'at'"):
        env.from_spark(session.range(1), timestamp="at")


def test_tables_in_memory_go_to_slots_as_they_do_locally(new_environment):
    # Of 150,000 rows all subtasks read some, and 18 MB are not sent but lie in a file.
    table = pa.table({"n": range(150_000), "s": [f"{n % 7:0110d}" for n in range(150_000)]})
    results = {}
    for target in ("local", TARGET):
        stream = new_environment(target, 2).from_arrow(table)
        assert stream.get_parallelism() == 2
        kept = stream.filter(lambda row: row.n % 1_000 == 0)
        results[target] = kept.to_arrow().sort_by("n")
    assert results["local"].equals(results[TARGET])
    assert results[TARGET].equals(table.take(list(range(0, 150_000, 1_000))))
