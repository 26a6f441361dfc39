"""The ports that tests give to servers (`tests/servers/ports.py`)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from servers import ports

TESTS = Path(__file__).parents[2]


@pytest.fixture
def only(monkeypatch, tmp_path):
    """A range of one port that is ours, with locks of its own, where nobody has taken it."""
    port = ports.free_port()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(ports, "_kept", [])
    monkeypatch.setattr(ports, "FIRST", port)
    monkeypatch.setattr(ports, "LAST", port)
    yield port
    for descriptor in ports._kept:
        os.close(descriptor)


def test_ports_are_those_that_outgoing_connections_do_not_get():
    assert 12_000 <= ports.free_port() < 32_000


def test_a_port_is_given_once_also_to_another_process(only):
    assert ports.free_port() == only
    with pytest.raises(RuntimeError, match=f"no port of {only} to {only} is free"):
        ports.free_port()
    program = f"""
import sys, tempfile
sys.path.append({str(TESTS)!r})
from servers import ports
tempfile.tempdir = sys.argv[1]
ports.FIRST = ports.LAST = {only}
print(ports.free_port())
"""
    command = [sys.executable, "-c", program, tempfile.gettempdir()]
    other = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "is free; locks are in" in other.stderr


def test_a_port_on_which_somebody_listens_is_not_given(only):
    with socket.create_server(("127.0.0.1", only)), pytest.raises(RuntimeError, match="is free"):
        ports.free_port()
    assert ports.free_port() == only
