"""Where reading starts and stops, and how offsets are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.partitions import KafkaTopicPartition

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "OffsetLookup",
    "Offsets",
    "forget_leaders",
    "names_of",
    "no_answer",
    "offset_in",
]

Offsets = dict[KafkaTopicPartition, int]

_ANSWER_S = 10.0
_LEADERS_S = 0.2
_SHOWN = 5


def names_of(partitions: Iterable[KafkaTopicPartition]) -> str:
    """Return partitions for a message: some of them.

    >>> names_of([KafkaTopicPartition("clicks", 1), KafkaTopicPartition("clicks", 0)])
    'clicks-0, clicks-1'
    """
    names = [str(each) for each in sorted(partitions)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


class KafkaOffsetResetStrategy(Enum):
    """Where to begin if there is no offset to begin from.

    Example:
        >>> from millstream.datastream.connectors.kafka import KafkaOffsetResetStrategy
        >>> from millstream.datastream.connectors import kafka
        >>> earliest = kafka.KafkaOffsetResetStrategy.EARLIEST
        >>> start = kafka.KafkaOffsetsInitializer.committed_offsets(earliest)
        >>> [strategy.name for strategy in KafkaOffsetResetStrategy]
        ['LATEST', 'EARLIEST', 'NONE']
    """

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetLookup:
    """Asks a cluster for offsets, and waits for it.

    Args:
        cluster: Who is asked.
        group: The consumer group whose offsets count; None if there is none.
        isolation: `read_committed`, or `read_uncommitted`: what the end of a partition is.
    """

    def __init__(self, cluster: Cluster, group: str | None, isolation: str) -> None:
        self._cluster = cluster
        self._group = group
        self._isolation = isolation

    @property
    def has_group(self) -> bool:
        """Whether there is a group whose offsets count."""
        return self._group is not None

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the first offsets that are there."""
        return self._ask(partitions, _specs().earliest())

    def latest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the offsets behind the last record that may be read."""
        return self._ask(partitions, _specs().latest())

    def at(self, partitions: Iterable[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        """Return the offsets of the first records at or after a time; the ends if there are none."""
        found = self._ask(partitions, _specs().for_timestamp(timestamp_ms))
        later = [each for each, offset in found.items() if offset < 0]
        return found | self.latest(later)

    def committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the offsets that the group has committed; partitions of which it has none are not there.

        Raises:
            ConfigurationError: If the source has no group.
        """
        wanted = set(partitions)
        if not wanted:
            return {}
        if self._group is None:
            raise ConfigurationError(
                f"the offsets that a group has committed were asked for {names_of(wanted)}, and there is no group",
                hint="Name the group: set_group_id(...), or the property group.id.",
            )
        committed = self._cluster.call(
            self._list_committed, f"the committed offsets of group {self._group!r} could not be read"
        )
        found = {
            KafkaTopicPartition(each.topic, each.partition): each.offset
            for each in committed
            if each.offset >= 0
        }
        return {each: found[each] for each in wanted & found.keys()}

    def _list_committed(self) -> Any:
        library = confluent_kafka()
        request = [library.ConsumerGroupTopicPartitions(self._group)]
        futures = self._cluster.ask(
            lambda admin: admin.list_consumer_group_offsets(
                request, require_stable=True, request_timeout=_ANSWER_S
            )
        )
        return futures[self._group].result().topic_partitions

    def request(self, partitions: Iterable[KafkaTopicPartition], spec: Any) -> dict[KafkaTopicPartition, Any]:
        """Ask for offsets; return a future of each partition's result, without waiting."""
        library = confluent_kafka()
        level = library.IsolationLevel[self._isolation.upper()]
        wanted = {library.TopicPartition(each.topic, each.partition): spec for each in partitions}
        futures = self._cluster.ask(
            lambda admin: admin.list_offsets(wanted, isolation_level=level, request_timeout=_ANSWER_S)
        )
        return {KafkaTopicPartition(each.topic, each.partition): future for each, future in futures.items()}

    def request_ends(self, partitions: Iterable[KafkaTopicPartition]) -> dict[KafkaTopicPartition, Any]:
        """Ask for the offsets behind the last records, without waiting."""
        return self.request(partitions, _specs().latest())

    def _ask(self, partitions: Iterable[KafkaTopicPartition], spec: Any) -> Offsets:
        wanted = list(partitions)
        if not wanted:
            return {}

        def look() -> Offsets:
            try:
                return {each: offset_in(future) for each, future in self.request(wanted, spec).items()}
            except confluent_kafka().KafkaException:
                forget_leaders(self._cluster)
                raise

        return self._cluster.call(look, f"the offsets of {names_of(wanted)} could not be read")


