"""The only place that reads a clock or sleeps; everything else is given a `Clock`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

__all__ = ["Clock", "ManualClock", "SystemClock"]

Result = TypeVar("Result")


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Return the wall-clock time in epoch milliseconds; may jump."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""

    def wait(self, seconds: float, wake: threading.Event | None = None) -> bool:
        """Wait for `seconds`, or until `wake` is set; return whether it was set."""

    def within(self, seconds: float, action: Callable[[], Result]) -> Result:
        """Return what an action gives, if it takes no longer than `seconds`.

        Raises:
            TimeoutError: If it takes longer. It goes on all the same: it is for actions whose late effects do no harm.
        """


def on_thread(action: Callable[[], Result]) -> Future[Result]:
    """Perform an action on a thread of its own, which does not keep the process from ending."""
    done: Future[Result] = Future()

    def perform() -> None:
        try:
            done.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
            done.set_exception(error)

    threading.Thread(target=perform, name="millstream-within", daemon=True).start()
    return done


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

    def within(self, seconds: float, action: Callable[[], Result]) -> Result:
        """Perform an action on a thread of its own, and wait for it no longer than `seconds`."""
        done = on_thread(action)
        try:
            return done.result(max(seconds, 0))
        except TimeoutError:
            if done.done():  # the action's own
                raise
            raise TimeoutError(f"it took longer than {seconds:g} s") from None


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

    def within(self, seconds: float, action: Callable[[], Result]) -> Result:
        """Perform an action; it took too long if it moved the clock by more than `seconds`."""
        deadline = self.monotonic() + seconds
        result = action()
        if self.monotonic() > deadline:
            raise TimeoutError(f"it took longer than {seconds:g} s")
        return result
