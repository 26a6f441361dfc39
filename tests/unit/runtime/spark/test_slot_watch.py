"""Slots are asked all the while whether they are there."""

from __future__ import annotations

import threading

import pytest

from millstream.common.configuration import Configuration
from millstream.common.errors import ConfigurationError, SlotLostError
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import SlotAddress
from millstream.runtime.spark.executor import SparkExecutor
from millstream.runtime.spark.slot_watch import SlotWatch

SLOTS = [SlotAddress(number, f"10.0.0.{number}", 1, "", place=f"there {number}") for number in range(3)]


def watch(ping, on_lost=lambda: None):
    return SlotWatch(SLOTS, ping=ping, on_lost=on_lost, interval_s=0.001)


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


def executor(place, **options):
    keys = {key.replace("_", "."): value for key, value in options.items()}
    made = SparkExecutor(Configuration.from_dict(keys), lambda lines: None)
    made._addresses = {0: SlotAddress(0, "10.0.0.1", 1, "", place=place)}
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
