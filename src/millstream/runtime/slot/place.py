"""Where a process lives: which others it reaches by a Unix socket and a signal, and under which name of its host.

Two processes share a *place* if they reach the same Unix sockets and see the same process numbers: the same user,
kernel and namespaces (files, network, processes, users). Containers on one machine are different places, often under
one host name; so are hosts that were cloned with their name, and two users on one host.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ExecutorProcess", "find_place", "host_name", "inspect_executor"]


@dataclass(frozen=True, slots=True)
class ExecutorProcess:
    """What Spark told an executor when it started it.

    Attributes:
        id: By which the driver knows it; None in local mode, where the executor is the driver's JVM.
        host: The name or address at which Spark's other processes reach it.
        bind: The one at which it listens; empty if that is not known.
    """

    id: str | None
    host: str
    bind: str = ""


def host_name() -> str:
    """Return the name under which this host knows itself; others need not know it."""
    return socket.gethostname()


@functools.cache
def find_place() -> str:
    """Return what is the same for two processes only if they share a place."""
    parts = [host_name(), f"user:{os.geteuid()}"]
    namespaces = (f"/proc/self/ns/{kind}" for kind in ("net", "pid", "mnt", "user"))
    for path in ("/proc/sys/kernel/random/boot_id", *namespaces):
        try:
            link = path.startswith("/proc/self")
            parts.append(os.readlink(path) if link else Path(path).read_text().strip())
        except OSError:
            continue  # not Linux: the name has to do
    return " ".join(parts)


def inspect_executor(jvm_pid: int) -> ExecutorProcess:
    """Return what an executor's JVM was started with; where that cannot be seen, this host's own name.

    Every cluster manager starts executors by `… --executor-id 3 --hostname 10.0.0.7 …`. That host name is the one at
    which Spark's other executors fetch shuffle blocks, so it works from each of them, also where the host's own
    name does not resolve.
    """
    try:
        command = Path(f"/proc/{jvm_pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        command = []
    return read_executor_command(command)


def read_executor_command(command: list[str]) -> ExecutorProcess:
    """Return what a command line tells.

    >>> read_executor_command(["java", "Backend", "--executor-id", "3", "--hostname", "10.0.0.7", "--cores", "1"])
    ExecutorProcess(id='3', host='10.0.0.7', bind='10.0.0.7')
    """
    given = dict(itertools.pairwise(command))
    named = given.get("--hostname")
    bind = given.get("--bind-address") or named or ""
    return ExecutorProcess(given.get("--executor-id"), named or host_name(), bind)
