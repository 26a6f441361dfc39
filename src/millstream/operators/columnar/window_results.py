"""Rows of results of windows by expression: key fields, the window's bounds, what the aggregates have come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import Output
from millstream.operators.portions import Pace
from millstream.spi.batch import Columns

__all__ = ["WINDOW_END", "WINDOW_START", "WindowResults", "portions"]

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""Names of the columns with a window's bounds, epoch milliseconds."""

_PORTION = 32_768


def portions(rows: Any) -> Iterator[Any]:
    """Yield an array in parts that are no larger than one batch of results."""
    for first in range(0, len(rows), _PORTION):
        yield rows[first : first + _PORTION]


class WindowResults:
    """Gathers results, and hands them on as soon as they are a portion.

    Args:
        keys: Names of the key fields.
        names: Names of the aggregates.

    Attributes:
        output: Where they go.
        pace: Lets the epoch end behind a portion.
    """

    output: Output
    pace: Pace

    def __init__(self, keys: Sequence[str], names: Sequence[str]) -> None:
        self._key_count, self._aggregate_count = len(keys), len(names)
        self._names = [*keys, WINDOW_START, WINDOW_END, *names]
        self._batches: list[pa.RecordBatch] = []
        self._stamps: list[Any] = []
        self._count = 0

    def add(self, starts: Any, ends: Any, columns: Sequence[pa.Array]) -> None:
        """Add results.

        Args:
            starts: The start of each one's window.
            ends: Its end.
            columns: Key columns, then the aggregates; windows of all records have one key column, which is left out.
        """
        keys, aggregates = columns[: self._key_count], columns[len(columns) - self._aggregate_count :]
        columns = [*keys, pa.array(starts), pa.array(ends), *aggregates]
        self._batches.append(pa.RecordBatch.from_arrays(columns, self._names))
        self._stamps.append(ends - 1)
        self._count += len(starts)
        if self._count >= _PORTION:
            self.flush()
            self.pace.pause()

    def flush(self) -> None:
        """Hand on what there is."""
        if not self._batches:
            return
        batches, stamps = self._batches, self._stamps
        self._batches, self._stamps, self._count = [], [], 0
        self.output.emit(Columns(_concat(batches), pa.array(np.concatenate(stamps))))


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; a column of which one has only nulls so far has the type that others have."""
    if len(batches) == 1:
        return batches[0]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()[0]
