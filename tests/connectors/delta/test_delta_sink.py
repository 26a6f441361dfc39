"""Delta tables as sinks: the contract, jobs, two jobs, concurrent writers, trouble."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millstream.base.errors import ConfigurationError, LostOutputError, NotSupportedError, SinkError
from millstream.common import Row, RowKind
from millstream.connectors.delta.committer import _application
from millstream.connectors.delta.table import Conflict, Table
from millstream.datastream.connectors.delta import DeltaSink
from millstream.spi.batch import Columns, Rows
from millstream.spi.sink import WriterContext
from millstream.testing import MiniCluster, SinkTarget, check_sink
from millstream.types.datatypes import DataTypes

NAMES = itertools.count()
KIND = DataTypes.ROW(
    [DataTypes.FIELD("number", DataTypes.BIGINT()), DataTypes.FIELD("shop", DataTypes.STRING())]
)
SCHEMA = pa.schema([("number", pa.int64()), ("shop", pa.string())])


def order(number: int) -> Row:
    return Row(number=number, shop=f"shop {number % 2}")


def rows_of(path: Any) -> list[tuple[Any, ...]]:
    if not os.path.isdir(os.path.join(path, "_delta_log")):
        return []
    table = DeltaTable(str(path)).to_pyarrow_table()
    return [tuple(row.values()) for row in table.select(sorted(table.column_names)).to_pylist()]


class Reader:
    """Reads a table again when its log has changed."""

    def __init__(self, path: Any) -> None:
        self._path = path
        self._seen: list[str] = []
        self._rows: list[Any] = []

    def __call__(self) -> list[Any]:
        log = self._path / "_delta_log"
        names = sorted(os.listdir(log)) if log.is_dir() else []
        if names != self._seen:
            self._seen, self._rows = names, rows_of(self._path)
        return self._rows


def hidden(path: Any) -> list[str]:
    return [str(file) for file in Path(path).rglob(".part-*")]


def builder(path: Any, *partitions: str) -> Any:
    new = DeltaSink.builder().set_table(str(path)).set_row_type(KIND)
    return new.set_partition_columns(*partitions)


def context(number: int = 0, job: str = "job") -> WriterContext:
    return WriterContext(job, "sink", 0, 1, number, began_ms=5)


def stage(sink: DeltaSink, *values: Any, checkpoint: int = 1, number: int = 0, job: str = "job") -> list[Any]:
    """Return what one subtask has for a checkpoint."""
    writer = sink.build_writer(context(number, job))
    writer.open()
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
    found = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    found = writer.number_committables(found, checkpoint)
    writer.close()
    return found


def write(sink: DeltaSink, *values: Any, job: str = "job") -> None:
    sink.check()
    sink.build_committer().commit(stage(sink, *values, job=job))


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "parallelism"), [((), (1, 1)), (("shop",), (2, 3))])
def test_sink_keeps_the_contract(tmp_path, partitions, parallelism):
    def new_target() -> SinkTarget:
        path = tmp_path / f"t{next(NAMES)}"
        sink = builder(path, *partitions).build()
        return SinkTarget(sink, Reader(path), lambda: hidden(path))

    def key(record: Any) -> Any:
        return record if type(record) is tuple else (record.number, record.shop)

    check_sink(new_target, record=order, key=key, parallelisms=(parallelism,))


def test_checkpoint_is_one_commit_of_the_table(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    before = DeltaTable(str(tmp_path / "t")).version()
    committables = stage(sink, order(1)) + stage(sink, order(2))
    assert rows_of(tmp_path / "t") == []
    sink.build_committer().commit(committables)
    assert DeltaTable(str(tmp_path / "t")).version() == before + 1
    assert sorted(rows_of(tmp_path / "t")) == [(1, "shop 1"), (2, "shop 0")]
    sink.build_committer().commit(committables)
    sink.build_committer().recover(committables)
    assert DeltaTable(str(tmp_path / "t")).version() == before + 1


def test_commit_is_repeated_though_files_were_merged_and_removed(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    first, second = stage(sink, order(1)), stage(sink, order(2), checkpoint=2)
    sink.build_committer().commit(first)
    sink.build_committer().commit(second)
    table = DeltaTable(str(tmp_path / "t"))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    sink.build_committer().recover(first + second)
    assert sorted(rows_of(tmp_path / "t")) == [(1, "shop 1"), (2, "shop 0")]


def test_vacuum_leaves_alone_what_is_staged(tmp_path):
    sink = builder(tmp_path / "t", "shop").build()
    sink.check()
    committables = stage(sink, order(1))
    DeltaTable(str(tmp_path / "t")).vacuum(0, enforce_retention_duration=False, dry_run=False)
    sink.build_committer().commit(committables)
    assert rows_of(tmp_path / "t") == [(1, "shop 1")]


def test_drivers_that_commit_the_same_at_once_add_it_once(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    for checkpoint in range(1, 6):
        committables = stage(sink, order(checkpoint), checkpoint=checkpoint)
        threads = [threading.Thread(target=sink.build_committer().commit, args=[committables]) for _ in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(number for number, _ in rows_of(tmp_path / "t")) == [1, 2, 3, 4, 5]


def test_zombie_adds_nothing(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    committables = stage(sink, order(1))
    application = _application(committables[0])
    zombie = Table(str(tmp_path / "t"))
    assert zombie.committed(application) == -1
    sink.build_committer().commit(committables)
    with pytest.raises(Conflict):
        zombie.add(committables, application, 1)
    assert rows_of(tmp_path / "t") == [(1, "shop 1")]


def test_jobs_and_other_writers_share_a_table(tmp_path):
    path = tmp_path / "t"
    sink = builder(path).build()
    sink.check()

    def job(name: str, start: int) -> None:
        for checkpoint in range(1, 9):
            committables = stage(sink, order(start + checkpoint), checkpoint=checkpoint, job=name)
            sink.build_committer().commit(committables)

    threads = [threading.Thread(target=job, args=[f"job{n}", 100 * n]) for n in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5):
        write_deltalake(path, pa.table({"number": [number], "shop": ["x"]}, SCHEMA), mode="append")
    for thread in threads:
        thread.join()
    wanted = [*range(5), *(100 * n + each for n in range(3) for each in range(1, 9))]
    assert sorted(number for number, _ in rows_of(path)) == sorted(wanted)


@pytest.mark.slow
def test_two_jobs_write_to_one_table(tmp_path):
    path = tmp_path / "t"
    for start in (0, 10):
        with MiniCluster(parallelism=2) as cluster:
            environment = cluster.environment()
            stream = environment.from_collection([order(n) for n in range(start, start + 10)])
            stream.sink_to(builder(path, "shop").build())
            environment.execute()
    assert sorted(number for number, _ in rows_of(path)) == list(range(20))
    assert sorted(os.listdir(path)) == ["_delta_log", "shop=shop%200", "shop=shop%201"]
    assert hidden(path) == []


def test_duckdb_reads_the_files(tmp_path):
    write(builder(tmp_path / "t", "shop").build(), order(1), order(2))
    files = DeltaTable(str(tmp_path / "t")).file_uris()
    with duckdb.connect() as connection:
        assert connection.execute("select sum(number) from read_parquet(?)", [files]).fetchall() == [(3,)]


def test_leftovers_of_dead_attempts_are_removed(tmp_path):
    path = tmp_path / "t"
    sink = builder(path).build()
    sink.check()
    dead = sink.build_writer(context())
    dead.open()
    dead.write(Rows([order(1)]), watermark_ms=0, now_ms=0)
    dead.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    other = stage(sink, order(2), job="other")
    assert len(hidden(path)) == 2
    stage(sink, number=1)
    assert hidden(path) == [other[0].staged_path]


def test_aborted_writer_and_committer_leave_nothing(tmp_path):
    path = tmp_path / "t"
    sink = builder(path, "shop").build()
    sink.check()
    writer = sink.build_writer(context())
    writer.open()
    writer.write(
        Columns(pa.RecordBatch.from_pydict({"number": [1], "shop": ["a"]}, SCHEMA)), watermark_ms=0, now_ms=0
    )
    assert len(hidden(path)) == 1
    writer.abort()
    writer.close()
    assert hidden(path) == []
    sink.build_committer().abort(stage(sink, order(1)))
    assert hidden(path) == []


def test_staged_file_that_is_gone_is_lost_output(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    committables = stage(sink, order(1))
    os.unlink(committables[0].staged_path)
    with pytest.raises(LostOutputError, match="is gone before it was committed"):
        sink.build_committer().commit(committables)


def test_table_that_is_missing_is_told_at_the_start(tmp_path):
    with pytest.raises(SinkError, match="there is no Delta table") as raised:
        DeltaSink.builder().set_table(str(tmp_path / "t")).build().check()
    assert "set_row_type" in str(raised.value.hint)


def test_row_type_comes_from_the_table(tmp_path):
    path = tmp_path / "t"
    DeltaTable.create(path, SCHEMA, partition_by=["shop"])
    sink = DeltaSink.builder().set_table(f"file://{path}").build()
    write(sink, order(1), (2, "b"), {"shop": "c", "number": 3})
    assert sorted(rows_of(path)) == [(1, "shop 1"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("schema", "partitions", "seen"),
    [
        (
            pa.schema([("number", pa.string()), ("shop", pa.string())]),
            [],
            "column 'number' is string, and long in",
        ),
        (pa.schema([("number", pa.int64())]), [], "the table has no column 'shop'"),
        (
            pa.schema([*SCHEMA, pa.field("day", pa.date32(), False)]),
            [],
            "column 'day' may not be null, and the records have no field",
        ),
        (SCHEMA, ["shop"], r"the table is partitioned by \['shop'\], the sink by \[\]"),
        (
            pa.schema([SCHEMA.field(0), pa.field("shop", pa.string(), False)]),
            [],
            "column 'shop' .* may not be null",
        ),
    ],
)
def test_table_that_does_not_fit_is_told_at_the_start(tmp_path, schema, partitions, seen):
    DeltaTable.create(tmp_path / "t", schema, partition_by=partitions)
    with pytest.raises(SinkError, match=seen):
        builder(tmp_path / "t").build().check()


def test_column_that_the_records_lack_is_null(tmp_path):
    DeltaTable.create(tmp_path / "t", pa.schema([*SCHEMA, ("day", pa.date32())]))
    write(builder(tmp_path / "t").build(), order(1))
    assert rows_of(tmp_path / "t") == [(None, 1, "shop 1")]


def test_schema_that_changes_before_the_commit(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    committables = stage(sink, order(1))
    wider = pa.table({"number": [9], "shop": ["x"], "more": [1.5]})
    write_deltalake(tmp_path / "t", wider, mode="append", schema_mode="merge")
    sink.build_committer().commit(committables)
    assert sorted(rows_of(tmp_path / "t"), key=str) == [(1.5, 9, "x"), (None, 1, "shop 1")]
    committables = stage(sink, order(2), checkpoint=2)
    other = pa.table({"number": ["a"], "shop": ["x"]})
    write_deltalake(tmp_path / "t", other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SinkError, match="column 'number' is string, and long in the records"):
        sink.build_committer().commit(committables)
    assert rows_of(tmp_path / "t") == [("a", "x")]


def test_constraints_and_generated_columns_are_refused(tmp_path):
    DeltaTable.create(tmp_path / "t", SCHEMA)
    DeltaTable(str(tmp_path / "t")).alter.add_constraint({"positive": "number > 0"})
    with pytest.raises(NotSupportedError, match=r"has delta\.constraints\.positive, which is not written"):
        builder(tmp_path / "t").build().check()
    generated = pa.field("shop", pa.string(), metadata={"delta.generationExpression": "'x'"})
    DeltaTable.create(tmp_path / "u", pa.schema([SCHEMA.field(0), generated]))
    with pytest.raises(NotSupportedError, match="generationExpression"):
        builder(tmp_path / "u").build().check()


def test_directory_that_cannot_be_written_and_a_damaged_log(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot be written"):
        builder(tmp_path / "file" / "t").build().check()
    write(builder(tmp_path / "t").build(), order(1))
    for entry in (tmp_path / "t" / "_delta_log").glob("*.json"):
        entry.write_text("{")
    with pytest.raises(SinkError, match="cannot be read") as raised:
        builder(tmp_path / "t").build().check()
    assert "\n" not in (raised.value.detail or "")


def test_changes_cannot_be_appended(tmp_path):
    sink = builder(tmp_path / "t").build()
    sink.check()
    with pytest.raises(SinkError, match="of the kind -D"):
        stage(sink, Row.of_kind(RowKind.DELETE, number=1, shop="a"))


def test_what_the_builder_refuses(tmp_path):
    with pytest.raises(ConfigurationError, match="has no table"):
        DeltaSink.builder().build()
    with pytest.raises(NotSupportedError, match="'gs://bucket/t' is not written"):
        DeltaSink.builder().set_table("gs://bucket/t")
    in_s3 = DeltaSink.builder().set_table("s3://KEY:SECRET@bucket/t").build()
    assert "SECRET" not in repr(in_s3)
    with pytest.raises(ConfigurationError, match="which is no row type"):
        DeltaSink.builder().set_row_type(DataTypes.INT())
    with pytest.raises(ConfigurationError, match="application id"):
        DeltaSink.builder().set_application_id("")
    with pytest.raises(ConfigurationError, match="'day' is no field"):
        builder(tmp_path, "day").build()
    with pytest.raises(ConfigurationError, match="a column that it is not partitioned by"):
        builder(tmp_path, "number", "shop").build()
    for kind, seen in (
        (DataTypes.DOUBLE(), "not partitioned by column 'b' of the type DOUBLE"),
        (DataTypes.TIME(), "a type that Delta tables do not have"),
    ):
        fields = [DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", kind)]
        with pytest.raises(ConfigurationError, match=seen):
            builder(tmp_path, "b").set_row_type(DataTypes.ROW(fields)).build()
