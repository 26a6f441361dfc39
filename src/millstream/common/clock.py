"""The only place that reads a clock or sleeps; everything else is given a `Clock`."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Return the wall-clock time in epoch milliseconds; may jump."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""

    def wait(self, seconds: float, wake: threading.Event | None = None) -> bool:
        """Wait for `seconds`, or until `wake` is set; return whether it was set."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the wall-clock time in epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start."""
        return time.monotonic()

    def wait(self, seconds: float, wake: threading.Event | None = None) -> bool:
        """Wait for `seconds`, or until `wake` is set."""
        if wake is not None:
            return wake.wait(seconds)
        time.sleep(seconds)
        return False


class ManualClock:
    """A clock that a test moves by hand; waiting moves it too.

    >>> clock = ManualClock(1_000)
    >>> clock.wait(0.5), clock.now_ms()
    (False, 1500)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time it was moved to."""
        return self._now_ms

    def monotonic(self) -> float:
        """Return the same time in seconds."""
        return self._now_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Move the clock on."""
        self._now_ms += milliseconds

    def wait(self, seconds: float, wake: threading.Event | None = None) -> bool:
        """Move the clock on by `seconds` unless `wake` is set already."""
        if wake is not None and wake.is_set():
            return True
        self._now_ms += round(seconds * 1000)
        return False
