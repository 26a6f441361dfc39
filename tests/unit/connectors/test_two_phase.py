"""A sink of one's own against a database of its own: exactly once, whatever fails between the steps."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from millstream.base.errors import JobExecutionError, SinkError
from millstream.common import WatermarkStrategy
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.base import TwoPhaseCommitSink, WriterContext
from millstream.spi.batch import Rows

NUMBERS = 60


class SqliteSink(TwoPhaseCommitSink):
    """Stages rows in files; a commit writes them together with a marker row, in one transaction of the database."""

    def __init__(self, database, staging, faults):
        self.database, self.staging, self.faults = database, staging, faults

    def open(self, context):
        self.context = context
        self.faults.hit("open")

    def begin_transaction(self):
        self.faults.hit("begin")
        return os.path.join(self.staging, self.context.new_name())

    def staged_transactions(self):
        return [os.path.join(self.staging, name) for name in os.listdir(self.staging)]

    def invoke(self, transaction, value, context):
        with open(transaction, "a") as file:
            file.write(json.dumps([value, context.timestamp()]) + "\n")
        self.faults.hit("invoke")

    def pre_commit(self, transaction):
        self.faults.hit("pre_commit")
        if not os.path.exists(transaction):
            return None
        os.rename(transaction, transaction + ".ready")
        self.faults.hit("pre_committed")
        return transaction + ".ready"

    def open_committer(self):
        self.connection = sqlite3.connect(self.database, isolation_level=None)
        self.connection.execute("create table if not exists rows (value, stamp)")
        self.connection.execute("create table if not exists done (name primary key)")

    def commit(self, committable):
        self.faults.hit("commit")
        known = self.connection.execute("select 1 from done where name = ?", [committable]).fetchone()
        if known is None:
            lines = Path(committable).read_text().splitlines()
            self.connection.execute("begin")
            self.connection.executemany("insert into rows values (?, ?)", map(json.loads, lines))
            self.connection.execute("insert into done values (?)", [committable])
            self.connection.execute("commit")
        self.faults.hit("committed")
        Path(committable).unlink(missing_ok=True)

    def abort(self, committable):
        for name in (committable, f"{committable}.ready"):
            Path(name).unlink(missing_ok=True)
        self.faults.hit("aborted")

    def close_committer(self):
        self.connection.close()


def run(environment, sink, failing=None):
    stream = environment.from_source(
        NumberSequenceSource(0, NUMBERS - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    if failing is not None:
        stream = stream.map(failing)
    stream.sink_to(sink)
    environment.execute()


@pytest.fixture
def sink(tmp_path, faults):
    staging = tmp_path / "staging"
    staging.mkdir()
    return SqliteSink(str(tmp_path / "target.db"), str(staging), faults)


def rows(sink):
    with sqlite3.connect(sink.database) as connection:
        return Counter(value for (value,) in connection.execute("select value from rows"))


ONCE = Counter(range(NUMBERS))


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("skip", [0, 3])
@pytest.mark.parametrize(
    "place", ["open", "begin", "invoke", "pre_commit", "pre_committed", "commit", "committed"]
)
def test_failure_between_any_two_steps_loses_and_doubles_nothing(
    restarting, sink, faults, place, skip, parallelism
):
    if place == "open":
        skip = min(skip, parallelism - 1)  # opened once in each subtask
    faults.arm(place, skip=skip)
    run(restarting(parallelism), sink)
    assert faults.armed() == []
    assert rows(sink) == ONCE
    assert os.listdir(sink.staging) == []


def test_function_before_the_sink_may_fail_at_any_record(restarting, sink, faults):
    for place, skip in (("a", 0), ("b", 20), ("c", 45)):
        faults.arm(place, skip=skip)

    def failing(value, faults=faults):
        for place in "abc":
            faults.hit(place)
        return value

    run(restarting(2), sink, failing)
    assert faults.armed() == []
    assert rows(sink) == ONCE


def test_several_failures_one_after_the_other(restarting, sink, faults):
    for number, place in enumerate(["begin", "invoke", "pre_commit", "commit", "committed", "aborted"]):
        faults.arm(place, skip=number)
    run(restarting(2, records=3), sink)
    assert rows(sink) == ONCE


def test_without_checkpoints_everything_is_committed_at_the_end(restarting, sink):
    environment = restarting(2)
    environment._configuration.remove_config("execution.checkpointing.interval")
    run(environment, sink)
    assert rows(sink) == ONCE
    assert os.listdir(sink.staging) == []


def test_commit_that_never_succeeds_fails_the_job_and_names_the_sink(restarting, sink, faults):
    for number in range(3):
        faults.arm(f"c{number}")

    class Unlucky(SqliteSink):
        def commit(self, committable):
            raise OSError("the database is gone")

    environment = restarting(1)
    environment._configuration.set_integer("restart-strategy.fixed-delay.attempts", 1)
    with pytest.raises(JobExecutionError) as caught:
        run(environment, Unlucky(sink.database, sink.staging, faults))
    assert isinstance(caught.value.__cause__, SinkError)
    assert "the database is gone" in caught.value.__cause__.message
    assert "Unlucky" in caught.value.__cause__.detail


class Recorder(TwoPhaseCommitSink):
    """Notes what is called."""

    def __init__(self):
        self.calls = []
        self.number = 0

    def begin_transaction(self):
        self.number += 1
        self.calls.append(f"begin {self.number}")
        return self.number

    def invoke(self, transaction, value, context):
        self.calls.append(f"invoke {transaction} {value} {context.timestamp()}")

    def commit(self, committable):
        self.calls.append(f"commit {committable}")

    def abort(self, committable):
        self.calls.append(f"abort {committable}")

    def recover_and_commit(self, committable):
        self.calls.append(f"recover {committable}")

    def recover_and_abort(self, transaction):
        self.calls.append(f"recover abort {transaction}")


def test_writer_begins_with_the_first_record_and_behind_each_checkpoint():
    sink = Recorder()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    writer.write(Rows(["a", "b"], [5, 6]), watermark_ms=0, now_ms=0)
    assert writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=False) == []
    assert writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False) == [1]
    assert writer.snapshot() == (2,)
    writer.write(Rows(["c"]), watermark_ms=0, now_ms=0)
    writer.abort()
    writer.close()
    assert sink.calls == ["begin 1", "invoke 1 a 5", "invoke 1 b 6", "begin 2", "invoke 2 c None", "abort 2"]


def test_restored_writer_aborts_what_was_open_and_restored_committables_are_recovered():
    sink = Recorder()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 1))
    writer.restore([(7,), (8,)], others=[(9,)])
    writer.open()
    sink.build_committer().recover([3])
    assert sink.calls == ["recover abort 7", "recover abort 8", "recover 3"]


class Listed(Recorder):
    """Knows what is staged, by its name."""

    def __init__(self, *staged):
        super().__init__()
        self.listed = list(staged)

    def staged_transactions(self):
        return self.listed


def context(subtask=0, attempt=1, began_ms=100, job="job", operator="id", generation=0):
    return WriterContext(job, "sink", subtask, 2, attempt, None, operator, began_ms, generation=generation)


def opened(sink, where, snapshots=None, others=()):
    writer = sink.build_writer(where)
    if snapshots is not None:
        writer.restore(snapshots, others=others)
    writer.open()
    return writer


def test_a_driver_that_took_over_knows_what_the_one_before_staged_whatever_their_clocks_say():
    own = context(generation=3, began_ms=100)
    former = [context(began_ms=900), context(began_ms=900, generation=2), context(generation=3, began_ms=50)]
    later = [context(began_ms=1, generation=4), context(generation=3, began_ms=200)]
    assert all(own.is_of_former(f"staged-{each.new_name()}.ready") for each in former)
    assert not any(own.is_of_former(each.new_name()) for each in later)
    assert own.is_of_former(own.new_name(), or_own=True)
    assert not own.is_of_former(own.new_name())


def test_what_former_attempts_staged_is_aborted_and_nothing_else():
    former = [
        context(attempt=0, began_ms=50).new_name(),
        context(subtask=1, attempt=0, began_ms=50).new_name() + ".ready",
        context(attempt=7, began_ms=20).new_name(),  # of a driver that was lost
    ]
    others = [
        context().new_name(),
        context(attempt=2, began_ms=150).new_name(),  # this attempt is a zombie then
        context(attempt=0, began_ms=50, generation=2).new_name(),  # this driver is, whatever the clocks say
        context(attempt=0, began_ms=50, job="another").new_name(),
        context(attempt=0, began_ms=50, operator="another").new_name(),
        "somebody's",
    ]
    sink = Listed(*former, *others)
    opened(sink, context())
    assert sink.calls == [f"recover abort {name}" for name in former]


@pytest.mark.parametrize("where", [context(subtask=1), context(attempt=0)])
def test_one_subtask_looks_for_all_and_only_if_there_was_an_attempt_before(where):
    sink = Listed(context(attempt=0, began_ms=5).new_name())
    opened(sink, where)
    assert sink.calls == []


def test_an_attempt_of_a_new_driver_looks_as_well():
    left = context(attempt=3, began_ms=5).new_name()
    sink = Listed(left)
    opened(sink, context(attempt=0), snapshots=[], others=[(1,)])
    assert sink.calls == [f"recover abort {left}"]


def test_what_zombies_staged_meanwhile_is_aborted_at_the_end_of_the_job_and_only_there():
    sink = Listed()
    for end_of_input in (False, True):
        writer = opened(sink, context())
        sink.listed = [context(attempt=0, began_ms=50).new_name()]
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=end_of_input)
        writer.close()
        assert sink.calls == ([f"recover abort {sink.listed[0]}"] if end_of_input else [])
        sink.listed = []


def test_a_job_that_fails_with_its_last_commit_does_not_clear_up():
    sink = Listed()
    writer = opened(sink, context())
    sink.listed = [context().new_name()]
    writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    writer.abort()
    writer.close()
    assert sink.calls == []


def test_behind_the_last_record_no_transaction_is_begun():
    sink = Recorder()
    writer = opened(sink, context())
    writer.write(Rows(["a"]), watermark_ms=0, now_ms=0)
    assert writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True) == [1]
    assert writer.snapshot() == ()
    writer.close()
    assert sink.calls == ["begin 1", "invoke 1 a None"]


def test_after_rescaling_each_former_transaction_is_aborted_by_one_subtask():
    aborted = []
    for snapshots, others in (([(1,), (3,)], [(2,)]), ([(2,)], [(1,), (3,)]), ([], [(1,), (2,), (3,)])):
        sink = Recorder()
        opened(sink, context(), snapshots, others)
        aborted += sink.calls
    assert sorted(aborted) == ["recover abort 1", "recover abort 2", "recover abort 3"]
