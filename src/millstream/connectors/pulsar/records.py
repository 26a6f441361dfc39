"""From messages to records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.connectors.pulsar.positions import behind
from millstream.spi.batch import Batch, Rows
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation

__all__ = ["OpenDecoder", "PulsarMessage", "RecordDecoder"]


@dataclass(frozen=True, slots=True)
class PulsarMessage:
    """A record with what Pulsar tells of its message.

    Attributes:
        value: What the schema made of the message.
        key: Its key; None if it has none.
        ordering_key: What goes before the key where keys are shared out; None if it has none.
        properties: By name.
        topic: The full name of its topic, or partition.
        message_id: Its id, serialized: for `StartCursor.from_message_id`.
        publish_time_ms: When it was published, in epoch milliseconds.
        event_time_ms: Its event time as the producer set it; None if it did not.
        producer_name: Who published it.

    Example:
        >>> from millstream.datastream.connectors.pulsar import PulsarSource
        >>> builder = PulsarSource.builder().set_with_metadata()
        >>> def text(message):  # stream.map(text)
        ...     return f"{message.key} {message.value}"
    """

    value: Any
    key: str | None
    ordering_key: str | None
    properties: dict[str, str]
    topic: str
    message_id: bytes
    publish_time_ms: int
    event_time_ms: int | None
    producer_name: str


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """How messages become records; picklable.

    Attributes:
        schema: Makes a value of a message.
        policy: What becomes of those that do not parse.
        with_metadata: Whether records are `PulsarMessage`s.
    """

    schema: DeserializationSchema
    policy: MalformedPolicy
    with_metadata: bool

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records; None if the schema does not tell it, or they have metadata."""
        return None if self.with_metadata else produced_type_of(self.schema)

    def opened(self, context: SourceReaderContext, partition: str) -> OpenDecoder:
        """Return what decodes the messages of a partition in a reader.

        Args:
            context: The reader's.
            partition: Its full name.
        """
        decoder = MessageDecoder(self.schema, self.policy, context, source=f"the Pulsar topic {partition}")
        return OpenDecoder(decoder, with_metadata=self.with_metadata)


class OpenDecoder:
    """Decodes messages in a reader."""

    def __init__(self, decoder: MessageDecoder, *, with_metadata: bool) -> None:
        self._decoder = decoder
        self._with_metadata = with_metadata

    def decode(self, messages: Sequence[Any]) -> Batch:
        """Return the records of messages, with the event times of these, or the times when they were published.

        Raises:
            MalformedRecordError: If a message does not parse, and that is to fail the job.
        """

        def where(index: int) -> str:
            return f"message {behind(messages[index].message_id())}"

        data = [None if each.has_null_value() else each.data() for each in messages]
        times = [each.event_timestamp() or each.publish_timestamp() for each in messages]
        if not self._with_metadata:
            return self._decoder.decode(data, where, times)
        values, places = self._decoder.decode_values(data, where, times)
        origins = messages if places is None else [messages[place] for place in places]
        records = [_with_metadata(value, each) for value, each in zip(values, origins, strict=True)]
        return Rows(records, [each.event_time_ms or each.publish_time_ms for each in records])


def _with_metadata(value: Any, message: Any) -> PulsarMessage:
    return PulsarMessage(
        value,
        message.partition_key() or None,
        message.ordering_key() or None,
        dict(message.properties()),
        message.topic_name(),
        message.message_id().serialize(),
        message.publish_timestamp(),
        message.event_timestamp() or None,
        message.producer_name(),
    )
