"""One connection to a broker, by paho-mqtt, in version 5 of MQTT.

::

    paho's thread    reads, writes, keeps the connection alive ──► messages, acknowledgements, the end ─┐
    caller's thread  open, take / publish, acknowledge ◄──── a condition ◄──────────────────────────────┘

It is not connected again: who calls makes a new one, so `Patience` alone decides how long a broker is waited for.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.optional import load_package
from millstream.connectors.mqtt.connection import MqttConnection, MqttRefusal

__all__ = ["Message", "MqttSession", "Publication", "SessionSettings"]

_ANSWER_S = 10.0
_MOST_IN_FLIGHT = 1_000
_MOST_WAITING = 10_000
_FAILURE = 128


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a client asks a broker for when it connects.

    Attributes:
        client_id: Who it is; the broker knows a session by it. Empty to be given one.
        expiry_s: How long the broker keeps the session behind the end of the connection, in seconds; 0 for none.
        receive_maximum: How many messages the broker sends before any is acknowledged.
    """

    client_id: str = ""
    expiry_s: int = 0
    receive_maximum: int = 65_535


@dataclass(frozen=True, slots=True)
class Message:
    """A message that came.

    Attributes:
        packet_id: The broker's number of it; in use until it is acknowledged. 0 with QoS 0.
        topic: What it was published to.
        payload: Its bytes.
        qos: How it was delivered.
        retained: Whether the broker had kept it, and it is older than the subscription.
        properties: User properties by name; of several with one name the last.
    """

    packet_id: int
    topic: str
    payload: bytes
    qos: int
    retained: bool
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Publication:
    """A message to be published.

    Attributes:
        topic: To which topic.
        payload: Its bytes.
        qos: 0, 1 or 2.
        retained: Whether the broker keeps it for later subscribers.
        properties: User properties by name.
    """

    topic: str
    payload: bytes
    qos: int
    retained: bool
    properties: Mapping[str, str] | None


