"""What can be said of RabbitMQ sources and sinks without a broker."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource

URI = "amqp://me:secret-word@host:5673/orders"


def whole() -> RMQConnectionConfig.Builder:
    builder = RMQConnectionConfig.Builder().set_host("host").set_virtual_host("/")
    return builder.set_user_name("me").set_password("secret-word")


def test_getters_give_what_was_set():
    config = (
        whole()
        .set_port(5)
        .set_network_recovery_interval(10)
        .set_automatic_recovery(True)
        .set_topology_recovery_enabled(False)
        .set_connection_timeout(1_000)
        .set_requested_channel_max(7)
        .set_requested_frame_max(8_192)
        .set_requested_heartbeat(30)
        .set_prefetch_count(9)
        .build()
    )
    parameters = config.parameters()

    assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("host", 5, "/")
    assert (config.get_user_name(), config.get_password(), config.get_uri()) == ("me", "secret-word", None)
    assert (config.is_automatic_recovery(), config.is_topology_recovery()) == (True, False)
    assert (config.get_network_recovery_interval(), config.get_connection_timeout()) == (10, 1_000)
    assert (config.get_requested_channel_max(), config.get_requested_frame_max()) == (7, 8_192)
    assert (config.get_requested_heartbeat(), config.get_prefetch_count()) == (30, 9)
    assert (parameters.channel_max, parameters.frame_max, parameters.heartbeat) == (7, 8_192, 30)
    assert parameters.socket_timeout == 1.0


def test_port_is_the_usual_one():
    assert whole().build().get_port() == 5672


def test_password_is_shown_nowhere():
    for builder in (whole(), RMQConnectionConfig.Builder().set_uri(URI)):
        config = builder.build()
        source = RMQSource(config, "q", True, SimpleStringSchema())
        sink = RMQSink(config, "q", SimpleStringSchema())

        assert "secret-word" not in repr(config) + config.address + repr(source) + repr(sink)
        assert pickle.loads(pickle.dumps(config)) == config


def test_what_is_missing_is_named():
    with pytest.raises(ConfigurationError, match=r"lacks set_user_name\(...\), set_password\(...\)"):
        RMQConnectionConfig.Builder().set_host("h").set_virtual_host("/").build()


@pytest.mark.parametrize(
    "builder",
    [
        RMQConnectionConfig.Builder().set_uri("http://me:secret-word@host"),
        RMQConnectionConfig.Builder().set_uri("amqp://me:secret-word@host:port/"),
        whole().set_requested_frame_max(1),
    ],
)
def test_what_does_not_fit_is_refused_without_the_password(builder):
    with pytest.raises(ConfigurationError) as failed:
        builder.build()
    assert "secret-word" not in str(failed.value)
    assert failed.value.__cause__ is None


def test_prefetch_count_that_the_protocol_has_not_is_refused():
    with pytest.raises(ConfigurationError, match="65535"):
        RMQConnectionConfig.Builder().set_prefetch_count(70_000)


def test_arguments_of_other_kinds_are_refused():
    config = whole().build()
    for make in (
        lambda: RMQSource("amqp://host", "q", True, SimpleStringSchema()),
        lambda: RMQSource(config, "q", True, str),
        lambda: RMQSink("amqp://host", "q", SimpleStringSchema()),
        lambda: RMQSink(config, "q", str),
        lambda: RMQSink(config, None, SimpleStringSchema()),
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_sink_is_not_called_record_by_record():
    with pytest.raises(NotSupportedError, match="add_sink"):
        RMQSink(whole().build(), "q", SimpleStringSchema()).invoke("a")
