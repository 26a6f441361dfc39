"""The sink of topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.mqtt.connection import MqttBroker, MqttConnection
from millstream.connectors.mqtt.session import MqttSession, Publication, SessionSettings
from millstream.connectors.patience import Patience
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["MqttSink", "MqttSinkBuilder"]

Topic = str | Callable[[Any], str]

_MESSAGES = 1_000
_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class MqttSink(Sink):
    """Publishes a message for each record, at least once with QoS 1 or 2; made by `MqttSink.builder()`.

    The broker has acknowledged all messages of an epoch before the epoch's checkpoint.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.mqtt import MqttSink
        >>> builder = MqttSink.builder().set_broker("mqtt://localhost:1883").set_topic("alarms").set_qos(1)
        >>> sink = builder.set_value_serialization_schema(SimpleStringSchema()).build()  # stream.sink_to(sink)
    """

    _connection: MqttConnection
    _topic: Topic = field(repr=False)
    _schema: SerializationSchema = field(repr=False)
    _qos: int
    _retained: bool | Callable[[Any], bool] = field(repr=False)
    _properties: Callable[[Any], dict[str, str]] | None = field(repr=False)

    @staticmethod
    def builder() -> MqttSinkBuilder:
        """Return a builder."""
        return MqttSinkBuilder()

    def check(self) -> None:
        """See whether the broker answers, and takes the login.

        Raises:
            SinkError: If not.
        """
        publisher = _Publisher(self._connection)
        publisher.publish({})
        publisher.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _PublishingWriter(self)


class MqttSinkBuilder:
    """Builds an `MqttSink`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.mqtt import MqttSink
        >>> builder = MqttSink.builder().set_broker("mqtt://localhost:1883").set_topic("rooms/last").set_retained()
        >>> sink = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._url: str | None = None
        self._authority: str | None = None
        self._patience = Patience()
        self._topic: Topic | None = None
        self._schema: SerializationSchema | None = None
        self._qos = 1
        self._retained: bool | Callable[[Any], bool] = False
        self._properties: Callable[[Any], dict[str, str]] | None = None

    def set_broker(self, url: str) -> MqttSinkBuilder:
        """Name the broker: `mqtt://user:password@host:1883`, or `mqtts://` with TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        MqttConnection(url)
        self._url = url
        return self

    def set_certificate_authority(self, path: str) -> MqttSinkBuilder:
        """Choose the file with the certificates of who signed the broker's; by default those of the system."""
        self._authority = path
        return self

    def set_topic(self, topic: Topic) -> MqttSinkBuilder:
        """Choose the topic, or a function that returns that of a record.

        Raises:
            ConfigurationError: If nothing can be published to it.
        """
        if isinstance(topic, str) and not _is_topic(topic):
            raise ConfigurationError(
                f"nothing can be published to the MQTT topic {topic!r}",
                detail="It has a character at least, and no + and #.",
            )
        self._topic = topic
        return self

    def set_value_serialization_schema(self, schema: SerializationSchema) -> MqttSinkBuilder:
        """Choose the schema that makes payloads of records.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, SerializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no SerializationSchema")
        self._schema = schema
        return self

    def set_qos(self, qos: int) -> MqttSinkBuilder:
        """Choose the quality of service: 1, the default; 2; or 0, with which messages may be lost.

        Raises:
            ConfigurationError: If it is none of these.
        """
        if qos not in (0, 1, 2):
            raise ConfigurationError(f"the QoS is {qos!r}, must be 0, 1 or 2")
        self._qos = qos
        return self

    def set_retained(self, retained: bool | Callable[[Any], bool] = True) -> MqttSinkBuilder:
        """Choose whether the broker keeps a topic's last message for later subscribers, perhaps by record."""
        self._retained = retained
        return self

    def set_user_properties(self, properties: Callable[[Any], dict[str, str]]) -> MqttSinkBuilder:
        """Choose a function that returns the user properties of a record's message."""
        self._properties = properties
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> MqttSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE, the default; NONE is the same as QoS 0.

        Raises:
            NotSupportedError: If it is EXACTLY_ONCE.
        """
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise NotSupportedError(
                "the MQTT sink is not exactly once",
                detail="MQTT has no transactions; QoS 2 is exactly once between a client and a broker that both live.",
                hint="Give records a key that whoever reads them leaves repetitions out by.",
            )
        self._qos = 0 if guarantee is DeliveryGuarantee.NONE else max(self._qos, 1)
        return self

    def set_patience(self, patience: Patience) -> MqttSinkBuilder:
        """Choose how long the broker is waited for."""
        self._patience = patience
        return self

    def build(self) -> MqttSink:
        """Return the sink.

        Raises:
            ConfigurationError: If broker, topic or schema are missing.
        """
        if self._url is None:
            raise ConfigurationError("the MQTT sink has no broker", hint="set_broker('mqtt://host:1883').")
        if self._topic is None:
            raise ConfigurationError("the MQTT sink has no topic", hint="set_topic('plant/alarms').")
        if self._schema is None:
            raise ConfigurationError(
                "the MQTT sink has no schema", hint="set_value_serialization_schema(SimpleStringSchema())."
            )
        connection = MqttConnection(self._url, self._patience, self._authority)
        return MqttSink(connection, self._topic, self._schema, self._qos, self._retained, self._properties)


class _Publisher:
    """Publishes by one connection after the other."""

    def __init__(self, connection: MqttConnection) -> None:
        self._broker = MqttBroker(connection, SinkError)
        self._session: MqttSession | None = None

    def publish(self, publications: dict[int, Publication]) -> None:
        """Publish messages; connect first where there is no connection.

        Raises:
            SinkError: If the broker refuses it, or stays away.
        """
        self._broker.call(f"publishing {len(publications)} messages", lambda: self._try(publications))

    def close(self) -> None:
        """End the connection."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _try(self, publications: dict[int, Publication]) -> None:
        try:
            if self._session is None:
                self._session = MqttSession(self._broker.connection, SessionSettings())
                self._session.open()
            self._session.publish(publications)
        except BaseException:
            self.close()
            raise


class _PublishingWriter(SinkWriter):
    """Publishes some thousand messages at a time, and the rest at the end of each epoch."""

    def __init__(self, sink: MqttSink) -> None:
        self._sink = sink
        self._publisher = _Publisher(sink._connection)
        self._waiting: dict[int, Publication] = {}
        self._bytes = 0

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        for value in batch.values:
            try:
                publication = self._publication(value)
            except BaseException as error:
                attach_element(error, value)
                raise
            self._waiting[len(self._waiting)] = publication
            self._bytes += len(publication.payload)
            if len(self._waiting) >= _MESSAGES or self._bytes >= _BYTES:
                self._flush()

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._flush()
        return []

    def close(self) -> None:
        self._publisher.close()

    def _publication(self, value: Any) -> Publication:
        sink = self._sink
        topic = sink._topic if isinstance(sink._topic, str) else sink._topic(value)
        if not _is_topic(topic):
            raise SinkError(
                f"nothing can be published to the MQTT topic {topic!r}",
                detail="It has a character at least, and no + and #.",
            )
        return Publication(
            topic,
            sink._schema.serialize(value),
            sink._qos,
            sink._retained if isinstance(sink._retained, bool) else bool(sink._retained(value)),
            None if sink._properties is None else sink._properties(value),
        )

    def _flush(self) -> None:
        if self._waiting:
            self._publisher.publish(self._waiting)
            self._bytes = 0


def _is_topic(topic: Any) -> bool:
    return isinstance(topic, str) and bool(topic) and not set(topic) & set("+#\0")
