"""From messages to records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.connectors.messages import MessageDecoder
from millstream.connectors.mqtt.session import Message

__all__ = ["MqttMessage", "decode"]


@dataclass(frozen=True, slots=True)
class MqttMessage:
    """A record with what MQTT tells of its message.

    Attributes:
        value: What the schema made of the payload.
        topic: What it was published to.
        qos: How it was delivered: 0 or 1.
        retained: Whether the broker had kept it, and it is older than the subscription.
        properties: User properties by name; of several with one name the last.

    Example:
        >>> from millstream.datastream.connectors.mqtt import MqttMessage
        >>> message = MqttMessage("21.5", "rooms/1/heat", 1, False, {})  # of a source with_metadata
        >>> message.topic, message.retained
        ('rooms/1/heat', False)
    """

    value: Any
    topic: str
    qos: int
    retained: bool
    properties: dict[str, str]


def decode(decoder: MessageDecoder, messages: Sequence[Message], *, with_metadata: bool) -> list[Any]:
    """Return the records of messages.

    Args:
        decoder: Decodes payloads.
        messages: In order.
        with_metadata: Whether records are `MqttMessage`s.

    Raises:
        MalformedRecordError: If a message does not parse, and that is to fail the job.
    """
    values, places = decoder.decode_values(
        [message.payload for message in messages], lambda index: f"topic {messages[index].topic}"
    )
    if not with_metadata:
        return values
    origins = messages if places is None else [messages[place] for place in places]
    return [
        MqttMessage(value, each.topic, each.qos, each.retained, each.properties)
        for value, each in zip(values, origins, strict=True)
    ]
