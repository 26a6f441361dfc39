"""The conformance suite of sinks: millstream's own pass it, and a sink with a bug is told which rule it breaks."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from itertools import count
from pathlib import Path

import pytest

from millstream.common import Encoder, Row
from millstream.connectors.write_ahead import WriteAheadSink
from millstream.datastream.connectors.base import TwoPhaseCommitSink
from millstream.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from millstream.datastream.formats.json import JsonLinesBulkWriters
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.datastream.functions import SinkFunction
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, Sink, SinkWriter
from millstream.table import DataTypes
from millstream.testing.check_sink import check_sink, check_sink_in_jobs
from millstream.testing.rules import ContractViolation
from millstream.testing.sink_run import SinkRule, SinkTarget

FEW = {"parallelisms": ((1, 1), (3, 2))}


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """No power fails here, so nothing need be synced to the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def numbered(tmp_path):
    """Give a new directory with each call."""
    numbers = count()

    def new():
        directory = tmp_path / str(next(numbers))
        directory.mkdir(parents=True)
        return directory

    return new


def lines(directory):
    return [
        line
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    ]


def hidden(directory):
    return [str(path) for path in directory.rglob(".*") if path.is_file()]


@pytest.mark.parametrize(
    "policy", [RollingPolicy.default_rolling_policy(), RollingPolicy.on_checkpoint_rolling_policy()]
)
def test_files_of_lines_pass(tmp_path, policy):
    new = numbered(tmp_path)

    def target():
        home = new()
        builder = FileSink.for_row_format(str(home), Encoder.simple_string_encoder())
        sink = builder.with_rolling_policy(policy).build()
        return SinkTarget(sink, lambda: lines(home), lambda: hidden(home))

    check_sink(target, key=str, **FEW)


def test_parquet_files_pass(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    new = numbered(tmp_path)
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])

    def target():
        home = new()
        sink = FileSink.for_bulk_format(str(home), ParquetBulkWriters.for_row_type(kind)).build()

        def read():
            paths = [path for path in home.rglob("*") if path.is_file() and not path.name.startswith(".")]
            return [Row(**row) for path in paths for row in parquet.read_table(path).to_pylist()]

        return SinkTarget(sink, read, lambda: hidden(home))

    check_sink(target, record=lambda number: Row(n=number), parallelisms=((2, 1),))


def test_json_lines_and_compacted_files_pass(tmp_path):
    new = numbered(tmp_path)
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])

    def json_lines():
        home = new()
        sink = FileSink.for_bulk_format(str(home), JsonLinesBulkWriters.for_schema(kind)).build()
        return SinkTarget(
            sink, lambda: [Row(**json.loads(line)) for line in lines(home)], lambda: hidden(home)
        )

    def compacted():
        home = new()
        strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
        builder = FileSink.for_row_format(str(home), Encoder.simple_string_encoder())
        builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        sink = builder.enable_compact(strategy, FileCompactor.concat_file_compactor(b"\n")).build()
        return SinkTarget(sink, lambda: [line for line in lines(home) if line], lambda: hidden(home))

    check_sink(json_lines, record=lambda number: Row(n=number), parallelisms=((1, 2),))
    check_sink(compacted, key=str, parallelisms=((2, 1),))


class Ahead(WriteAheadSink):
    """Sends into files named by subtask and checkpoint: idempotent."""

    def __init__(self, target, waiting):
        super().__init__(directory=waiting)
        self.target = target

    def send_values(self, values, checkpoint_id, subtask_index):
        name = f"{self.job_id}-{checkpoint_id}-{subtask_index}"
        Path(self.target, name).write_text("".join(f"{value}\n" for value in values))
        return True


def test_a_write_ahead_sink_passes(tmp_path):
    new = numbered(tmp_path)

    def target():
        home, waiting = new(), new()
        staged = lambda: [path.name for path in waiting.iterdir() if path.suffix != ".sent"]  # noqa: E731
        return SinkTarget(Ahead(str(home), str(waiting)), lambda: lines(home), staged)

    check_sink(target, key=str, **FEW)


