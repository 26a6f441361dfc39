"""Publishes messages, some at a time, and waits until the broker has confirmed them all."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import SinkError
from millstream.connectors.rabbitmq.connecting import Broker, declare_queue

__all__ = ["Message", "Publisher"]

log = logging.getLogger(__name__)

_CONFIRM_S = 30.0
_END_S = 2.0


@dataclass(frozen=True, slots=True)
class Message:
    """What is published.

    Attributes:
        exchange: Where to; the empty one has a route to each queue by its name.
        routing_key: How it goes on from there.
        body: What it holds.
        properties: Pika's `BasicProperties`, or None.
    """

    exchange: str
    routing_key: str
    body: bytes
    properties: Any = None


class Publisher:
    """A connection on which messages are published; for one thread.

    It speaks to the broker only while messages are published. A broker that ends the connection meanwhile, for want of
    heartbeats, loses nothing: all that was published is confirmed, and the next messages go by a new connection.

    Args:
        broker: The broker.
        queue: A queue that is declared if there is none; None for none.
    """

    def __init__(self, broker: Broker, queue: str | None) -> None:
        self._broker = broker
        self._queue = queue
        self._connection: Any = None
        self._channel: Any = None
        self._published = 0
        self._unconfirmed: set[int] = set()
        self._refused = 0
        self._returned: tuple[str, str, str] | None = None
        self._failure: BaseException | None = None

    def publish(self, messages: Sequence[Message]) -> None:
        """Publish messages; returns when the broker has confirmed each.

        After a connection was lost all are published again.

        Raises:
            SinkError: If the broker refuses them, has no queue for one, or stays away.
        """
        self._broker.call(f"publishing {len(messages)} messages", lambda: self._publish(messages))

    def connect(self) -> None:
        """Connect, and declare the queue.

        Raises:
            SinkError: If the broker refuses it, or stays away.
        """
        self._broker.call("connecting", self._connect)

    def close(self) -> None:
        """End the connection."""
        self._drop()

    def _publish(self, messages: Sequence[Message]) -> None:
        if self._channel is None or not self._channel.is_open:
            self._connect()
        try:
            self._refused, self._returned = 0, None
            for message in messages:
                self._published += 1
                self._unconfirmed.add(self._published)
                self._channel.basic_publish(
                    message.exchange, message.routing_key, message.body, message.properties, mandatory=True
                )
            self._serve()
        except BaseException:
            self._drop()
            raise
        if self._returned is not None:
            exchange, routing_key, said = self._returned
            raise SinkError(
                f"RabbitMQ has no queue for a message: {said}, exchange {exchange!r}, routing key {routing_key!r}",
                detail=f"Broker {self._broker.config.address}.",
                hint="Declare the queue, and bind it to the exchange, before the job starts.",
            )
        if self._refused:
            raise self._broker.pika.exceptions.NackError([])

    def _connect(self) -> None:
        self._drop()
        pika = self._broker.pika
        parameters = self._broker.config.parameters()
        if self._queue is not None:
            with pika.BlockingConnection(parameters) as connection:
                declare_queue(self._broker, connection, self._queue)
        self._published, self._unconfirmed = 0, set()
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=lambda _, error: self._fail(error),
            on_close_callback=lambda _, error: self._fail(error),
        )
        try:
            self._serve()
        except BaseException:
            self._drop()
            raise

    def _serve(self, timeout_s: float = _CONFIRM_S) -> None:
        """Exchange frames with the broker until what is waited for has come.

        Raises:
            AMQPError: If the connection or channel was lost.
            TimeoutError: If nothing came.
        """
        self._failure = None
        loop = self._connection.ioloop
        timeout = loop.call_later(
            timeout_s, lambda: self._fail(TimeoutError(f"no answer in {timeout_s:.0f} s"))
        )
        loop.start()
        loop.remove_timeout(timeout)
        failure, self._failure = self._failure, None
        if failure is not None and not isinstance(
            failure, self._broker.pika.exceptions.ConnectionClosedByClient
        ):
            raise failure

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._connection.ioloop.stop()

    def _drop(self) -> None:
        """End the connection, however it is."""
        self._channel = None
        if self._connection is None:
            return
        try:
            if not self._connection.is_closed:
                if not self._connection.is_closing:
                    self._connection.close()
                self._serve(_END_S)
        except (self._broker.pika.exceptions.AMQPError, OSError) as error:
            log.info("connection to RabbitMQ %s ended: %r", self._broker.config.address, error)
        finally:
            self._connection = None

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, error: self._fail(error))
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._connection.ioloop.stop())

    def _on_return(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._returned = (method.exchange, method.routing_key, method.reply_text)

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        if method.multiple:
            confirmed = {tag for tag in self._unconfirmed if tag <= method.delivery_tag}
        else:
            confirmed = {method.delivery_tag}
        if isinstance(method, self._broker.pika.spec.Basic.Nack):
            self._refused += len(confirmed)
        self._unconfirmed -= confirmed
        if not self._unconfirmed:
            self._connection.ioloop.stop()
