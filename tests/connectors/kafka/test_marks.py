"""Marks that end transactions: whether they are there, and how those are written that a killed broker lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from connectors.kafka.committed import CommittedReader
from connectors.kafka.test_sink_trouble import Bench
from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import SinkError
from millstream.connectors.kafka import sink
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.marks import EndMarks, Outcome
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.staging import WaitingMessages
from servers.kafka import KafkaServer

NewTopic = Callable[..., str]

_ATTEMPTS = 5


@pytest.fixture
def marks(kafka: KafkaServer, new_topic: NewTopic) -> Iterator[tuple[str, EndMarks]]:
    """A topic, and the marks of the transactional id of the same name."""
    topic = new_topic(2)
    with closing(EndMarks(Cluster({"bootstrap.servers": kafka.bootstrap}, SinkError), topic)) as made:
        yield topic, made


def begun(kafka: KafkaServer, topic: str, value: str) -> Any:
    """Return a producer with an open transaction in the first partition of a topic."""
    producer = kafka.producer({"transactional.id": topic, "retry.backoff.ms": "10"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    producer.flush(30)
    return producer


def test_what_became_of_a_transaction_is_told(kafka: KafkaServer, marks: tuple[str, EndMarks]) -> None:
    topic, mine = marks
    assert mine.outcome(topic) is Outcome.FORGOTTEN
    producer = begun(kafka, topic, "a")
    assert mine.outcome(topic) is Outcome.OPEN
    assert not mine.are_there([topic])
    producer.commit_transaction(30)
    mine.wait()
    assert mine.outcome() is Outcome.COMMITTED
    assert mine.are_there([topic])
    producer.begin_transaction()
    producer.produce(topic, "b", partition=1)
    producer.flush(30)
    producer.abort_transaction(30)
    assert mine.outcome(topic) is Outcome.ABORTED
    ends = mine.ends([topic], committed=True)
    assert ends == {KafkaTopicPartition(topic, 0): 2, KafkaTopicPartition(topic, 1): 2}  # with a mark each


def test_marks_that_are_written_again_change_nothing(kafka: KafkaServer, marks: tuple[str, EndMarks]) -> None:
    topic, mine = marks
    begun(kafka, topic, "a").commit_transaction(30)
    for commits in (True, False, True):
        assert mine.outcome(topic) in (Outcome.COMMITTED, Outcome.ABORTED)
        mine.write([topic], f"group-of-{topic}", commits=commits)
    assert [message.value() for message in kafka.messages(topic)] == [b"a"]


def test_a_transaction_that_goes_on_is_left_alone(kafka: KafkaServer, marks: tuple[str, EndMarks]) -> None:
    topic, mine = marks
    producer = begun(kafka, topic, "a")
    mine.watch(topic)
    with pytest.raises(KafkaException, match="PRODUCER_FENCED"):
        mine.write([topic], f"group-of-{topic}", commits=True)
    producer.commit_transaction(30)
    assert [message.value() for message in kafka.messages(topic)] == [b"a"]


@pytest.fixture
def bench(kafka: KafkaServer, new_topic: NewTopic, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(kafka, new_topic(), tmp_path)
    yield made
    for committer in made.committers:
        committer.close()


def test_transactions_of_others_do_not_hold_a_commit_up(kafka: KafkaServer, bench: Bench) -> None:
    other = kafka.producer({"transactional.id": f"other-{bench.topic}"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(bench.topic, "other", partition=0)
    other.flush(30)
    committer = bench.committer()
    committer.commit(bench.stage("a", checkpoint=1))
    committer.commit(bench.stage("b", checkpoint=2))
    assert kafka.messages(bench.topic) == []
    other.commit_transaction(30)
    while len(kafka.messages(bench.topic)) < 3:
        pass
    assert [message.value() for message in kafka.messages(bench.topic)] == [b"other", b"a", b"b"]


def test_without_a_login_for_it_the_end_is_seen_in_the_partitions(
    kafka: KafkaServer, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EndMarks, "_connect", lambda self, topic: False)
    other = kafka.producer({"transactional.id": f"other-{bench.topic}"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(bench.topic, "other", partition=0)
    other.flush(30)
    ended = threading.Timer(1, other.abort_transaction, [30])
    ended.start()
    began = time.monotonic()
    committer = bench.committer()
    committer.commit(bench.stage("a", checkpoint=1))
    assert time.monotonic() - began > 0.5
    committer.commit(bench.stage("b", checkpoint=2))
    assert [message.value() for message in kafka.messages(bench.topic)] == [b"a", b"b"]
    ended.join()


class Dead(BaseException):
    """Ends the driver of a commit."""


class KillBroker:
    """Kills the broker once, as soon as it has acknowledged a commit; perhaps the driver with it."""

    def __init__(self, kafka: KafkaServer, pause_s: float, *, driver_too: bool) -> None:
        self.killed = threading.Event()
        self._kafka = kafka
        self._pause_s = pause_s
        self._driver_too = driver_too

    def reach(self, name: str, detail: str) -> None:
        if detail.endswith(", acknowledged") and not self.killed.is_set():
            time.sleep(self._pause_s)
            self._kafka.stop()
            self.killed.set()
            if self._driver_too:
                raise Dead

    def around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        return action()


def commit_as_jobs_do(bench: Bench, staged: list[WaitingMessages]) -> None:
    """Commit; if driver or commit fail, begin anew as a job does, in what might be another process."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            bench.committers[-1].close()
            sink._ended.clear()
        try:
            if attempt:
                bench.sink.check()
                bench.committer().recover(staged)
            else:
                bench.committers[-1].commit(staged)
        except Dead:
            continue
        except SinkError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return


def commit_with_a_kill(kafka: KafkaServer, bench: Bench, pause_s: float, *, driver_too: bool) -> None:
    """Commit three checkpoints; the broker is killed behind the second one and comes back.

    Raises:
        SinkError: If the job could not go on.
    """
    bench.sink.check()
    bench.committer()
    staged = [bench.stage(*map(str, range(10 * each, 10 * each + 10)), checkpoint=each) for each in range(3)]
    commit_as_jobs_do(bench, staged[0])
    hook = KillBroker(kafka, pause_s, driver_too=driver_too)
    set_crash_hook(hook)
    try:
        with ThreadPoolExecutor(1) as pool:
            committed = pool.submit(lambda: [commit_as_jobs_do(bench, each) for each in staged[1:]])
            assert hook.killed.wait(30)
            kafka.start()  # by this thread: the server ends with the one that started it
            committed.result()
    finally:
        set_crash_hook(None)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(6))
def test_a_broker_that_is_killed_when_it_has_acknowledged_loses_nothing(
    kafka: KafkaServer, new_topic: NewTopic, tmp_path: Path, seed: int
) -> None:
    """Every third such kill costs a mark, of the messages or of the marker."""
    chance = random.Random(seed)
    topic = new_topic(3)
    bench = Bench(kafka, topic, tmp_path)
    commit_with_a_kill(kafka, bench, chance.choice([0, 0, 0.0005, 0.001]), driver_too=seed % 2 == 1)
    reader = CommittedReader(kafka, topic, 3)
    assert sorted(map(int, reader.values())) == list(range(30))
    assert bench.files() == []
    reader.close()
    for committer in bench.committers:
        committer.close()
