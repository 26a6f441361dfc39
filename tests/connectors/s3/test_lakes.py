"""Delta and Iceberg tables in S3: written and read under the options of all other files, no commit lost."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType

from lake_reading import Follower, read
from millstream.base.errors import SinkError, SourceError
from millstream.common import Configuration, Duration, Row
from millstream.connectors.lake.storage import deltalake_options, pyiceberg_properties
from millstream.datastream.connectors.base import Rows, WriterContext
from millstream.datastream.connectors.delta import DeltaSink, DeltaSource
from millstream.datastream.connectors.iceberg import IcebergSink, IcebergSource
from millstream.files.file_systems import FileSystemSettings, using
from millstream.table import DataTypes
from millstream.testing import SinkTarget, check_sink, check_source
from servers.ports import free_port

KIND = DataTypes.ROW(
    [DataTypes.FIELD("number", DataTypes.BIGINT()), DataTypes.FIELD("shop", DataTypes.STRING())]
)


def order(number: int) -> Row:
    return Row(number=number, shop=f"shop {number % 2}")


class Delta:
    def __init__(self, place: Any, path: Any) -> None:
        self.uri = f"{place.uri}/t"
        self.place = place

    def sink(self) -> Any:
        return (
            DeltaSink.builder().set_table(self.uri).set_row_type(KIND).set_partition_columns("shop").build()
        )

    def source(self) -> Any:
        return DeltaSource.builder().set_table(self.uri)

    def rows(self) -> list[Any]:
        """Return what readers see; the log tells first whether there is a table."""
        if not self.place.server.keys(f"{self.place.key}/t/_delta_log/"):
            return []
        table = DeltaTable(self.uri, storage_options=deltalake_options(self.uri))
        return [
            tuple(row.values()) for row in table.to_pyarrow_table().select(["number", "shop"]).to_pylist()
        ]

    def commits(self) -> int:
        return len(self.place.server.keys(f"{self.place.key}/t/_delta_log/")) - 1


class Iceberg:
    def __init__(self, place: Any, path: Any) -> None:
        self.place = place
        self._seen: Any = None
        self._rows: list[Any] = []
        path.mkdir(parents=True, exist_ok=True)
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{path}/catalog-{place.key}.db",
            "warehouse": f"{place.uri}/wh",
        }
        catalog = self.catalog()
        catalog.create_namespace("db")
        schema = Schema(NestedField(1, "number", LongType()), NestedField(2, "shop", StringType()))
        spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "number_bucket"))
        catalog.create_table("db.t", schema, partition_spec=spec)

    def catalog(self) -> Any:
        return load_catalog("lake", **pyiceberg_properties(self.properties))

    def sink(self) -> Any:
        return (
            IcebergSink.builder()
            .set_catalog("lake", self.properties)
            .set_table("db.t")
            .set_row_type(KIND)
            .build()
        )

    def source(self) -> Any:
        return IcebergSource.builder().set_catalog("lake", self.properties).set_table("db.t")

    def rows(self) -> list[Any]:
        """Return what readers see; read again when the catalog names another version."""
        with sqlite3.connect(self.properties["uri"].removeprefix("sqlite:///")) as database:
            version = database.execute("select metadata_location from iceberg_tables").fetchall()
        if version != self._seen:
            self._seen, self._rows = version, self._scan()
        return self._rows

    def _scan(self) -> list[Any]:
        found = self.catalog().load_table("db.t").scan().to_arrow().to_pylist()
        return [tuple(row.values()) for row in found]

    def commits(self) -> int:
        return len(self.catalog().load_table("db.t").snapshots())


@pytest.fixture(params=[Delta, Iceberg])
def house(request: Any, prefix: Any, tmp_path: Any) -> Any:
    return request.param(prefix, tmp_path)


def stage(sink: Any, *numbers: int, checkpoint: int = 1, job: str = "job") -> list[Any]:
    writer = sink.build_writer(WriterContext(job, "sink", 0, 1, 0, began_ms=5))
    writer.open()
    writer.write(Rows([order(number) for number in numbers]), watermark_ms=0, now_ms=0)
    found = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    writer.close()
    return writer.number_committables(found, checkpoint)


def key(record: Any) -> Any:
    return record if type(record) is tuple else (record.number, record.shop)


def test_a_checkpoint_is_one_commit_and_a_source_reads_it(house):
    sink = house.sink()
    sink.check()
    sink.check()
    first, second = stage(sink, 1, 2, 3), stage(sink, 4, 5, checkpoint=2)
    assert house.rows() == [] and len(house.place.uploads()) == len(first + second)
    sink.build_committer().commit(first)
    follower = Follower(house.source().monitor_continuously(Duration.of_millis(5)).build())
    assert sorted(map(key, follower.read())) == [(1, "shop 1"), (2, "shop 0"), (3, "shop 1")]
    for _ in range(2):
        sink.build_committer().commit(first + second)
    assert house.commits() == 2 and house.place.uploads() == []
    assert sorted(map(key, follower.read())) == [(4, "shop 0"), (5, "shop 1")]
    assert sorted(house.rows()) == sorted(map(key, map(order, range(1, 6))))
    chosen = house.source().set_columns("number").set_filter(("shop", "=", "shop 1")).build()
    assert sorted(row.number for row in read(chosen, columns=True)) == [1, 3, 5]


def test_jobs_that_commit_at_once_lose_no_commit(house):
    sink = house.sink()
    sink.check()
    staged = [stage(sink, number, checkpoint=1, job=f"job{number}") for number in range(5)]
    failed: list[BaseException] = []

    def commit(files: list[Any]) -> None:
        try:
            house.sink().build_committer().commit(files)
        except BaseException as error:
            failed.append(error)

    settings = FileSystemSettings.of(Configuration.from_dict(house.place.server.options), {})

    def run(files: list[Any]) -> None:
        with using(settings):
            commit(files)

    threads = [threading.Thread(target=run, args=[files]) for files in staged * 2]  # each by two drivers
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert Counter(number for number, _ in house.rows()) == dict.fromkeys(range(5), 1)
    assert house.commits() == 5


@pytest.mark.long
def test_sink_in_s3_keeps_the_contract(house, new_prefix, s3_server, monkeypatch, tmp_path):
    for name, value in s3_server.environment.items():  # the suite's jobs have no options of ours
        monkeypatch.setenv(name, value)
    kind = type(house)

    def target() -> SinkTarget:
        house = kind(new_prefix(), tmp_path)
        return SinkTarget(house.sink(), house.rows, house.place.uploads)

    check_sink(target, record=order, key=key, parallelisms=((2, 1),))


@pytest.mark.long
def test_source_in_s3_keeps_the_contract(house, s3_server, monkeypatch):
    for name, value in s3_server.environment.items():  # the suite's jobs have no options of ours
        monkeypatch.setenv(name, value)
    sink = house.sink()
    sink.check()
    sink.build_committer().commit(stage(sink, *range(20)) + stage(sink, *range(20, 30), checkpoint=2))
    check_source(house.source().build(), expected=map(order, range(30)), key=key, budgets=(7, 50))


@pytest.mark.long
def test_servers_and_credentials_that_are_wrong_are_named_and_never_shown(house):
    house.sink().check()
    sink = house.sink()
    staged = stage(sink, 1)
    quick = {"s3.connection.timeout": "1 s", "s3.socket.timeout": "1 s", "s3.retry.max-num-retries": 0}
    for change in (
        {"s3.secret-key": "not the secret, which is long"},
        {"s3.endpoint": f"http://127.0.0.1:{free_port()}"},
    ):
        options = {**house.place.server.options, **quick, **change}
        with using(FileSystemSettings.of(Configuration.from_dict(options), {})):
            with pytest.raises(SourceError) as unread:
                house.source().build().build_enumerator(1, None)
            with pytest.raises(SinkError) as unwritten:
                house.sink().build_committer().commit(staged)
        for error in (unread.value, unwritten.value):
            shown = f"{error}{error.detail}{error.hint}{error.__cause__}"
            assert house.place.server.secret_key not in shown and "not the secret" not in shown
    sink.build_committer().commit(staged)
    assert house.rows() == [(1, "shop 1")]
