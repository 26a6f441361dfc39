"""Where reading of a stream starts and stops: before a message, named by its sequence or time, or at an end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from millstream.base.errors import ConfigurationError

__all__ = ["NatsOffsetsInitializer"]


class _Place(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class NatsOffsetsInitializer:
    """A place in a stream, where reading starts or stops; made by its static methods.

    Example:
        >>> from millstream.datastream.connectors.nats import NatsOffsetsInitializer
        >>> from_a_message = NatsOffsetsInitializer.sequence(17)
        >>> since_2024 = NatsOffsetsInitializer.timestamp(1_704_067_200_000)
    """

    _place: _Place
    _number: int = 0

    @staticmethod
    def earliest() -> NatsOffsetsInitializer:
        """Before the first message that is there."""
        return NatsOffsetsInitializer(_Place.EARLIEST)

    @staticmethod
    def latest() -> NatsOffsetsInitializer:
        """Behind the last message that is there when the job starts."""
        return NatsOffsetsInitializer(_Place.LATEST)

    @staticmethod
    def sequence(sequence: int) -> NatsOffsetsInitializer:
        """Before the message with this sequence: starting there begins with it, stopping there leaves it out.

        Raises:
            ConfigurationError: If it is not positive.
        """
        if sequence < 1:
            raise ConfigurationError(f"the sequence is {sequence}; a stream's first message has 1")
        return NatsOffsetsInitializer(_Place.SEQUENCE, sequence)

    @staticmethod
    def timestamp(timestamp_ms: int) -> NatsOffsetsInitializer:
        """Before the first message that was stored at this time, in epoch milliseconds, or later.

        It is looked up when the job starts: if no message is so late, it is behind the last one.

        Raises:
            ConfigurationError: If it is negative.
        """
        if timestamp_ms < 0:
            raise ConfigurationError(f"the timestamp is {timestamp_ms} ms, must not be negative")
        return NatsOffsetsInitializer(_Place.TIMESTAMP, timestamp_ms)

    @property
    def time_ms(self) -> int | None:
        """The time that has to be looked up; None if there is none."""
        return self._number if self._place is _Place.TIMESTAMP else None

    def behind(self, first: int, last: int) -> int:
        """Return the sequence that it is behind; not for a time.

        Args:
            first: The stream's first sequence.
            last: Its last one.
        """
        if self._place is _Place.EARLIEST:
            return max(first - 1, 0)
        return last if self._place is _Place.LATEST else self._number - 1
