"""Takes messages of a queue on a thread of its own: the connection lives, however slow those are who process them.

::

    this thread      connect ─ consume ─► deliveries (at most the prefetch count) ─┐
                     ◄── acknowledge, reject ──────────────────────────────────────┼── the source's thread
                                                                                   └─► take

A delivery is known by the session, the number of the connection, and the broker's tag. With the connection its messages
go back to the queue: what was not taken is forgotten, what was taken comes again, and acknowledging it is in vain.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.rabbitmq.connecting import Broker, declare_queue

__all__ = ["Consumer", "Delivery"]

log = logging.getLogger(__name__)

_SLICE_S = 0.05
_END_S = 10.0
_PAUSE_S = 0.1

Command = Callable[[int, Any], None]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message.

    Attributes:
        session: Number of the connection that it came by.
        tag: The broker's number, increasing in a session.
        body: What it holds.
        correlation_id: As whoever sent it says, None if he does not.
    """

    session: int
    tag: int
    body: bytes
    correlation_id: str | None


class Consumer:
    """Takes messages of a queue. The source's thread calls all methods.

    Args:
        broker: The broker.
        queue: The queue.
        prefetch: How many messages are taken before any is acknowledged; 0 for all that there are.
    """

    def __init__(self, broker: Broker, queue: str, prefetch: int) -> None:
        self._broker = broker
        self._queue = queue
        self._prefetch = prefetch
        self._session = self._acknowledged = 0
        self._deliveries: deque[Delivery] = deque()
        self._arrived = threading.Condition()
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._error: Exception | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"rabbitmq-{queue}", daemon=True)
        self._thread.start()

    def take(self, most: int, timeout_s: float) -> list[Delivery]:
        """Return messages in order, as soon as there are some; none if none came in time.

        Raises:
            SourceError: If the queue cannot be read any more.
        """
        with self._arrived:
            if not self._deliveries and self._error is None:
                self._arrived.wait(timeout_s)
            if self._deliveries:
                return [self._deliveries.popleft() for _ in range(min(most, len(self._deliveries)))]
            if self._error is not None:
                raise self._error
        return []

    def acknowledge(self, session: int, tag: int, then: Callable[[], None] | None = None) -> None:
        """Acknowledge a message and all before it, unless their connection is gone.

        Args:
            session: Of the message.
            tag: Of the message.
            then: Called on the consumer's thread when the broker has taken note of it.
        """

        def perform(current: int, channel: Any) -> None:
            if session != current:
                return
            if tag > self._acknowledged:  # twice is an error
                self._acknowledged = tag
                channel.basic_ack(tag, multiple=True)
            if then is not None:
                channel.basic_qos(prefetch_count=self._prefetch)  # answered behind the acknowledgement
                then()

        self._commands.put(perform)

    def reject(self, delivery: Delivery) -> None:
        """Have the broker drop a message, or send it to the queue's dead letter exchange."""

        def perform(current: int, channel: Any) -> None:
            if delivery.session == current:
                channel.basic_reject(delivery.tag, requeue=False)

        self._commands.put(perform)

    def close(self) -> None:
        """End the connection, when what was asked before is done."""
        self._stopped = True
        self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._hold_session()
        except Exception as error:  # noqa: BLE001 - raised again by `take`
            with self._arrived:
                if not self._stopped:
                    self._error = error
                self._arrived.notify_all()

    def _hold_session(self) -> None:
        """Connect, and consume until the connection is lost, or the consumer is closed."""
        broker, what = self._broker, f'reading queue "{self._queue}"'
        connection, channel = broker.call(what, self._begin, goes_on=lambda: not self._stopped)
        try:
            while not self._stopped:
                connection.process_data_events(time_limit=_SLICE_S)
                self._perform(channel)
            self._perform(channel)
        except (broker.pika.exceptions.AMQPError, OSError) as error:
            with self._arrived:
                self._deliveries.clear()
            if self._stopped:
                return
            if not broker.is_passing(error):
                raise broker.explain(what, error) from error
            log.warning("RabbitMQ %s, %s: connection lost: %r", broker.config.address, what, error)
            interval_ms = broker.config.get_network_recovery_interval()
            SystemClock().wait(_PAUSE_S if interval_ms is None else interval_ms / 1000)
        finally:
            self._leave(connection)

    def _leave(self, connection: Any) -> None:
        try:
            if connection.is_open:
                connection.close()
        except (self._broker.pika.exceptions.AMQPError, OSError) as error:
            log.info("connection to RabbitMQ %s ended: %r", self._broker.config.address, error)

    def _begin(self) -> tuple[Any, Any]:
        connection = self._broker.pika.BlockingConnection(self._broker.config.parameters())
        try:
            declare_queue(self._broker, connection, self._queue)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=self._prefetch)
            channel.add_on_cancel_callback(self._on_cancel)
            self._session, self._acknowledged = self._session + 1, 0
            channel.basic_consume(self._queue, self._on_message)
        except BaseException:
            self._leave(connection)
            raise
        return connection, channel

    def _on_message(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        delivery = Delivery(self._session, method.delivery_tag, body, properties.correlation_id)
        with self._arrived:
            self._deliveries.append(delivery)
            self._arrived.notify_all()

    def _on_cancel(self, _: Any) -> None:
        raise SourceError(
            f'the RabbitMQ queue "{self._queue}" was removed while it was read',
            detail=f"Broker {self._broker.config.address}. Messages that were not processed are gone with it.",
            hint="Declare it again; the job's restart strategy has it begin anew.",
        )

    def _perform(self, channel: Any) -> None:
        while True:
            try:
                command = self._commands.get_nowait()
            except Empty:
                return
            command(self._session, channel)
