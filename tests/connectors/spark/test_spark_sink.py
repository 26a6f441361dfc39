"""Spark as a sink: what it writes, jobs that fail, replayed commits, trouble."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from millstream.base.errors import (
    ConfigurationError,
    LostOutputError,
    NotSupportedError,
    SessionLostError,
    SinkError,
)
from millstream.common import Row
from millstream.connectors.spark.ledger import Ledger
from millstream.datastream.connectors.spark import SparkSink
from millstream.graph.launcher import spark_session
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from millstream.types.datatypes import DataTypes

pytestmark = pytest.mark.spark

NAMES = itertools.count()
KIND = DataTypes.ROW(
    [DataTypes.FIELD("number", DataTypes.BIGINT()), DataTypes.FIELD("shop", DataTypes.STRING())]
)


def order(number: int) -> Row:
    return Row(number=number, shop=f"shop {number % 2}")


@pytest.fixture
def session(new_environment):
    return spark_session(new_environment("local[2]")._configuration)


@pytest.fixture
def builder(session, tmp_path):
    return (
        SparkSink.builder()
        .set_session(session)
        .set_staging_directory(str(tmp_path / "staging"))
        .set_row_type(KIND)
    )


class Written:
    """What a function of the program was given, checkpoint by checkpoint."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.ids: list[Any] = []
        self.fails = 0

    def __call__(self, frame: Any, commit: Any) -> None:
        rows = [tuple(row) for row in frame.collect()]
        if self.fails:
            self.fails -= 1
            raise OSError("the disk is full\nof many lines")
        self.rows += rows
        self.ids.append(commit)


def staged(directory: Path) -> list[str]:
    return [str(path) for path in directory.rglob("*.parquet*")]


class Attempt:
    """One attempt of a job with one subtask."""

    def __init__(self, sink: SparkSink, number: int = 0) -> None:
        self.writer = sink.build_writer(WriterContext("job", "sink", 0, 1, number, began_ms=5))
        self.writer.open()
        self._checkpoint = itertools.count(1)

    def stage(self, *numbers: int) -> list[Any]:
        self.writer.write(Rows(list(map(order, numbers))), watermark_ms=0, now_ms=0)
        made = self.writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        return self.writer.number_committables(made, next(self._checkpoint))


def test_directories_and_tables_take_what_jobs_write(new_environment, session, builder, tmp_path):
    numbers = range(200)
    sinks = [
        builder.set_format("orc").set_path(tmp_path / "orc").set_partition_columns("shop").build(),
        SparkSink.builder()
        .set_session(session)
        .set_staging_directory(str(tmp_path / "staging"))
        .set_row_type(KIND)
        .set_format("parquet")
        .set_option("path", str(tmp_path / "table"))
        .set_table("orders")
        .build(),
    ]
    for target in ("local", "local[2]"):
        options = {"millstream.epoch.fixed-records": 100, "execution.checkpointing.interval": "1 ms"}
        environment = new_environment(target, 2, options)
        stream = environment.from_collection([order(number) for number in numbers])
        for sink in sinks:
            stream.sink_to(sink)
        environment.execute()
    try:
        written = session.read.orc(str(tmp_path / "orc"))
        assert sorted(tuple(row) for row in written.collect()) == sorted(
            2 * [(number, f"shop {number % 2}") for number in numbers]
        )
        assert session.table("orders").count() == 2 * len(numbers)
        assert session.table("orders").inputFiles()[0].startswith(f"file://{tmp_path}/table")
    finally:
        session.sql("DROP TABLE orders")
    assert staged(tmp_path / "staging") == []


def test_every_type_comes_as_it_is(new_environment, builder, tmp_path):
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, 600_000)
    kinds = {
        "i": DataTypes.INT(), "d": DataTypes.DOUBLE(), "s": DataTypes.STRING(), "b": DataTypes.BYTES(),
        "t": DataTypes.BOOLEAN(), "dec": DataTypes.DECIMAL(38, 10), "day": DataTypes.DATE(),
        "at": DataTypes.TIMESTAMP(6),
        "li": DataTypes.ARRAY(DataTypes.INT()), "m": DataTypes.MAP(DataTypes.STRING(), DataTypes.BIGINT()),
    }  # fmt: skip
    values = (
        1,
        0.5,
        "é𝄞",
        b"\x00",
        True,
        Decimal("1234567890.0123456789"),
        at.date(),
        at,
        [1, None],
        {"a": 2**40},
    )
    written = Written()
    sink = builder.set_row_type(DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in kinds.items()]))
    environment = new_environment("local", 1)
    rows = [Row(**dict(zip(kinds, each, strict=True))) for each in (values, (None,) * len(values))]
    environment.from_collection(rows).sink_to(sink.set_write(written).build())
    environment.execute()
    assert sorted(written.rows, key=lambda row: row[0] is None) == [values, (None,) * len(values)]


def test_a_job_that_fails_gives_each_row_once_and_ids_that_go_up(builder, tmp_path):
    written = Written()
    with MiniCluster(
        options={"millstream.epoch.fixed-records": 50, "execution.checkpointing.interval": "1 ms"}
    ) as cluster:
        environment = cluster.environment()
        environment.from_collection([order(number) for number in range(300)]).sink_to(
            builder.set_write(written).build()
        )
        for point in (FailurePoint.BEFORE_COMMIT, FailurePoint.AFTER_COMMIT):
            cluster.fail_at(point)
        environment.execute()
    assert sorted(row[0] for row in written.rows) == list(range(300))
    assert len(set(map(str, written.ids))) == len(written.ids) > 2
    assert staged(tmp_path / "staging") == []


