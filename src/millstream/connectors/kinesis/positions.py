"""Where reading of a shard begins, or was left."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from millstream.base.errors import ConfigurationError, NotSupportedError

__all__ = ["Place", "ReadEnd", "ShardPosition", "ShardSplit", "StartingPosition"]

INITPOS = "flink.stream.initpos"
TIMESTAMP = "flink.stream.initpos.timestamp"
TIMESTAMP_FORMAT = "flink.stream.initpos.timestamp.format"
_JAVA_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


class Place(Enum):
    """Kinds of positions; the values are in checkpoints."""

    TRIM_HORIZON = "trim horizon"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    BEHIND = "behind"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """A place in a shard.

    Attributes:
        place: Its kind.
        sequence: It is behind the record with this sequence number (BEHIND).
        timestamp_ms: It is before the first record of this time (TIMESTAMP), or behind the last one of it (LATEST).
    """

    place: Place
    sequence: str = ""
    timestamp_ms: int = 0

    def as_plain(self) -> tuple[str, str, int]:
        """Return it as a checkpoint has it."""
        return self.place.value, self.sequence, self.timestamp_ms

    @staticmethod
    def of_plain(plain: tuple[str, str, int]) -> ShardPosition:
        """Return it from a checkpoint."""
        return ShardPosition(Place(plain[0]), plain[1], plain[2])


@dataclass(frozen=True, slots=True)
class ShardSplit:
    """What a reader needs.

    Attributes:
        stream: The stream's name or ARN.
        shard_id: The shard.
        closed: Whether nothing will be put into it any more.
        iterator: Where to begin if nothing was read yet and it has not expired; None for the position.
    """

    stream: str
    shard_id: str
    closed: bool
    iterator: str | None


@dataclass(frozen=True, slots=True)
class ReadEnd:
    """Where a reader left a shard.

    Attributes:
        position: The place.
        wait_ms: After how long it may be read again; 0 if the reader has more of it at hand.
    """

    position: ShardPosition
    wait_ms: int


@dataclass(frozen=True, slots=True)
class StartingPosition:
    """Where reading begins without a checkpoint.

    Attributes:
        place: TRIM_HORIZON, LATEST or TIMESTAMP.
        timestamp_ms: The time, epoch milliseconds.
    """

    place: Place
    timestamp_ms: int = 0

    @staticmethod
    def of(properties: Mapping[str, str]) -> StartingPosition:
        """Return what Flink's properties say; LATEST if they say nothing.

        Raises:
            ConfigurationError: If they do not fit.
            NotSupportedError: If the time is in a format of Java's.
        """
        name = properties.get(INITPOS, "LATEST").upper()
        if name in ("TRIM_HORIZON", "LATEST"):
            return StartingPosition(Place[name])
        if name != "AT_TIMESTAMP":
            raise ConfigurationError(
                f'the property "{INITPOS}" is {name!r}', detail="It is TRIM_HORIZON, LATEST or AT_TIMESTAMP."
            )
        if properties.get(TIMESTAMP_FORMAT, _JAVA_FORMAT) != _JAVA_FORMAT:
            raise NotSupportedError(
                f'the property "{TIMESTAMP_FORMAT}" is a format of Java\'s',
                hint="Leave it out, and give the time as 2026-01-31T12:00:00.000+01:00 or in seconds since 1970.",
            )
        return StartingPosition(Place.TIMESTAMP, _time_ms(properties.get(TIMESTAMP, "")))


def _time_ms(text: str) -> int:
    """Return a time in epoch milliseconds.

    >>> _time_ms("1.5"), _time_ms("1970-01-01T01:00:01.500+01:00")
    (1500, 1500)
    """
    try:
        return _not_negative(round(float(text) * 1_000))
    except ValueError:
        pass
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise _no_time(text) from None
    if time.tzinfo is None:
        raise _no_time(text)
    return _not_negative(round(time.timestamp() * 1_000))


def _not_negative(time_ms: int) -> int:
    if time_ms < 0:
        raise _no_time(f"{time_ms} ms")
    return time_ms


def _no_time(text: str) -> ConfigurationError:
    return ConfigurationError(
        f'the property "{TIMESTAMP}" is {text!r}',
        detail="It is a time with its zone, 2026-01-31T12:00:00.000+01:00, or seconds since 1970: 1769857200.5.",
    )
