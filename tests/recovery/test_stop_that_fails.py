"""Stop with savepoint while its commit fails: nothing is published twice, and whoever asked is told the truth."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from recovery_support import FAULTS, Tap, new_environment, resume, running

from millstream.base.errors import JobExecutionError
from millstream.connectors.two_phase import TwoPhaseCommitSink
from millstream.datastream import MapFunction
from millstream.runtime.checkpoint.pointer import RecoveryPointer
from millstream.runtime.checkpoint.restore import find_saved
from millstream.testing import InjectedFailure

NUMBERS = list(range(120))
DRIVER = {"commits": 0, "failing": 0, "completed": [], "closed": 0}
"""What happened on the driver, and how often commits are still to fail; this process is driver and slots."""


class Lines(TwoPhaseCommitSink):
    """Staged under hidden names; a commit takes the dot off, and may fail before or behind that."""

    def __init__(self, directory, behind):
        self.directory, self.behind = Path(directory), behind

    def open(self, context):
        self.context = context
        self.directory.mkdir(exist_ok=True)

    def begin_transaction(self):
        return str(self.directory / f".{self.context.new_name()}")

    def invoke(self, transaction, value, context):
        with open(transaction, "a") as file:
            file.write(json.dumps(value) + "\n")

    def commit(self, committable):
        DRIVER["commits"] += 1
        path = Path(committable)
        if not self.behind:
            self.fail()
        if path.exists():
            path.rename(path.with_name(path.name.lstrip(".")))
        self.fail()

    def fail(self):
        if DRIVER["failing"] and FAULTS.seen >= 60:
            DRIVER["failing"] -= 1
            raise InjectedFailure("the target does not answer")

    def abort(self, committable):
        Path(committable).unlink(missing_ok=True)


class Watching(MapFunction):
    """Notes what functions are told at the end."""

    def map(self, value):
        return value

    def close(self):
        DRIVER["closed"] += 1


def build(directory, *, behind):
    def stream(env):
        numbers = env.from_collection(NUMBERS).uid("numbers").map(Tap()).map(Watching())
        numbers.sink_to(Lines(directory, behind)).uid("lines")
        return numbers

    return stream


def published(directory):
    files = [path for path in directory.glob("*") if not path.name.startswith(".")]
    return Counter(json.loads(line) for path in files for line in path.read_text().splitlines())


def stop(tmp_path, *, failing, behind=True, interval=8, drain=False, **options):
    """Stop a job behind its 60th record while its next commits fail; return the job and the future's result."""
    DRIVER.update(commits=0, failing=0, closed=0)
    FAULTS.arm()
    futures = []
    if interval is not None:
        options["execution_checkpointing_interval"] = interval
    options["execution_checkpointing_dir"] = str(tmp_path / "checkpoints")
    with running() as launcher:

        def ask():
            DRIVER["failing"] = failing
            job = launcher.job()
            futures.append(job.savepoint(str(tmp_path / "savepoints"), stop=True, drain=drain))

        launcher.do_after(60, ask)
        environment = new_environment(epoch=3, **options)
        build(tmp_path / "lines", behind=behind)(environment)
        client = environment.execute_async()
        try:
            client.get_job_execution_result().result()
        except JobExecutionError:
            assert launcher.jobs[0].status() == "FAILED"
    return launcher.jobs[0], futures[0]


@pytest.mark.parametrize("interval", [8, 100_000_000, None])
@pytest.mark.parametrize("behind", [True, False])
@pytest.mark.parametrize("failing", [1, 3])
def test_job_that_stops_commits_again_what_its_savepoint_holds(tmp_path, failing, behind, interval):
    job, future = stop(tmp_path, failing=failing, behind=behind, interval=interval)
    assert job.status() == "FINISHED"
    path = future.result(0)
    assert DRIVER["failing"] == 0
    first = published(tmp_path / "lines")
    seen = FAULTS.seen
    assert 60 <= seen < 70, "no attempt reads anything behind the savepoint"
    assert first == Counter(NUMBERS[:seen])
    assert DRIVER["closed"] == 2, "functions of the last attempt, which had slots, are closed as well"
    rest = resume(path, build(tmp_path / "lines", behind=behind))
    assert first + rest == Counter(NUMBERS)
    assert published(tmp_path / "lines") == Counter(NUMBERS)


def test_whoever_asked_is_told_that_the_savepoint_is_there_but_not_committed(tmp_path):
    options = {"restart__strategy_fixed__delay_attempts": 2}
    job, future = stop(tmp_path, failing=1_000, behind=False, **options)
    assert job.status() == "FAILED"
    with pytest.raises(
        JobExecutionError, match=r"savepoint-[\s\S]*is complete[\s\S]*InjectedFailure"
    ) as caught:
        future.result(0)
    assert caught.value.hint is not None
    assert "from the savepoint" in caught.value.hint
    DRIVER["failing"] = 0
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    resume(str(savepoint), build(tmp_path / "lines", behind=False))
    assert published(tmp_path / "lines") == Counter(NUMBERS)


def test_drained_job_whose_last_commit_fails_publishes_nothing_twice(tmp_path):
    _, future = stop(tmp_path, failing=1, drain=True)
    assert published(tmp_path / "lines") == Counter(NUMBERS[: FAULTS.seen])
    assert find_saved(future.result(0)).manifest.is_savepoint


def test_driver_that_is_killed_while_it_stops_is_recovered_from_the_savepoint(tmp_path, monkeypatch):
    """The pointer names the savepoint before anything that it holds is published."""
    pointed = []
    commit = Lines.commit

    def looking(self, committable):
        if FAULTS.seen >= 60:
            (pointer,) = (tmp_path / "ha").glob("*.recovery")
            pointed.append(RecoveryPointer(str(tmp_path / "ha"), pointer.stem).read())
        commit(self, committable)

    monkeypatch.setattr(Lines, "commit", looking)
    _, future = stop(
        tmp_path, failing=0, pipeline_name="stopping", high__availability_storageDir=str(tmp_path / "ha")
    )
    assert pointed[-1].checkpoint == future.result(0)
