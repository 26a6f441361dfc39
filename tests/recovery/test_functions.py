"""What functions and sources of users keep and learn, in processes that are killed by SIGKILL and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from killed_programs import COUNT, Folder
from recovery_support import Tap, resume, run, run_to_savepoint

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import CheckpointStorageError
from millstream.common import WatermarkStrategy
from millstream.common.functions import CheckpointedFunction, CheckpointListener
from millstream.datastream import MapFunction
from millstream.datastream.connectors.number_seq import NumberSequenceSource

PROGRAM = Path(__file__).parent / "killed_programs.py"
KILLED = -signal.SIGKILL


def run_killed(name: str, directory: Path, *, parallelism: int, target: str = "local") -> int:
    """Run a program again with `--recover` as often as it is killed; return how often it was."""
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", target]
    arguments = [str(PROGRAM), name, str(directory), str(parallelism)]
    ended = subprocess.run([*command, *arguments], check=False)
    kills = 0
    while ended.returncode == KILLED:
        kills += 1
        ended = subprocess.run([*command, "--recover", *arguments], check=False, stderr=subprocess.PIPE)
        # What the one before left does not stand in the way of steering the job.
        assert b"cannot be steered" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
    return kills


def died(directory: Path) -> set[str]:
    return {path.name.removeprefix("died ") for path in directory.glob("died *")}


def results(directory: Path) -> Counter[str]:
    files = [
        path
        for path in (directory / "out").rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
    ]
    return Counter(line for path in files for line in path.read_text().splitlines())


def check_buffers(directory: Path) -> None:
    assert died(directory) == {"at a record", "at a snapshot", "at a notification"}
    assert results(directory) == Counter(map(str, range(COUNT)))
    lives = defaultdict(list)  # what one instance of the function lived through
    for line in (directory / "events").read_text().splitlines():
        process, subtask, event, *rest = line.split()
        if event == "init":
            lives[process, subtask].append([])
        lives[process, subtask][-1].append((event, rest))
    snapshots = defaultdict(set)
    told = [0]
    for (_, subtask), instances in lives.items():
        for events in instances:
            restored, restored_id, known = events[0][1]
            made = [int(rest[0]) for event, rest in events if event == "snapshot"]
            complete = [int(rest[0]) for event, rest in events if event == "complete"]
            told += complete
            # Each one that was made is told of before the next is, once; none that another instance made is.
            assert made[: len(complete)] == complete
            assert len(complete) in (len(made), len(made) - 1)
            order = [int(rest[0]) for event, rest in events[1:]]
            assert order == sorted(order)
            assert all(rest[1] == "True" for event, rest in events if event == "complete")
            assert (restored, known) in {("False", "0"), ("True", "2")}
            if restored == "True":
                assert int(restored_id) in snapshots["0"] & snapshots["1"]
                assert min(made, default=10**9) > int(restored_id)
            snapshots[subtask].update(made)
    assert max(told) > 10
    starts = [events[0][1][0] for instances in lives.values() for events in instances]
    assert starts.count("True") >= 2 * 3 - 1  # one may die before the other is there
    assert starts.count("False") == 2


def test_functions_keep_their_state_and_learn_of_checkpoints_through_kills(tmp_path):
    assert run_killed("buffers", tmp_path, parallelism=2) == 3
    check_buffers(tmp_path)


@pytest.mark.spark
def test_functions_keep_their_state_and_learn_of_checkpoints_in_slots_that_are_killed(tmp_path):
    assert run_killed("buffers", tmp_path, parallelism=2, target="local[2]") == 0
    check_buffers(tmp_path)


def write_splits(directory: Path, lengths: dict[int, int]) -> None:
    directory.mkdir(exist_ok=True)
    for split, length in lengths.items():
        numbers = "".join(f"{split * 1000 + n}\n" for n in range(length))
        (directory / f"{split}.split").write_text(numbers + "\n")


def numbers_of(lengths: dict[int, int]) -> Counter[int]:
    return Counter(split * 1000 + n for split, length in lengths.items() for n in range(length))


FIRST = {0: 90, 1: 5, 2: 41, 3: 0}
MORE = {4: 60, 5: 1, 6: 17, 7: 33}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_source_of_a_user_goes_on_at_its_position_after_kills(tmp_path, parallelism):
    write_splits(tmp_path / "in", FIRST | MORE)
    (tmp_path / "in" / "end").touch()
    assert run_killed("folder", tmp_path, parallelism=parallelism) == 3
    assert results(tmp_path) == Counter({str(n): 1 for n in numbers_of(FIRST | MORE)})


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 4), (4, 2)])
def test_source_of_a_user_goes_on_with_more_splits_at_another_parallelism(tmp_path, before, after):
    def folder(env):
        source = Folder(str(tmp_path / "in"))
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "folder").uid("folder")
        return stream.map(Tap()).uid("tap")

    write_splits(tmp_path / "in", FIRST)
    first, path = run_to_savepoint(folder, tmp_path / "saved", at=50, parallelism=before, epoch=4)
    write_splits(tmp_path / "in", MORE)
    (tmp_path / "in" / "end").touch()
    rest = resume(path, folder, parallelism=after, epoch=4)
    assert first
    assert rest
    assert first + rest == numbers_of(FIRST | MORE)


def test_source_functions_go_on_after_kills(tmp_path):
    kills = run_killed("source_functions", tmp_path, parallelism=1)
    assert kills == 3
    found = results(tmp_path)
    groups = Counter({number: times for number, times in found.items() if int(number) >= 0})
    once = found - groups
    assert groups == Counter(map(str, range(COUNT)))
    # What was handed over and not acknowledged when the process died comes again: one record for each kill.
    assert once.keys() == set(map(str, range(-COUNT, 0)))
    assert once.total() <= COUNT + kills


@pytest.mark.parametrize("parallelism", [1, 3])
def test_broadcast_state_and_timers_go_on_after_kills(tmp_path, parallelism):
    assert run_killed("broadcast_and_timers", tmp_path, parallelism=parallelism) == 3
    rules = [(rule, 60) for rule in range(5)]
    assert results(tmp_path) == Counter(
        f"{number} {len(range(number % 7, COUNT, 7))} {rules}" for number in range(COUNT)
    )


class Heard(MapFunction, CheckpointedFunction, CheckpointListener):
    """Tells all instances' snapshots and notifications."""

    made: list[int] = []
    told: list[int] = []

    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        self.made.append(context.get_checkpoint_id())

    def notify_checkpoint_complete(self, checkpoint_id):
        self.told.append(checkpoint_id)

    def map(self, value):
        return value


