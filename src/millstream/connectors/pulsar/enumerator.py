"""The driver's side of a source: finds partitions, plans how far they are read, moves subscriptions on.

A range goes from a partition's position to the last message that the broker names, or to where the source stops. How
many messages that are nobody can tell, so each range has a budget too, and the reader says how far it came.

Each partition is planned at least once, even if there is nothing in it: from then on it holds the watermark back,
until it is idle, as in Flink.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.base.errors import MillstreamError, SourceError
from millstream.connectors.pulsar.connection import PulsarClient
from millstream.connectors.pulsar.cursors import Place, StartCursor, StopCondition, StopCursor
from millstream.connectors.pulsar.partition import Subscription
from millstream.connectors.pulsar.positions import START, PlainPosition, Position
from millstream.connectors.pulsar.topics import Topics, owner_of
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["PulsarEnumerator", "PulsarSnapshot", "Reading", "SourceSettings"]

log = logging.getLogger(__name__)

_POLL_MS = 100

PulsarSnapshot = dict[str, tuple[PlainPosition, "PlainPosition | None", bool]]
"""Of each partition: position, where reading ends, whether it has ended: plain, as it outlives this version."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What a source reads, for driver and slots.

    Attributes:
        topics: Which.
        subscription: The subscription's name.
        consumer_name: What brokers show of its consumers; None for names that they make.
        start: Where reading starts.
        stop: Where it stops.
        discovery_ms: How often new partitions are looked for; None for never.
        fails_on_mismatch: Whether a message that was read and is gone fails the job.
        receiver_queue: How many messages of a partition a reader has waiting.
    """

    topics: Topics
    subscription: str
    consumer_name: str | None
    start: StartCursor
    stop: StopCursor
    discovery_ms: int | None
    fails_on_mismatch: bool
    receiver_queue: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader is told of a partition.

    Attributes:
        stop: Where reading ends for good; None if it does not, or messages tell.
        condition: What messages tell it by; None if they do not.
    """

    stop: Position | None
    condition: StopCondition | None


@dataclass(slots=True)
class _Partition:
    """How far a partition was read."""

    position: Position
    stop: Position | None
    finished: bool = False

    @property
    def has_ended(self) -> bool:
        return self.finished or (self.stop is not None and self.position.place >= self.stop.place)


