"""What a service tells of shards: parts of a stream, each in order. Resharding closes some, and opens others.

::

    shard 0  ────────┐ closed                     0 is the parent of 2 and 3: their records come after its own
                     ├── shard 2 ─────┐ closed
                     └── shard 3 ──┐  ├── shard 4     … merged: 4 has two parents
    shard 1  ──────────────────────┼──┘ closed
                                   └─ …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from millstream.base.errors import SourceError
from millstream.connectors.shards.positions import ShardPosition

__all__ = ["Shard", "ShardAssigner", "ShardListings", "StreamListing", "StreamWords"]


class Shard(Protocol):
    """A shard."""

    @property
    def stream(self) -> str:
        """The stream's name or ARN."""

    @property
    def shard_id(self) -> str:
        """Its name in the stream."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The shards that it was split from, or merged of."""

    @property
    def closed(self) -> bool:
        """Whether nothing will be put into it any more."""

    @property
    def split_id(self) -> str:
        """Its name in the source."""


S = TypeVar("S", bound=Shard)

ShardAssigner = Callable[[S, int], int]
"""Gives a number for a shard and a number of subtasks: the subtask that reads it, modulo the number of subtasks.

It is asked for all shards with each plan, in the order in which they came, also for those that were read.
"""


@dataclass(frozen=True, slots=True)
class StreamListing(Generic[S]):
    """What a service tells of a stream.

    Attributes:
        created: When it was made: a stream that was made anew has another time.
        shards: Those whose records are kept, closed ones too.
        told_ms: When the service told it, by its own clock.
    """

    created: str
    shards: tuple[S, ...]
    told_ms: int


class ShardListings(Protocol[S]):
    """Asks a service for shards."""

    def list(self, stream: str) -> StreamListing[S] | None:
        """Return what is known of a stream; None if there is no such stream.

        Raises:
            SourceError: If the service refuses it, or stays away.
        """

    def latest(self, shard: S) -> str:
        """Return an iterator behind the last record of a shard; it lives for some minutes.

        Raises:
            SourceError: If the service refuses it, or stays away.
        """

    def gone(self, stream: str, shard_id: str) -> S:
        """Return what is left of a shard that is not listed any more: a closed one."""


@dataclass(frozen=True, slots=True)
class StreamWords:
    """How errors and logs name the streams of a service.

    Attributes:
        stream: Such a stream: `Kinesis stream`.
        shard: Such a shard: `Kinesis shard`.
        forgets: When the service forgets records, a sentence.
        prevent: How to keep that from happening, a sentence.
        missing: What to do when there is no such stream.
    """

    stream: str
    shard: str
    forgets: str
    prevent: str
    missing: str

    def no_stream(self, stream: str, address: str) -> SourceError:
        """Return the error that says that there is no such stream."""
        return SourceError(f'there is no {self.stream} "{stream}" at {address}', hint=self.missing)

    def made_anew(self, name: str, before: str, now: str) -> SourceError:
        """Return the error that says that this is not the stream that was read before."""
        return SourceError(
            f'the {self.stream} "{name}" was made anew: at {now}, before at {before} (epoch milliseconds)',
            detail="What was not read of the one before is lost.",
            hint="Start the job without its checkpoint, or with another uid of the source.",
        )

    def lost(self, split_id: str, position: ShardPosition, seen: str) -> SourceError:
        """Return the error that says that records were lost.

        Args:
            split_id: The shard.
            position: Up to where it was read.
            seen: What shows it: `it is not listed any more`.
        """
        return SourceError(
            f'records of the {self.shard} "{split_id}" were lost: {seen}',
            detail=f"It was read up to {position.sequence or position.place.value}. {self.forgets}",
            hint=f"{self.prevent} To go on without those that are lost, start the job without its checkpoint, or "
            "with another uid of the source.",
        )
