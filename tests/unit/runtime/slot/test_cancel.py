"""Who ends the slots of a cancelled job while Spark waits for them."""

from __future__ import annotations

import threading

from millstream.runtime.slot.cancel import CancelWatch

NEVER_S = 60.0


class Slots:
    """Notes what was done to them."""

    def __init__(self):
        self.done = []
        self.told = threading.Event()
        self.killed = threading.Event()

    def tell(self):
        self.done.append("tell")
        self.told.set()

    def kill(self):
        self.done.append("kill")
        self.killed.set()

    def watch(self, cancelled, *, grace_s):
        return CancelWatch(cancelled.is_set, tell=self.tell, kill=self.kill, grace_s=grace_s, poll_s=0.001)


def test_slots_that_do_not_end_after_they_were_told_are_killed():
    slots, cancelled = Slots(), threading.Event()
    watch = slots.watch(cancelled, grace_s=0.001)
    watch.start()
    cancelled.set()
    assert slots.killed.wait(10)
    watch.stop()
    assert slots.done == ["tell", "kill"]


def test_slots_that_end_in_time_are_not_killed():
    slots, cancelled = Slots(), threading.Event()
    watch = slots.watch(cancelled, grace_s=NEVER_S)
    watch.start()
    cancelled.set()
    assert slots.told.wait(10)
    watch.stop()
    assert slots.done == ["tell"]
    assert not watch._thread.is_alive()


def test_slots_of_a_job_that_is_not_cancelled_are_left_alone():
    slots, cancelled = Slots(), threading.Event()
    watch = slots.watch(cancelled, grace_s=0.0)
    watch.start()
    watch.stop()
    cancelled.set()
    watch.stop()
    assert slots.done == []
    assert not watch._thread.is_alive()


def test_a_watch_may_be_stopped_before_it_was_started():
    Slots().watch(threading.Event(), grace_s=0.0).stop()
