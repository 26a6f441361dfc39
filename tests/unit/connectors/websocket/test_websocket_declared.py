"""What is declared of WebSocket, without a server: what is refused at once, and what is shown."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common.serialization import SimpleStringSchema
from millstream.common.time import Time
from millstream.connectors.reconnects import Reconnects
from millstream.connectors.websocket.connection import WebSocketTarget
from millstream.datastream import OutputTag
from millstream.datastream.connectors.websocket import MalformedPolicy, WebSocketSink, WebSocketSource

SECRET = "wss://me:secret-word@host:444/path?key=secret-key"
SCHEMA = SimpleStringSchema()


def test_secrets_are_shown_nowhere():
    target = WebSocketTarget(SECRET, {"X-Key": "secret-header"}, ("secret-message",))
    source = WebSocketSource.builder().set_url(SECRET).set_value_only_deserializer(SCHEMA).build()
    sink = WebSocketSink.builder().set_url(SECRET).set_value_serialization_schema(SCHEMA).build()

    assert target.address == "wss://host:444/path"
    for each in (target, source, sink):
        assert "secret" not in repr(each)
        assert type(pickle.loads(pickle.dumps(each))) is type(each)


@pytest.mark.parametrize("url", ["", "host", "http://host", "ws://", "ws://host:port", "ws://host/#part", 7])
def test_urls_that_are_none(url):
    with pytest.raises(ConfigurationError):
        WebSocketSource.builder().set_url(url)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: WebSocketSource.builder().build(), "no URL"),
        (lambda: WebSocketSource.builder().set_url(SECRET).build(), "no schema"),
        (lambda: WebSocketSource.builder().set_value_only_deserializer(str), "no DeserializationSchema"),
        (
            lambda: (
                WebSocketSource.builder()
                .set_url(SECRET)
                .set_value_only_deserializer(SCHEMA)
                .set_ping_interval(Time.seconds(0))
                .build()
            ),
            "not positive",
        ),
        (lambda: WebSocketSink.builder().build(), "no URL"),
        (lambda: WebSocketSink.builder().set_url(SECRET).build(), "no schema"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named(declare, said):
    with pytest.raises(ConfigurationError, match=said):
        declare()


def test_side_output_is_refused():
    with pytest.raises(NotSupportedError, match="no side output"):
        WebSocketSource.builder().set_malformed_policy(MalformedPolicy.dead_letters(OutputTag("dead")))


def test_losses_count_if_they_come_shortly_after_a_connection():
    clock = ManualClock()
    reconnects = Reconnects(clock)
    for _ in range(9):
        reconnects.connected()
        assert not reconnects.lost()
    reconnects.connected()
    clock.advance(6_000)
    assert not reconnects.lost()
    assert reconnects.losses == 1
    for _ in range(8):
        reconnects.connected()
        assert not reconnects.lost()
    reconnects.connected()
    assert reconnects.lost()
