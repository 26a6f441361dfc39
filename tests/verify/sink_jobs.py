"""Jobs whose sinks are proved themselves: of users' own in two phases, written ahead, files that roll and are merged.

Records are `key number`, numbered from 0 for each key, so a reader can tell at any moment whether one is missing.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from glob import glob
from pathlib import Path

from verify_jobs import captured

from millstream.base.crash_points import reach
from millstream.common import Duration, Encoder, Row, Types
from millstream.connectors.two_phase import TwoPhaseCommitSink
from millstream.connectors.write_ahead import WriteAheadSink
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.table import DataTypes

COUNT = 90


class StagedLines(TwoPhaseCommitSink):
    """Lines in hidden files; a commit takes the dot off the name."""

    def __init__(self, directory="/nowhere"):
        self.directory = directory

    def at(self, directory):
        os.makedirs(directory, exist_ok=True)
        return type(self)(directory)

    def visible(self):
        for path in sorted(glob(f"{self.directory}/*")):
            yield from Path(path).read_text().splitlines()

    def staged(self):
        return glob(f"{self.directory}/.*")

    def open(self, context):
        self.context = context

    def begin_transaction(self):
        return f"{self.directory}/.{self.context.new_name()}"

    def invoke(self, transaction, value, context):
        with open(transaction, "a") as file:
            print(value, file=file)

    def pre_commit(self, transaction):
        return transaction if os.path.exists(transaction) else None

    def commit(self, committable):
        if os.path.exists(committable):  # else it was committed before
            os.rename(committable, committable.replace("/.", "/"))

    def abort(self, committable):
        Path(committable).unlink(missing_ok=True)

    def staged_transactions(self):
        return self.staged()


class SqliteRows(TwoPhaseCommitSink):
    """Rows staged in files of two states; a commit writes them to a database, with a row that tells that it did."""

    def __init__(self, directory="/nowhere"):
        self.directory = directory

    def at(self, directory):
        os.makedirs(directory, exist_ok=True)
        return type(self)(directory)

    def connect(self):
        connection = sqlite3.connect(f"{self.directory}/rows.db", isolation_level=None)
        connection.execute("pragma synchronous = off")
        connection.execute("pragma journal_mode = memory")
        connection.execute("create table if not exists rows (value)")
        connection.execute("create table if not exists done (name primary key)")
        return closing(connection)

    def visible(self):
        if not os.path.exists(f"{self.directory}/rows.db"):
            return []
        with self.connect() as connection:
            return [value for (value,) in connection.execute("select value from rows")]

    def staged(self):
        return glob(f"{self.directory}/staged-*")

    def open(self, context):
        self.context = context

    def begin_transaction(self):
        return f"{self.directory}/staged-{self.context.new_name()}"

    def invoke(self, transaction, value, context):
        with open(transaction, "a") as file:
            file.write(json.dumps(value) + "\n")

    def pre_commit(self, transaction):
        if not os.path.exists(transaction):
            return None
        os.rename(transaction, f"{transaction}.ready")
        return f"{transaction}.ready"

    def commit(self, committable):
        if not os.path.exists(committable):
            return
        with self.connect() as connection:
            if self.is_done(connection, committable):
                return self.abort(committable)
            rows = [(json.loads(line),) for line in Path(committable).read_text().splitlines()]
            connection.execute("begin")
            connection.executemany("insert into rows values (?)", rows)
            connection.execute("insert into done values (?)", [committable])
            connection.execute("commit")
        reach("sink.publish", f"{committable}, in the database")
        self.abort(committable)

    def is_done(self, connection, committable):
        return connection.execute("select 1 from done where name = ?", [committable]).fetchone()

    def abort(self, committable):
        for path in (committable, f"{committable}.ready"):
            Path(path).unlink(missing_ok=True)

    def staged_transactions(self):
        return self.staged()


class SentOnce(WriteAheadSink):
    """A target that has one file for each subtask and checkpoint, replaced if it is sent again."""

    def at(self, directory):
        os.makedirs(f"{directory}/target", exist_ok=True)
        return type(self)(directory=f"{directory}/waiting")

    @property
    def target(self):
        return self._directory.removesuffix("waiting") + "target"

    def visible(self):
        for path in sorted(glob(f"{self.target}/*")):
            yield from json.loads(Path(path).read_text())

    def staged(self):
        return glob(f"{self._directory}/*.waiting")

    def synced(self):
        return [self._directory]

    def send_values(self, values, checkpoint_id, subtask_index):
        hidden = f"{self.target}/.{subtask_index}"
        Path(hidden).write_text(json.dumps(values))
        os.replace(hidden, f"{self.target}/{subtask_index}-{checkpoint_id}")
        return True


def numbered(count=COUNT):
    """Return (key, number), each key's numbered from 0."""
    seen = Counter()
    records = []
    for n in range(count):
        key = n * n % 17 % 7
        records.append((key, seen[key]))
        seen[key] += 1
    return records


