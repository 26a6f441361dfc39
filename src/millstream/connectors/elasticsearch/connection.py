"""Where Elasticsearch or OpenSearch is, and what its answers mean.

Both speak the same HTTP; the client libraries of each refuse servers of the other, and of other major versions. So the
few requests that are needed are made with a plain HTTP client.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from millstream.base.errors import ConfigurationError, MillstreamError, shorten
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["Answer", "ElasticsearchClient", "ElasticsearchConnection", "quote_path"]

log = logging.getLogger(__name__)

_PORT = 9200
_SCHEMES = ("http", "https")
_AWAY = frozenset({429, 502, 503, 504})
_REASON_CHARS = 500

_HINTS = {
    401: "Check user and password, or the key: set_connection_username, set_connection_password, set_api_key.",
    403: "Have somebody allow it to the user: the page of the connector lists the rights that are needed.",
}
_AWAY_HINT = "Check that the server runs and can be reached from the driver and from where slots run."
_TLS_HINT = (
    "Check that https:// is meant, and who signed the certificate: set_certificate_authority('/path/ca.pem')."
)


def quote_path(name: str) -> str:
    """Return a name, of an index or a document, as a part of a path."""
    return quote(name, safe="")


@dataclass(frozen=True, slots=True)
class ElasticsearchConnection:
    """Where the servers are, and who asks.

    Attributes:
        hosts: `host:port`, `http://host:port` or `https://host:port`; the nodes of one cluster.
        username: User, None for nobody.
        password: The user's.
        api_key: A key instead of user and password, as the server encoded it.
        path_prefix: What stands before the paths of the server, behind a proxy.
        connect_timeout_ms: How long a connection may take.
        socket_timeout_ms: How long an answer may take.
        authority: File with the certificates of who signed the server's; None for those of the system.
        patience: How long servers are waited for.
    """

    hosts: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    path_prefix: str = ""
    connect_timeout_ms: int = 5_000
    socket_timeout_ms: int = 60_000
    authority: str | None = None
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ConfigurationError("the connector has no server", hint="set_hosts(['localhost:9200']).")
        _ = self.urls
        if (self.username is None) != (self.password is None):
            missing = "password" if self.password is None else "username"
            raise ConfigurationError(
                f"the {missing} of the connection is missing", hint=f"set_connection_{missing}(...)."
            )
        if self.username is not None and self.api_key is not None:
            raise ConfigurationError(
                "the connection has a user and a key", hint="Leave out one of them: set_api_key(...)."
            )

    @property
    def urls(self) -> list[str]:
        """What the paths of requests are put behind, for each host.

        Raises:
            ConfigurationError: If a host is none.
        """
        prefix = self.path_prefix.strip("/")
        return [_url_of(host) + (f"/{prefix}" if prefix else "") for host in self.hosts]

    @property
    def address(self) -> str:
        """The servers, for messages."""
        return ", ".join(self.urls)

    def headers(self) -> dict[str, str]:
        """Return the headers that tell who asks."""
        if self.api_key is not None:
            return {"Authorization": f"ApiKey {self.api_key}"}
        if self.username is None:
            return {}
        login = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return {"Authorization": f"Basic {login}"}


def _url_of(host: str) -> str:
    if not isinstance(host, str) or not host:
        raise ConfigurationError(f"{host!r} is no host", detail="It is a text: 'localhost:9200'.")
    parts = urlsplit(host if "://" in host else f"http://{host}")
    if "@" in parts.netloc:
        raise ConfigurationError(
            "the name of a host has a user or password in it",
            hint="Leave them out, and call set_connection_username(...) and set_connection_password(...).",
        )
    try:
        port = parts.port or _PORT
    except ValueError:
        port = 0
    if parts.scheme not in _SCHEMES or not parts.hostname or not port or parts.path.strip("/"):
        raise ConfigurationError(
            f"{host!r} is no host",
            detail="It is host:port, http://host:port or https://host:port.",
            hint="A path before those of the server is set by set_connection_path_prefix(...).",
        )
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}:{port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered.

    Attributes:
        status: Of HTTP.
        data: The body.
    """

    status: int
    data: bytes

    def json(self) -> Any:
        """Return the body as JSON; None if it is not."""
        try:
            return json.loads(self.data)
        except ValueError:
            return None

    def reason(self) -> str:
        """Return why it was refused: the server's error if there is one."""
        body = self.json()
        error = body.get("error") if isinstance(body, dict) else None
        if isinstance(error, dict):
            return describe_error(error)
        if isinstance(error, str):
            return f"{self.status} {error}"
        return f"{self.status} {shorten(self.data.decode(errors='replace'))}"


