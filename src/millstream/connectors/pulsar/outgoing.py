"""From records to messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from millstream.base.errors import SinkError
from millstream.connectors.pulsar.connection import PulsarClient
from millstream.connectors.pulsar.keys import KeyHash
from millstream.connectors.pulsar.routing import Router, TopicRouter, TopicRoutingMode
from millstream.connectors.pulsar.topics import full_name
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.serialization import SerializationSchema

__all__ = ["MessageMaker", "Outgoing", "OpenMaker"]


class Outgoing(NamedTuple):
    """A message that is to be published.

    Attributes:
        partition: Full name of the partition.
        data: Its bytes.
        key: Its key, or None.
        properties: By name, or None.
        event_time_ms: Of the record, or None.
    """

    partition: str
    data: bytes
    key: str | None
    properties: dict[str, str] | None
    event_time_ms: int | None


@dataclass(frozen=True, slots=True)
class MessageMaker:
    """How records become messages; picklable.

    Attributes:
        topics: Full names; none if a router names all topics.
        schema: Makes bytes of a record.
        key: Returns a record's key, or None.
        properties: Returns a record's properties.
        mode: How partitions are chosen.
        key_hash: Of keys.
        router: Of the program's own.
    """

    topics: tuple[str, ...]
    schema: SerializationSchema
    key: Callable[[Any], str | None] | None
    properties: Callable[[Any], Mapping[str, str]] | None
    mode: TopicRoutingMode
    key_hash: KeyHash
    router: TopicRouter | None

    def opened(self, client: PulsarClient) -> OpenMaker:
        """Return what makes messages in a slot; it asks for the partitions that there are.

        Raises:
            SinkError: If there is no such topic, or the cluster stays away.
        """
        partitions = [each for topic in self.topics for each in client.partitions(topic)]
        return OpenMaker(self, Router(self.mode, self.key_hash, self.router, partitions))


class OpenMaker:
    """Makes messages in a slot."""

    def __init__(self, maker: MessageMaker, router: Router) -> None:
        self._maker = maker
        self._router = router
        self._has_router = maker.mode is TopicRoutingMode.CUSTOM

    def messages_of(self, batch: Rows) -> Iterator[Outgoing]:
        """Return the messages of records; a record's event time is its message's.

        Raises:
            SinkError: If a record's partition has no such name.
        """
        timestamps = batch.timestamps
        for index, value in enumerate(batch.values):
            time_ms = None if timestamps is None else timestamps[index]
            try:
                yield self._message(value, time_ms)
            except Exception as error:
                attach_element(error, value)
                raise

    def _message(self, value: Any, time_ms: int | None) -> Outgoing:
        maker = self._maker
        key = None if maker.key is None else maker.key(value)
        if key is not None and not isinstance(key, str):
            raise SinkError(
                f"the key of a Pulsar message is a {type(key).__name__}", hint="It has to be a text."
            )
        properties = None
        if maker.properties is not None:
            properties = {str(name): str(text) for name, text in maker.properties(value).items()}
        partition = self._router.partition_of(value, key)
        if self._has_router:
            partition = full_name(partition)
        positive_ms = time_ms if time_ms is not None and time_ms > 0 else None
        return Outgoing(partition, maker.schema.serialize(value), key, properties, positive_ms)