def text(record):
    return f"{record[0]} {record[1]}"


def keyed(environment, count):
    return environment.from_collection(numbered(count)).key_by(lambda record: record[0])


def unbucketed(builder):
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def rows_to(name):
    return unbucketed(FileSink.for_row_format(f"/nowhere/{name}", Encoder.simple_string_encoder()))


def transactions(environment, count=COUNT):
    lines = keyed(environment, count).map(text, Types.STRING())
    lines.sink_to(StagedLines())
    lines.sink_to(SqliteRows())
    lines.sink_to(SentOnce())
    lines.sink_to(rows_to("rolled").with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())


def transactions_gives(count=COUNT):
    return [Counter(map(text, numbered(count)))] * 4


def in_database(environment):
    keyed(environment, 40).map(text, Types.STRING()).sink_to(SqliteRows())


def written_ahead(environment):
    keyed(environment, 40).map(text, Types.STRING()).sink_to(SentOnce())


class ByKey(BucketAssigner):
    """A directory for each key, so that there are several open files."""

    def get_bucket_id(self, element, context):
        return f"key-{element.partition(' ')[0]}"


ROW = DataTypes.ROW([DataTypes.FIELD("key", DataTypes.INT()), DataTypes.FIELD("number", DataTypes.INT())])


def rolling_and_merging(environment, count=COUNT):
    stream = keyed(environment, count)
    lines = stream.map(text, Types.STRING())
    by_size_and_age = RollingPolicy.default_rolling_policy(24, 60, 40)
    lines.sink_to(
        rows_to("sized")
        .with_rolling_policy(by_size_and_age)
        .with_bucket_check_interval(Duration.of_millis(10))
        .with_bucket_assigner(ByKey())
        .build()
    )
    by_checkpoints = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    lines.sink_to(
        rows_to("merged")
        .with_rolling_policy(RollingPolicy.default_rolling_policy(40, 10**6, 10**6))
        .enable_compact(by_checkpoints, FileCompactor.concat_file_compactor())
        .build()
    )
    by_size = FileCompactStrategy.builder().set_size_threshold(2_000).build()
    stream.map(
        lambda record: Row(key=record[0], number=record[1]),
        Types.ROW_NAMED(["key", "number"], [Types.INT(), Types.INT()]),
    ).sink_to(
        unbucketed(FileSink.for_bulk_format("/nowhere/parquet", ParquetBulkWriters.for_row_type(ROW)))
        .enable_compact(by_size, FileCompactor.identical_file_compactor())
        .build()
    )


def rolling_and_merging_gives(count=COUNT):
    lines = Counter(map(text, numbered(count)))
    return [lines, lines, Counter(repr({"key": key, "number": n}) for key, n in numbered(count))]


def is_prefix(label, records):
    """Complain if a key's number is seen before all smaller ones are: commits come in order, as wholes."""
    numbers = defaultdict(list)
    for record in records:
        key, number = re.fullmatch(r"(\d+) (\d+)", record).groups()
        numbers[key].append(int(number))
    for key, seen in numbers.items():
        if sorted(seen) != list(range(len(seen))):
            return f"of key {key} readers see {sorted(seen)}"
    return None


SINK_JOBS = {
    "transactions": (transactions, transactions_gives, is_prefix),
    "rolling and merging": (rolling_and_merging, rolling_and_merging_gives, None),
}
__all__ = ["SINK_JOBS", "captured"]