class MqttSession:
    """A connection; paho's thread serves it, one other thread calls its methods, and any `acknowledge`.

    Args:
        connection: Where the broker is.
        settings: What is asked for.
    """

    def __init__(self, connection: MqttConnection, settings: SessionSettings) -> None:
        self._paho = load_package("paho.mqtt.client", extra="mqtt", what="MQTT sources and sinks")
        self._packets = load_package("paho.mqtt.packettypes", extra="mqtt", what="MQTT").PacketTypes
        self._properties = load_package("paho.mqtt.properties", extra="mqtt", what="MQTT").Properties
        self._connection = connection
        self._settings = settings
        self._changed = threading.Condition()
        self._messages: deque[Message] = deque()
        self._answers: deque[tuple[int, Any]] = deque()
        self._connected: Any = None
        self._subscribed: Sequence[Any] | None = None
        self._ended: Exception | None = None
        self._closing = False
        self.is_resumed = False
        self._most_in_flight = _MOST_IN_FLIGHT
        self._client = self._new_client()

    def open(self) -> None:
        """Connect.

        Raises:
            MqttRefusal: If the broker refuses it.
            OSError: If it cannot be reached, or does not answer.
        """
        asked = self._properties(self._packets.CONNECT)
        asked.SessionExpiryInterval = self._settings.expiry_s
        asked.ReceiveMaximum = self._settings.receive_maximum
        connection = self._connection
        self._client.connect(
            connection.host,
            connection.port,
            connection.keep_alive_s,
            clean_start=not self._settings.expiry_s,
            properties=asked,
        )
        self._client.loop_start()
        self._wait(lambda: self._connected is not None)
        flags, reason, granted = self._connected
        _check(reason)
        self.is_resumed = flags.session_present
        self._most_in_flight = min(getattr(granted, "ReceiveMaximum", _MOST_IN_FLIGHT), _MOST_IN_FLIGHT)

    def subscribe(self, filters: Sequence[str], qos: int) -> None:
        """Subscribe; retained messages come for those filters only that the session has not yet.

        Raises:
            MqttRefusal: If the broker refuses one.
            OSError: If the connection is lost.
        """
        options = load_package("paho.mqtt.subscribeoptions", extra="mqtt", what="MQTT").SubscribeOptions
        wanted = options(qos=qos, retainHandling=options.RETAIN_SEND_IF_NEW_SUB)
        self._client.subscribe([(each, wanted) for each in filters])
        self._wait(lambda: self._subscribed is not None)
        for name, reason in zip(filters, self._subscribed or (), strict=True):
            _check(reason, f'subscribing to "{name}": ')

    def take(self, most: int, timeout_s: float) -> list[Message]:
        """Return messages in order, as soon as there are some; none if none came in time.

        Raises:
            MqttRefusal: If the broker has ended the connection.
            OSError: If it is lost.
        """
        with self._changed:
            if not self._messages and self._ended is None:
                self._changed.wait(timeout_s)
            if self._ended is not None:
                raise self._ended
            taken = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
            self._changed.notify_all()
            return taken

    def acknowledge(self, packet_ids: Sequence[int]) -> None:
        """Acknowledge messages of QoS 1 that this connection gave; in vain if it is lost."""
        for packet_id in packet_ids:
            self._client.ack(packet_id, 1)

    def publish(self, publications: dict[int, Publication]) -> None:
        """Publish messages in order; remove from the dict what the broker has taken.

        With QoS 0 it is not asked: what was written to the connection counts.

        Raises:
            MqttRefusal: If the broker refuses one.
            OSError: If the connection is lost, or the broker does not answer.
        """
        waiting = deque(publications.items())
        in_flight: dict[int, int] = {}
        while waiting or in_flight:
            while waiting and len(in_flight) < self._most_in_flight:
                number, each = waiting.popleft()
                in_flight[self._send(each)] = number
            for packet_id, reason in self._take_answers():
                number = in_flight.pop(packet_id)
                _check(reason, f'publishing to "{publications[number].topic}": ')
                del publications[number]

    def close(self) -> None:
        """End the connection, behind what was asked before."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._client.disconnect()
        self._client.loop_stop()

    def _new_client(self) -> Any:
        paho = self._paho
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=self._settings.client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = _ANSWER_S
        client.max_inflight_messages_set(0)  # `publish` keeps to what the broker allows
        login, tls = self._connection.login(), self._connection.tls()
        if login is not None:
            client.username_pw_set(*login)
        if tls is not None:
            client.tls_set_context(tls)
        client.on_socket_open = _send_at_once
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        return client

    def _send(self, each: Publication) -> int:
        properties = None
        if each.properties:
            properties = self._properties(self._packets.PUBLISH)
            properties.UserProperty = list(each.properties.items())
        sent = self._client.publish(each.topic, each.payload, each.qos, each.retained, properties)
        if sent.rc != self._paho.MQTT_ERR_SUCCESS:
            with self._changed:
                raise self._ended or ConnectionError("the connection is lost")
        return int(sent.mid)

    def _take_answers(self) -> list[tuple[int, Any]]:
        self._wait(lambda: bool(self._answers))
        with self._changed:
            taken = list(self._answers)
            self._answers.clear()
        return taken

    def _wait(self, is_there: Any) -> None:
        """Wait for an answer.

        Raises:
            MqttRefusal: If the broker has ended the connection.
            OSError: If it is lost, or nothing came in time.
        """
        clock = SystemClock()
        deadline = clock.monotonic() + _ANSWER_S
        with self._changed:
            while not is_there():
                if self._ended is not None:
                    raise self._ended
                if not self._changed.wait(deadline - clock.monotonic()):
                    raise TimeoutError(f"no answer within {_ANSWER_S:.0f} s")

    def _on_connect(self, _: Any, __: Any, flags: Any, reason: Any, granted: Any) -> None:
        with self._changed:
            self._connected = flags, reason, granted
            self._changed.notify_all()

    def _on_subscribe(self, _: Any, __: Any, ___: int, reasons: Sequence[Any], ____: Any) -> None:
        with self._changed:
            self._subscribed = reasons
            self._changed.notify_all()

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        told = dict(getattr(message.properties, "UserProperty", ()))
        new = Message(message.mid, message.topic, message.payload, message.qos, bool(message.retain), told)
        with self._changed:
            # With QoS 0 nothing else keeps the broker back; with QoS 1 there are fewer.
            while new.qos == 0 and len(self._messages) >= _MOST_WAITING and not self._closing:
                self._changed.wait()
            self._messages.append(new)
            self._changed.notify_all()

    def _on_publish(self, _: Any, __: Any, packet_id: int, reason: Any, ___: Any) -> None:
        with self._changed:
            self._answers.append((packet_id, reason))
            self._changed.notify_all()

    def _on_disconnect(self, _: Any, __: Any, flags: Any, reason: Any, ___: Any) -> None:
        with self._changed:
            if self._ended is None:
                told = flags.is_disconnect_packet_from_server and reason.value >= _FAILURE
                lost = ConnectionError(f"the connection is lost: {reason}")
                self._ended = MqttRefusal(reason.value, str(reason)) if told else lost
            self._changed.notify_all()


def _send_at_once(_: Any, __: Any, opened: Any) -> None:
    """Do not have the system gather small packets: the last ones of a batch would wait for 40 ms."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _check(reason: Any, what: str = "") -> None:
    if reason.value >= _FAILURE:
        raise MqttRefusal(reason.value, f"{what}{reason}")
