"""One broker for all tests of MQTT."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.mqtt import MqttServer


@pytest.fixture(scope="session")
def mqtt_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    server = MqttServer(tmp_path_factory.mktemp("mqtt"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def mqtt(mqtt_server: MqttServer) -> Iterator[MqttServer]:
    """A broker, for topics and clients with names of their own. Tests that stop it may leave starting it to this."""
    try:
        yield mqtt_server
    finally:
        mqtt_server.ensure()
