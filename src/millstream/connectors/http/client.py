"""A client for one thread: waits while a server is away or has too much to do, and says what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.connectors.http.responses import HttpRefusal, HttpResponse, check_status, explain, is_passing
from millstream.connectors.http.target import HttpTarget, load_httpx

__all__ = ["HttpClient"]

log = logging.getLogger(__name__)


class HttpClient:
    """Sends requests; connections are kept between them.

    Args:
        target: Where they go.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, target: HttpTarget, error_type: type[MillstreamError]) -> None:
        self._httpx = load_httpx()
        self._target = target
        self._error_type = error_type
        self._client = self._httpx.Client(**target.client_settings())

    def send(
        self,
        what: str,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpResponse:
        """Return the answer to a request; it is repeated while the server is away, busy, or fails.

        Args:
            what: What is being done: `sending 20 records`.
            method: `GET` and such.
            url: Without user and password.
            query: Put to the URL's own query.
            headers: Beside those of the target.
            body: What is sent.

        Raises:
            MillstreamError: If the server refuses it, or stays away.
        """
        target = self._target

        def act() -> HttpResponse:
            whole = self._httpx.URL(url)
            if query:
                whole = whole.copy_merge_params(dict(query))
            response = self._client.request(method, whole, headers=dict(headers or {}), content=body)
            return check_status(HttpResponse.of(response, target.address))

        try:
            return target.patience.call(
                act,
                is_passing=self._is_passing,
                what=f"{target.address}, {what}",
                log=log,
                least_pause_s=_asked_pause_s,
            )
        except (HttpRefusal, self._httpx.HTTPError) as error:
            raise explain(what, target.address, error, self._error_type) from error

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _is_passing(self, error: Exception) -> bool:
        if not isinstance(error, (HttpRefusal, self._httpx.TransportError)):
            return False
        return is_passing(error, self._target.patience.total_s)


def _asked_pause_s(error: Any) -> float:
    return error.retry_after_s if isinstance(error, HttpRefusal) else 0.0
