"""The source of JetStream's streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.nats.connection import NatsClient, NatsConnection
from millstream.connectors.nats.enumerator import StreamEnumerator
from millstream.connectors.nats.offsets import NatsOffsetsInitializer
from millstream.connectors.nats.reader import StreamReader
from millstream.connectors.nats.records import RecordDecoder
from millstream.connectors.nats.streams import StreamOfClient, check_stream_name
from millstream.connectors.stream_builder import StreamSourceBuilder
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["NatsStreamSource", "NatsStreamSourceBuilder"]


@dataclass(frozen=True, slots=True)
class NatsStreamSource(Source):
    """The messages of a stream of JetStream, each exactly once: where it stands is in checkpoints.

    One subtask reads the stream, in order; no durable consumer is made, and nothing is acknowledged. A message's event
    time is when the stream stored it. Made by `NatsStreamSource.builder()`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.nats import NatsStreamSource
        >>> builder = NatsStreamSource.builder().set_servers("nats://localhost:4222").set_stream("ORDERS")
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    """

    _connection: NatsConnection
    _stream: str
    _subject: str | None
    _decoder: RecordDecoder = field(repr=False)
    _start: NatsOffsetsInitializer
    _stop: NatsOffsetsInitializer | None
    _boundedness: Boundedness
    _poll_ms: int
    _fail_on_data_loss: bool

    @staticmethod
    def builder() -> NatsStreamSourceBuilder:
        """Return a builder."""
        return NatsStreamSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether it was built to end."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the schema tells it."""
        return self._decoder.produced_type

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the stream.

        Raises:
            SourceError: If the server does not answer, or has no such stream.
        """
        client = NatsClient(self._connection, SourceError)
        try:
            return StreamEnumerator(
                StreamOfClient(client, self._stream, self._subject),
                parallelism,
                start=self._start,
                stop=self._stop,
                poll_ms=self._poll_ms,
                fail_on_data_loss=self._fail_on_data_loss,
                restored=restored,
            )
        except BaseException:
            client.close()
            raise

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return StreamReader(
            self._connection,
            self._stream,
            self._subject,
            self._decoder,
            fail_on_data_loss=self._fail_on_data_loss,
        )


class NatsStreamSourceBuilder(StreamSourceBuilder[NatsOffsetsInitializer]):
    """Builds a `NatsStreamSource`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.nats import NatsOffsetsInitializer, NatsStreamSource
        >>> builder = NatsStreamSource.builder().set_servers("nats://localhost:4222").set_stream("ORDERS")
        >>> builder = builder.set_subject_filter("orders.bonn.>").set_bounded(NatsOffsetsInitializer.latest())
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).set_with_metadata().build()
    """

    def __init__(self) -> None:
        super().__init__(NatsOffsetsInitializer.earliest())
        self._urls: tuple[str, ...] = ()
        self._authority: str | None = None
        self._stream: str | None = None
        self._subject: str | None = None
        self._schema: DeserializationSchema | None = None
        self._with_metadata = False

    def set_servers(self, *urls: str) -> NatsStreamSourceBuilder:
        """Name the server, or several of a cluster: `nats://user:password@host:port`, or `tls://` with TLS.

        Raises:
            ConfigurationError: If one is no such URL.
        """
        NatsConnection(urls)
        self._urls = urls
        return self

    def set_certificate_authority(self, path: str) -> NatsStreamSourceBuilder:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._authority = path
        return self

    def set_stream(self, name: str) -> NatsStreamSourceBuilder:
        """Name the stream.

        Raises:
            ConfigurationError: If a stream cannot have such a name.
        """
        check_stream_name(name)
        self._stream = name
        return self

    def set_subject_filter(self, subject: str) -> NatsStreamSourceBuilder:
        """Read only messages with a subject, perhaps with wildcards: `orders.*.paid`, `orders.>`."""
        self._subject = subject
        return self

    def set_value_only_deserializer(self, schema: DeserializationSchema) -> NatsStreamSourceBuilder:
        """Choose the schema that makes values of messages.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, DeserializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no DeserializationSchema")
        self._schema = schema
        return self

    def set_with_metadata(self, with_metadata: bool = True) -> NatsStreamSourceBuilder:
        """Have records be `NatsMessage`s: the value with subject, headers, sequence and time of its message."""
        self._with_metadata = with_metadata
        return self

    def build(self) -> NatsStreamSource:
        """Return the source.

        Raises:
            ConfigurationError: If servers, stream or schema are missing.
        """
        connection = NatsConnection(self._urls, self._patience, self._authority)
        if self._stream is None:
            raise ConfigurationError("the NATS source has no stream", hint="set_stream('name').")
        if self._schema is None:
            raise ConfigurationError(
                "the NATS source has no schema", hint="set_value_only_deserializer(SimpleStringSchema())."
            )
        return NatsStreamSource(
            connection,
            self._stream,
            self._subject,
            RecordDecoder(self._schema, self._policy, self._with_metadata),
            self._start,
            self._stop,
            self._boundedness,
            self._poll_ms,
            self._fail_on_data_loss,
        )
