"""Cassandra as a sink, a real node."""

from __future__ import annotations

import datetime
import decimal
import itertools
import threading
import time
import uuid
from typing import Any

import pytest
from cassandra import InvalidRequest

from millstream.base.errors import MillstreamError, SinkError, TypeMismatchError
from millstream.common import Instant, Row, RowKind, Types
from millstream.common.time import Duration
from millstream.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraRowSink,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
    Patience,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import Sink, WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.cassandra import CassandraServer

pytestmark = pytest.mark.long

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=90)


def builder(server: CassandraServer, password: str = "cassandra") -> ClusterBuilder:
    return ClusterBuilder("127.0.0.1", port=server.port, username="cassandra", password=password)


def by_query(server: CassandraServer, table: str, patience: Patience = LONG) -> Any:
    settings = CassandraRowSink.builder().set_cluster_builder(builder(server)).set_patience(patience)
    return settings.set_query(f"INSERT INTO {table} (id, word) VALUES (?, ?)")


def by_name(server: CassandraServer, table: str, *columns: str, patience: Patience = LONG) -> Any:
    settings = CassandraRowSink.builder().set_cluster_builder(builder(server)).set_patience(patience)
    return settings.set_table(table).set_columns(*(columns or ("id", "word")))


def opened(sink: Sink) -> Any:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    return writer


def put(writer: Any, *values: Any) -> None:
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
    writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)


def write(sink: Sink, *values: Any) -> None:
    writer = opened(sink)
    try:
        put(writer, *values)
    finally:
        writer.close()


@pytest.mark.timeout(1_200)
class TestContract:
    """All scenarios write one table, as making tables takes long: each has a partition of its own."""

    def test_sink_loses_nothing_and_doubles_nothing_by_key(self, cassandra, new_table):
        table = new_table("CREATE TABLE {} (scenario int, id bigint, word text, PRIMARY KEY (scenario, id))")
        scenarios = itertools.count()

        def new_target() -> SinkTarget:
            number = next(scenarios)
            sink = CassandraRowSink.builder().set_cluster_builder(builder(cassandra)).set_patience(LONG)
            sink.set_query(f"INSERT INTO {table} (scenario, id, word) VALUES ({number}, ?, ?)")
            query = f"SELECT id, word FROM {table} WHERE scenario = {number}"
            return SinkTarget(sink.build(), read=lambda: [tuple(row) for row in cassandra.execute(query)])

        check_sink(new_target, record=lambda n: (n, f"w{n} 🎈"), parallelisms=((2, 1),))

    def test_write_ahead_sink_shows_nothing_before_its_checkpoint(self, cassandra, new_table, tmp_path):
        table = new_table("CREATE TABLE {} (scenario int, word text, PRIMARY KEY (scenario, word))")
        scenarios = itertools.count()

        def new_target() -> SinkTarget:
            number = next(scenarios)
            directory = tmp_path / str(number)
            sink = CassandraRowSink.builder().set_cluster_builder(builder(cassandra)).set_patience(LONG)
            sink.set_query(f"INSERT INTO {table} (scenario, word) VALUES ({number}, ?)")
            sink.enable_write_ahead_log(directory=str(directory))
            query = f"SELECT word FROM {table} WHERE scenario = {number}"
            return SinkTarget(
                sink.build(),
                read=lambda: [tuple(row) for row in cassandra.execute(query)],
                staged=lambda: [*directory.glob("*.waiting")],
            )

        check_sink(new_target, record=lambda n: (f"w{n}",), parallelisms=((1, 1),))

    @pytest.mark.parametrize("point", [FailurePoint.AFTER_EPOCH, FailurePoint.BEFORE_COMMIT])
    def test_job_that_fails_between_write_and_checkpoint(self, cassandra, new_table, point):
        table = new_table()
        with MiniCluster(parallelism=2) as cluster:
            cluster.fail_at(point, 3)
            environment = cluster.environment()
            type_info = Types.ROW([Types.LONG(), Types.STRING()])
            stream = environment.from_collection(
                [Row(number, f"w{number}") for number in range(200)], type_info
            )
            end = (
                CassandraSink.add_sink(stream)
                .set_cluster_builder(builder(cassandra))
                .set_query(f"INSERT INTO {table} (id, word) VALUES (?, ?)")
                .build()
            )
            end.name("words").uid("words").set_parallelism(2).disable_chaining()
            environment.execute()

        assert sorted(tuple(row) for row in cassandra.execute(f"SELECT id, word FROM {table}")) == [
            (number, f"w{number}") for number in range(200)
        ]


