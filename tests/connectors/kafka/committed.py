"""What a reader of committed messages sees, at any time."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from servers.kafka import KafkaServer


class CommittedReader:
    """Follows a topic: each look reads what has come since the last one."""

    def __init__(self, kafka: KafkaServer, topic: str, partitions: int) -> None:
        settings = {
            "isolation.level": "read_committed",
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "committed-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": "10",
            "reconnect.backoff.max.ms": "500",
            "log_level": "0",
        }
        self._consumer = Consumer(settings)
        self._places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(self._places)
        self._read = [0] * partitions
        self.messages: list[Any] = []

    def look(self) -> list[Any]:
        """Return all messages that are committed."""
        for place in self._places:
            end = self._end(place)
            while self._read[place.partition] < end:
                self._take()
        return self.messages

    def _end(self, place: TopicPartition) -> int:
        """Return where the first open transaction begins."""
        end: int = self._consumer.get_watermark_offsets(place, timeout=20, cached=False)[1]
        return end

    def _take(self) -> None:
        message = self._consumer.poll(20)
        assert message is not None, "the broker does not answer"
        if message.error() is None:
            self.messages.append(message)
            self._read[message.partition()] = message.offset() + 1
        elif message.error().name() == "_PARTITION_EOF":
            self._read[message.partition()] = message.offset()

    def values(self) -> list[str]:
        return [message.value().decode() for message in self.look()]

    def close(self) -> None:
        self._consumer.close()
