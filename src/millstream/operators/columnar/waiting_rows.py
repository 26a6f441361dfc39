"""Rows that wait until there is something to be done with them: many small batches are then worked on as one.

How many wait is bounded for each window: what fires at once, or goes into a checkpoint, takes its time then. Where a
source reads parts of a file whose times are far apart, rows of many windows wait for the slowest part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.groups import KeyedRows
from millstream.operators.columnar.slot_values import plain

__all__ = ["WaitingRows"]

_MOST_WAITING = 32_768
_MOST_WINDOWS = 8
_MOST_PARTS = 256
_MOST_BYTES = 32 << 20


class _Part(NamedTuple):
    times: Any
    rows: KeyedRows
    lowest: int

    def at(self, places: Any) -> _Part:
        times = self.times[places]
        return _Part(times, self.rows.take(places), int(times.min()))


class WaitingRows:
    """A time of each row, such as the start of its slice, and their columns, in order of arrival.

    Attributes:
        count: How many rows there are.
        lowest: The lowest time of a row; None if there are none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.lowest: int | None = None
        self._bytes = self._highest = 0
        self._parts: list[_Part] = []
        self._form: tuple[bool, list[pa.DataType | None]] | None = None

    def is_full(self, apart_ms: int | None = None) -> bool:
        """Return whether rows are to wait no longer: there are many.

        Args:
            apart_ms: How far apart the times of two windows are; None if rows are in no window yet.
        """
        if self.lowest is None or self.count < _MOST_WAITING:
            return False
        windows = 1 if apart_ms is None else 1 + (self._highest - self.lowest) // apart_ms
        return self.count >= _MOST_WAITING * min(windows, _MOST_WINDOWS) or self._bytes >= _MOST_BYTES

    def takes(self, rows: KeyedRows) -> bool:
        """Return whether rows have the types of those that are there."""
        return not self.count or self._form == rows.form

    def add(self, times: Any, rows: KeyedRows) -> None:
        """Add rows of the types of those before.

        Args:
            times: The time of each one, at least one.
            rows: Their columns.
        """
        lowest, highest = int(times.min()), int(times.max())
        if self.lowest is None:
            self.lowest, self._highest, self._form = lowest, highest, rows.form
        self.lowest, self._highest = min(self.lowest, lowest), max(self._highest, highest)
        self._parts.append(_Part(times, rows, lowest))
        self.count += len(times)
        self._bytes += rows.nbytes

    def take(self, chosen: Callable[[Any], Any] | None = None) -> tuple[Any, KeyedRows] | None:
        """Return rows that wait no longer; None if there are none.

        Args:
            chosen: Tells by their times which rows; if one is chosen, so are those of lower times. None takes all.
        """
        taken, kept = (self._parts, []) if chosen is None else self._cut(chosen)
        # Those that are looked at each time are few; what is far away is one, and not copied again.
        self._parts = kept if len(kept) <= _MOST_PARTS else [_joined_parts(kept)]
        self.count = sum(len(part.times) for part in self._parts)
        self._bytes = sum(part.rows.nbytes for part in self._parts)
        self.lowest = min((part.lowest for part in self._parts), default=None)
        if not taken:
            return None
        times, rows, _ = _joined_parts(taken)
        return times, rows

    def _cut(self, chosen: Callable[[Any], Any]) -> tuple[list[_Part], list[_Part]]:
        """Return the rows that are chosen, and the others."""
        taken: list[_Part] = []
        kept: list[_Part] = []
        begun = chosen(np.array([part.lowest for part in self._parts], np.int64))
        for part, has_some in zip(self._parts, begun, strict=True):
            are_chosen = chosen(part.times) if has_some else None
            if are_chosen is None:
                kept.append(part)
            elif are_chosen.all():
                taken.append(part)
            else:
                taken.append(part.at(np.flatnonzero(are_chosen)))
                kept.append(part.at(np.flatnonzero(~are_chosen)))
        return taken, kept


def _joined_parts(parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    rows = [part.rows for part in parts]
    keys, values = (
        [None if each[0] is None else _joined(each) for each in zip(*columns, strict=True)]
        for columns in ([part.keys for part in rows], [part.values for part in rows])
    )
    joined = KeyedRows(keys, values, rows[0].combined)
    return _Part(np.concatenate([part.times for part in parts]), joined, min(part.lowest for part in parts))


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([plain(part) for part in parts])