class TestCommitter:
    def test_it_remembers_for_each_job_sink_and_subtask(self, cassandra):
        def committer(job: str, operator: str = "sink") -> CassandraCommitter:
            made = CassandraCommitter.default_checkpoint_committer(builder(cassandra), "remembered")
            made.set_job_id(job)
            made.set_operator_id(operator)
            made.open()
            return made

        one, two, again = committer("one"), committer("two"), committer("one")
        one.commit_checkpoint(0, 17)

        assert [again.is_checkpoint_committed(0, number) for number in (16, 17, 18)] == [True, True, False]
        assert not again.is_checkpoint_committed(1, 17) and not two.is_checkpoint_committed(0, 17)
        for each in (one, two, again):
            each.close()


class TestTables:
    def test_rows_are_overwritten_and_deleted_by_key(self, cassandra, new_table):
        table = new_table('CREATE TABLE {} ("Shop" text, day date, total int, PRIMARY KEY ("Shop", day))')
        day = datetime.date(2024, 2, 29)
        sink = by_name(cassandra, table, "total", "Shop", "day").build()
        write(
            sink,
            Row(Shop="north", day=day, total=1),
            Row.of(("Shop", "day", "total"), ("north", day, 1), RowKind.UPDATE_BEFORE),
            Row.of(("Shop", "day", "total"), ("north", day, 2), RowKind.UPDATE_AFTER),
            {"day": day, "total": 3, "Shop": "south"},
            (4, "west", day),
            Row.of(("Shop", "day", "total"), ("south", day, 3), RowKind.DELETE),
        )

        rows = cassandra.execute(f'SELECT "Shop", total FROM {table}')
        assert sorted(tuple(row) for row in rows) == [("north", 2), ("west", 4)]

    def test_of_writes_to_a_row_the_last_one_counts(self, cassandra, new_table):
        table = new_table()
        records = [(number % 3, str(number)) for number in range(5_000)]
        write(by_name(cassandra, table).build(), *records)

        rows = {row.id: row.word for row in cassandra.execute(f"SELECT * FROM {table}")}
        assert rows == {0: "4998", 1: "4999", 2: "4997"}

    def test_none_removes_a_value_unless_it_is_ignored(self, cassandra, new_table):
        removed, kept, kept_too = new_table(), new_table(), new_table()
        write(by_name(cassandra, removed).build(), (1, "a"), (1, None))
        write(by_name(cassandra, kept).enable_ignore_null_fields().build(), (1, "a"), (1, None))
        options = MapperOptions().save_null_fields(False)
        write(by_name(cassandra, kept_too).set_mapper_options(options).build(), (1, "a"), (1, None))

        words = [
            cassandra.execute(f"SELECT word FROM {table}")[0].word for table in (removed, kept, kept_too)
        ]
        assert words == [None, "a", "a"]

    def test_options_of_statements(self, cassandra, new_table):
        table = new_table()
        options = (
            MapperOptions()
            .ttl(1000)
            .timestamp(7)
            .consistency_level(ConsistencyLevel.ALL)
            .tracing(True)
        )  # fmt: skip
        write(by_name(cassandra, table).set_mapper_options(options).build(), (1, "a"))
        row = cassandra.execute(f"SELECT writetime(word) AS at, ttl(word) AS ttl FROM {table}")[0]
        assert row.at == 7 and 900 < row.ttl <= 1000

        options = MapperOptions().if_not_exists(True)
        sink = by_name(cassandra, table).set_mapper_options(options).build()
        write(sink, (1, "b"), (2, "c"))
        assert sorted(row.word for row in cassandra.execute(f"SELECT word FROM {table}")) == ["a", "c"]
        with pytest.raises(SinkError, match="only adds rows"):
            write(sink, Row.of(("id", "word"), (1, "b"), RowKind.DELETE))

    def test_counters_are_counted_by_a_query(self, cassandra, new_table):
        table = new_table("CREATE TABLE {} (word text PRIMARY KEY, n counter)")
        sink = CassandraRowSink.builder().set_cluster_builder(builder(cassandra))
        sink.set_query(f"UPDATE {table} SET n = n + ? WHERE word = ?")
        write(sink.build(), (2, "a"), (3, "a"))

        assert cassandra.execute(f"SELECT n FROM {table}")[0].n == 5
        with pytest.raises(SinkError, match="is a counter"):
            by_name(cassandra, table, "word", "n").build().check()


