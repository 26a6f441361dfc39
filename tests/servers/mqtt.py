"""Mosquitto. What it has acknowledged is on disk when it is stopped; it listens to all, with a login, and with TLS."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from servers.packages import install
from servers.ports import free_port
from servers.process import Server, answers

_PROGRAM = "/usr/sbin/mosquitto"


class MqttServer(Server):
    """A Mosquitto broker: the user `me` with `secret-word` may use `allowed/#` on the port with a login."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.login_port, self.tls_port = free_port(), free_port()
        self.certificate = directory / "certificate.pem"

    def command(self) -> list[str]:
        if not Path(_PROGRAM).exists():
            install("mosquitto")
        config = self.directory / "mosquitto.conf"
        if not config.exists():
            self._prepare_files()
            config.write_text(
                f"""per_listener_settings true
set_tcp_nodelay true
persistence true
persistence_location {self.directory}/
user root
max_queued_messages 0
max_inflight_messages 0
listener {self.port} 127.0.0.1
allow_anonymous true
listener {self.login_port} 127.0.0.1
allow_anonymous false
password_file {self.directory}/passwords
acl_file {self.directory}/rights
listener {self.tls_port} 127.0.0.1
allow_anonymous true
certfile {self.certificate}
keyfile {self.directory}/key.pem
"""
            )
        return [_PROGRAM, "-c", str(config)]

    def _prepare_files(self) -> None:
        passwords = self.directory / "passwords"
        subprocess.run(["mosquitto_passwd", "-c", "-b", str(passwords), "me", "secret-word"], check=True)
        (self.directory / "rights").write_text("user me\ntopic readwrite allowed/#\n")
        names = "-newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
        files = ["-keyout", str(self.directory / "key.pem"), "-out", str(self.certificate)]
        command = ["openssl", "req", "-x509", *names.split(), *files]
        subprocess.run(command, check=True, capture_output=True)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def login_url(self, login: str = "me:secret-word") -> str:
        return f"mqtt://{login}@127.0.0.1:{self.login_port}"

    def is_ready(self) -> bool:
        return answers(lambda: self.connect().close())

    def stop(self) -> None:
        if self._process is not None:
            self.go_on()
            self._process.terminate()  # persistent sessions are written then
            self._process.wait()
            self._process = None

    def connect(self, port: int | None = None) -> MqttClient:
        return MqttClient(port or self.port)

    def open_session(self, client_id: str, *topics: str) -> None:
        """Have the broker keep messages for a client from now on."""
        client = MqttClient(self.port, client_id)
        for topic in topics:
            client.subscribe(topic)
        client.close()

    def new_topic(self) -> str:
        return f"topic-{uuid.uuid4().hex[:12]}"

    def publish(self, topic: str, values: Iterable[Any], **more: Any) -> None:
        client = self.connect()
        try:
            client.publish(topic, values, **more)
        finally:
            client.close()


class MqttClient:
    """A client that collects what it has subscribed to."""

    def __init__(self, port: int, client_id: str = "") -> None:
        self.messages: list[Any] = []
        self._subscribed = False
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        self._client.max_inflight_messages_set(0)
        self._client.on_message = lambda _, __, message: self.messages.append(message)
        self._client.on_subscribe = lambda *_: setattr(self, "_subscribed", True)
        asked = Properties(PacketTypes.CONNECT)
        asked.SessionExpiryInterval = 600 if client_id else 0
        self._client.connect("127.0.0.1", port, clean_start=not client_id, properties=asked)
        self._client.loop_start()
        self.wait(self._client.is_connected)

    def wait(self, is_there: Any) -> None:
        deadline = time.monotonic() + 20
        while not is_there():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def subscribe(self, topic: str, qos: int = 1) -> None:
        self._subscribed = False
        self._client.subscribe(topic, options=SubscribeOptions(qos))
        self.wait(lambda: self._subscribed)

    def publish(self, topic: str, values: Iterable[Any], qos: int = 1, retain: bool = False) -> None:
        """Publish texts, or bytes, and wait until they are taken."""
        sent = [
            self._client.publish(topic, value if isinstance(value, bytes) else str(value), qos, retain)
            for value in values
        ]
        for each in sent:
            each.wait_for_publish(20)

    def texts(self, count: int) -> list[str]:
        """Wait until so many messages came."""
        self.wait(lambda: len(self.messages) >= count)
        return [message.payload.decode() for message in self.messages]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
