"""Entry ids of Redis streams, and where reading starts and stops.

An id is a time in epoch milliseconds and a number within it: `1700000000000-0`. A place in a stream is the id that it
is behind; `0-0` is behind nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from millstream.base.errors import ConfigurationError

__all__ = ["EntryId", "RedisOffsetsInitializer", "format_id", "parse_id"]

EntryId = tuple[int, int]

_LARGEST = 2**64 - 1
_FIRST: EntryId = (0, 0)


def parse_id(text: str | bytes) -> EntryId:
    """Return an id's two numbers; without the second one it is 0, as in Redis.

    Raises:
        ConfigurationError: If it is no id.

    >>> parse_id("1700000000000-3")
    (1700000000000, 3)
    """
    shown = text.decode() if isinstance(text, bytes) else str(text)
    time_ms, _, number = shown.partition("-")
    try:
        entry_id = (int(time_ms), int(number or 0))
    except ValueError:
        entry_id = (-1, 0)
    if not all(0 <= part <= _LARGEST for part in entry_id):
        raise ConfigurationError(f"{shown!r} is no id of a stream's entry", detail="Such as 1700000000000-0.")
    return entry_id


def format_id(entry_id: EntryId) -> str:
    """Return an id as Redis writes it."""
    return f"{entry_id[0]}-{entry_id[1]}"


class _Place(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    IDS = "ids"


@dataclass(frozen=True, slots=True)
class RedisOffsetsInitializer:
    """A place in each stream, where reading starts or stops; made by its static methods.

    Example:
        >>> from millstream.datastream.connectors.redis import RedisOffsetsInitializer
        >>> since_2024 = RedisOffsetsInitializer.timestamp(1_704_067_200_000)
        >>> behind = RedisOffsetsInitializer.ids({"orders": "1704067200000-5"})
    """

    _place: _Place
    _timestamp_ms: int = 0
    _ids: tuple[tuple[str, EntryId], ...] = ()

    @staticmethod
    def earliest() -> RedisOffsetsInitializer:
        """Before the first entry that is there."""
        return RedisOffsetsInitializer(_Place.EARLIEST)

    @staticmethod
    def latest() -> RedisOffsetsInitializer:
        """Behind the last entry that is there when the job starts."""
        return RedisOffsetsInitializer(_Place.LATEST)

    @staticmethod
    def timestamp(timestamp_ms: int) -> RedisOffsetsInitializer:
        """Before the first entry whose id has this time, in epoch milliseconds, or a later one.

        Raises:
            ConfigurationError: If it is negative.
        """
        if timestamp_ms < 0:
            raise ConfigurationError(f"the timestamp is {timestamp_ms} ms, must not be negative")
        return RedisOffsetsInitializer(_Place.TIMESTAMP, timestamp_ms)

    @staticmethod
    def ids(ids: Mapping[str, str]) -> RedisOffsetsInitializer:
        """Behind the entry with this id, by stream: starting there begins with the next, stopping there reads it.

        Raises:
            ConfigurationError: If one is no id.
        """
        return RedisOffsetsInitializer(
            _Place.IDS, _ids=tuple((stream, parse_id(entry_id)) for stream, entry_id in ids.items())
        )

    def names(self) -> frozenset[str] | None:
        """Return the streams that it knows; None if it knows any."""
        return frozenset(stream for stream, _ in self._ids) if self._place is _Place.IDS else None

    def place(self, stream: str, last: EntryId) -> EntryId:
        """Return the id that it is behind.

        Args:
            stream: The stream.
            last: Its last id.
        """
        if self._place is _Place.EARLIEST:
            return _FIRST
        if self._place is _Place.LATEST:
            return last
        if self._place is _Place.IDS:
            return dict(self._ids)[stream]
        return (self._timestamp_ms - 1, _LARGEST) if self._timestamp_ms else _FIRST
