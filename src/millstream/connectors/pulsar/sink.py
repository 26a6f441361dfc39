"""The Pulsar sink (PyFlink's `PulsarSink`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError, TypeMismatchError
from millstream.config.option_types import ConfigOption
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.patience import Patience
from millstream.connectors.pulsar.connection import PulsarClient, PulsarConnection
from millstream.connectors.pulsar.declaring import PulsarBuilder
from millstream.connectors.pulsar.deduplicated import DeduplicatedSink, check_deduplication
from millstream.connectors.pulsar.keys import KeyHash
from millstream.connectors.pulsar.outgoing import MessageMaker, Outgoing
from millstream.connectors.pulsar.positions import pulsar_package
from millstream.connectors.pulsar.producing import Outbox
from millstream.connectors.pulsar.routing import MessageDelayer, TopicRouter, TopicRoutingMode
from millstream.connectors.pulsar.settings import PRODUCER, SINK
from millstream.connectors.pulsar.topics import full_name
from millstream.spi.batch import Rows
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["PulsarSink", "PulsarSinkBuilder"]

_MESSAGES = 5_000
_BYTES = 4 << 20
_DELAY_MS = 2


@dataclass(frozen=True, slots=True)
class PulsarSink(Sink):
    """Publishes a message for each record; made by `PulsarSink.builder()`.

    At least once: brokers have acknowledged all messages of an epoch before its checkpoint. Exactly once: messages wait
    in files until their checkpoint is complete, and topics leave out what comes twice.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.pulsar import PulsarSink
        >>> builder = PulsarSink.builder().set_service_url("pulsar://localhost:6650")
        >>> builder = builder.set_topics("persistent://public/default/answers")
        >>> sink = builder.set_serialization_schema(SimpleStringSchema()).build()  # stream.sink_to(sink)
    """

    _connection: PulsarConnection
    _maker: MessageMaker = field(repr=False)
    _producer_name: str
    _arguments: Mapping[str, Any]
    _delay: timedelta | None
    _guarantee: DeliveryGuarantee
    _directory: str | None

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        """Return a builder."""
        return PulsarSinkBuilder()

    def check(self) -> None:
        """See whether the topics are there, and, for exactly once, whether they deduplicate.

        Raises:
            SinkError: If not, or the cluster does not answer.
        """
        client = PulsarClient(self._connection, SinkError)
        try:
            for topic in self._maker.topics:
                client.partitions(topic)
            if self._is_exactly_once:
                check_deduplication(client, self._maker.topics)
        finally:
            client.close()
        if self._is_exactly_once:
            self._deduplicated().check()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        if self._is_exactly_once:
            return self._deduplicated().build_writer(context)
        name = f"{self._producer_name}-{context.new_name()}"
        return _PublishingWriter(self._connection, self._maker, name, self._arguments, self._delay)

    def build_committer(self) -> Committer | None:
        """Make the committer, for exactly once."""
        return self._deduplicated().build_committer() if self._is_exactly_once else None

    @property
    def _is_exactly_once(self) -> bool:
        return self._guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def _deduplicated(self) -> DeduplicatedSink:
        return DeduplicatedSink(
            self._connection,
            self._maker,
            self._producer_name,
            self._arguments,
            self._delay,
            self._directory,
        )


class PulsarSinkBuilder(PulsarBuilder):
    """Builds a `PulsarSink`; each method returns the builder.

    Service URL, topics (or a router) and a schema have to be set.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.pulsar import DeliveryGuarantee, PulsarSink
        >>> builder = PulsarSink.builder().set_service_url("pulsar://localhost:6650").set_admin_url("http://localhost:8080")
        >>> builder = builder.set_topics("answers").set_key(lambda answer: answer.partition(" ")[0])
        >>> builder = builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        >>> sink = builder.set_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        super().__init__({**SINK, **PRODUCER})
        self._topics: tuple[str, ...] = ()
        self._schema: SerializationSchema | None = None
        self._key: Callable[[Any], str | None] | None = None
        self._properties: Callable[[Any], Mapping[str, str]] | None = None
        self._mode = TopicRoutingMode.ROUND_ROBIN
        self._router: TopicRouter | None = None
        self._delayer = MessageDelayer.never()
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._directory: str | None = None

    def set_admin_url(self, admin_url: str) -> PulsarSinkBuilder:
        """Name the REST API, `http://host:8080`: EXACTLY_ONCE asks it whether topics deduplicate."""
        return self.set_config("pulsar.admin.adminUrl", admin_url)

    def set_service_url(self, service_url: str) -> PulsarSinkBuilder:
        """Name the cluster: `pulsar://host:6650`, or `pulsar+ssl://host:6651`."""
        return self.set_config("pulsar.client.serviceUrl", service_url)

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """Say what the names of producers begin with; by default `millstream`."""
        return self.set_config("pulsar.producer.producerName", producer_name)

    def set_topics(self, topics: str | Sequence[str]) -> PulsarSinkBuilder:
        """Write to these topics, or single partitions.

        Raises:
            ConfigurationError: If one has no such name.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        self._topics = tuple(dict.fromkeys(map(full_name, names)))
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PulsarSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE (the default) or EXACTLY_ONCE; NONE is written as AT_LEAST_ONCE."""
        self._guarantee = _checked(delivery_guarantee, DeliveryGuarantee, "set_delivery_guarantee")
        return self

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> PulsarSinkBuilder:
        """Choose how partitions are found: by turns (the default), by the hash of keys, or by a router."""
        self._mode = _checked(topic_routing_mode, TopicRoutingMode, "set_topic_routing_mode")
        return self

    def set_topic_router(self, topic_router_class_name: TopicRouter) -> PulsarSinkBuilder:
        """Choose partitions by a function: `(record, key, partitions) -> topic or partition`.

        Args:
            topic_router_class_name: The function; PyFlink takes the name of a Java class, which cannot run here.

        Raises:
            NotSupportedError: If it is the name of a class.
        """
        if not callable(topic_router_class_name):
            raise NotSupportedError(
                f"set_topic_router was given {topic_router_class_name!r}, no function",
                detail="There is no JVM in which a class could run.",
                hint="Give a function: lambda record, key, partitions: partitions[0].",
            )
        self._router, self._mode = topic_router_class_name, TopicRoutingMode.CUSTOM
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> PulsarSinkBuilder:
        """Choose the schema that makes messages of records.

        Raises:
            TypeMismatchError: If it is no schema.
        """
        self._schema = _checked(serialization_schema, SerializationSchema, "set_serialization_schema")
        return self

    def set_key(self, key: Callable[[Any], str | None]) -> PulsarSinkBuilder:
        """Choose a function that returns the key of a record's message, or None (millstream's own)."""
        self._key = key
        return self

    def set_message_properties(self, properties: Callable[[Any], Mapping[str, str]]) -> PulsarSinkBuilder:
        """Choose a function that returns the properties of a record's message (millstream's own)."""
        self._properties = properties
        return self

    def set_authentication(self, auth_plugin_class_name: str, auth_params_string: str) -> PulsarSinkBuilder:
        """Say how to log in, in the words of Pulsar's Java client; the parameters are shown nowhere.

        Args:
            auth_plugin_class_name: `org.apache.pulsar.client.impl.auth.AuthenticationToken` or another one of Pulsar's
                own; `token`, `basic`, `tls`, `oauth2` and `athenz` for short.
            auth_params_string: `token:…`, or what else the plug-in takes.

        Raises:
            NotSupportedError: If there is no such plug-in outside of Java.
        """
        self._log_in(auth_plugin_class_name, auth_params_string)
        return self

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        """Choose when consumers get messages; by default at once."""
        self._delayer = _checked(message_delayer, MessageDelayer, "delay_sending_message")
        return self

    def set_config(self, key: str | ConfigOption, value: Any) -> PulsarSinkBuilder:
        """Set one of Flink's options of the sink.

        Raises:
            ConfigurationError: If its value does not fit, or another one was set before.
            NotSupportedError: If there is no such option.
        """
        self._set(key, value)
        return self

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSinkBuilder:
        """Set options; those that were set before stay."""
        for key, value in config.items():
            self._set(key, value)
        return self

    def set_staging_directory(self, directory: str) -> PulsarSinkBuilder:
        """Choose where messages wait for their checkpoint, for EXACTLY_ONCE (millstream's own).

        By default beside the checkpoints. Every slot and the driver have to see it.
        """
        self._directory = directory
        return self

    def set_patience(self, patience: Patience) -> PulsarSinkBuilder:
        """Choose how long the cluster is waited for (millstream's own)."""
        self._patience = patience
        return self

    def build(self) -> PulsarSink:
        """Return the sink.

        Raises:
            ConfigurationError: If something is missing or does not fit, or the client library is not installed.
        """
        connection = self._connection("sink")
        if not self._topics and self._router is None:
            raise ConfigurationError("the Pulsar sink has no topic", hint="set_topics('orders').")
        if self._mode is TopicRoutingMode.CUSTOM and self._router is None:
            raise ConfigurationError("the Pulsar sink has no router", hint="set_topic_router(function).")
        if self._schema is None:
            raise ConfigurationError(
                "the Pulsar sink has no schema", hint="set_serialization_schema(SimpleStringSchema())."
            )
        arguments: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": _DELAY_MS}
        arguments |= self._options.arguments(PRODUCER)
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            self._check_exactly_once(connection)
            arguments["batching_enabled"] = False  # brokers number batches, not what is in them
        pulsar_package()
        maker = MessageMaker(
            self._topics,
            self._schema,
            self._key,
            self._properties,
            self._mode,
            self._key_hash(),
            self._router,
        )
        name = self._options.get("pulsar.producer.producerName", "millstream")
        return PulsarSink(
            connection, maker, name, arguments, self._delayer.delay, self._guarantee, self._directory
        )

    def _check_exactly_once(self, connection: PulsarConnection) -> None:
        if not self._topics:
            raise ConfigurationError(
                "a Pulsar sink that is exactly once has no topics",
                detail="They have to deduplicate, which is looked at before the job starts.",
                hint="set_topics(...) names those that the router chooses from.",
            )
        if connection.admin_url is None:
            raise ConfigurationError(
                "a Pulsar sink that is exactly once has no REST API to ask whether topics deduplicate",
                hint="set_admin_url('http://host:8080').",
            )
        if self._options.get("pulsar.producer.chunkingEnabled"):
            raise NotSupportedError(
                "a Pulsar sink that is exactly once does not cut messages into chunks",
                hint="Leave out pulsar.producer.chunkingEnabled, or take AT_LEAST_ONCE.",
            )

    def _key_hash(self) -> KeyHash:
        name = self._options.get("pulsar.sink.messageKeyHash", KeyHash.MURMUR3_32.value)
        found = [each for each in KeyHash if name.lower().replace("_", "-") == each.value]
        if not found:
            raise ConfigurationError(
                f"{name!r} is no hash of keys",
                detail=f"There are {', '.join(each.value for each in KeyHash)}.",
            )
        return found[0]


