"""The Kafka sink in trouble: killed in the middle of a commit, brokers that go away, others with the same prefix."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.committed import CommittedReader
from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import ConfigurationError, LostOutputError, SinkError
from millstream.common import SimpleStringSchema
from millstream.connectors.kafka.staging import WaitingMessages
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, WriterContext
from millstream.testing import FailurePoint, MiniCluster
from servers.kafka import KafkaServer

NewTopic = Callable[..., str]


class Killed(BaseException):
    """Ends a commit where a kill would."""


class KillAt:
    """Kills a commit at a place."""

    def __init__(self, where: str) -> None:
        self._where = where

    def reach(self, name: str, detail: str) -> None:
        if detail.endswith(f", {self._where}"):
            raise Killed

    def around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        return action()


class Bench:
    """An exactly-once sink whose steps the test performs."""

    def __init__(self, kafka: KafkaServer, topic: str, directory: Path, **properties: str) -> None:
        schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
        schema.set_value_serialization_schema(SimpleStringSchema())
        self.topic = topic
        self.directory = directory
        self.sink = (
            KafkaSink.builder()
            .set_bootstrap_servers(kafka.bootstrap)
            .set_record_serializer(schema.build())
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_transactional_id_prefix(topic)
            .set_staging_directory(str(directory))
            .set_properties(properties)
            .build()
        )
        self.committers: list[Committer] = []

    def stage(
        self,
        *values: str,
        checkpoint: int,
        subtask: int = 0,
        job: str = "job",
        attempt: int = 0,
        uid: str = "sink",
    ) -> list[WaitingMessages]:
        context = WriterContext(job, "sink", subtask, 2, attempt, operator_id=uid, began_ms=1)
        writer = self.sink.build_writer(context)
        writer.open()
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        staged = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        staged = writer.number_committables(staged, checkpoint)
        writer.close()
        return staged

    def committer(self) -> Committer:
        committer = self.sink.build_committer()
        assert committer is not None
        self.committers.append(committer)
        return committer

    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*.kafka"))


@pytest.fixture
def bench(kafka: KafkaServer, new_topic: NewTopic, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(kafka, new_topic(), tmp_path)
    yield made
    for committer in made.committers:
        committer.close()


@pytest.fixture
def committed(kafka: KafkaServer, bench: Bench) -> Iterator[Callable[[], list[str]]]:
    reader = CommittedReader(kafka, bench.topic, 1)
    yield reader.values
    reader.close()


@pytest.mark.parametrize("where", ["marked", "sent"])
def test_a_commit_that_is_killed_is_done_once_when_it_is_repeated(
    bench: Bench, committed: Callable[[], list[str]], where: str
) -> None:
    staged = bench.stage("a", "b", checkpoint=1)

    set_crash_hook(KillAt(where))
    try:
        with pytest.raises(Killed):
            bench.committer().commit(staged)
    finally:
        set_crash_hook(None)
    assert len(bench.files()) == 1
    bench.committers[0].close()
    bench.committer().recover(staged)
    bench.committer().recover(staged)
    assert committed() == ["a", "b"]
    assert bench.files() == []


def test_a_marker_says_that_it_was_done_though_the_note_is_lost(
    bench: Bench, committed: Callable[[], list[str]]
) -> None:
    staged = bench.stage("a", checkpoint=1)
    content = Path(staged[0].path).read_bytes()
    bench.committer().commit(staged)
    for note in bench.directory.glob("*.kafka-sent"):
        note.unlink()
    bench.committer().recover(staged)  # neither file nor note: the marker alone
    Path(staged[0].path).write_bytes(content)
    Path(staged[0].path).chmod(0o600)
    for note in bench.directory.glob("*.kafka-sent"):
        note.unlink()
    bench.committer().recover(staged)
    assert committed() == ["a"]


def test_a_file_that_is_gone_and_was_not_committed_is_told(bench: Bench) -> None:
    staged = bench.stage("a", checkpoint=1)
    Path(staged[0].path).unlink()
    with pytest.raises(LostOutputError, match="were never committed"):
        bench.committer().recover(staged)


def test_a_zombie_is_fenced_and_changes_nothing(bench: Bench, committed: Callable[[], list[str]]) -> None:
    zombie, follower = bench.committer(), bench.committer()
    zombie.commit(bench.stage("1", checkpoint=1))
    pending = bench.stage("2", checkpoint=2)
    follower.recover(pending)
    Path(pending[0].path).touch(0o600)  # as if the zombie had read it before
    zombie.commit(pending)
    assert committed() == ["1", "2"]
    with pytest.raises(SinkError, match="taken over by another producer"):
        zombie.commit(bench.stage("x", checkpoint=3))
    follower.commit(bench.stage("3", checkpoint=3, attempt=1))
    assert committed() == ["1", "2", "3"]


def test_a_transaction_of_a_dead_run_is_aborted_at_the_start(
    kafka: KafkaServer, bench: Bench, committed: Callable[[], list[str]]
) -> None:
    dead = kafka.producer({"transactional.id": f"{bench.topic}-2"})
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(bench.topic, b"never")
    dead.flush(10)
    kafka.produce(bench.topic, ["behind it"])
    assert committed() == []
    bench.sink.check()
    deadline = time.monotonic() + 10
    while not committed() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert committed() == ["behind it"]


def test_a_timeout_above_the_brokers_maximum_is_told_before_the_job_starts(
    kafka: KafkaServer, new_topic: NewTopic, tmp_path: Path
) -> None:
    bench = Bench(kafka, new_topic(), tmp_path, **{"transaction.timeout.ms": "3600000"})
    with pytest.raises(ConfigurationError, match="3,600,000 ms") as raised:
        bench.sink.check()
    assert "900,000 ms (transaction.max.timeout.ms)" in str(raised.value)


def test_two_sinks_of_a_job_with_one_prefix_are_told(bench: Bench) -> None:
    bench.committer().commit(bench.stage("a", checkpoint=1))
    with pytest.raises(ConfigurationError, match="two sinks have the transactional id prefix"):
        bench.committer().commit(bench.stage("b", checkpoint=1, uid="other"))


def test_a_job_whose_prefix_another_job_took_is_told(
    bench: Bench, committed: Callable[[], list[str]]
) -> None:
    first, second = bench.committer(), bench.committer()
    first.commit(bench.stage("a", checkpoint=1, job="one"))
    second.commit(bench.stage("b", checkpoint=1, job="two"))
    with pytest.raises(SinkError, match="taken over by another producer") as raised:
        first.commit(bench.stage("c", checkpoint=2, job="one"))
    assert "give each its own" in str(raised.value)
    first.close()
    with pytest.raises(SinkError, match="belongs to another job by now"):
        bench.committer().commit(bench.stage("c", checkpoint=2, job="one"))
    second.commit(bench.stage("d", checkpoint=2, job="two"))
    assert committed() == ["a", "b", "d"]


def test_subtasks_commit_side_by_side(bench: Bench, committed: Callable[[], list[str]]) -> None:
    bench.sink.check()
    staged = [
        each for subtask in range(8) for each in bench.stage(f"{subtask}", checkpoint=1, subtask=subtask)
    ]
    bench.committer().commit(staged)
    assert sorted(committed()) == [str(subtask) for subtask in range(8)]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_broker_that_is_killed_and_comes_back_costs_nothing(
    kafka: KafkaServer, new_topic: NewTopic, guarantee: DeliveryGuarantee
) -> None:
    topic = new_topic()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    schema.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap).set_record_serializer(schema.build())
    sink.set_delivery_guarantee(guarantee).set_transactional_id_prefix(topic)
    killed = threading.Event()

    def kill() -> None:
        kafka.stop()
        killed.set()

    with MiniCluster(options={"millstream.epoch.fixed-records": 10}) as cluster:
        cluster.do_after(55, kill)
        environment = cluster.environment()
        numbers = environment.from_collection([str(number) for number in range(200)]).map(cluster.tap())
        numbers.sink_to(sink.build())
        job = environment.execute_async()
        assert killed.wait(60)
        time.sleep(1)
        kafka.start()  # by this thread: the server ends with the one that started it
        job.get_job_execution_result().result()
    found = [message.value().decode() for message in kafka.messages(topic)]
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        found = list(dict.fromkeys(found))
    assert found == [str(number) for number in range(200)]


SOON = (FailurePoint.AFTER_CHECKPOINT, FailurePoint.AFTER_COMMIT)
LATER = [pytest.param(point, marks=pytest.mark.long) for point in FailurePoint if point not in SOON]


@pytest.mark.parametrize("point", [*SOON, *LATER])
def test_a_job_that_fails_anywhere_writes_each_record_once(
    kafka: KafkaServer, bench: Bench, committed: Callable[[], list[str]], point: FailurePoint
) -> None:
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 5}) as cluster:
        cluster.fail_at(point, 3)
        environment = cluster.environment()
        environment.from_collection([str(number) for number in range(60)]).rebalance().sink_to(bench.sink)
        environment.execute()
    assert sorted(map(int, committed())) == list(range(60))


def test_a_broker_that_is_away_at_the_start_is_told(
    kafka: KafkaServer, new_topic: NewTopic, tmp_path: Path
) -> None:
    from millstream.connectors.kafka.clients import Cluster
    from millstream.connectors.patience import Patience

    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1"}, SinkError, Patience(total_s=0.5))
    with pytest.raises(SinkError, match="no broker could be reached") as raised:
        cluster.reach("topic 'there' cannot be written")
    assert "127.0.0.1:1" in str(raised.value)
