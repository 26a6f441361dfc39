"""RabbitMQ as a sink, a real broker."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from millstream.base.errors import SinkError
from millstream.common.serialization import SimpleStringSchema
from millstream.connectors.patience import Patience
from millstream.datastream.connectors.rabbitmq import (
    RMQConnectionConfig,
    RMQSink,
    RMQSinkPublishOptions,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import SinkTarget, check_sink
from servers.rabbitmq import RabbitServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=40)
NAMES = itertools.count()


def config(server: RabbitServer, **settings: Any) -> RMQConnectionConfig:
    builder = RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(server.port)
    builder.set_virtual_host("/").set_user_name("guest").set_password("guest")
    for name, value in settings.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


def new_queue() -> str:
    return f"queue-{uuid.uuid4().hex[:12]}"


def write(sink: RMQSink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=False)
    finally:
        writer.close()


@pytest.mark.slow
def test_sink_keeps_the_contract(rabbit):
    connection = rabbit.connect()
    channel = connection.channel()

    def new_target() -> SinkTarget:
        queue, seen = new_queue(), []

        def read() -> list[str]:
            if not seen:
                channel.queue_declare(queue, durable=True)
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                seen.append(got[2].decode())
            return seen

        return SinkTarget(RMQSink(config(rabbit), queue, SimpleStringSchema()), read)

    check_sink(new_target, parallelisms=((2, 1),))
    connection.close()


def test_messages_are_there_in_order_and_outlive_the_broker(rabbit):
    queue = new_queue()
    write(RMQSink(config(rabbit), queue, SimpleStringSchema()), *range(3_000))
    rabbit.stop()
    rabbit.start()

    assert rabbit.take(queue) == [b"%d" % number for number in range(3_000)]


def test_broker_is_restarted_in_the_middle(rabbit):
    queue = new_queue()
    sink = RMQSink(config(rabbit), queue, SimpleStringSchema(), patience=LONG)
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    for value in ("a", "b"):
        writer.write(Rows([value]), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        if value == "a":
            rabbit.stop()
            rabbit.start()
    writer.close()

    assert rabbit.take(queue) == [b"a", b"b"]


class ByLength(RMQSinkPublishOptions):
    def compute_routing_key(self, value: Any) -> str:
        return f"length.{len(value)}"

    def compute_exchange(self, value: Any) -> str:
        return "words"

    def compute_properties(self, value: Any) -> dict[str, Any]:
        return {"correlation_id": value}


def test_exchange_routing_key_and_properties_by_record(rabbit):
    connection = rabbit.connect()
    channel = connection.channel()
    channel.exchange_declare("words", "topic")
    queue = new_queue()
    channel.queue_declare(queue)
    channel.queue_bind(queue, "words", "length.3")
    sink = RMQSink(config(rabbit), None, SimpleStringSchema(), publish_options=ByLength())
    write(sink, "abc")

    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (properties.correlation_id, body) == ("abc", b"abc")
    with pytest.raises(SinkError, match="no queue for a message.*length.4"):
        write(sink, "abcd")
    connection.close()


class TestTrouble:
    def test_broker_that_is_down_is_named_without_its_password(self, caplog):
        builder = RMQConnectionConfig.Builder().set_uri("amqp://me:secret-word@127.0.0.1:1/%2F")
        sink = RMQSink(builder.build(), "queue", SimpleStringSchema(), patience=SHORT)

        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        assert "secret-word" not in str(failed.value) + repr(builder.build()) + caplog.text
        assert len([each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]) == 1

    def test_wrong_password(self, rabbit):
        sink = RMQSink(config(rabbit, password="false-word"), "queue", SimpleStringSchema(), patience=LONG)

        with pytest.raises(SinkError, match="Check user and password") as failed:
            sink.check()
        assert "false-word" not in str(failed.value)

    def test_virtual_host_that_does_not_exist(self, rabbit):
        sink = RMQSink(config(rabbit, virtual_host="nowhere"), "queue", SimpleStringSchema(), patience=LONG)

        with pytest.raises(SinkError, match="name of the virtual host"):
            sink.check()

    def test_exchange_that_does_not_exist(self, rabbit):
        class Nowhere(ByLength):
            def compute_exchange(self, value: Any) -> str:
                return "nowhere"

        sink = RMQSink(config(rabbit), None, SimpleStringSchema(), publish_options=Nowhere(), patience=LONG)
        with pytest.raises(SinkError, match="names of queue and exchange"):
            write(sink, "a")

    def test_queue_that_is_removed_in_the_middle(self, rabbit):
        queue = new_queue()
        sink = RMQSink(config(rabbit), queue, SimpleStringSchema(), patience=LONG)
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
        writer.open()
        writer.write(Rows(["a"]), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        connection = rabbit.connect()
        connection.channel().queue_delete(queue)
        connection.close()
        writer.write(Rows(["b"]), watermark_ms=0, now_ms=0)

        with pytest.raises(SinkError, match="no queue for a message"):
            writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        writer.close()

    def test_queue_that_is_full_refuses_messages(self, rabbit):
        queue = new_queue()
        rabbit.publish(queue, "a", **{"x-max-length": 1, "x-overflow": "reject-publish"})

        with pytest.raises(SinkError, match="NackError"):
            write(RMQSink(config(rabbit), queue, SimpleStringSchema(), patience=SHORT), "b")

    def test_queue_of_another_kind_is_written_as_it_is(self, rabbit):
        queue = new_queue()
        rabbit.publish(queue, **{"x-queue-type": "quorum"})
        write(RMQSink(config(rabbit), queue, SimpleStringSchema()), "b")

        assert rabbit.take(queue) == [b"b"]
