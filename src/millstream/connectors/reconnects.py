"""Connections that are lost again and again, shortly after they were made.

`Patience` waits for a server that is away. One that takes each connection and ends it at once is not away: there are
longer and longer pauses, and in the end it is an error.
"""

from __future__ import annotations

from millstream.base.clock import Clock, SystemClock

__all__ = ["ConnectionLost", "Reconnects"]

_SHORT_S = 5.0
_MOST = 10
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


class ConnectionLost(Exception):
    """The server went away while it was read; what was emitted before counts."""


class Reconnects:
    """Counts losses; for one thread.

    Args:
        clock: What time it is.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._began = 0.0
        self.losses = 0

    def connected(self) -> None:
        """Learn that there is a connection."""
        self._began = self._clock.monotonic()

    def lost(self) -> bool:
        """Learn that it is lost; return whether that is too often, shortly after connections were made."""
        is_short = self._clock.monotonic() - self._began < _SHORT_S
        self.losses = self.losses + 1 if is_short else 1
        return self.losses >= _MOST

    def pause(self) -> None:
        """Wait before the next connection."""
        self._clock.wait(min(_PAUSE_S * 2**self.losses, _LONGEST_PAUSE_S))
