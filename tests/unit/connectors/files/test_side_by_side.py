"""Many files at once: cut by bucket in one pass, finished side by side, one sync for each file and directory."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import Counter

import pytest

from millstream.base.errors import SinkError, TypeMismatchError
from millstream.connectors.files import gathering
from millstream.connectors.files import side_by_side as module
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.rolling import RollingPolicy
from millstream.connectors.files.side_by_side import side_by_side
from millstream.connectors.files.sink import FileSink
from millstream.files.file_systems import FileSystemSettings, S3Settings, current, using
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.spi.batch import Rows
from millstream.spi.serialization import BulkWriter, BulkWriterFactory, Encoder
from millstream.spi.sink import WriterContext
from millstream.table import DataTypes
from millstream.verify.disk import _path_of

ROW = DataTypes.ROW(
    [DataTypes.FIELD("bucket", DataTypes.INT()), DataTypes.FIELD("n", DataTypes.TINYINT(nullable=False))]
)
BUCKETS = 40


class ByFirst(BucketAssigner):
    asked = 0

    def get_bucket_id(self, element, context):
        ByFirst.asked += 1
        return f"bucket={element[0]}"


class Noting(BulkWriterFactory):
    """Writes the texts of records; tells what was called, and where."""

    def __init__(self):
        self.added = []
        self.finishing = set()

    def create(self, file):
        return _NotingWriter(self, file)


class _NotingWriter(BulkWriter):
    def __init__(self, factory, file):
        self.factory, self.file = factory, file

    def add_elements(self, elements):
        self.factory.added.append(list(elements))
        self.file.write(f"{elements}".encode())

    def finish(self):
        self.factory.finishing.add(threading.current_thread())


def rows_sink(path):
    made = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    made.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return made.with_bucket_assigner(ByFirst()).build()


def bulk_sink(path, factory=None):
    made = FileSink.for_bulk_format(str(path), factory or ParquetBulkWriters.for_row_type(ROW))
    return made.with_bucket_assigner(ByFirst()).build()


def writer_of(sink):
    sink.check()
    return sink.build_writer(WriterContext("job", "sink", 0, 1, 0))


def write(writer, values):
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)


def end(writer, checkpoint=True):
    return writer.prepare_commit(now_ms=0, checkpoint=checkpoint, end_of_input=False)


def files_of(path):
    return [file for file in path.rglob("*") if file.is_file()]


@pytest.fixture
def synced(monkeypatch):
    """Count what is synced, by path."""
    counts = Counter()
    right = os.fsync

    def fsync(descriptor):
        path = _path_of(descriptor)
        counts[("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file", path)] += 1
        right(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return counts


@pytest.mark.parametrize("build", [rows_sink, bulk_sink])
def test_each_file_and_each_directory_is_synced_once_an_epoch(tmp_path, synced, build):
    sink = build(tmp_path / "out")
    writer, committer = writer_of(sink), sink.build_committer()
    for epoch in range(2):
        synced.clear()
        for _ in range(5):
            write(writer, [(bucket, 1) for bucket in range(BUCKETS)])
        committables = end(writer)
        writer.snapshot()
        buckets = {("directory", str(tmp_path / "out" / f"bucket={bucket}")) for bucket in range(BUCKETS)}
        above = {("directory", str(tmp_path / "out"))} if epoch == 0 else set()
        staged = {("file", committable.staged_path) for committable in committables}
        assert len(staged) == BUCKETS
        assert synced == Counter(buckets | above | staged)
        synced.clear()
        committer.commit(committables)
        assert synced == Counter(buckets)


def test_files_that_stay_open_over_a_checkpoint_are_synced_once(tmp_path, synced):
    made = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    writer = writer_of(made.with_bucket_assigner(ByFirst()).build())
    write(writer, [(bucket, 1) for bucket in range(BUCKETS)])
    assert end(writer) == []
    synced.clear()
    opened = writer.snapshot().open
    assert [file.bucket_id for file in opened] == [f"bucket={bucket}" for bucket in range(BUCKETS)]
    assert {number for (_, _), number in synced.items()} == {1}
    assert sum(kind == "file" for kind, _ in synced) == BUCKETS


@pytest.mark.parametrize("build", [rows_sink, bulk_sink])
def test_files_wait_for_the_disk_side_by_side(tmp_path, monkeypatch, build):
    together = threading.Barrier(8)

    def fsync(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            together.wait(10)  # broken unless eight wait at once

    writer = writer_of(build(tmp_path))
    monkeypatch.setattr(os, "fsync", fsync)
    write(writer, [(bucket, 1) for bucket in range(16)])
    assert len(end(writer)) == 16


def compacting(path, compactor):
    made = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    made.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).with_bucket_assigner(ByFirst())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    return made.enable_compact(strategy, compactor).build()


def waiting_twice(writer, buckets):
    """Have two files wait in each bucket; the next checkpoint merges them."""
    write(writer, [(bucket, 1) for bucket in range(buckets)])
    assert end(writer) == []
    write(writer, [(bucket, 2) for bucket in range(buckets)])


def test_merged_files_wait_for_the_disk_side_by_side(tmp_path, monkeypatch):
    together = threading.Barrier(8)
    sink = compacting(tmp_path, FileCompactor.concat_file_compactor())
    writer = writer_of(sink)
    waiting_twice(writer, 16)
    right = os.fsync

    def fsync(descriptor):
        if "/.compacted-" in _path_of(descriptor):
            together.wait(10)
        right(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    sink.build_committer().commit(end(writer))
    assert sorted(file.read_text() for file in files_of(tmp_path)) == sorted(
        f"({bucket}, 1)\n({bucket}, 2)\n" for bucket in range(16)
    )


def test_a_merge_that_fails_leaves_none_of_its_round(tmp_path):
    class FailsAtLast(FileCompactor):
        merged = 0

        def compact(self, inputs, output):
            self.merged += 1
            if self.merged == 6:
                raise SinkError("not this one")
            output.write(b"".join(file.read() for file in inputs))

    writer = writer_of(compacting(tmp_path, FailsAtLast()))
    waiting_twice(writer, 6)
    with pytest.raises(SinkError, match="not this one"):
        end(writer)
    assert [file.name for file in files_of(tmp_path) if "compacted" in file.name] == []
    assert len(files_of(tmp_path)) == 12, "what waited still does"
    writer.abort()
    assert files_of(tmp_path) == []


@pytest.mark.parametrize("build", [rows_sink, bulk_sink])
def test_one_file_that_fails_is_named_and_the_others_are_removed(tmp_path, monkeypatch, build):
    writer = writer_of(build(tmp_path))
    right = os.fsync

    def fsync(descriptor):
        if "bucket=23/" in _path_of(descriptor):
            raise OSError(28, "No space left on device")
        right(descriptor)

    write(writer, [(bucket, 1) for bucket in range(BUCKETS)])
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SinkError, match=r"(?s)bucket=23/part-0-.* could not be written.*No space left"):
        end(writer)
    before = threading.active_count()
    writer.abort()
    writer.close()
    assert files_of(tmp_path) == []
    assert threading.active_count() == before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("file-sink")]


def test_a_file_that_cannot_be_closed_any_more_does_not_keep_the_others_from_being_removed(tmp_path):
    writer = writer_of(rows_sink(tmp_path))
    write(writer, [(bucket, 1) for bucket in range(3)])
    first = next(iter(writer._open.values()))
    os.close(first._file.fileno())  # what is buffered cannot be written any more
    writer.abort()
    assert files_of(tmp_path) == []


def test_a_users_format_is_called_on_the_subtasks_thread_only(tmp_path):
    noting = Noting()
    writer = writer_of(bulk_sink(tmp_path, noting))
    write(writer, [(bucket, 1) for bucket in range(BUCKETS)])
    assert len(end(writer)) == BUCKETS
    assert noting.finishing == {threading.current_thread()}


def test_records_of_an_epoch_reach_a_bulk_format_bucket_by_bucket(tmp_path):
    noting, ByFirst.asked = Noting(), 0
    writer = writer_of(bulk_sink(tmp_path, noting))
    for n in range(10):
        write(writer, [(n % 2, n), (2, n)])
    assert noting.added == []
    end(writer, checkpoint=False)
    assert noting.added == [
        [(0, n) for n in range(0, 10, 2)],
        [(2, n) for n in range(10)],
        [(1, n) for n in range(1, 10, 2)],
    ]
    assert ByFirst.asked == 20


def test_records_do_not_wait_in_any_number(tmp_path, monkeypatch):
    monkeypatch.setattr(gathering, "_MOST_RECORDS", 6)
    noting = Noting()
    writer = writer_of(bulk_sink(tmp_path, noting))
    for n in range(5):
        write(writer, [(0, n), (1, n)])
    assert noting.added == [[(0, 0), (0, 1), (0, 2)], [(1, 0), (1, 1), (1, 2)]]
    end(writer)
    assert noting.added[2:] == [[(0, 3), (0, 4)], [(1, 3), (1, 4)]]


@pytest.mark.parametrize("batch", [1, 100])
def test_large_records_do_not_wait_until_there_are_many(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(gathering, "_MOST_BYTES", 1 << 20)
    noting = Noting()
    writer = writer_of(bulk_sink(tmp_path, noting))
    record = (0, "x" * 4096)
    for _ in range(500 // batch):
        write(writer, [record] * batch)
    assert 1 <= len(noting.added) <= 2
    assert sum(map(len, noting.added)) < 500
    end(writer)
    assert sum(map(len, noting.added)) == 500


@pytest.mark.parametrize("value", [300, None])
def test_a_record_that_does_not_fit_fails_in_its_epoch_also_without_a_checkpoint(tmp_path, value):
    writer = writer_of(bulk_sink(tmp_path))
    write(writer, [(1, 1), (1, value)])
    with pytest.raises(TypeMismatchError, match=f"column 'n': value {value}"):
        end(writer, checkpoint=False)
    writer.abort()
    assert files_of(tmp_path) == []


def test_what_was_gathered_is_gone_after_an_abort(tmp_path):
    writer = writer_of(bulk_sink(tmp_path))
    write(writer, [(1, 1)])
    writer.abort()
    writer.close()
    assert files_of(tmp_path) == []


def test_results_come_in_order_and_actions_are_taken_on_the_callers_thread():
    taken = []

    def actions():
        for number in range(50):
            taken.append(threading.current_thread())
            yield lambda number=number: (number, threading.current_thread())

    results = side_by_side(actions())
    assert [number for number, _ in results] == list(range(50))
    assert set(taken) == {threading.current_thread()}
    assert threading.current_thread() not in {thread for _, thread in results}
    assert side_by_side([]) == []
    assert side_by_side([threading.current_thread]) == [threading.current_thread()], (
        "one needs no other thread"
    )


def test_a_failure_keeps_those_from_beginning_that_have_not(monkeypatch):
    monkeypatch.setattr(module, "_THREADS", 2)
    begun, all_taken, failed = [], threading.Event(), threading.Event()

    def action(number):
        begun.append(number)
        assert all_taken.wait(10)
        if number == 0:
            failed.set()
            raise ValueError("the first")
        failed.wait(10)
        time.sleep(0.01)

    def actions():
        for number in range(200):
            yield lambda number=number: action(number)
        all_taken.set()

    with pytest.raises(ValueError, match="the first"):
        side_by_side(actions())
    assert len(begun) < 100


def test_those_begun_have_ended_when_no_further_can_be_taken():
    ended = []

    def actions():
        for number in range(4):
            yield lambda number=number: ended.append(number)
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        side_by_side(actions())
    running = [thread for thread in threading.enumerate() if thread.name.startswith("file-sink")]
    assert running == []
    assert set(ended) <= {0, 1, 2, 3}


def test_what_is_done_side_by_side_reaches_file_systems_as_the_job_does():
    settings = FileSystemSettings(s3=S3Settings(region="of this job"))
    with using(settings):
        seen = side_by_side([lambda: (threading.get_ident(), current())] * 3)
    assert [found for _, found in seen] == [settings] * 3
    assert threading.get_ident() not in dict(seen)
