"""Where requests go, and what is sent with each of them."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["HttpTarget", "load_httpx"]


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where requests go; URL and headers may hold secrets, so they are shown nowhere.

    Attributes:
        url: `https://user:password@host/path?name=value`; user and password are sent by basic authentication.
        headers: Sent with each request.
        timeout_s: How long connecting, and each wait for data, may take.
        patience: How long a server that is away, or has too much to do, is waited for.
        authority: File with the certificates of the authority that signs the server's; None for those of the system.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    patience: Patience = field(default_factory=Patience)
    authority: str | None = None

    def __post_init__(self) -> None:
        parts = self._parts()
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                "the URL does not begin with http://host or https://host",
                hint="set_url('https://host/path').",
            )
        try:
            _ = parts.port
        except ValueError:
            raise ConfigurationError("the URL has a port that is no number") from None
        if self.timeout_s <= 0:
            raise ConfigurationError(f"the timeout is {self.timeout_s:g} s, must be positive")

    @property
    def address(self) -> str:
        """The URL without user, password and query, for messages."""
        parts = self._parts()
        return f"{self.origin}{parts.path}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return _origin(self._parts())

    @property
    def bare_url(self) -> str:
        """The URL without user and password."""
        parts = self._parts()
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def is_own(self, url: str) -> bool:
        """Return whether a URL has the same origin: headers may be sent there."""
        return _origin(urlsplit(url)) == self.origin

    def client_settings(self) -> dict[str, Any]:
        """Return what a client of httpx is made with."""
        parts = self._parts()
        auth = None
        if parts.username is not None:
            auth = (unquote(parts.username), unquote(parts.password or ""))
        return {
            "headers": dict(self.headers),
            "timeout": self.timeout_s,
            "auth": auth,
            "verify": parts.scheme == "https" and ssl.create_default_context(cafile=self.authority),
            "trust_env": False,
        }

    def _parts(self) -> SplitResult:
        return urlsplit(self.url if isinstance(self.url, str) else "")


def _origin(parts: SplitResult) -> str:
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def load_httpx() -> Any:
    """Return the client library.

    Raises:
        ConfigurationError: If it is not installed.
    """
    httpx = load_package("httpx", extra="http", what="HTTP sources, sinks and look-ups")
    its_log = logging.getLogger("httpx")
    if its_log.level == logging.NOTSET:  # it logs each request with its whole URL
        its_log.setLevel(logging.WARNING)
    return httpx
