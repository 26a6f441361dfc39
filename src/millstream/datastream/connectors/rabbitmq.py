"""RabbitMQ under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.rabbitmq`)."""

from __future__ import annotations

from millstream.base.not_yet import NotYet

__all__ = [
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
]


class _RabbitMQ(NotYet):
    _reason = "The RabbitMQ connector comes with a later release."
    _hint = "Until then use FileSource, FileSink or a Source of your own (millstream.spi.source)."


class RMQConnectionConfig(_RabbitMQ):
    """Where the broker is."""


class RMQSource(_RabbitMQ):
    """Reads a queue."""


class RMQSink(_RabbitMQ):
    """Writes to a queue."""
