"""Cassandra as a source, a real node."""

from __future__ import annotations

import datetime
import decimal
import threading
import time
import uuid
from typing import Any

import pytest

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.common import Instant, Row, WatermarkStrategy
from millstream.datastream.connectors.cassandra import (
    CassandraSource,
    ClusterBuilder,
    ConsistencyLevel,
    Patience,
)
from millstream.spi.source import PlanRequest
from millstream.testing import FailurePoint, MiniCluster, check_source
from servers.cassandra import CassandraServer

pytestmark = pytest.mark.long

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=90)
EVENTS = "CREATE TABLE {} (shop text, day int, id int, cents int, PRIMARY KEY ((shop, day), id))"


def builder(server: CassandraServer, password: str = "cassandra") -> ClusterBuilder:
    return ClusterBuilder("127.0.0.1", port=server.port, username="cassandra", password=password)


def of(server: CassandraServer, patience: Patience = LONG) -> Any:
    return CassandraSource.builder().set_cluster_builder(builder(server)).set_patience(patience)


def read(source: CassandraSource, parallelism: int = 2) -> list[Any]:
    with MiniCluster(parallelism=parallelism) as cluster:
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
        return cluster.collect(stream)


@pytest.mark.timeout(1_200)
class TestContract:
    @pytest.mark.parametrize("count", [0, 1, 60])
    def test_source_keeps_the_contract(self, cassandra, new_table, fill, count):
        table = new_table()
        fill(table, "id, word", *[(number, f"w{number}") for number in range(count)])
        source = of(cassandra).set_table(table).set_number_of_splits(5).set_fetch_size(3).build()
        rows = [Row(id=number, word=f"w{number}") for number in range(count)]
        check_source(source, expected=rows, parallelisms=(1, 3), budgets=(2, 50))

    def test_partitions_of_many_rows_keep_the_contract(self, cassandra, new_table, fill):
        table = new_table(EVENTS)
        rows = [(f"shop {n % 3}", n % 2, n, n * 10) for n in range(60)]
        fill(table, "shop, day, id, cents", *rows)
        source = of(cassandra).set_query(f"SELECT shop, day, id, cents FROM {table};")
        expected = [Row(shop=shop, day=day, id=number, cents=cents) for shop, day, number, cents in rows]
        check_source(source.set_fetch_size(4).build(), expected=expected, parallelisms=(2,), budgets=(3, 100))

    @pytest.mark.parametrize("point", list(FailurePoint))
    def test_job_that_fails(self, cassandra, new_table, fill, point):
        table = new_table()
        fill(table, "id, word", *[(number, "w") for number in range(200)])
        source = of(cassandra).set_table(table).set_number_of_splits(6).build()
        with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 7}) as cluster:
            cluster.fail_at(point, 3)
            stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
            rows = cluster.collect(stream)

        assert sorted(row.id for row in rows) == list(range(200))


