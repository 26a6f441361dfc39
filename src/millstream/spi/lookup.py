"""The contract of look-ups: rows of another system, found by key while a stream runs by.

::

    records ─► keys, each once ─┬─► in the cache ──────────────────────────┐
                                └─► lookup(keys) ─► {key: row} ─► cache ───┴─► each record with its row, or None

A look-up lives in the slot for the whole attempt, on the event loop of its operator; several calls are under way at a
time, each for the keys of one batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, Time, to_milliseconds

__all__ = ["AsyncLookup", "LookupCache"]


class AsyncLookup(ABC):
    """Finds rows by key: small, picklable; connections are made in `open`.

    All of it runs on the event loop: what blocks there blocks every call, so give what blocks to
    `asyncio.to_thread`.

    Example:
        >>> from millstream.datastream.connectors.base import AsyncLookup
        >>> import asyncio
        >>> class Users(AsyncLookup):
        ...     async def open(self):
        ...         self.names = {7: "ann", 8: "bob"}  # in its place: a pool of connections
        ...     async def lookup(self, keys):
        ...         return {key: {"id": key, "name": self.names[key]} for key in keys if key in self.names}
        >>> async def ask(*keys):
        ...     users = Users()
        ...     await users.open()
        ...     return await users.lookup(keys)
        >>> asyncio.run(ask(7, 9))
        {7: {'id': 7, 'name': 'ann'}}
    """

    async def open(self) -> None:
        """Connect; called once in each attempt, before the first look-up."""

    @abstractmethod
    async def lookup(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Return what is found for each of some keys; those that are not in the result were not found.

        Asking changes nothing: after a failure, and where calls are repeated, the same keys are asked for again.

        Args:
            keys: At least one, all different, in the order in which they came.

        Returns:
            A row for each key that has one; where a key has several, a list of them. Rows are not changed later.
        """

    async def close(self) -> None:
        """Called once, at the end of the attempt, if `open` was."""


@dataclass(frozen=True, slots=True)
class LookupCache:
    """What each subtask keeps of the rows that it found; those that were used last stay.

    Attributes:
        max_rows: How many keys are kept.
        time_to_live: How old what is kept may be; None for any age. What changes in the other system meanwhile is not
            seen.
        keeps_missing: Whether it is kept as well that a key was not found.

    Raises:
        ConfigurationError: If a number does not fit.

    Example:
        >>> from datetime import timedelta
        >>> from millstream.datastream.connectors.base import LookupCache
        >>> cache = LookupCache(max_rows=1_000, time_to_live=timedelta(minutes=5))  # unordered_lookup(..., cache=cache)
    """

    max_rows: int = 10_000
    time_to_live: Time | Duration | timedelta | None = None
    keeps_missing: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.max_rows, int) or self.max_rows < 1:
            raise ConfigurationError(
                f"max_rows of a LookupCache is {self.max_rows!r}",
                detail="It must be a number of at least 1.",
                hint="Leave the cache out to keep nothing.",
            )
        if self.time_to_live is not None and to_milliseconds(self.time_to_live) <= 0:
            raise ConfigurationError(
                f"time_to_live of a LookupCache is {to_milliseconds(self.time_to_live)} ms",
                detail="It must be greater than zero.",
            )
