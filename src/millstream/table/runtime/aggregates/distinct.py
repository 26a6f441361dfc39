"""DISTINCT: an aggregate that is given each value of a slot once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.aggregates.accumulator import Accumulator, Settings, without_nulls
from millstream.table.runtime.aggregates.pairs import PairTable

__all__ = ["Distinct"]


class Distinct(Accumulator):
    """Counts values, and tells another accumulator of those that came to be there or went.

    Args:
        settings: What it is made of.
        inner: What the values are given to.
    """

    def __init__(self, settings: Settings, inner: Accumulator) -> None:
        super().__init__(settings)
        self._pairs = PairTable(settings.arguments)
        self._inner = inner
        self._slots = 0

    def reach(self, count: int) -> None:
        self._inner.reach(count)
        self._slots = max(self._slots, count)

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        slots, weights, columns = without_nulls(slots, weights, columns)
        if not len(slots):
            return
        pairs, before, now = self._pairs.add(slots, weights, columns)
        turned = (now > 0).astype(np.int64) - (before > 0)
        moved = np.flatnonzero(turned)
        if len(moved):
            pairs, turned = pairs[moved], turned[moved]
            changes = turned if (turned < 0).any() else None
            self._inner.add(self._pairs.slot_of.array[pairs], changes, self._pairs.values(pairs))
        if self._pairs.is_wasteful:
            self._pairs.keep(np.arange(self._slots))

    def results(self, slots: Any) -> pa.Array:
        return self._inner.results(slots)

    def clear(self, slots: Any) -> None:
        self._pairs.clear(slots)
        self._inner.clear(slots)

    def keep(self, slots: Any) -> None:
        self._pairs.keep(slots)
        self._inner.keep(slots)
        self._slots = len(slots)

    def partials(self, slots: Any) -> list[Any]:
        array = np.empty(len(slots), object)
        array[:] = self._pairs.entries(slots)
        return [array]

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        self.restore(slots, columns[0])

    def entries(self, slots: Any) -> list[Any]:
        return list(self._pairs.entries(slots))

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        flat = [pair for each in entries for pair in each]
        if not flat:
            return
        of = np.repeat(np.asarray(slots, np.int64), [len(each) for each in entries])
        weights = np.array([count for count, _ in flat], np.int64)
        self.add(of, weights, self._pairs.columns_of([values for _, values in flat]))