class Database(TwoPhaseCommitSink):
    """Stages rows in files; a commit writes them together with a marker, in one transaction."""

    def __init__(self, home):
        self.database = str(home / "database")
        self.staging = str(home / "staging")

    def open(self, context):
        self.context = context
        os.makedirs(self.staging, exist_ok=True)

    def begin_transaction(self):
        return os.path.join(self.staging, self.context.new_name())

    def staged_transactions(self):
        return [os.path.join(self.staging, name) for name in os.listdir(self.staging)]

    def invoke(self, transaction, value, context):
        with open(transaction, "a") as file:
            file.write(json.dumps(value) + "\n")

    def pre_commit(self, transaction):
        if not os.path.exists(transaction):
            return None
        os.rename(transaction, transaction + ".ready")
        return transaction + ".ready"

    def open_committer(self):
        self.connection = sqlite3.connect(self.database)
        self.connection.execute("pragma synchronous = off")
        self.connection.execute("create table if not exists rows (value)")
        self.connection.execute("create table if not exists done (name primary key)")

    def commit(self, committable):
        with self.connection as connection:
            if connection.execute("select 1 from done where name = ?", [committable]).fetchone() is None:
                rows = [(json.loads(line),) for line in Path(committable).read_text().splitlines()]
                connection.executemany("insert into rows values (?)", rows)
                connection.execute("insert into done values (?)", [committable])
        Path(committable).unlink(missing_ok=True)

    def abort(self, committable):
        for name in (committable, f"{committable}.ready"):
            Path(name).unlink(missing_ok=True)

    def close_committer(self):
        self.connection.close()

    def read(self):
        if not os.path.exists(self.database):
            return []
        connection = sqlite3.connect(self.database)
        try:
            return [value for (value,) in connection.execute("select value from rows")]
        finally:
            connection.close()

    def staged(self):
        return os.listdir(self.staging) if os.path.exists(self.staging) else []


def test_a_two_phase_commit_sink_passes(tmp_path):
    new = numbered(tmp_path)

    def target():
        sink = Database(new())
        return SinkTarget(sink, sink.read, sink.staged)

    check_sink(target, **FEW)


def test_printing_passes():
    check_sink_in_jobs(
        lambda: (
            lambda stream: stream.print(),
            lambda cluster: [line.split("> ")[-1] for line in cluster.printed],
        ),
        key=str,
        at_least_once=True,
    )


class Remember(SinkFunction):
    values = {}

    def __init__(self):
        super().__init__()
        self.name = len(self.values)
        self.values[self.name] = []

    def invoke(self, value):
        self.values[self.name].append(value)


def test_a_sink_function_passes_at_least_once_and_not_exactly_once():
    def new():
        function = Remember()
        return lambda stream: stream.add_sink(function), lambda _: Remember.values[function.name]

    check_sink_in_jobs(new, at_least_once=True)
    with pytest.raises(ContractViolation, match="are too many") as raised:
        check_sink_in_jobs(new)
    assert raised.value.rule is SinkRule.JOB


def test_a_job_that_loses_a_record_is_found():
    def new():
        function = Remember()
        return (
            lambda stream: stream.filter(lambda value: value != "7").add_sink(function),
            lambda _: Remember.values[function.name],
        )

    with pytest.raises(ContractViolation, match="1 are missing .*7"):
        check_sink_in_jobs(new, at_least_once=True)


# A sink that is right, and one bug in each of its subclasses


class Folder(Sink):
    """Keeps records in memory over a checkpoint, stages them in hidden files, publishes by giving them their names."""

    def __init__(self, home):
        self.home = home

    def build_writer(self, context):
        return self.Writer(self.home, context)

    def build_committer(self):
        return self.Committer()

    def read(self):
        return lines(self.home)

    def staged(self):
        return hidden(self.home)

    class Writer(SinkWriter):
        def __init__(self, home, context):
            self.home, self.context = home, context
            self.held, self.kept, self.restored, self.ended = [], [], False, False

        def restore(self, snapshots, *, others):
            self.restored = True
            self.held = [value for snapshot in snapshots for value in snapshot]

        def open(self):
            if self.context.subtask_index == 0 and (self.context.attempt or self.restored):
                self.clear(or_own=False)

        def clear(self, or_own):
            for path in self.home.iterdir():
                if path.name.startswith(".") and self.context.is_of_former(path.name, or_own=or_own):
                    path.unlink(missing_ok=True)

        def write(self, batch, *, watermark_ms, now_ms):
            self.kept += batch.values

        def name(self):
            return f".{self.context.new_name()}"

        def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
            if not checkpoint and not end_of_input:
                return []
            ready, self.held, self.kept = self.held, self.kept, []
            if end_of_input:
                ready, self.held, self.ended = ready + self.held, [], True
            return [self.stage(ready)] if ready else []

        def stage(self, ready):
            path = self.home / self.name()
            path.write_text("".join(f"{value}\n" for value in ready))
            return str(path)

        def snapshot(self):
            return list(self.held)

        def close(self):
            if self.context.subtask_index == 0 and self.ended:
                self.clear(or_own=True)

    class Committer(Committer):
        def commit(self, committables):
            for committable in committables:
                staged = Path(committable)
                if staged.exists():
                    staged.rename(staged.with_name(staged.name[1:]))

        def abort(self, committables):
            for committable in committables:
                Path(committable).unlink(missing_ok=True)


class Unpicklable(Folder):
    class Writer(Folder.Writer):
        def snapshot(self):
            return [threading.Lock()]


class RefusesNothing(Folder):
    class Writer(Folder.Writer):
        def write(self, batch, *, watermark_ms, now_ms):
            self.kept += batch.values
            self.first = batch.values[0]


