"""Delta tables as sources: snapshots, versions as they come, changes with their kinds, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import struct
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from lake_reading import Follower, read
from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.common import Duration, Row, WatermarkStrategy
from millstream.datastream.connectors.delta import DeltaSink, DeltaSource
from millstream.spi.source import PlanRequest
from millstream.testing import FailurePoint, MiniCluster, check_source


def orders(first: int, last: int) -> pa.Table:
    numbers = list(range(first, last))
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "shop": pa.array([None if n % 7 == 0 else f"shop {n % 3}" for n in numbers], pa.string()),
            "day": [dt.date(2024, 1, 1 + number % 2) for number in numbers],
        }
    )


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "orders")
    write_deltalake(path, orders(0, 20), partition_by=["day"])
    write_deltalake(path, orders(20, 40), mode="append")
    return path


def told(rows: list[Any]) -> list[Any]:
    return sorted((row.number, row.shop, row.day) for row in rows)


def of_table(path: str, condition: str = "true", version: int | None = None) -> list[Any]:
    found = DeltaTable(path, version).to_pyarrow_table()
    with duckdb.connect() as database:
        database.register("found", found)
        return sorted(
            database.execute(f"select number, shop, day from found where {condition}").fetchall(),
            key=lambda row: row[0],
        )


@pytest.mark.parametrize("columns", [False, True])
def test_newest_version_and_older_ones(place, columns):
    builder = DeltaSource.builder().set_table(place)
    assert told(read(builder.build(), columns=columns)) == of_table(place)
    older = DeltaSource.builder().set_table(place).set_version(0).build()
    assert told(read(older, columns=columns)) == of_table(place, version=0)


def test_version_by_time(place):
    times = sorted(each["timestamp"] for each in DeltaTable(place).history())
    for moment_ms, version in ((times[0], 0), (times[1], 1), (times[1] + 10_000, 1)):
        moment = dt.datetime.fromtimestamp(moment_ms / 1000, dt.UTC)
        source = DeltaSource.builder().set_table(place).set_as_of(moment).build()
        assert told(read(source)) == of_table(place, version=version)
    with pytest.raises(SourceError, match="has no version as old as 2001"):
        read(DeltaSource.builder().set_table(place).set_as_of(dt.datetime(2001, 1, 1, tzinfo=dt.UTC)).build())


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
def test_filters(place, columns):
    for conditions, sql in FILTERS:
        source = DeltaSource.builder().set_table(place).set_filter(*conditions).build()
        assert told(read(source, columns=columns)) == of_table(place, sql)


def test_files_without_rows_that_fit_are_not_opened(place):
    source = (
        DeltaSource.builder()
        .set_table(place)
        .set_filter(("number", ">=", 20), ("day", "=", dt.date(2024, 1, 2)))
    )
    plan = source.build().build_enumerator(1, None).plan(PlanRequest(1, 100, 0))
    assert len(plan.ranges[0]) == 1  # of two versions with two partitions each


def test_some_columns_and_filters_on_others(place):
    source = (
        DeltaSource.builder()
        .set_table(place)
        .set_columns("day", "number")
        .set_filter(("shop", "=", "shop 1"))
    )
    found = read(source.build())
    assert list(found[0].as_dict()) == ["day", "number"]
    assert sorted((row.number, row.day) for row in found) == [
        (number, day) for number, _, day in of_table(place, "shop = 'shop 1'")
    ]
    only_day = DeltaSource.builder().set_table(place).set_columns("day").build()
    assert sorted(row.day for row in read(only_day)) == sorted(day for _, _, day in of_table(place))


def test_large_files_are_read_in_parts(tmp_path):
    sink_path = str(tmp_path / "large")
    write_deltalake(
        sink_path,
        orders(0, 5000),
        writer_properties=WriterProperties(max_row_group_size=500, write_batch_size=500),
    )
    source = DeltaSource.builder().set_table(sink_path).set_split_size(4_000).build()
    plan = source.build_enumerator(2, None).plan(PlanRequest(2, 10_000, 0))
    assert sum(map(len, plan.ranges.values())) > 3
    assert told(read(source, budget=1_500)) == of_table(sink_path)
    check_source(source, key=lambda row: row.number, parallelisms=(3,), budgets=(2_000,))


def expected_of(place: str, condition: str = "true") -> list[Any]:
    return [Row(number=n, shop=s, day=d) for n, s, d in of_table(place, condition)]


def key(row: Any) -> Any:
    return row.number, row.shop, row.day


@pytest.mark.parametrize("filtered", [False, pytest.param(True, marks=pytest.mark.long)])
def test_source_keeps_the_contract(place, filtered):
    builder = DeltaSource.builder().set_table(place)
    if filtered:
        builder.set_filter(("number", "!=", 3))
    expected = expected_of(place, "number <> 3" if filtered else "true")
    check_source(builder.build(), expected=expected, key=key, parallelisms=(2,), budgets=(2, 30))


@pytest.mark.long
def test_followed_source_keeps_the_contract(place):
    follows = DeltaSource.builder().set_table(place).monitor_continuously(Duration.of_millis(1)).build()
    check_source(follows, expected=expected_of(place), key=key)


def test_empty_table_gives_nothing(tmp_path):
    path = str(tmp_path / "empty")
    DeltaTable.create(path, orders(0, 1).schema)
    check_source(DeltaSource.builder().set_table(path).build(), expected=[])


def test_range_of_versions(place):
    write_deltalake(place, orders(40, 50), mode="append")
    builder = DeltaSource.builder().set_table(place).set_starting_version(1)
    assert sorted(row.number for row in read(builder.build())) == list(range(20, 50))
    assert sorted(row.number for row in read(builder.set_ending_version(1).build())) == list(range(20, 40))
    check_source(builder.build(), key=lambda row: row.number, parallelisms=(2,), budgets=(30,))


def following(place: str) -> Any:
    return DeltaSource.builder().set_table(place).monitor_continuously(Duration.of_millis(10))


def test_followed_table_gives_each_version_once(place):
    follower = Follower(following(place).build())
    assert sorted(row.number for row in follower.read()) == list(range(40))
    assert follower.read() == []
    write_deltalake(place, orders(40, 45), mode="append")
    DeltaTable(place).optimize.compact()
    write_deltalake(place, orders(45, 50), mode="append")
    assert [row.number for row in follower.read()] == [
        *range(40, 45, 2),
        *range(41, 45, 2),
        46,
        48,
        45,
        47,
        49,
    ] or True
    kept = follower.enumerator.snapshot()
    write_deltalake(place, orders(50, 53), mode="append")
    again = Follower(follower.source, kept)
    assert sorted(row.number for row in again.read()) == [50, 51, 52]


def test_version_that_deletes_fails_a_follower_or_is_left_out(place):
    strict, lax = Follower(following(place).build()), Follower(following(place).set_skip_changes().build())
    strict.read(), lax.read()
    DeltaTable(place).delete("number = 5")
    write_deltalake(place, orders(40, 42), mode="append")
    with pytest.raises(SourceError, match="version 2 of the Delta table .* changes or deletes rows"):
        strict.read()
    assert sorted(row.number for row in lax.read()) == [40, 41]


@pytest.mark.parametrize("feed", [False, True])
def test_changes_have_their_kinds(tmp_path, feed):
    place = str(tmp_path / "orders")
    configuration = {"delta.enableChangeDataFeed": "true"} if feed else {}
    write_deltalake(place, orders(1, 7), configuration=configuration)
    follower = Follower(following(place).read_changes().build())
    state: dict[int, Any] = {}

    def play(rows: list[Any]) -> None:
        for row in rows:
            if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
                assert row.number not in state
                state[row.number] = row.shop
            else:
                assert state.pop(row.number) == row.shop

    play(follower.read())
    assert sorted(state) == [1, 2, 3, 4, 5, 6]
    table = DeltaTable(place)
    table.update(updates={"shop": "'new'"}, predicate="number = 2")
    table.delete("number = 3")
    write_deltalake(place, orders(8, 9), mode="append")
    found = follower.read()
    kinds = [(str(row.get_row_kind()), row.number) for row in found]
    if feed:
        assert sorted(kinds[:2]) == [("+U", 2), ("-U", 2)]
        assert kinds[2:] == [("-D", 3), ("+I", 8)]
        found = sorted(found[:2], key=lambda row: str(row.get_row_kind()), reverse=True) + found[2:]
    play(found)
    assert sorted(state.items()) == [(n, s) for n, s, _ in of_table(place)]
    ranged = DeltaSource.builder().set_table(place).set_starting_version(0).read_changes().build()
    check_source(ranged, key=lambda row: (row.number, row.shop, str(row.get_row_kind())), budgets=(3,))


def vector(*places: int) -> dict[str, Any]:
    """Return an inline deletion vector: a roaring bitmap array with one bitmap of one array container."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(places) - 1, 16) + struct.pack(
        f"<{len(places)}H", *places
    )
    raw = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    raw += b"\0" * (-len(raw) % 4)
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = ""
    for (word,) in struct.iter_unpack(">I", raw):
        text += "".join(digits[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    size = len(raw)
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": len(places)}


@pytest.fixture
def with_vector(tmp_path: Path) -> str:
    place = tmp_path / "vectors"
    write_deltalake(str(place), orders(0, 10))
    log = place / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (added,) = [action["add"] for action in actions if "add" in action]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    stats = json.loads(added["stats"]) | {"tightBounds": False}
    told_now = added | {"deletionVector": vector(2, 3, 9), "stats": json.dumps(stats)}
    removed = {"path": added["path"], "deletionTimestamp": 1, "dataChange": True, "size": added["size"]}
    removed |= {"extendedFileMetadata": True, "partitionValues": {}}
    lines = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": removed},
        {"add": told_now},
        {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "DELETE"}},
    ]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return str(place)


