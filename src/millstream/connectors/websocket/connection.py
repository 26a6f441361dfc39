"""Where a WebSocket server is, and what its errors mean."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["WebSocketServer", "WebSocketTarget"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_OPEN_S = 10.0
_CLOSE_S = 2.0
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_REFUSED = frozenset({1003, 1007, 1008, 1009, 1010})
"""Codes of closing that mean that the same would come again: what was sent does not fit, or may not be sent."""

_AWAY = "Check that the server runs and can be reached from where slots run."
_RIGHTS = "Check the URL, user and password, and the header Authorization."
_TLS = "Check which authority signed the server's certificate: set_certificate_authority(...)."
_TOO_LARGE = "Allow larger messages: set_max_message_bytes(...) of the source, or an option of the server."


@dataclass(frozen=True, slots=True)
class WebSocketTarget:
    """Where a server is; URL, headers and first messages may hold secrets, so they are shown nowhere.

    Attributes:
        url: `wss://user:password@host/path?name=value`, or `ws://…` without TLS.
        headers: Sent with the handshake.
        first_messages: Sent behind each handshake: text or bytes.
        ping_s: How often the server is asked for a sign of life, in seconds, and how long it may take.
        max_message_bytes: How large a message may be that comes.
        patience: How long a server that is away is waited for.
        authority: File with the certificates of the authority that signs the server's; None for those of the system.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    first_messages: tuple[str | bytes, ...] = field(default=(), repr=False)
    ping_s: float = 20.0
    max_message_bytes: int = 16 << 20
    patience: Patience = field(default_factory=Patience)
    authority: str | None = None

    def __post_init__(self) -> None:
        parts = self._parts()
        try:
            fits = parts.scheme in ("ws", "wss") and bool(parts.hostname) and not parts.fragment
            _ = parts.port
        except ValueError:
            fits = False
        if not fits:
            raise ConfigurationError(
                "the URL of the WebSocket does not fit", hint="It is ws://host:port/path, or wss:// with TLS."
            )
        if self.ping_s <= 0 or self.max_message_bytes <= 0:
            raise ConfigurationError("the interval of pings, or the size of messages, is not positive")

    @property
    def address(self) -> str:
        """The URL without user, password and query, for messages."""
        parts = self._parts()
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def tls(self) -> ssl.SSLContext | None:
        """Return the settings of TLS; None without it."""
        if self._parts().scheme == "ws":
            return None
        return ssl.create_default_context(cafile=self.authority)

    def _parts(self) -> SplitResult:
        return urlsplit(self.url if isinstance(self.url, str) else "")


class WebSocketServer:
    """Connects to a server: waits while it is away, and says what its errors mean.

    Args:
        target: Where it is.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, target: WebSocketTarget, error_type: type[MillstreamError]) -> None:
        self._client = load_package(
            "websockets.sync.client", extra="websocket", what="WebSocket sources and sinks"
        )
        self._errors = load_package(
            "websockets.exceptions", extra="websocket", what="WebSocket sources and sinks"
        )
        its_log = logging.getLogger("websockets")
        if its_log.level == logging.NOTSET:  # it would log headers
            its_log.setLevel(logging.WARNING)
        self.target = target
        self._error_type = error_type

    def call(
        self, what: str, action: Callable[[], Result], goes_on: Callable[[], bool] = lambda: True
    ) -> Result:
        """Return what an action gives; it is repeated while the server is away.

        Args:
            what: What is being done: `receiving`.
            action: Connects anew where need be; may be repeated.
            goes_on: Whether it is still wanted.

        Raises:
            MillstreamError: If the server refuses it, or stays away.
        """
        try:
            return self.target.patience.call(
                action,
                is_passing=lambda error: self.is_passing(error) and goes_on(),
                what=f"WebSocket {self.target.address}, {what}",
                log=log,
            )
        except self.all_errors as error:
            raise self.explain(what, error) from error

    @property
    def all_errors(self) -> tuple[type[Exception], ...]:
        """What connecting, sending and receiving may raise."""
        return (self._errors.WebSocketException, OSError)

    def connect(self) -> Any:
        """Return a connection, with the first messages sent.

        Raises:
            Exception: One of `all_errors`.
        """
        target = self.target
        with ExitStack() as stack:
            connection = stack.enter_context(
                self._client.connect(
                    target.url,
                    ssl=target.tls(),
                    additional_headers=dict(target.headers),
                    open_timeout=_OPEN_S,
                    close_timeout=_CLOSE_S,
                    ping_interval=target.ping_s,
                    ping_timeout=target.ping_s,
                    max_size=target.max_message_bytes,
                    proxy=None,
                )
            )
            for message in target.first_messages:
                connection.send(message)
            stack.pop_all()  # the caller closes it
        return connection

    def is_passing(self, error: Exception) -> bool:
        """Return whether an error may pass by itself."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return False
        status, code = self._status(error), self._code(error)
        if status is not None:
            return status in _BUSY
        return isinstance(error, self.all_errors) and code not in _REFUSED

    def explain(self, what: str, error: Exception) -> MillstreamError:
        """Return the error that says what one of the network, or of the client library, means.

        Args:
            what: What was being done.
            error: What was seen.
        """
        status, code = self._status(error), self._code(error)
        said = f"status {status} instead of a WebSocket" if status is not None else str(error)
        if isinstance(error, ssl.SSLError):
            hint = _TLS
        elif code == 1009:
            hint = _TOO_LARGE
        else:
            hint = _AWAY if self.is_passing(error) else _RIGHTS
        return self._error_type(
            f"{self.target.address} refused or did not answer, {what}: {said or type(error).__name__}",
            hint=hint,
        )

    def _status(self, error: Exception) -> int | None:
        return error.response.status_code if isinstance(error, self._errors.InvalidStatus) else None

    def _code(self, error: Exception) -> int | None:
        """Return with which code the connection was closed, by either side; None if that is not known."""
        if not isinstance(error, self._errors.ConnectionClosed):
            return None
        closed = error.rcvd or error.sent
        return None if closed is None else closed.code
