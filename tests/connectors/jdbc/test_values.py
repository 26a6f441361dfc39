"""Values of every type, and programs as PyFlink writes them."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import pickle
import signal
import sys
import uuid

import pytest

from millstream.base.errors import JobExecutionError, NotSerializableError, SinkError, TypeMismatchError
from millstream.common import Instant, Row, Types
from millstream.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster

NAIVE = datetime.datetime(2013, 1, 31, 5, 15, 0, 123456)
AWARE = datetime.datetime(2013, 1, 31, 5, 15, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
TEXT = "a\\'\"\t\n%s ?? é ☃ 𝄞 🎈 \U0010fffd"
VALUES = {
    "id": 1,
    "small": -3,
    "price": decimal.Decimal("12345678901234567890123456.0123456789"),
    "ratio": 0.1,
    "words": TEXT,
    "happened": NAIVE,
    "day": datetime.date(1969, 12, 31),
    "clock": datetime.time(23, 59, 59, 999999),
    "raw": b"\x00\xff'\\",
    "yes": True,
    "doc": {"a": [1, None, {"b": "é?"}], "c": 1.5},
}
COLUMNS = """id BIGINT NOT NULL PRIMARY KEY, small SMALLINT, price DECIMAL(38, 10), ratio DOUBLE PRECISION, words TEXT,
happened {moment}, day DATE, clock {clock}, raw {blob}, yes BOOLEAN, doc {doc}"""
MORE = {
    "postgres": {
        "moment_tz": AWARE,
        "numbers": [1, None, 3],
        "texts": ["a,b", '"', TEXT],
        "key": uuid.UUID(int=5),
    },
    "mariadb": {"moment_tz": AWARE},
    "sqlite": {},
}


def new_table(target):
    types = {
        "postgres": {"moment": "TIMESTAMP", "clock": "TIME", "blob": "BYTEA", "doc": "JSONB"},
        "mariadb": {"moment": "DATETIME(6)", "clock": "TIME(6)", "blob": "BLOB", "doc": "JSON"},
        "sqlite": {"moment": "TIMESTAMP", "clock": "TIME", "blob": "BLOB", "doc": "TEXT"},
    }[target.kind]
    more = {
        "postgres": ", moment_tz TIMESTAMPTZ, numbers BIGINT[], texts TEXT[], key UUID",
        "mariadb": ", moment_tz TIMESTAMP NULL",
        "sqlite": "",
    }[target.kind]
    return target.new_table("CREATE TABLE {} (" + COLUMNS.format(**types) + more + ")")


def build(target, table, mode):
    names = [*VALUES, *MORE[target.kind]]
    if mode.startswith("statement"):
        marks = ", ".join("?" * len(names))
        sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
        kind = Types.ROW_NAMED(names, [Types.PICKLED_BYTE_ARRAY()] * len(names))
        make = JdbcSink.sink if mode == "statement" else JdbcSink.exactly_once_sink
        return make(sql, kind, target.options())
    builder = JdbcSink.table(table).with_columns(*names)
    if "upsert" in mode:
        builder.with_key_columns("id")
    once = mode.endswith("once")
    return (
        builder.build_exactly_once(target.options())
        if once
        else builder.build_at_least_once(target.options())
    )


def write(sink, rows):
    sink.check()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, operator_id="s"))
    writer.open()
    try:
        writer.write(Rows(rows), watermark_ms=0, now_ms=0)
        committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        if (committer := sink.build_committer()) is not None:
            committer.commit(committables)
            committer.close()
    finally:
        writer.close()


MODES = ["statement", "statement once", "append", "append once", "upsert", "upsert once"]


@pytest.mark.parametrize("mode", MODES)
def test_values_come_out_as_they_went_in(target, mode):
    table = new_table(target)
    given = VALUES | MORE[target.kind]
    empty = dict.fromkeys(given) | {"id": 2}
    write(build(target, table, mode), [Row(**given), Row(**empty)])
    names = ", ".join(given)
    ((*first,), (*second,)) = target.execute(f"SELECT {names} FROM {table} ORDER BY id")
    found = dict(zip(given, first, strict=True))
    if target.kind != "postgres":
        found["doc"] = json.loads(found["doc"])
        found["yes"] = bool(found["yes"])
    if target.kind == "mariadb":
        assert found.pop("moment_tz") == AWARE.astimezone(datetime.UTC).replace(tzinfo=None)
        assert found.pop("clock") == datetime.timedelta(hours=23, minutes=59, seconds=59, microseconds=999999)
    if target.kind == "sqlite":
        assert (found.pop("happened"), found.pop("day")) == ("2013-01-31 05:15:00.123456", "1969-12-31")
        assert found.pop("clock") == "23:59:59.999999"
        assert decimal.Decimal(found.pop("price")) == pytest.approx(VALUES["price"])
    assert found == {name: given[name] for name in found}
    assert second == [2, *[None] * (len(given) - 1)]


@pytest.mark.parametrize("mode", MODES)
def test_instants_are_moments_in_utc(target, mode):
    kind = {"postgres": "TIMESTAMPTZ", "mariadb": "DATETIME(6)", "sqlite": "TIMESTAMP"}[target.kind]
    table = target.new_table(f"CREATE TABLE {{}} (id BIGINT NOT NULL PRIMARY KEY, at {kind})")
    names, instant = ["id", "at"], Instant(-(10**9), 123_456_789)
    if mode.startswith("statement"):
        make = JdbcSink.sink if mode == "statement" else JdbcSink.exactly_once_sink
        types = Types.ROW_NAMED(names, [Types.LONG(), Types.INSTANT()])
        sink = make(f"INSERT INTO {table} (id, at) VALUES (?, ?)", types, target.options())
    else:
        builder = JdbcSink.table(table).with_columns(*names)
        if "upsert" in mode:
            builder.with_key_columns("id")
        build = builder.build_exactly_once if mode.endswith("once") else builder.build_at_least_once
        sink = build(target.options())
    write(sink, [Row(id=1, at=instant), Row(id=2, at=None)])
    ((first,), (second,)) = target.execute(f"SELECT at FROM {table} ORDER BY id")
    moment = datetime.datetime(1938, 4, 24, 22, 13, 20, 123456)
    zone = datetime.UTC if target.kind == "postgres" else None
    if target.kind == "sqlite":
        first = datetime.datetime.fromisoformat(first).replace(tzinfo=None)
    assert (first, second) == (moment.replace(tzinfo=zone), None)


@pytest.mark.parametrize("mode", MODES)
def test_text_with_a_nul_character_is_refused_by_postgres_with_the_record(postgres_target, mode):
    table = new_table(postgres_target)
    given = VALUES | MORE["postgres"]
    with pytest.raises(SinkError, match=r"refused record \(8, ") as caught:
        write(build(postgres_target, table, mode), [Row(**given), Row(**given | {"id": 8, "words": "a\0b"})])
    assert "NUL" in caught.value.detail


def test_objects_are_not_staged_for_a_statement(sqlite_target):
    table = sqlite_target.new_table()
    kind = Types.ROW([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
    sink = JdbcSink.exactly_once_sink(f"INSERT INTO {table} VALUES (?, ?)", kind, sqlite_target.options())
    with pytest.raises(NotSerializableError, match="exactly once is <object object .*, a object"):
        write(sink, [Row(1, object())])


def test_tuples_and_dicts_and_rows_without_names_are_taken(target):
    table = target.new_table()
    sink = JdbcSink.table(table).with_columns("id", "word").build_at_least_once(target.options())
    write(sink, [(1, "a"), (2, "b")])
    write(sink, [{"word": "c", "id": 3, "other": 0}, (4, "d"), Row(5, "e"), Row(word="f", id=6)])
    assert target.rows(table) == list(enumerate("abcdef", 1))


def test_some_of_the_fields_are_written(sqlite_target):
    table = sqlite_target.new_table()
    kind = Types.ROW_NAMED(["size", "word", "id"], [Types.INT(), Types.STRING(), Types.LONG()])
    builder = JdbcSink.table(table).with_type_info(kind).with_columns("id", "word")
    sink = builder.build_at_least_once(sqlite_target.options())
    write(sink, [(9, "a", 1), (9, "b", 2)])
    write(sink, [Row(9, "c", 3), Row(size=9, word="d", id=4), {"id": 5, "word": "e", "size": 9}])
    assert sqlite_target.rows(table) == list(enumerate("abcde", 1))
    with pytest.raises(TypeMismatchError):
        write(sink, [("a", 1)])


def test_what_is_staged_for_a_statement_cannot_be_made_to_run_code(sqlite_target, tmp_path):
    table = sqlite_target.new_table()
    kind = Types.ROW([Types.LONG(), Types.STRING()])
    sink = JdbcSink.exactly_once_sink(f"INSERT INTO {table} VALUES (?, ?)", kind, sqlite_target.options())
    sink.check()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, operator_id="s"))
    writer.open()
    writer.write(Rows([Row(1, "a")]), watermark_ms=0, now_ms=0)
    committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    writer.close()
    (stage,) = sqlite_target.stage_tables()
    data = pickle.dumps(Evil(tmp_path / "there"))
    sqlite_target.execute(f"UPDATE {stage} SET parameters = ?", (data,))
    committer = sink.build_committer()
    with pytest.raises(SinkError, match="no type of values"):
        committer.commit(committables)
    committer.close()
    assert not (tmp_path / "there").exists() and not sqlite_target.rows(table)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_program_as_pyflink_writes_it(target):
    table = target.new_table()
    records = [(number, f"word {number}") for number in range(100)]
    row_type = Types.ROW([Types.LONG(), Types.STRING()])
    with MiniCluster(parallelism=2) as cluster:
        cluster.fail_at(FailurePoint.AFTER_EPOCH)
        env = cluster.environment()
        upsert = {
            "postgres": "ON CONFLICT (id) DO UPDATE SET word = excluded.word",
            "mariadb": "ON DUPLICATE KEY UPDATE word = VALUES(word)",
            "sqlite": "ON CONFLICT (id) DO UPDATE SET word = excluded.word",
        }[target.kind]
        options = target.options()
        env.from_collection(records, row_type).add_sink(
            JdbcSink.sink(
                f"INSERT INTO {table} (id, word) VALUES (?, ?) {upsert}",
                row_type,
                JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
                .with_url(options.get_db_url())
                .with_user_name(options.get_user_name())
                .with_password(options.get_password())
                .build(),
                JdbcExecutionOptions.builder()
                .with_batch_interval_ms(1000)
                .with_batch_size(20)
                .with_max_retries(5)
                .build(),
            )
        )
        env.execute("jdbc")
    assert target.rows(table) == records


def test_two_sinks_of_a_job_publish_exactly_once_into_one_table(target):
    table = target.new_table("CREATE TABLE {} (id BIGINT, word VARCHAR(100))")
    kind = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
    once = JdbcExactlyOnceOptions.builder().with_marker_table("markers").build()
    with MiniCluster(parallelism=2) as cluster:
        for point in FailurePoint:
            cluster.fail_at(point)
        env = cluster.environment()
        rows = env.from_collection([Row(id=number, word="x") for number in range(200)], kind)
        rows.sink_to(JdbcSink.table(table).with_type_info(kind).build_exactly_once(target.options(), once))
        sql = f"INSERT INTO {table} (id, word) VALUES (?, ?)"
        rows.add_sink(JdbcSink.exactly_once_sink(sql, kind, target.options(), None, once))
        env.execute()
    assert target.rows(table) == sorted([(number, "x") for number in range(200)] * 2)
    assert not target.stages("markers") and not target.stage_tables()


class DieAt:
    """Ends the slot as the kernel would, the first time that any of them sees one of these records."""

    def __init__(self, directory, numbers):
        self.directory = directory
        self.numbers = numbers

    def __call__(self, row):
        if row.id in self.numbers:
            try:
                os.close(os.open(f"{self.directory}/died-{row.id}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return row
            os.kill(os.getpid(), signal.SIGKILL)
        return row


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("mode", ["append once", "upsert once", "statement once"])
def test_job_on_spark_whose_slots_are_killed_publishes_exactly_once(postgres_target, mode, tmp_path):
    table = postgres_target.new_table()
    kind = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 10,
        "restart-strategy.fixed-delay.delay": "10 ms",
        "millstream.epoch.fixed-records": 40,
    }
    builder = JdbcSink.table(table).with_type_info(kind)
    if mode == "upsert once":
        builder.with_key_columns("id")
    sink = builder.build_exactly_once(postgres_target.options())
    if mode == "statement once":
        sql = f"INSERT INTO {table} (id, word) VALUES (?, ?)"
        sink = JdbcSink.exactly_once_sink(sql, kind, postgres_target.options())
    with MiniCluster("local[2]", parallelism=2, options=options, by_value=[sys.modules[__name__]]) as cluster:
        cluster.fail_at(FailurePoint.AFTER_CHECKPOINT, 3)
        env = cluster.environment()
        rows = env.from_collection([Row(id=number, word="x") for number in range(500)], kind)
        rows.rebalance().map(DieAt(str(tmp_path), {150, 333}), kind).sink_to(sink)
        env.execute()
    assert {path.name for path in tmp_path.iterdir()} >= {"died-150", "died-333"}
    assert postgres_target.rows(table) == [(number, "x") for number in range(500)]
    assert not postgres_target.stages() and not postgres_target.stage_tables()


def test_password_is_in_no_error_of_a_job(postgres_target):
    kind = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
    sink = JdbcSink.table("nowhere").with_type_info(kind).build_at_least_once(postgres_target.options())
    with MiniCluster() as cluster, pytest.raises((SinkError, JobExecutionError), match="nowhere") as caught:
        env = cluster.environment()
        env.from_collection([Row(id=1, word="a")], kind).sink_to(sink)
        env.execute()
    assert postgres_target.options().get_password() not in str(caught.value)


def test_password_is_in_no_plan_and_no_checkpoint(postgres_target, tmp_path, caplog):
    table, kept = postgres_target.new_table(), []
    kind = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
    options = {"execution.checkpointing.dir": str(tmp_path), "millstream.epoch.fixed-records": 10}

    def look():
        kept.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    with MiniCluster(options=options) as cluster:
        cluster.do_after(30, look)
        cluster.fail_at(FailurePoint.AFTER_EPOCH, 4)
        env = cluster.environment()
        rows = env.from_collection([Row(id=number, word="x") for number in range(50)], kind)
        sink = JdbcSink.table(table).with_type_info(kind).build_exactly_once(postgres_target.options())
        rows.map(cluster.tap(), kind).sink_to(sink)
        plan = env.get_execution_plan()
        env.execute()
    password = postgres_target.options().get_password()
    assert kept and len(postgres_target.rows(table)) == 50
    assert password not in plan + caplog.text
    assert not any(password.encode() in data for data in kept)
