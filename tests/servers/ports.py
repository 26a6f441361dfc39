"""Ports for servers of tests, and ports where nobody listens.

They lie below those that the system gives to outgoing connections (32,768 and up on Linux), and so far that ten
thousand more is a port too, where Redis has its cluster's bus. Whoever is given one keeps a lock on it as long as its
process lives: a server that a test stops finds its port free when it is started again, whatever other tests do.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 12_000, 31_999

_kept: list[int] = []
"""Descriptors of the lock files; the locks end with the process."""


def free_port() -> int:
    """Return a port of this machine on which nobody listens, and which nobody else who asks here is given."""
    directory = Path(tempfile.gettempdir(), f"millstream-test-ports-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    begin = random.SystemRandom().randrange(LAST - FIRST + 1)
    for step in range(LAST - FIRST + 1):
        port = FIRST + (begin + step) % (LAST - FIRST + 1)
        if _keep(directory / str(port)):
            if _is_free(port):
                return port
            os.close(_kept.pop())
    raise RuntimeError(f"no port of {FIRST} to {LAST} is free; locks are in {directory}")


def _keep(file: Path) -> bool:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _kept.append(descriptor)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:  # on all addresses, and without SO_REUSEADDR: the strictest question
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
