"""Iceberg tables as sinks, in a catalog on SQLite: the contract, concurrent commits, values, trouble."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import sqlite3
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from millstream.base.errors import ConfigurationError, LostOutputError, SinkError
from millstream.common import Row, RowKind
from millstream.connectors.iceberg.table import Conflict
from millstream.datastream.connectors.iceberg import IcebergSink
from millstream.formats.row_columns import RowColumns
from millstream.spi.batch import Columns, Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from millstream.types.datatypes import DataTypes as T

NAMES = itertools.count()
KIND = T.ROW([T.FIELD("number", T.BIGINT()), T.FIELD("shop", T.STRING())])
SCHEMA = pa.schema([("number", pa.int64()), ("shop", pa.string())])


def order(number: int) -> Row:
    return Row(number=number, shop=f"shop {number % 2}")


class Lake:
    """A catalog in a directory of its own."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.database = path / "catalog.db"
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.database}",
            "warehouse": f"file://{path}/lake",
        }
        self._seen: Any = None
        self._rows: list[Any] = []

    def catalog(self) -> Any:
        return load_catalog("lake", **self.properties)

    def create(self, schema: Any, **options: Any) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("db")
        catalog.create_table("db.t", schema, **options)

    def sink(self, kind: Any = KIND) -> IcebergSink:
        new = IcebergSink.builder().set_catalog("lake", self.properties).set_table("db.t")
        return (new if kind is None else new.set_row_type(kind)).build()

    def rows(self) -> list[Any]:
        """Return what readers see; read again when the catalog names another version."""
        if not self.database.exists():
            return []
        with sqlite3.connect(self.database) as database:
            try:
                version = database.execute("select metadata_location from iceberg_tables").fetchall()
            except sqlite3.OperationalError:
                return []
        if version and version != self._seen:
            self._seen = version
            found = self.catalog().load_table("db.t").scan().to_arrow().to_pylist()
            self._rows = [tuple(row.values()) for row in found]
        return self._rows

    def hidden(self) -> list[str]:
        return [str(file) for file in self.path.rglob(".part-*")]


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


def stage(
    sink: IcebergSink, *values: Any, checkpoint: int = 1, number: int = 0, job: str = "job"
) -> list[Any]:
    writer = sink.build_writer(WriterContext(job, "sink", 0, 1, number, began_ms=5))
    writer.open()
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
    found = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    found = writer.number_committables(found, checkpoint)
    writer.close()
    return found


def key(record: Any) -> Any:
    return record if type(record) is tuple else (record.number, record.shop)


@pytest.mark.long
def test_sink_keeps_the_contract(tmp_path):
    def new_target() -> SinkTarget:
        lake = Lake(tmp_path / f"t{next(NAMES)}")
        return SinkTarget(lake.sink(), lake.rows, lake.hidden)

    check_sink(new_target, record=order, key=key, parallelisms=((2, 1),))


@pytest.mark.slow
@pytest.mark.parametrize("point", FailurePoint)
def test_job_that_fails_anywhere_loses_and_doubles_nothing(lake, point):
    orders = [order(number) for number in range(12)]
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 4}) as cluster:
        cluster.fail_at(point, 2)
        environment = cluster.environment()
        environment.from_collection(orders).rebalance().sink_to(lake.sink())
        environment.execute()
    assert sorted(lake.rows()) == sorted(map(key, orders))
    assert lake.hidden() == []


def test_checkpoint_is_one_snapshot_and_repeated_commits_change_nothing(lake):
    sink = lake.sink()
    sink.check()
    first = stage(sink, order(1)) + stage(sink, order(2))
    second = stage(sink, order(3), checkpoint=2)
    assert lake.rows() == []
    sink.build_committer().commit(first)
    sink.build_committer().commit(second)
    sink.build_committer().recover(first)
    sink.build_committer().commit(first + second)
    assert sorted(lake.rows()) == [(1, "shop 1"), (2, "shop 0"), (3, "shop 1")]
    assert len(lake.catalog().load_table("db.t").snapshots()) == 2


def test_zombie_adds_nothing(lake):
    sink = lake.sink()
    sink.check()
    sink.build_committer().commit(stage(sink, order(1)))
    committables = stage(sink, order(2), checkpoint=2)
    zombie = sink._catalog.load()
    sink.build_committer().commit(committables)
    with pytest.raises(Conflict):
        zombie.add(committables, committables[0].owner, committables[0].order)
    assert sorted(lake.rows()) == [(1, "shop 1"), (2, "shop 0")]


