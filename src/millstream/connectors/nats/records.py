"""From messages to records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.connectors.nats.cursor import Message
from millstream.spi.batch import Batch, Rows
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation

__all__ = ["NatsMessage", "RecordDecoder"]


@dataclass(frozen=True, slots=True)
class NatsMessage:
    """A record with what NATS tells of its message.

    Attributes:
        value: What the schema made of the message.
        subject: What it was published to.
        headers: By name; of several with one name the last.
        sequence: Its number in the stream.
        timestamp_ms: When the stream stored it, in epoch milliseconds.

    Example:
        >>> from millstream.datastream.connectors.nats import NatsMessage
        >>> message = NatsMessage("250", "orders.bonn", {}, 17, 1_704_067_200_000)  # of a source with_metadata
        >>> message.subject, message.sequence
        ('orders.bonn', 17)
    """

    value: Any
    subject: str
    headers: dict[str, str]
    sequence: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """How messages become records; picklable.

    Attributes:
        schema: Makes a value of a message.
        policy: What becomes of those that do not parse.
        with_metadata: Whether records are `NatsMessage`s.
    """

    schema: DeserializationSchema
    policy: MalformedPolicy
    with_metadata: bool

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records; None if the schema does not tell it, or they have metadata."""
        return None if self.with_metadata else produced_type_of(self.schema)

    def opened(self, context: SourceReaderContext, stream: str) -> OpenDecoder:
        """Return what decodes in a reader.

        Args:
            context: The reader's.
            stream: The stream, for messages.
        """
        decoder = MessageDecoder(self.schema, self.policy, context, source=f"the NATS stream {stream}")
        return OpenDecoder(decoder, with_metadata=self.with_metadata)


class OpenDecoder:
    """Decodes messages in a reader."""

    def __init__(self, decoder: MessageDecoder, *, with_metadata: bool) -> None:
        self._decoder = decoder
        self._with_metadata = with_metadata

    def decode(self, messages: Sequence[Message]) -> Batch:
        """Return the records of messages, with the times of these.

        Raises:
            MalformedRecordError: If a message does not parse, and that is to fail the job.
        """

        def where(index: int) -> str:
            return f"message {messages[index].sequence}"

        data = [message.data for message in messages]
        times = [message.timestamp_ms for message in messages]
        if not self._with_metadata:
            return self._decoder.decode(data, where, times)
        values, places = self._decoder.decode_values(data, where, times)
        origins = messages if places is None else [messages[place] for place in places]
        records = [
            NatsMessage(value, each.subject, each.headers, each.sequence, each.timestamp_ms)
            for value, each in zip(values, origins, strict=True)
        ]
        return Rows(records, [record.timestamp_ms for record in records])
