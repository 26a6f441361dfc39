"""A host without room for state that is written: that fails checkpoints, and neither attempts nor what they hold."""

from __future__ import annotations

import errno
import tempfile

import pytest
from recovery_support import new_environment, running

from millstream.base.errors import CheckpointStorageError, JobExecutionError
from millstream.datastream import KeyedProcessFunction, MapFunction
from millstream.datastream.state import ValueStateDescriptor

RECORDS = range(50)
KEYS = 25


class Count(KeyedProcessFunction):
    """Counts the records of each key; with so large a state of the first key, further files hold changes only."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or (0,))[0] + 1
        self.count.update((count, bytes(100_000 if value[0] == 0 else 0)))
        yield (*value, count)


class FailsOnce(MapFunction):
    left: set[int] = set()

    def map(self, value):
        if value[0] in FailsOnce.left:
            FailsOnce.left.discard(value[0])
            raise RuntimeError("injected")
        return value


class SmallDisk:
    """Has no room at some of the writes of state files in the making."""

    def __init__(self, full_at):
        self.full_at, self.writes, self.refused = full_at, 0, 0

    def files(self):
        disk = self

        class Spooled(tempfile.SpooledTemporaryFile):
            def write(self, data):
                disk.writes += 1
                if disk.writes in disk.full_at:
                    disk.refused += 1
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        return Spooled


def run(monkeypatch, directory, disk, **options):
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", disk.files())
    environment = new_environment(
        epoch=4,
        execution_checkpointing_interval=1,
        execution_checkpointing_dir=str(directory),
        execution_checkpointing_incremental=True,
        **options,
    )
    counted = environment.from_collection([(number,) for number in RECORDS]).map(FailsOnce())
    for _ in range(2):
        counted = counted.key_by(lambda value: value[0] % KEYS).process(Count())
    with running() as launcher, counted.execute_and_collect() as results:
        return sorted(results), launcher.jobs[0]._supervisor


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("first", range(14, 29, 2))
def test_what_was_taken_for_a_file_that_has_no_room_is_in_the_next(
    tmp_path, monkeypatch, caplog, backend, first
):
    FailsOnce.left = {22}  # before any key comes again, which would put it into later checkpoints
    disk = SmallDisk((first, first + 1))
    found, supervisor = run(
        monkeypatch,
        tmp_path,
        disk,
        state_backend_type=backend,
        execution_checkpointing_tolerable__failed__checkpoints=3,
    )
    assert found == [(number, number // KEYS + 1, number // KEYS + 1) for number in RECORDS]
    assert ["injected" in str(each.error) for each in supervisor.failures] == [True]
    assert disk.refused == caplog.text.count("failed and is left out: state cannot be kept") > 0


def test_no_room_for_longer_than_is_tolerated_fails_the_job(tmp_path, monkeypatch):
    disk = SmallDisk(range(8, 10_000))
    with pytest.raises(JobExecutionError) as failed:
        run(monkeypatch, tmp_path, disk, restart__strategy_type="none")
    assert isinstance(failed.value.__cause__, CheckpointStorageError)
    assert "Make room, or name another directory in TMPDIR" in str(failed.value.__cause__)
