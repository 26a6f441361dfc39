"""One broker for all tests of MQTT."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.mqtt import MqttServer
from servers.process import lent, running


@pytest.fixture(scope="session")
def mqtt_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    yield from running(MqttServer(tmp_path_factory.mktemp("mqtt")))


@pytest.fixture
def mqtt(mqtt_server: MqttServer) -> Iterator[MqttServer]:
    """A broker, for topics and clients with names of their own. Tests that stop it may leave starting it to this."""
    yield from lent(mqtt_server)
