"""Where a slot can be asked."""

from __future__ import annotations

import os
import socket

import pytest

from millstream.base.clock import SystemClock
from millstream.runtime.connect.asker import connect
from millstream.runtime.slot.doors import Doors, name_slot

SECRET = b"secret"


def answer(channel):
    channel.send_bytes(channel.recv_bytes())


@pytest.fixture
def doors(public):
    doors = Doors("slot", SECRET, answer, SystemClock())
    yield doors
    doors.close()


def ask(target):
    with connect(target, SECRET, "slot", timeout_s=5, silence_s=5) as channel:
        channel.send_bytes(b"hello")
        return channel.recv_bytes()


def test_both_doors_lead_to_the_slot(doors):
    assert ask(doors.open_unix("here")) == b"hello"
    assert ask(("127.0.0.1", doors.open_tcp(""))) == b"hello"


def test_port_is_open_only_where_sparks_executor_listens(doors):
    port = doors.open_tcp("127.0.0.2")
    assert ask(("127.0.0.2", port)) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_port_is_open_at_all_addresses_if_that_one_is_not_this_hosts(doors):
    assert ask(("127.0.0.1", doors.open_tcp("192.0.2.1"))) == b"hello"  # an address for documents


def test_unix_socket_goes_with_the_slot(doors):
    path = doors.open_unix("here")
    doors.close()
    assert not os.path.exists(path)


def test_no_two_slots_have_one_name():
    assert name_slot("job-0", 0, 1) != name_slot("job-0", 0, 1)


def test_nobody_is_let_in_behind_the_close(doors):
    port = doors.open_tcp("127.0.0.1")
    doors.close()
    with pytest.raises(OSError):
        ask(("127.0.0.1", port))
