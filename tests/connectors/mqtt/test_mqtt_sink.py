"""Topics of MQTT as a sink, a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.base.errors import NotSupportedError, SinkError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.mqtt import DeliveryGuarantee, MqttSink, MqttSinkBuilder, Patience
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import SinkTarget, check_sink
from servers.mqtt import MqttServer

SHORT = Patience(total_s=0.3)


def builder(server: MqttServer, topic: str) -> MqttSinkBuilder:
    new = MqttSink.builder().set_broker(server.url).set_topic(topic)
    return new.set_value_serialization_schema(SimpleStringSchema()).set_patience(SHORT)


def write(sink: MqttSink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=False)
    finally:
        writer.close()


@pytest.mark.long
def test_sink_keeps_the_contract(mqtt):
    clients = []

    def new_target() -> SinkTarget:
        topic = mqtt.new_topic()
        client = mqtt.connect()
        clients.append(client)
        client.subscribe(topic)

        def read() -> list[str]:
            mqtt.publish(topic, ["end"])  # behind what was published before
            client.wait(lambda: client.messages and client.messages[-1].payload == b"end")
            client.messages.pop()
            return [message.payload.decode() for message in client.messages]

        return SinkTarget(builder(mqtt, topic).build(), read)

    check_sink(new_target, parallelisms=((2, 1),))
    for client in clients:
        client.close()


@pytest.mark.parametrize("qos", [0, 1, pytest.param(2, marks=pytest.mark.long)])
def test_many_messages_stay_in_order(mqtt, qos):
    topic = mqtt.new_topic()
    client = mqtt.connect()
    client.subscribe(topic)
    write(builder(mqtt, topic).set_qos(qos).build(), *range(2_500), "x" * 900_000)

    assert client.texts(2_501) == [*map(str, range(2_500)), "x" * 900_000]
    client.close()


def test_topic_retained_and_properties_by_record(mqtt):
    plant = mqtt.new_topic()
    sink = (
        builder(mqtt, "x")
        .set_topic(lambda value: f"{plant}/{value[0]}")
        .set_retained(lambda value: value == "tea")
        .set_user_properties(lambda value: {"length": str(len(value))})
    )
    write(sink.build(), "tea", "milk")
    client = mqtt.connect()
    client.subscribe(f"{plant}/#")

    assert client.texts(1) == ["tea"]
    assert client.messages[0].topic == f"{plant}/t"
    assert client.messages[0].properties.UserProperty == [("length", "3")]
    client.close()


def test_broker_is_restarted_in_the_middle(mqtt):
    topic = mqtt.new_topic()
    sink = builder(mqtt, topic).set_retained().set_patience(Patience(total_s=30)).build()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    for value in ("a", "b"):
        writer.write(Rows([value]), watermark_ms=0, now_ms=0)
        if value == "b":
            mqtt.stop()
            mqtt.start()
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    writer.close()
    client = mqtt.connect()
    client.subscribe(topic)

    assert client.texts(1) == ["b"]
    client.close()


def test_exactly_once_is_refused(mqtt):
    with pytest.raises(NotSupportedError, match="not exactly once"):
        builder(mqtt, "t").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


class TestTrouble:
    def test_broker_that_is_down_is_named_without_its_password(self, mqtt, caplog):
        sink = builder(mqtt, "t").set_broker("mqtt://me:secret-word@127.0.0.1:1").build()
        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()

        assert "secret-word" not in str(failed.value) + repr(sink) + caplog.text
        assert len([each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]) == 1

    def test_wrong_password(self, mqtt):
        sink = builder(mqtt, "t").set_broker(mqtt.login_url("me:false-word")).build()
        with pytest.raises(SinkError, match="Check user and password") as failed:
            sink.check()
        assert "false-word" not in str(failed.value)

    def test_topic_without_right(self, mqtt):
        builder(mqtt, "forbidden").set_broker(mqtt.login_url()).build().check()
        with pytest.raises(SinkError, match='(?s)publishing to "forbidden": Not authorized.*rights'):
            write(builder(mqtt, "forbidden").set_broker(mqtt.login_url()).build(), "a")

    def test_topic_of_a_record_that_is_none(self, mqtt):
        with pytest.raises(SinkError, match="nothing can be published to the MQTT topic 'a/#'"):
            write(builder(mqtt, "x").set_topic(lambda value: value).build(), "a/#")

    def test_broker_that_answers_nothing_in_the_middle(self, mqtt, monkeypatch):
        monkeypatch.setattr("millstream.connectors.mqtt.session._ANSWER_S", 0.3)
        writer = builder(mqtt, mqtt.new_topic()).build().build_writer(WriterContext("job", "sink", 0, 1, 0))
        writer.write(Rows(["a"]), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        mqtt.pause()
        writer.write(Rows(["b"]), watermark_ms=0, now_ms=0)
        with pytest.raises(SinkError, match="no answer within"):
            writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        mqtt.go_on()
        writer.close()
