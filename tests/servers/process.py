"""A server as a process of its own: on this machine only, on a free port, ended with the process that started it."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from servers.ports import free_port

AnyServer = TypeVar("AnyServer", bound="Server")

CACHE = Path(__file__).parents[2] / "build" / "test-servers"


class Server:
    """A program that serves on a port of this machine.

    Attributes:
        user: Who runs it, for servers that refuse root; its directory belongs to that user then.
        start_s: How long it may take to start.
    """

    user: str | None = None
    start_s = 90

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start, on the same port and with the same data as before; return when it answers."""
        self._process = self._spawn(self.command())
        deadline = time.monotonic() + self.start_s
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{type(self).__name__} did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)

    @property
    def _log(self) -> Path:
        return self.directory / "server.log"

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a process that ends with this one."""
        with self._log.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=self._prepare,
                start_new_session=True,
            )

    def _prepare(self) -> None:
        if self.user is not None and os.geteuid() == 0:
            entry = pwd.getpwnam(self.user)
            os.initgroups(self.user, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
        _end_with_this_process()

    def stop(self) -> None:
        """Kill it: what has been acknowledged is on disk, or lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ensure(self) -> None:
        """Have it run, and answer."""
        if self._process is None:
            self.start()
        else:
            self.go_on()

    def close(self) -> None:
        """End it for good."""
        self.stop()

    def pause(self) -> None:
        """Have it take connections, but answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def running(server: AnyServer) -> Iterator[AnyServer]:
    """Start a server for a fixture, and end it."""
    try:
        server.start()
        yield server
    finally:
        server.close()


def lent(server: AnyServer) -> Iterator[AnyServer]:
    """Lend a server to a test, which may stop or pause it and leave the rest to this."""
    try:
        yield server
    finally:
        server.ensure()


def _end_with_this_process() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def answers(action: Callable[[], object]) -> bool:
    """Return whether an action, such as asking a server something, raises nothing."""
    try:
        action()
    except Exception:
        return False
    return True
