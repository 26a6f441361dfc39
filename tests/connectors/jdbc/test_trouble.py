"""Servers that go away, refuse, or hold something against what is written."""

from __future__ import annotations

import itertools
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.base.errors import LostOutputError, SinkError, TypeMismatchError
from millstream.common import Row, RowKind, Types
from millstream.datastream.connectors.jdbc import JdbcExactlyOnceOptions, JdbcExecutionOptions, JdbcSink
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext

TYPE = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
ATTEMPTS = itertools.count(1)
PAUSE = threading.Event()


def new_writer(sink, *, job="job", attempt=0, subtask=0):
    writer = sink.build_writer(
        WriterContext(job, "sink", subtask, 1, attempt, operator_id="s", began_ms=next(ATTEMPTS))
    )
    writer.open()
    return writer


def write(writer, rows, *, end=True):
    writer.write(Rows([Row(id=number, word=word) for number, word in rows]), watermark_ms=0, now_ms=0)
    return writer.prepare_commit(now_ms=0, checkpoint=end, end_of_input=False)


def appending(target, table, **options):
    return JdbcSink.table(table).with_type_info(TYPE).build_at_least_once(target.options(**options))


def upserting(target, table, **options):
    builder = JdbcSink.table(table).with_type_info(TYPE).with_key_columns("id")
    return builder.build_at_least_once(target.options(**options))


def publishing(target, table, **options):
    return JdbcSink.table(table).with_type_info(TYPE).build_exactly_once(target.options(**options))


def inserting(target, table, **options):
    sql = f"INSERT INTO {table} (id, word) VALUES (?, ?)"
    return JdbcSink.sink(sql, TYPE, target.options(**options))


def inserting_once(target, table, **options):
    sql = f"INSERT INTO {table} (id, word) VALUES (?, ?)"
    return JdbcSink.exactly_once_sink(sql, TYPE, target.options(**options))


@pytest.fixture(params=["postgres", "mariadb"])
def server_target(request):
    """A database of a server that may be killed."""
    target = request.getfixturevalue(f"{request.param}_target")
    target.server = request.getfixturevalue(f"{request.param}_server")
    return target


@pytest.mark.parametrize("new_sink", [appending, upserting, inserting])
def test_server_that_was_restarted_between_checkpoints_is_connected_to_again(server_target, new_sink):
    target, table = server_target, server_target.new_table()
    sink = new_sink(target, table)
    sink.check()
    writer = new_writer(sink)
    write(writer, [(1, "a")])
    target.disconnect()
    target.server.restart()
    write(writer, [(2, "b")])
    writer.close()
    assert target.rows(table) == [(1, "a"), (2, "b")]


def test_server_that_is_down_for_a_while_is_waited_for(server_target, caplog):
    target, table = server_target, server_target.new_table()
    writer = new_writer(upserting(target, table))
    target.disconnect()
    target.server.stop()
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(1) as beside:
        writing = beside.submit(write, writer, [(number, "x") for number in range(100)])
        PAUSE.wait(1.0)
        target.server.start()  # here: it ends with the thread that starts it
        writing.result()
    writer.close()
    assert len(target.rows(table)) == 100
    assert ["trying again" in message for message in caplog.messages] == [True, False]
    assert target.server.password not in caplog.text


def test_server_that_stays_away_fails_the_job_and_says_what_to_do(server_target):
    target, table = server_target, server_target.new_table()
    writer = new_writer(appending(target, table, wait_s=0.3))
    target.disconnect()
    target.server.stop()
    with pytest.raises(SinkError, match="is away: writing 1 rows failed for 0.3 s") as caught:
        write(writer, [(1, "a")])
    writer.abort()
    writer.close()
    assert "Start the server" in caught.value.hint and target.server.password not in str(caught.value)
    with pytest.raises(SinkError, match="is away"):
        appending(target, table, wait_s=0.1).check()
    target.server.start()


