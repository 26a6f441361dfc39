"""The marks that end a transaction in its partitions: whether they are there, and how missing ones are written.

::

    acknowledged ─► log of the coordinator: to be committed ─► a mark in each partition ─► its log: complete

A commit is acknowledged before there is a mark. A coordinator that was killed in between goes on when it is back; but
one that has not heard yet where a partition is takes it for deleted, and calls the transaction complete without its
mark (seen with Kafka 4.3.1 on one broker). Such a partition keeps the transaction open: its messages stay hidden, and
share the fate of the producer's next transaction there. So does the offset that is the marker. Aborts may lose theirs
too, and what was aborted would be committed with the next transaction.

A coordinator that lived from before the commit until it calls the transaction complete has written the marks: the
connection to it tells that it lived. Where it did not, and where a producer takes an id over, it is seen whether any
transaction is open in the partitions. If so the marks are written: by an empty transaction of the same producer in all
of them. Where nothing was open that does nothing.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from enum import Enum
from typing import Final, TypeVar

from millstream.base.clock import SystemClock
from millstream.base.errors import NotSupportedError, SinkError
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.offsets import OffsetLookup, Offsets, offset_in
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.wire import BrokerConnection

__all__ = ["EndMarks", "Outcome", "not_ended"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_ANSWER_S = 5.0
_ENDING_S = 10.0
_OTHERS_S = 0.2  # transactions of other lanes are short
_PAUSE_S = 0.002
_ENDING: Final = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_TIMEOUT_MS = 60_000


class Outcome(Enum):
    """What the coordinator knows of the last transaction of an id."""

    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"
    OPEN = "Ongoing"
    FORGOTTEN = "Empty"
    UNTOLD = "untold"


class EndMarks:
    """The end marks of one transactional id; one thread at a time calls it.

    Args:
        cluster: Where.
        transactional_id: Whose.
    """

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._coordinator: BrokerConnection | None = None
        self._is_mute = False
        self._owner: tuple[int, int] | None = None

    def watch(self, topic: str | None) -> bool:
        """Connect to the coordinator, before a commit; return whether its login is one that can be done.

        Raises:
            KafkaException: If it cannot be reached.
        """
        if self._coordinator is not None:
            with suppress(confluent_kafka().KafkaException):  # it may have ended a connection that was idle
                self._state()
                return True
        if not self._connect(topic):
            return False
        self._state()
        return True

    def is_lost(self) -> bool:
        """Return whether the coordinator has ended the connection, as one that was killed does."""
        return self._coordinator is not None and self._coordinator.has_ended()

    def wait(self) -> None:
        """Wait until the coordinator that was watched has written the marks of a commit.

        Raises:
            KafkaException: If it has not lived so long, or not in time.
        """
        self._until_ended()

    def outcome(self, topic: str | None = None) -> Outcome:
        """Return what became of the last transaction; waits until one that is being ended has ended.

        Args:
            topic: Any; it takes less to ask brokers for one than for all.

        Raises:
            KafkaException: If that cannot be said at present.
        """
        if not self.watch(topic):
            return Outcome.UNTOLD
        state = self._until_ended()
        known = {each.value: each for each in Outcome}
        return known.get(state, Outcome.FORGOTTEN)

    def ends(self, topics: Iterable[str], *, committed: bool) -> Offsets:
        """Return where partitions end, or where the first transaction in them that is open begins.

        Raises:
            KafkaException: If that cannot be said at present.
        """
        partitions = [
            KafkaTopicPartition(topic, number)
            for topic, numbers in self._partitions(topics).items()
            for number in numbers
        ]
        lookup = OffsetLookup(self._cluster, None, "read_committed" if committed else "read_uncommitted")
        futures = lookup.request_ends(partitions)
        return {each: offset_in(future) for each, future in futures.items()}

    def wait_behind(self, ends: Offsets, seconds: float = _ENDING_S) -> bool:
        """Wait until no transaction is open in front of some offsets; return whether that came to be.

        Raises:
            KafkaException: If that cannot be said at present.
        """
        clock = SystemClock()
        deadline = clock.monotonic() + seconds
        while True:
            now = self.ends({each.topic for each in ends}, committed=True)
            if all(now.get(each, 0) >= end for each, end in ends.items()):
                return True
            if clock.monotonic() > deadline:
                return False
            clock.wait(_PAUSE_S)

    def are_there(self, topics: Iterable[str]) -> bool:
        """Return whether no transaction, whosever, is open in topics.

        Raises:
            KafkaException: If that cannot be said at present.
        """
        return self.wait_behind(self.ends(topics, committed=False), _OTHERS_S)

    def write(self, topics: Iterable[str], group: str, *, commits: bool) -> None:
        """Write the marks of the last transaction, in all partitions of topics and for the offsets of a group.

        Other producers with the transactional id are fenced.

        Args:
            topics: Where it wrote.
            group: Whose offset is its marker.
            commits: Whether it was committed.

        Raises:
            KafkaException: If that cannot be at present: to be repeated.
        """
        partitions = self._partitions(topics)
        if not self._connect(next(iter(partitions))):
            raise not_ended()
        log.warning(
            "some transaction is open where %r wrote to; the marks of its last one are written", self._id
        )
        timeout_ms = int(self._cluster.properties.get("transaction.timeout.ms", _TIMEOUT_MS))
        if self._owner is None:
            if commits and self._state() == Outcome.OPEN.value:
                raise _error("PRODUCER_FENCED")  # somebody else goes on with it
            self._owner = self._ask(lambda broker: broker.begin(self._id, timeout_ms))
        owner = self._owner
        # A try that is repeated goes on with the same epoch: to begin anew would abort what this adds to.
        self._ask(lambda broker: broker.add(self._id, owner, partitions, group))
        self._ask(lambda broker: broker.end(self._id, owner, commits=commits))
        self._until_ended()
        self._owner = None

    def pass_on(self) -> None:
        """Take note that another producer has the transactional id now."""
        self._owner = None

    def close(self) -> None:
        """Let go of the coordinator."""
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def _partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        found = {}
        for topic in topics:
            about = self._cluster.admin.list_topics(topic, timeout=_ANSWER_S).topics[topic]
            if about.error is not None:
                raise confluent_kafka().KafkaException(about.error)
            found[topic] = sorted(about.partitions)
        return found

    def _until_ended(self) -> str:
        clock = SystemClock()
        deadline = clock.monotonic() + _ENDING_S
        while (state := self._state()) in _ENDING:
            if clock.monotonic() > deadline:
                raise not_ended()
            clock.wait(_PAUSE_S)
        return state

    def _state(self) -> str:
        return self._ask(lambda broker: broker.state(self._id))

    def _ask(self, question: Callable[[BrokerConnection], Result]) -> Result:
        """Ask the coordinator; one that does not answer is let go of.

        Raises:
            KafkaException: If it does not answer, or refuses.
        """
        if self._coordinator is None:
            raise _error("_TRANSPORT")
        try:
            return question(self._coordinator)
        except OSError as error:
            self.close()
            raise _error("_TRANSPORT", error) from error
        except confluent_kafka().KafkaException:
            self.close()
            raise

    def _connect(self, topic: str | None) -> bool:
        """Connect to the coordinator; return False if its login cannot be done here.

        Raises:
            KafkaException: If it cannot be reached.
        """
        if self._is_mute:
            return False
        self.close()
        names = () if topic is None else (topic,)
        brokers = self._cluster.admin.list_topics(*names, timeout=_ANSWER_S).brokers.values()
        properties = self._cluster.properties
        failure: OSError | None = None
        for broker in brokers:
            try:
                with closing(BrokerConnection(broker.host, broker.port, properties)) as connection:
                    place = connection.coordinator(self._id)
                self._coordinator = BrokerConnection(*place, properties)
                return True
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:  # it went away
                failure = error
            except (NotSupportedError, SinkError, ssl.SSLError) as error:
                self._is_mute = True
                log.info("the coordinator of transactions cannot be asked: %s", error)
                return False
            except OSError as error:
                failure = error
        raise _error("_TRANSPORT", failure)


def _error(name: str, cause: Exception | None = None) -> Exception:
    """Return an error as the client library raises it."""
    kafka = confluent_kafka()
    error: Exception = kafka.KafkaException(
        kafka.KafkaError(getattr(kafka.KafkaError, name), str(cause or ""))
    )
    return error


def not_ended() -> Exception:
    """Return what is raised where a transaction should have ended and has not."""
    return _error("CONCURRENT_TRANSACTIONS")