def describe_error(error: dict[str, Any]) -> str:
    """Return what an error of a server says: its type, its reason, and the innermost cause if there is one."""
    cause = error
    while isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    texts = [
        f"{each.get('type')}: {each.get('reason')}"
        for each in ([error] if cause is error else [error, cause])
    ]
    text = "; ".join(texts)
    return text if len(text) <= _REASON_CHARS else f"{text[:_REASON_CHARS]} …"


class _Unavailable(Exception):
    """A server answered that it cannot do it now."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.reason())
        self.answer = answer


class ElasticsearchClient:
    """Asks servers: one after the other while they are away, waiting between. Any thread may use it.

    Args:
        connection: Where they are.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, connection: ElasticsearchConnection, error_type: type[MillstreamError]) -> None:
        self._urllib3 = load_package(
            "urllib3", extra="elasticsearch", what="Elasticsearch and OpenSearch connectors"
        )
        self.connection = connection
        self._error_type = error_type
        self._urls = connection.urls
        self._turn = 0
        is_tls = any(url.startswith("https:") for url in self._urls)
        self._pool = self._urllib3.PoolManager(
            num_pools=len(self._urls),
            maxsize=16,
            retries=False,  # `Patience` tries again
            timeout=self._urllib3.Timeout(
                connect=connection.connect_timeout_ms / 1000, read=connection.socket_timeout_ms / 1000
            ),
            headers=connection.headers(),
            ssl_context=ssl.create_default_context(cafile=connection.authority) if is_tls else None,
        )

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        *,
        what: str,
        accept: Collection[int] = (),
        patience: Patience | None = None,
    ) -> Answer:
        """Return what the servers answer; they are asked again while they are away, so it may be done twice.

        Args:
            method: Of HTTP.
            path: Of the server, and what is asked behind `?`.
            body: JSON, or lines of JSON as bytes.
            what: What is being done: `writing 3 documents`.
            accept: What else but 200 to 299 is an answer.
            patience: How long they are waited for; None for the connection's.

        Raises:
            MillstreamError: If they refuse it, or stay away.
        """
        errors = self._urllib3.exceptions
        try:
            answer = (patience or self.connection.patience).call(
                lambda: self._ask(method, path, body, accept),
                is_passing=lambda error: self._is_passing(error),
                what=f"{self.connection.address}, {what}",
                log=log,
            )
        except _Unavailable as error:
            raise self.refused(what, error.answer) from error
        except errors.HTTPError as error:
            hint = _TLS_HINT if isinstance(error, errors.SSLError) else _AWAY_HINT
            raise self._failed(what, str(error), hint) from error
        if answer.status >= 300 and answer.status not in accept:
            raise self.refused(what, answer)
        return answer

    def refused(self, what: str, answer: Answer, hint: str | None = None) -> MillstreamError:
        """Return the error that says that something was refused.

        Args:
            what: What was being done.
            answer: The server's.
            hint: What to do; None for what is to be done about the status.
        """
        hint = hint or _HINTS.get(answer.status) or (_AWAY_HINT if answer.status in _AWAY else None)
        return self._failed(what, f"{answer.reason()} (status {answer.status})", hint)

    def close(self) -> None:
        """End the connections."""
        self._pool.clear()

    def _ask(self, method: str, path: str, body: Any, accept: Collection[int]) -> Answer:
        url = self._urls[self._turn % len(self._urls)]
        is_lines = isinstance(body, bytes)
        headers = dict(self._pool.headers)
        if body is not None:
            headers["Content-Type"] = "application/x-ndjson" if is_lines else "application/json"
        data = body if is_lines or body is None else json.dumps(body).encode()
        try:
            response = self._pool.request(method, url + path, body=data, headers=headers, redirect=False)
        except self._urllib3.exceptions.HTTPError:
            self._turn += 1  # the next one may be there
            raise
        answer = Answer(response.status, response.data)
        if answer.status in _AWAY and answer.status not in accept:
            self._turn += 1
            raise _Unavailable(answer)
        return answer

    def _is_passing(self, error: Exception) -> bool:
        errors = self._urllib3.exceptions
        if isinstance(error, errors.SSLError):
            return "CERTIFICATE_VERIFY_FAILED" not in str(error) and "WRONG_VERSION" not in str(error)
        if isinstance(error, (errors.LocationValueError, errors.InvalidHeader)):
            return False
        return isinstance(error, (_Unavailable, errors.HTTPError))

    def _failed(self, what: str, reason: str, hint: str | None) -> MillstreamError:
        return self._error_type(
            f"the search server refused or did not answer, {what}: {reason}",
            detail=f"Server {self.connection.address}.",
            hint=hint,
        )
