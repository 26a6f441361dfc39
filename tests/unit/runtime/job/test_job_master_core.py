"""The epoch loop by itself: the executor answers as it is told, storage is in memory, the clock is moved by hand.

What the loop does is seen in one list: what it asks of executor, sinks and storage, in order.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from types import SimpleNamespace

import pytest
from epoch_loop import COLLECT, SINK, SOURCE, Driver

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import (
    CheckpointStorageError,
    ConfigurationError,
    DriverSupersededError,
    JobExecutionError,
    SinkError,
)
from millstream.config.configuration import Configuration
from millstream.operators.base import OperatorReport
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.control.console import JobOutput
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.job.steering import SavepointRequest
from millstream.runtime.protocol.orders import CheckpointDeclined
from millstream.runtime.protocol.report import Backlog, LogLine
from millstream.spi.source import RangeEnd, SourcePlan, SplitRange


@pytest.fixture(autouse=True)
def commits_at_once():
    """Have no thread commit beside the loop; `test_commits_beside.py` has them."""
    before = set_crash_hook(
        SimpleNamespace(reach=lambda *_: None, around=lambda _name, _detail, action: action())
    )
    yield
    set_crash_hook(before)


ENDS = ["finish", "status removed", "close source", "close sink"]


def test_without_checkpoints_each_epoch_is_committed_as_it_ends():
    driver = Driver()
    assert driver.run() == [
        "deploy",
        "epoch 1",
        "collected 1",
        "collected 1",
        "commit e1s0 e1s1",
        "epoch 2, the last",
        "collected 2",
        "collected 2",
        "commit e2s0 e2s1",
        *ENDS,
    ]
    assert driver.source.read == {0: 10, 1: 10}


def test_headers_say_what_is_to_be_read_and_what_is_committed():
    driver = Driver()
    driver.run()
    first, last = driver.executor.headers
    assert (first.epoch, first.committed, first.checkpoint, first.end_of_input) == (1, 0, False, False)
    assert [(each.start, each.stop) for each in first.sources[SOURCE].ranges] == [(0, 5)]
    assert not first.sources[SOURCE].finished
    assert (last.epoch, last.committed, last.checkpoint, last.end_of_input) == (2, 1, True, True)
    assert [(each.start, each.stop) for each in last.sources[SOURCE].ranges] == [(5, 10)]
    assert last.sources[SOURCE].finished


def test_with_checkpoints_sinks_commit_behind_the_manifest_and_functions_are_told_with_the_next_epoch():
    driver = Driver(interval_ms=0)
    seen = []
    commit = driver.target.commit
    driver.target.commit = lambda committables: (
        seen.append(sorted(path for path in driver.stores.files if path.endswith("_metadata"))),
        commit(committables),
    )
    log = driver.run()
    assert log == [
        "deploy",
        "epoch 1",
        "collected 1",
        "collected 1",
        "commit e1s0 e1s1",
        "epoch 2, the last, told of 1",
        "collected 2",
        "collected 2",
        "commit e2s0 e2s1",
        "finish, told of 2",
        *ENDS[1:],
    ]
    assert seen == [["/c/job/chk-1/_metadata"], ["/c/job/chk-1/_metadata", "/c/job/chk-2/_metadata"]]
    assert sorted(path for path in driver.stores.files if "chk-" in path) == ["/c/job/chk-2/_metadata"]


def test_between_two_checkpoints_nothing_is_committed_nor_handed_on():
    driver = Driver(interval_ms=1_000_000)
    driver.source.total = 15
    assert driver.run() == [
        "deploy",
        "epoch 1",
        "epoch 2",
        "epoch 3, the last",
        *[f"collected {epoch}" for epoch in (1, 1, 2, 2, 3, 3)],
        "commit e3s0 e3s1",
        "finish, told of 1",
        *ENDS[1:],
    ]


def test_batch_mode_gives_everything_once_at_the_end():
    driver = Driver(interval_ms=0, batch=True)
    log = driver.run()
    assert [line for line in log if line.startswith("commit")] == ["commit e2s0 e2s1"]
    assert driver.stores.files == {}


def test_what_a_checkpoint_holds_is_committed_before_anything_else():
    driver = Driver(interval_ms=0, restored={SOURCE: {0: 5, 1: 5}, SINK: ["old"]})
    driver.executor.answers[1] = lambda reports: None
    log = driver.run()
    assert log[:3] == ["recover old", "deploy", "epoch 1"]
    first = driver.executor.headers[0].sources[SOURCE]
    assert (first.waits, list(first.ranges)) == (True, []), "a checkpoint may hold records: they come first"
    assert [(each.start, each.stop) for each in driver.executor.headers[1].sources[SOURCE].ranges] == [
        (5, 10)
    ]


def test_an_epoch_that_fails_is_undone_and_what_is_recorded_stays():
    driver = Driver(interval_ms=0)
    driver.source.total = 20
    driver.executor.answers[3] = ValueError("a function")
    driver.target.fails = 0
    with pytest.raises(ValueError, match="a function"):
        driver.run()
    assert driver.log[-5:] == ["epoch 3, told of 2", "abort", *ENDS[1:]]
    assert not [line for line in driver.log if line.startswith("remove")], "all of it had been committed"


def test_what_was_staged_behind_the_last_checkpoint_is_removed():
    driver = Driver(interval_ms=1_000_000)
    driver.source.total = 15
    driver.executor.checkpointed = False  # a writer that has something ready with every epoch
    driver.executor.answers[3] = ValueError("a function")
    with pytest.raises(ValueError, match="a function"):
        driver.run()
    assert driver.log[-5:] == ["abort", "remove e1s0 e1s1 e2s0 e2s1", *ENDS[1:]]


def test_what_cannot_be_committed_stays_for_the_next_attempt():
    driver = Driver(interval_ms=0)
    driver.target.fails = 1
    with pytest.raises(SinkError, match="the target is away"):
        driver.run()
    assert [line for line in driver.log if line.split()[0] in ("commit", "remove")] == []
    held = driver.checkpoints.latest
    assert held.manifest.checkpoint_id == 1
    assert [entry.uid for entry in held.manifest.operators if entry.driver is not None] == ["source", "sink"]


def test_errors_while_an_attempt_is_undone_do_not_hide_why(caplog):
    driver = Driver()
    driver.executor.answers[1] = ValueError("the first")

    def abort():
        raise KeyError("the second")

    driver.executor.abort = abort
    with pytest.raises(ValueError, match="the first"):
        driver.run()
    assert "the second" in caplog.text


def test_nothing_to_do_is_waited_for_and_slots_are_kept_alive():
    driver = Driver()
    driver.source.plans = [SourcePlan(next_ms=1_300), SourcePlan(next_ms=1_300)]
    log = driver.run()
    assert log[:4] == ["deploy", "keep alive", "keep alive", "epoch 1"]
    assert [header.now_ms for header in driver.executor.headers] == [1_301, 1_301]


def test_the_longest_wait_is_a_second_and_a_third_of_the_lease():
    for lease, expected in (("30 s", 2_000), ("600 ms", 1_200)):
        driver = Driver(options={"millstream.slot.lease": lease})
        driver.source.plans = [SourcePlan()]
        driver.run()
        assert driver.executor.headers[0].now_ms == expected


def test_a_timer_that_is_due_has_an_epoch_though_nothing_is_read():
    driver = Driver()
    driver.source.plans = [
        SourcePlan({0: [SplitRange("0", None, 0, 5)]}),
        SourcePlan(),
        SourcePlan(),
        SourcePlan(),
    ]

    def set_timer(reports):
        reports[1].next_timer_ms = 1_250

    driver.executor.answers[1] = set_timer
    driver.run()
    assert [header.now_ms for header in driver.executor.headers][:2] == [1_000, 1_250]
    assert driver.executor.headers[1].sources == {}


def test_sources_wait_while_what_they_gave_is_not_processed():
    driver = Driver()
    driver.source.total = 20

    def hold(reports):
        for report in reports:
            report.backlogs = (Backlog(held=100, begun=10, ended=False),)

    driver.executor.answers[1] = driver.executor.answers[2] = hold
    driver.run()
    waits = [header.sources[SOURCE].waits for header in driver.executor.headers[:4] if header.sources]
    assert waits == [False, True, True, False]


def test_the_end_waits_for_what_is_held():
    driver = Driver()
    driver.source.total = 5

    def hold(reports):
        reports[0].backlogs = (Backlog(held=3, begun=10, ended=False),)

    driver.executor.answers[1] = hold
    log = driver.run()
    assert [line for line in log if line.startswith("epoch")] == [
        "epoch 1, the last",
        "epoch 2",
        "epoch 3, the last",
    ]


def test_a_cancelled_job_ends_between_two_epochs():
    driver = Driver(interval_ms=1_000_000)
    driver.source.total = 100
    driver.executor.checkpointed = False
    driver.at_epoch(2, driver.control.cancel.set)
    with pytest.raises(JobExecutionError, match="the job was cancelled"):
        driver.run()
    assert driver.log[-6:] == ["epoch 2", "abort", "remove e1s0 e1s1 e2s0 e2s1", *ENDS[1:]]


def test_a_job_that_is_told_to_stop_reads_no_more_and_ends_well():
    driver = Driver()
    driver.source.total = 100
    driver.at_epoch(2, driver.control.stop.set)
    log = driver.run()
    assert log[-len(ENDS) - 4] == "epoch 3, the last"
    assert driver.executor.headers[-1].sources[SOURCE].finished
    assert list(driver.executor.headers[-1].sources[SOURCE].ranges) == []
    assert driver.source.read == {0: 10, 1: 10}


def test_a_job_ends_after_as_many_epochs_as_it_may_have_and_when_it_was_idle_for_long():
    driver = Driver(options={"millstream.execution.max-epochs": 3})
    driver.source.total = 10**6
    driver.run()
    assert [header.end_of_input for header in driver.executor.headers] == [False, False, False, True]
    driver = Driver(options={"millstream.execution.stop-when-idle": "10 s"})
    driver.source.plans = [SourcePlan()] * 1_000
    driver.run()
    assert [header.now_ms for header in driver.executor.headers] == [11_000]


def test_a_checkpoint_that_slots_decline_is_made_with_the_next_epoch():
    driver = Driver(interval_ms=0)
    driver.source.total = 15

    def decline(reports):
        reports[1].written = (CheckpointDeclined(1, "map"),)

    driver.executor.answers[1] = decline
    log = driver.run()
    assert [line for line in log if line.startswith("commit")] == [
        "commit e1s0 e1s1 e2s0 e2s1",
        "commit e3s0 e3s1",
    ]
    assert "epoch 2" in log, "nobody is told of the one that was declined"
    assert "epoch 3, the last, told of 2" in log


def fail_to_write(reports):
    reports[0].written = (CheckpointStorageError("the disk is full"),)


def test_a_checkpoint_that_cannot_be_written_is_left_out_if_that_is_tolerated(caplog):
    driver = Driver(interval_ms=0, tolerable_failures=1)
    driver.source.total = 15
    driver.executor.answers[1] = fail_to_write
    log = driver.run()
    assert [line for line in log if line.startswith("commit")] == [
        "commit e1s0 e1s1 e2s0 e2s1",
        "commit e3s0 e3s1",
    ]
    assert "checkpoint 1 failed and is left out: the disk is full" in caplog.text


@pytest.mark.parametrize(("epoch", "tolerable"), [(1, 0), (2, 5)])
def test_one_more_failure_or_that_of_the_last_checkpoint_fails_the_attempt(epoch, tolerable):
    driver = Driver(interval_ms=0, tolerable_failures=tolerable)
    driver.executor.answers[epoch] = fail_to_write
    with pytest.raises(CheckpointStorageError, match="the disk is full"):
        driver.run()
    assert f"commit e{epoch}s0 e{epoch}s1" not in driver.log
    assert "abort" in driver.log


def test_a_superseded_driver_commits_nothing_of_its_own():
    driver = Driver(interval_ms=1_000_000)
    superseded = DriverSupersededError("superseded")

    def supersede():
        def check():
            raise superseded

        driver.checkpoints.check_owner = check

    driver.at_epoch(1, supersede)
    with pytest.raises(DriverSupersededError):
        driver.run()
    assert not [line for line in driver.log if line.startswith("commit")]


def test_a_savepoint_is_made_with_the_next_epoch_and_the_job_goes_on():
    driver = Driver(interval_ms=1_000_000)
    driver.source.total = 20
    requests = []
    driver.at_epoch(1, lambda: requests.append(driver.ask()))
    log = driver.run()
    path = requests[0].done.result(0)
    assert path.startswith("/s/savepoint-job-")
    assert f"{path}/_metadata" in driver.stores.files
    second = driver.executor.headers[1]
    assert [order.kind for order in second.orders] == ["checkpoint", "savepoint"], (
        "they share what sinks staged"
    )
    assert len({order.checkpoint_id for order in second.orders}) == 1
    assert log[log.index("epoch 2") + 1 :][:5] == [
        *[f"collected {epoch}" for epoch in (1, 1, 2, 2)],
        "commit e2s0 e2s1",
    ]
    assert log.count("epoch 4, the last") == 1


def test_a_job_that_stops_with_a_savepoint_commits_what_it_holds_and_ends():
    driver = Driver(interval_ms=1_000_000)
    driver.source.total = 100
    requests = []
    driver.at_epoch(1, lambda: requests.append(driver.ask(stop=True)))
    log = driver.run()
    assert [order.kind for order in driver.executor.headers[1].orders] == ["savepoint"]
    assert log[-5:] == ["commit e2s0 e2s1", "finish, told of 1", *ENDS[1:]]
    assert requests[0].done.result(0) == driver.checkpoints.latest.path
    assert driver.source.read == {0: 10, 1: 10}


def test_a_savepoint_that_drains_waits_for_the_end_of_the_input():
    driver = Driver(interval_ms=1_000_000)
    driver.source.total = 100
    requests = []
    driver.at_epoch(1, lambda: requests.append(driver.ask(stop=True, drain=True)))
    log = driver.run()
    assert "epoch 2, the last" in log
    assert requests[0].done.result(0) == driver.checkpoints.latest.path


def test_a_savepoint_without_a_directory_says_so_and_the_job_goes_on():
    driver = Driver()
    driver.checkpoints._settings = CheckpointSettings(interval_ms=None, directory="/c")
    request = SavepointRequest(None, stop=True)
    driver.control.savepoints.append(request)
    log = driver.run()
    assert isinstance(request.done.exception(0), ConfigurationError)
    assert "epoch 2, the last" in log


def test_who_waits_for_a_savepoint_is_told_that_the_epoch_failed():
    driver = Driver()
    request = driver.ask()
    driver.executor.answers[1] = ValueError("a function")
    with pytest.raises(ValueError, match="a function"):
        driver.run()
    error = request.done.exception(0)
    assert "a savepoint was not made" in error.message
    assert "a function" in error.detail


def test_who_asks_too_late_for_a_savepoint_is_told_so():
    driver = Driver()
    requests = []
    driver.at_epoch(2, lambda: requests.append(driver.ask()))
    driver.run()
    assert "the job ended before" in str(requests[0].done.exception(0))


def test_a_savepoint_that_cannot_be_published_is_removed_and_the_job_goes_on():
    driver = Driver()
    driver.source.total = 15
    request = driver.ask()
    driver.executor.answers[1] = fail_to_write
    driver.run()
    assert isinstance(request.done.exception(0), CheckpointStorageError)
    assert [path for path in driver.stores.files if path.startswith("/s/")] == []


def test_what_functions_print_and_log_comes_out_slot_by_slot():
    driver = Driver()

    def say(reports):
        for report in reversed(reports):
            report.logs = [LogLine("map 1", f"slot {report.slot}", logging.INFO)]
            report.operators.append((SINK, OperatorReport(lines=[f"line {report.slot}"])))
        reports.reverse()

    driver.executor.answers[1] = say
    log = driver.run()
    told = [line for line in log if line.startswith(("log", "print"))]
    assert told == ["log slot 0", "print line 0", "log slot 1", "print line 1"]


def test_progress_is_told_after_each_epoch():
    driver = Driver()

    def stamp(reports):
        reports[0].watermark_ms, reports[1].watermark_ms = 70, 50
        reports[0].operators.append((SOURCE, OperatorReport(max_timestamp_ms=90, counters={"late": 2})))

    driver.executor.answers[1] = driver.executor.answers[2] = stamp
    driver.run()
    assert [
        (each.epoch, each.records_in, each.watermark_ms, each.event_time_ms) for each in driver.progress
    ] == [
        (1, 10, 50, 90),
        (2, 20, 50, 90),
    ]
    assert driver.progress[-1].counters == {("source", "late"): 4}


def test_ranges_that_were_left_early_are_planned_again():
    driver = Driver()
    driver.source.total = 5

    def leave(reports):
        _, operator = reports[1].operators[0]
        (end,) = operator.range_ends
        operator.range_ends = [RangeEnd(end.split_id, 2, finished=False, records=2)]
        operator.ranges_left_early = True
        reports[1].backlogs = (Backlog(held=1, begun=100, ended=False),)

    driver.executor.answers[1] = leave
    driver.run()
    second = driver.executor.headers[1]
    assert second.epoch == 2
    assert driver.source.read == {0: 5, 1: 7}


def test_places_where_a_job_may_fail_are_reached_in_the_order_that_is_documented():
    """`common.crash_points` draws it; simulations and `MiniCluster.fail_at` rely on it."""
    reached = []
    hook = SimpleNamespace(
        reach=lambda name, detail: reached.append(name),
        around=lambda name, detail, action: (reached.append(name), action())[1],
    )
    before = set_crash_hook(hook)
    try:
        Driver(interval_ms=0).run()
    finally:
        set_crash_hook(before)
    interesting = [name for name in reached if not name.startswith("storage")]
    first = ["attempt.start", "plan", "epoch.report", "state.driver", "state.driver", "manifest.write"]
    assert interesting[: len(first)] == first
    assert interesting[len(first) : len(first) + 5] == [
        "manifest.published",
        "seal",
        "sink.commit",
        "sink.committed",
        "commit.done",
    ]
    assert interesting.count("tidied") == 1


class Waiting(JobOutput):
    """Output whose reader takes records when the test says so."""

    def __init__(self, log):
        super().__init__({COLLECT: "collected"})
        self.log = log
        self.reader = self.read("collected")


def driver_with_reader(**named):
    driver = Driver(options={"millstream.collect.max-bytes": 15}, **named)  # a number counts as five
    output = Waiting(driver.log)
    driver.master._results._output = output
    driver.source.total = 30
    return driver, output


def test_a_job_reads_no_more_while_as_many_results_as_may_wait_are_not_taken():
    driver, output = driver_with_reader()
    slept = []

    def keep_alive():
        slept.append(driver.master._epoch)
        if len(slept) % 3 == 0:
            taken.extend(next(output.reader) for _ in range(4))
            assert output.waiting_bytes == 0

    taken = []
    driver.executor.keep_alive = keep_alive
    driver.run()
    assert slept == [2, 2, 2, 4, 4, 4]
    assert taken == [1, 1, 2, 2, 3, 3, 4, 4]
    assert driver.source.read == {0: 30, 1: 30}


def test_a_job_that_waits_for_its_reader_is_not_taken_for_idle_and_can_be_cancelled():
    driver, _ = driver_with_reader()
    driver.master._settings = JobSettings.of(
        Configuration.from_dict(
            {"millstream.epoch.fixed-records": 5, "millstream.execution.stop-when-idle": "1 s"}
        )
    )
    waits = []

    def keep_alive():
        waits.append(driver.clock.now_ms())
        if waits[-1] > waits[0] + 10_000:
            driver.control.cancel.set()

    driver.executor.keep_alive = keep_alive
    with pytest.raises(JobExecutionError, match="cancelled"):
        driver.run()
    assert driver.master._epoch == 2


def test_results_that_wait_for_a_checkpoint_have_one_made_before_its_time():
    driver, output = driver_with_reader(interval_ms=1_000_000)
    driver.executor.keep_alive = lambda: [next(output.reader) for _ in range(output.waiting_bytes // 5)]
    driver.run()
    ordered = [header.epoch for header in driver.executor.headers if header.orders]
    assert len(ordered) > 1, "only the last epoch would have one"
    assert ordered[0] == 3
    assert driver.executor.headers[2].sources[SOURCE].waits, "nothing is read in the epoch that makes room"
    assert driver.source.read == {0: 30, 1: 30}


def test_a_pause_between_checkpoints_holds_for_those_that_results_wait_for():
    driver, output = driver_with_reader(interval_ms=1_000_000, min_pause_ms=5_000)
    driver.executor.keep_alive = lambda: [next(output.reader) for _ in range(output.waiting_bytes // 5)]
    driver.run()
    made = [header.now_ms for header in driver.executor.headers if header.orders]
    assert all(later - earlier >= 5_000 for earlier, later in pairwise(made[:-1]))


def test_batch_mode_gives_its_results_at_the_end_however_many_they_are():
    driver, output = driver_with_reader(interval_ms=0, batch=True)
    driver.run()
    output.end()
    assert len(list(output.reader)) == 12