def test_drivers_at_once_and_two_jobs_double_nothing(lake):
    sink = lake.sink()
    sink.check()
    for checkpoint in range(1, 3):
        staged = [
            stage(sink, order(checkpoint + 10 * n), checkpoint=checkpoint, job=f"job{n}") for n in (0, 1)
        ]
        threads = [threading.Thread(target=sink.build_committer().commit, args=[each]) for each in staged * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(number for number, _ in lake.rows()) == [1, 2, 11, 12]


def test_leftovers_of_dead_attempts_are_removed(lake):
    sink = lake.sink()
    sink.check()
    stage(sink, order(1))
    other = stage(sink, order(2), job="other")
    stage(sink, number=1)
    assert lake.hidden() == [other[0].staged_path]
    sink.build_committer().abort(other)
    assert lake.hidden() == []


FIELDS: list[tuple[str, Any, Any, Any]] = [
    ("text", T.STRING(), "Zürich 🚂", "Zürich 🚂"),
    ("flag", T.BOOLEAN(), True, True),
    ("tiny", T.TINYINT(), -128, -128),
    ("whole", T.INT(), -(2**31), -(2**31)),
    ("big", T.BIGINT(), 2**63 - 1, 2**63 - 1),
    ("half", T.FLOAT(), 0.5, 0.5),
    ("double", T.DOUBLE(), 1e300, 1e300),
    ("money", T.DECIMAL(20, 2), Decimal("123456789012345678.90"), Decimal("123456789012345678.90")),
    ("day", T.DATE(), dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    ("clock", T.TIME(), dt.time(5, 15), dt.time(5, 15)),
    ("local", T.TIMESTAMP(), dt.datetime(2013, 1, 31, 5, 15, 0, 1), dt.datetime(2013, 1, 31, 5, 15, 0, 1)),
    (
        "moment",
        T.TIMESTAMP_LTZ(),
        dt.datetime(2013, 1, 31, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2013, 1, 31, 3, tzinfo=dt.UTC),
    ),
    ("blob", T.BYTES(), b"\0\xff", b"\0\xff"),
    ("list", T.ARRAY(T.STRING()), ["a", None], ["a", None]),
    ("map", T.MAP(T.STRING(), T.INT()), {"a": 1}, [("a", 1)]),
    ("row", T.ROW([T.FIELD("x", T.INT())]), Row(x=1), {"x": 1}),
]
WIDE = T.ROW([T.FIELD(name, kind) for name, kind, _, _ in FIELDS])


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("declared", [True, False])
def test_values_come_out_as_they_went_in(lake, form, declared):
    rows = [
        Row(**{name: value for name, _, value, _ in FIELDS}),
        Row(**{name: None for name, _, _, _ in FIELDS}),
    ]
    if not declared:
        lake.create(RowColumns(WIDE).schema)
    sink = lake.sink(WIDE if declared else None)
    sink.check()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    batch: Any = Rows(rows) if form == "rows" else Columns(RowColumns(WIDE).batch(rows))
    writer.write(batch, watermark_ms=0, now_ms=0)
    sink.build_committer().commit(writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True))
    writer.close()
    assert lake.rows() == [tuple(read for _, _, _, read in FIELDS), (None,) * len(FIELDS)]


@pytest.mark.parametrize(
    ("schema", "seen"),
    [
        (
            pa.schema([("number", pa.string()), ("shop", pa.string())]),
            "column 'number' is string, and long in",
        ),
        (pa.schema([("number", pa.int64())]), "the table has no column 'shop'"),
        (
            pa.schema([*SCHEMA, pa.field("day", pa.date32(), False)]),
            "column 'day' may not be null, and the records",
        ),
        (
            pa.schema([SCHEMA.field(0), pa.field("shop", pa.string(), False)]),
            "column 'shop' of .* may not be null",
        ),
    ],
)
def test_table_that_does_not_fit_is_told_at_the_start(lake, schema, seen):
    lake.create(schema)
    with pytest.raises(SinkError, match=seen):
        lake.sink().check()


def test_schema_that_changes_before_the_commit(lake):
    sink = lake.sink()
    sink.check()
    committables = stage(sink, order(1))
    with lake.catalog().load_table("db.t").update_schema() as update:
        update.union_by_name(pa.schema([("more", pa.float64())]))
    sink.build_committer().commit(committables)
    assert lake.rows() == [(1, "shop 1", None)]
    committables = stage(sink, order(2), checkpoint=2)
    with lake.catalog().load_table("db.t").update_schema() as update:
        update.delete_column("shop")
    with pytest.raises(SinkError, match="the table has no column 'shop'"):
        sink.build_committer().commit(committables)


def test_columns_that_are_renamed_and_made_anew_keep_their_values(lake):
    sink = lake.sink()
    sink.check()
    sink.build_committer().commit(stage(sink, order(1)))
    table = lake.catalog().load_table("db.t")
    with table.update_schema() as update:
        update.rename_column("shop", "store")
    with table.update_schema() as update:
        update.add_column("shop", StringType())
    assert table.scan().to_arrow().to_pylist() == [{"number": 1, "store": "shop 1", "shop": None}]
    sink.build_committer().commit(stage(sink, order(2), checkpoint=2))
    found = sorted(
        lake.catalog().load_table("db.t").scan().to_arrow().to_pylist(), key=lambda row: row["number"]
    )
    assert found[1] == {"number": 2, "store": None, "shop": "shop 0"}


def test_trouble_is_told(lake):
    with pytest.raises(SinkError, match=r"no Iceberg table 'db\.t' in catalog 'lake'"):
        lake.sink(None).check()
    sink = lake.sink()
    sink.check()
    committables = stage(sink, order(1))
    os.unlink(committables[0].staged_path)
    with pytest.raises(LostOutputError, match="is gone before it was committed"):
        sink.build_committer().commit(committables)
    with pytest.raises(SinkError, match="of the kind -D"):
        stage(sink, Row.of_kind(RowKind.DELETE, number=1, shop="a"))


def test_what_the_catalog_is_reached_by_is_never_shown(tmp_path):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/SECRET/no.db",
        "warehouse": f"file://{tmp_path}",
    }
    sink = IcebergSink.builder().set_catalog("lake", properties).set_table("db.t").build()
    with pytest.raises(SinkError, match="cannot be read") as raised:
        sink.check()
    assert "SECRET" not in repr(sink) + str(raised.value) + repr(raised.value) + str(raised.value.detail)
    assert raised.value.__cause__ is None


