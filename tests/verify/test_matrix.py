"""Every place of the protocols, with everything that can go wrong there: it really happened, and nothing shows of it.

Each cell runs one job under a scenario with this one fault; which time the place is reached is spread over the cells.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from verify_jobs import captured, timers_and_windows, timers_and_windows_gives

from millstream.verify.faults import POINTS, Fault, FaultKind, kinds_at
from millstream.verify.run import simulate
from millstream.verify.scenario import Scenario

pytestmark = pytest.mark.usefixtures("some_form")

COUNT = 90
BASE = Scenario(seed=5, parallelism=(2,), epoch_records=16, interval_ms=10, retained=1, compacts=False)
ELSEWHERE = ("sink.abort", "sink.compact", "sink.compacted")
"""In `test_sinks.py`: no sink of this job comes there."""
CELLS = [
    (point, kind)
    for point in POINTS
    if point not in ELSEWHERE
    for kind in kinds_at(point)
    # Where exceptions are raised an I/O error is another of them: `test_every_step.py` has those.
    if kind is not FaultKind.IO_ERROR or FaultKind.EXCEPTION not in kinds_at(point)
]


@pytest.fixture(scope="module")
def program():
    return captured(lambda environment: timers_and_windows(environment, COUNT))


@pytest.fixture(scope="module")
def reached(program):
    """How often each place is reached in the undisturbed run; those of compaction where there is any."""
    return {**simulate(program, replace(BASE, compacts=True)).reached, **simulate(program, BASE).reached}


def run(program, *faults, **changes):
    scenario = replace(BASE, faults=faults, **changes)
    outcome = simulate(program, scenario)
    assert outcome.error is None, (scenario, outcome.error)
    return outcome


def check(outcome):
    assert list(outcome.outputs.values()) == timers_and_windows_gives(COUNT), outcome.trace


def test_the_undisturbed_job_gives_what_is_right(program):
    outcome = run(program)
    check(outcome)
    assert outcome.restarts == 0
    assert outcome.records == COUNT


GONE = (FaultKind.KILL, FaultKind.POWER_LOSS)
"""What another driver comes after."""
# Places that are reached only while a job comes back are made to be reached by an earlier failure.
AFTER_A_FAILURE = {"restore": 1, "storage.read": 3}


@pytest.mark.parametrize(("point", "kind"), CELLS, ids=lambda each: getattr(each, "value", each))
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_fault_is_hit_and_nothing_is_lost_or_repeated(program, reached, point, kind, when):
    if point in AFTER_A_FAILURE:
        faults = (
            Fault("epoch.report", FaultKind.EXCEPTION, 4),
            Fault(point, kind, 1 if when == "early" else AFTER_A_FAILURE[point]),
        )
    else:
        # The last two writes tell that the job has ended; what goes wrong there is looked at further down.
        last = reached[point] - (2 if point in ("storage.write", "storage.staged") else 0)
        faults = (Fault(point, kind, max(reached[point] // 3, 1) if when == "early" else last),)
    compacting = point.startswith("compaction.")
    outcome = run(program, *faults, compacts=compacting)
    assert [fault for fault, _ in outcome.fired] == list(faults)
    if compacting and point != "compaction.start" and kind is FaultKind.EXCEPTION:
        assert outcome.restarts == 0, "a compaction that fails is no failure of the job"
        check(outcome)
        return
    harmless = kind in (FaultKind.DUPLICATE,) or ("driver" in outcome.fired[-1][1] and kind is FaultKind.HANG)
    deleted = point == "storage.delete" and kind not in GONE  # what stays is removed later
    # The very last one is made when all is committed: nobody comes back.
    ended = point == "storage.delete" and when == "late"
    # What goes wrong when the job has ended is no failure of the job; only a killed driver is started again.
    ended = ended or (point.startswith("result.") and kind not in GONE)
    if not harmless and not deleted and not ended:
        assert outcome.restarts >= 1, outcome.trace
    check(outcome)


@pytest.mark.parametrize("kind", kinds_at("storage.write"))
@pytest.mark.parametrize("nth_from_end", [0, 1])
@pytest.mark.parametrize("then", [None, "result.commit", "result.committed"])
def test_a_job_whose_end_cannot_be_noted_has_ended_all_the_same(program, reached, kind, nth_from_end, then):
    faults = [Fault("storage.write", kind, reached["storage.write"] - nth_from_end)]
    if then is not None:
        faults.append(Fault(then, FaultKind.KILL, 1))
    outcome = run(program, *faults)
    # A driver that is killed between the two writes meets the second one later.
    assert faults[-1 if then == "result.commit" and nth_from_end == 0 else 0] in [
        fault for fault, _ in outcome.fired
    ]
    check(outcome)
    followed = sum(fault.kind in {*GONE, FaultKind.PAUSE} for fault, _ in outcome.fired)
    # One that follows may fail as it takes the job over, or find that a paused one is faster; it is followed too.
    slower = sum(line.endswith("driver ended: DriverSupersededError") for line in outcome.trace)
    assert followed <= outcome.restarts <= slower + (followed if then is None else len(outcome.fired))


@pytest.mark.parametrize("first", [point for point in POINTS if point.startswith("result.")])
@pytest.mark.parametrize("second", [point for point in POINTS if point.startswith("result.")])
def test_a_driver_that_is_killed_twice_at_the_end_of_its_job(program, first, second):
    before = simulate(program, replace(BASE, faults=(Fault(first, FaultKind.KILL, 1),)))
    faults = [Fault(first, FaultKind.KILL, 1)]
    if before.reached[second] > (first == second):
        faults.append(Fault(second, FaultKind.KILL, before.reached[second]))
    outcome = run(program, *dict.fromkeys(faults))
    assert {fault for fault, _ in outcome.fired} == set(faults)
    check(outcome)


@pytest.mark.parametrize("kind", [FaultKind.IO_ERROR, FaultKind.LOST_ANSWER, FaultKind.LATE, FaultKind.TORN])
@pytest.mark.parametrize("nth_from_end", range(2, 10, 2))
def test_a_tolerated_failure_of_a_checkpoint_and_the_loss_of_the_driver_behind_it(
    program, kind, nth_from_end
):
    recovers = nth_from_end % 4 == 0 or kind is FaultKind.LATE
    reached = run(program, recovers=recovers).reached
    writes = reached["storage.write"]
    for point in ("commit.done", "epoch.report", "sink.committed"):
        outcome = run(
            program,
            Fault("storage.write", kind, writes - nth_from_end),
            Fault(point, FaultKind.KILL, reached[point]),
            tolerable_failures=3,
            recovers=recovers,
        )
        assert ("storage.write", kind) in {(fault.point, fault.kind) for fault, _ in outcome.fired}
        check(outcome)


@pytest.mark.parametrize(
    "first", ["sink.commit", "manifest.published", "state.write", "report", "seal", "tidy"]
)
@pytest.mark.parametrize("second", ["restore", "attempt.start", "storage.read", "sink.commit", "read"])
def test_a_failure_during_recovery_from_a_failure(program, reached, first, second):
    kind = FaultKind.IO_ERROR if first == "sink.commit" else FaultKind.EXCEPTION
    # The first late enough for a checkpoint to be there, the second the first time that it comes behind that.
    time = max(reached[first] - 1, 1)
    before = simulate(program, replace(BASE, faults=(Fault(first, kind, time),)))
    trace = "\n".join(before.trace)
    assert "attempt failed" in trace
    faults = (
        Fault(first, kind, time),
        Fault(second, FaultKind.KILL, 1 if second in ("restore", "storage.read") else before.reached[second]),
    )
    outcome = run(program, *faults, parallelism=(2, 3, 1))
    assert len(outcome.fired) == 2, outcome.trace
    check(outcome)


@pytest.mark.parametrize("parallelism", [(1, 4), (4, 1), (3, 2), (2, 3)])
@pytest.mark.parametrize("recovers", [True, False])
def test_state_moves_to_another_parallelism_when_the_driver_comes_back(program, parallelism, recovers):
    outcome = run(
        program, Fault("commit.done", FaultKind.KILL, 2), parallelism=parallelism, recovers=recovers
    )
    slots = [line for line in outcome.trace if "attempt 0 on" in line]
    assert [f"on {count} slots" in line for line, count in zip(slots, parallelism, strict=True)] == [
        True,
        True,
    ]
    check(outcome)


@pytest.mark.parametrize("recovers", [True, False])
@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("point", ["manifest.published", "storage.write", "manifest.write"])
def test_a_checkpoint_that_is_there_but_seemed_to_fail_is_not_begun_from(program, point, nth, recovers):
    kind = FaultKind.LOST_ANSWER if point == "storage.write" else FaultKind.EXCEPTION
    time = nth if point != "storage.write" else nth * 3
    faults = (Fault(point, kind, time), Fault("attempt.start", FaultKind.KILL, 2))
    outcome = run(program, *faults, recovers=recovers)
    assert len(outcome.fired) == 2
    check(outcome)
    faults = (Fault(point, kind, time), Fault("sink.precommit", FaultKind.KILL_DRIVER, 4 * nth + 6))
    check(run(program, *faults, recovers=recovers))
