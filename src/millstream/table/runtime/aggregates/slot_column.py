"""One value of any type for each slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.growing import GrowingRows, Lane

__all__ = ["SlotRows"]

_LEAST_WASTE = 1 << 14


class SlotRows:
    """A row of some columns for each slot, or none; rows that are replaced are cleared away now and then.

    Args:
        kinds: Arrow types of the columns.
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self._rows = GrowingRows(kinds)
        self._at = Lane(np.int64, -1)
        self._slots = 0

    def reach(self, count: int) -> None:
        """Make room for so many slots."""
        self._at.reach(count)
        self._slots = max(self._slots, count)

    def has(self, slots: Any) -> Any:
        """Return whether slots have a row."""
        return self._at.array[slots] >= 0

    def set(self, slots: Any, columns: Sequence[pa.Array]) -> None:
        """Set the rows of slots, each of which comes once."""
        self._at.array[slots] = self._rows.append(columns, len(slots))
        if self._rows.count > 2 * self._slots + _LEAST_WASTE:
            used = np.flatnonzero(self._at.array[: self._slots] >= 0)
            self._rows.keep(self._at.array[used])
            self._at.array[used] = np.arange(len(used))

    def take(self, slots: Any) -> list[pa.Array]:
        """Return the columns of slots, NULL where there is no row."""
        at = self._at.array[slots]
        there = at >= 0
        if there.all():
            return self._rows.take(at)
        found = self._rows.take(at[there])
        places = np.where(there, np.cumsum(there) - 1, 0)
        indices = pa.array(places, mask=~there)
        return [column.take(indices) for column in found]

    def clear(self, slots: Any) -> None:
        """Have slots without rows."""
        self._at.array[slots] = -1

    def keep(self, slots: Any) -> None:
        """Have some slots only, numbered anew in the order given."""
        at = self._at.array[slots]
        there = at >= 0
        self._rows.keep(at[there])
        self._at.keep(slots)
        self._at.array[: len(slots)] = np.where(there, np.cumsum(there) - 1, -1)
        self._slots = len(slots)

    def entries(self, slots: Any) -> list[Any]:
        """Return the rows of slots as plain values, None where there is none."""
        at = self._at.array[slots]
        there = at >= 0
        rows = iter(self._rows.entries(at[there]))
        return [next(rows) if each else None for each in there.tolist()]

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        """Take over what `entries` gave."""
        there = np.fromiter((each is not None for each in entries), bool, len(entries))
        if there.any():
            rows = self._rows.restore([each for each in entries if each is not None])
            self._at.array[np.asarray(slots)[there]] = rows
