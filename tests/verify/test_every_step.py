"""The crash-point matrix by its steps: step x what goes wrong x who it happens to; each cell hit, nothing lost.

`test_matrix.py` strikes every place of the protocols twice and combines faults; here one can read off that no step of
the table is missing. Faults of real Spark tasks are in `tests/recovery`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sink_jobs import captured, rolling_and_merging, rolling_and_merging_gives

from millstream.verify.faults import Fault, FaultKind
from millstream.verify.run import simulate
from millstream.verify.scenario import Scenario

pytestmark = pytest.mark.usefixtures("some_form")

SLOT, DRIVER = "slot", "driver"
"""A sink's writer lives in a slot, its committer on the driver."""

STEPS = {
    "plan": {DRIVER: "plan"},
    "read": {SLOT: "read"},
    "user function": {SLOT: "user.function"},
    "delta write": {SLOT: "state.write"},
    "report": {SLOT: "report", DRIVER: "epoch.report"},
    "manifest write": {DRIVER: "manifest.write"},
    "manifest publish": {DRIVER: "manifest.published"},
    "sink pre-commit": {SLOT: "sink.precommit"},
    "sink pre-committed": {SLOT: "sink.precommitted"},
    "sink commit": {DRIVER: "sink.publish"},
    "sink committed": {DRIVER: "sink.committed"},
    "notify": {SLOT: "notify", DRIVER: "commit.done"},
    "old checkpoint deletion": {DRIVER: "tidy"},
    "compaction of checkpoints": {SLOT: "compaction.start"},
    "compaction of files": {SLOT: "sink.compact"},
    "files compacted": {SLOT: "sink.compacted"},
}
KINDS = {
    "exception": FaultKind.EXCEPTION,
    "SIGKILL": FaultKind.KILL,
    "I/O error": FaultKind.IO_ERROR,
    "hang past the timeout": FaultKind.HANG,
}
WRITES = {
    "delta write": (SLOT, "storage.write", r"/\d+-\d+-[0-9a-f]{8}$"),
    "report's checkpoint": (DRIVER, "storage.write", r"-driver-[0-9a-f]{8}$"),
    "manifest write": (DRIVER, "storage.write", r"_metadata$"),
    "manifest publish": (DRIVER, "storage.write", r"\.recovery$"),
    "sink commit": (DRIVER, "sink.commit", r""),
    "old checkpoint deletion": (DRIVER, "storage.delete", r"/chk-\d+$"),
}
"""Steps that write or remove: it may come late, twice, or be done though an error is told. Who, place, what."""
LATER = (FaultKind.IO_ERROR, FaultKind.LOST_ANSWER, FaultKind.LATE, FaultKind.DUPLICATE)

COUNT = 60
BASE = Scenario(seed=3, parallelism=(2,), epoch_records=12, interval_ms=10)


class Job:
    def __init__(self):
        self.program = captured(lambda environment: rolling_and_merging(environment, COUNT))
        self.gives = rolling_and_merging_gives(COUNT)
        undisturbed = simulate(self.program, BASE)
        self.expected, self.reached, self.trace = undisturbed.outputs, undisturbed.reached, undisturbed.trace

    def run(self, *faults, **changes):
        outcome = simulate(self.program, replace(BASE, faults=faults, **changes), self.expected)
        assert outcome.error is None, (faults, outcome.error)
        assert outcome.violations == (), (*map(str, outcome.violations), *outcome.trace)
        assert list(outcome.outputs.values()) == self.gives, outcome.trace
        assert [fault for fault, _ in outcome.fired] == list(faults), "it did not happen"
        return outcome

    def times(self, place, pattern):
        """Return which times a write is one of a kind, from 1, in the undisturbed run."""
        lines = [line for line in self.trace if f" {place} " in line]
        return [nth for nth, line in enumerate(lines, 1) if re.search(pattern, line)]


@pytest.fixture(scope="module")
def job():
    return Job()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("step", "who"), [(step, who) for step in STEPS for who in STEPS[step]])
def test_step(job, step, who, kind):
    place = STEPS[step][who]
    outcome = job.run(Fault(place, KINDS[kind], (2 * job.reached[place] + 2) // 3))
    assert outcome.fired[0][1].startswith(who)
    if who == SLOT and kind == "hang past the timeout" and "compaction of checkpoints" not in step:
        assert any("zombie slot" in line for line in outcome.trace), "what it did late is part of the cell"
    if who == SLOT and kind != "SIGKILL":
        return
    assert outcome.restarts >= (0 if kind == "hang past the timeout" else 1), "a driver may stand still"


@pytest.mark.parametrize("step", [step for step in STEPS if SLOT in STEPS[step]])
def test_the_driver_is_killed_while_a_slot_is_at_a_step(job, step):
    place = STEPS[step][SLOT]
    outcome = job.run(Fault(place, FaultKind.KILL_DRIVER, (job.reached[place] + 1) // 2))
    assert outcome.restarts >= 1


@pytest.mark.parametrize("kind", LATER, ids=lambda kind: kind.value)
@pytest.mark.parametrize("step", WRITES)
def test_what_is_written_comes_late_or_twice_or_seems_to_fail(job, step, kind):
    who, place, pattern = WRITES[step]
    times = job.times(place, pattern)
    outcome = job.run(Fault(place, kind, times[len(times) // 2]))
    assert outcome.fired[0][1].startswith(who)
    if kind in (FaultKind.LATE, FaultKind.DUPLICATE):
        assert any(f"late {place}" in line for line in outcome.trace), "it never came"


@pytest.mark.parametrize(
    ("kind", "retained"), [(FaultKind.LATE, 1), (FaultKind.DUPLICATE, 1), (FaultKind.DUPLICATE, 3)]
)
def test_a_recovery_pointer_that_comes_late_or_twice_sends_no_driver_back(job, kind, retained):
    """The driver is killed behind it, before it writes the next one."""
    for nth in job.times(*WRITES["manifest publish"][1:])[:3]:
        for plan in (6, 7, 8):
            job.run(Fault("storage.write", kind, nth), Fault("plan", FaultKind.KILL, plan), retained=retained)


def test_every_step_in_a_slot_that_is_asked_twice_gives_the_same_bytes(job):
    outcome = job.run(repeats=1.0)
    asked = sum("is asked again" in line for line in outcome.trace)
    assert asked == len([line for line in outcome.trace if "is asked again for level" in line]) > 20
    job.run(Fault("sink.precommitted", FaultKind.KILL, 10), repeats=1.0)
