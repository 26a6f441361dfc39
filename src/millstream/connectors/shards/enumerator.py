"""The driver's side: which shards there are, in which order they are read, and when.

A service tells where a shard ends only to those who read it. So a range has no end but a number of records, and an
epoch reads each shard once, as often as the service allows. The reader says how far it came and when the shard may be
read again.

A shard is read when all of its parents have been read to their ends: records of one key stay in order. Shards that have
been read are kept in mind as long as the service lists them, lest they be taken for new. The children of one that was
read to its end may be listed a little later than it is closed: they are asked for some times.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Generic

from millstream.connectors.shards.listing import S, ShardAssigner, ShardListings, StreamListing, StreamWords
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import (
    Place,
    ReadEnd,
    ShardPosition,
    ShardSplit,
    StartingPosition,
)
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["ShardEnumerator", "StreamsSnapshot"]

log = logging.getLogger(__name__)

StreamsSnapshot = dict[str, tuple[str, dict[str, tuple[str, str, int]]]]
"""Of each stream when it was made, and of each of its shards the position: plain, as it outlives this version."""

_ENDED = ShardPosition(Place.ENDED)
_LISTINGS = 6
_LISTING_MS = 1_000


class ShardEnumerator(SplitEnumerator, Generic[S]):
    """Plans the shards of streams.

    Args:
        listings: Asks the service.
        names: The streams, by name or ARN.
        start: Where to begin without a snapshot.
        assigner: Says which subtask reads a shard.
        options: How shards are read.
        bounded: Whether each shard ends where there is nothing more in it; shards that come later are not read.
        address: Where the service is, for messages.
        words: How errors name streams.
        restored: A snapshot to go on from.

    Raises:
        SourceError: If the service does not answer, has no such stream, or not the one that was read.
    """

    def __init__(
        self,
        listings: ShardListings[S],
        names: Sequence[str],
        *,
        start: StartingPosition,
        assigner: ShardAssigner[S],
        options: ReadOptions,
        bounded: bool,
        address: str,
        words: StreamWords,
        restored: StreamsSnapshot | None,
    ) -> None:
        self._listings = listings
        self._names = tuple(names)
        self._assigner = assigner
        self._options = options
        self._bounded = bounded
        self._address = address
        self._words = words
        self._created: dict[str, str] = {}
        self._shards: dict[str, S] = {}
        self._positions: dict[str, ShardPosition] = {}
        self._iterators: dict[str, str] = {}
        self._ready_ms: dict[str, int] = {}
        self._at_hand: set[str] = set()
        self._now_ms = 0
        self._list_ms: int | None = None
        self._lists_now = False
        self._childless: dict[str, int] = {}
        for name in self._names:
            listing = self._listed(name)
            if restored is not None and name in restored:
                self._go_on(name, listing, restored[name])
            else:
                self._begin(name, listing, start)

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan all shards that may be read now.

        Raises:
            SourceError: If a stream is gone, or the service stays away.
        """
        self._discover(request.now_ms)
        ready: dict[int, list[S]] = {}
        next_ms: list[int] = []
        owners: set[int] = set()
        for shard in self._shards.values():
            owner = self._assigner(shard, request.parallelism) % request.parallelism
            if self._has_ended(shard.split_id):
                continue
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
            if end.finished and not self._bounded:
                self._lists_now = True
                self._childless[end.split_id] = _LISTINGS

    def snapshot(self) -> StreamsSnapshot:
        """Return the positions."""
        found: StreamsSnapshot = {name: (created, {}) for name, created in self._created.items()}
        for split_id, shard in self._shards.items():
            found[shard.stream][1][shard.shard_id] = self._positions[split_id].as_plain()
        return found

    def _ranges(self, shards: Sequence[S], request: PlanRequest) -> list[SplitRange]:
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

    def _has_read_parents(self, shard: S) -> bool:
        """Return whether all parents have been read; those that are not listed any more have no records."""
        parents = (f"{shard.stream}/{parent}" for parent in shard.parents)
        return all(parent not in self._shards or self._has_ended(parent) for parent in parents)

    def _listed(self, name: str) -> StreamListing[S]:
        listing = self._listings.list(name)
        if listing is None:
            raise self._words.no_stream(name, self._address)
        return listing

    def _begin(self, name: str, listing: StreamListing[S], start: StartingPosition) -> None:
        self._created[name] = listing.created
        for shard in listing.shards:
            position = ShardPosition(start.place, timestamp_ms=start.timestamp_ms)
            if start.place is Place.LATEST:
                position = (
                    _ENDED if shard.closed else ShardPosition(Place.LATEST, timestamp_ms=listing.told_ms)
                )
                if not shard.closed:
                    self._iterators[shard.split_id] = self._listings.latest(shard)
            self._shards[shard.split_id] = shard
            self._positions[shard.split_id] = position
        log.info(
            "%s %s has %d shards, read from %s",
            self._words.stream,
            name,
            len(listing.shards),
            start.place.value,
        )

    def _go_on(
        self, name: str, listing: StreamListing[S], restored: tuple[str, dict[str, tuple[str, str, int]]]
    ) -> None:
        self._created[name], positions = restored
        listed = {shard.shard_id: shard for shard in listing.shards}
        for shard_id, plain in positions.items():
            shard = listed.get(shard_id, self._listings.gone(name, shard_id))
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
        self._list_ms = None if interval_ms is None else now_ms + interval_ms
        for name in self._names:
            self._take(name, self._listed(name))
        self._look_for_children(now_ms)

    def _look_for_children(self, now_ms: int) -> None:
        """Have shards listed again soon if one that was read has no children yet."""
        parents = {f"{shard.stream}/{parent}" for shard in self._shards.values() for parent in shard.parents}
        self._childless = {
            split_id: left - 1
            for split_id, left in self._childless.items()
            if left > 1 and split_id not in parents and split_id in self._shards
        }
        if self._childless:
            self._list_ms = min(self._list_ms or now_ms + _LISTING_MS, now_ms + _LISTING_MS)

    def _take(self, name: str, listing: StreamListing[S]) -> None:
        """Learn which shards are new, which are closed, and which are gone.

        Raises:
            SourceError: If the stream was made anew, or a shard is gone that was not read.
        """
        if listing.created != self._created[name]:
            raise self._words.made_anew(name, self._created[name], listing.created)
        listed = {shard.split_id: shard for shard in listing.shards}
        known = {split_id for split_id, shard in self._shards.items() if shard.stream == name}
        for split_id in known - listed.keys():
            if not self._has_ended(split_id):
                raise self._words.lost(split_id, self._positions[split_id], "it is not listed any more")
            if not self._bounded:  # shards are given to subtasks in turn, also behind a restore
                del self._shards[split_id], self._positions[split_id]
        if self._bounded:  # what is new was put later
            listed = {split_id: shard for split_id, shard in listed.items() if split_id in known}
        for split_id in listed.keys() - known:
            self._positions[split_id] = ShardPosition(Place.TRIM_HORIZON)
            log.info("%s %s is new", self._words.shard, split_id)
        self._shards.update(listed)