class TestReading:
    @pytest.mark.parametrize(("splits", "fetched"), [(1, 1), (1, 40), (7, 3), (64, 1_000)])
    def test_each_row_once_whatever_the_splits_and_pages(self, cassandra, new_table, fill, splits, fetched):
        table = new_table()
        fill(table, "id, word", *[(number, str(number)) for number in range(40)])
        source = of(cassandra).set_table(table).set_number_of_splits(splits).set_fetch_size(fetched).build()

        assert sorted(row.id for row in read(source)) == list(range(40))

    def test_conditions_and_columns_of_a_query(self, cassandra, new_table, fill):
        table = new_table(EVENTS)
        fill(table, "shop, day, id, cents", *[("a", 1, n, n * 10) for n in range(10)])
        query = f"SELECT cents AS price, id FROM {table} WHERE cents >= 50 ALLOW FILTERING"
        rows = read(of(cassandra).set_query(query).set_number_of_splits(3).build())
        assert sorted(rows, key=lambda row: row.id) == [Row(price=n * 10, id=n) for n in range(5, 10)]

        newest = f"SELECT shop, id FROM {table} PER PARTITION LIMIT 2"
        assert sorted(row.id for row in read(of(cassandra).set_query(newest).build())) == [0, 1]

        shops = read(of(cassandra).set_query(f"SELECT DISTINCT shop, day FROM {table}").build())
        assert shops == [Row(shop="a", day=1)]

    def test_columns_of_a_table_and_names_with_capitals(self, cassandra, new_table):
        table = new_table('CREATE TABLE {} ("Shop" text PRIMARY KEY, total int, other int)')
        cassandra.execute(f"INSERT INTO {table} (\"Shop\", total) VALUES ('north', 3)")
        level = of(cassandra).set_table(table).set_consistency_level(ConsistencyLevel.ALL)

        assert read(level.build()) == [Row(Shop="north", other=None, total=3)]
        assert read(level.set_columns("total", "Shop").build()) == [Row(total=3, Shop="north")]

    def test_rows_without_end_that_are_deleted_are_passed_over(self, cassandra, new_table, fill):
        table = new_table(EVENTS)
        fill(table, "shop, day, id, cents", *[("a", 1, n, 1) for n in range(300)])
        cassandra.execute(f"DELETE FROM {table} WHERE shop = 'a' AND day = 1 AND id < 299")
        query = f"SELECT id FROM {table} WHERE cents = 1 ALLOW FILTERING"

        assert read(of(cassandra).set_query(query).set_fetch_size(1).build()) == [Row(id=299)]

    def test_new_table_has_a_split_for_each_subtask(self, cassandra, new_table):
        enumerator = of(cassandra).set_table(new_table()).build().build_enumerator(3, None)
        plan = enumerator.plan(PlanRequest(3, 100, 0))
        assert [len(ranges) for ranges in plan.ranges.values()] == [1, 1, 1]

    def test_splits_follow_the_size_that_nodes_estimate(self, cassandra, new_table):
        table = new_table()
        keyspace, _, name = table.partition(".")
        for start, end in ((0, -(2**63)), (-(2**63), 0)):
            cassandra.execute(
                "INSERT INTO system.size_estimates (keyspace_name, table_name, range_start, range_end, "
                "mean_partition_size, partitions_count) VALUES (%s, %s, %s, %s, %s, %s)",
                *(keyspace, name, str(start), str(end), 2**20, 50),
            )  # 100 MiB in all
        source = of(cassandra).set_table(table).set_max_split_memory_size(10 * 2**20).build()

        assert len(source.build_enumerator(2, None).snapshot().waiting) == 10


class TestValues:
    VALUES = {
        "text": "grüße 🎈",
        "bigint": 2**63 - 1,
        "varint": 2**100,
        "decimal": decimal.Decimal("12.340"),
        "double": 1e300,
        "boolean": True,
        "timestamp": (
            datetime.datetime(2024, 2, 29, 12, 30, 0, 123_000),
            Instant(1_709_209_800, 123_000_000),
        ),
        "date": datetime.date(1969, 12, 31),
        "time": datetime.time(12, 30, 1, 5),
        "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "inet": "10.0.0.1",
        "blob": b"\x00\xff",
        "list<date>": [datetime.date(2024, 2, 29)],
        "set<frozen<list<int>>>": ({(1, 2)}, {(1, 2)}),
        "map<text, frozen<tuple<int, timestamp>>>": (
            {"a": (1, datetime.datetime(1970, 1, 1))},
            {"a": (1, Instant(0, 0))},
        ),
        "vector<float, 2>": [0.5, -1.0],
    }

    def test_values_of_all_types(self, cassandra, new_table, keyspace):
        cassandra.execute(f"CREATE TYPE {keyspace}.spot (street text, number int, seen date)")
        names = [f"c{number}" for number in range(len(self.VALUES))]
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, self.VALUES, strict=True))
        table = new_table(f"CREATE TABLE {{}} (id int PRIMARY KEY, spot frozen<spot>, {columns})")
        pairs = [each if isinstance(each, tuple) else (each, each) for each in self.VALUES.values()]
        marks = ", ".join("?" for _ in names)
        session = cassandra.cluster().connect()
        insert = session.prepare(f"INSERT INTO {table} (id, spot, {', '.join(names)}) VALUES (?, ?, {marks})")
        day = datetime.date(2024, 2, 29)
        session.execute(insert, (1, ("High St", 7, day), *(written for written, _ in pairs)))
        session.execute(insert, (2, None, *(None for _ in pairs)))
        session.cluster.shutdown()

        source = of(cassandra).set_table(table).set_columns("id", "spot", *names).build()
        first, second = sorted(read(source), key=lambda row: row.id)
        assert first == Row.of(
            ("id", "spot", *names),
            (1, Row(street="High St", number=7, seen=day), *(wanted for _, wanted in pairs)),
        )
        assert list(second._values) == [2, *[None] * (1 + len(pairs))]

    def test_value_that_python_has_not(self, cassandra, new_table):
        table = new_table("CREATE TABLE {} (id int PRIMARY KEY, day date)")
        cassandra.execute(f"INSERT INTO {table} (id, day) VALUES (1, '-5000-01-01')")
        reader = of(cassandra).set_table(table).build()
        with pytest.raises(MalformedRecordError, match="'day' of table tests"):
            collect(reader)