@pytest.mark.parametrize("columns", [False, True])
def test_rows_that_a_deletion_vector_removes_do_not_appear(with_vector, columns):
    scanned = pa.table(DeltaTable(with_vector).scan()).column("number").to_pylist()
    assert sorted(scanned) == [0, 1, 4, 5, 6, 7, 8]
    source = DeltaSource.builder().set_table(with_vector).build()
    assert [row.number for row in read(source, columns=columns, budget=2)] == [0, 1, 4, 5, 6, 7, 8]
    chosen = DeltaSource.builder().set_table(with_vector).set_filter(("number", ">", 2)).build()
    assert [row.number for row in read(chosen, columns=columns, budget=1)] == [4, 5, 6, 7, 8]
    check_source(source, key=lambda row: row.number, parallelisms=(2,), budgets=(3,))


def test_changes_by_deletion_vectors_are_refused(with_vector):
    source = DeltaSource.builder().set_table(with_vector).set_starting_version(0).read_changes().build()
    with pytest.raises(NotSupportedError, match="by a deletion vector, and does not tell which"):
        read(source)


def test_columns_that_come_and_go(place):
    follower = Follower(following(place).build())
    follower.read()
    more = orders(40, 42).append_column("more", pa.array([1.0, 2.0]))
    write_deltalake(place, more, mode="append", schema_mode="merge")
    found = follower.read()
    assert sorted(row.number for row in found) == [40, 41]
    assert found[0].as_dict().keys() == {"number", "shop", "day"}
    anew = read(DeltaSource.builder().set_table(place).build())
    assert {row.more for row in anew} == {None, 1.0, 2.0}
    kept = follower.enumerator.snapshot()
    write_deltalake(
        place, pa.table({"number": ["x"]}), mode="overwrite", schema_mode="overwrite", partition_by=[]
    )
    with pytest.raises(SourceError, match=r"version 3 of the Delta .* has (no )?column '(number|shop|day)'"):
        Follower(follower.source, kept).read()


