"""Commits what waits, exactly once: one transaction for the messages and a marker that they are there.

The marker is an offset that the transaction commits for a group, `<prefix>-<job>-<sink>-<subtask>`: its number is the
checkpoint, its text says of which attempt. It is there if and only if the messages are. So a commit that is repeated,
by whatever driver, first looks for it::

    noted beside the file                 nothing to do
    marked                                its marks are there, or are written
    no producer of the lane yet           init_transactions: fences who has the same id, ends what it left open
    marked now                            nothing to do: the transaction was being committed
    else                                  begin ─ produce … ─ marker ─ commit ─ until its marks are there

A commit that is acknowledged is not final: `marks` tells why, and what is done about it.

Subtasks are dealt to a few lanes, each a producer with a transactional id of its own, `<prefix>-<lane>`. Lanes commit
side by side; in a lane, and so for a subtask, commits follow one another. Their number never changes: so the ids of a
dead run are known, and a job that starts ends whatever transaction it left.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

from millstream.base.clock import SystemClock, on_thread
from millstream.base.crash_points import reach
from millstream.base.errors import ConfigurationError, LostOutputError, SinkError
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.errors import error_of
from millstream.connectors.kafka.marks import EndMarks, Outcome, not_ended
from millstream.connectors.kafka.producing import Outlet
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.staging import WaitingMessages, read_messages, read_topics
from millstream.spi.sink import Committer

__all__ = ["LANES", "TransactionCommitter", "abort_leftovers", "end_transaction", "transactional_id"]

log = logging.getLogger(__name__)

LANES: Final = 4
_STEP_S = 5.0
_COMMIT_S = 10.0
_ASK_S = 5.0
_LOOK_S = 0.05
_MARKER = re.compile(r"(\d+) (\d+) (\d+) (\d+)")
_MOST_OWNERS = 20
_SETTINGS = {
    # Between two transactions librdkafka waits 100 ms by default for the first one to be over.
    "retry.backoff.ms": "10",
    # Where order is kept across retries it goes through all messages that wait whenever some come: with 100,000 in
    # the queue that costs ten times as much as all the rest.
    "queue.buffering.max.messages": "3000",
    "linger.ms": "100",  # they are sent when the queue is full
}
_FENCED = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})


def transactional_id(prefix: str, lane: int) -> str:
    """Return the transactional id of a lane."""
    return f"{prefix}-{lane}"


def _producer(cluster: Cluster, transactional_id: str, is_lost: Callable[[], bool] = lambda: False) -> Outlet:
    """Make the producer of a transactional id, and end what the last one with the id left open.

    Raises:
        KafkaException: If no broker answers.
    """
    settings = {
        name.replace(".", "_"): value for name, value in _SETTINGS.items() if name not in cluster.properties
    }
    outlet = Outlet(cluster, transactional_id=transactional_id, **settings)
    _bounded(outlet.producer.init_transactions, _COMMIT_S, is_lost=is_lost)
    return outlet


def end_transaction(cluster: Cluster, transactional_id: str) -> None:
    """Abort what a producer with an id left open; one that still has the id is fenced.

    Raises:
        KafkaException: If no broker answers.
    """
    _producer(cluster, transactional_id)


def _bounded(
    step: Callable[..., object],
    seconds: float,
    *arguments: Any,
    is_lost: Callable[[], bool] = lambda: False,
) -> None:
    """Perform a step of a transaction; where the broker went away librdkafka does not keep to its own timeout.

    A step that comes to its end later does no harm: the next producer with the same id has fenced this one.

    Args:
        step: A method of the producer, whose last argument is the time it may take.
        seconds: That time.
        arguments: The others.
        is_lost: Whether the coordinator has gone that was there, also before: a producer that had to do with it goes
            on waiting for it, though it is back.

    Raises:
        KafkaException: If it failed, or took too long.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + seconds + 1
    if is_lost():
        raise _failure("_TRANSPORT")
    done = on_thread(lambda: step(*arguments, seconds))
    while True:
        try:
            done.result(_LOOK_S)
            return
        except TimeoutError:
            if done.done():  # the step's own
                raise
        if is_lost():
            raise _failure("_TRANSPORT")
        if clock.monotonic() > deadline:
            raise _failure("_TIMED_OUT")


def _failure(name: str) -> Exception:
    kafka = confluent_kafka()
    error: Exception = kafka.KafkaException(kafka.KafkaError(getattr(kafka.KafkaError, name)))
    return error


