"""The processes of a run: they have its mark in their environment, and so has whatever they start."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

__all__ = ["MARK", "is_marked", "mark_of_run", "processor_seconds", "processor_seconds_of"]

MARK = "MILLSTREAM_BENCHMARK"


def mark_of_run() -> dict[str, str]:
    """Return what the environment of a new run's processes has beside."""
    return {MARK: uuid.uuid4().hex}


def is_marked(pid: str, mark: str) -> bool:
    """Return whether a process has a mark.

    Raises:
        OSError: If it is another user's, or gone.
    """
    return f"{MARK}={mark}\0".encode() in Path("/proc", pid, "environ").read_bytes()


def processor_seconds_of(pid: str) -> float:
    """Return the processor time of a process.

    Raises:
        OSError: If it is gone.
    """
    fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Return the processor time of all processes of the run that this one is of."""
    seconds = 0.0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if is_marked(pid, os.environ[MARK]):
                seconds += processor_seconds_of(pid)
        except OSError:
            continue
    return seconds
