"""Look-ups by clients that block: some threads, parts of the keys for each, and what is found put together.

::

    lookup(500 keys) ─┬─► 100 keys ─► a thread, a client ─► rows by key ─┐
                      ├─► 100 keys ─► another one        ─► rows by key ─┴─► {key: row}
                      └─► ... wait for a thread
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from millstream.base.errors import ConfigurationError, SourceError, shorten
from millstream.spi.lookup import AsyncLookup

__all__ = ["BlockingLookup", "LookupBuilder", "LookupSettings", "rows_by_key"]

Client = TypeVar("Client")

_CONNECTIONS = 4
_REQUEST_KEYS = 100


@dataclass(frozen=True, slots=True)
class LookupSettings:
    """How a look-up asks.

    Attributes:
        connections: How many requests of a subtask are under way at most.
        request_keys: Keys of a request at most.
        gives_lists: Whether a key has a list of rows, and not one.
    """

    connections: int = _CONNECTIONS
    request_keys: int = _REQUEST_KEYS
    gives_lists: bool = False


@dataclass
class _Open(Generic[Client]):
    """What there is between `open` and `close`."""

    threads: ThreadPoolExecutor
    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: list[Client] = field(default_factory=list)
    is_closed: bool = False


class BlockingLookup(AsyncLookup, Generic[Client]):
    """Finds rows by a client that blocks. Keys that are None, or tuples with None, are not there, as in SQL.

    Its methods run in threads: of one client one at a time, unless `shares_client`.

    Args:
        settings: How it asks.

    Attributes:
        shares_client: Whether one client serves all threads.
    """

    shares_client: ClassVar[bool] = False

    def __init__(self, settings: LookupSettings) -> None:
        self._asking = settings
        self._open: _Open[Client] | None = None

    @abstractmethod
    def connect(self) -> Client:
        """Return a new client.

        Raises:
            SourceError: If the server stays away, refuses us, or has not what is looked into.
        """

    @abstractmethod
    def find(self, client: Client, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Return what is found for some keys, all different; raises SourceError."""

    @abstractmethod
    def disconnect(self, client: Client) -> None:
        """End a client."""

    async def open(self) -> None:
        """Make the threads, and connect once, so that what is wrong is known before the first record.

        Raises:
            SourceError: If that fails.
        """
        self._open = _Open(
            ThreadPoolExecutor(self._asking.connections, thread_name_prefix=type(self).__name__)
        )
        client = await self._in_thread(self.connect)
        self._give_back(self._open, client)

    async def lookup(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the rows of keys.

        Raises:
            SourceError: If the server refuses it, or stays away.
        """
        wanted = [key for key in keys if not _has_none(key)]
        size = self._asking.request_keys
        parts = [wanted[start : start + size] for start in range(0, len(wanted), size)]
        tasks = [asyncio.ensure_future(self._in_thread(self._ask, part)) for part in parts]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # the others, where one has failed: those that wait for a thread
                task.cancel()
        return {key: row for rows in found for key, row in rows.items()}

    async def close(self) -> None:
        """End the connections; a request that is under way ends its own."""
        state, self._open = self._open, None
        if state is None:
            return
        with state.lock:
            state.is_closed = True
            idle, state.idle = state.idle, []
        try:
            for client in idle:
                await asyncio.to_thread(self.disconnect, client)
        finally:
            state.threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, action: Any, *arguments: Any) -> Any:
        assert self._open is not None, "open comes first"
        return await asyncio.get_running_loop().run_in_executor(self._open.threads, action, *arguments)

    def _ask(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        state = self._open
        if state is None:
            return {}  # nobody waits for it any more
        client = self._take(state)
        try:
            found = self.find(client, keys)
        except BaseException:
            if not self.shares_client:
                self.disconnect(client)
            raise
        self._give_back(state, client)
        return found

    def _take(self, state: _Open[Client]) -> Client:
        with state.lock:
            if state.idle:
                return state.idle[0] if self.shares_client else state.idle.pop()
        return self.connect()

    def _give_back(self, state: _Open[Client], client: Client) -> None:
        with state.lock:
            if client in state.idle:
                return
            if not state.is_closed:
                state.idle.append(client)
                return
        if not self.shares_client:  # that one was ended by `close`
            self.disconnect(client)


class LookupBuilder:
    """Says how a look-up asks; each method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self._connections = _CONNECTIONS
        self._request_keys = _REQUEST_KEYS
        self._gives_lists = False

    def set_connections(self, connections: int) -> Self:
        """Have so many requests of a subtask under way at a time; by default 4.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._connections = _positive("connections", connections)
        return self

    def set_request_size(self, keys: int) -> Self:
        """Ask for so many keys at once; by default 100.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._request_keys = _positive("keys of a request", keys)
        return self

    def _settings(self) -> LookupSettings:
        return LookupSettings(self._connections, self._request_keys, self._gives_lists)


def rows_by_key(found: Iterable[tuple[Any, Any]], *, gives_lists: bool, where: str) -> dict[Any, Any]:
    """Return rows by key: one for each, or a list of them.

    Args:
        found: Keys and rows.
        gives_lists: Whether there may be several rows of a key.
        where: What was looked into, for messages.

    Raises:
        SourceError: If a key has several rows, and is to have one.
    """
    rows: dict[Any, Any] = {}
    for key, row in found:
        if gives_lists:
            rows.setdefault(key, []).append(row)
        elif key in rows:
            raise SourceError(
                f"key {shorten(key)} has several rows in {where}",
                hint="Call set_gives_lists() on the look-up's builder for a list of them, or choose a unique key.",
            )
        else:
            rows[key] = row
    return rows


def _has_none(key: Any) -> bool:
    return key is None or (isinstance(key, tuple) and None in key)


def _positive(what: str, number: int) -> int:
    if number < 1:
        raise ConfigurationError(f"{what} of a look-up: {number}, must be positive")
    return number
