"""A host without room for state that is written: that fails checkpoints, and neither attempts nor what they hold."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from recovery_support import new_environment, running

from millstream.base.crash_points import set_crash_hook
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


class FullStore:
    """Has no room for the files of the second slot for a while; keeps what is there as each checkpoint begins."""

    def __init__(self, checkpoints):
        self.checkpoints = checkpoints
        self.refused, self.found = set(), {}

    def reach(self, name, detail):
        pass

    def around(self, name, detail, action):
        path = Path(detail)
        number, _, rest = path.name.partition("-")
        if name == "storage.write" and path.parent.name == "shared":
            there = path.parent.iterdir() if path.parent.is_dir() else ()
            self.found.setdefault(int(number), {int(each.name.partition("-")[0]) for each in there})
            if rest.startswith("1-") and int(number) in self.checkpoints:
                self.refused.add(int(number))
                raise OSError(errno.ENOSPC, "No space left on device")
        return action()


def test_what_was_written_for_a_checkpoint_that_failed_leaves_its_room_to_the_next(tmp_path):
    store = FullStore(range(3, 9))
    environment = new_environment(
        parallelism=2,
        epoch=2,
        execution_checkpointing_interval=1,
        execution_checkpointing_dir=str(tmp_path),
        execution_checkpointing_tolerable__failed__checkpoints=10,
    )
    FailsOnce.left = set()
    records = environment.from_collection([(number,) for number in RECORDS]).map(FailsOnce())
    before = set_crash_hook(store)
    try:
        with records.key_by(lambda value: value[0] % KEYS).process(Count()).execute_and_collect() as results:
            assert sorted(results) == [(number, number // KEYS + 1) for number in RECORDS]
    finally:
        set_crash_hook(before)
    assert store.refused == set(range(3, 9))
    assert [max(store.found[number]) for number in range(4, 10)] == [2] * 6