def test_commits_that_are_repeated_and_a_function_that_fails(builder, tmp_path):
    written = Written()
    sink = builder.set_write(written).build()
    attempt = Attempt(sink)
    first, second = attempt.stage(1, 2), attempt.stage(3)
    sink.build_committer().commit(first)
    written.fails = 1
    with pytest.raises(SinkError, match="did not write the 1 records of checkpoint 2") as caught:
        sink.build_committer().commit([*first, *second])
    assert "OSError: the disk is full" in caught.value.detail
    sink.build_committer().commit([*first, *second])
    sink.build_committer().commit(second)
    assert written.rows == [(1, "shop 1"), (2, "shop 0"), (3, "shop 1")]
    assert [commit.number for commit in written.ids] == [1, 2]
    assert len({commit.application for commit in written.ids}) == 1
    assert staged(tmp_path / "staging") == []


def test_a_driver_that_is_killed_behind_sparks_write_repeats_the_same_rows_with_the_same_id(
    builder, tmp_path, monkeypatch
):
    def killed(self, owner, order):
        raise KeyboardInterrupt

    written = Written()
    sink = builder.set_write(written).build()
    committables = Attempt(sink).stage(1, 2)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Ledger, "note", killed)
        sink.build_committer().commit(committables)
    sink.build_committer().commit(committables)
    assert written.rows == 2 * [(1, "shop 1"), (2, "shop 0")]
    first, again = written.ids
    assert first == again
    assert staged(tmp_path / "staging") == []


def test_rows_whose_note_and_files_are_gone_are_not_made_up(builder, tmp_path):
    sink = builder.set_write(Written()).build()
    committables = Attempt(sink).stage(1, 2)
    sink.build_committer().commit(committables)
    (note,) = (tmp_path / "staging" / "written").iterdir()
    note.unlink()
    with pytest.raises(LostOutputError):
        sink.build_committer().commit(committables)


def test_what_an_aborted_checkpoint_staged_goes(builder, tmp_path):
    sink = builder.set_write(Written()).build()
    sink.build_committer().abort(Attempt(sink).stage(1))
    assert staged(tmp_path / "staging") == []


@pytest.mark.long
def test_it_keeps_the_contract(session, tmp_path):
    def new_target() -> SinkTarget:
        written = Written()
        staging = tmp_path / f"staging-{next(NAMES)}"
        builder = (
            SparkSink.builder().set_session(session).set_staging_directory(str(staging)).set_row_type(KIND)
        )
        return SinkTarget(
            builder.set_write(written).build(),
            lambda: [row[0] for row in written.rows],
            lambda: staged(staging),
        )

    check_sink(new_target, record=order, key=lambda record: record if type(record) is int else record[0])


class TestMistakes:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda new: SparkSink.builder().build(), "no session"),
            (lambda new: SparkSink.builder().set_session(7), "a int, not a Spark session"),
            (lambda new: SparkSink.builder().set_session(new._session).build(), "no staging directory"),
            (lambda new: new.build(), "0 targets"),
            (lambda new: new.set_table("a").set_path("b").build(), "2 targets"),
            (lambda new: new.set_table("a").set_partition_columns("no").build(), "'no' is no field"),
            (lambda new: new.set_row_type(7), "no row type"),
        ],
    )
    def test_declared(self, builder, change, message):
        with pytest.raises(ConfigurationError, match=message):
            change(builder)

    def test_types_that_spark_has_not(self, builder):
        times = DataTypes.ROW([DataTypes.FIELD("at", DataTypes.ARRAY(DataTypes.TIME()))])
        with pytest.raises(NotSupportedError, match="'at'.*times of day"):
            builder.set_row_type(times)
        with pytest.raises(NotSupportedError, match="s3://bucket/x"):
            builder.set_staging_directory("s3://bucket/x")

    def test_a_table_with_other_columns_fails_the_commit_and_keeps_the_rows(self, session, builder, tmp_path):
        path = tmp_path / "table"
        session.sql(f"CREATE TABLE others (number BIGINT) USING parquet LOCATION '{path}'")
        try:
            sink = builder.set_table("others").build()
            with pytest.raises(SinkError, match="did not write the 2 records of checkpoint 1"):
                sink.build_committer().commit(Attempt(sink).stage(1, 2))
            assert len(staged(tmp_path / "staging")) == 1
            assert session.table("others").count() == 0
        finally:
            session.sql("DROP TABLE others")

    def test_a_session_that_was_stopped(self, builder):
        class Stopped:
            read = catalog = createDataFrame = None

            class _sc:
                _jsc = None

        sink = builder.set_session(Stopped()).set_table("a").build()
        with pytest.raises(SessionLostError):
            sink.check()

    def test_a_ledger_that_is_damaged(self, builder, tmp_path):
        sink = builder.set_write(Written()).build()
        committables = Attempt(sink).stage(1)
        directory = tmp_path / "staging" / "written"
        directory.mkdir()
        (directory / committables[0].owner).write_text("{")
        with pytest.raises(SinkError, match="it cannot be seen which checkpoints were written"):
            sink.build_committer().commit(committables)

    def test_options_are_not_shown(self, builder):
        sink = builder.set_format("jdbc").set_option("password", "s3cret").build()
        assert "s3cret" not in repr(sink)