def collect(source: CassandraSource, budget: int = 1_000, epochs: int | None = None) -> list[Any]:
    """Read without a job, so that errors are what the source raises."""
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    rows: list[Any] = []
    reader.open()
    try:
        while ranges := enumerator.plan(PlanRequest(1, budget, 0)).ranges:
            enumerator.advance(
                [reader.read(each, lambda batch: rows.extend(batch.values) or True) for each in ranges[0]]
            )
    finally:
        reader.close()
    return rows


class TestRestore:
    def test_checkpoint_goes_on_where_it_was_on_a_new_connection(self, cassandra, new_table, fill):
        table = new_table(EVENTS)
        fill(table, "shop, day, id, cents", *[("a", 1, n, n) for n in range(50)])
        source = of(cassandra).set_table(table).set_columns("id").set_number_of_splits(1).build()
        enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
        seen: list[Any] = []
        reader.open()
        (ranges,) = enumerator.plan(PlanRequest(1, 17, 0)).ranges.values()
        enumerator.advance([reader.read(ranges[0], lambda batch: seen.extend(batch.values) or True)])
        reader.close()
        cassandra.stop()
        cassandra.start()

        again = source.build_enumerator(2, enumerator.snapshot())
        reader = source.build_reader(0, 2)
        reader.open()
        (ranges,) = again.plan(PlanRequest(2, 1_000, 0)).ranges.values()
        end = reader.read(ranges[0], lambda batch: seen.extend(batch.values) or True)
        reader.close()

        assert end.finished and [row.id for row in seen] == list(range(50))

    def test_checkpoint_of_something_else_is_refused(self, cassandra, new_table):
        first, second = new_table(), new_table()
        snapshot = of(cassandra).set_table(first).build().build_enumerator(1, None).snapshot()
        with pytest.raises(SourceError, match=f"reads {first}: None"):
            of(cassandra).set_table(second).build().build_enumerator(1, snapshot)

    def test_column_that_was_dropped_or_added(self, cassandra, new_table):
        table, other = new_table(), new_table()
        source = of(cassandra).set_table(table).build()
        snapshot = source.build_enumerator(1, None).snapshot()
        everything = of(cassandra).set_query(f"SELECT * FROM {other}").build()
        all_columns = everything.build_enumerator(1, None).snapshot()
        cassandra.execute(f"ALTER TABLE {table} DROP word")
        cassandra.execute(f"ALTER TABLE {other} ADD more int")

        with pytest.raises(SourceError, match="word"):
            source.build_enumerator(1, snapshot)
        with pytest.raises(SourceError, match="(?s)others than when reading began.*more"):
            everything.build_enumerator(1, all_columns)