def test_what_the_builder_refuses():
    with pytest.raises(ConfigurationError, match="has no catalog"):
        IcebergSink.builder().build()
    with pytest.raises(ConfigurationError, match="has no table"):
        IcebergSink.builder().set_catalog("a", {}).build()
    with pytest.raises(ConfigurationError, match="has no namespace"):
        IcebergSink.builder().set_table("orders")
    with pytest.raises(ConfigurationError, match="which is no row type"):
        IcebergSink.builder().set_row_type(T.INT())


MOMENTS = T.ROW(
    [
        T.FIELD("number", T.BIGINT()),
        T.FIELD("shop", T.STRING()),
        T.FIELD("day", T.DATE()),
        T.FIELD("at", T.TIMESTAMP()),
        T.FIELD("moment", T.TIMESTAMP_LTZ()),
        T.FIELD("money", T.DECIMAL(9, 2)),
        T.FIELD("blob", T.BYTES()),
        T.FIELD("tiny", T.TINYINT()),
    ]
)
TABLE = IcebergSchema(
    NestedField(1, "number", LongType()),
    NestedField(2, "shop", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "moment", TimestamptzType()),
    NestedField(6, "money", DecimalType(9, 2)),
    NestedField(7, "blob", BinaryType()),
    NestedField(8, "tiny", IntegerType()),
)


def wide(number: int) -> Row:
    if number % 11 == 0:
        return Row(**{field.name: number if field.name == "number" else None for field in MOMENTS})
    return Row(
        number=number,
        shop=("", "north/æ b", "south", "=")[number % 4],
        day=dt.date(1969, 12, 30) + dt.timedelta(days=number * 40),
        at=dt.datetime(1969, 12, 31, 23) + dt.timedelta(hours=number * 7),
        moment=dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number * 300),
        money=Decimal(number) / 4 - 3,
        blob=bytes([number % 3, 255]),
        tiny=number % 5 - 2,
    )


def by(source_id: int, transform: Any, field_id: int = 1000) -> PartitionField:
    return PartitionField(source_id=source_id, field_id=field_id, transform=transform, name=f"p{field_id}")


