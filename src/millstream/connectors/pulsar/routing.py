"""Which partition a message goes to (PyFlink's `TopicRoutingMode`), and when consumers get it (`MessageDelayer`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.pulsar.keys import KeyHash

__all__ = ["MessageDelayer", "Router", "TopicRouter", "TopicRoutingMode"]

TopicRouter = Callable[[Any, "str | None", Sequence[str]], str]
"""Returns the partition of a record: given the record, its message's key, and the partitions that there are."""


class TopicRoutingMode(Enum):
    """Which of the partitions of a sink's topics a message goes to.

    Example:
        >>> from millstream.datastream.connectors.pulsar import TopicRoutingMode
        >>> mode = TopicRoutingMode.MESSAGE_KEY_HASH  # PulsarSink.builder().set_topic_routing_mode(mode)
    """

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


@dataclass(frozen=True, slots=True)
class MessageDelayer:
    """When consumers with a shared subscription get a message; made by its static methods.

    Attributes:
        delay: How long after it was published; None for at once.

    Example:
        >>> from millstream.common.time import Duration
        >>> from millstream.datastream.connectors.pulsar import MessageDelayer
        >>> # PulsarSink.builder().delay_sending_message(delayer)
        >>> delayer = MessageDelayer.fixed(Duration.of_minutes(5))
    """

    delay: timedelta | None = None

    @staticmethod
    def never() -> MessageDelayer:
        """At once."""
        return MessageDelayer()

    @staticmethod
    def fixed(duration: Duration) -> MessageDelayer:
        """So long after it was published; readers, and other kinds of subscriptions, get it at once.

        Raises:
            ConfigurationError: If it is negative.
        """
        delay_ms = to_milliseconds(duration)
        if delay_ms < 0:
            raise ConfigurationError(f"the delay of messages is {delay_ms} ms, must not be negative")
        return MessageDelayer(timedelta(milliseconds=delay_ms))


class Router:
    """Chooses partitions, in a slot.

    Args:
        mode: How.
        key_hash: Of keys, for MESSAGE_KEY_HASH.
        custom: For CUSTOM.
        partitions: What there is.
    """

    def __init__(
        self,
        mode: TopicRoutingMode,
        key_hash: KeyHash,
        custom: TopicRouter | None,
        partitions: Sequence[str],
    ) -> None:
        self._by_key = mode is TopicRoutingMode.MESSAGE_KEY_HASH
        self._key_hash = key_hash
        self._custom = custom if mode is TopicRoutingMode.CUSTOM else None
        self._partitions = partitions
        self._turn = 0

    def partition_of(self, value: Any, key: str | None) -> str:
        """Return the partition of a record: messages without a key go round.

        Raises:
            SinkError: If a router of the program's own returns none.
        """
        if self._custom is not None:
            chosen = self._custom(value, key, self._partitions)
            if not isinstance(chosen, str):
                raise SinkError(
                    f"the topic router returned {chosen!r}, no topic",
                    hint="It is given (record, key, partitions), and returns one of these or another topic.",
                )
            return chosen
        if self._by_key and key is not None:
            return self._partitions[self._key_hash.of(key) % len(self._partitions)]
        self._turn += 1
        return self._partitions[(self._turn - 1) % len(self._partitions)]