class PublishesEarly(Folder):
    class Writer(Folder.Writer):
        def name(self):
            return self.context.new_name()


class TakesBack(Folder):
    class Committer(Folder.Committer):
        def commit(self, committables):
            for path in Path(committables[0]).parent.iterdir():
                if not path.name.startswith("."):
                    path.unlink()
            super().commit(committables)


class ForgetsTheLast(Folder):
    class Writer(Folder.Writer):
        def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
            return super().prepare_commit(now_ms=now_ms, checkpoint=checkpoint, end_of_input=False)


class WritesTwice(Folder):
    class Writer(Folder.Writer):
        def stage(self, ready):
            return super().stage(ready + ready[:1])


class AppendsAgain(Folder):
    class Committer(Folder.Committer):
        def commit(self, committables):
            for committable in committables:
                staged = Path(committable)
                lines = staged.read_text()
                with staged.with_name(staged.name[1:]).open("a") as published:
                    published.write(lines)


class RecoversNothing(Folder):
    class Committer(Folder.Committer):
        def recover(self, committables):
            pass


class OnlyItsOwn(Folder):
    """Takes over the snapshot of the subtask of the same number, and no other."""

    class Writer(Folder.Writer):
        def restore(self, snapshots, *, others):
            super().restore(snapshots[:1], others=others)


class ClearsForOthers(Folder):
    """Removes all that is staged when it is aborted, whoever staged it."""

    class Writer(Folder.Writer):
        def abort(self):
            for path in self.home.glob(".*"):
                path.unlink()


class KnowsItsJob(Folder):
    class Writer(Folder.Writer):
        def snapshot(self):
            return self.context.job_id, self.held

        def restore(self, snapshots, *, others):
            own = [held for job_id, held in snapshots if job_id == self.context.job_id]
            super().restore(own, others=others)


class NeverClears(Folder):
    class Writer(Folder.Writer):
        def clear(self, or_own):
            pass


class ClearsWhenTold(Folder):
    """Takes what it is told of a checkpoint for news of its commit."""

    class Writer(Folder.Writer):
        def stage(self, ready):
            self.staged = super().stage(ready)
            return self.staged

        def checkpoint_completed(self, checkpoint_id):
            os.path.exists(getattr(self, "staged", "")) and os.unlink(self.staged)


BUGS = {
    Unpicklable: SinkRule.TRAVELS,
    RefusesNothing: SinkRule.WORKS,
    PublishesEarly: SinkRule.HIDDEN,
    TakesBack: SinkRule.STAYS,
    ForgetsTheLast: SinkRule.COMPLETE,
    WritesTwice: SinkRule.ONCE,
    ClearsWhenTold: SinkRule.LATE_COMMITS,
    AppendsAgain: SinkRule.REPLAYED_COMMITS,
    RecoversNothing: SinkRule.RESTARTED,
    OnlyItsOwn: SinkRule.RESCALED,
    ClearsForOthers: SinkRule.ZOMBIES,
    KnowsItsJob: SinkRule.SAVEPOINTS,
    NeverClears: SinkRule.LEFTOVERS,
}


def folders(tmp_path, kind):
    new = numbered(tmp_path)

    def target():
        sink = kind(new())
        return SinkTarget(sink, sink.read, sink.staged)

    return target


def test_a_right_sink_passes(tmp_path):
    check_sink(folders(tmp_path, Folder))


class TakesBoth(Folder):
    """Takes columns as well as rows."""

    forms = set()

    class Writer(Folder.Writer):
        takes_columns = True

        def write(self, batch, *, watermark_ms, now_ms):
            TakesBoth.forms.add(type(batch).__name__)
            self.kept += batch.to_rows().values


class LosesColumns(Folder):
    class Writer(Folder.Writer):
        takes_columns = True

        def write(self, batch, *, watermark_ms, now_ms):
            if isinstance(batch, Rows):
                self.kept += batch.values


def test_a_sink_that_takes_columns_is_given_both_forms(tmp_path):
    pytest.importorskip("pyarrow")
    check_sink(folders(tmp_path, TakesBoth), parallelisms=((1, 2),))
    assert TakesBoth.forms == {"Rows", "Columns"}
    with pytest.raises(ContractViolation) as raised:
        check_sink(folders(tmp_path / "other", LosesColumns), parallelisms=((1, 2),))
    assert raised.value.rule is SinkRule.COMPLETE


def test_a_bug_of_each_kind_is_planted():
    assert {*BUGS.values(), SinkRule.JOB} == set(SinkRule)


@pytest.mark.parametrize("sink", BUGS)
def test_a_bug_is_found_and_the_rule_that_it_breaks_is_named(tmp_path, sink):
    with pytest.raises(ContractViolation) as raised:
        check_sink(folders(tmp_path, sink))
    assert raised.value.rule is BUGS[sink], str(raised.value)
    assert f"[{raised.value.rule.name}]" in str(raised.value)
