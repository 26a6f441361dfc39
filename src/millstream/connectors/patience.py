"""What connectors do when a server is away: try again, less and less often, and say so; in the end give up."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError

__all__ = ["Patience"]

Result = TypeVar("Result")

_SLICE_S = 0.2  # a job that is cancelled is not kept waiting longer


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server is waited for, and how often it is tried: exponential back-off with jitter.

    Attributes:
        total_s: Seconds after which the last error is raised. A restart strategy takes over then.
        first_s: The first pause, in seconds; each further one may be twice as long.
        longest_s: The longest pause.

    Example:
        >>> from millstream.datastream.connectors.cassandra import Patience
        >>> patience = Patience(total_s=300)  # five minutes; builder.set_patience(patience)
        >>> patience.longest_s
        5.0
    """

    total_s: float = 60.0
    first_s: float = 0.05
    longest_s: float = 5.0

    def __post_init__(self) -> None:
        if self.total_s < 0 or self.first_s <= 0 or self.longest_s < self.first_s:
            raise ConfigurationError(
                f"waiting {self.total_s:g} s with pauses of {self.first_s:g} to {self.longest_s:g} s makes no sense",
                detail="The time must not be negative, and pauses are longer than nothing.",
            )

    def call(
        self,
        action: Callable[[], Result],
        *,
        is_passing: Callable[[Exception], bool],
        what: str,
        log: logging.Logger,
        clock: Clock | None = None,
        least_pause_s: Callable[[Exception], float] = lambda _: 0.0,
    ) -> Result:
        """Return what an action gives, tried again while it fails for reasons that may pass.

        Args:
            action: May be repeated.
            is_passing: Whether an error may pass by itself; others are raised at once.
            what: What is being done, for the log: `reading the offsets of 3 partitions from broker:9092`.
            log: Where it is said, once, that the server is waited for, and once that it is back.
            clock: What time it is.
            least_pause_s: The pause that an error asks for, in seconds.

        Raises:
            Exception: What the action raised last.
        """
        clock = clock or SystemClock()
        began, pause, failures = clock.monotonic(), self.first_s, 0
        while True:
            try:
                result = action()
            except Exception as error:
                left = self.total_s - (clock.monotonic() - began)
                if left <= 0 or not is_passing(error):
                    raise
                if not failures:
                    log.warning("%s: %s; trying again for %g s", what, error, self.total_s)
                failures += 1
                wanted = max(random.uniform(pause / 2, pause), least_pause_s(error))
                self._wait(clock, min(wanted, left))
                pause = min(pause * 2, self.longest_s)
                continue
            if failures:
                log.warning("%s: succeeded after %d failures", what, failures)
            return result

    @staticmethod
    def _wait(clock: Clock, seconds: float) -> None:
        while seconds > 0:
            clock.wait(min(seconds, _SLICE_S))
            seconds -= _SLICE_S
