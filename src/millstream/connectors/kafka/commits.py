"""Offsets committed to a consumer group, so that others see how far a source has read: the job does not need them."""

from __future__ import annotations

import logging
from concurrent.futures import TimeoutError as NotDone
from typing import Any

from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.offsets import Offsets

__all__ = ["OffsetCommits"]

log = logging.getLogger(__name__)

_ANSWER_S = 30.0
_LAST_S = 5.0


class OffsetCommits:
    """Commits the offsets of a group, one commit at a time and without waiting; one thread calls it.

    Args:
        cluster: Where.
        group: The group.
    """

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._committed: Offsets = {}
        self._wanted: Offsets = {}
        self._sent: Offsets = {}
        self._commit: Any = None
        self._has_failed = False

    def want(self, offsets: Offsets) -> None:
        """Commit offsets, behind the commit that is under way."""
        self._wanted = offsets
        self.go_on()

    def go_on(self) -> None:
        """Take note of what came of the last commit, and begin the next if one is wanted."""
        if self._commit is not None and not self._commit.done():
            return
        self._settle()
        changed = {each: at for each, at in self._wanted.items() if self._committed.get(each) != at}
        if changed:
            library = confluent_kafka()
            places = [library.TopicPartition(each.topic, each.partition, at) for each, at in changed.items()]
            request = [library.ConsumerGroupTopicPartitions(self._group, places)]
            self._sent = changed
            self._commit = self._cluster.ask(
                lambda admin: admin.alter_consumer_group_offsets(request, request_timeout=_ANSWER_S)
            )[self._group]
        self._wanted = {}

    def close(self) -> None:
        """Wait a little for what is under way: a job's last checkpoint comes right before its end."""
        for _ in range(2):
            if self._commit is not None:
                try:
                    self._commit.exception(_LAST_S)
                except NotDone:
                    log.warning("group %r: the last offsets were not committed in time", self._group)
                    return
            self.go_on()

    def _settle(self) -> None:
        if self._commit is None:
            return
        commit, self._commit = self._commit, None
        error = commit.exception()
        if error is None:
            failed = [each for each in commit.result().topic_partitions if each.error is not None]
            error = failed[0].error if failed else None
        if error is None:
            self._committed |= self._sent
            self._has_failed = False
        elif not self._has_failed:
            self._has_failed = True
            log.warning(
                "%s; the job goes on from its checkpoints all the same",
                self._cluster.explain(error, f"the offsets of group {self._group!r} could not be committed"),
            )
