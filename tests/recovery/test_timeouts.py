"""Checkpoints that take too long (`execution.checkpointing.timeout`) count as failed, and nothing is lost by that."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager

import pytest
from recovery_programs import RECORDS, plain
from recovery_support import FAULTS, multiset, new_environment, running

from millstream.base.crash_points import set_crash_hook

STATE_FILES = "-0-"
MANIFESTS = "_metadata"


class HangingStore:
    """Lets chosen writes hang until it is let go; what hung is written then."""

    def __init__(self, what, times):
        self.what, self.left = what, set(times)
        self.count = 0
        self.hung = []
        self.go_on = threading.Event()

    def reach(self, name, detail):
        pass

    def around(self, name, detail, action):
        if name == "storage.write" and self.what in detail.rpartition("/")[2]:
            self.count += 1
            if self.count in self.left:
                self.hung.append(detail)
                assert self.go_on.wait(60)
        return action()


@contextmanager
def hanging(what, *times):
    store = HangingStore(what, times)
    before = set_crash_hook(store)
    try:
        yield store
    finally:
        store.go_on.set()
        set_crash_hook(before)


def run(tmp_path, **options):
    environment = new_environment(
        epoch=3,
        execution_checkpointing_interval=1,
        execution_checkpointing_dir=str(tmp_path),
        execution_checkpointing_timeout="50 ms",
        **options,
    )
    FAULTS.arm()
    with running() as launcher, plain(environment).execute_and_collect() as results:
        found = multiset(results)
        return found, launcher.jobs[0]._supervisor


@pytest.mark.parametrize("times", [(1,), (2, 4), (3, 4, 5)])
def test_a_state_file_that_hangs_fails_its_checkpoint_and_the_job_goes_on(tmp_path, caplog, times):
    with hanging(STATE_FILES, *times) as store:
        found, supervisor = run(tmp_path, execution_checkpointing_tolerable__failed__checkpoints=3)
    assert len(store.hung) == len(times)
    assert found == Counter(RECORDS)
    assert supervisor.failures == []
    assert caplog.text.count("failed and is left out") == len(times)
    assert "a checkpoint was not written in time: it took longer than 0.0" in caplog.text


def test_more_failures_than_are_tolerated_fail_the_attempt(tmp_path):
    with hanging(STATE_FILES, 3, 4) as store:
        found, supervisor = run(tmp_path, execution_checkpointing_tolerable__failed__checkpoints=1)
    assert len(store.hung) == 2
    assert found == Counter(RECORDS)
    (failure,) = supervisor.failures
    assert "execution.checkpointing.timeout" in failure.error.hint


def test_a_driver_whose_clock_says_that_the_manifest_took_too_long_begins_again(tmp_path, monkeypatch):
    from millstream.testing import TickingClock

    slow = []

    def within(self, seconds, action):
        result = action()
        if not slow and any((tmp_path / path).is_dir() for path in tmp_path.glob("*/chk-2")):
            slow.append(1)
            raise TimeoutError("it took longer than told")
        return result

    monkeypatch.setattr(TickingClock, "within", within)
    found, supervisor = run(tmp_path)
    assert slow
    assert len(supervisor.failures) == 1
    assert found == Counter(RECORDS)
