"""Slots are asked all the while whether they are there."""

from __future__ import annotations

import threading
from multiprocessing import Pipe

import pytest

from millstream.base.errors import ConfigurationError, SlotLostError
from millstream.config.configuration import Configuration
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import SlotAddress, SlotSilentError
from millstream.runtime.spark.executor import SparkExecutor
from millstream.runtime.spark.slot_watch import SlotWatch

SLOTS = [SlotAddress(number, f"10.0.0.{number}", 1, "", place=f"there {number}") for number in range(3)]


class Lines:
    """Connections to slots; `ends` has those of the slots."""

    def __init__(self):
        self.ends = {}
        self.all_held = threading.Event()

    def hold(self, address):
        held, self.ends[address.slot] = Pipe()
        if len(self.ends) == len(SLOTS):
            self.all_held.set()
        return held


def watch(ping, on_lost=lambda: None, *, hold=None, interval_s=0.001):
    return SlotWatch(SLOTS, hold=hold or Lines().hold, ping=ping, on_lost=on_lost, interval_s=interval_s)


def test_every_slot_is_asked_again_and_again_until_the_watch_stops():
    asked, enough = [], threading.Event()

    def ping(address):
        asked.append(address.slot)
        if len(asked) == 9:
            enough.set()

    watching = watch(ping)
    watching.start()
    assert enough.wait(10)
    watching.stop()
    watching._thread.join(10)
    assert asked[:9] == [0, 1, 2] * 3
    count = len(asked)
    assert not watching._thread.is_alive() and watching.lost is None and len(asked) == count


def test_first_loss_is_told():
    told = threading.Event()

    def ping(address):
        if address.slot == 1:
            raise SlotLostError("slot 1 is silent")
        assert address.slot == 0, "who comes behind a loss is not asked"

    watching = watch(ping, told.set)
    watching.start()
    assert told.wait(10)
    assert str(watching.lost).startswith("[SLOT_LOST] slot 1 is silent")
    watching.stop()
    watching._thread.join(10)
    assert not watching._thread.is_alive()


def test_what_is_lost_while_the_watch_stops_is_no_loss():
    asked, told = threading.Event(), []

    def ping(address):
        asked.set()
        assert stopped.wait(10)
        raise SlotLostError("it was closed")

    stopped = threading.Event()
    watching = watch(ping, lambda: told.append(1))
    watching.start()
    assert asked.wait(10)
    watching.stop()
    stopped.set()
    watching._thread.join(10)
    assert watching.lost is None and told == []


def test_slot_whose_connection_ends_is_asked_at_once_and_its_loss_told():
    lines, asked, told = Lines(), [], threading.Event()

    def ping(address):
        asked.append(address.slot)
        raise SlotLostError(f"slot {address.slot} is gone")

    watching = watch(ping, told.set, hold=lines.hold, interval_s=600)
    watching.start()
    assert lines.all_held.wait(10)
    lines.ends[2].close()
    assert told.wait(10)
    assert asked == [2] and str(watching.lost).startswith("[SLOT_LOST] slot 2 is gone")
    watching.stop()
    watching._thread.join(10)
    assert not watching._thread.is_alive()


def test_slot_that_lives_though_its_connection_ended_is_no_loss_and_is_asked_on():
    lines, asked, again = Lines(), [], threading.Event()

    def ping(address):
        asked.append(address.slot)
        if asked.count(2) == 3:
            again.set()

    watching = watch(ping, hold=lines.hold, interval_s=0.01)
    watching.start()
    assert lines.all_held.wait(10)
    lines.ends[2].close()
    assert again.wait(10)
    watching.stop()
    watching._thread.join(10)
    assert watching.lost is None and not watching._thread.is_alive()


def test_slot_that_is_gone_before_it_is_watched_is_lost():
    told = threading.Event()

    def hold(address):
        raise SlotLostError("slot 0 refuses")

    watching = watch(lambda address: None, told.set, hold=hold, interval_s=600)
    watching.start()
    assert told.wait(10)
    assert str(watching.lost).startswith("[SLOT_LOST] slot 0 refuses")
    watching.stop()


def test_watch_that_stops_does_not_wait_for_the_next_ping():
    watching = watch(lambda address: None, interval_s=600)
    watching.start()
    watching.stop()
    watching.stop()
    watching._thread.join(10)
    assert not watching._thread.is_alive()


def executor(place, **options):
    keys = {key.replace("_", "."): value for key, value in options.items()}
    made = SparkExecutor(Configuration.from_dict(keys), lambda lines: None)
    made._group = made._group_of({0: SlotAddress(0, "10.0.0.1", 1, "", place=place)})
    return made


INTERVAL = {"execution_checkpointing_interval": "1 s"}


def test_checkpoints_that_only_the_drivers_host_would_have_are_refused():
    with pytest.raises(ConfigurationError, match=r"slots run on 10\.0\.0\.1, and checkpoints") as error:
        executor("elsewhere", **INTERVAL)._check_storage()
    assert error.value.hint == "Set execution.checkpointing.dir to one that all hosts share."


@pytest.mark.parametrize(
    ("place", "options"),
    [
        (find_place(), INTERVAL),
        ("elsewhere", {}),
        ("elsewhere", {**INTERVAL, "execution_checkpointing_dir": "/shared"}),
        ("elsewhere", {**INTERVAL, "high-availability_storageDir": "/shared"}),
    ],
)
def test_checkpoints_that_the_driver_finds_are_made(place, options):
    executor(place, **options)._check_storage()


def test_silent_slots_are_lost_if_they_do_not_run_and_busy_if_they_do():
    silent = {0: 0, 1: 0, 2: 0}
    told = threading.Event()

    def ping(address):
        silent[address.slot] += 1
        if address.slot:
            raise SlotSilentError(f"slot {address.slot} is silent")

    watching = SlotWatch(
        SLOTS,
        hold=Lines().hold,
        ping=ping,
        on_lost=told.set,
        interval_s=0.001,
        is_busy=lambda address: address.slot == 1,  # 2 is stopped
        patience=5,
    )
    watching.start()
    assert told.wait(10)
    watching.stop()
    assert "slot 2 is silent" in str(watching.lost)
    assert silent == {0: 5, 1: 5, 2: 5}


def test_a_silent_slot_whose_connection_has_ended_is_lost_although_it_may_be_busy():
    lines, told = Lines(), threading.Event()

    def ping(address):
        if address.slot == 1:
            raise SlotSilentError("slot 1 is silent")

    watching = SlotWatch(
        SLOTS, hold=lines.hold, ping=ping, on_lost=told.set, interval_s=30, is_busy=lambda _: True, patience=5
    )
    watching.start()
    assert lines.all_held.wait(10)
    lines.ends[1].close()
    assert told.wait(10)
    watching.stop()
    assert "slot 1 is silent" in str(watching.lost)
