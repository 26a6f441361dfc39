"""What is declared of NATS, without a server: what is refused at once, what is shown, what is kept."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError
from millstream.common.serialization import SimpleStringSchema
from millstream.connectors.nats.connection import NatsConnection
from millstream.datastream.connectors.nats import (
    NatsOffsetsInitializer,
    NatsSink,
    NatsSinkBuilder,
    NatsStreamSource,
    NatsStreamSourceBuilder,
)

SECRET = "nats://me:p%40ss%2Fword@host:4333"


def source() -> NatsStreamSourceBuilder:
    new = NatsStreamSource.builder().set_servers(SECRET).set_stream("ORDERS")
    return new.set_value_only_deserializer(SimpleStringSchema())


def sink() -> NatsSinkBuilder:
    new = NatsSink.builder().set_servers(SECRET).set_subject("orders")
    return new.set_value_serialization_schema(SimpleStringSchema())


@pytest.mark.parametrize(
    ("url", "login"),
    [
        (SECRET, {"user": "me", "password": "p@ss/word"}),
        ("nats://to%2Fken@host", {"token": "to/ken"}),
        ("nats://host", {}),
    ],
    ids=["user", "token", "nobody"],
)
def test_login(url, login):
    assert NatsConnection((url,)).login() == login


def test_servers_have_no_secrets():
    connection = NatsConnection((SECRET, "tls://[::1]"))

    assert connection.servers == ["nats://host:4333", "tls://[::1]:4222"]
    assert connection.address == "nats://host:4333, tls://[::1]:4222"
    for shown in map(repr, (connection, source().build(), sink().build())):
        assert "word" not in shown


@pytest.mark.parametrize("url", ["host:4222", "http://host", "nats://host:port", "", 7])
def test_urls_that_are_none(url):
    with pytest.raises(ConfigurationError):
        NatsStreamSource.builder().set_servers(url)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a*", "a>", "a/b"])
def test_names_that_no_stream_has(name):
    with pytest.raises(ConfigurationError, match="is no name of a stream"):
        source().set_stream(name)


def test_offsets_that_do_not_exist():
    with pytest.raises(ConfigurationError, match="has 1"):
        NatsOffsetsInitializer.sequence(0)
    with pytest.raises(ConfigurationError, match="must not be negative"):
        NatsOffsetsInitializer.timestamp(-1)


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        (NatsStreamSource.builder(), "no server"),
        (NatsStreamSource.builder().set_servers(SECRET), "no stream"),
        (NatsStreamSource.builder().set_servers(SECRET).set_stream("S"), "no schema"),
        (NatsSink.builder(), "no server"),
        (NatsSink.builder().set_servers(SECRET), "no subject"),
        (NatsSink.builder().set_servers(SECRET).set_subject("s"), "no schema"),
    ],
)
def test_what_is_missing_is_named(builder, said):
    with pytest.raises(ConfigurationError, match=said):
        builder.build()


def test_pickling():
    for declared in (source().build(), sink().build()):
        assert repr(pickle.loads(pickle.dumps(declared))) == repr(declared)
