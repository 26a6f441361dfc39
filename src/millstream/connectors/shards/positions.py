"""Where reading of a shard begins, or was left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Place", "ReadEnd", "ShardPosition", "ShardSplit", "StartingPosition"]


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
