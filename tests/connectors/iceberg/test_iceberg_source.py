"""Iceberg tables as sources: snapshots, those that come, rows that were deleted, columns that were changed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import manifest as manifests
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType

from lake_reading import Follower, read
from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.common import Duration, Row, WatermarkStrategy
from millstream.datastream.connectors.iceberg import IcebergSink, IcebergSource
from millstream.spi.source import PlanRequest
from millstream.testing import FailurePoint, MiniCluster, check_source

SCHEMA = Schema(
    NestedField(1, "number", LongType()),
    NestedField(2, "shop", StringType()),
    NestedField(3, "day", DateType()),
)
BY_DAY = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="day"))


def orders(first: int, last: int) -> pa.Table:
    numbers = list(range(first, last))
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "shop": pa.array([None if n % 7 == 0 else f"shop {n % 3}" for n in numbers], pa.string()),
            "day": [dt.date(2024, 1, 1 + number % 2) for number in numbers],
        }
    )


class Lake:
    def __init__(self, path: Path) -> None:
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{path}/catalog.db",
            "warehouse": f"file://{path}/lake",
        }
        self.catalog = load_catalog("lake", **self.properties)
        self.catalog.create_namespace("db")

    def create(self, name: str = "t", schema: Any = SCHEMA, **options: Any) -> Any:
        return self.catalog.create_table(f"db.{name}", schema, **options)

    def table(self, name: str = "t") -> Any:
        return self.catalog.load_table(f"db.{name}")

    def source(self, name: str = "t") -> Any:
        return IcebergSource.builder().set_catalog("lake", self.properties).set_table(f"db.{name}")

    def rows(self, condition: str = "true", name: str = "t", **scan: Any) -> list[Any]:
        found = self.table(name).scan(**scan).to_arrow()
        with duckdb.connect() as database:
            database.register("found", found)
            query = f"select number, shop, day from found where {condition}"
            return sorted(database.execute(query).fetchall(), key=lambda row: row[0])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def filled(lake: Lake) -> Lake:
    table = lake.create(partition_spec=BY_DAY)
    table.append(orders(0, 20))
    table.append(orders(20, 40))
    return lake


def told(rows: list[Any]) -> list[Any]:
    return sorted(((row.number, row.shop, row.day) for row in rows), key=lambda row: row[0])


@pytest.mark.parametrize("columns", [False, True])
def test_newest_snapshot_and_older_ones(filled, columns):
    assert told(read(filled.source().build(), columns=columns)) == filled.rows()
    first, second = [each.snapshot_id for each in filled.table().snapshots()]
    for snapshot_id in (first, second):
        older = filled.source().set_snapshot(snapshot_id).build()
        assert told(read(older, columns=columns)) == filled.rows(snapshot_id=snapshot_id)


def test_snapshot_by_time_and_by_name(filled):
    table = filled.table()
    first, second = table.history()
    for entry in (first, second):
        moment = dt.datetime.fromtimestamp(entry.timestamp_ms / 1000, dt.UTC)
        source = filled.source().set_as_of(moment).build()
        assert told(read(source)) == filled.rows(snapshot_id=entry.snapshot_id)
    with pytest.raises(SourceError, match="no snapshot as old as 2001"):
        read(filled.source().set_as_of(dt.datetime(2001, 1, 1, tzinfo=dt.UTC)).build())
    table.manage_snapshots().create_tag(first.snapshot_id, "audited").commit()
    named = filled.source().set_ref("audited").build()
    assert told(read(named)) == filled.rows(snapshot_id=first.snapshot_id)
    with pytest.raises(SourceError, match="no branch or tag 'nope'"):
        read(filled.source().set_ref("nope").build())


FILTERS: list[Any] = [
    ([("number", ">", 30)], "number > 30"),
    ([("number", "<=", 3), ("shop", "is null")], "number <= 3 and shop is null"),
    ([("shop", "!=", "shop 1")], "shop <> 'shop 1'"),
    ([("shop", "in", ["shop 1", "shop 2"])], "shop in ('shop 1', 'shop 2')"),
    ([("shop", "not in", ["shop 1"])], "shop not in ('shop 1')"),
    ([("shop", "is not null")], "shop is not null"),
    (
        [("day", "=", dt.date(2024, 1, 2)), ("number", ">=", 21)],
        "day = date '2024-01-02' and number >= 21",
    ),
    ([("number", ">", 100)], "false"),
]


@pytest.mark.parametrize("columns", [False, True])
def test_filters(filled, columns):
    for conditions, sql in FILTERS:
        source = filled.source().set_filter(*conditions).build()
        assert told(read(source, columns=columns)) == filled.rows(sql)


def test_files_without_rows_that_fit_are_not_opened(filled):
    source = filled.source().set_filter(("number", ">=", 20), ("day", "=", dt.date(2024, 1, 2))).build()
    plan = source.build_enumerator(1, None).plan(PlanRequest(1, 100, 0))
    assert len(plan.ranges[0]) == 1  # of two snapshots with two partitions each


def test_some_columns_and_filters_on_others(filled):
    found = read(filled.source().set_columns("day", "number").set_filter(("shop", "=", "shop 1")).build())
    assert list(found[0].as_dict()) == ["day", "number"]
    assert sorted((row.number, row.day) for row in found) == [
        (number, day) for number, _, day in filled.rows("shop = 'shop 1'")
    ]


def test_large_files_are_read_in_parts(lake):
    table = lake.create(properties={"write.parquet.row-group-limit": "500"})
    table.append(orders(0, 5000))
    source = lake.source().set_split_size(4_000).build()
    plan = source.build_enumerator(2, None).plan(PlanRequest(2, 10_000, 0))
    assert sum(map(len, plan.ranges.values())) > 3
    assert told(read(source, budget=1_500)) == lake.rows()
    check_source(source, key=lambda row: row.number, parallelisms=(3,), budgets=(2_000,))


@pytest.mark.parametrize("filtered", [False, pytest.param(True, marks=pytest.mark.long)])
def test_source_keeps_the_contract(filled, filtered):
    builder = filled.source()
    if filtered:
        builder.set_filter(("number", "!=", 3))
    rows = filled.rows("number <> 3" if filtered else "true")
    expected = [Row(number=n, shop=s, day=d) for n, s, d in rows]
    check_source(
        builder.build(),
        expected=expected,
        key=lambda row: (row.number, row.shop, row.day),
        parallelisms=(2,),
        budgets=(1, 30),
    )


@pytest.mark.long
def test_followed_source_keeps_the_contract(filled):
    follows = filled.source().monitor_continuously(Duration.of_millis(1)).build()
    expected = [Row(number=n, shop=s, day=d) for n, s, d in filled.rows()]
    check_source(
        follows, expected=expected, key=lambda row: (row.number, row.shop, row.day), budgets=(7, 100)
    )


def test_empty_table_gives_nothing_and_is_followed(lake):
    table = lake.create()
    check_source(lake.source().build(), expected=[])
    follower = Follower(lake.source().monitor_continuously(Duration.of_millis(5)).build())
    assert follower.read() == []
    table.append(orders(0, 3))
    assert [row.number for row in follower.read()] == [0, 1, 2]


def test_range_of_snapshots(filled):
    table = filled.table()
    table.append(orders(40, 45))
    table.append(orders(45, 50))
    first, second, third, _ = [each.snapshot_id for each in table.snapshots()]
    builder = filled.source().set_starting_snapshot(first)
    assert sorted(row.number for row in read(builder.build())) == list(range(20, 50))
    ended = filled.source().set_starting_snapshot(second).set_ending_snapshot(third).build()
    assert sorted(row.number for row in read(ended)) == list(range(40, 45))


def following(lake: Lake) -> Any:
    return lake.source().monitor_continuously(Duration.of_millis(10))


def test_followed_table_gives_each_snapshot_once(filled):
    follower = Follower(following(filled).build())
    assert sorted(row.number for row in follower.read()) == list(range(40))
    assert follower.read() == []
    table = filled.table()
    table.append(orders(40, 45))
    table.append(orders(45, 50))
    found = [row.number for row in follower.read()]
    assert sorted(found[:5]) == [40, 41, 42, 43, 44]
    assert sorted(found[5:]) == [45, 46, 47, 48, 49]
    kept = follower.enumerator.snapshot()
    table.append(orders(50, 53))
    assert sorted(row.number for row in Follower(follower.source, kept).read()) == [50, 51, 52]


def test_snapshot_that_deletes_fails_a_follower_or_is_left_out(filled):
    strict = Follower(following(filled).build())
    lax = Follower(following(filled).set_skip_changes().build())
    strict.read(), lax.read()
    table = filled.table()
    table.delete("number = 5")
    table.append(orders(40, 42))
    with pytest.raises(SourceError, match="snapshot .* changes or deletes rows"):
        strict.read()
    assert sorted(row.number for row in lax.read()) == [40, 41]


def test_snapshots_that_were_expired_are_missed(filled):
    follower = Follower(following(filled).build())
    follower.read()
    kept = follower.enumerator.snapshot()
    table = filled.table()
    for number in (40, 41, 42):
        table.append(orders(number, number + 1))
    gone = [each.snapshot_id for each in table.snapshots()][:3]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    with pytest.raises(SourceError, match="is none of those that led to snapshot"):
        Follower(follower.source, kept).read()
    with pytest.raises(SourceError, match="has no snapshot"):
        read(filled.source().set_snapshot(gone[0]).build())


def add_deletes(
    table: Any, path: Path, content: Any, columns: dict[str, Any], equality_ids: list[int] | None = None
) -> None:
    """Commit a file of deletes, which pyiceberg writes by itself as little as it writes manifests of them."""
    written = pa.table(columns)
    pq.write_table(written, path)
    file = manifests.DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=manifests.FileFormat.PARQUET,
        partition=manifests.Record(),
        record_count=written.num_rows,
        file_size_in_bytes=path.stat().st_size,
        spec_id=table.spec().spec_id,
        equality_ids=equality_ids,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests.ManifestWriterV2, "content", lambda self: manifests.ManifestContent.DELETES)
        meta = manifests.ManifestWriterV2._meta.fget
        patch.setattr(
            manifests.ManifestWriterV2, "_meta", property(lambda self: {**meta(self), "content": "deletes"})
        )
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append._operation = Operation.DELETE
            append.append_data_file(file)


@pytest.mark.parametrize("columns", [False, True])
def test_rows_that_position_deletes_remove_do_not_appear(lake, tmp_path, columns):
    table = lake.create()
    table.append(orders(0, 10))
    table.append(orders(10, 12))
    (first, _) = sorted(task.file.file_path for task in table.scan("number < 10").plan_files()), None
    deletes = {"file_path": [first[0]] * 3, "pos": pa.array([2, 3, 9], pa.int64())}
    add_deletes(table, tmp_path / "deletes.parquet", manifests.DataFileContent.POSITION_DELETES, deletes)
    expected = [0, 1, 4, 5, 6, 7, 8, 10, 11]
    assert sorted(lake.table().scan().to_arrow()["number"].to_pylist()) == expected
    assert sorted(row.number for row in read(lake.source().build(), columns=columns, budget=2)) == expected
    chosen = lake.source().set_filter(("number", ">", 2)).build()
    assert sorted(row.number for row in read(chosen, columns=columns, budget=1)) == expected[2:]
    check_source(lake.source().build(), key=lambda row: row.number, parallelisms=(2,), budgets=(3,))


def test_rows_deleted_by_equality_are_refused(lake, tmp_path):
    table = lake.create()
    table.append(orders(0, 10))
    add_deletes(
        table,
        tmp_path / "deletes.parquet",
        manifests.DataFileContent.EQUALITY_DELETES,
        {"number": pa.array([3], pa.int64())},
        [1],
    )
    with pytest.raises(NotSupportedError, match="has rows deleted by equality, which is not read"):
        read(lake.source().build())


def test_columns_go_by_field_id(lake):
    schema = Schema(NestedField(1, "number", IntegerType()), NestedField(2, "shop", StringType()))
    table = lake.create(schema=schema)
    table.append(pa.table({"number": pa.array([1], pa.int32()), "shop": ["a"]}))
    follower = Follower(following(lake).build())
    assert [row.as_dict() for row in follower.read()] == [{"number": 1, "shop": "a"}]
    with table.update_schema() as update:
        update.rename_column("shop", "store")
    with table.update_schema() as update:
        update.add_column("shop", StringType())
    table.append(pa.table({"number": pa.array([2], pa.int32()), "store": ["b"], "shop": ["new"]}))
    assert [row.as_dict() for row in follower.read()] == [{"number": 2, "shop": "b"}]
    anew = sorted(read(lake.source().build()), key=lambda row: row.number)
    assert [row.as_dict() for row in anew] == [
        {"number": 1, "store": "a", "shop": None},
        {"number": 2, "store": "b", "shop": "new"},
    ]
    chosen = read(lake.source().set_filter(("shop", "=", "new")).build())
    assert [row.number for row in chosen] == [2]
    first = table.snapshots()[0].snapshot_id
    old = read(lake.source().set_snapshot(first).set_filter(("shop", "=", "a")).build())
    assert [row.as_dict() for row in old] == [{"number": 1, "shop": "a"}]
    with table.update_schema() as update:
        update.update_column("number", LongType())
        update.delete_column("store")
    assert {type(row.number) for row in read(lake.source().build())} == {int}
    kept = follower.enumerator.snapshot()
    table.append(pa.table({"number": pa.array([2**40], pa.int64()), "shop": ["x"]}))
    with pytest.raises(SourceError, match="does not fit the table as it was when the source began"):
        Follower(follower.source, kept).read()


def test_what_is_not_there(filled, tmp_path):
    with pytest.raises(SourceError, match=r"there is no Iceberg table 'db\.none'"):
        read(filled.source("none").build())
    with pytest.raises(ConfigurationError, match="has no column 'nope'"):
        read(filled.source().set_columns("nope").build())
    source = filled.source().build()
    plan = source.build_enumerator(1, None).plan(PlanRequest(1, 100, 0))
    Path(plan.ranges[0][0].split.file.path.removeprefix("file://")).unlink()
    reader = source.build_reader(0, 1)
    reader.open()
    with pytest.raises(SourceError, match="data file .* is gone"):
        reader.read(plan.ranges[0][0], lambda batch: True)


def test_what_the_catalog_is_reached_by_is_never_shown(tmp_path):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/SECRET/no.db",
        "warehouse": f"file://{tmp_path}",
    }
    source = IcebergSource.builder().set_catalog("lake", properties).set_table("db.t").build()
    with pytest.raises(SourceError, match="cannot be read") as raised:
        source.build_enumerator(1, None)
    assert "SECRET" not in repr(source) + str(raised.value) + str(raised.value.detail)
    assert raised.value.__cause__ is None


def test_what_the_builder_refuses(lake):
    with pytest.raises(ConfigurationError, match="has no catalog"):
        IcebergSource.builder().build()
    with pytest.raises(ConfigurationError, match="has no table"):
        IcebergSource.builder().set_catalog("a", {}).build()
    with pytest.raises(ConfigurationError, match="has no namespace"):
        IcebergSource.builder().set_table("orders")
    with pytest.raises(ConfigurationError, match="exclude each other"):
        lake.source().set_snapshot(1).set_as_of(dt.datetime.now()).build()


@pytest.mark.slow
@pytest.mark.parametrize("point", FailurePoint)
def test_from_table_to_table_in_a_job_that_fails(filled, point):
    filled.create("copy")
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 5}) as cluster:
        cluster.fail_at(point, 2)
        environment = cluster.environment()
        watermarks = WatermarkStrategy.no_watermarks()
        stream = environment.from_source(filled.source().build(), watermarks, "orders")
        sink = IcebergSink.builder().set_catalog("lake", filled.properties).set_table("db.copy").build()
        stream.sink_to(sink)
        environment.execute()
    assert filled.rows(name="copy") == filled.rows()
