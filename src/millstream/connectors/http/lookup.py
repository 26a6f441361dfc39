"""Look-ups: a request for each key, many at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, SourceError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.connectors.http.responses import HttpRefusal, HttpResponse, check_status, explain, is_passing
from millstream.connectors.http.selection import Selection, at_path, check_path
from millstream.connectors.http.target import HttpTarget, load_httpx
from millstream.connectors.patience import Patience
from millstream.spi.lookup import AsyncLookup

__all__ = ["HttpLookup"]

log = logging.getLogger(__name__)

_KEY = "{key}"
_NOT_FOUND = 404


class HttpLookup(AsyncLookup):
    """Asks a server for the row of each key, by GET; for `AsyncDataStream.unordered_lookup` and `ordered_lookup`.

    Args:
        url: With `{key}` where the key goes: `https://user:password@host/customers/{key}`.
        headers: Sent with each request, such as `Authorization`; they are shown nowhere.
        row: Where the row is in an answer: a path (`$`, all of it, by default), or a function of `HttpResponse`;
            None, or status 404, for a key that is not there.
        concurrency: How many requests each subtask has under way at most.
        timeout: How long connecting, and each wait for data, may take; 10 s by default.
        patience: How long a server that is away, or has too much to do, is waited for.
        certificate_authority: File with the certificates of who signed the server's; by default those of the system.

    Raises:
        ConfigurationError: If an argument does not fit.

    Example:
        >>> from millstream.datastream.connectors.http import HttpLookup
        >>> names = HttpLookup("http://localhost:8080/users/{key}", row="name")  # AsyncDataStream.unordered_lookup(...)
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        row: Selection = "$",
        concurrency: int = 20,
        timeout: Time | Duration | None = None,
        patience: Patience | None = None,
        certificate_authority: str | None = None,
    ) -> None:
        timeout_s = 10.0 if timeout is None else to_milliseconds(timeout) / 1_000
        self._target = HttpTarget(
            url, dict(headers or {}), timeout_s, patience or Patience(), certificate_authority
        )
        if _KEY not in self._target.bare_url:
            raise ConfigurationError(
                "the URL of the look-up has no place for the key", hint="https://host/customers/{key}"
            )
        if concurrency < 1:
            raise ConfigurationError(f"the concurrency is {concurrency}, must be positive")
        if not callable(row):
            check_path(row)
        self._row = row
        self._concurrency = concurrency

    async def open(self) -> None:
        """Make the client; the server is asked with the first look-up."""
        self._httpx = load_httpx()
        limits = self._httpx.Limits(max_connections=self._concurrency)
        self._client = self._httpx.AsyncClient(limits=limits, **self._target.client_settings())
        self._free = asyncio.Semaphore(self._concurrency)

    async def lookup(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the rows of keys.

        Raises:
            SourceError: If the server refuses it, or stays away.
        """
        tasks = [asyncio.ensure_future(self._find(key)) for key in keys]
        try:
            rows = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # the others, where one has failed
                task.cancel()
        return {key: row for key, row in zip(keys, rows, strict=True) if row is not None}

    async def close(self) -> None:
        """End the connections."""
        await self._client.aclose()

    async def _find(self, key: Any) -> Any:
        async with self._free:
            try:
                response = await self._ask(key)
            except (HttpRefusal, self._httpx.HTTPError) as error:
                raise explain("looking up a key", self._target.address, error, SourceError) from error
        if response is None:
            return None
        return self._row(response) if callable(self._row) else at_path(response.json(), self._row)

    async def _ask(self, key: Any) -> HttpResponse | None:
        """Ask until there is an answer; None for a key that is not there."""
        patience, clock = self._target.patience, SystemClock()
        url = self._target.bare_url.replace(_KEY, quote(str(key), safe=""))
        began, pause = clock.monotonic(), patience.first_s
        while True:
            try:
                response = HttpResponse.of(await self._client.get(url), self._target.address)
                return None if response.status == _NOT_FOUND else check_status(response)
            except (HttpRefusal, self._httpx.TransportError) as error:
                left = patience.total_s - (clock.monotonic() - began)
                if left <= 0 or not is_passing(error, patience.total_s):
                    raise
                log.info("%s: %s; asking again", self._target.address, error)
                asked = error.retry_after_s if isinstance(error, HttpRefusal) else 0.0
                await asyncio.sleep(min(max(random.uniform(pause / 2, pause), asked), left))
                pause = min(pause * 2, patience.longest_s)
