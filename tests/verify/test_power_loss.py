"""Power fails: what was not synced is lost, and nothing that anybody relies on is among it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from threading import RLock
from unittest import mock

import pytest
from sink_jobs import captured, rolling_and_merging, transactions

from millstream.connectors import receive_log, staged_blocks, write_ahead
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.sink import FileSink
from millstream.connectors.files.writer import FileWriter
from millstream.connectors.receive_log import ReceiveLog, check_log, read_log
from millstream.files import output
from millstream.files import store_local as storage_local
from millstream.files.store_local import LocalStore
from millstream.spi.batch import Rows
from millstream.spi.serialization import Encoder
from millstream.spi.sink import WriterContext
from millstream.verify.compare import compare
from millstream.verify.disk import Disk
from millstream.verify.faults import Fault, FaultKind
from millstream.verify.run import simulate
from millstream.verify.scenario import Scenario

pytestmark = pytest.mark.usefixtures("some_form")

BASE = Scenario(seed=3, parallelism=(2,), epoch_records=12, interval_ms=10, retained=2)


class Never(Random):
    """Nothing is written that was not synced."""

    def random(self):
        return 1.0


class Always(Random):
    """Names are written though nobody has synced them."""

    def random(self):
        return 0.0


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "root").mkdir()
    there = Disk([tmp_path / "root"], tmp_path / "notes")
    with there.installed():
        sync(tmp_path)
        yield there


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def lose(disk, random=None):
    disk.fail(random or Never())
    disk.restart()


def files(root):
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_names_and_contents_are_lost_unless_they_were_synced(tmp_path, disk):
    root = tmp_path / "root"
    (root / "kept").write_bytes(b"all of it")
    sync(root / "kept")
    (root / "empty").write_bytes(b"not synced")
    sync(root)
    (root / "nameless").write_bytes(b"synced")
    sync(root / "nameless")
    (root / "kept").write_bytes(b"all of it and more")
    (root / "directory").mkdir()
    (root / "directory" / "file").write_bytes(b"")
    sync(root / "directory")
    lose(disk)
    assert files(root) == {"kept": b"all of it", "empty": b""}
    assert not (root / "directory").exists()


def test_a_rename_is_lost_unless_its_directory_was_synced(tmp_path, disk):
    root = tmp_path / "root"
    for name in ("a", "b"):
        (root / f"{name}.staged").write_bytes(name.encode())
        sync(root / f"{name}.staged")
    sync(root)
    os.replace(root / "a.staged", root / "a")
    sync(root)
    os.replace(root / "b.staged", root / "b")
    lose(disk)
    assert files(root) == {"a": b"a", "b.staged": b"b"}
    os.replace(root / "b.staged", root / "b")
    lose(disk, Always())
    assert files(root) == {"a": b"a", "b": b"b"}, "a file system may have written it by itself"


def test_what_was_removed_may_be_back(tmp_path, disk):
    root = tmp_path / "root"
    (root / "directory").mkdir()
    (root / "directory" / "file").write_bytes(b"content")
    for path in (root / "directory" / "file", root / "directory", root):
        sync(path)
    (root / "directory" / "file").unlink()
    (root / "directory").rmdir()
    (root / "other").write_bytes(b"")  # takes the place of what is gone
    lose(disk)
    assert files(root) == {"directory/file": b"content"}


def test_a_root_that_was_made_is_lost_with_its_name(tmp_path):
    there = Disk([tmp_path / "new"], tmp_path / "notes")
    with there.installed():
        (tmp_path / "new").mkdir()
        sync(tmp_path / "new")
        lose(there)
        assert not (tmp_path / "new").exists()


def test_what_a_checkpoint_refers_to_in_a_log_of_received_records_is_there(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(receive_log, "_SEGMENT_BYTES", 40)
    directory = str(tmp_path / "root" / "log" / "0")
    log = ReceiveLog(directory)
    for number in range(10):
        log.append(number)
    first = log.sync()
    log.append("in the same segment, and not synced")
    lose(disk)
    check_log(directory, behind=None, through=first)
    assert [entry for entry, _ in read_log(directory)] == list(range(10))
    # An attempt that was killed has not synced what the next one refers to.
    killed = ReceiveLog(directory)
    killed.append(10)
    sync(directory)
    after = ReceiveLog(directory)
    after.append(11)
    end = after.sync()
    lose(disk)
    check_log(directory, behind=None, through=end)
    assert [entry for entry, _ in read_log(directory)] == list(range(12))


def test_a_file_in_a_directory_that_another_subtask_made_and_did_not_sync_is_there(tmp_path, disk):
    class Nested(BucketAssigner):
        def get_bucket_id(self, element, context):
            return "year=2013/day=1"

    made = FileSink.for_row_format(str(tmp_path / "root" / "out"), Encoder.simple_string_encoder())
    sink = made.with_bucket_assigner(Nested()).build()
    sink.check()
    other, writer = (sink.build_writer(WriterContext("job", "sink", index, 2, 0)) for index in (0, 1))
    for each in (other, writer):
        each.write(Rows(["a"]), watermark_ms=0, now_ms=0)
    committables = writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=True)
    sink.build_committer().commit(committables)
    lose(disk)
    assert [path.name for path in (tmp_path / "root").rglob("part-*")] == [
        committables[0].final_path.rpartition("/")[2]
    ]
    other.abort()


class Job:
    def __init__(self, build):
        self.program = captured(lambda environment: build(environment, 60))
        undisturbed = simulate(self.program, BASE)
        assert undisturbed.error is None
        self.expected, self.reached = undisturbed.outputs, undisturbed.reached

    def scenarios(self, times, places=None):
        """Yield runs in which power fails at each place, or at some, as often as `times`."""
        number = 0
        for point in sorted(self.reached) if places is None else places:
            count = self.reached[point]
            for nth in sorted({max(count * time // times, 1) for time in range(1, times + 1)}):
                fault = Fault(point, FaultKind.POWER_LOSS, nth)
                yield replace(BASE, seed=nth, recovers=number % 2 == 0, faults=(fault,))
                number += 1

    def wrong(self, scenario):
        """Return what is wrong with a run."""
        outcome = simulate(self.program, scenario, self.expected)
        if outcome.error is not None:
            return [outcome.error]
        guarantees = self.program.sinks()
        found = compare(self.expected, outcome.outputs, guarantees, restarts=outcome.restarts)
        return [*outcome.violations, *found]


@cache
def job_of(build):
    """Return a job that knows what is right before anything is planted."""
    return Job(build)


@pytest.mark.parametrize("build", [transactions, rolling_and_merging])
@pytest.mark.parametrize("times", [1, pytest.param(12, marks=pytest.mark.long)])
def test_nothing_is_lost_or_doubled_wherever_power_fails(build, times):
    job = job_of(build)
    for scenario in job.scenarios(times):
        assert job.wrong(scenario) == [], scenario.faults


def without_sync(target, name):
    """Plant: a method that syncs nothing."""
    right = getattr(target, name)
    one_at_a_time = RLock()  # files are finished side by side

    def unsynced(*arguments, **more):
        with one_at_a_time, mock.patch.object(os, "fsync", lambda descriptor: None):
            return right(*arguments, **more)

    return target, name, unsynced


def only_made(writer, directory):
    """Plant: a bucket's directory whose name is never synced."""
    writer._made += writer._files.make_directory(directory)


