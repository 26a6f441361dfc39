"""A driver is paused at every place of the protocols, another takes over and is killed later, a third comes, and all
that time the first goes on bit by bit: nothing is lost or doubled, and only the last one ends well."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sink_jobs import captured, rolling_and_merging, rolling_and_merging_gives
from verify_jobs import timers_and_windows, timers_and_windows_gives

from millstream.runtime.checkpoint import coordinator
from millstream.verify.faults import Fault, FaultKind
from millstream.verify.run import simulate
from millstream.verify.scenario import LONG_STALL_MS, Scenario

COUNT = 90
BASE = Scenario(seed=5, parallelism=(2,), epoch_records=16, interval_ms=10, retained=1, compacts=False)
POINTS = (
    "attempt.start", "epoch.report", "state.driver", "manifest.write", "manifest.published", "seal", "sink.commit",
    "sink.publish", "sink.committed", "commit.done", "tidy", "tidied", "storage.write", "storage.staged",
    "storage.delete", "level", "state.write", "sink.precommitted", "result.write", "result.written",
)  # fmt: skip
JOBS = {
    "windows": (timers_and_windows, timers_and_windows_gives),
    "files": (rolling_and_merging, rolling_and_merging_gives),
}


class Job:
    def __init__(self, name):
        build, gives = JOBS[name]
        self.gives = gives(COUNT)
        self.program = captured(lambda environment: build(environment, COUNT))
        undisturbed = simulate(self.program, BASE)
        self.expected, self.reached = undisturbed.outputs, undisturbed.reached

    def run(self, *faults, **changes):
        return simulate(self.program, replace(BASE, faults=faults, **changes), self.expected)

    def is_right(self, outcome):
        found = list(outcome.outputs.values())
        return outcome.error is None and not outcome.violations and found == self.gives


@pytest.fixture(scope="module")
def jobs():
    return {name: Job(name) for name in JOBS}


@pytest.mark.parametrize(("part", "stall_ms"), [(3, 10), (2, LONG_STALL_MS)])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", JOBS)
def test_the_next_driver_is_killed_as_well(jobs, name, point, part, stall_ms):
    job = jobs[name]
    pause = Fault(point, FaultKind.PAUSE, max(job.reached[point] // part, 1))
    # How far the next one comes: counted over both.
    alone = job.run(pause, stall_ms=stall_ms)
    assert job.is_right(alone), alone.trace
    ends = [line.partition(" ")[2] for line in alone.trace if " driver-0 ended" in line]
    if not point.startswith("result."):
        assert ends == ["driver-0 ended with DriverSupersededError"]
    kill = Fault("epoch.report", FaultKind.KILL, max(alone.reached["epoch.report"] - 2, 1))
    outcome = job.run(pause, kill, stall_ms=stall_ms)
    assert job.is_right(outcome), (outcome.error, *map(str, outcome.violations), *outcome.trace)


@pytest.mark.long
def test_checkpoints_of_two_drivers_under_the_same_names_are_found(jobs, monkeypatch):
    """What `chk-18.2` and `shared.2` are for: a paused driver replaces its successor's files, or removes them."""
    for name in ("checkpoint_directory", "shared_directory"):
        right = getattr(coordinator, name)
        monkeypatch.setattr(coordinator, name, lambda *which, right=right: right(*which[:-1]))
    found = next((faults for faults in paused_and_killed(jobs["windows"])), None)
    assert found is not None, "it makes no difference"
    monkeypatch.undo()
    seed, *faults = found
    assert jobs["windows"].is_right(jobs["windows"].run(*faults, seed=seed))


def paused_and_killed(job):
    """Yield what goes wrong, seed and faults: paused as old files are removed, and the next one killed behind."""
    for nth in range(1, job.reached["storage.delete"], 2):
        for seed in (1, 2, 3):
            pause = Fault("storage.delete", FaultKind.PAUSE, nth)
            reached = job.run(pause, seed=seed).reached["commit.done"]
            for before in (1, 2):
                kill = Fault("commit.done", FaultKind.KILL, max(reached - before, 1))
                if not job.is_right(job.run(pause, kill, seed=seed)):
                    yield seed, pause, kill
