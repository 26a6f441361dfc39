"""What happens when a job fails: whether it is started again, and after how long (Flink's restart strategies)."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque

from millstream.config import options
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration

__all__ = [
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "NoRestart",
    "RestartStrategy",
    "restart_strategy",
]


class RestartStrategy(ABC):
    """Decides after each failure; lives as long as the job."""

    @abstractmethod
    def delay_after_failure(self, now_ms: int) -> int | None:
        """Return after how many milliseconds the job is to start again; None if it is not."""


class NoRestart(RestartStrategy):
    """The first failure ends the job."""

    def delay_after_failure(self, now_ms: int) -> int | None:
        """Return None."""
        return None


class FixedDelay(RestartStrategy):
    """A number of starts, each after the same time."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._left = attempts
        self._delay_ms = delay_ms

    def delay_after_failure(self, now_ms: int) -> int | None:
        """Return the delay as often as there are attempts."""
        if self._left <= 0:
            return None
        self._left -= 1
        return self._delay_ms


class FailureRate(RestartStrategy):
    """Starts again unless there were more failures within an interval than allowed."""

    def __init__(self, max_failures: int, interval_ms: int, delay_ms: int) -> None:
        self._failures: deque[int] = deque()
        self._max_failures = max_failures
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms

    def delay_after_failure(self, now_ms: int) -> int | None:
        """Return the delay while the failures are rare enough."""
        failures = self._failures
        while failures and failures[0] <= now_ms - self._interval_ms:
            failures.popleft()
        failures.append(now_ms)
        return self._delay_ms if len(failures) <= self._max_failures else None


class ExponentialDelay(RestartStrategy):
    """Delays that grow from failure to failure, and begin anew when the job ran well for a while.

    Args:
        initial_ms: First delay.
        max_ms: Longest delay.
        multiplier: From one delay to the next, at least 1.
        reset_ms: After so long without failure the next delay is the first again.
        jitter: Fraction of the delay, in [0, 1), that is added or taken away at random.
        attempts: Failures without such a pause that are followed by a start; None for any number.
        rng: For the jitter.
    """

    def __init__(
        self,
        *,
        initial_ms: int,
        max_ms: int,
        multiplier: float,
        reset_ms: int,
        jitter: float,
        attempts: int | None,
        rng: random.Random | None = None,
    ) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._multiplier = multiplier
        self._reset_ms = reset_ms
        self._jitter = jitter
        self._attempts = attempts
        self._rng = rng or random.Random()
        self._delay_ms = float(initial_ms)
        self._failures = 0
        self._next_start_ms: int | None = None

    def delay_after_failure(self, now_ms: int) -> int | None:
        """Return a delay."""
        started_ms = self._next_start_ms
        if started_ms is None or now_ms - started_ms >= self._reset_ms:
            self._delay_ms, self._failures = float(self._initial_ms), 0
        else:
            self._delay_ms = min(self._delay_ms * self._multiplier, self._max_ms)
        self._failures += 1
        if self._attempts is not None and self._failures > self._attempts:
            return None
        spread = self._delay_ms * self._jitter
        delay_ms = max(round(self._delay_ms + self._rng.uniform(-spread, spread)), 0)
        self._next_start_ms = now_ms + delay_ms
        return delay_ms


def restart_strategy(configuration: Configuration) -> RestartStrategy:
    """Return the strategy that is configured.

    Without one: exponential delay if the job makes checkpoints, as in Flink; otherwise the job is not restarted.
    """
    get = configuration.get
    kind = get(keys.RESTART_STRATEGY)
    if kind is None:
        kind = "none" if get(options.CHECKPOINT_INTERVAL) is None else "exponential-delay"
    kind = kind.lower().replace("-", "")
    if kind == "fixeddelay":
        return FixedDelay(get(keys.RESTART_FIXED_DELAY_ATTEMPTS), get(keys.RESTART_DELAY))
    if kind == "failurerate":
        return FailureRate(
            get(keys.RESTART_FAILURE_RATE_MAXIMUM),
            get(keys.RESTART_FAILURE_RATE_INTERVAL),
            get(keys.RESTART_FAILURE_RATE_DELAY),
        )
    if kind == "exponentialdelay":
        return ExponentialDelay(
            initial_ms=get(keys.RESTART_BACKOFF_INITIAL),
            max_ms=get(keys.RESTART_BACKOFF_MAX),
            multiplier=get(keys.RESTART_BACKOFF_MULTIPLIER),
            reset_ms=get(keys.RESTART_BACKOFF_RESET),
            jitter=get(keys.RESTART_BACKOFF_JITTER),
            attempts=get(keys.RESTART_BACKOFF_ATTEMPTS),
        )
    return NoRestart()
