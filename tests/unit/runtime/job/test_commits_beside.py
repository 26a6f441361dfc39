"""Sinks that commit while the job goes on: what waits for them, what does not, and where their failures come out.

With lags a commit comes to its end when the loop has looked for it so often; with gates when a test lets it, on the
thread where committers work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from epoch_loop import SINK, SOURCE, Driver

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import JobExecutionError, SinkError, SlotLostError
from millstream.runtime.job import commit_pace, job_master

NEVER = 1_000_000
WHEN_BEHIND = {"millstream.commit.wait-when-behind": "0 ms"}
LONG = 60


class Lags:
    """A hook that says how often the loop looks for each commit in vain."""

    def __init__(self, *lags: int) -> None:
        self.lags = list(lags)

    def reach(self, name, detail):
        pass

    def around(self, name, detail, action):
        return action()

    def commit_lag(self):
        return self.lags.pop(0) if self.lags else 0


@pytest.fixture
def lagging():
    """Makes a driver whose commits come late."""
    hooks = []

    def make(*lags, **named):
        hooks.append(set_crash_hook(Lags(*lags)))
        return Driver(**named)

    yield make
    for hook in reversed(hooks):
        set_crash_hook(hook)


def epochs_and_commits(log):
    return [line for line in log if line.startswith(("epoch", "commit", "recover", "finish"))]


def ordered(driver):
    """Return the epochs that were to end with a checkpoint."""
    return [header.epoch for header in driver.executor.headers if header.orders]


# What waits, and what does not


def test_epochs_go_on_and_the_next_checkpoint_is_made_when_the_one_before_is_committed(lagging):
    driver = lagging(3, interval_ms=0)
    driver.source.total = 30
    log = driver.run()
    assert epochs_and_commits(log) == [
        "epoch 1",
        "epoch 2, told of 1",
        "epoch 3",
        "epoch 4",
        "commit e1s0 e1s1",
        "epoch 5",
        "commit e5s0 e5s1",
        "epoch 6, the last, told of 2",
        "commit e6s0 e6s1",
        "finish, told of 3",
    ]
    assert ordered(driver) == [1, 5, 6]


def test_a_job_that_does_not_keep_up_makes_the_checkpoint_and_waits_for_the_commit_to_complete_it(lagging):
    driver = lagging(*[100] * 4, interval_ms=0, options=WHEN_BEHIND)
    driver.source.total = 20
    driver.source.backlog = True
    manifests, missing = [], []
    commit = driver.target.commit

    def look_and_commit(committables):
        manifests.append([path for path in driver.stores.files if path.endswith("_metadata")])
        files = [f"/c/job/{each.path}" for each in driver.checkpoints.latest.manifest.files()]
        missing.extend(path for path in files if path not in driver.stores.files)
        commit(committables)

    driver.target.commit = look_and_commit
    log = driver.run()
    assert epochs_and_commits(log)[:4] == [
        "epoch 1",
        "epoch 2, told of 1",
        "commit e1s0 e1s1",
        "epoch 3, told of 2",
    ]
    assert ordered(driver) == [1, 2, 3, 4]
    assert manifests[0] == ["/c/job/chk-1/_metadata"], (
        "the second one is not complete before the first is committed"
    )
    assert len(manifests) == 4
    assert missing == [], "nothing is removed while slots have written what no manifest lists yet"


def test_a_job_that_is_behind_for_a_moment_goes_on(lagging):
    driver = lagging(5, interval_ms=0, options={"millstream.commit.wait-when-behind": "35 ms"})
    driver.source.total = 10**6
    driver.source.backlog = True
    at_each_epoch(driver, lambda epoch: setattr(driver.source, "backlog", epoch != 4))
    at_each_epoch(driver, lambda epoch: driver.clock.advance(10))
    at_each_epoch(driver, lambda epoch: driver.control.stop.set() if epoch == 8 else None)
    driver.run()
    assert ordered(driver)[:2] == [1, 7], "30 ms it was behind, then again 20"
    driver = lagging(5, interval_ms=0, options={"millstream.commit.wait-when-behind": "35 ms"})
    driver.source.total = 10**6
    driver.source.backlog = True
    at_each_epoch(driver, lambda epoch: driver.clock.advance(10))
    at_each_epoch(driver, lambda epoch: driver.control.stop.set() if epoch == 8 else None)
    driver.run()
    assert ordered(driver)[:2] == [1, 6]


def test_a_checkpoint_is_put_off_for_no_longer_than_it_may_take(lagging):
    driver = lagging(NEVER, interval_ms=0, timeout_ms=25)
    driver.source.total = 50
    for epoch in range(1, 10):
        driver.at_epoch(epoch, lambda: driver.clock.advance(10))
    log = driver.run()
    assert ordered(driver)[:2] == [1, 5]
    assert epochs_and_commits(log)[3:6] == ["epoch 4", "epoch 5", "commit e1s0 e1s1"]


def test_checkpoints_that_are_not_wanted_any_more_stay_until_the_next_is_committed(lagging):
    driver = lagging(0, 2, interval_ms=0)
    driver.source.total = 30
    there = []
    for epoch in range(1, 6):
        driver.at_epoch(
            epoch, lambda: there.append(sorted(p for p in driver.stores.files if "_metadata" in p))
        )
    driver.run()
    first, second = "/c/job/chk-1/_metadata", "/c/job/chk-2/_metadata"
    assert there == [[], [first], [first, second], [first, second], [second]]


def test_whoever_asks_meanwhile_for_savepoints_gets_them_in_order_when_sinks_have_committed(lagging):
    driver = lagging(4, interval_ms=NEVER)
    driver.source.total = 60
    requests, done = [], []

    def ask():
        requests.append(driver.ask())
        requests[-1].done.add_done_callback(lambda _: done.append(driver.log.count("commit e2s0 e2s1")))

    driver.at_epoch(1, lambda: driver.control.checkpoints.append(SimpleNamespace(done=Answer())))
    driver.at_epoch(3, ask)
    driver.at_epoch(4, ask)
    log = driver.run()
    lines = epochs_and_commits(log)
    commit = lines.index("commit e2s0 e2s1")
    assert lines[commit - 1] == "epoch 6", "epochs went on"
    assert ordered(driver)[:3] == [2, 7, 8]
    assert done == [1, 1], "both behind the commit"
    paths = [request.done.result(0) for request in requests]
    assert [len(header.orders) for header in driver.executor.headers[6:8]] == [2, 2]
    assert [
        order.location
        for header in driver.executor.headers[6:8]
        for order in header.orders
        if order.is_savepoint
    ] == paths


class Answer:
    """Takes the answer to a checkpoint that was asked for."""

    def set_running_or_notify_cancel(self):
        return True

    def set_result(self, path):
        self.path = path


def test_without_checkpoints_the_job_waits_for_each_commit(lagging):
    driver = lagging(*[NEVER] * 4)
    driver.source.total = 15
    assert epochs_and_commits(driver.run()) == [
        "epoch 1",
        "commit e1s0 e1s1",
        "epoch 2",
        "commit e2s0 e2s1",
        "epoch 3, the last",
        "commit e3s0 e3s1",
        "finish",
    ]


def test_what_a_checkpoint_holds_is_committed_before_slots_are_there_however_long_that_takes(lagging):
    driver = lagging(NEVER, interval_ms=0, restored={SOURCE: {0: 5, 1: 5}, SINK: ["old"]})
    assert driver.run()[:2] == ["recover old", "deploy"]


@pytest.mark.parametrize("how", [{"stop": True}, {"stop": True, "drain": True}])
def test_who_stops_a_job_with_a_savepoint_hears_of_it_when_all_is_committed(lagging, how):
    driver = lagging(NEVER, NEVER, interval_ms=NEVER)
    driver.source.total = 100
    requests = []

    def ask():
        requests.append(driver.ask(**how))
        requests[0].done.add_done_callback(lambda _: driver.log.append("told"))

    driver.at_epoch(1, ask)
    log = driver.run()
    assert log.index("commit e2s0 e2s1") < log.index("finish, told of 1") < log.index("told")


# Failures


def test_a_commit_that_fails_fails_the_job_with_its_next_epoch_though_no_checkpoint_is_due(lagging):
    driver = lagging(1, interval_ms=NEVER)
    driver.source.total = 100
    driver.target.fails = 1
    driver.at_epoch(1, lambda: driver.control.checkpoints.append(SimpleNamespace(done=Answer())))
    with pytest.raises(SinkError, match="the target is away"):
        driver.run()
    assert ordered(driver) == [2]
    assert epochs_and_commits(driver.log)[-1] == "epoch 3, told of 1"
    assert driver.log.count("abort") == 1
    assert not [line for line in driver.log if line.startswith(("commit", "remove e2"))]


def test_a_commit_that_fails_as_the_next_checkpoint_waits_for_it_fails_that_too(lagging):
    driver = lagging(NEVER, interval_ms=0, options=WHEN_BEHIND)
    driver.source.total = 100
    driver.source.backlog = True
    driver.target.fails = 1
    requests = []
    driver.at_epoch(1, lambda: requests.append(driver.ask()))
    with pytest.raises(SinkError, match="the target is away"):
        driver.run()
    assert "the target is away" in requests[0].done.exception(0).detail
    assert driver.checkpoints.latest.manifest.checkpoint_id == 1
    assert not [path for path in driver.stores.files if path.startswith("/s/") and path.endswith("_metadata")]
    assert "remove e2s0 e2s1" in driver.log, "what the second one was to hold"


def test_an_epoch_that_fails_lets_the_commit_come_to_its_end_before_anything_is_removed(lagging, caplog):
    driver = lagging(NEVER, interval_ms=NEVER)
    driver.source.total = 100
    driver.at_epoch(1, lambda: driver.control.checkpoints.append(SimpleNamespace(done=Answer())))
    driver.executor.answers[3] = ValueError("a function")
    driver.at_epoch(2, lambda: setattr(driver.executor, "checkpointed", False))
    driver.executor.answers[4] = driver.executor.answers.pop(3)
    with pytest.raises(ValueError, match="a function"):
        driver.run()
    undone = driver.log[driver.log.index("abort") :]
    assert undone[:3] == ["abort", "commit e2s0 e2s1", "remove e3s0 e3s1"]


def test_an_epoch_that_fails_hides_no_commit_that_failed_as_well(lagging, caplog):
    driver = lagging(NEVER, interval_ms=0)
    driver.source.total = 100
    driver.target.fails = 1
    driver.executor.answers[2] = ValueError("a function")
    with pytest.raises(ValueError, match="a function"):
        driver.run()
    assert "another error while the failed attempt was ended: [SINK] the target is away" in caplog.text


def test_what_cannot_be_removed_hides_no_commit_that_failed_as_well(lagging, caplog):
    driver = lagging(NEVER, interval_ms=0)
    driver.source.total = 100
    driver.executor.checkpointed = False
    driver.target.fails = 1

    def abort(committables):
        raise SinkError("nothing can be removed")

    driver.target.abort = abort
    driver.executor.answers[3] = ValueError("a function")
    with pytest.raises(ValueError, match="a function"):
        driver.run()
    assert "the target is away" in caplog.text
    assert not driver.master.is_committing


# On the thread


class Gate:
    """Has a target wait as it commits."""

    def __init__(self, driver: Driver) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.failure: Exception | None = None
        self._log, self._commit = driver.log, driver.target.commit
        driver.target.commit = self.commit

    def commit(self, committables):
        self._log.append("commit begins")
        self.reached.set()
        assert self.open.wait(LONG), "nobody lets the commit go on"
        if self.failure is not None:
            raise self.failure
        self._commit(committables)


class Beside:
    """Runs a driver on a thread, and lets it end."""

    def __init__(self, driver: Driver) -> None:
        self.error: BaseException | None = None
        self.driver = driver
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.driver.run()
        except BaseException as error:
            self.error = error

    def end(self):
        self.thread.join(LONG)
        assert not self.thread.is_alive()
        return self.error


def gated(**named):
    driver = Driver(interval_ms=named.pop("interval_ms", 0), **named)
    driver.source.total = 10**9
    return driver, Gate(driver)


def at_each_epoch(driver: Driver, action: Callable[[int], None]) -> None:
    """Do something with each epoch from the second one on."""
    run_epoch = driver.executor.run_epoch

    def run(headers):
        reports = run_epoch(headers)
        if headers[0].epoch > 1:
            action(headers[0].epoch)
        return reports

    driver.executor.run_epoch = run


def test_epochs_go_on_while_a_target_takes_long():
    driver, gate = gated()

    def go_on(epoch):
        if epoch == 2:
            assert gate.reached.wait(LONG)
        if epoch == 200:
            gate.open.set()
        if "commit e1s0 e1s1" in driver.log:
            driver.control.stop.set()

    at_each_epoch(driver, go_on)
    log = driver.run()
    assert log.index("commit begins") < log.index("epoch 100") < log.index("commit e1s0 e1s1")
    assert min(ordered(driver)[1:]) > 200
    assert log[-1] == "close sink"


def test_a_commit_that_is_nearly_done_is_waited_for_so_that_each_epoch_has_its_checkpoint(monkeypatch):
    monkeypatch.setattr(commit_pace, "_MOMENT_S", LONG)
    driver = Driver(interval_ms=0)
    driver.source.total = 50
    log = driver.run()
    assert ordered(driver) == list(range(1, 11))
    commits = [line for line in epochs_and_commits(log) if not line.startswith("finish")]
    assert [line.split()[0] for line in commits[:18]] == ["epoch", "commit"] * 9


def test_a_job_that_has_nothing_to_do_hears_at_once_that_a_commit_failed():
    driver, gate = gated()
    driver.source.total = 5
    plan = driver.source.plan
    driver.source.plan = lambda request: type(plan(request))(plan(request).ranges)  # it never ends
    gate.failure = SinkError("the target is away")
    idle = []

    def keep_alive():
        idle.append(1)
        gate.open.set()

    driver.executor.keep_alive = keep_alive
    with pytest.raises(SinkError, match="the target is away"):
        driver.run()
    assert idle


def test_slots_are_kept_alive_while_the_job_waits_for_the_last_commit():
    driver, gate = gated(options={"millstream.slot.lease": "30 ms"})
    driver.source.total = 5
    alive = []

    def keep_alive():
        alive.append(driver.log[-1])
        gate.open.set()

    driver.executor.keep_alive = keep_alive
    log = driver.run()
    assert alive[0] == "commit begins"
    assert log[-5:-3] == ["commit e1s0 e1s1", "finish, told of 1"]


def test_a_job_that_waits_for_a_commit_and_is_cancelled_ends_its_slots_and_then_the_commit():
    driver, gate = gated(options={**WHEN_BEHIND, "millstream.slot.lease": "30 ms"})
    driver.source.backlog = True
    driver.executor.keep_alive = driver.control.cancel.set
    running = Beside(driver)
    assert gate.reached.wait(LONG)
    abort = driver.executor.abort
    aborted = threading.Event()
    driver.executor.abort = lambda: (abort(), aborted.set())
    assert aborted.wait(LONG)
    assert running.thread.is_alive(), "nobody is told that the job has ended while it may still publish"
    gate.open.set()
    assert isinstance(error := running.end(), JobExecutionError)
    assert "cancelled" in str(error)
    undone = driver.log[driver.log.index("abort") :]
    assert undone == [
        "abort",
        "commit e1s0 e1s1",
        "remove e2s0 e2s1",
        "status removed",
        "close source",
        "close sink",
    ]


def test_a_commit_that_hangs_is_pressed_when_a_cancelled_job_has_waited_for_as_long_as_for_a_slot():
    driver, gate = gated(options={"millstream.slot.timeout": "10 ms", "millstream.slot.lease": "30 ms"})
    gate.failure = SinkError("Spark has given the job up")
    at_each_epoch(driver, lambda epoch: driver.control.cancel.set())
    pressed = []

    def cancel_jobs():
        pressed.append(driver.log[-1])
        gate.open.set()

    driver.executor.cancel_jobs = cancel_jobs
    abort = driver.executor.abort
    driver.executor.abort = lambda: (abort(), driver.clock.advance(1))
    waits = driver.master._sinks.abort

    def abort_sinks(every_s, press, **named):
        return waits(0.01, lambda: (driver.clock.advance(6), press()), **named)

    driver.master._sinks.abort = abort_sinks
    with pytest.raises(JobExecutionError, match="cancelled"):
        driver.run()
    assert pressed
    assert driver.log[-1] == "close sink"


def test_a_process_that_ends_does_not_say_that_a_job_has_ended_whose_commit_hangs(monkeypatch):
    monkeypatch.setattr(job_master, "_ENDING_S", 0.01)
    driver, gate = gated()
    driver.executor.abandon = lambda: True
    hangs, goes_on = threading.Event(), threading.Event()
    at_each_epoch(driver, lambda epoch: (hangs.set(), goes_on.wait(LONG)))
    running = Beside(driver)
    assert hangs.wait(LONG)
    assert gate.reached.wait(LONG)
    assert not driver.master.abandon()
    driver.control.cancel.set()
    gate.open.set()
    goes_on.set()
    assert isinstance(running.end(), JobExecutionError)


def test_ctrl_c_where_the_job_runs_on_the_main_thread_does_not_wait_for_a_commit_that_hangs(
    monkeypatch, caplog
):
    monkeypatch.setattr(job_master, "_ENDING_S", 0.01)
    driver, gate = gated()
    driver.executor.answers[2] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    assert "they are committing still" in caplog.text
    assert driver.master.is_committing, "so nobody says that the job has ended"
    assert "commit e1s0 e1s1" not in driver.log
    thread = next(each for each in threading.enumerate() if each.name == "millstream-commit")
    gate.open.set()
    thread.join(LONG)
    assert driver.log[-2:] == ["commit e1s0 e1s1", "close sink"]


def test_slots_that_are_lost_while_the_job_waits_fail_it_behind_the_commit():
    driver, gate = gated(options={**WHEN_BEHIND, "millstream.slot.lease": "30 ms"})
    driver.source.backlog = True

    def keep_alive():
        gate.open.set()
        raise SlotLostError("slot 1 is gone")

    driver.executor.keep_alive = keep_alive
    with pytest.raises(SlotLostError):
        driver.run()
    assert driver.log.index("commit e1s0 e1s1") < driver.log.index("remove e2s0 e2s1")


def test_a_commit_that_takes_long_is_told_of_once(lagging, caplog):
    driver = lagging(10, interval_ms=0)
    driver.source.total = 100
    at_each_epoch(driver, lambda epoch: driver.clock.advance(8_000))
    driver.run()
    assert epochs_and_commits(driver.log).index("commit e1s0 e1s1") == 11
    assert caplog.text.count("sinks have been committing for longer than 30 s") == 1
