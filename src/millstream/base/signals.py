"""Signals that end a program: the first asks, the second does it; and waiting so that they are heard.

Python handles a signal between two steps of its main thread. One that arrives after the last such step and before the
thread falls asleep in a lock does not wake it: an endless `event.wait()` would never have it handled. What waits on the
main thread for as long as it takes therefore looks up four times a second.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeVar

from millstream.base.clock import SystemClock

__all__ = ["Terminated", "handle_once", "next_of", "result_of", "wait_for"]

Item = TypeVar("Item")

_LOOK_S = 0.25


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; a KeyboardInterrupt, so that whoever waits gives up in the same way."""


def handle_once(number: int, handler: Callable[[int, FrameType | None], Any]) -> Any:
    """Have the first signal of a kind handled, and those behind it do what they do by default; on the main thread.

    Where a function holds the interpreter's lock no handler of Python's ever runs, so the system itself is told to put
    the default back as it delivers the first. (Where its library has no `sysv_signal`, the handler has to do that.)

    Returns:
        What handled it before.
    """
    before = signal.signal(number, handler)
    library = ctypes.CDLL(None)
    if hasattr(library, "sysv_signal"):
        for each in (library.signal, library.sysv_signal):
            each.restype, each.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
        library.sysv_signal(number, library.signal(number, None))
    return before


def wait_for(event: threading.Event, seconds: float | None = None) -> bool:
    """Wait until an event is set, at most `seconds` if they are given; return whether it is set.

    >>> wait_for(threading.Event(), 0.01)
    False
    """
    if seconds is None:
        while not event.wait(_LOOK_S):
            pass
        return True
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while not event.wait(min(max(deadline - clock.monotonic(), 0), _LOOK_S)):
        if clock.monotonic() >= deadline:
            return event.is_set()
    return True


def next_of(items: queue.SimpleQueue[Item]) -> Item:
    """Return what comes next in a queue, however long that takes."""
    while True:
        try:
            return items.get(timeout=_LOOK_S)
        except queue.Empty:
            continue


def result_of(future: Future[Item]) -> Item:
    """Return a future's result, or raise its error, however long that takes."""
    while not concurrent.futures.wait((future,), _LOOK_S).done:
        pass
    return future.result()
