"""The source of a WebSocket: a source function, given to `add_source`.

A server sends each message once. With checkpoints a record is in the receive log (`connectors/receive_log.py`) before
the next message is taken, and from then on it is processed exactly once::

    server ─► library (some messages) ─► log ─► job        what is lost: all on the left of the log, and what the
                                                           server sends while nobody is connected
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.common.functions import RuntimeContext
from millstream.common.source_functions import SourceContext, SourceFunction
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.connectors.patience import Patience
from millstream.connectors.reconnects import Reconnects
from millstream.connectors.websocket.connection import WebSocketServer, WebSocketTarget
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation

__all__ = ["WebSocketSource", "WebSocketSourceBuilder"]

log = logging.getLogger(__name__)

_WHAT = "receiving"
_WAIT_S = 0.2


class WebSocketSource(SourceFunction):
    """Receives the messages of a WebSocket, in one subtask; made by `WebSocketSource.builder()`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.websocket import WebSocketSource
        >>> builder = WebSocketSource.builder().set_url("ws://localhost:8080/trades")
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()  # env.add_source(source)
    """

    def __init__(
        self, target: WebSocketTarget, schema: DeserializationSchema, policy: MalformedPolicy
    ) -> None:
        super().__init__()
        self._target = target
        self._schema = schema
        self._policy = policy

    @staticmethod
    def builder() -> WebSocketSourceBuilder:
        """Return a builder."""
        return WebSocketSourceBuilder()

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the schema tells."""
        return produced_type_of(self._schema)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; the server is connected to when `run` begins."""
        self._running = True
        self._server = WebSocketServer(self._target, SourceError)
        self._decoder = MessageDecoder(
            self._schema,
            self._policy,
            SourceReaderContext(runtime_context.get_metrics_group()),
            source=f"the WebSocket {self._target.address}",
        )

    def run(self, ctx: SourceContext) -> None:
        """Receive messages, by one connection after the other."""
        server, reconnects = self._server, Reconnects()
        while self._running:
            connection = server.call(_WHAT, server.connect, goes_on=lambda: self._running)
            reconnects.connected()
            try:
                self._receive(ctx, connection)
            except server.all_errors as error:
                self._lose(error, reconnects)
            finally:
                connection.close()

    def cancel(self) -> None:
        """Receive no more."""
        self._running = False

    def _receive(self, ctx: SourceContext, connection: Any) -> None:
        while self._running:
            try:
                message = connection.recv(timeout=_WAIT_S)
            except TimeoutError:
                continue
            body = message.encode() if isinstance(message, str) else message
            values, _ = self._decoder.decode_values([body], lambda _: "a message")
            for value in values:
                ctx.collect(value)

    def _lose(self, error: Exception, reconnects: Reconnects) -> None:
        if not self._server.is_passing(error):
            raise self._server.explain(_WHAT, error) from error
        if reconnects.lost():
            raise SourceError(
                f"WebSocket {self._target.address} was closed {reconnects.losses} times shortly after it was "
                f"opened: {error}",
                hint="Does the server take the first messages, and does it allow one more client?",
            ) from error
        if reconnects.losses == 1:
            log.warning("WebSocket %s: connection lost: %s", self._target.address, error)
        reconnects.pause()


class WebSocketSourceBuilder:
    """Builds a `WebSocketSource`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.websocket import WebSocketSource
        >>> builder = WebSocketSource.builder().set_url("wss://example.org/trades")
        >>> builder = builder.set_subscribe_messages('{"subscribe": "trades"}').set_max_message_bytes(1_000_000)
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._target: WebSocketTarget | None = None
        self._changes: dict[str, Any] = {}
        self._schema: DeserializationSchema | None = None
        self._policy = MalformedPolicy.fail()

    def set_url(self, url: str) -> WebSocketSourceBuilder:
        """Name the server: `wss://user:password@host/path`, or `ws://` without TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        self._target = WebSocketTarget(url)
        return self

    def set_headers(self, headers: Mapping[str, str]) -> WebSocketSourceBuilder:
        """Choose headers of the handshake, such as `Authorization`; they are shown nowhere."""
        self._changes["headers"] = dict(headers)
        return self

    def set_subscribe_messages(self, *messages: str | bytes) -> WebSocketSourceBuilder:
        """Choose what is sent behind each handshake, such as what to subscribe to; text or bytes."""
        self._changes["first_messages"] = messages
        return self

    def set_value_only_deserializer(self, schema: DeserializationSchema) -> WebSocketSourceBuilder:
        """Choose the schema that makes values of messages; text comes as UTF-8.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, DeserializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no DeserializationSchema")
        self._schema = schema
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> WebSocketSourceBuilder:
        """Choose what becomes of messages that do not parse: fail (the default) or skip.

        Raises:
            NotSupportedError: If they are to go to a side output.
        """
        if policy not in (MalformedPolicy.fail(), MalformedPolicy.skip()):
            raise NotSupportedError(
                "a source function has no side output for dead letters",
                hint="MalformedPolicy.skip(), or read bytes and parse them in a process function.",
            )
        self._policy = policy
        return self

    def set_ping_interval(self, interval: Time | Duration) -> WebSocketSourceBuilder:
        """Choose how often the server is asked for a sign of life, and how long it may take; 20 s by default."""
        self._changes["ping_s"] = to_milliseconds(interval) / 1_000
        return self

    def set_max_message_bytes(self, size: int) -> WebSocketSourceBuilder:
        """Choose how large a message may be; 16 MB by default."""
        self._changes["max_message_bytes"] = size
        return self

    def set_certificate_authority(self, path: str) -> WebSocketSourceBuilder:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._changes["authority"] = path
        return self

    def set_patience(self, patience: Patience) -> WebSocketSourceBuilder:
        """Choose how long the server is waited for."""
        self._changes["patience"] = patience
        return self

    def build(self) -> WebSocketSource:
        """Return the source.

        Raises:
            ConfigurationError: If URL or schema are missing, or something does not fit.
        """
        if self._target is None:
            raise ConfigurationError("the WebSocket source has no URL", hint="set_url('wss://host/path').")
        if self._schema is None:
            raise ConfigurationError(
                "the WebSocket source has no schema",
                hint="set_value_only_deserializer(SimpleStringSchema()).",
            )
        return WebSocketSource(replace(self._target, **self._changes), self._schema, self._policy)
