"""The driver's side: which shards there are, in which order they are read, and when.

Kinesis tells where a shard ends only to those who read it. So a range has no end but a number of records, and an epoch
reads each shard once, five times in a second at most, as Kinesis allows. The reader says how far it came and when the
shard may be read again.

A shard is read when all of its parents have been read to their ends: records of one partition key stay in order. Shards
that have been read are kept in mind as long as Kinesis lists them, lest they be taken for new.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from millstream.base.errors import SourceError
from millstream.connectors.kinesis.options import ReadOptions
from millstream.connectors.kinesis.positions import (
    Place,
    ReadEnd,
    ShardPosition,
    ShardSplit,
    StartingPosition,
)
from millstream.connectors.kinesis.shards import (
    KinesisShard,
    KinesisShardAssigner,
    KinesisStreams,
    StreamListing,
    no_stream,
)
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["KinesisSnapshot", "ShardEnumerator"]

log = logging.getLogger(__name__)

KinesisSnapshot = dict[str, tuple[str, dict[str, tuple[str, str, int]]]]
"""Of each stream when it was made, and of each of its shards the position: plain, as it outlives this version."""

_ENDED = ShardPosition(Place.ENDED)


class ShardEnumerator(SplitEnumerator):
    """Plans the shards of streams.

    Args:
        streams: Asks Kinesis.
        names: The streams, by name or ARN.
        start: Where to begin without a snapshot.
        assigner: Says which subtask reads a shard.
        options: How shards are read.
        bounded: Whether each shard ends where there is nothing more in it; shards that come later are not read.
        address: Where Kinesis is, for messages.
        restored: A snapshot to go on from.

    Raises:
        SourceError: If Kinesis does not answer, has no such stream, or not the one that was read.
    """

    def __init__(
        self,
        streams: KinesisStreams,
        names: Sequence[str],
        *,
        start: StartingPosition,
        assigner: KinesisShardAssigner,
        options: ReadOptions,
        bounded: bool,
        address: str,
        restored: KinesisSnapshot | None,
    ) -> None:
        self._streams = streams
        self._names = tuple(names)
        self._assigner = assigner
        self._options = options
        self._bounded = bounded
        self._address = address
        self._created: dict[str, str] = {}
        self._shards: dict[str, KinesisShard] = {}
        self._positions: dict[str, ShardPosition] = {}
        self._iterators: dict[str, str] = {}
        self._ready_ms: dict[str, int] = {}
        self._at_hand: set[str] = set()
        self._now_ms = 0
        self._list_ms: int | None = None
        self._lists_now = False
        for name in self._names:
            listing = self._listed(name)
            if restored is not None and name in restored:
                self._go_on(name, listing, restored[name])
            else:
                self._begin(name, listing, start)

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan all shards that may be read now.

        Raises:
            SourceError: If a stream is gone, or Kinesis stays away.
        """
        self._discover(request.now_ms)
        open_shards = [shard for name, shard in self._shards.items() if not self._has_ended(name)]
        ready: dict[int, list[KinesisShard]] = {}
        next_ms: list[int] = []
        owners: set[int] = set()
        for shard in open_shards:
            owner = self._assigner.assign(shard, request.parallelism) % request.parallelism
            owners.add(owner)
            if shard.split_id in request.paused or not self._has_read_parents(shard):
                continue
            ready_ms = self._ready_ms.get(shard.split_id, request.now_ms)
            if ready_ms <= request.now_ms:
                ready.setdefault(owner, []).append(shard)
            else:
                next_ms.append(ready_ms)
        ranges = {owner: self._ranges(shards, request) for owner, shards in ready.items()}
        if self._list_ms is not None:
            next_ms.append(self._list_ms)
        finished = frozenset(range(request.parallelism)) - owners if self._bounded else frozenset[int]()
        backlog = any(shard.split_id in self._at_hand for shards in ready.values() for shard in shards)
        return SourcePlan(ranges, finished, backlog, next_ms=min(next_ms, default=None))

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions."""
        for end in ends:
            read: ReadEnd = end.position
            self._positions[end.split_id] = _ENDED if end.finished else read.position
            if read.position.place is Place.BEHIND:
                self._iterators.pop(end.split_id, None)
            self._ready_ms[end.split_id] = self._now_ms + read.wait_ms
            (self._at_hand.discard if read.wait_ms else self._at_hand.add)(end.split_id)
            self._lists_now = self._lists_now or end.finished

    def snapshot(self) -> KinesisSnapshot:
        """Return the positions."""
        found: KinesisSnapshot = {name: (created, {}) for name, created in self._created.items()}
        for split_id, shard in self._shards.items():
            found[shard.stream][1][shard.shard_id] = self._positions[split_id].as_plain()
        return found

    def _ranges(self, shards: Sequence[KinesisShard], request: PlanRequest) -> list[SplitRange]:
        most = max(1, request.max_records // len(shards))
        return [
            SplitRange(
                shard.split_id,
                ShardSplit(shard.stream, shard.shard_id, shard.closed, self._iterators.get(shard.split_id)),
                self._positions[shard.split_id],
                None,
                most,
            )
            for shard in shards
        ]

    def _has_ended(self, split_id: str) -> bool:
        return self._positions[split_id].place is Place.ENDED

    def _has_read_parents(self, shard: KinesisShard) -> bool:
        """Return whether all parents have been read; those that Kinesis does not list any more have no records."""
        parents = (f"{shard.stream}/{parent}" for parent in shard.parents)
        return all(parent not in self._shards or self._has_ended(parent) for parent in parents)

    def _listed(self, name: str) -> StreamListing:
        listing = self._streams.list(name)
        if listing is None:
            raise no_stream(name, self._address)
        return listing

    def _begin(self, name: str, listing: StreamListing, start: StartingPosition) -> None:
        self._created[name] = listing.created
        for shard in listing.shards:
            position = ShardPosition(start.place, timestamp_ms=start.timestamp_ms)
            if start.place is Place.LATEST:
                position = (
                    _ENDED if shard.closed else ShardPosition(Place.LATEST, timestamp_ms=listing.told_ms)
                )
                if not shard.closed:
                    self._iterators[shard.split_id] = self._streams.latest(shard)
            self._shards[shard.split_id] = shard
            self._positions[shard.split_id] = position
        log.info(
            "Kinesis stream %s has %d shards, read from %s", name, len(listing.shards), start.place.value
        )

    def _go_on(
        self, name: str, listing: StreamListing, restored: tuple[str, dict[str, tuple[str, str, int]]]
    ) -> None:
        self._created[name], positions = restored
        listed = {shard.shard_id: shard for shard in listing.shards}
        for shard_id, plain in positions.items():
            shard = listed.get(shard_id, KinesisShard(name, shard_id, closed=True))
            self._shards[shard.split_id] = shard
            self._positions[shard.split_id] = ShardPosition.of_plain(plain)
        self._take(name, listing)

    def _discover(self, now_ms: int) -> None:
        """List shards: from time to time, and at once when one was read to its end."""
        self._now_ms = now_ms
        interval_ms = self._options.discovery_ms
        if self._list_ms is None and interval_ms is not None:
            self._list_ms = now_ms + interval_ms
        if self._bounded or not (self._lists_now or (self._list_ms is not None and now_ms >= self._list_ms)):
            return
        self._lists_now = False
        if interval_ms is not None:
            self._list_ms = now_ms + interval_ms
        for name in self._names:
            self._take(name, self._listed(name))

    def _take(self, name: str, listing: StreamListing) -> None:
        """Learn which shards are new, which are closed, and which are gone.

        Raises:
            SourceError: If the stream was made anew, or a shard is gone that was not read.
        """
        if listing.created != self._created[name]:
            raise _made_anew(name, self._created[name], listing.created)
        listed = {shard.split_id: shard for shard in listing.shards}
        known = {split_id for split_id, shard in self._shards.items() if shard.stream == name}
        for split_id in known - listed.keys():
            if not self._has_ended(split_id):
                raise _lost_shard(split_id, self._positions[split_id])
            del self._shards[split_id], self._positions[split_id]
        if self._bounded:  # what is new was put later
            listed = {split_id: shard for split_id, shard in listed.items() if split_id in known}
        for split_id in listed.keys() - known:
            self._positions[split_id] = ShardPosition(Place.TRIM_HORIZON)
            log.info("Kinesis shard %s is new", split_id)
        self._shards.update(listed)


def _made_anew(name: str, before: str, now: str) -> SourceError:
    return SourceError(
        f'the Kinesis stream "{name}" was made anew: at {now}, before at {before} (epoch milliseconds)',
        detail="What was not read of the one before is lost.",
        hint="Start the job without its checkpoint, or with another uid of the source.",
    )


def _lost_shard(split_id: str, position: ShardPosition) -> SourceError:
    return SourceError(
        f'records of the Kinesis shard "{split_id}" were lost: Kinesis does not list it any more',
        detail=f"It was read up to {position.sequence or position.place.value}. Kinesis forgets a closed shard when "
        "its records are older than the stream's retention.",
        hint="Keep records longer than the job may stand still (RetentionPeriodHours). To go on without those that "
        "are lost, start the job without its checkpoint, or with another uid of the source.",
    )
