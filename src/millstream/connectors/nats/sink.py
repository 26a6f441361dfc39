"""The sink of subjects that streams store."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.connectors.batching_writer import BatchingWriter
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.nats.connection import (
    ANSWER_S,
    NatsClient,
    NatsConnection,
    NatsRefusal,
    NatsSession,
)
from millstream.connectors.patience import Patience
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["NatsSink", "NatsSinkBuilder"]

Subject = str | Callable[[Any], str]

_MESSAGE_ID = "Nats-Msg-Id"


@dataclass(frozen=True, slots=True)
class _Message:
    subject: str
    data: bytes
    headers: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class NatsSink(Sink):
    """Publishes a message for each record, at least once; made by `NatsSink.builder()`.

    A stream has acknowledged all messages of an epoch before the epoch's checkpoint.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.nats import NatsSink
        >>> builder = NatsSink.builder().set_servers("nats://localhost:4222").set_subject("totals")
        >>> sink = builder.set_value_serialization_schema(SimpleStringSchema()).build()  # stream.sink_to(sink)
    """

    _connection: NatsConnection
    _subject: Subject = field(repr=False)
    _schema: SerializationSchema = field(repr=False)
    _message_id: Callable[[Any], str] | None = field(repr=False)
    _headers: Callable[[Any], dict[str, str]] | None = field(repr=False)

    @staticmethod
    def builder() -> NatsSinkBuilder:
        """Return a builder."""
        return NatsSinkBuilder()

    def check(self) -> None:
        """See whether the server answers, and whether a stream stores the subject if it is the same for all records.

        Raises:
            SinkError: If not.
        """
        client = NatsClient(self._connection, SinkError)
        what = "looking for the stream of the sink's subject"
        try:
            request = {"subject": self._subject} if isinstance(self._subject, str) else {}
            answer = client.call(what, lambda session: session.ask("STREAM.NAMES", request))
        except NatsRefusal as error:
            raise client.explain(what, error) from error
        finally:
            client.close()
        if request and not answer.get("streams"):
            raise _no_stream(str(self._subject))

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _PublishingWriter(self)


class NatsSinkBuilder:
    """Builds a `NatsSink`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.nats import NatsSink
        >>> builder = NatsSink.builder().set_servers("nats://localhost:4222").set_subject("orders")
        >>> builder = builder.set_message_id(lambda order: order)  # the server leaves out what comes twice
        >>> sink = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._urls: tuple[str, ...] = ()
        self._authority: str | None = None
        self._patience = Patience()
        self._subject: Subject | None = None
        self._schema: SerializationSchema | None = None
        self._message_id: Callable[[Any], str] | None = None
        self._headers: Callable[[Any], dict[str, str]] | None = None

    def set_servers(self, *urls: str) -> NatsSinkBuilder:
        """Name the server, or several of a cluster: `nats://user:password@host:port`, or `tls://` with TLS.

        Raises:
            ConfigurationError: If one is no such URL.
        """
        NatsConnection(urls)
        self._urls = urls
        return self

    def set_certificate_authority(self, path: str) -> NatsSinkBuilder:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._authority = path
        return self

    def set_subject(self, subject: Subject) -> NatsSinkBuilder:
        """Choose the subject, or a function that returns that of a record; a stream has to store it."""
        self._subject = subject
        return self

    def set_value_serialization_schema(self, schema: SerializationSchema) -> NatsSinkBuilder:
        """Choose the schema that makes messages of records.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, SerializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no SerializationSchema")
        self._schema = schema
        return self

    def set_headers(self, headers: Callable[[Any], dict[str, str]]) -> NatsSinkBuilder:
        """Choose a function that returns the headers of a record's message."""
        self._headers = headers
        return self

    def set_message_id(self, message_id: Callable[[Any], str]) -> NatsSinkBuilder:
        """Choose a function that returns what a record is known by (`Nats-Msg-Id`).

        A stream leaves out messages whose id came within its window of duplicates, two minutes by default.
        """
        self._message_id = message_id
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> NatsSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE, the default; NONE is written as AT_LEAST_ONCE.

        Raises:
            NotSupportedError: If it is EXACTLY_ONCE.
        """
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise NotSupportedError(
                "the NATS sink is not exactly once",
                detail="That needs several messages to be stored at once or not at all: atomic batches, which servers "
                "have since 2.12, and which this sink does not use.",
                hint="set_message_id(...) has a stream leave out what comes twice within its window of duplicates.",
            )
        return self

    def set_patience(self, patience: Patience) -> NatsSinkBuilder:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self

    def build(self) -> NatsSink:
        """Return the sink.

        Raises:
            ConfigurationError: If servers, subject or schema are missing.
        """
        connection = NatsConnection(self._urls, self._patience, self._authority)
        if not self._subject:
            raise ConfigurationError("the NATS sink has no subject", hint="set_subject('orders.paid').")
        if self._schema is None:
            raise ConfigurationError(
                "the NATS sink has no schema", hint="set_value_serialization_schema(SimpleStringSchema())."
            )
        return NatsSink(connection, self._subject, self._schema, self._message_id, self._headers)


class _PublishingWriter(BatchingWriter[_Message]):
    """Publishes messages."""

    def __init__(self, sink: NatsSink) -> None:
        super().__init__()
        self._sink = sink
        self._client = NatsClient(sink._connection, SinkError)

    def close(self) -> None:
        self._client.close()

    def message(self, value: Any) -> _Message:
        """Return a message with its subject and headers."""
        sink = self._sink
        subject = sink._subject if isinstance(sink._subject, str) else sink._subject(value)
        headers = dict(sink._headers(value)) if sink._headers is not None else {}
        if sink._message_id is not None:
            headers[_MESSAGE_ID] = str(sink._message_id(value))
        return _Message(subject, sink._schema.serialize(value), headers or None)

    def size_of(self, message: _Message) -> int:
        """Return the size of its data."""
        return len(message.data)

    def send(self, messages: list[_Message]) -> None:
        """Publish messages."""
        what = f"publishing {len(messages)} messages"
        try:
            self._client.call(what, lambda session: _publish(session, messages))
        except NatsRefusal as error:
            raise self._client.explain(what, error) from error


async def _publish(session: NatsSession, messages: Sequence[_Message]) -> None:
    """Publish messages, and wait until each is acknowledged.

    Raises:
        NatsRefusal: If a stream refuses one.
        SinkError: If no stream stores the subject of one.
        TimeoutError: If acknowledgements are missing: all have to be published again.
    """
    nats = session.nats
    inbox = nats.new_inbox()
    answers = await nats.subscribe(f"{inbox}.*", pending_msgs_limit=0, pending_bytes_limit=0)
    try:
        for index, message in enumerate(messages):
            await nats.publish(
                message.subject, message.data, reply=f"{inbox}.{index}", headers=message.headers
            )
        missing = set(range(len(messages)))
        while missing:
            answer = await answers.next_msg(timeout=ANSWER_S)
            index = int(answer.subject.rpartition(".")[2])
            if answer.headers and answer.headers.get("Status") == "503":
                raise _no_stream(messages[index].subject)
            told = json.loads(answer.data)
            if "error" in told:
                raise NatsRefusal.of(told)
            missing.discard(index)
    finally:
        if not nats.is_closed:
            await answers.unsubscribe()


def _no_stream(subject: str) -> SinkError:
    return SinkError(
        f'no stream stores the NATS subject "{subject}"',
        hint="Make one before the job starts: nats stream add --subjects=…; without a stream messages are lost.",
    )