class TestValues:
    COLUMNS = {
        "text": "grüße 🎈",
        "ascii": "abc",
        "tinyint": -5,
        "smallint": 1_000,
        "int": -(2**31),
        "bigint": 2**63 - 1,
        "varint": 2**100,
        "decimal": decimal.Decimal("12.340"),
        "float": 0.5,
        "double": 1e300,
        "boolean": True,
        "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 0, 123_000),
        "date": datetime.date(2024, 2, 29),
        "time": datetime.time(12, 30, 1, 5),
        "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "inet": "10.0.0.1",
        "blob": b"\x00\xff",
        "list<int>": [1, 2, 1],
        "set<text>": {"a", "b"},
        "map<text, bigint>": {"a": 1},
        "frozen<tuple<int, text>>": (1, "a"),
    }

    def test_values_of_all_types_are_there_as_they_were(self, cassandra, new_table):
        names = [f"c{number}" for number in range(len(self.COLUMNS))]
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, self.COLUMNS, strict=True))
        table = new_table(f"CREATE TABLE {{}} (id int PRIMARY KEY, {columns})")
        values = list(self.COLUMNS.values())
        nothing = [None] * len(values)
        sink = by_name(cassandra, table, "id", *names).build()
        write(sink, (1, *values), (2, *nothing))

        found = {row[0]: row[1:] for row in cassandra.execute(f"SELECT id, {', '.join(names)} FROM {table}")}
        plain = {
            "date": lambda value: value.date(),
            "time": lambda value: value.time(),
            "set<text>": set,
            "map<text, bigint>": dict,
        }
        seen = [
            plain.get(kind, lambda value: value)(value)
            for kind, value in zip(self.COLUMNS, found[1], strict=True)
        ]
        assert seen == values
        assert list(found[2]) == nothing

    def test_instants_moments_of_zones_and_nested_rows(self, cassandra, new_table, keyspace):
        cassandra.execute(f"CREATE TYPE {keyspace}.place (street text, number int)")
        table = new_table("CREATE TABLE {} (id int PRIMARY KEY, at timestamp, home frozen<place>, data blob)")
        zone = datetime.timezone(datetime.timedelta(hours=2))
        moment = datetime.datetime(2024, 1, 1, 2, 0, tzinfo=zone)
        write(
            by_name(cassandra, table, "id", "at", "home", "data").build(),
            (1, Instant.of_epoch_milli(1_500), Row(street="High St", number=7), bytearray(b"x")),
            (2, moment, None, None),
        )

        rows = {row.id: row for row in cassandra.execute(f"SELECT * FROM {table}")}
        assert rows[1].at == datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)
        assert (rows[1].home.street, rows[1].home.number, rows[1].data) == ("High St", 7, b"x")
        assert rows[2].at == datetime.datetime(2024, 1, 1)

    def test_value_that_does_not_fit_is_named_with_its_record(self, cassandra, new_table):
        with pytest.raises(TypeMismatchError, match=r"\('one', 'a'\) does not fit its column"):
            write(by_name(cassandra, new_table()).build(), ("one", "a"))
        with pytest.raises(TypeMismatchError, match="of which id, word are wanted"):
            write(by_query(cassandra, new_table()).build(), (1,))
        with pytest.raises(TypeMismatchError, match="It has no word"):
            write(by_name(cassandra, new_table()).build(), Row(id=1))


