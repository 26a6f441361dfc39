"""Where a NATS server is, and what its errors mean.

The client library is made for asyncio. Its loop runs in a thread of its own, which ends with the client; whoever calls
waits for the result. A connection that is lost is dropped and made anew by the next call, so `Patience` alone decides
how long a server is waited for.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["ANSWER_S", "NatsClient", "NatsConnection", "NatsRefusal", "NatsSession"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_SCHEMES = ("nats", "tls")
_PORT = 4222
_CONNECT_S = 5
ANSWER_S = 5.0
_END_S = 2.0

_UNAVAILABLE = 503
_NO_SUCH_STREAM = 10059

_AWAY = "Check that the server runs and can be reached from the driver and from where slots run."
_LOGIN = "Check user and password, or the token: nats://user:password@host:4222, nats://token@host:4222."
_RIGHTS = "Have somebody allow the subject to the user: the page of the connector lists those that are used."
_NO_JETSTREAM = "Check that the server has JetStream (nats-server -js), and that the account may use it."
_TLS = "Check that TLS is meant (tls://), and which authority signed the certificate (set_certificate_authority)."


class NatsRefusal(Exception):
    """What JetStream answers instead of what it was asked for.

    Args:
        code: As of HTTP.
        error_code: NATS's own.
        description: The text.
    """

    def __init__(self, code: int, error_code: int, description: str) -> None:
        super().__init__(f"{description} (error {error_code or code})")
        self.code = code
        self.error_code = error_code

    @staticmethod
    def of(answer: dict[str, Any]) -> NatsRefusal:
        """Return the refusal that an answer with an error tells."""
        error = answer["error"]
        return NatsRefusal(
            error.get("code", 0), error.get("err_code", 0), error.get("description", "refused")
        )

    @property
    def is_no_stream(self) -> bool:
        """Whether there is no such stream."""
        return self.error_code == _NO_SUCH_STREAM


@dataclass(frozen=True, slots=True)
class NatsConnection:
    """Where the servers are; URLs may hold a password or token, so they are shown nowhere.

    Attributes:
        urls: `nats://user:password@host:port`, `nats://token@host:port`, or `tls://…`: of one server, or of several
            of a cluster. The first one that has them tells user and password.
        patience: How long a server is waited for.
        authority: File with the certificates of the authority that signs the server's; None for those of the system.
    """

    urls: tuple[str, ...] = field(repr=False)
    patience: Patience = field(default_factory=Patience)
    authority: str | None = None

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigurationError(
                "the NATS connector has no server", hint="set_servers('nats://host:4222')."
            )
        for parts in self._parts():
            if parts.scheme not in _SCHEMES:
                raise ConfigurationError(
                    f"the URL of a NATS server begins with {parts.scheme + '://' if parts.scheme else 'no scheme'}",
                    detail="It has to begin with nats:// or tls://.",
                )
        try:
            _ = self.address
        except ValueError:
            raise ConfigurationError(
                "the URL of a NATS server has a part that does not fit",
                detail="It is nats://user:password@host:port.",
                hint="Write characters such as @, / and # of a password as %40, %2F and %23.",
            ) from None

    @property
    def servers(self) -> list[str]:
        """The servers without user and password."""
        return [f"{each.scheme}://{_host(each)}:{each.port or _PORT}" for each in self._parts()]

    @property
    def address(self) -> str:
        """The servers without user and password, for messages."""
        return ", ".join(self.servers)

    def login(self) -> dict[str, str]:
        """Return user and password, or a token, as the client library wants them."""
        for parts in self._parts():
            if parts.username is not None and parts.password is not None:
                return {"user": unquote(parts.username), "password": unquote(parts.password)}
            if parts.username is not None:
                return {"token": unquote(parts.username)}
        return {}

    def tls(self) -> ssl.SSLContext | None:
        """Return the settings of TLS; None without it."""
        if self.authority is None and not any(parts.scheme == "tls" for parts in self._parts()):
            return None
        return ssl.create_default_context(cafile=self.authority)

    def _parts(self) -> Sequence[SplitResult]:
        return [urlsplit(url if isinstance(url, str) else "") for url in self.urls]


def _host(parts: SplitResult) -> str:
    host = parts.hostname or "localhost"
    return f"[{host}]" if ":" in host else host


class NatsSession:
    """One connection to a server, used in the loop of its client.

    Args:
        nats: The client library's.
    """

    def __init__(self, nats: Any) -> None:
        self.nats = nats

    async def ask(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what JetStream answers.

        Args:
            subject: The end of the subject: `STREAM.INFO.orders`.
            body: What is asked; None for nothing.

        Raises:
            NatsRefusal: If it refuses.
        """
        request = b"" if body is None else json.dumps(body).encode()
        message = await self.nats.request(f"$JS.API.{subject}", request, timeout=ANSWER_S)
        answer: dict[str, Any] = json.loads(message.data)
        if "error" in answer:
            raise NatsRefusal.of(answer)
        return answer


