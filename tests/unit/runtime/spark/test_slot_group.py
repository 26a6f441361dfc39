"""Slots that do not answer are ended where that is possible, and told of where it is not."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from millstream.base.errors import SlotLostError
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import Request, SlotAddress
from millstream.runtime.spark import slot_group
from millstream.runtime.spark.slot_group import SlotGroup
from servers.ports import free_port


def group(*addresses):
    return SlotGroup({each.slot: each for each in addresses}, b"secret", 1.0, lambda lines: None)


@pytest.fixture
def silent():
    """Yield a port that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[:2]


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
def test_slot_of_this_place_that_cannot_be_asked_is_killed(sleeper, tmp_path):
    here = SlotAddress(0, "", sleeper.pid, str(tmp_path / "none"), executor="7", place=find_place())
    assert group(here).abort() == set()
    assert sleeper.wait(10) == -signal.SIGKILL


@pytest.mark.slow
def test_executor_whose_slot_is_silent_elsewhere_is_told_of(silent, monkeypatch):
    monkeypatch.setattr(slot_group, "_ABORT_S", 0.1)
    monkeypatch.setattr(slot_group, "_KILL_S", 0.1)
    elsewhere = SlotAddress(0, "", 1, "", tcp=silent, executor="7", place="elsewhere")
    assert group(elsewhere).abort() == {"7"}


def test_slot_elsewhere_whose_port_is_closed_has_ended():
    closed = ("127.0.0.1", free_port())
    elsewhere = SlotAddress(0, "", 1, "", tcp=closed, executor="7", place="elsewhere")
    assert group(elsewhere).abort() == set()


def test_error_of_one_slot_is_raised(tmp_path):
    gone = SlotAddress(0, "", 1, str(tmp_path / "none"), place=find_place())
    with pytest.raises(SlotLostError):
        group(gone).ask_all(Request("ping"))


def test_group_without_slots_has_nobody_to_ask():
    group().ask_all(Request("open"))
    assert group().abort() == set()