class Skipping(CassandraFailureHandler):
    def __init__(self) -> None:
        self.seen: list[Exception] = []

    def on_failure(self, failure: Exception) -> None:
        self.seen.append(failure)
        if not isinstance(failure, InvalidRequest):
            raise failure


class TestFailures:
    def test_refused_record_fails_the_job_and_is_named(self, cassandra, new_table):
        with pytest.raises(SinkError, match=r"writing \(None, 'a'\): InvalidRequest"):
            write(by_name(cassandra, new_table()).build(), (1, "b"), (None, "a"))

    def test_handler_may_leave_a_record_out(self, cassandra, new_table):
        table, handler = new_table(), Skipping()
        write(by_name(cassandra, table).set_failure_handler(handler).build(), (1, "a"), (None, "b"), (3, "c"))

        assert len(handler.seen) == 1
        assert sorted(row.id for row in cassandra.execute(f"SELECT id FROM {table}")) == [1, 3]

    def test_handler_is_asked_when_the_cluster_stays_away(self, cassandra, new_table):
        handler = Skipping()
        writer = opened(by_name(cassandra, new_table(), patience=SHORT).set_failure_handler(handler).build())
        cassandra.stop()
        with pytest.raises(SinkError, match=r"writing \(1, 'a'\)"):
            put(writer, (1, "a"))
        writer.close()

        assert len(handler.seen) == 1


