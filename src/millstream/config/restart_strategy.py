"""What happens when a job fails (PyFlink's `pyflink.common.restart_strategy`).

As in Flink 2.3, nothing takes a strategy object: `configuration()` gives its settings under Flink's option keys,
for `env.configure(...)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.config import options_checkpointing as options
from millstream.config.configuration import Configuration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """What happens when a job fails.

    Example:
        >>> from millstream.common import RestartStrategyConfiguration
        >>> from millstream.common import RestartStrategies
        >>> strategy: RestartStrategyConfiguration = RestartStrategies.fixed_delay_restart(3, 1_000)
        >>> strategy.get_description()
        'Restart with fixed delay (1000 ms). #3 restart attempts.'
    """

    @abstractmethod
    def get_description(self) -> str:
        """Return it in words."""

    @abstractmethod
    def configuration(self) -> Configuration:
        """Return it as options."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.__dict__.values())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_description()})"


def _interval(name: str, value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return timedelta(milliseconds=value)
    raise TypeMismatchError(
        f"{name} is {value!r}", detail="It is a number of milliseconds or a datetime.timedelta."
    )


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} is {value!r}", detail="It must be a positive integer.")
    return value


def _ms(interval: timedelta) -> int:
    return interval // timedelta(milliseconds=1)


class RestartStrategies:
    """Makes strategies.

    >>> from millstream.common import RestartStrategies
    >>> RestartStrategies.fixed_delay_restart(3, 1000).configuration().to_dict()["restart-strategy.type"]
    'fixed-delay'
    """

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job is not started again."""

        def __init__(self) -> None:
            pass

        def get_description(self) -> str:
            """Return it in words."""
            return "Restart deactivated."

        def configuration(self) -> Configuration:
            """Return it as options."""
            return Configuration().set(options.RESTART_STRATEGY, "none")

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job is started again so many times, always after the same delay (milliseconds or timedelta)."""

        def __init__(
            self,
            restart_attempts: int | None = None,
            delay_between_attempts_interval: timedelta | int | None = None,
        ) -> None:
            self._attempts = _count("restart_attempts", restart_attempts)
            self._delay = _interval("delay_between_attempts_interval", delay_between_attempts_interval)

        def get_restart_attempts(self) -> int:
            """Return how often it is started again."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the delay."""
            return self._delay

        def get_description(self) -> str:
            """Return it in words."""
            return f"Restart with fixed delay ({_ms(self._delay)} ms). #{self._attempts} restart attempts."

        def configuration(self) -> Configuration:
            """Return it as options."""
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "fixed-delay")
                .set(options.RESTART_FIXED_DELAY_ATTEMPTS, self._attempts)
                .set(options.RESTART_DELAY, self._delay)
            )

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job is started again unless it failed too often within an interval."""

        def __init__(
            self,
            max_failure_rate: int | None = None,
            failure_interval: timedelta | int | None = None,
            delay_between_attempts_interval: timedelta | int | None = None,
        ) -> None:
            self._maximum = _count("max_failure_rate", max_failure_rate)
            self._interval = _interval("failure_interval", failure_interval)
            self._delay = _interval("delay_between_attempts_interval", delay_between_attempts_interval)

        def get_max_failure_rate(self) -> int:
            """Return how many failures within the interval are borne."""
            return self._maximum

        def get_failure_interval(self) -> timedelta:
            """Return the interval in which failures are counted."""
            return self._interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the delay."""
            return self._delay

        def get_description(self) -> str:
            """Return it in words."""
            return (
                f"Failure rate restart with maximum of {self._maximum} failures within interval "
                f"{_ms(self._interval)} ms and fixed delay {_ms(self._delay)} ms."
            )

        def configuration(self) -> Configuration:
            """Return it as options."""
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "failure-rate")
                .set(options.RESTART_FAILURE_RATE_MAXIMUM, self._maximum)
                .set(options.RESTART_FAILURE_RATE_INTERVAL, self._interval)
                .set(options.RESTART_FAILURE_RATE_DELAY, self._delay)
            )

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Whatever is configured elsewhere."""

        def __init__(self) -> None:
            pass

        def get_description(self) -> str:
            """Return it in words."""
            return "Cluster level default restart strategy"

        def configuration(self) -> Configuration:
            """Return no options."""
            return Configuration()

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Do not start again."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Do what is configured elsewhere."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: timedelta | int
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Start again `restart_attempts` times, each after a delay (milliseconds or timedelta)."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: timedelta | int, delay_interval: timedelta | int
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Start again unless there were more than `failure_rate` failures within `failure_interval`."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )
