"""The driver's side of a Kafka source: finds partitions, plans ranges of offsets, commits what checkpoints hold.

A range goes from a partition's position to its end as the brokers tell it, or to where the source stops. Offsets are
no count of records: control records, aborted transactions and compaction leave gaps. So each range has a budget of
records as well, and the reader says how far it came.

Each partition is planned at least once, even if there is nothing in it: from then on it holds the watermark back,
until it is idle, as in Flink.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.kafka.commits import OffsetCommits
from millstream.connectors.kafka.discovery import Discovery, Found
from millstream.connectors.kafka.ends import EndOffsets
from millstream.connectors.kafka.losses import Losses, LostRecords
from millstream.connectors.kafka.offsets import KafkaOffsetsInitializer, OffsetLookup, Offsets
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.positions import KafkaSnapshot, KafkaSplit, SplitPosition, owner_of
from millstream.connectors.kafka.settings import SourceSettings
from millstream.spi.source import Pending, PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["KafkaEnumerator"]

log = logging.getLogger(__name__)

_LOST_S = 5.0


class KafkaEnumerator(SplitEnumerator):
    """Plans a Kafka source's epochs.

    Args:
        settings: What is read.
        restored: A snapshot to go on from; None to begin.
        clock: What time it is.

    Raises:
        SourceError: If the cluster cannot be reached, a topic does not exist, or records are gone that were to be read.
    """

    def __init__(
        self, settings: SourceSettings, restored: KafkaSnapshot | None, clock: Clock | None = None
    ) -> None:
        self._clock = clock = clock or SystemClock()
        self._settings = settings
        self._cluster = settings.open_cluster("enumerator")
        self._lookup = OffsetLookup(self._cluster, settings.group, settings.isolation)
        self._losses = Losses(settings.reset)
        self._ends = EndOffsets(self._cluster, self._lookup, clock)
        self._positions: dict[KafkaTopicPartition, SplitPosition] = {}
        self._topic_ids: dict[str, str] = {}
        self._opened: set[KafkaTopicPartition] = set()
        self._behind_end: dict[KafkaTopicPartition, float] = {}
        self._turn = 0
        self._parallelism = 1
        interval_ms = settings.discovery_interval_ms
        self._discovery = (
            None
            if interval_ms is None
            else Discovery(lambda: settings.subscription.find(self._cluster), interval_ms, clock.now_ms())
        )
        if restored is None:
            self._begin()
        else:
            self._go_on_from(restored)
        self._commits = (
            OffsetCommits(self._cluster, settings.group)
            if settings.group is not None and settings.commits_offsets
            else None
        )

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan up to the ends of the partitions, as far as the budget goes."""
        if self._commits is not None:
            self._commits.go_on()
        self._parallelism = request.parallelism
        self._discover(request.now_ms)
        unfinished = {each: split for each, split in self._positions.items() if not split.finished}
        ends = self._ends.ask(unfinished)
        owned: dict[int, list[KafkaTopicPartition]] = {}
        for partition in sorted(unfinished):
            owned.setdefault(owner_of(partition, request.parallelism), []).append(partition)
        ranges: dict[int, list[SplitRange]] = {}
        backlog = False
        for subtask, partitions in owned.items():
            planned, more = self._plan_subtask(partitions, ends, request)
            backlog = backlog or more
            if planned:
                ranges[subtask] = planned
        self._turn += 1
        finished: frozenset[int] = frozenset()
        if self._discovery is None:
            finished = frozenset(range(request.parallelism)) - owned.keys()
        return SourcePlan(ranges, finished, backlog)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of the offsets reached."""
        by_id = {str(each): each for each in self._positions}
        for end in ends:
            partition = by_id[end.split_id]
            self._positions[partition].position = end.position
            self._opened.add(partition)

    def pending(self) -> Pending:
        """Return how many offsets there are up to the ends of the partitions, or to where the source stops."""
        records = dict.fromkeys(range(self._parallelism), 0)
        splits = dict(records)
        for partition, split in self._positions.items():
            if split.finished:
                continue
            subtask = owner_of(partition, self._parallelism)
            splits[subtask] += 1
            end = self._ends.known.get(partition, split.position)
            end = end if split.end is None else min(end, split.end)
            records[subtask] += max(end - split.position, 0)
        return Pending(records=records, splits=splits, unassigned_splits=0)

    def snapshot(self) -> KafkaSnapshot:
        """Return how far each partition has been read."""
        positions = {each: replace(split) for each, split in self._positions.items()}
        return KafkaSnapshot(positions, dict(self._topic_ids))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Commit the offsets to the consumer group."""
        if self._commits is not None:
            self._commits.want({each: split.position for each, split in self._positions.items()})

    def close(self) -> None:
        """Let the last commit of offsets end."""
        if self._commits is not None:
            self._commits.close()
        self._cluster.close()

    def _begin(self) -> None:
        found = self._settings.subscription.find(self._cluster)
        if not found and self._settings.discovery_interval_ms is None:
            raise SourceError(
                f"there is nothing to read: no topic is {self._settings.subscription}",
                hint="Create the topic, check the pattern, or have the source look for topics: unbounded, with "
                "partition.discovery.interval.ms.",
            )
        self._add(found, self._settings.starts)

    def _go_on_from(self, restored: KafkaSnapshot) -> None:
        self._positions = {each: replace(split) for each, split in restored.positions.items()}
        self._topic_ids = dict(restored.topic_ids)
        adds_new = self._settings.adds_subscribed or self._settings.discovery_interval_ms is not None
        if not adds_new and all(split.finished for split in self._positions.values()):
            return
        found = self._settings.subscription.find(self._cluster)
        if self._settings.drops_unsubscribed:
            self._drop_all_but({each for topic in found.values() for each in topic.partitions})
        self._check_that_topics_are_the_same(found)
        if adds_new:
            self._add_new(found)
        self._check_that_positions_are_there()

    def _drop_all_but(self, subscribed: Set[KafkaTopicPartition]) -> None:
        for partition in self._positions.keys() - subscribed:
            log.warning("partition %s of the checkpoint is not subscribed any more and not read", partition)
            del self._positions[partition]

    def _check_that_positions_are_there(self) -> None:
        unread = {each: split for each, split in self._positions.items() if not split.finished}
        first = self._lookup.earliest(unread)
        latest: Offsets | None = None
        for partition, split in unread.items():
            if split.position < first[partition]:
                latest = latest or self._lookup.latest(unread)
                lost = LostRecords(partition, split.position, first[partition], latest[partition])
                split.position = self._losses.go_on_behind(lost)

    def _discover(self, now_ms: int) -> None:
        found = None if self._discovery is None else self._discovery.look(now_ms)
        if found is not None:
            self._check_that_topics_are_the_same(found)
            self._add_new(found)

    def _check_that_topics_are_the_same(self, found: Found) -> None:
        for name, topic in found.items():
            known = self._topic_ids.get(name)
            if known and topic.topic_id and known != topic.topic_id:
                self._made_anew(name, topic.partitions)

    def _add_new(self, found: Found) -> None:
        """Begin with partitions that were not there before, with their first records."""
        new = {
            name: replace(topic, partitions=topic.partitions - self._positions.keys())
            for name, topic in found.items()
        }
        self._add(new, KafkaOffsetsInitializer.earliest())

    def _made_anew(self, topic: str, partitions: Collection[KafkaTopicPartition]) -> None:
        old = {each: split for each, split in self._positions.items() if each.topic == topic}
        first, latest = self._lookup.earliest(partitions), self._lookup.latest(partitions)
        for partition, split in old.items():
            if partition not in partitions:
                raise SourceError(
                    f"topic {topic!r} was deleted and made anew, without partition {partition.partition}",
                    detail=f"It had been read up to offset {split.position}.",
                    hint="Start the job without its checkpoint, or with another uid of the source.",
                )
            lost = LostRecords(
                partition, split.position, first[partition], latest[partition], topic_is_new=True
            )
            split.position = self._losses.go_on_behind(lost)

    def _add(self, found: Found, starts: KafkaOffsetsInitializer) -> None:
        partitions = [each for topic in found.values() for each in topic.partitions]
        self._topic_ids |= {name: topic.topic_id for name, topic in found.items()}
        if not partitions:
            return
        settings = self._settings
        begin = starts.offsets_of(partitions, self._lookup)
        stops = {} if settings.stops is None else settings.stops.offsets_of(partitions, self._lookup)
        for partition in sorted(partitions):
            self._positions[partition] = SplitPosition(begin[partition], stops.get(partition))
            log.info("partition %s is read from offset %d on", partition, begin[partition])

    def _plan_subtask(
        self, partitions: Sequence[KafkaTopicPartition], ends: Offsets, request: PlanRequest
    ) -> tuple[list[SplitRange], bool]:
        """Return a subtask's ranges, and whether there is more than its budget."""
        available: dict[KafkaTopicPartition, int] = {}
        stops: dict[KafkaTopicPartition, int] = {}
        for partition in partitions:
            if str(partition) in request.paused:
                continue
            split = self._positions[partition]
            stops[partition] = stop = self._stop_of(partition, split, ends)
            if stop > split.position:
                available[partition] = stop - split.position
        start = self._turn % max(len(available), 1)
        shares = _share_out(request.max_records, available, start)
        ranges = []
        for partition in partitions:
            share = shares.get(partition, 0)
            if share or (partition in stops and partition not in self._opened):
                split = self._positions[partition]
                stop = stops[partition] if share else split.position
                ranges.append(
                    SplitRange(
                        str(partition), KafkaSplit(partition, split.end), split.position, stop, max(share, 1)
                    )
                )
        return ranges, sum(available.values()) > sum(shares.values())

    def _stop_of(self, partition: KafkaTopicPartition, split: SplitPosition, ends: Offsets) -> int:
        """Return how far a partition may be read now."""
        end = ends.get(partition)
        if end is None or split.finished:
            return split.position
        if end < split.position:
            self._note_that_end_is_in_front(partition, split, end)
            return split.position
        self._behind_end.pop(partition, None)
        return end if split.end is None else min(end, split.end)

    def _note_that_end_is_in_front(
        self, partition: KafkaTopicPartition, split: SplitPosition, end: int
    ) -> None:
        """Learn that there are fewer records than were read: for a while that is so when a broker has just started."""
        now = self._clock.monotonic()
        if now - self._behind_end.setdefault(partition, now) >= _LOST_S:
            first = self._lookup.earliest([partition])[partition]
            split.position = self._losses.go_on_behind(LostRecords(partition, split.position, first, end))


def _share_out(
    budget: int, available: Mapping[KafkaTopicPartition, int], start: int
) -> dict[KafkaTopicPartition, int]:
    """Share a budget out: all alike, those with less get all that they have, odd records go round.

    >>> a, b, c = (KafkaTopicPartition("t", number) for number in range(3))
    >>> _share_out(10, {a: 100, b: 2, c: 100}, 0)
    {t-1: 2, t-0: 4, t-2: 4}
    >>> _share_out(1, {a: 5, b: 5}, 1)
    {t-1: 1}
    """
    order = list(available)
    order = order[start:] + order[:start]
    order.sort(key=lambda each: available[each])
    shares: dict[KafkaTopicPartition, int] = {}
    for place, partition in enumerate(order):
        left = len(order) - place
        share = min(available[partition], -(-budget // left) if budget < left else budget // left)
        budget -= share
        if share:
            shares[partition] = share
    return shares
