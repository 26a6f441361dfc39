"""The sink of a queue (PyFlink's `RMQSink`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.common.functions import SinkFunction
from millstream.connectors.batching_writer import BatchingWriter
from millstream.connectors.patience import Patience
from millstream.connectors.rabbitmq.config import RMQConnectionConfig
from millstream.connectors.rabbitmq.connecting import Broker
from millstream.connectors.rabbitmq.publisher import Message, Publisher
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["RMQSink", "RMQSinkPublishOptions"]


class RMQSinkPublishOptions(ABC):
    """Where each record goes, and with which properties (Java's class of that name; not in PyFlink). Picklable.

    Example:
        >>> from millstream.datastream.connectors.rabbitmq import RMQSinkPublishOptions
        >>> class ByShop(RMQSinkPublishOptions):
        ...     def compute_routing_key(self, value):
        ...         return f"orders.{value['shop']}"
        ...     def compute_exchange(self, value):
        ...         return "orders"
        ...     def compute_properties(self, value):
        ...         return {"content_type": "application/json"}
        >>> ByShop().compute_routing_key({"shop": "bonn"})
        'orders.bonn'
    """

    @abstractmethod
    def compute_routing_key(self, value: Any) -> str:
        """Return the routing key of a record."""

    @abstractmethod
    def compute_exchange(self, value: Any) -> str:
        """Return the exchange of a record; it has to exist."""

    def compute_properties(self, value: Any) -> dict[str, Any]:
        """Return the properties of a record's message by pika's names, such as `{"correlation_id": "7"}`."""
        return {}


class RMQSink(SinkFunction, Sink):
    """Publishes records to a queue, or to what the options say, at least once; give it to `add_sink`.

    The broker confirms all messages of an epoch before the epoch's checkpoint. Messages to a queue are persistent.

    Args:
        connection_config: Where the broker is.
        queue_name: The queue; a durable one is declared if there is none. None with options of its own.
        serialization_schema: Makes the messages.
        publish_options: Where each record goes.
        patience: How long the broker is waited for.

    Raises:
        ConfigurationError: If an argument is something else.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink
        >>> config = RMQConnectionConfig.Builder().set_uri("amqp://guest:guest@localhost:5672/%2F").build()
        >>> sink = RMQSink(config, "orders", SimpleStringSchema())  # stream.add_sink(sink)
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str | None,
        serialization_schema: SerializationSchema,
        *,
        publish_options: RMQSinkPublishOptions | None = None,
        patience: Patience | None = None,
    ) -> None:
        if not isinstance(connection_config, RMQConnectionConfig):
            raise ConfigurationError(f"{type(connection_config).__name__} is no RMQConnectionConfig")
        if not isinstance(serialization_schema, SerializationSchema):
            raise ConfigurationError(f"{type(serialization_schema).__name__} is no SerializationSchema")
        if queue_name is None and publish_options is None:
            raise ConfigurationError(
                "the RabbitMQ sink has no queue", hint="Name it, or give publish_options."
            )
        self._config = connection_config
        self._queue = queue_name
        self._schema = serialization_schema
        self._options = publish_options
        self._patience = patience or Patience()

    def invoke(self, value: Any, *args: Any, **kwargs: Any) -> None:
        """Say that the sink is not called record by record.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            "RMQSink takes no single records", hint="Give it to add_sink(...) or sink_to(...)."
        )

    def check(self) -> None:
        """See whether the broker answers, and declare the queue.

        Raises:
            SinkError: If it does not, or refuses it.
        """
        publisher = self._publisher()
        publisher.connect()
        publisher.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _QueueWriter(self._publisher(), self._queue or "", self._schema, self._options)

    def _publisher(self) -> Publisher:
        queue = self._queue if self._options is None else None
        return Publisher(Broker(self._config, SinkError, self._patience), queue)


class _QueueWriter(BatchingWriter[Message]):
    """Publishes messages."""

    def __init__(
        self,
        publisher: Publisher,
        queue: str,
        schema: SerializationSchema,
        options: RMQSinkPublishOptions | None,
    ) -> None:
        super().__init__()
        self._publisher = publisher
        self._queue = queue
        self._schema = schema
        self._options = options

    def open(self) -> None:
        import pika  # the publisher has loaded it

        self._new_properties = pika.BasicProperties
        self._persistent = pika.BasicProperties(delivery_mode=2)

    def close(self) -> None:
        self._publisher.close()

    def message(self, value: Any) -> Message:
        """Return a message with its exchange, routing key and properties."""
        body, options = self._schema.serialize(value), self._options
        if options is None:
            return Message("", self._queue, body, self._persistent)
        properties = self._new_properties(**options.compute_properties(value))
        return Message(options.compute_exchange(value), options.compute_routing_key(value), body, properties)

    def size_of(self, message: Message) -> int:
        """Return the size of its body."""
        return len(message.body)

    def send(self, messages: list[Message]) -> None:
        """Publish messages."""
        self._publisher.publish(messages)
