"""A carrier that stays, with a driver and slots played by this test, over real sockets."""

from __future__ import annotations

import pickle
import queue
import threading

import pytest

from millstream.base.clock import SystemClock
from millstream.runtime.slot.core import LevelOutput
from millstream.runtime.slot.doors import Doors
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import Answer, SlotAddress, receive, send
from millstream.runtime.spark import staying_carrier
from millstream.runtime.spark.staying_carrier import DriverDoor, StayingCarrier

SECRET = b"secret"


class Slot:
    """Answers each level with a report of the epoch's header, when it may."""

    def __init__(self, number: int) -> None:
        self.connections = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = threading.Event()
        self._doors = Doors(f"slot {number}", SECRET, self._converse, SystemClock())
        path = self._doors.open_unix(find_place())
        self.address = SlotAddress(number, "here", 1, path, name=f"slot {number}")

    def _converse(self, channel):
        self.connections += 1
        try:
            while True:
                request, _ = receive(channel)
                self.asked.set()
                self.may_answer.wait(30)
                send(channel, Answer(output=LevelOutput(report=request.header)))
        except (EOFError, OSError):
            return

    def close(self):
        self.may_answer.set()
        self._doors.close()


class Driver:
    """Where the task connects; `connected` gets its connection, `close` lets go of it."""

    def __init__(self, kind: str) -> None:
        self.connected: queue.SimpleQueue = queue.SimpleQueue()
        self._done = threading.Event()
        self._doors = Doors("driver", SECRET, self._converse, SystemClock())
        if kind == "unix":
            self.door = DriverDoor("driver", find_place(), self._doors.open_unix(find_place()))
        else:
            tcp = ("127.0.0.1", self._doors.open_tcp("127.0.0.1"))
            self.door = DriverDoor("driver", "another place", "/nowhere", tcp)

    def _converse(self, channel):
        self.connected.put(channel)
        self._done.wait(30)

    def hang_up(self):
        self._done.set()

    def close(self):
        self._done.set()
        self._doors.close()


@pytest.fixture(params=["unix", "tcp"])
def driver(public, request):
    driver = Driver(request.param)
    yield driver
    driver.close()


@pytest.fixture
def slots(public):
    slots = [Slot(0), Slot(1)]
    yield slots
    for slot in slots:
        slot.close()


@pytest.fixture
def start(driver, slots, monkeypatch):
    """Run a task on a thread; returns what gets its frames when it has ended."""
    monkeypatch.setattr(staying_carrier, "prepare_worker_once", lambda: None)

    def run(idle_s=30.0, secret=SECRET):
        addresses = {slot.address.slot: slot.address for slot in slots}
        task = StayingCarrier(7, 1, addresses, secret, 30.0, 1_000, driver.door, idle_s)
        frames: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=lambda: frames.put(list(task(0, iter([1])))), daemon=True).start()
        return frames

    return run


def connection(driver):
    channel = driver.connected.get(timeout=10)
    assert channel.recv_bytes() == (7).to_bytes(8, "big"), "it tells its stay"
    return channel


def carry(channel, epoch):
    channel.send_bytes(pickle.dumps({0: b"%d for 0" % epoch, 1: b"%d for 1" % epoch}))
    return pickle.loads(channel.recv_bytes())


def test_epochs_are_carried_over_one_connection_to_each_slot(start, driver, slots):
    frames = start()
    channel = connection(driver)
    for epoch in (1, 2, 3):
        assert carry(channel, epoch).reports == [b"%d for 0" % epoch, b"%d for 1" % epoch]
    assert [slot.connections for slot in slots] == [1, 1]
    driver.hang_up()
    assert frames.get(timeout=10) == [b""]


def test_task_ends_when_nothing_comes_behind_an_epoch_but_waits_for_the_first(start, driver):
    frames = start(idle_s=0.01)
    channel = connection(driver)
    with pytest.raises(queue.Empty):
        frames.get(timeout=0.2)
    carry(channel, 1)
    assert frames.get(timeout=10) == [b""]


def test_task_ends_at_once_with_its_driver_though_it_waits_for_a_slot(start, driver, slots):
    slots[1].may_answer.clear()
    frames = start()
    channel = connection(driver)
    channel.send_bytes(pickle.dumps({0: b"", 1: b""}))
    assert slots[1].asked.wait(10)
    driver.hang_up()
    assert frames.get(timeout=10) == [b""]


def test_slot_that_is_lost_is_told_to_the_driver(start, driver, slots):
    slots[1].close()
    start()
    carried = carry(connection(driver), 1)
    ((error, _),) = carried.failures
    assert "slot 1" in str(error)
    assert carried.reports == [b"1 for 0"]


def test_task_that_cannot_reach_the_driver_says_why_and_ends(start, driver):
    driver.close()
    (reason,) = start().get(timeout=10)
    assert b"No such file" in reason or b"Connection refused" in reason


def test_task_says_nothing_to_one_that_does_not_know_the_secret(start, driver):
    (reason,) = start(secret=b"other").get(timeout=10)
    assert reason
    assert driver.connected.empty()
