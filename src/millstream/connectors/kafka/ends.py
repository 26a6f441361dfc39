"""Where partitions end, asked for with each epoch without waiting for brokers that are away."""

from __future__ import annotations

import logging
from collections.abc import Collection
from concurrent.futures import wait
from typing import Any

from millstream.base.clock import Clock
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.errors import error_of
from millstream.connectors.kafka.offsets import (
    OffsetLookup,
    Offsets,
    forget_leaders,
    names_of,
    no_answer,
    offset_in,
)
from millstream.connectors.kafka.partitions import KafkaTopicPartition

__all__ = ["EndOffsets"]

log = logging.getLogger(__name__)

_WAIT_S = 1.0
_WAIT_IN_TROUBLE_S = 0.02
_GONE_S = 5.0
# Brokers that have just started, or have just become leaders, may not know a topic for a moment.
_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})


class EndOffsets:
    """Knows where partitions end; one thread calls it.

    A job has other sources, and is to be cancelled: while brokers are away it goes on with what was known before.

    Args:
        cluster: Who is asked.
        lookup: How.
        clock: What time it is.
    """

    def __init__(self, cluster: Cluster, lookup: OffsetLookup, clock: Clock) -> None:
        self._cluster = cluster
        self._lookup = lookup
        self._clock = clock
        self._ends: Offsets = {}
        self._asked: dict[KafkaTopicPartition, Any] = {}
        self._failing_since: float | None = None
        self._unknown_since: float | None = None

    @property
    def known(self) -> Offsets:
        """The ends that are known."""
        return self._ends

    def ask(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the ends that are known, by now or from before.

        Raises:
            SourceError: If they could not be learnt for as long as the cluster is waited for, or never will.
        """
        if not self._asked:
            if not partitions:
                return self._ends
            if self._failing_since is not None:
                forget_leaders(self._cluster)
            self._asked = self._lookup.request_ends(partitions)
        waits_s = _WAIT_S if self._failing_since is None else _WAIT_IN_TROUBLE_S
        pending = wait(self._asked.values(), waits_s).not_done
        if pending:
            self._note(self._asked, no_answer())
            return self._ends
        answers, self._asked = self._asked, {}
        failed: dict[KafkaTopicPartition, Exception] = {}
        for partition, future in answers.items():
            try:
                self._ends[partition] = offset_in(future)
            except confluent_kafka().KafkaException as error:
                failed[partition] = error
        if failed:
            self._note(failed, next(iter(failed.values())))
        elif self._failing_since is not None:
            log.warning("%s answers again", self._name)
            self._failing_since = self._unknown_since = None
        return self._ends

    def _note(self, partitions: Collection[KafkaTopicPartition], error: Exception) -> None:
        self._cluster.admin.poll(0)  # hears what is wrong with connections
        now = self._clock.monotonic()
        doing = f"the ends of {names_of(partitions)} could not be read"
        told = error_of(error)
        is_unknown = told is not None and told.name() in _UNKNOWN
        if self._failing_since is None:
            self._failing_since = now
            patience_s = self._cluster.patience.total_s
            log.warning("%s: %s: %s; trying again for %g s", self._name, doing, told or error, patience_s)
        self._unknown_since = (self._unknown_since or now) if is_unknown else None
        if is_unknown:
            is_over = self._unknown_since is not None and now - self._unknown_since >= _GONE_S
        else:
            is_over = now - self._failing_since >= self._cluster.patience.total_s
        if is_over or not (is_unknown or self._cluster.is_passing(error)):
            raise self._cluster.explain(error, doing)

    @property
    def _name(self) -> str:
        return f"Kafka at {self._cluster.properties['bootstrap.servers']}"
