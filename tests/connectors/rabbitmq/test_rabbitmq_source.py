"""A queue of RabbitMQ as a source, from a real broker."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest

from millstream.base.errors import (
    JobExecutionError,
    MalformedRecordError,
    MillstreamError,
    NotSupportedError,
    SourceError,
)
from millstream.common.serialization import SimpleStringSchema
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.datastream import OutputTag
from millstream.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from millstream.testing import FailurePoint, MiniCluster, check_source_function
from servers.rabbitmq import RabbitServer

SHORT = Patience(total_s=0.3)
IDLE = {"millstream.execution.stop-when-idle": "2 s"}


def config(server: RabbitServer, **settings: Any) -> RMQConnectionConfig:
    builder = RMQConnectionConfig.Builder().set_uri(f"amqp://guest:guest@127.0.0.1:{server.port}/%2F")
    for name, value in settings.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


def new_queue() -> str:
    return f"queue-{uuid.uuid4().hex[:12]}"


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def source(server: RabbitServer, queue: str, ids: bool = True, **more: Any) -> RMQSource:
    settings = more.pop("settings", {})
    return RMQSource(config(server, **settings), queue, ids, SimpleStringSchema(), **more)


def collect(function: RMQSource, **options: Any) -> list[Any]:
    with MiniCluster(parallelism=1, options={**IDLE, **options}) as cluster:
        return cluster.collect(cluster.environment().add_source(function))


def cause_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None and not isinstance(error, (SourceError, MalformedRecordError)):
        error = error.__cause__
    return error


@pytest.mark.long
def test_with_correlation_ids_every_message_comes_once_wherever_jobs_fail(rabbit):
    def build() -> RMQSource:
        queue = new_queue()
        rabbit.publish(queue, *texts(50), ids=True)
        return source(rabbit, queue)

    check_source_function(build, texts(50), idle="2 s")


def test_processed_messages_are_acknowledged_with_checkpoints(rabbit):
    queue = new_queue()
    rabbit.publish(queue, *texts(500), ids=True)

    # Fewer than there are may be without acknowledgement at a time.
    seen = collect(
        source(rabbit, queue, settings={"prefetch_count": 20}),
        **{"execution.checkpointing.interval": "20 ms"},
    )
    assert seen == texts(500)
    assert rabbit.count(queue) == 0


def test_without_checkpoints_messages_are_acknowledged_at_once(rabbit):
    queue = new_queue()
    rabbit.publish(queue, *texts(500))
    few_at_a_time = source(rabbit, queue, ids=False, settings={"prefetch_count": 20})

    assert collect(few_at_a_time, **{"execution.checkpointing.interval": None}) == texts(500)
    assert rabbit.count(queue) == 0


@pytest.mark.parametrize("point", [FailurePoint.BEFORE_CHECKPOINT, FailurePoint.AFTER_CHECKPOINT])
def test_without_ids_nothing_is_lost_when_a_job_fails(rabbit, point):
    queue = new_queue()
    rabbit.publish(queue, *texts(100))
    with MiniCluster(parallelism=1, options={**IDLE, "millstream.epoch.fixed-records": 10}) as cluster:
        cluster.fail_at(point, 3)
        found = cluster.collect(cluster.environment().add_source(source(rabbit, queue, ids=False)))

    assert set(found) == set(texts(100))


@pytest.mark.slow
def test_broker_is_killed_while_a_job_copies_a_queue(rabbit):
    first, second, count = new_queue(), new_queue(), 3_000
    rabbit.publish(first, *texts(count), ids=True)
    patience = Patience(total_s=60)
    options = {"millstream.epoch.fixed-records": 20, "execution.checkpointing.interval": "50 ms"}
    with MiniCluster(parallelism=1, options=options) as cluster:
        environment = cluster.environment()
        numbers = environment.add_source(source(rabbit, first, patience=patience))
        numbers.add_sink(RMQSink(config(rabbit), second, SimpleStringSchema(), patience=patience))
        job = environment.execute_async()
        time.sleep(0.7)
        rabbit.stop()
        rabbit.start()
        rabbit.publish(first, "last", ids=True)
        copied: set[bytes] = set()
        deadline = time.monotonic() + 60
        while b"last" not in copied and time.monotonic() < deadline:
            time.sleep(0.2)
            copied.update(rabbit.take(second))
        time.sleep(1)  # checkpoints go on, and what is processed is acknowledged
        job.cancel().result()
    copied.update(rabbit.take(second))

    assert copied == {body.encode() for body in [*texts(count), "last"]}
    assert rabbit.count(first) == 0


class TestMalformed:
    def test_it_fails_the_job_and_is_named(self, rabbit):
        queue = new_queue()
        rabbit.publish(queue, "a", b"\xff", "b", ids=True)

        with pytest.raises((JobExecutionError, MillstreamError)) as failed:
            collect(source(rabbit, queue), **{"restart-strategy.type": "none"})
        assert f"message of the RabbitMQ queue {queue}" in str(cause_of(failed.value))

    def test_it_is_skipped(self, rabbit):
        queue = new_queue()
        rabbit.publish(queue, "a", b"\xff", "b", ids=True)

        assert collect(source(rabbit, queue, malformed_policy=MalformedPolicy.skip())) == ["a", "b"]

    def test_it_is_rejected_to_a_dead_letter_exchange(self, rabbit):
        queue, dead = new_queue(), new_queue()
        rabbit.publish(dead)
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        rabbit.publish(queue, "a", b"\xff", "b", b"\xfe", ids=True, **dead_letters)

        assert collect(source(rabbit, queue, reject_malformed=True)) == ["a", "b"]
        assert rabbit.take(dead) == [b"\xff", b"\xfe"]
        assert rabbit.count(queue) == 0

    def test_side_output_is_refused(self, rabbit):
        with pytest.raises(NotSupportedError, match="x-dead-letter-exchange"):
            source(rabbit, "q", malformed_policy=MalformedPolicy.dead_letters(OutputTag("dead")))


class TestTrouble:
    def failing(self, function: RMQSource) -> BaseException:
        with pytest.raises((JobExecutionError, MillstreamError)) as failed:
            collect(function, **{"restart-strategy.type": "none"})
        return cause_of(failed.value)

    def test_broker_that_is_down(self):
        builder = RMQConnectionConfig.Builder().set_uri("amqp://me:secret-word@127.0.0.1:1/%2F")
        error = self.failing(RMQSource(builder.build(), "q", False, SimpleStringSchema(), patience=SHORT))

        assert "127.0.0.1:1" in str(error) and "Check that the broker runs" in str(error)
        assert "secret-word" not in str(error)

    def test_wrong_password(self, rabbit):
        uri = f"amqp://guest:false-word@127.0.0.1:{rabbit.port}/%2F"
        builder = RMQConnectionConfig.Builder().set_uri(uri)
        error = self.failing(RMQSource(builder.build(), "q", False, SimpleStringSchema()))

        assert "Check user and password" in str(error) and "false-word" not in str(error)

    def test_message_without_correlation_id(self, rabbit):
        queue = new_queue()
        rabbit.publish(queue, "a")

        assert "has no correlation id" in str(self.failing(source(rabbit, queue)))

    def test_queue_that_does_not_exist_is_declared(self, rabbit):
        queue = new_queue()

        assert collect(source(rabbit, queue)) == []
        assert rabbit.count(queue) == 0

    def test_queue_that_is_removed(self, rabbit):
        queue = new_queue()
        rabbit.publish(queue, "a", ids=True)

        def remove() -> None:
            connection = rabbit.connect()
            connection.channel().queue_delete(queue)
            connection.close()

        timer = threading.Timer(0.6, remove)
        timer.start()
        error = self.failing(source(rabbit, queue))
        timer.join()
        assert "was removed while it was read" in str(error)
