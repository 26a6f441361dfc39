"""The sink of a WebSocket.

WebSocket has no acknowledgements, but answers pings in order: when the pong for a ping behind an epoch's messages is
there, the server's WebSocket library has received them. Until then they are kept, and sent again by a new connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.patience import Patience
from millstream.connectors.websocket.connection import WebSocketServer, WebSocketTarget
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["WebSocketSink", "WebSocketSinkBuilder"]

_MESSAGES = 1_000
_BYTES = 4 << 20
_PONG_S = 10.0
_SLICE_S = 0.05


class WebSocketSink(Sink):
    """Sends a message for each record, by a connection of each subtask; made by `WebSocketSink.builder()`.

    At least once as far as the server's WebSocket library: what its program does with messages is not known.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.websocket import WebSocketSink
        >>> builder = WebSocketSink.builder().set_url("ws://localhost:8080/totals")
        >>> sink = builder.set_value_serialization_schema(SimpleStringSchema()).build()  # stream.sink_to(sink)
    """

    def __init__(self, target: WebSocketTarget, schema: SerializationSchema, *, binary: bool) -> None:
        self._target = target
        self._schema = schema
        self._binary = binary

    @staticmethod
    def builder() -> WebSocketSinkBuilder:
        """Return a builder."""
        return WebSocketSinkBuilder()

    def check(self) -> None:
        """See whether the server takes connections.

        Raises:
            SinkError: If not.
        """
        server = WebSocketServer(self._target, SinkError)
        server.call("connecting", server.connect).close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _SendingWriter(self._target, self._schema, binary=self._binary)


class WebSocketSinkBuilder:
    """Builds a `WebSocketSink`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.websocket import WebSocketSink
        >>> builder = WebSocketSink.builder().set_url("wss://example.org/in").set_first_messages('{"type": "hello"}')
        >>> sink = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._target: WebSocketTarget | None = None
        self._changes: dict[str, Any] = {}
        self._schema: SerializationSchema | None = None
        self._binary = False

    def set_url(self, url: str) -> WebSocketSinkBuilder:
        """Name the server: `wss://user:password@host/path`, or `ws://` without TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        self._target = WebSocketTarget(url)
        return self

    def set_headers(self, headers: Mapping[str, str]) -> WebSocketSinkBuilder:
        """Choose headers of the handshake, such as `Authorization`; they are shown nowhere."""
        self._changes["headers"] = dict(headers)
        return self

    def set_first_messages(self, *messages: str | bytes) -> WebSocketSinkBuilder:
        """Choose what is sent behind each handshake, before records; text or bytes."""
        self._changes["first_messages"] = messages
        return self

    def set_value_serialization_schema(self, schema: SerializationSchema) -> WebSocketSinkBuilder:
        """Choose the schema that makes messages of records.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, SerializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no SerializationSchema")
        self._schema = schema
        return self

    def set_binary(self, binary: bool = True) -> WebSocketSinkBuilder:
        """Choose whether messages are binary; by default they are text, so what the schema makes has to be UTF-8."""
        self._binary = binary
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> WebSocketSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE, the default; NONE is written as AT_LEAST_ONCE.

        Raises:
            NotSupportedError: If it is EXACTLY_ONCE.
        """
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise NotSupportedError(
                "the WebSocket sink is not exactly once",
                detail="The protocol has no transactions, nor acknowledgements.",
                hint="Give records a key that whoever receives them leaves repetitions out by.",
            )
        return self

    def set_certificate_authority(self, path: str) -> WebSocketSinkBuilder:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._changes["authority"] = path
        return self

    def set_patience(self, patience: Patience) -> WebSocketSinkBuilder:
        """Choose how long the server is waited for."""
        self._changes["patience"] = patience
        return self

    def build(self) -> WebSocketSink:
        """Return the sink.

        Raises:
            ConfigurationError: If URL or schema are missing, or something does not fit.
        """
        if self._target is None:
            raise ConfigurationError("the WebSocket sink has no URL", hint="set_url('wss://host/path').")
        if self._schema is None:
            raise ConfigurationError(
                "the WebSocket sink has no schema",
                hint="set_value_serialization_schema(SimpleStringSchema()).",
            )
        return WebSocketSink(replace(self._target, **self._changes), self._schema, binary=self._binary)


class _SendingWriter(SinkWriter):
    """Sends some thousand messages at a time, and the rest at the end of each epoch."""

    def __init__(self, target: WebSocketTarget, schema: SerializationSchema, *, binary: bool) -> None:
        self._server = WebSocketServer(target, SinkError)
        self._schema = schema
        self._binary = binary
        self._messages: list[str | bytes] = []
        self._bytes = 0
        self._connection: Any = None

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        for value in batch.values:
            try:
                body = self._schema.serialize(value)
                message = body if self._binary else body.decode()
            except BaseException as error:
                attach_element(error, value)
                raise
            self._messages.append(message)
            self._bytes += len(body)
            if len(self._messages) >= _MESSAGES or self._bytes >= _BYTES:
                self._flush()

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._flush()
        return []

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _flush(self) -> None:
        if self._messages:
            self._server.call(f"sending {len(self._messages)} messages", self._send)
            self._messages, self._bytes = [], 0

    def _send(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._server.connect()
            for message in self._messages:
                self._connection.send(message)
            self._wait_until_received(self._connection)
        except BaseException:
            self.close()
            raise

    def _wait_until_received(self, connection: Any) -> None:
        """Wait for the pong behind the messages; drop what the server sends meanwhile.

        Raises:
            Exception: One of the server's `all_errors`.
        """
        clock = SystemClock()
        deadline = clock.monotonic() + _PONG_S
        pong = connection.ping(ack_on_close=True)
        while not pong.wait(_SLICE_S):
            _drop_messages(connection)  # or the library would read no further
            if clock.monotonic() > deadline:
                raise TimeoutError(f"no pong within {_PONG_S:.0f} s")
        _drop_messages(connection)  # raises if it was closed


def _drop_messages(connection: Any) -> None:
    while True:
        try:
            connection.recv(timeout=0)
        except TimeoutError:
            return