def offset_in(future: Any) -> int:
    """Return the offset that a future of `OffsetLookup.request` has; -1 if there is no record of that time.

    Raises:
        KafkaException: If there is none: from a broker that is about to go there comes a number without a meaning.
    """
    offset: int = future.result().offset
    if offset < -1:
        raise no_answer()
    return offset


def no_answer() -> Exception:
    """Return what the client raises when brokers do not answer."""
    library = confluent_kafka()
    error: Exception = library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT))
    return error


def forget_leaders(cluster: Cluster) -> None:
    """Have the client ask which brokers lead partitions: that there were none it believes for minutes."""
    with suppress(confluent_kafka().KafkaException):
        cluster.admin.list_topics(timeout=_LEADERS_S)


def _specs() -> Any:
    return confluent_kafka("confluent_kafka.admin").OffsetSpec


class KafkaOffsetsInitializer(ABC):
    """Says where reading starts, or stops; made by its static methods.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
        >>> source = (
        ...     KafkaSource.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_topics("orders")
        ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        ...     .set_bounded(KafkaOffsetsInitializer.latest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
        >>> source.get_boundedness().name
        'BOUNDED'
    """

    @abstractmethod
    def offsets_of(self, partitions: Iterable[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        """Return an offset for each partition.

        Raises:
            SourceError: If the cluster does not tell, or there is none for a partition.
        """

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Begin with the first records that are there."""
        return _Looked("earliest")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Begin, or stop, behind the last records that are there when the job starts."""
        return _Looked("latest")

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Begin, or stop, with the first record of each partition whose timestamp is not before this one.

        Args:
            timestamp: Epoch milliseconds.

        Raises:
            ConfigurationError: If it is negative.
        """
        if timestamp < 0:
            raise ConfigurationError(f"timestamp {timestamp} is negative, must be epoch milliseconds")
        return _AtTime(timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Begin, or stop, at the offsets that the consumer group has committed.

        Args:
            offset_reset_strategy: Where to begin in partitions of which it has none; NONE fails the job.
        """
        return _Committed(offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Begin, or stop, at these offsets; in other partitions at those that the consumer group has committed.

        Args:
            offsets: The next offset to read of each partition.
            offset_reset_strategy: Where to begin in partitions of which there is none, or which have no such offset
                (any more); NONE fails the job.

        Raises:
            ConfigurationError: If an offset is negative.
        """
        for partition, offset in offsets.items():
            if offset < 0:
                raise ConfigurationError(f"offset {offset} of partition {partition} is negative")
        return _Given(dict(offsets), offset_reset_strategy)


@dataclass(frozen=True)
class _Looked(KafkaOffsetsInitializer):
    """The first offsets that are there, or those behind the last."""

    which: str

    def offsets_of(self, partitions: Iterable[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        asked: Callable[[Iterable[KafkaTopicPartition]], Offsets] = getattr(lookup, self.which)
        return asked(partitions)


@dataclass(frozen=True)
class _AtTime(KafkaOffsetsInitializer):
    timestamp_ms: int

    def offsets_of(self, partitions: Iterable[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        return lookup.at(partitions, self.timestamp_ms)


@dataclass(frozen=True)
class _Committed(KafkaOffsetsInitializer):
    reset: KafkaOffsetResetStrategy

    def offsets_of(self, partitions: Iterable[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        wanted = set(partitions)
        found = lookup.committed(wanted)
        return found | _reset(wanted - found.keys(), self.reset, lookup, "the group has committed no offset")


@dataclass(frozen=True)
class _Given(KafkaOffsetsInitializer):
    given: Offsets
    reset: KafkaOffsetResetStrategy

    def offsets_of(self, partitions: Iterable[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        wanted = set(partitions)
        found = {each: self.given[each] for each in wanted & self.given.keys()}
        first, end = lookup.earliest(found), lookup.latest(found)
        outside = {each for each, offset in found.items() if not first[each] <= offset <= end[each]}
        found = {each: offset for each, offset in found.items() if each not in outside}
        others = wanted - self.given.keys()
        if others and lookup.has_group:
            found |= lookup.committed(others)
        found |= _reset(outside, self.reset, lookup, "the given offset is not there")
        return found | _reset(
            wanted - found.keys(), self.reset, lookup, "no offset was given, and none committed"
        )


def _reset(
    partitions: set[KafkaTopicPartition],
    strategy: KafkaOffsetResetStrategy,
    lookup: OffsetLookup,
    why: str,
) -> Offsets:
    if not partitions:
        return {}
    if strategy is KafkaOffsetResetStrategy.NONE:
        raise SourceError(
            f"there is nowhere to begin in {names_of(partitions)}: {why}",
            hint="Give an offset reset strategy, EARLIEST or LATEST, or other starting offsets.",
        )
    return lookup.earliest(partitions) if strategy.name == "EARLIEST" else lookup.latest(partitions)