class _PublishingWriter(SinkWriter):
    """Publishes some thousand messages at a time, and the rest at the end of each epoch."""

    def __init__(
        self,
        connection: PulsarConnection,
        maker: MessageMaker,
        producer_name: str,
        arguments: Mapping[str, Any],
        delay: timedelta | None,
    ) -> None:
        self._client = PulsarClient(connection, SinkError)
        self._maker = maker
        self._outbox = Outbox(self._client, producer_name, arguments, delay)
        self._messages: list[Outgoing] = []
        self._bytes = 0

    def open(self) -> None:
        self._making = self._maker.opened(self._client)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        for message in self._making.messages_of(batch):
            self._messages.append(message)
            self._bytes += len(message.data)
            if len(self._messages) >= _MESSAGES or self._bytes >= _BYTES:
                self._flush()

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._flush()
        return []

    def close(self) -> None:
        self._outbox.close()
        self._client.close()

    def _flush(self) -> None:
        messages, self._messages, self._bytes = self._messages, [], 0
        self._outbox.publish((message, None) for message in messages)


def _checked(value: Any, kind: type[Any], method: str) -> Any:
    if not isinstance(value, kind):
        raise TypeMismatchError(f"{method} was given a {type(value).__name__}, not a {kind.__name__}")
    return value
