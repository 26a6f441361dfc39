"""Time: durations, instants and the bounds of event time (PyFlink's `pyflink.common.time`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

__all__ = ["MAX_TIMESTAMP", "MIN_TIMESTAMP", "Duration", "Instant", "Time", "to_milliseconds"]

MIN_TIMESTAMP: Final = -(2**63)
"""The watermark before the first one."""
MAX_TIMESTAMP: Final = 2**63 - 1
"""The watermark at the end of a bounded input."""


class Duration:
    """A length of time.

    >>> from millstream.common import Duration
    >>> Duration.of_seconds(2).to_milliseconds()
    2000
    """

    __slots__ = ("_nanos",)

    def __init__(self, nanoseconds: int = 0) -> None:
        self._nanos = nanoseconds

    @staticmethod
    def of_days(days: int) -> Duration:
        """Make a duration of whole days."""
        return Duration(days * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Make a duration of whole hours."""
        return Duration(hours * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Make a duration of whole minutes."""
        return Duration(minutes * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int, nano_adjustment: int = 0) -> Duration:
        """Make a duration of seconds and nanoseconds."""
        return Duration(seconds * 1_000_000_000 + nano_adjustment)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Make a duration of milliseconds."""
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Make a duration of nanoseconds."""
        return Duration(nanos)

    def to_milliseconds(self) -> int:
        """Return it in milliseconds, rounded down."""
        return self._nanos // 1_000_000

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self._nanos == other._nanos

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __repr__(self) -> str:
        return f"Duration({self._nanos / 1e9} s)"


class Time:
    """A length of time, in Flink's older form; windows take either.

    Example:
        >>> from millstream.common import Time
        >>> Time.minutes(5).to_milliseconds()
        300000
    """

    __slots__ = ("_millis",)

    def __init__(self, milliseconds: int) -> None:
        self._millis = milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Make a time of milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Make a time of seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Make a time of minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Make a time of hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Make a time of days."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """Return it in milliseconds."""
        return self._millis

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._millis == other._millis

    def __hash__(self) -> int:
        return hash(self._millis)

    def __str__(self) -> str:
        return f"{self._millis} ms"

    def __repr__(self) -> str:
        return f"Time({self._millis} ms)"


class Instant:
    """A point in time, in seconds and nanoseconds since the epoch (UTC).

    Example:
        >>> from millstream.common import Instant
        >>> Instant.of_epoch_milli(1_500), Instant(1, 500_000_000).to_epoch_milli()
        (Instant<1, 500000000>, 1500)
    """

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Make an instant from epoch milliseconds."""
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Return epoch milliseconds, rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and (self.seconds, self.nanos) == (other.seconds, other.nanos)

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


def to_milliseconds(length: Duration | Time | timedelta | int) -> int:
    """Return a length of time in milliseconds; a bare number is milliseconds already.

    >>> to_milliseconds(Time.seconds(5)), to_milliseconds(timedelta(minutes=1)), to_milliseconds(7)
    (5000, 60000, 7)
    """
    if isinstance(length, int):
        return length
    if isinstance(length, timedelta):
        return length // timedelta(milliseconds=1)
    return length.to_milliseconds()
