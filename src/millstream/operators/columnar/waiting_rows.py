"""Rows that wait until there is something to be done with them: many small batches are then worked on as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.groups import KeyedRows
from millstream.operators.columnar.slot_values import plain

__all__ = ["WaitingRows"]

_MOST_WAITING = 32_768


class WaitingRows:
    """A time of each row, such as the start of its slice, and their columns, in order of arrival.

    Attributes:
        count: How many rows there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._times: list[Any] = []
        self._parts: list[KeyedRows] = []
        self._form: tuple[bool, list[pa.DataType | None]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether rows are to wait no longer: there are many."""
        return self.count >= _MOST_WAITING

    def takes(self, rows: KeyedRows) -> bool:
        """Return whether rows have the types of those that are there."""
        return not self.count or self._form == rows.form

    def add(self, times: Any, rows: KeyedRows) -> None:
        """Add rows of the types of those before.

        Args:
            times: The time of each one, at least one.
            rows: Their columns.
        """
        if not self.count:
            self._form = rows.form
        self._times.append(times)
        self._parts.append(rows)
        self.count += len(times)

    def take(self) -> tuple[Any, KeyedRows]:
        """Return all rows, of which there must be some; none is left."""
        times, parts = self._times, self._parts
        self._times, self._parts, self.count = [], [], 0
        if len(parts) == 1:
            return times[0], parts[0]
        keys, values = (
            [None if each[0] is None else _joined(each) for each in zip(*columns, strict=True)]
            for columns in ([part.keys for part in parts], [part.values for part in parts])
        )
        return np.concatenate(times), KeyedRows(keys, values, parts[0].combined)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([plain(part) for part in parts])