@pytest.mark.parametrize("new_sink", [publishing, inserting_once])
def test_server_that_is_killed_while_rows_are_staged_and_published_loses_and_doubles_nothing(
    server_target, new_sink
):
    target, table = server_target, server_target.new_table()
    sink = new_sink(target, table)
    sink.check()
    writer, committer = new_writer(sink), sink.build_committer()
    target.disconnect()
    expected = []
    for number in range(3):
        rows = [(number * 10_000 + index, "x") for index in range(10_000)]
        expected += rows
        writer.write(Rows([Row(id=each, word=word) for each, word in rows]), watermark_ms=0, now_ms=0)
        target.server.restart()
        committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        target.server.restart()
        committer.commit(committables)
        target.server.restart()
        committer.commit(committables)
    writer.close()
    committer.close()
    assert target.rows(table) == expected
    assert not target.stages() and not target.stage_tables()


def test_server_that_is_killed_in_the_middle_of_a_commit_doubles_nothing(server_target):
    target, table = server_target, server_target.new_table()
    sink = publishing(target, table)
    sink.check()
    writer, committer = new_writer(sink), sink.build_committer()
    rows = [(number, "x" * 80) for number in range(150_000)]
    committables = write(writer, rows)
    target.disconnect()
    with ThreadPoolExecutor(1) as beside:
        committing = beside.submit(committer.commit, committables)
        PAUSE.wait(0.15)
        target.server.restart()
        committing.result()
    committer.commit(committables)
    writer.close()
    committer.close()
    assert target.execute(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM {table}") == [(150_000, 150_000)]


def test_login_that_is_refused_is_told_at_the_start(server_target):
    table = server_target.new_table()
    with pytest.raises(SinkError, match="refuses the connection") as caught:
        appending(server_target, table, password="wr0ng-one").check()
    assert "wr0ng-one" not in str(caught.value) and "password" in caught.value.hint


def test_table_that_is_missing_is_told_at_the_start(target):
    for new_sink in (appending, upserting, publishing, inserting, inserting_once):
        with pytest.raises(SinkError, match="nowhere"):
            new_sink(target, "nowhere").check()


def test_column_that_is_missing_is_told_at_the_start(target):
    table = target.new_table("CREATE TABLE {} (id BIGINT NOT NULL PRIMARY KEY, words VARCHAR(10))")
    with pytest.raises(SinkError, match="has no column 'word'") as caught:
        appending(target, table).check()
    assert "'id', 'words'" in caught.value.detail
    with pytest.raises(SinkError, match="word"):
        inserting(target, table).check()


def test_columns_that_do_not_fit_are_told_at_the_start(target):
    table = target.new_table("CREATE TABLE {} (id BIGINT NOT NULL, word VARCHAR(9), size INT NOT NULL)")
    with pytest.raises(SinkError, match="needs a value for its column 'size'"):
        appending(target, table).check()
    table = target.new_table("CREATE TABLE {} (id BIGINT NOT NULL, word INT)")
    with pytest.raises(SinkError, match="word is STRING, the column is"):
        appending(target, table).check()
    table = target.new_table("CREATE TABLE {} (id BIGINT NOT NULL, word VARCHAR(9))")
    with pytest.raises(SinkError, match="no primary key and no unique index on 'id'"):
        upserting(target, table).check()
    appending(target, table).check()


def test_mysql_is_not_asked_to_overwrite_by_a_key_that_the_sink_does_not_name(mariadb_target):
    table = mariadb_target.new_table("CREATE TABLE {} (id BIGINT PRIMARY KEY, word VARCHAR(9) UNIQUE)")
    with pytest.raises(SinkError, match="another unique key among what is written: 'word'"):
        upserting(mariadb_target, table).check()


@pytest.mark.parametrize("new_sink", [appending, inserting])
def test_record_that_is_refused_is_named(target, new_sink):
    table = target.new_table()
    writer = new_writer(new_sink(target, table))
    write(writer, [(7, "there")])
    with pytest.raises(SinkError, match=r"refused record \(7, 'x{100,190} … ") as caught:
        write(writer, [(6, "a"), (7, "x" * 300), (8, "b")])
    assert caught.value.detail and caught.value.hint
    writer.abort()
    writer.close()
    assert target.rows(table) == [(7, "there")]


def test_record_that_does_not_fit_is_refused_when_it_is_staged(server_target):
    target = server_target
    table = target.new_table("CREATE TABLE {} (id BIGINT NOT NULL, word VARCHAR(5) NOT NULL)")
    sink = publishing(target, table)
    sink.check()
    writer = new_writer(sink)
    for bad in (None, "too long"):
        with pytest.raises(SinkError, match=rf"refused record \(2, {bad!r}\)"):
            write(writer, [(1, "a"), (2, bad)])
    writer.abort()
    writer.close()
    assert not target.stages()


@pytest.mark.parametrize("new_sink", [publishing, inserting_once])
def test_what_stands_against_a_commit_can_be_removed(target, new_sink):
    table = target.new_table()
    sink = new_sink(target, table)
    sink.check()
    target.execute(f"INSERT INTO {table} VALUES (1, 'in the way')")
    writer, committer = new_writer(sink), sink.build_committer()
    committables = write(writer, [(1, "a"), (2, "b")])
    with pytest.raises(SinkError, match="refused") as caught:
        committer.commit(committables)
    assert "1" in caught.value.detail
    target.execute(f"DELETE FROM {table}")
    committer.commit(committables)
    assert target.rows(table) == [(1, "a"), (2, "b")]
    writer.close()
    committer.close()


def test_transaction_that_is_chosen_in_a_deadlock_is_repeated(server_target):
    target, table = server_target, server_target.new_table()
    target.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    sql = f"UPDATE {table} SET word = ? WHERE id = ?"
    kind = Types.ROW_NAMED(["word", "id"], [Types.STRING(), Types.LONG()])
    once = JdbcExecutionOptions.builder().with_max_retries(50).build()
    sink = JdbcSink.sink(sql, kind, target.options(), once)
    failures = []

    def update(ids):
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, operator_id="s"))
        writer.open()
        try:
            for _ in range(40):
                rows = [Row(word=str(number), id=number) for number in ids for _ in range(3)]
                writer.write(Rows(rows), watermark_ms=0, now_ms=0)
                writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        except Exception as error:
            failures.append(error)
        finally:
            writer.close()

    threads = [threading.Thread(target=update, args=(ids,)) for ids in ([1, 2], [2, 1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_rows_that_are_gone_without_having_been_published_fail_the_job(target):
    table = target.new_table()
    sink = publishing(target, table)
    sink.check()
    writer, committer = new_writer(sink), sink.build_committer()
    (committable,) = write(writer, [(1, "a")])
    target.execute("DELETE FROM millstream_commits")
    with pytest.raises(LostOutputError, match="are gone, and were not published"):
        committer.commit([committable])
    writer.close()
    committer.close()


def test_markers_and_stages_that_nobody_came_back_for_are_removed(target):
    table = target.new_table()
    once = JdbcExactlyOnceOptions.builder().with_retention_days(1e-7).build()  # about 9 ms
    sink = JdbcSink.table(table).with_type_info(TYPE).build_exactly_once(target.options(), once)
    sink.check()
    committer = sink.build_committer()
    committer.commit(write(new_writer(sink, job="first"), [(1, "a")]))
    write(new_writer(sink, job="second"), [(2, "b")])
    assert target.stages() and target.stage_tables()
    PAUSE.wait(0.05)
    new_writer(sink, job="third").close()
    assert target.execute("SELECT * FROM millstream_commits") == [] and not target.stage_tables()
    assert target.rows(table) == [(1, "a")]
    committer.close()


def test_sinks_of_two_jobs_and_two_of_one_do_not_disturb_each_other(target):
    table = target.new_table()
    sinks = [publishing(target, table), inserting_once(target, table), publishing(target, table)]
    for sink in sinks:
        sink.check()
    writers = [new_writer(sink, job=f"job{index % 2}") for index, sink in enumerate(sinks)]
    committables = []
    for index, writer in enumerate(writers):
        committables.append(write(writer, [(index, "x")]))
    new_writer(sinks[0], job="job9", attempt=4).close()
    for sink, committable in zip(sinks, committables, strict=True):
        committer = sink.build_committer()
        committer.commit(committable)
        committer.close()
    assert target.rows(table) == [(0, "x"), (1, "x"), (2, "x")]
    assert not target.stages()


@pytest.mark.parametrize("once", [False, True])
def test_upserts_go_by_kind_and_the_last_one_counts(target, once):
    table = target.new_table()
    target.execute(f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two'), (3, 'three'), (9, 'nine')")
    builder = JdbcSink.table(table).with_type_info(TYPE).with_key_columns("id")
    sink = (
        builder.build_exactly_once(target.options())
        if once
        else builder.build_at_least_once(target.options())
    )
    sink.check()
    writer = new_writer(sink)
    changes = [
        Row(id=4, word="four"),
        Row.of_kind(RowKind.UPDATE_BEFORE, id=1, word="one"),
        Row.of_kind(RowKind.UPDATE_AFTER, id=1, word="ONE"),
        Row.of_kind(RowKind.DELETE, id=2, word=None),
        Row.of_kind(RowKind.DELETE, id=3, word="three"),
        Row(id=3, word="THREE"),
        Row(id=5, word="five"),
        Row.of_kind(RowKind.DELETE, id=5, word="five"),
    ]
    for part in (changes[:3], changes[3:]):
        writer.write(Rows(part), watermark_ms=0, now_ms=0)
    committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    if once:
        assert target.rows(table)[0] == (1, "one")
        sink.build_committer().commit(committables)
    writer.close()
    assert target.rows(table) == [(1, "ONE"), (3, "THREE"), (4, "four"), (9, "nine")]


def test_changes_cannot_be_appended(sqlite_target):
    writer = new_writer(appending(sqlite_target, sqlite_target.new_table()))
    with pytest.raises(SinkError, match="of the kind -D"):
        writer.write(Rows([Row.of_kind(RowKind.DELETE, id=1, word="a")]), watermark_ms=0, now_ms=0)
    with pytest.raises(TypeMismatchError, match="has not the fields"):
        writer.write(Rows([Row(id=1, text="a")]), watermark_ms=0, now_ms=0)
    writer.close()


def test_batches_are_written_when_they_are_full_or_old(sqlite_target):
    table = sqlite_target.new_table()
    options = JdbcExecutionOptions.builder().with_batch_size(3).with_batch_interval_ms(100).build()
    sql = f"INSERT INTO {table} VALUES (?, ?)"
    writer = new_writer(JdbcSink.sink(sql, TYPE, sqlite_target.options(), options))

    def give(*numbers, now_ms):
        writer.write(Rows([Row(id=each, word="x") for each in numbers]), watermark_ms=0, now_ms=now_ms)
        writer.prepare_commit(now_ms=now_ms, checkpoint=False, end_of_input=False)
        return len(sqlite_target.rows(table))

    assert writer.next_processing_time() is None
    assert give(1, 2, now_ms=1000) == 0
    assert writer.next_processing_time() == 1100
    assert give(3, 4, now_ms=1050) == 3
    assert writer.next_processing_time() == 1150
    assert give(now_ms=1149) == 3
    assert give(now_ms=1150) == 4
    assert writer.next_processing_time() is None
    assert give(*range(5, 12), now_ms=1200) == 10
    writer.prepare_commit(now_ms=1200, checkpoint=False, end_of_input=True)
    assert len(sqlite_target.rows(table)) == 11
    writer.close()


def test_slot_that_was_stopped_in_the_middle_of_a_transaction_keeps_nobody_waiting(server_target, caplog):
    target, table = server_target, server_target.new_table()
    sink = publishing(target, table)
    sink.check()
    zombie = new_writer(sink)
    zombie._load([(1, "a")])
    (stage,) = target.stage_tables()
    zombie._link._session.execute(f"INSERT INTO {stage} VALUES (2, 'b')")  # and no commit
    with caplog.at_level(logging.WARNING):
        following = new_writer(sink, attempt=1)
    assert "could not be dropped" in caplog.text
    committables = write(following, [(3, "c")])
    committer = sink.build_committer()
    committer.commit(committables)
    zombie._link.close()
    new_writer(sink, attempt=2).close()
    following.close()
    committer.close()
    assert target.rows(table) == [(3, "c")]
    assert not target.stages() and not target.stage_tables()


def test_driver_that_was_stopped_in_the_middle_of_a_commit_lets_another_one_commit(postgres_target):
    target, table = postgres_target, postgres_target.new_table()
    target.url += "?options=-c%20idle_in_transaction_session_timeout=700"
    sink = publishing(target, table)
    sink.check()
    writer, zombie, committer = new_writer(sink), sink.build_committer(), sink.build_committer()
    (committable,) = write(writer, [(1, "a")])
    zombie._link = zombie._new_link(None)
    stopped = zombie._link._connect()
    zombie._markers.advance(stopped, committable.writer, committable.number, 0)  # and no more
    committer.commit([committable])
    zombie.commit([committable])
    for each in (writer, zombie, committer):
        each.close()
    assert target.rows(table) == [(1, "a")]
