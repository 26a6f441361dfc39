"""Who may ask: bearer token, and no web page of somebody else's.

A page in a browser can send requests to the loopback interface. So:

- the `Host` of a request must be a name of this server, else another site's name could be made to point here
  (DNS rebinding);
- a request with an `Origin` must come from this server's own pages;
- a request that changes something has a body of type `application/json` or none, and none of a browser that says it
  comes from another site (`Sec-Fetch-Site`).
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from millstream.rest.errors import RestError

__all__ = ["Guard"]

_SAFE = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Guard:
    """Checks the head of each request.

    Attributes:
        token: What clients must know; None lets everybody in who can connect.
        hosts: Names of this server beside `localhost`, the machine's name and all IP addresses, in lower case.
    """

    token: str | None = field(default=None, repr=False)
    hosts: Collection[str] = frozenset()

    def check(
        self,
        method: str,
        headers: Mapping[str, str],
        *,
        has_body: bool,
        is_open: bool = False,
        takes_files: bool = False,
    ) -> None:
        """Let a request pass.

        Args:
            method: Of the request.
            headers: Names in lower case.
            has_body: Whether it has a body.
            is_open: Whether the path needs no token.
            takes_files: Whether the body may be a form, which pages of other sites could send as well: their Origin
                tells.

        Raises:
            RestError: 401, 403 or 415 if it may not.
        """
        host = headers.get("host", "")
        self._check_host(host)
        _check_origin(headers.get("origin"), host)
        if method not in _SAFE:
            if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
                raise RestError(403, "requests of other sites' pages are refused")
            if (
                has_body
                and not takes_files
                and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json"
            ):
                raise RestError(415, "a body must be JSON: send the header Content-Type: application/json")
        if self.token is not None and not is_open:
            self._check_token(headers.get("authorization", ""))

    def _check_host(self, host: str) -> None:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if (
            name == "localhost"
            or name in self.hosts
            or _is_address(name)
            or name == socket.gethostname().lower()
        ):
            return
        raise RestError(
            403,
            f"the server does not go by the name {name[:100]!r} (header Host). "
            "Names that it has are set with rest.address and millstream.rest.allowed-hosts",
        )

    def _check_token(self, authorization: str) -> None:
        scheme, _, given = authorization.partition(" ")
        assert self.token is not None
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode()):
            return
        raise RestError(
            401,
            "a token is needed: send the header Authorization: Bearer <the server's millstream.rest.token>",
            headers=[("www-authenticate", "Bearer")],
        )


def _check_origin(origin: str | None, host: str) -> None:
    if origin is None:
        return
    try:
        own = urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        own = False
    if not own:
        raise RestError(403, f"requests of pages of {origin[:100]!r} (header Origin) are refused")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
