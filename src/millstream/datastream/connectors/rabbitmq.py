"""Queues of RabbitMQ (PyFlink's `pyflink.datastream.connectors.rabbitmq`)."""

from millstream.connectors.rabbitmq.config import RMQConnectionConfig
from millstream.connectors.rabbitmq.sink import RMQSink, RMQSinkPublishOptions
from millstream.connectors.rabbitmq.source import RMQSource

__all__ = [
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSinkPublishOptions",
    "RMQSource",
]
