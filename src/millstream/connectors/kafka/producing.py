"""Producing messages, and what becomes of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any

from millstream.base.errors import SinkError
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.serialization import Messages

__all__ = ["Outlet", "Topics", "key_text"]

_SLICE_S = 0.2
_SHOWN_KEY = 60
# Bytes that a record takes in a batch beside key, value and headers, and the batch itself; rounded up.
_FRAME_BYTES = 100
_DEFAULT_MOST_BYTES = 1_000_000  # of librdkafka
_BULK = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "131072",
    "delivery.report.only.error": True,  # a call for each record would cost as much as producing it
}
_JAVA = {"queue.buffering.max.kbytes": "buffer.memory"}


def key_text(key: bytes | str | None) -> str:
    """Return a key for a message: as text if it is text, shortened."""
    if key is None:
        return "no key"
    raw = key.encode() if isinstance(key, str) else key
    try:
        text = repr(raw.decode())
    except UnicodeDecodeError:
        text = repr(raw)
    return f"key {text if len(text) <= _SHOWN_KEY else text[: _SHOWN_KEY - 1] + '…'}"


class Outlet:
    """A producer, and what was refused of what it was given.

    Args:
        cluster: Where it produces to.
        settings: Of librdkafka, with `_` for `.`.
    """

    def __init__(self, cluster: Cluster, **settings: Any) -> None:
        self._cluster = cluster
        self._refused: list[tuple[Any, str, Any, int]] = []
        bulk = {
            name.replace(".", "_"): value
            for name, value in _BULK.items()
            if name not in cluster.properties and _JAVA.get(name) not in cluster.properties
        }
        self.producer = cluster.producer(**{**bulk, **settings}, on_delivery=self._note)

    def _note(self, error: Any, message: Any) -> None:
        if error is not None and len(self._refused) < 3:
            value = message.value()
            size = (0 if value is None else len(value)) + len(message.key() or b"")
            self._refused.append((error, message.topic(), message.key(), size))

    def send(self, messages: Messages) -> None:
        """Produce messages, in order; waits while the producer's queue is full.

        Raises:
            SinkError: If one was refused, of these or of those before.
        """
        if isinstance(messages.topics, str) and not messages.has_details:
            self._send_plain(messages.topics, messages.values, messages.keys)
        else:
            produce = self.producer.produce
            for topic, value, key, rest in _details(messages):
                try:
                    produce(topic, value, key, **rest)
                except Exception as error:  # noqa: BLE001 - looked at there
                    self._again(error, topic, value, key, rest)
        self.producer.poll(0)
        self.check()

    def _send_plain(self, topic: str, values: list[bytes | None], keys: list[bytes | None] | None) -> None:
        """Produce messages that have no details: `map` calls for them, which takes less than a loop."""
        left = iter(values)
        calls = map(self.producer.produce, repeat(topic), left, repeat(None) if keys is None else iter(keys))
        while True:
            try:
                deque(calls, maxlen=0)
                return
            except Exception as error:  # noqa: BLE001 - looked at there
                index = len(values) - length_hint(left) - 1  # a list's iterator knows how many are left
                self._again(error, topic, values[index], None if keys is None else keys[index], {})

    def _again(
        self, error: Exception, topic: str, value: bytes | None, key: bytes | None, rest: dict[str, Any]
    ) -> None:
        """Produce a message that was not taken as soon as there is room; raise if that is not why."""
        while True:
            if not isinstance(error, BufferError):
                if not isinstance(error, confluent_kafka().KafkaException):
                    raise error
                size = len(value or b"") + len(key or b"")
                raise self._refusal(error, topic, key, size) from None
            self.producer.flush(_SLICE_S / 4)
            self.check()
            try:
                self.producer.produce(topic, value, key, **rest)
                return
            except Exception as another:  # noqa: BLE001 - looked at above
                error = another

    def check(self) -> None:
        """Raise what was reported of messages that were not written.

        Raises:
            SinkError: If there is any.
        """
        if self._refused:
            raise self._refusal(*self._refused[0])

    def _refusal(self, error: Any, topic: str, key: Any, size: int) -> SinkError:
        doing = f"a record of topic {topic!r}, {key_text(key)}, {size:,} bytes, was not written"
        refusal = self._cluster.explain(error, doing)
        assert isinstance(refusal, SinkError)
        return refusal

    def flush(self) -> None:
        """Wait until all messages are acknowledged; `delivery.timeout.ms` bounds how long.

        Raises:
            SinkError: If one was refused, or the brokers refuse the login.
        """
        while self.producer.flush(_SLICE_S):
            self.check()
            self._cluster.raise_if_refused("records were not written")
        self.check()

    def drop(self) -> None:
        """Forget what is not written yet."""
        self.producer.purge(in_flight=False)
        self._refused = []


def _details(messages: Messages) -> Iterator[tuple[str, bytes | None, bytes | None, dict[str, Any]]]:
    """Yield topic, value, key and what else there is of each message."""
    columns: dict[str, Sequence[Any]] = {}
    if messages.timestamps is not None:
        columns["timestamp"] = messages.timestamps
    if messages.partitions is not None:
        columns["partition"] = messages.partitions
    if messages.headers is not None:
        columns["headers"] = [list(each) if each else None for each in messages.headers]
    topics = repeat(messages.topics) if isinstance(messages.topics, str) else messages.topics
    keys = messages.keys or repeat(None)
    names = tuple(columns)
    rest = zip(*columns.values(), strict=True) if columns else repeat(())
    for topic, value, key, each in zip(topics, messages.values, keys, rest, strict=False):
        yield topic, value, key, dict(zip(names, each, strict=True))


class Topics:
    """What is known of topics: their partitions, and how large a message may be; asked once for each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._partitions: dict[str, tuple[int, ...]] = {}
        self._most_bytes = int(
            cluster.properties.get("max.request.size")
            or cluster.properties.get("message.max.bytes")
            or _DEFAULT_MOST_BYTES
        )
        self._compresses = cluster.properties.get("compression.type", "none") != "none"
        self._topic_most: dict[str, int] = {}

    def partitions(self, topic: str) -> Sequence[int]:
        """Return a topic's partitions.

        Raises:
            SinkError: If there is no such topic.
        """
        if topic not in self._partitions:
            self._look_up(topic)
        return self._partitions[topic]

    def _look_up(self, topic: str) -> None:
        doing = f"topic {topic!r} cannot be written"
        found = self._cluster.topics(topic, doing).topics[topic]
        if found.error is not None:
            raise self._cluster.explain(found.error, doing)
        self._partitions[topic] = tuple(sorted(found.partitions))
        self._topic_most[topic] = self._limit_of(topic)

    def _limit_of(self, topic: str) -> int:
        """Return how many bytes the brokers take at once for a topic; 0 if this user must not know."""
        resource = confluent_kafka("confluent_kafka.admin").ConfigResource("topic", topic)
        try:
            asked = self._cluster.ask(lambda admin: admin.describe_configs([resource], request_timeout=10))
            settings = asked[resource].result()
            return int(settings["max.message.bytes"].value)
        except confluent_kafka().KafkaException:
            return 0  # the brokers decide when the record is there

    def check(self, messages: Messages) -> None:
        """See whether messages can be written: the topics are there, and none is too large.

        Raises:
            SinkError: If not; later, when they are committed, would be too late.
        """
        for topic in messages.topic_names():
            self.partitions(topic)
        if not messages.values:
            return
        least = min(self._most(topic) for topic in messages.topic_names()) - _FRAME_BYTES
        if messages.headers is None and _longest(messages.values) + _longest(messages.keys) <= least:
            return  # so it is nearly always, and it takes less than to add them up
        sizes: list[int] = [len(value) if value is not None else 0 for value in messages.values]
        if messages.keys is not None:
            sizes = [a + (0 if b is None else len(b)) for a, b in zip(sizes, messages.keys, strict=True)]
        if messages.headers is not None:
            sizes = [a + _header_bytes(b) for a, b in zip(sizes, messages.headers, strict=True)]
        if max(sizes) <= least:
            return
        for index, size in enumerate(sizes):
            topic = messages.topic(index)
            if size + _FRAME_BYTES > self._most(topic):
                key = None if messages.keys is None else messages.keys[index]
                raise SinkError(
                    f"a record of topic {topic!r}, {key_text(key)}, {size:,} bytes, is too large",
                    detail=f"The sink and the topic take {self._most(topic):,} bytes, with {_FRAME_BYTES} around it.",
                    hint="Raise max.request.size of the sink and max.message.bytes of the topic, or make records "
                    "smaller.",
                )

    def _most(self, topic: str) -> int:
        of_topic = self._topic_most[topic]
        if not of_topic or self._compresses:
            return self._most_bytes
        return min(of_topic, self._most_bytes)


def _longest(texts: Sequence[bytes | None] | None) -> int:
    try:
        return max(map(len, texts or ()), default=0)  # type: ignore[arg-type]
    except TypeError:  # some are None
        return max((len(each) for each in texts or () if each is not None), default=0)


def _header_bytes(headers: Any) -> int:
    return sum(len(name) + len(value or b"") + 10 for name, value in headers or ())
