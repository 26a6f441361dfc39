"""Signals that end a program: the first asks, the second does it."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Terminated", "handle_once"]


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