SPECS = {
    "identity of a text": [by(2, IdentityTransform())],
    "identity of a date": [by(3, IdentityTransform())],
    "identity of a moment": [by(5, IdentityTransform())],
    "identity of a decimal": [by(6, IdentityTransform())],
    "identity of a number": [by(8, IdentityTransform())],
    "bucket of a number": [by(1, BucketTransform(4))],
    "bucket of a text": [by(2, BucketTransform(3))],
    "bucket of bytes and a date": [by(7, BucketTransform(2)), by(3, BucketTransform(2), 1001)],
    "truncated text": [by(2, TruncateTransform(2))],
    "truncated number and decimal": [by(1, TruncateTransform(10)), by(6, TruncateTransform(50), 1001)],
    "year and bucket": [by(3, YearTransform()), by(1, BucketTransform(2), 1001)],
    "month": [by(3, MonthTransform())],
    "day": [by(4, DayTransform())],
    "hour": [by(5, HourTransform())],
    "void and month": [by(1, VoidTransform()), by(5, MonthTransform(), 1001)],
}


@pytest.mark.parametrize("spec", SPECS)
def test_partitions_are_what_each_rows_values_say(lake, spec):
    fields = SPECS[spec]
    lake.create(TABLE, partition_spec=PartitionSpec(*fields))
    rows = [wide(number) for number in range(40)]
    sink = lake.sink(MOMENTS)
    sink.check()
    found = stage_all(sink, [Rows(rows[:15]), Columns(RowColumns(MOMENTS).batch(rows[15:]))])
    sink.build_committer().commit(found)
    table = lake.catalog().load_table("db.t")
    assert len(table.snapshots()) == 1
    for task in table.scan().plan_files():
        inside = pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist()
        assert inside
        for place, field in enumerate(fields):
            source = TABLE.find_field(field.source_id)
            transform = field.transform.transform(source.field_type)
            for row in inside:
                value = internal(source.field_type, row[source.name])
                assert transform(value) == task.file.partition[place], (row, task.file.partition)
    scanned = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["number"])
    assert scanned == RowColumns(MOMENTS).batch(rows).to_pylist()
    chosen = table.scan("number >= 10 and number < 20 and day is not null").to_arrow()["number"].to_pylist()
    assert sorted(chosen) == [10, 12, 13, 14, 15, 16, 17, 18, 19]


def internal(kind: Any, value: Any) -> Any:
    """Return a value as transforms of single values take it."""
    if isinstance(kind, DateType) and value is not None:
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(kind, (TimestampType, TimestamptzType)) and value is not None:
        zone = dt.UTC if value.tzinfo else None
        return (value - dt.datetime(1970, 1, 1, tzinfo=zone)) // dt.timedelta(microseconds=1)
    return value


def stage_all(sink: IcebergSink, batches: list[Any], checkpoint: int = 1) -> list[Any]:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
    writer.open()
    for batch in batches:
        writer.write(batch, watermark_ms=0, now_ms=0)
    found = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    writer.close()
    return writer.number_committables(found, checkpoint)


def test_table_that_is_partitioned_anew_while_a_job_writes(lake):
    lake.create(TABLE)
    sink = lake.sink(MOMENTS)
    before = stage_all(sink, [Rows([wide(1), wide(2)])])
    with lake.catalog().load_table("db.t").update_spec() as update:
        update.add_field("number", BucketTransform(4), "by_number")
    sink.build_committer().commit(before)
    after = stage_all(sink, [Rows([wide(number) for number in range(3, 9)])], checkpoint=2)
    assert len(after) > 1
    with lake.catalog().load_table("db.t").update_spec() as update:
        update.remove_field("by_number")
    mixed = stage_all(sink, [Rows([wide(9)])], checkpoint=2)
    sink.build_committer().commit(after + mixed)
    sink.build_committer().commit(before + after + mixed)
    table = lake.catalog().load_table("db.t")
    assert sorted(table.scan().to_arrow()["number"].to_pylist()) == list(range(1, 10))
    specs = {task.file.spec_id for task in table.scan().plan_files()}
    assert specs == {0, 1}  # without the field the spec is the first again
    assert table.scan("number = 5").to_arrow()["number"].to_pylist() == [5]


@pytest.mark.long
def test_partitioned_sink_keeps_the_contract(tmp_path):
    def new_target() -> SinkTarget:
        lake = Lake(tmp_path / f"p{next(NAMES)}")
        schema = IcebergSchema(NestedField(1, "number", LongType()), NestedField(2, "shop", StringType()))
        lake.create(
            schema, partition_spec=PartitionSpec(by(1, BucketTransform(2)), by(2, IdentityTransform(), 1001))
        )
        return SinkTarget(lake.sink(), lake.rows, lake.hidden)

    check_sink(new_target, record=order, key=key, parallelisms=((2, 1),))
