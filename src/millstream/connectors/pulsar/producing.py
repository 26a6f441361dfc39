"""Publishes messages, in order, and waits until brokers have acknowledged them.

The client library keeps messages until it has been acknowledged, and sends them again when it has found its way back to
a broker. Where that takes too long its producers are made anew, and get what is left: with numbers, a topic that
deduplicates leaves out what it has already.

Nothing is sent behind a message that was refused: with numbers the refused one would be taken for a repetition later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.connectors.pulsar.connection import PulsarClient, PulsarRefusal
from millstream.connectors.pulsar.outgoing import Outgoing
from millstream.connectors.pulsar.positions import pulsar_package

__all__ = ["Numbered", "Outbox"]

Numbered = tuple[Outgoing, "int | None"]
"""A message, with its number if its topic is to leave it out when it comes again."""

_MESSAGES = 5_000
_BYTES = 4 << 20
_ANSWER_S = 10.0


class Outbox:
    """Publishes messages; for one thread.

    Args:
        client: Of the slot or driver.
        name: Of the producers.
        arguments: Further ones of the producers, as the client library calls them.
        delay: How long consumers do not get messages; None for not at all.
    """

    def __init__(
        self, client: PulsarClient, name: str, arguments: Mapping[str, Any], delay: timedelta | None
    ) -> None:
        self._client = client
        self._name = name
        self._arguments = dict(arguments)
        self._delay = delay
        self._package = pulsar_package()
        if "compression_type" in self._arguments:
            name = self._arguments["compression_type"]
            self._arguments["compression_type"] = _compression(self._package, name)
        self._producers: dict[str, Any] = {}

    def publish(self, messages: Iterable[Numbered]) -> None:
        """Publish messages, and wait until they are acknowledged.

        Raises:
            SinkError: If one is refused, or the cluster stays away.
        """
        waiting: list[Numbered] = []
        size = 0
        for message in messages:
            waiting.append(message)
            size += len(message[0].data)
            if len(waiting) >= _MESSAGES or size >= _BYTES:
                self._publish(waiting)
                waiting, size = [], 0
        if waiting:
            self._publish(waiting)

    def close(self) -> None:
        """Let go of the producers."""
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            try:
                producer.close()
            except self._package.PulsarException:
                continue  # it goes with the connection

    def _publish(self, messages: Sequence[Numbered]) -> None:
        answers = _Answers(self._package.Result.Ok)

        def publish(client: Any) -> None:
            try:
                self._send(client, messages, answers)
            except BaseException:
                self.close()
                raise

        self._client.call(f"publishing {len(messages)} messages", publish)

    def _send(self, client: Any, messages: Sequence[Numbered], answers: _Answers) -> None:
        answers.begin(len(messages))
        for index, (message, number) in enumerate(messages):
            if answers.refusal is not None:
                break
            if index not in answers.acknowledged:
                self._producer(client, message.partition).send_async(
                    message.data,
                    answers.callback(index),
                    properties=message.properties,
                    partition_key=message.key,
                    sequence_id=number,
                    event_timestamp=message.event_time_ms,
                    deliver_after=self._delay,
                )
        answers.wait()

    def _producer(self, client: Any, partition: str) -> Any:
        producer = self._producers.get(partition)
        if producer is None:
            producer = self._producers[partition] = client.create_producer(
                partition,
                producer_name=self._name,
                send_timeout_millis=0,  # what the client drops and what it sends later must not change places
                max_pending_messages=2 * _MESSAGES,
                **self._arguments,
            )
        return producer


class _Answers:
    """What becomes of messages, told by the threads of the client library."""

    def __init__(self, ok: Any) -> None:
        self._ok = ok
        self._clock: Clock = SystemClock()
        self._changed = threading.Event()
        self._count = 0
        self.acknowledged: set[int] = set()
        self.refusal: str | None = None

    def begin(self, count: int) -> None:
        """Forget what was refused, and expect so many answers in all."""
        self._count, self.refusal = count, None
        self._changed.clear()

    def callback(self, index: int) -> Callable[[Any, Any], None]:
        """Return what the client library calls for a message."""

        def note(result: Any, message_id: Any) -> None:
            if result == self._ok:
                self.acknowledged.add(index)
                if len(self.acknowledged) == self._count:
                    self._changed.set()
            elif self.refusal is None:
                self.refusal = result.name
                self._changed.set()

        return note

    def wait(self) -> None:
        """Wait until all are acknowledged.

        Raises:
            PulsarRefusal: If one is refused, or nothing is acknowledged for a while.
        """
        seen, since = len(self.acknowledged), self._clock.monotonic()
        while len(self.acknowledged) < self._count:
            if self.refusal is not None:
                raise PulsarRefusal(self.refusal)
            self._changed.wait(0.2)
            if len(self.acknowledged) > seen:
                seen, since = len(self.acknowledged), self._clock.monotonic()
            elif self._clock.monotonic() - since > _ANSWER_S:
                raise PulsarRefusal("Timeout")


def _compression(package: Any, name: str) -> Any:
    return getattr(package.CompressionType, "ZLib" if name == "ZLIB" else name)