class TestTrouble:
    def test_cluster_that_is_down_at_start_is_named_without_its_password(self, caplog):
        away = ClusterBuilder("127.0.0.1", port=1, username="me", password="secret-word")
        sink = CassandraRowSink.builder().set_cluster_builder(away).set_query("INSERT ...")

        with pytest.raises(SinkError, match="did not answer, connecting") as failed:
            sink.set_patience(SHORT).build().check()
        assert "127.0.0.1:1" in str(failed.value)
        assert "secret-word" not in str(failed.value) + repr(away) + caplog.text
        assert len([each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]) == 1

    def test_cluster_that_comes_up_is_waited_for(self, cassandra, new_table):
        table = new_table()
        cassandra.stop()
        failed: list[BaseException] = []

        def job() -> None:
            try:
                write(by_name(cassandra, table).build(), (1, "a"))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=job)
        thread.start()
        time.sleep(1)
        cassandra.start()
        thread.join(60)

        assert not failed
        assert [tuple(row) for row in cassandra.execute(f"SELECT id, word FROM {table}")] == [(1, "a")]

    def test_cluster_is_killed_in_the_middle_and_comes_back(self, cassandra, new_table):
        table = new_table()
        writer = opened(by_name(cassandra, table).build())
        put(writer, (1, "a"), (2, "a"))
        cassandra.stop()
        failed: list[BaseException] = []

        def go_on() -> None:
            try:
                put(writer, *[(number % 100, f"b{number}") for number in range(1_000)])
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        time.sleep(1)
        cassandra.start()
        thread.join(90)
        writer.close()

        assert not failed
        rows = {row.id: row.word for row in cassandra.execute(f"SELECT id, word FROM {table}")}
        assert rows == {number: f"b{900 + number}" for number in range(100)}

    def test_cluster_that_answers_nothing_for_a_while(self, cassandra, new_table):
        table = new_table()
        writer = opened(by_name(cassandra, table).build())
        cassandra.pause()
        timer = threading.Timer(12, cassandra.go_on)
        timer.start()
        put(writer, *[(number, "a") for number in range(50)])
        writer.close()
        timer.join()

        assert cassandra.execute(f"SELECT count(*) FROM {table}")[0].count == 50

    def test_place_among_requests_is_waited_for_no_longer_than_said(self, cassandra, new_table):
        sink = by_name(cassandra, new_table()).set_max_concurrent_requests(1, Duration.of_millis(300))
        writer = opened(sink.build())
        cassandra.pause()
        with pytest.raises(SinkError, match="none of 1 requests to Cassandra was answered for 0.3 s"):
            put(writer, (1, "a"), (2, "b"))
        cassandra.go_on()
        writer.close()

    def test_wrong_password(self, cassandra):
        sink = CassandraRowSink.builder().set_cluster_builder(builder(cassandra, "false-word"))
        with pytest.raises(SinkError, match="Check user and password") as failed:
            sink.set_query("INSERT ...").set_patience(LONG).build().check()
        assert "false-word" not in str(failed.value)

    def test_user_without_rights(self, cassandra, new_table):
        table = new_table()
        cassandra.execute("CREATE ROLE reader WITH PASSWORD = 'p' AND LOGIN = true")
        reader = ClusterBuilder("127.0.0.1", port=cassandra.port, username="reader", password="p")
        with pytest.raises(SinkError, match="GRANT MODIFY"):
            write(by_name(cassandra, table).set_cluster_builder(reader).build(), (1, "a"))

    @pytest.mark.parametrize(
        ("table", "columns", "message"),
        [
            ("nowhere.t", ("id",), "table nowhere.t is not there"),
            ("tests.nothing", ("id",), "table tests.nothing is not there"),
            (None, ("id", "words"), r"has no column words[^$]*Its columns are id, word\."),
            (None, ("word",), "has id in its primary key, which is not written"),
        ],
    )
    def test_what_is_named_is_not_there(self, cassandra, new_table, table, columns, message):
        with pytest.raises(SinkError, match=message):
            by_name(cassandra, table or new_table(), *columns).build().check()

    def test_declared_types_that_never_fit(self, cassandra, new_table):
        sink = CassandraRowSink.builder().set_cluster_builder(builder(cassandra)).set_table(new_table())
        sink.set_type_info(Types.ROW_NAMED(["id", "word"], [Types.STRING(), Types.STRING()]))
        with pytest.raises(SinkError, match="id is STRING, the column is bigint"):
            sink.build().check()

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("INSERT INTO nowhere.t (id) VALUES (?)", "InvalidRequest[^$]*Correct the names"),
            ("INSERT INTO {} (id, nothing) VALUES (?, ?)", "InvalidRequest[^$]*nothing"),
            ("INSRT INTO {} (id) VALUES (?)", "SyntaxException[^$]*Correct the statement"),
            ("INSERT INTO {} (id) VALUES (?)", "1 parameters, and the records 2 fields"),
        ],
    )
    def test_statement_that_is_refused(self, cassandra, new_table, query, message):
        sink = CassandraRowSink.builder().set_cluster_builder(builder(cassandra))
        sink.set_query(query.format(new_table())).set_type_info(Types.ROW([Types.LONG(), Types.STRING()]))
        with pytest.raises(SinkError, match=message):
            sink.build().check()

    def test_column_that_is_dropped_in_the_middle(self, cassandra, new_table):
        table = new_table()
        writer = opened(by_name(cassandra, table, patience=SHORT).build())
        put(writer, (1, "a"))
        cassandra.execute(f"ALTER TABLE {table} DROP word")
        with pytest.raises(MillstreamError, match="word"):
            put(writer, (2, "b"))
        writer.close()
