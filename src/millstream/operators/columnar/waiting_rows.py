"""Rows that wait until there is something to be done with them: many small batches are then worked on as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.slot_values import plain

__all__ = ["WaitingRows"]


class WaitingRows:
    """The starts of the slices of rows, and their columns, in order of arrival.

    Attributes:
        count: How many rows there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._starts: list[Any] = []
        self._parts: list[list[pa.Array | None]] = []
        self._kinds: list[pa.DataType | None] = []

    def takes(self, columns: Sequence[pa.Array | None]) -> bool:
        """Return whether columns have the types of those that are there."""
        return not self.count or self._kinds == [None if each is None else each.type for each in columns]

    def add(self, starts: Any, columns: Sequence[pa.Array | None]) -> None:
        """Add rows.

        Args:
            starts: The start of each one's slice, at least one.
            columns: The columns, of the types of those before; None for no column.
        """
        self._starts.append(starts)
        self._parts.append(list(columns))
        self._kinds = [None if each is None else each.type for each in columns]
        self.count += len(starts)

    def take(self) -> tuple[Any, list[pa.Array | None]]:
        """Return all rows, of which there must be some; none is left."""
        starts, parts = self._starts, self._parts
        self._starts, self._parts, self.count = [], [], 0
        if len(parts) == 1:
            return starts[0], parts[0]
        columns = [None if each[0] is None else _joined(each) for each in zip(*parts, strict=True)]
        return np.concatenate(starts), columns


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([plain(part) for part in parts])