def abort_leftovers(cluster: Cluster, prefix: str) -> None:
    """End what is left open of transactions with a prefix; who still has one of their ids is fenced.

    Raises:
        SinkError: If no broker answers, or the transaction timeout is larger than they allow.
    """

    def end(lane: int) -> None:
        name = transactional_id(prefix, lane)
        cluster.call(lambda: _end_leftover(cluster, name), f"transactions of {prefix!r} cannot be begun")

    with ThreadPoolExecutor(LANES, thread_name_prefix="kafka-sink") as pool:
        list(pool.map(end, range(LANES)))


def _end_leftover(cluster: Cluster, name: str) -> None:
    """End a transaction unless it is ended: what became of that would be forgotten, and a commit may ask for it."""
    marks = EndMarks(cluster, name)
    try:
        is_ended = marks.outcome() in (Outcome.COMMITTED, Outcome.ABORTED)
    finally:
        marks.close()
    if not is_ended:
        end_transaction(cluster, name)


class TransactionCommitter(Committer):
    """Commits on the driver."""

    _open: ClassVar[WeakValueDictionary[tuple[str, str], TransactionCommitter]] = WeakValueDictionary()
    _open_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, properties: KafkaProperties, prefix: str) -> None:
        self._cluster = Cluster(properties, SinkError)
        self._prefix = prefix
        self._lanes: list[_Lane] = []
        self._pool: ThreadPoolExecutor | None = None
        self._sink: str | None = None
        self._owned = False

    def commit(self, committables: Sequence[Any]) -> None:
        """Commit what this attempt has staged."""
        if committables:
            self._own(committables[0])
        self._publish(committables)

    def recover(self, committables: Sequence[Any]) -> None:
        """Commit what an earlier attempt, or another job, left in its checkpoint, unless it is committed."""
        self._publish(committables)

    def _publish(self, committables: Sequence[WaitingMessages]) -> None:
        """Commit in the order of checkpoints, lanes side by side."""
        if not committables:
            return
        self._start(committables[0].sink)
        by_lane: dict[int, list[WaitingMessages]] = {}
        for each in sorted(committables, key=lambda each: (each.order, each.subtask_index)):
            by_lane.setdefault(each.subtask_index % LANES, []).append(each)
        if len(by_lane) == 1:
            for lane, waiting in by_lane.items():
                self._lanes[lane].publish(waiting)
            return
        assert self._pool is not None
        futures = [
            self._pool.submit(copy_context().run, self._lanes[lane].publish, waiting)
            for lane, waiting in by_lane.items()
        ]
        failures = [error for future in futures if (error := future.exception()) is not None]
        if failures:
            raise failures[0]

    def _start(self, sink: str) -> None:
        if self._lanes:
            return
        place = (self._cluster.properties["bootstrap.servers"], self._prefix)
        with self._open_lock:
            other = self._open.get(place)
            if other is not None and other._sink != sink:
                raise ConfigurationError(
                    f"two sinks have the transactional id prefix {self._prefix!r}",
                    detail="They would take each other's transactions over.",
                    hint="Give each sink its own: set_transactional_id_prefix(...).",
                )
            self._open[place] = self
        self._sink = sink
        self._lanes = [_Lane(self._cluster, self._prefix, number) for number in range(LANES)]
        self._pool = ThreadPoolExecutor(LANES, thread_name_prefix="kafka-sink")

    def _own(self, first: WaitingMessages) -> None:
        """See that no other job has the prefix by now; say that this one does.

        Raises:
            SinkError: If another job took it over from this one.
        """
        if self._owned:
            return
        owners = _Owners(self._cluster, self._prefix, first.topic)
        earlier = owners.read()
        if first.job_id in earlier and earlier[-1] != first.job_id:
            raise SinkError(
                f"transactional id prefix {self._prefix!r} belongs to another job by now",
                detail=f"Job {earlier[-1]} took it over from this one, {first.job_id}: one that went on from a "
                "savepoint, or one that was given the same prefix.",
                hint="Give each job its own: set_transactional_id_prefix(...).",
            )
        if first.job_id not in earlier:
            owners.write([*earlier, first.job_id])
        self._owned = True

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove what waits."""
        for waiting in committables:
            waiting.remove()

    def close(self) -> None:
        """Let go of the lanes."""
        if self._pool is not None:
            self._pool.shutdown()
        with self._open_lock:
            for place, committer in list(self._open.items()):
                if committer is self:
                    del self._open[place]
        for lane in self._lanes:
            lane.drop()
        self._lanes = []
        self._cluster.close()


class _Lane:
    """One producer, and what it commits, one transaction after the other."""

    def __init__(self, cluster: Cluster, prefix: str, number: int) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._number = number
        self._outlet: Outlet | None = None
        self._groups: dict[str, Any] = {}
        self._marks = EndMarks(cluster, transactional_id(prefix, number))
        self._committed: tuple[str, bool] | None = None  # a file, and whether it was; None: it is not known

    def publish(self, committables: Sequence[WaitingMessages]) -> None:
        """Commit what waits and is not committed.

        Raises:
            SinkError: If it cannot be.
        """
        for waiting in committables:
            reach("sink.publish", waiting.path)
            if not self._is_noted(waiting):
                self._commit(waiting)
                reach("sink.publish", f"{waiting.path}, sent")
                if waiting.is_noted():  # a driver that took over was quicker, and may have noted later ones
                    waiting.remove()
                else:
                    waiting.note()

    def _is_noted(self, waiting: WaitingMessages) -> bool:
        if waiting.is_noted():
            waiting.remove()  # where power has failed it may be back
            return True
        if waiting.exists():
            return False
        marker = _Marker(self._cluster, self._prefix, waiting)
        if not self._cluster.call(marker.is_set, self._doing(waiting)):
            raise LostOutputError(
                f"messages of checkpoint {waiting.checkpoint_id}, subtask {waiting.subtask_index}, were never "
                f"committed, and their file {waiting.path!r} is gone",
                hint="Keep the directory for as long as checkpoints and savepoints that refer to it.",
            )
        return True

    def _doing(self, waiting: WaitingMessages) -> str:
        return (
            f"messages of checkpoint {waiting.checkpoint_id}, subtask {waiting.subtask_index}, could not be "
            f"committed to topic {waiting.topic!r}"
        )

    def _commit(self, waiting: WaitingMessages) -> None:
        marker = _Marker(self._cluster, self._prefix, waiting)
        try:
            self._cluster.call(lambda: self._try(waiting, marker), self._doing(waiting))
        except BaseException:
            self.drop()
            raise

    def _try(self, waiting: WaitingMessages, marker: _Marker) -> None:
        """Commit unless it is; the try behind one that failed has a new producer, which ends what that one left."""
        try:
            if self._marks.is_lost():
                self.drop()
            if self._outlet is None and self._is_committed(waiting, marker):
                return
            assert self._outlet is not None
            self._transact(self._outlet, waiting, marker)
        except Exception as error:
            self.drop()
            if (told := error_of(error)) is not None and told.name() in _FENCED:
                raise self._fenced(error, waiting) from None
            raise

    def _is_committed(self, waiting: WaitingMessages, marker: _Marker) -> bool:
        """Return whether messages were committed, then all of them; if not, there is a producer to do it.

        Nothing of former transactions is open behind it, of this one or of others.
        """
        # Asked first: when a producer has begun the brokers do not know any more.
        outcome = self._marks.outcome(waiting.topic)
        topics = read_topics(waiting.path)
        stands = marker.stands()
        # Looked at first: who comes too late must not fence who has taken over.
        if self._knows(waiting, stands, outcome) or marker.is_set(settled=False):
            self._committed = (waiting.path, True)
            if stands is None or not self._marks.are_there(topics):
                self._marks.write(topics, marker.group, commits=True)
            return True
        self._committed = (waiting.path, False)
        if outcome is not Outcome.UNTOLD and (stands is None or not self._marks.are_there(topics)):
            self._marks.write(topics, marker.group, commits=False)
        name = transactional_id(self._prefix, self._number)
        self._outlet = _producer(self._cluster, name, self._marks.is_lost)
        self._marks.pass_on()
        if not marker.is_set():
            return False
        self._committed = None  # by another driver, just now
        self.drop()
        return self._is_committed(waiting, marker)

    def _knows(self, waiting: WaitingMessages, stands: bool | None, outcome: Outcome) -> bool:
        """Return whether messages were committed, though the marker may not say so yet.

        Raises:
            SinkError: If nobody can tell.
        """
        if self._committed is not None and self._committed[0] == waiting.path:
            return self._committed[1]
        if stands is None and outcome is Outcome.FORGOTTEN:
            raise SinkError(
                f"{self._doing(waiting)}: it cannot be told whether they were",
                detail="Brokers were killed while they were committed, and again; the transaction's end is missing, "
                "and its coordinator knows of it no more.",
                hint="Look at the topic. If they are missing, give the sink another transactional id prefix.",
            )
        return stands is None and outcome is Outcome.COMMITTED

    def _transact(self, outlet: Outlet, waiting: WaitingMessages, marker: _Marker) -> None:
        producer = outlet.producer
        topics: dict[str, None] = {}
        producer.begin_transaction()
        for messages in read_messages(waiting.path):
            topics.update(dict.fromkeys(messages.topic_names()))
            outlet.send(messages)
        offsets, group = marker.offsets(), self._group(marker.group)
        outlet.flush()
        _bounded(producer.send_offsets_to_transaction, _STEP_S, offsets, group, is_lost=self._marks.is_lost)
        reach("sink.publish", f"{waiting.path}, marked")
        is_watched = self._marks.watch(waiting.topic)
        ends = {} if is_watched else self._marks.ends(topics, committed=False)
        self._committed = None
        _bounded(producer.commit_transaction, _COMMIT_S, is_lost=self._marks.is_lost)
        self._committed = (waiting.path, True)
        reach("sink.publish", f"{waiting.path}, acknowledged")
        if is_watched:
            self._marks.wait()
        elif not self._marks.wait_behind(ends):
            raise not_ended()

    def _fenced(self, error: Exception, waiting: WaitingMessages) -> SinkError:
        doing = f"{self._doing(waiting)} with the transactional id {transactional_id(self._prefix, self._number)!r}"
        fenced = self._cluster.explain(error, doing)
        assert isinstance(fenced, SinkError)
        return fenced

    def _group(self, name: str) -> Any:
        """Return what stands for a group in a transaction; only a consumer of the group can tell."""
        if name not in self._groups:
            consumer = self._cluster.consumer(group_id=name)
            self._groups[name] = consumer.consumer_group_metadata()
            consumer.close()
        return self._groups[name]

    def drop(self) -> None:
        """Let go of the producer; its transaction, if one is open, is ended by who next has its id."""
        if self._outlet is not None:
            self._outlet.drop()
            self._outlet = None
        self._marks.close()


class _Marker:
    """The offset that says that messages were committed."""

    def __init__(self, cluster: Cluster, prefix: str, waiting: WaitingMessages) -> None:
        self._cluster = cluster
        self._waiting = waiting
        self.group = f"{prefix}-{waiting.job_id}-{waiting.sink}-{waiting.subtask_index}"

    def is_set(self, *, settled: bool = True) -> bool:
        """Return whether these messages, or later ones, were committed.

        Args:
            settled: Whether to wait for a transaction that is being committed.

        Raises:
            KafkaException: If that cannot be said at present.
        """
        text = _read_text(self._cluster, self.group, self._waiting.topic, settled=settled)
        match = _MARKER.fullmatch(text)
        return match is not None and tuple(map(int, match.groups())) >= self._waiting.order

    def stands(self) -> bool | None:
        """Return `is_set`; None if its own transaction has not ended yet.

        Raises:
            KafkaException: If that cannot be said at present.
        """
        try:
            return self.is_set()
        except confluent_kafka().KafkaException as error:
            if (told := error_of(error)) is not None and told.name() == "UNSTABLE_OFFSET_COMMIT":
                return None
            raise

    def offsets(self) -> list[Any]:
        """Return what the transaction commits."""
        waiting = self._waiting
        text = " ".join(map(str, waiting.order))
        return [confluent_kafka().TopicPartition(waiting.topic, 0, waiting.checkpoint_id, metadata=text)]


class _Owners:
    """The jobs that had a prefix, oldest first: a text that goes with an offset of the group of that name."""

    def __init__(self, cluster: Cluster, prefix: str, topic: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._topic = topic
        self._doing = f"the jobs with the transactional id prefix {prefix!r} could not be looked at"

    def read(self) -> list[str]:
        return self._cluster.call(
            lambda: _read_text(self._cluster, self._prefix, self._topic, settled=False), self._doing
        ).split()

    def write(self, jobs: list[str]) -> None:
        kafka = confluent_kafka()
        text = " ".join(jobs[-_MOST_OWNERS:])
        request = kafka.ConsumerGroupTopicPartitions(
            self._prefix, [kafka.TopicPartition(self._topic, 0, len(jobs), metadata=text)]
        )

        def alter() -> None:
            answer = self._cluster.ask(
                lambda admin: admin.alter_consumer_group_offsets([request], request_timeout=_ASK_S)
            )
            for partition in answer[self._prefix].result().topic_partitions:
                if partition.error is not None:
                    raise kafka.KafkaException(partition.error)

        self._cluster.call(alter, self._doing)


def _read_text(cluster: Cluster, group: str, topic: str, *, settled: bool) -> str:
    """Return the text beside the offset that a group committed for the first partition of a topic."""
    kafka = confluent_kafka()
    request = kafka.ConsumerGroupTopicPartitions(group, [kafka.TopicPartition(topic, 0)])
    answer = cluster.ask(
        lambda admin: admin.list_consumer_group_offsets(
            [request], require_stable=settled, request_timeout=_ASK_S
        )
    )
    partition = answer[group].result().topic_partitions[0]
    if partition.error is not None:
        raise kafka.KafkaException(partition.error)
    return partition.metadata or ""
