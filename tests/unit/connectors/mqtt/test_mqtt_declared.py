"""What is declared of MQTT, without a broker: what is refused at once, what is shown, which messages are known."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common.serialization import SimpleStringSchema
from millstream.common.source_functions import ParallelSourceFunction
from millstream.common.time import Time
from millstream.connectors.mqtt.connection import MqttConnection
from millstream.connectors.mqtt.unacknowledged import Unacknowledged
from millstream.datastream import OutputTag
from millstream.datastream.connectors.mqtt import (
    MalformedPolicy,
    MqttSink,
    MqttSinkBuilder,
    MqttSource,
    MqttSourceBuilder,
)

SECRET = "mqtt://me:p%40ss%2Fword@host:1884"


def source() -> MqttSourceBuilder:
    new = MqttSource.builder().set_broker(SECRET).set_topics("a/+", "b/#").set_client_id("me")
    return new.set_value_only_deserializer(SimpleStringSchema())


def sink() -> MqttSinkBuilder:
    new = MqttSink.builder().set_broker(SECRET).set_topic("a/b")
    return new.set_value_serialization_schema(SimpleStringSchema())


def test_connection():
    connection = MqttConnection(SECRET)

    assert connection.login() == ("me", "p@ss/word")
    assert connection.address == "mqtt://host:1884"
    assert MqttConnection("mqtts://host").port == 8883
    assert MqttConnection("mqtt://host").login() is None


def test_password_is_shown_nowhere():
    for declared in (source().build(), sink().build(), MqttConnection(SECRET)):
        assert "word" not in repr(declared) + str(vars(declared) if hasattr(declared, "__dict__") else "")


@pytest.mark.parametrize("url", ["host:1883", "http://host", "mqtt://host:port", "", 7])
def test_urls_that_are_none(url):
    with pytest.raises(ConfigurationError):
        MqttSource.builder().set_broker(url)


@pytest.mark.parametrize("name", ["", "a+", "a/#/b", "a#", "#a"])
def test_filters_that_cannot_be_subscribed_to(name):
    with pytest.raises(ConfigurationError, match="cannot be subscribed to"):
        source().set_topics(name)


@pytest.mark.parametrize("name", ["", "a/+", "#"])
def test_topics_that_nothing_can_be_published_to(name):
    with pytest.raises(ConfigurationError, match="nothing can be published"):
        sink().set_topic(name)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: MqttSource.builder().build(), "no broker"),
        (lambda: MqttSource.builder().set_broker(SECRET).build(), "no topics"),
        (lambda: MqttSource.builder().set_broker(SECRET).set_topics("a").build(), "no schema"),
        (lambda: source().set_client_id("").build(), "no client id"),
        (lambda: source().set_qos(3), "QoS is 3"),
        (lambda: source().set_receive_maximum(70_000), "65535"),
        (lambda: source().set_session_expiry(Time.milliseconds(5)), "less than a second"),
        (lambda: source().set_shared_group("a/b"), "no name of a shared group"),
        (lambda: MqttSink.builder().build(), "no broker"),
        (lambda: MqttSink.builder().set_broker(SECRET).build(), "no topic"),
        (lambda: MqttSink.builder().set_broker(SECRET).set_topic("a").build(), "no schema"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named(declare, said):
    with pytest.raises(ConfigurationError, match=said):
        declare()


def test_what_is_not_there_is_refused():
    with pytest.raises(NotSupportedError, match="Subscribe with QoS 1"):
        source().set_qos(2)
    with pytest.raises(NotSupportedError, match="no side output"):
        source().set_malformed_policy(MalformedPolicy.dead_letters(OutputTag("dead")))


def test_pickling():
    for declared in (source().build(), sink().build()):
        assert type(pickle.loads(pickle.dumps(declared))) is type(declared)


def test_only_a_shared_group_is_read_in_parallel():
    assert not isinstance(source().build(), ParallelSourceFunction)
    assert isinstance(source().set_shared_group("g").build(), ParallelSourceFunction)


class TestUnacknowledged:
    def test_messages_are_acknowledged_with_their_checkpoint(self):
        known = Unacknowledged()
        known.connected(resumed=False)
        assert [known.note(each) for each in (1, 2)] == [True, True]
        known.checkpoint(7)
        assert known.note(3)
        known.checkpoint(8)

        assert known.complete(7) == [1, 2]
        assert known.complete(8) == [3]
        assert known.note(1)  # used again

    def test_messages_that_come_again_are_known(self):
        known = Unacknowledged()
        known.connected(resumed=False)
        known.note(1)
        known.note(2)
        known.checkpoint(7)
        known.note(3)
        known.connected(resumed=True)

        assert not known.note(1)
        assert known.complete(7) == [1]  # 2 has not come by this connection
        assert known.is_done(2) and not known.is_done(2)
        assert not known.note(3)
        known.checkpoint(8)
        assert known.complete(8) == [3]

    def test_session_that_is_forgotten(self):
        known = Unacknowledged()
        known.connected(resumed=False)
        known.note(1)
        known.checkpoint(7)
        known.connected(resumed=False)

        assert known.note(1)
        assert known.complete(7) == []