def test_nobody_is_told_of_a_checkpoint_that_failed(monkeypatch):
    class FullDisk:
        def reach(self, name, detail):
            if name == "manifest.write" and int(detail) in (3, 4, 7):
                raise CheckpointStorageError(f"no room for {detail}")

        def around(self, name, detail, action):
            return action()

    Heard.made.clear()
    Heard.told.clear()

    def build(env):
        numbers = env.from_source(NumberSequenceSource(1, 300), WatermarkStrategy.no_watermarks(), "numbers")
        return numbers.map(Heard())

    before = set_crash_hook(FullDisk())
    try:
        found = run(
            build,
            interval=1,
            epoch=10,
            **{
                "execution_checkpointing_tolerable__failed__checkpoints": 2,
            },
        )
    finally:
        set_crash_hook(before)
    assert found == Counter(range(1, 301))
    assert {3, 4, 7} < set(Heard.made)
    assert Heard.told == [each for each in Heard.made if each not in (3, 4, 7)]


def test_a_job_that_stops_with_a_savepoint_tells_functions_of_it(tmp_path):
    Heard.made.clear()
    Heard.told.clear()

    def build(env):
        numbers = env.from_source(NumberSequenceSource(1, 300), WatermarkStrategy.no_watermarks(), "numbers")
        return numbers.map(Tap()).map(Heard())

    found, path = run_to_savepoint(build, tmp_path, at=100, execution_checkpointing_interval=1)
    assert 100 <= sum(found.values()) < 300
    assert path.startswith(str(tmp_path))
    assert Heard.told == Heard.made
    assert len(Heard.told) > 10


class Deaf(MapFunction, CheckpointedFunction, CheckpointListener):
    """Fails when it is told of the last checkpoint, once."""

    failed = False
    closed = 0

    def initialize_state(self, context):
        self.last = False

    def snapshot_state(self, context):
        pass

    def map(self, value):
        self.last = value == 100
        return value

    def notify_checkpoint_complete(self, checkpoint_id):
        if self.last and not Deaf.failed:
            Deaf.failed = True
            raise ValueError("not now")

    def close(self):
        Deaf.closed += 1


def test_functions_are_closed_also_if_one_fails_as_it_is_told_of_the_last_checkpoint():
    Deaf.failed, Deaf.closed = False, 0

    def build(env):
        numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
        return numbers.map(Deaf())

    assert run(build, interval=100_000_000, epoch=100) == Counter(range(1, 101))
    assert Deaf.failed
    assert Deaf.closed == 2, "of the attempt that failed, and of the one behind it"