class TestTrouble:
    def test_cluster_that_is_down_is_named_without_its_password(self, caplog):
        away = ClusterBuilder("127.0.0.1", port=1, username="me", password="secret-word")
        source = CassandraSource.builder().set_cluster_builder(away).set_table("shop.orders")
        source = source.set_patience(SHORT).build()
        with pytest.raises(SourceError, match="did not answer, connecting") as failed:
            source.build_enumerator(1, None)
        assert "127.0.0.1:1" in str(failed.value)
        assert "secret-word" not in str(failed.value) + repr(source) + caplog.text

    def test_wrong_password_and_missing_right(self, cassandra, new_table):
        table = new_table()
        false = CassandraSource.builder().set_cluster_builder(builder(cassandra, "false-word"))
        with pytest.raises(SourceError, match="Check user and password"):
            false.set_table(table).set_patience(LONG).build().build_enumerator(1, None)
        cassandra.execute("CREATE ROLE stranger WITH PASSWORD = 'p' AND LOGIN = true")
        stranger = ClusterBuilder("127.0.0.1", port=cassandra.port, username="stranger", password="p")
        with pytest.raises(SourceError, match="or SELECT, to read"):
            collect(of(cassandra).set_cluster_builder(stranger).set_table(table).build())

        cassandra.execute(f"GRANT SELECT ON TABLE {table} TO stranger")
        time.sleep(2.5)  # nodes remember rights for two seconds
        assert collect(of(cassandra).set_cluster_builder(stranger).set_table(table).build()) == []

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("SELECT id FROM nowhere.t", "table nowhere.t is not there"),
            ("SELECT nothing FROM {}", "(?s)InvalidRequest.*nothing"),
            ("SELECT id FROM {} WHERE word = 'a'", "ALLOW FILTERING"),
            ("SELECT id FROM {} WHERE word = :word ALLOW FILTERING", "has parameters"),
            ("SELECT id, FROM {}", "SyntaxException"),
        ],
    )
    def test_query_that_is_refused(self, cassandra, new_table, query, message):
        with pytest.raises(SourceError, match=message):
            of(cassandra).set_query(query.format(new_table())).build().build_enumerator(1, None)

    def test_column_that_is_not_there(self, cassandra, new_table):
        with pytest.raises(SourceError, match="(?s)has no column 'words'.*id.*word"):
            of(cassandra).set_table(new_table()).set_columns("words").build().build_enumerator(1, None)

    def test_nothing_is_lost_or_doubled_when_node_is_killed_in_the_middle(self, cassandra, new_table, fill):
        table = new_table()
        fill(table, "id, word", *[(number, "w") for number in range(300)])
        source = of(cassandra).set_table(table).set_number_of_splits(6).set_fetch_size(5).build()
        found: list[Any] = []

        def job() -> None:
            options = {"millstream.epoch.fixed-records": 10}
            with MiniCluster(parallelism=2, options=options) as cluster:
                cluster.fail_at(FailurePoint.AFTER_EPOCH, 4)
                stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
                found.extend(cluster.collect(stream.map(slowly)))

        thread = threading.Thread(target=job)
        thread.start()
        for _ in range(2):
            thread.join(1.5)
            cassandra.stop()
            cassandra.start()
        thread.join(120)

        assert sorted(row.id for row in found) == list(range(300))

    def test_node_that_answers_nothing_for_a_while(self, cassandra, new_table, fill):
        table = new_table()
        fill(table, "id, word", *[(number, "w") for number in range(50)])
        source = of(cassandra).set_table(table).set_fetch_size(5).build()
        enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
        reader.open()
        cassandra.pause()
        timer = threading.Timer(12, cassandra.go_on)
        timer.start()
        rows: list[Any] = []
        for each in enumerator.plan(PlanRequest(1, 1_000, 0)).ranges[0]:
            reader.read(each, lambda batch: rows.extend(batch.values) or True)
        timer.join()
        reader.close()

        assert len(rows) == 50


def slowly(row: Row) -> Row:
    time.sleep(0.02)
    return row
