"""One partition, as the driver sees it: a durable subscription that tells where its end is, and keeps messages.

Messages that no subscription needs are removed as soon as the broker likes, unless the namespace retains them. So a
source has a subscription in every partition. Nothing is received by it: readers read; when a checkpoint is complete the
subscription is moved on. The last message that was read stays unacknowledged, so that it is kept, and a reader that
goes on behind it can tell whether anything is missing.
"""

from __future__ import annotations

from typing import Any

from millstream.connectors.pulsar.connection import PulsarClient
from millstream.connectors.pulsar.positions import START, Position, behind, pulsar_package

__all__ = ["Subscription"]

_LOOK_MS = 5_000


class Subscription:
    """A job's subscription to one partition; one thread calls it.

    Args:
        client: Of the driver.
        partition: Its full name.
        name: The subscription's.
        consumer_name: What brokers show; None for a name that they make.
    """

    def __init__(self, client: PulsarClient, partition: str, name: str, consumer_name: str | None) -> None:
        self._client = client
        self._partition = partition
        self._name = name
        self._consumer_name = consumer_name
        self._consumer: Any = None
        self._moved: Position = START

    def end(self) -> Position:
        """Return the position behind the last message.

        Raises:
            SourceError: If there is no such topic, or the cluster stays away.
        """

        def ask(client: Any) -> Any:
            return self._with_consumer(client, lambda consumer: consumer.get_last_message_id())

        return behind(self._client.call(f'looking for the end of "{self._partition}"', ask))

    def at_time(self, time_ms: int) -> Position:
        """Return the position before the first message of a time or later; behind the last one if there is none.

        Raises:
            SourceError: If the cluster stays away.
        """
        end = self.end()
        package = pulsar_package()

        def look(client: Any) -> Position:
            reader = client.create_reader(self._partition, package.MessageId.earliest, receiver_queue_size=1)
            try:
                reader.seek(time_ms)
                while reader.has_message_available():
                    message = reader.read_next(_LOOK_MS)
                    found = behind(message.message_id())
                    if message.publish_timestamp() >= time_ms:
                        return found._replace(is_behind=False)
                    if found >= end:
                        break
                return end
            finally:
                reader.close()

        return self._client.call(f'looking for messages of a time in "{self._partition}"', look)

    def move(self, position: Position) -> None:
        """Acknowledge what is before the entry of a position.

        Raises:
            SourceError: If that fails; the next call does what is left.
        """
        if position.entry <= 0 or not position.is_known or position[:2] == self._moved[:2]:
            return
        message_id = pulsar_package().MessageId(-1, position.ledger, position.entry - 1, -1)

        def acknowledge(client: Any) -> None:
            self._with_consumer(client, lambda consumer: consumer.acknowledge_cumulative(message_id))

        self._client.call(f'acknowledging messages of "{self._partition}"', acknowledge, give_up=True)
        self._moved = position

    def close(self) -> None:
        """Let go of the consumer; the subscription stays."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            try:
                consumer.close()
            except pulsar_package().PulsarException:
                return  # it goes with the connection

    def _with_consumer(self, client: Any, action: Any) -> Any:
        """Do something with a consumer that receives nothing; one that fails is made anew by the next call."""
        package = pulsar_package()
        if self._consumer is None:
            self._consumer = client.subscribe(
                self._partition,
                self._name,
                # another attempt's may still be there, and acknowledging has to work all the same
                consumer_type=package.ConsumerType.Failover,
                consumer_name=self._consumer_name,
                receiver_queue_size=0,
                initial_position=package.InitialPosition.Earliest,
            )
        try:
            return action(self._consumer)
        except package.PulsarException:
            self.close()
            raise
