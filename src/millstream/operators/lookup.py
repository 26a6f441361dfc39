"""What makes an asynchronous look-up a function of batches: each key is asked for once, and kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import to_milliseconds
from millstream.common.async_functions import BatchAsyncFunction
from millstream.common.functions import RuntimeContext
from millstream.spi.lookup import AsyncLookup, LookupCache

__all__ = ["LookupFunction", "pair"]


def pair(value: Any, row: Any) -> Any:
    """Return a record and its row."""
    return value, row


class LookupFunction(BatchAsyncFunction[Any, Any]):
    """Looks up the rows of a batch of records; the event loop calls it, several batches at a time.

    Args:
        lookup: Finds the rows.
        key: Gives a record's key.
        join: Makes the result of a record and its row, which is None if there is none.
        cache: What is kept; None for nothing.
    """

    def __init__(
        self,
        lookup: AsyncLookup,
        key: Callable[[Any], Any],
        join: Callable[[Any, Any], Any],
        cache: LookupCache | None,
    ) -> None:
        self._lookup = lookup
        self._key = key
        self._join = join
        self._settings = cache
        self._cache: _Cache | None = None

    async def open(self, runtime_context: RuntimeContext) -> None:
        """Open the look-up."""
        if self._settings is not None:
            self._cache = _Cache(self._settings)
        metrics = runtime_context.get_metrics_group()
        self._asked = metrics.counter("lookupKeysAsked")
        self._hits = metrics.counter("lookupCacheHits")
        await self._lookup.open()

    async def close(self) -> None:
        """Close the look-up."""
        await self._lookup.close()

    async def async_invoke_batch(self, values: Sequence[Any]) -> Sequence[Iterable[Any]]:
        """Look up what is not kept, and join."""
        keys = list(map(self._key, values))
        try:
            rows = dict.fromkeys(keys)
        except TypeError as error:
            raise TypeMismatchError(
                f"a key of a look-up cannot be hashed: {error}",
                detail=f"Keys begin with {shorten(keys[0])}.",
                hint="Let the key be a number, a text or a tuple.",
            ) from error
        wanted = list(rows)
        if self._cache is not None:
            kept = self._cache.get(wanted)
            rows.update(kept)
            wanted = [key for key in wanted if key not in kept]
            self._hits.inc(len(kept))
        if wanted:
            rows.update(await self._ask(wanted))
        join = self._join
        return [[join(value, rows[key])] for value, key in zip(values, keys, strict=True)]

    async def _ask(self, keys: list[Any]) -> dict[Any, Any]:
        self._asked.inc(len(keys))
        found = await self._lookup.lookup(keys)
        if not isinstance(found, Mapping):
            raise TypeMismatchError(
                f"lookup of {type(self._lookup).__name__} gave a {type(found).__name__}, not a dict",
                hint="Return {key: row}, without the keys that were not found.",
            )
        rows = {key: found.get(key) for key in keys}
        if self._cache is not None:
            self._cache.put(rows)
        return rows


class _Cache:
    """Rows by key, those that were used last at the end."""

    def __init__(self, settings: LookupCache) -> None:
        self._settings = settings
        length = settings.time_to_live
        self._lasts_s = None if length is None else to_milliseconds(length) / 1000
        self._rows: OrderedDict[Any, tuple[Any, float]] = OrderedDict()

    def get(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """Return what is kept of some keys and not too old."""
        from asyncio import get_running_loop  # asyncio is large

        now_s = get_running_loop().time()
        found = {}
        for key in keys:
            entry = self._rows.get(key)
            if entry is None:
                continue
            row, since_s = entry
            if self._lasts_s is not None and now_s - since_s >= self._lasts_s:
                del self._rows[key]
                continue
            self._rows.move_to_end(key)
            found[key] = row
        return found

    def put(self, rows: Mapping[Any, Any]) -> None:
        """Keep rows, and forget those that were not used for longest."""
        from asyncio import get_running_loop  # asyncio is large

        now_s = get_running_loop().time()
        for key, row in rows.items():
            if row is not None or self._settings.keeps_missing:
                self._rows[key] = (row, now_s)
                self._rows.move_to_end(key)
        while len(self._rows) > self._settings.max_rows:
            self._rows.popitem(last=False)
