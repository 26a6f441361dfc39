"""Watches processes of this test run: everything Spark starts inherits a mark in its environment."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(
    0, str(Path(__file__).parent)
)  # with `--import-mode=importlib` tests have no directory on the path

collect_ignore = ["two_hosts.py"]

MARK = "MILLSTREAM_TEST_RUN"
os.environ[MARK] = uuid.uuid4().hex  # before the first JVM starts


class Processes:
    """Finds living processes of one mark."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def find(self, text: str) -> list[int]:
        """Return the processes whose command line contains `text`."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    ours = f"{MARK}={self.mark}\0".encode() in (entry / "environ").read_bytes()
                except OSError:
                    continue  # it has just ended, or is another user's
                if text in command and ours:
                    found.append(int(entry.name))
        return found

    def slots(self) -> list[int]:
        """Return the slot processes."""
        return self.find("millstream.runtime.slot.process")

    @staticmethod
    def wait_until(condition: Callable[[], object], what: str, *, seconds: float = 120) -> None:
        """Poll until `condition` holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.05)

    def wait_until_no_slot(self) -> None:
        """Wait until the last slot has ended."""
        self.wait_until(lambda: not self.slots(), "every slot ended", seconds=15)


@pytest.fixture
def processes() -> Processes:
    """Processes of this process's Spark session."""
    return Processes(os.environ[MARK])


@pytest.fixture
def marked() -> Processes:
    """Processes of one scenario, run with `MARK` set to `marked.mark` in its environment."""
    return Processes(uuid.uuid4().hex)