def plain_write(path, data):
    Path(path).write_bytes(data)


PLANTED = {
    "state files and manifests, contents and names": (transactions, without_sync(LocalStore, "_put_parts")),
    "names of state files and manifests": (transactions, (storage_local, "publish", os.replace)),
    "directories of checkpoints": (transactions, without_sync(storage_local, "make_directories")),
    "removals of checkpoints": (transactions, without_sync(LocalStore, "_settle")),
    "contents of part files": (rolling_and_merging, without_sync(output._LocalOutput, "sync")),
    "names of hidden part files": (rolling_and_merging, without_sync(FileWriter, "_sync_names")),
    "names of part files": (rolling_and_merging, without_sync(output._LocalOutput, "sync_directory")),
    "directories of part files": (rolling_and_merging, (FileWriter, "_make_directory", only_made)),
    "write-ahead files": (transactions, without_sync(write_ahead._WriteAheadWriter, "prepare_commit")),
    "names of write-ahead files": (transactions, without_sync(staged_blocks, "sync_directory")),
    "the directory of write-ahead files": (transactions, without_sync(staged_blocks, "make_directories")),
    "the note that write-ahead files were sent": (transactions, (staged_blocks, "write_file", plain_write)),
}


LATER = ("commit.done", "epoch.report", "seal", "state.write")
"""Places behind most syncs that may be missing."""


@pytest.mark.parametrize("what", PLANTED)
def test_a_missing_sync_is_found(monkeypatch, what):
    build, (target, name, plant) = PLANTED[what]
    job = job_of(build)
    monkeypatch.setattr(target, name, plant)
    scenario = next((each for each in job.scenarios(12, LATER) if job.wrong(each)), None)
    assert scenario is not None, "nobody has missed it"
    monkeypatch.undo()
    assert not job.wrong(scenario), "it is wrong without the bug as well"
    print(f"{what}: {scenario.faults[0]}")
