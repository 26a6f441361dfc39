"""The driver's side of a source of streams: an enumerator of each cluster, and who tells which clusters there are.

::

    metadata service ──look──► {cluster: topics, properties}     on a thread of its own, now and then
            │ a cluster comes            its partitions are read from their first records
            │ topics or properties change   a new enumerator goes on from the positions of the old one
            │ a cluster, or a topic, goes   its splits end, its positions are kept: it may come back
            ▼
    plan   west ─┐
           east ─┴─► ranges of all; split ids are `west/clicks-0`; each carries what a reader needs to know

What a partition's split holds back is the watermark, so a partition that is taken out is planned once more, with
nothing to read, for its split to end. If it comes back it goes on where it was, as another split.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.kafka.discovery import Discovery
from millstream.connectors.kafka.dynamic.metadata import ClusterMetadata
from millstream.connectors.kafka.dynamic.settings import DynamicSettings
from millstream.connectors.kafka.dynamic.splits import (
    ClusterPartition,
    ClusterVersion,
    DynamicSnapshot,
    DynamicSplit,
    inner_id,
    only_topics,
    with_newer,
)
from millstream.connectors.kafka.enumerator import KafkaEnumerator
from millstream.connectors.kafka.positions import KafkaSnapshot, KafkaSplit, owner_of
from millstream.connectors.kafka.settings import SourceSettings
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["DynamicKafkaEnumerator"]

log = logging.getLogger(__name__)

_Clusters = dict[str, ClusterMetadata]


@dataclass
class _Open:
    """A cluster that is read.

    Attributes:
        version: Of its description.
        metadata: Its description.
        settings: What is read of it.
        enumerator: Who plans that.
        given_up: Whether it did not answer, and is not expected to.
    """

    version: ClusterVersion
    metadata: ClusterMetadata
    settings: SourceSettings
    enumerator: KafkaEnumerator
    given_up: bool = False


class DynamicKafkaEnumerator(SplitEnumerator):
    """Plans the epochs of a source of streams.

    Args:
        settings: What is read.
        restored: A snapshot to go on from; None to begin.
        clock: What time it is.

    Raises:
        SourceError: If the metadata service or a cluster does not answer, a topic is not there, or records are gone.
    """

    def __init__(
        self, settings: DynamicSettings, restored: DynamicSnapshot | None, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self._settings = settings
        self._open: dict[str, _Open] = {}
        self._kept: dict[str, KafkaSnapshot] = {} if restored is None else dict(restored.clusters)
        self._retired: dict[ClusterPartition, int] = {} if restored is None else dict(restored.retired)
        self._leaving: set[ClusterPartition] = set() if restored is None else set(restored.leaving)
        self._out: set[ClusterPartition] = set() if restored is None else set(restored.out)
        self._version = 0
        self._turn = 0
        self._failures = 0
        self._closing: list[threading.Thread] = []
        found = self._first_look(restored)
        try:
            if restored is not None:
                self._leave({each for each in self._known() - self._out if not _is_in(each, found)})
            for cluster_id, metadata in sorted(found.items()):
                self._begin(cluster_id, metadata, is_new=restored is not None)
        except BaseException:
            self.close()
            raise
        self._discovery: Discovery[_Clusters] | None = None
        if settings.interval_ms is not None:
            self._discovery = Discovery(self._look, settings.interval_ms, clock.now_ms())

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan each cluster; its share of the budget is what those before have left."""
        self._discover(request.now_ms)
        ranges: dict[int, list[SplitRange]] = {}
        finished = frozenset(range(request.parallelism))
        backlog = False
        clusters = [self._open[each] for each in sorted(self._open)]
        start = self._turn % max(len(clusters), 1)
        self._turn += 1
        clusters = clusters[start:] + clusters[:start]
        left, current = request.max_records, frozenset(each.version for each in clusters)
        for place, cluster in enumerate(clusters):
            share = max(left // (len(clusters) - place), 1)
            plan = self._plan_cluster(cluster, replace(request, max_records=share))
            if plan is None:
                continue
            shift = _shift(cluster.version.cluster_id)
            for subtask, planned in plan.ranges.items():
                ranges.setdefault((subtask + shift) % request.parallelism, []).extend(
                    self._outer(cluster, each, current) for each in planned
                )
            finished &= {(subtask + shift) % request.parallelism for subtask in plan.finished}
            backlog = backlog or plan.backlog
            left -= max((_records_in(planned) for planned in plan.ranges.values()), default=0)
        for subtask, ending in self._plan_ends(request.parallelism, current):
            ranges.setdefault(subtask, []).append(ending)
            finished -= {subtask}
        return SourcePlan(ranges, finished if self._discovery is None else frozenset(), backlog)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Tell each cluster's enumerator, and forget splits that have ended."""
        own: dict[str, list[RangeEnd]] = {}
        leaving = {each.split_id(self._retired): each for each in self._leaving}
        for end in ends:
            gone = leaving.get(end.split_id)
            if gone is not None:
                self._leaving.discard(gone)
                self._out.add(gone)
                self._retired[gone] = self._retired.get(gone, 0) + 1
                continue
            cluster_id, split_id = inner_id(end.split_id)
            own.setdefault(cluster_id, []).append(replace(end, split_id=split_id))
        for cluster_id, each in own.items():
            self._open[cluster_id].enumerator.advance(each)

    def snapshot(self) -> DynamicSnapshot:
        """Return how far each partition has been read, also of those that are gone."""
        clusters = dict(self._kept)
        for cluster_id, cluster in self._open.items():
            clusters[cluster_id] = with_newer(self._kept.get(cluster_id), cluster.enumerator.snapshot())
        return DynamicSnapshot(clusters, frozenset(self._leaving), frozenset(self._out), dict(self._retired))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Commit the offsets to the consumer group of each cluster."""
        for cluster in self._open.values():
            cluster.enumerator.checkpoint_completed(checkpoint_id)

    def close(self) -> None:
        """Let the last commits of offsets end."""
        for cluster in self._open.values():
            cluster.enumerator.close()
        for thread in self._closing:
            thread.join()
        self._settings.service.close()

    # What is read

    def _first_look(self, restored: DynamicSnapshot | None) -> _Clusters:
        found = self._settings.look()
        if restored is not None and self._settings.is_bounded:  # what it ends at was decided when it began
            known = {each: frozenset(kept.topic_ids) for each, kept in restored.clusters.items()}
            found = {
                cluster_id: _with_topics(each, each.topics & known[cluster_id])
                for cluster_id, each in found.items()
                if each.topics & known.get(cluster_id, frozenset())
            }
        elif not found and self._settings.interval_ms is None and restored is None:
            raise SourceError(
                f"there is nothing to read: no stream is {self._settings.subscriber!r}",
                hint="Check ids or pattern and the metadata service, or have the source look for streams: unbounded, "
                "with stream-metadata-discovery-interval-ms.",
            )
        return found

    def _look(self) -> _Clusters:
        """Ask the service, and see that clusters and topics are there which are new; on the thread of discovery."""
        found = self._settings.look()
        for cluster_id, metadata in found.items():
            known = self._open.get(cluster_id)
            if known is None or known.metadata != metadata:
                settings = self._settings.of_cluster(cluster_id, metadata)
                cluster = settings.open_cluster("discovery")
                try:
                    settings.subscription.find(cluster)
                finally:
                    cluster.close()
        return found

    def _discover(self, now_ms: int) -> None:
        if self._discovery is None:
            return
        try:
            found = self._discovery.look(now_ms)
        except SourceError as error:
            self._failures += 1
            if self._failures >= self._settings.failures:
                raise
            log.warning("streams could not be looked for, %d times in a row: %s", self._failures, error)
            return
        if found is not None:
            self._failures = 0
            self._change_to(found)

    def _change_to(self, found: _Clusters) -> None:
        for cluster_id in self._open.keys() - found.keys():
            log.info("Kafka cluster %s is not in any stream any more", cluster_id)
            former = self._end(cluster_id)
            self._leave({ClusterPartition(cluster_id, each) for each in former.positions})
        for cluster_id, metadata in sorted(found.items()):
            known = self._open.get(cluster_id)
            if known is None:
                self._begin(cluster_id, metadata, is_new=True)
            elif known.metadata != metadata:
                log.info("Kafka cluster %s has changed", cluster_id)
                former = self._end(cluster_id)
                gone = {each for each in former.positions if each.topic not in metadata.topics}
                self._leave({ClusterPartition(cluster_id, each) for each in gone})
                self._begin(cluster_id, metadata, is_new=True)

    def _begin(self, cluster_id: str, metadata: ClusterMetadata, *, is_new: bool) -> None:
        """Open a cluster, and go on from what is known of it."""
        settings = self._settings.of_cluster(cluster_id, metadata, is_new=is_new)
        kept = self._kept.get(cluster_id)
        restored = None if kept is None else only_topics(kept, metadata.topics)
        enumerator = KafkaEnumerator(settings, restored)
        self._version += 1
        version = ClusterVersion(cluster_id, self._version)
        self._open[cluster_id] = _Open(version, metadata, settings, enumerator)
        self._leaving = {each for each in self._leaving if not _is_in(each, {cluster_id: metadata})}
        self._out = {each for each in self._out if not _is_in(each, {cluster_id: metadata})}
        log.info("Kafka cluster %s is read: topics %s", cluster_id, ", ".join(sorted(metadata.topics)))

    def _end(self, cluster_id: str) -> KafkaSnapshot:
        """Close a cluster, keep its positions, and return those that were being read."""
        enumerator = self._open.pop(cluster_id).enumerator
        former = enumerator.snapshot()
        self._kept[cluster_id] = with_newer(self._kept.get(cluster_id), former)
        # It may wait for brokers that are gone.
        thread = threading.Thread(target=enumerator.close, daemon=True, name="kafka-close")
        thread.start()
        self._closing = [each for each in self._closing if each.is_alive()] + [thread]
        return former

    def _known(self) -> set[ClusterPartition]:
        return {
            ClusterPartition(cluster_id, each)
            for cluster_id, kept in self._kept.items()
            for each in kept.positions
        }

    def _leave(self, partitions: set[ClusterPartition]) -> None:
        """Have the splits of partitions end, but of those that have ended already."""
        for each in partitions:
            split = self._kept[each.cluster_id].positions[each.partition]
            if not split.finished:
                self._leaving.add(each)

    # Planning

    def _plan_cluster(self, cluster: _Open, request: PlanRequest) -> SourcePlan | None:
        """Plan a cluster; None if it does not answer, and need not."""
        if cluster.given_up:
            return None
        cluster_id = cluster.version.cluster_id
        own = [inner_id(each) for each in request.paused]
        paused = frozenset(split_id for owner, split_id in own if owner == cluster_id)
        try:
            return cluster.enumerator.plan(replace(request, paused=paused))
        except SourceError as error:
            if self._discovery is None or self._settings.service.is_cluster_active(cluster_id):
                raise
            cluster.given_up = True
            log.warning("Kafka cluster %s is not active, and not read any more: %s", cluster_id, error)
            return None

    def _outer(self, cluster: _Open, inner: SplitRange, current: frozenset[ClusterVersion]) -> SplitRange:
        split: KafkaSplit = inner.split
        place = ClusterPartition(cluster.version.cluster_id, split.partition)
        return replace(
            inner,
            split_id=place.split_id(self._retired),
            split=DynamicSplit(cluster.version, cluster.settings, split, current),
        )

    def _plan_ends(
        self, parallelism: int, current: frozenset[ClusterVersion]
    ) -> list[tuple[int, SplitRange]]:
        """Return ranges with nothing to read, which end splits that were taken out."""
        ends = []
        for each in sorted(self._leaving):
            position = self._kept[each.cluster_id].positions[each.partition].position
            gone = DynamicSplit(
                ClusterVersion(each.cluster_id, -1), None, KafkaSplit(each.partition, position), current
            )
            subtask = (owner_of(each.partition, parallelism) + _shift(each.cluster_id)) % parallelism
            ends.append((subtask, SplitRange(each.split_id(self._retired), gone, position, position, 1)))
        return ends


def _is_in(place: ClusterPartition, clusters: _Clusters) -> bool:
    metadata = clusters.get(place.cluster_id)
    return metadata is not None and place.partition.topic in metadata.topics


def _shift(cluster_id: str) -> int:
    """Return by how much subtasks of a cluster are counted on: topics are called the same in all of them."""
    return zlib.crc32(cluster_id.encode())


def _records_in(ranges: Sequence[SplitRange]) -> int:
    return sum(each.max_records for each in ranges if each.start != each.stop)


def _with_topics(metadata: ClusterMetadata, topics: frozenset[str]) -> ClusterMetadata:
    """Return a description with other topics."""
    return ClusterMetadata(
        topics,
        metadata.properties,
        metadata.starting_offsets_initializer,
        metadata.stopping_offsets_initializer,
    )
