"""Where reading of partitions starts and stops (PyFlink's `StartCursor` and `StopCursor`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.pulsar.positions import Position, of_message_id, parse_message_id

__all__ = ["Place", "StartCursor", "StopCondition", "StopCursor"]

_LATEST = (1 << 63) - 1


class Place(Enum):
    """What a cursor is about."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NEVER = "never"
    MESSAGE_ID = "message id"
    PUBLISH_TIME = "publish time"
    EVENT_TIME = "event time"


@dataclass(frozen=True, slots=True)
class StartCursor:
    """Where reading starts without a checkpoint; made by its static methods.

    Attributes:
        place: What it is about.
        time_ms: The time, if it is a time.
        position: The place, if it is a message.

    Example:
        >>> from millstream.datastream.connectors.pulsar import StartCursor
        >>> # PulsarSource.builder().set_start_cursor(...)
        >>> since_2024 = StartCursor.from_publish_time(1_704_067_200_000)
    """

    place: Place
    time_ms: int = 0
    position: Position | None = None

    @staticmethod
    def default_start_cursor() -> StartCursor:
        """Return what holds by default: the first message."""
        return StartCursor.earliest()

    @staticmethod
    def earliest() -> StartCursor:
        """Before the first message that is there."""
        return StartCursor(Place.EARLIEST)

    @staticmethod
    def latest() -> StartCursor:
        """Behind the last message that is there when the job starts."""
        return StartCursor(Place.LATEST)

    @staticmethod
    def from_message_id(message_id: bytes, inclusive: bool = True) -> StartCursor:
        """With a message, or behind it, in every partition that is read.

        Args:
            message_id: `message.message_id().serialize()`; of `MessageId.earliest` and `latest` too.
            inclusive: Whether the message itself is read.

        Raises:
            ConfigurationError: If it is no message id.
        """
        place, position = _named(message_id, is_behind=not inclusive)
        return StartCursor(place, position=position)

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """With the first message that was published then or later; behind the last one if there is none.

        Args:
            timestamp: Epoch milliseconds.

        Raises:
            ConfigurationError: If it is negative.
        """
        return StartCursor(Place.PUBLISH_TIME, _time(timestamp))


@dataclass(frozen=True, slots=True)
class StopCondition:
    """What a message tells by its time: that the partition has come to its end.

    Attributes:
        place: Of which of its times.
        time_ms: The time.
        is_after: Whether only later ones do, or this very time does too.
    """

    place: Place
    time_ms: int
    is_after: bool

    def holds(self, message: Any) -> bool:
        """Return whether reading stops before this message."""
        is_publish = self.place is Place.PUBLISH_TIME
        time_ms: int = message.publish_timestamp() if is_publish else message.event_timestamp()
        return time_ms > self.time_ms if self.is_after else time_ms >= self.time_ms


@dataclass(frozen=True, slots=True)
class StopCursor:
    """Where reading stops; made by its static methods.

    With times, a partition is read until a message of such a time comes, as in Flink: one that nothing more is
    published to does not end. `latest()` always does.

    Attributes:
        place: What it is about.
        time_ms: The time, if it is a time.
        is_after: Whether messages of this very time are read too.
        position: The place, if it is a message.

    Example:
        >>> from millstream.datastream.connectors.pulsar import StopCursor
        >>> # PulsarSource.builder().set_bounded_stop_cursor(...)
        >>> until_2024 = StopCursor.at_publish_time(1_704_067_200_000)
    """

    place: Place
    time_ms: int = 0
    is_after: bool = False
    position: Position | None = None

    @staticmethod
    def default_stop_cursor() -> StopCursor:
        """Return what holds by default: never."""
        return StopCursor.never()

    @staticmethod
    def never() -> StopCursor:
        """Do not stop."""
        return StopCursor(Place.NEVER)

    @staticmethod
    def latest() -> StopCursor:
        """Behind the last message that is there when the job starts."""
        return StopCursor(Place.LATEST)

    @staticmethod
    def at_event_time(timestamp: int) -> StopCursor:
        """Before the first message whose event time is this one (epoch milliseconds) or later."""
        return StopCursor(Place.EVENT_TIME, _time(timestamp))

    @staticmethod
    def after_event_time(timestamp: int) -> StopCursor:
        """Before the first message whose event time is later than this one (epoch milliseconds)."""
        return StopCursor(Place.EVENT_TIME, _time(timestamp), is_after=True)

    @staticmethod
    def at_publish_time(timestamp: int) -> StopCursor:
        """Before the first message that was published at this time (epoch milliseconds) or later."""
        return StopCursor(Place.PUBLISH_TIME, _time(timestamp))

    @staticmethod
    def after_publish_time(timestamp: int) -> StopCursor:
        """Before the first message that was published later than this time (epoch milliseconds)."""
        return StopCursor(Place.PUBLISH_TIME, _time(timestamp), is_after=True)

    @staticmethod
    def at_message_id(message_id: bytes) -> StopCursor:
        """Before this message (`message.message_id().serialize()`), in every partition."""
        place, position = _named(message_id, is_behind=False)
        return StopCursor(place, position=position)

    @staticmethod
    def after_message_id(message_id: bytes) -> StopCursor:
        """Behind this message (`message.message_id().serialize()`), in every partition."""
        place, position = _named(message_id, is_behind=True)
        return StopCursor(place, position=position)

    def condition(self) -> StopCondition | None:
        """Return what messages are asked; None if their place alone counts."""
        if self.place in (Place.PUBLISH_TIME, Place.EVENT_TIME):
            return StopCondition(self.place, self.time_ms, self.is_after)
        return None


def _named(message_id: bytes, *, is_behind: bool) -> tuple[Place, Position | None]:
    ledger, entry, batch_index = parse_message_id(message_id)
    if ledger < 0:
        return Place.EARLIEST, None
    if ledger == _LATEST:
        return Place.LATEST, None
    return Place.MESSAGE_ID, of_message_id(ledger, entry, batch_index, is_behind=is_behind)


def _time(timestamp: int) -> int:
    if timestamp < 0:
        raise ConfigurationError(f"the timestamp is {timestamp}, must be epoch milliseconds")
    return timestamp