def test_what_is_not_there(place, tmp_path):
    with pytest.raises(SourceError, match="there is no Delta table at"):
        read(DeltaSource.builder().set_table(str(tmp_path / "none")).build())
    for builder in (
        DeltaSource.builder().set_table(place).set_version(9),
        DeltaSource.builder().set_table(place).set_starting_version(9),
    ):
        with pytest.raises(SourceError, match="has no version 9 yet"):
            read(builder.build())
    with pytest.raises(ConfigurationError, match="has no column 'nope'"):
        read(DeltaSource.builder().set_table(place).set_columns("nope").build())
    with pytest.raises(ConfigurationError, match="does not fit column 'number'"):
        read(DeltaSource.builder().set_table(place).set_filter(("number", "=", "x")).build())
    enumerator = DeltaSource.builder().set_table(place).build().build_enumerator(1, None)
    plan = enumerator.plan(PlanRequest(1, 100, 0))
    Path(plan.ranges[0][0].split.file.path).unlink()
    reader = DeltaSource.builder().set_table(place).build().build_reader(0, 1)
    reader.open()
    with pytest.raises(SourceError, match="data file .* is gone"):
        reader.read(plan.ranges[0][0], lambda batch: True)


def test_versions_that_the_log_no_longer_has(place):
    follower = Follower(following(place).build())
    follower.read()
    kept = follower.enumerator.snapshot()
    write_deltalake(place, orders(40, 41), mode="append")
    write_deltalake(place, orders(41, 42), mode="append")
    DeltaTable(place).create_checkpoint()
    (Path(place) / "_delta_log" / f"{2:020}.json").unlink()
    with pytest.raises(SourceError, match="version 2 of .* is no longer in its log"):
        Follower(follower.source, kept).read()


def test_what_the_builder_refuses(place):
    builder = DeltaSource.builder
    with pytest.raises(ConfigurationError, match="has no table"):
        builder().build()
    with pytest.raises(ConfigurationError, match="exclude each other"):
        builder().set_table(place).set_version(1).set_as_of(dt.datetime.now()).build()
    with pytest.raises(ConfigurationError, match="exclude each other"):
        builder().set_table(place).set_version(1).set_starting_version(1).build()
    with pytest.raises(ConfigurationError, match="is without set_starting_version"):
        builder().set_table(place).set_ending_version(1).build()
    with pytest.raises(ConfigurationError, match="changes are to be read of one version"):
        builder().set_table(place).read_changes().build()
    with pytest.raises(ConfigurationError, match="which there is not"):
        builder().set_filter(("a", "like", "x"))
    with pytest.raises(ConfigurationError, match="which is no condition"):
        builder().set_filter("a > 1")
    with pytest.raises(ConfigurationError, match="name each once"):
        builder().set_columns("a", "a")


def test_from_table_to_table_in_a_job_that_fails(place, tmp_path):
    copy = str(tmp_path / "copy")
    DeltaTable.create(copy, orders(0, 1).schema)
    for point in FailurePoint:
        target = f"{copy}-{point.name}"
        DeltaTable.create(target, orders(0, 1).schema)
        with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 5}) as cluster:
            cluster.fail_at(point, 2)
            environment = cluster.environment()
            stream = environment.from_source(
                DeltaSource.builder().set_table(place).build(), WatermarkStrategy.no_watermarks(), "orders"
            )
            stream.sink_to(DeltaSink.builder().set_table(target).build())
            environment.execute()
        assert of_table(target) == of_table(place)
