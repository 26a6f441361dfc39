"""What becomes of a job: events in, views out."""

from __future__ import annotations

from millstream.common.job_failure import JobFailureInfo
from millstream.runtime.control.events import (
    AttemptBegan,
    AttemptFailed,
    CheckpointTriggered,
    SlotsDeployed,
    StatusChanged,
)
from millstream.runtime.control.job_history import HistorySizes, JobHistory
from millstream.runtime.control.views import (
    CheckpointConfigView,
    EpochView,
    OperatorView,
    PlanView,
    SlotView,
    VertexPlan,
)


def operator(node_id, name):
    return OperatorView(
        node_id, f"o{node_id}", None, name, name, "map", is_source=False, is_sink=False, is_keyed=False
    )


VERTEX = VertexPlan(
    "v1", "Parse -> Print", 2, 128, "default", 0, 0, (operator(1, "Parse"), operator(2, "Print"))
)
PLAN = PlanView(2, (("v1",),), (VERTEX,), ())


def history(**sizes):
    return JobHistory(PLAN, CheckpointConfigView(), HistorySizes(**sizes))


def feed(core, *events):
    for event in events:
        core.handle(event)
    return core


def epoch(number, *, attempt=0, records=10):
    return EpochView(
        attempt,
        number,
        number * 100,
        5.0,
        6.0,
        (1.0, 2.0),
        0.0,
        records,
        0,
        0,
        "INPUT",
        False,
        number * 1_000,
    )


def failed(attempt, at_ms, *, operator_name="Print", subtask=1):
    return AttemptFailed(
        JobFailureInfo(attempt, at_ms, "ValueError", f"no {attempt}", operator_name, subtask, "Traceback", 10)
    )


def began(attempt, at_ms):
    return (
        AttemptBegan(attempt, at_ms),
        StatusChanged("RUNNING", at_ms),
        SlotsDeployed((SlotView(0, "a", 1), SlotView(1, "b", 2)), at_ms + 1),
    )


def test_subtasks_follow_the_job_through_an_attempt():
    core = feed(history(), StatusChanged("CREATED", 5))
    assert core.task_status == "CREATED"
    feed(core, AttemptBegan(0, 10), StatusChanged("RUNNING", 10))
    assert core.task_status == "DEPLOYING"
    feed(core, SlotsDeployed((SlotView(0, "a", 1),), 12))
    assert core.task_status == "RUNNING"
    feed(core, StatusChanged("FINISHED", 30))
    assert (core.task_status, core.ended_ms, core.attempt_ended_ms) == ("FINISHED", 30, 30)


def test_times_of_each_status_and_of_running_survive_restarts():
    core = feed(history(), StatusChanged("CREATED", 0), *began(0, 10), epoch(1), epoch(2))
    feed(core, StatusChanged("FAILING", 110), failed(0, 110), StatusChanged("RESTARTING", 111))
    feed(core, StatusChanged("CREATED", 150), *began(1, 160), epoch(1, attempt=1))
    assert (core.status, core.attempt, core.restarts, core.started_ms) == ("RUNNING", 1, 1, 0)
    assert core.timestamps == {"CREATED": 150, "RUNNING": 160, "FAILING": 110, "RESTARTING": 111}
    assert [change.status for change in core.changes] == [
        "CREATED",
        "RUNNING",
        "FAILING",
        "RESTARTING",
        "CREATED",
        "RUNNING",
    ]
    total = {
        status: core.total_time_in(status, 200) for status in ("CREATED", "RUNNING", "FAILING", "RESTARTING")
    }
    assert total == {"CREATED": 10 + 10, "RUNNING": 100 + 40, "FAILING": 1, "RESTARTING": 39}
    assert (core.time_in("RUNNING", 200), core.time_in("CREATED", 200)) == (40, 0)
    assert (core.epochs, core.records_read, core.last_epoch.epoch) == (3, 30, 1)


def test_failures_name_vertex_and_host_and_come_latest_first():
    core = feed(history(failures=2), StatusChanged("CREATED", 0))
    for attempt in range(3):
        feed(
            core,
            *began(attempt, attempt * 100),
            StatusChanged("FAILING", 50),
            failed(attempt, attempt * 100 + 50),
        )
    seen = core.exceptions_view()
    assert (seen.total, [each.failure.attempt for each in seen.failures]) == (3, [2, 1])
    assert (seen.root.vertex_id, seen.root.vertex_name, seen.root.host) == ("v1", "Parse -> Print", "b")
    assert core.failure == "no 2"


def test_a_failure_of_no_operator_has_no_place():
    core = feed(history(), *began(0, 0), failed(0, 5, operator_name=None, subtask=None))
    (only,) = core.exceptions_view().failures
    assert (only.vertex_id, only.host) == (None, None)


def test_checkpoints_in_progress_fail_with_their_attempt():
    core = feed(history(), *began(0, 0), CheckpointTriggered(1, False, False, 1, 3, 2), failed(0, 9))
    (only,) = core.checkpoints_view().history
    assert (only.status, only.failure) == ("FAILED", "the attempt failed: no 0")


def test_no_more_epochs_are_kept_than_asked_for_but_all_are_counted():
    core = feed(history(epochs=3), *map(epoch, range(1, 11)))
    seen = core.epochs_view()
    assert ([each.epoch for each in seen.epochs], seen.total) == ([8, 9, 10], 10)