class NatsClient:
    """Calls a server: waits while it is away, and says what its errors mean. For one thread.

    Args:
        connection: Where it is.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, connection: NatsConnection, error_type: type[MillstreamError]) -> None:
        self._package = load_package("nats", extra="nats", what="NATS sources and sinks")
        self._errors = self._package.errors
        self._connection = connection
        self._error_type = error_type
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._session: NatsSession | None = None
        self._told: list[Exception] = []

    def call(self, what: str, action: Callable[[NatsSession], Awaitable[Result]]) -> Result:
        """Return what an action gives; it is repeated, with a new session, while the server is away.

        Args:
            what: What is being done: `reading stream "orders"`.
            action: May be repeated.

        Raises:
            MillstreamError: If the server refuses it, or stays away.
            NatsRefusal: If JetStream refuses it.
        """
        loop = self._running()
        try:
            return self._connection.patience.call(
                lambda: asyncio.run_coroutine_threadsafe(self._act(action), loop).result(),
                is_passing=self._is_passing,
                what=f"NATS {self._connection.address}, {what}",
                log=log,
            )
        except NatsRefusal as error:
            if error.code == _UNAVAILABLE:
                raise self.explain(what, error, _AWAY) from error
            raise
        except (self._errors.Error, OSError, TimeoutError) as error:
            raise self.explain(what, error, self._hint(error)) from error

    def explain(self, what: str, error: Exception, hint: str | None = None) -> MillstreamError:
        """Return the error that says what was refused.

        Args:
            what: What was being done.
            error: What the server or the client library says.
            hint: What to do.
        """
        return self._error_type(
            f"NATS refused or did not answer, {what}: {error}",
            detail=f"Server {self._connection.address}.",
            hint=hint,
        )

    def close(self) -> None:
        """End connection, loop and thread."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._drop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
            self._thread.start()
        return self._loop

    async def _act(self, action: Callable[[NatsSession], Awaitable[Result]]) -> Result:
        try:
            if self._session is None:
                self._session = await self._connect()
            return await action(self._session)
        except NatsRefusal:
            raise
        except Exception as error:
            await self._drop()
            better = self._better(error)
            if better is error:
                raise
            raise better from error

    async def _connect(self) -> NatsSession:
        self._told = []
        nats = await self._package.connect(
            self._connection.servers,
            error_cb=self._on_error,
            allow_reconnect=False,  # `Patience` tries again
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=_CONNECT_S,
            tls=self._connection.tls(),
            **self._connection.login(),
        )
        return NatsSession(nats)

    async def _drop(self) -> None:
        """End the connection, however it is."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # it may be broken, and nothing waits to be sent
                await asyncio.wait_for(session.nats.close(), _END_S)

    async def _on_error(self, error: Exception) -> None:
        self._told.append(error)
        del self._told[:-8]

    def _better(self, error: Exception) -> Exception:
        """Return the error behind one that says less: a refused subject only looks like a server that is silent."""
        if isinstance(error, (TimeoutError, self._errors.NoServersError)):
            for told in reversed(self._told):
                if isinstance(error, self._errors.NoServersError) or _is_no_right(told):
                    return told
        return error

    def _is_passing(self, error: Exception) -> bool:
        errors = self._errors
        if isinstance(error, NatsRefusal):
            return error.code == _UNAVAILABLE
        if isinstance(error, ssl.SSLCertVerificationError) or _is_no_right(error) or _is_no_login(error):
            return False
        passing = (
            errors.ConnectionClosedError,
            errors.ConnectionReconnectingError,
            errors.NoRespondersError,
            errors.NoServersError,
            errors.StaleConnectionError,
        )
        if isinstance(error, (*passing, OSError, TimeoutError)):
            return True
        return isinstance(error, errors.Error) and "timeout" in str(error).lower()  # told by a busy server

    def _hint(self, error: Exception) -> str | None:
        if _is_no_right(error):
            return _RIGHTS
        if _is_no_login(error):
            return _LOGIN
        if isinstance(error, self._errors.NoRespondersError):
            return _NO_JETSTREAM
        if isinstance(error, ssl.SSLError) or "TLS" in str(error) or "secure" in str(error):
            return _TLS
        return _AWAY if self._is_passing(error) else None


def _is_no_right(error: Exception) -> bool:
    return "permissions violation" in str(error).lower()


def _is_no_login(error: Exception) -> bool:
    text = str(error).lower()
    return "authorization" in text or ("authentication" in text and "timeout" not in text)
