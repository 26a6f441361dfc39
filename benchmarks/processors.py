"""Processor time of all processes that take part in a run: slots, Spark's JVM and its workers."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import numpy as np
from marked import is_marked, processor_seconds_of

__all__ = ["WARM_UP", "Processors", "once_it_ran"]

SAMPLE_S = 0.05
WARM_UP = 0.25


def once_it_ran(reached: list[tuple[float, int]]) -> tuple[float, float, int]:
    """Return when a job had read its first quarter, when its last epoch ended, and how much it read between.

    Args:
        reached: After each epoch the time, and how many records were read.
    """
    end, read = reached[-1]
    warm, before = next(each for each in reached if each[1] >= read * WARM_UP)
    return warm, end, read - before


class Processors:
    """Adds up the processor time of all processes that have a mark in their environment."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._marked: dict[str, bool] = {}
        self._of_each: dict[str, float] = {}
        self._seen: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look_on)

    @property
    def seconds(self) -> float:
        return sum(self._of_each.values())

    def between(self, begin: float, end: float) -> float:
        """Return the seconds between two instants of the machine's monotonic clock."""
        times, seconds = zip(*self._seen, strict=True)
        return float(np.interp(end, times, seconds) - np.interp(begin, times, seconds))

    def __enter__(self) -> Processors:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._end.wait(SAMPLE_S):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if self._is_marked(pid):
                    self._look(pid)
            self._seen.append((time.monotonic(), self.seconds))

    def _is_marked(self, pid: str) -> bool:
        if pid not in self._marked:
            try:
                self._marked[pid] = is_marked(pid, self._mark)
            except OSError:  # another user's, or gone
                return False
        return self._marked[pid]

    def _look(self, pid: str) -> None:
        with suppress(OSError):  # gone
            self._of_each[pid] = processor_seconds_of(pid)
