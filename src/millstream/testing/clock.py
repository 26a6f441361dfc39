"""A clock for whole jobs in tests: it never waits, and it does not stand still either."""

from __future__ import annotations

import threading

from millstream.base.clock import ManualClock

__all__ = ["TickingClock"]


class TickingClock(ManualClock):
    """Moves a millisecond whenever it is asked for the time of day, and by every wait, which takes no time.

    So intervals pass (between two checkpoints, say) though nothing waits, and each run takes the same time.

    >>> from millstream.testing import TickingClock
    >>> clock = TickingClock(1_000)
    >>> clock.now_ms(), clock.now_ms(), clock.wait(0.5), clock.now_ms()
    (1001, 1002, False, 1503)
    """

    def now_ms(self) -> int:
        """Move on by a millisecond, and return the time."""
        self.advance(1)
        return super().now_ms()

    def wait(self, seconds: float, wake: threading.Event | None = None) -> bool:
        """Move on by `seconds`, a millisecond at least, unless `wake` is set already."""
        return super().wait(max(seconds, 0.001), wake)