class PulsarEnumerator(SplitEnumerator):
    """Plans a source's epochs.

    Args:
        client: The driver's.
        settings: What is read.
        restored: A snapshot to go on from; None to begin.

    Raises:
        SourceError: If the cluster stays away, there is no such topic, or nothing to read.
    """

    def __init__(
        self, client: PulsarClient, settings: SourceSettings, restored: PulsarSnapshot | None
    ) -> None:
        self._client = client
        self._settings = settings
        self._partitions: dict[str, _Partition] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._opened: set[str] = set()
        self._turn = 0
        self._next_look_ms: int | None = None
        for name, (position, stop, finished) in (restored or {}).items():
            self._partitions[name] = _Partition(
                Position(*position), None if stop is None else Position(*stop), finished
            )
        if restored is None:
            self._look(settings.start)
        elif settings.discovery_ms is not None:
            self._look(StartCursor.earliest())
        if not self._partitions and settings.discovery_ms is None:
            raise SourceError(
                f"there is no Pulsar topic {settings.topics}",
                hint="Check the pattern, or make the topic before.",
            )

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan up to the ends of the partitions, as far as the budget goes.

        Raises:
            SourceError: If the cluster stays away.
        """
        every_ms = self._settings.discovery_ms
        if every_ms is not None:
            if self._next_look_ms is not None and request.now_ms >= self._next_look_ms:
                self._look(StartCursor.earliest())
                self._next_look_ms = None
            if self._next_look_ms is None:
                self._next_look_ms = request.now_ms + every_ms
        owned: dict[int, list[str]] = {}
        for name, partition in sorted(self._partitions.items()):
            if not partition.has_ended:
                owned.setdefault(owner_of(name, request.parallelism), []).append(name)
        ranges: dict[int, list[SplitRange]] = {}
        backlog = False
        for subtask, names in owned.items():
            planned, more = self._plan_subtask(names, request)
            backlog = backlog or more
            if planned:
                ranges[subtask] = planned
        self._turn += 1
        finished: frozenset[int] = frozenset()
        if every_ms is None:
            finished = frozenset(range(request.parallelism)) - owned.keys()
        return SourcePlan(ranges, finished, backlog, next_ms=request.now_ms + _POLL_MS)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of the positions."""
        for end in ends:
            partition = self._partitions[end.split_id]
            partition.position, partition.finished = end.position, end.finished
            self._opened.add(end.split_id)

    def snapshot(self) -> PulsarSnapshot:
        """Return how far each partition was read."""
        return {
            name: (each.position.plain, None if each.stop is None else each.stop.plain, each.finished)
            for name, each in self._partitions.items()
        }

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Move the subscriptions on.

        Raises:
            SourceError: If one does not move; the next call does what is left.
        """
        failed: MillstreamError | None = None
        for name, partition in self._partitions.items():
            try:
                self._subscription(name).move(partition.position)
            except MillstreamError as error:
                failed = error
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Let go of the consumers, and end the connections."""
        for subscription in self._subscriptions.values():
            subscription.close()
        self._client.close()

    def _look(self, start: StartCursor) -> None:
        """Begin with the partitions that are not known yet."""
        for name in self._settings.topics.find(self._client):
            if name not in self._partitions:
                subscription = self._subscription(name)
                end = subscription.end()
                position = _start_position(start, subscription, end)
                self._partitions[name] = _Partition(position, _stop_position(self._settings.stop, end))
                log.info("%s is read from %s on", name, "its begin" if position.is_start else position)

    def _subscription(self, name: str) -> Subscription:
        if name not in self._subscriptions:
            settings = self._settings
            self._subscriptions[name] = Subscription(
                self._client, name, settings.subscription, settings.consumer_name
            )
        return self._subscriptions[name]

    def _plan_subtask(self, names: Sequence[str], request: PlanRequest) -> tuple[list[SplitRange], bool]:
        """Return a subtask's ranges, and whether there is certainly more than they may read."""
        ends: dict[str, Position] = {}
        for name in names:
            if name in request.paused:
                continue
            partition, end = self._partitions[name], self._subscription(name).end()
            if partition.stop is not None and partition.stop.place < end.place:
                end = partition.stop
            if end.place > partition.position.place:
                ends[name] = end
        ready = list(ends)
        first = self._turn % max(len(ready), 1)
        chosen = (ready[first:] + ready[:first])[: max(request.max_records, 1)]
        share = max(request.max_records // max(len(chosen), 1), 1)
        ranges, backlog = [], len(chosen) < len(ready)
        for name in names:
            partition = self._partitions[name]
            if name in chosen:
                backlog = backlog or _has_more(partition.position, ends[name], share)
                stop = ends[name]
            elif name not in self._opened and name not in request.paused:
                stop = partition.position
            else:
                continue
            reading = Reading(partition.stop, self._settings.stop.condition())
            ranges.append(SplitRange(name, reading, partition.position, stop, share))
        return ranges, backlog


def _has_more(position: Position, end: Position, count: int) -> bool:
    """Return whether there are certainly more messages than so many; another ledger is taken for it."""
    return end.ledger != position.ledger or end.entry - position.entry > count


def _start_position(start: StartCursor, subscription: Subscription, end: Position) -> Position:
    if start.place is Place.LATEST:
        return end
    if start.place is Place.PUBLISH_TIME:
        return subscription.at_time(start.time_ms)
    return START if start.position is None else start.position


def _stop_position(stop: StopCursor, end: Position) -> Position | None:
    if stop.place is Place.LATEST:
        return end
    if stop.place is Place.EARLIEST:
        return START
    return stop.position
