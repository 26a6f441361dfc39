"""Aggregates of many ranges of rows at once.

A range is cut into blocks whose lengths are powers of two, from its left end on. What blocks of a length come to is put
together from those of half the length, for all places at once, so the work for n rows is n times the logarithm of the
longest range, whatever the aggregates are::

    rows      0 1 2 3 4 5 6 7
    [1, 6)    - 1             block of 1
                - - - - 4     block of 4, from 2 on
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.aggregates.table import AggregateTable

__all__ = ["aggregate_ranges"]


def aggregate_ranges(
    make: Callable[[], AggregateTable], leaves: Sequence[Any], count: int, starts: Any, stops: Any
) -> AggregateTable:
    """Return a table with a slot for each range.

    Args:
        make: Makes tables of the aggregates.
        leaves: Partial results of each row (`AggregateTable.partials`).
        count: How many rows there are.
        starts: First row of each range.
        stops: The row behind its last one.
    """
    results = make()
    results.reach(max(1, len(starts)))
    lengths, at = stops - starts, starts.copy()
    block, width = list(leaves), 1
    longest = int(lengths.max()) if len(lengths) else 0
    while width <= longest:
        some = np.flatnonzero(lengths & width)
        if len(some):
            results.add_partials(some, _taken(block, at[some]))
            at[some] += width
        if 2 * width > longest:
            break
        # Blocks of twice the length; those that go beyond the end are never asked for.
        longer = make()
        longer.reach(count)
        every = np.arange(count)
        longer.add_partials(every, block)
        halves = every[: max(count - width, 0)]
        longer.add_partials(halves, _taken(block, halves + width))
        block, width = longer.partials(every), 2 * width
    return results


def _taken(columns: Sequence[Any], places: Any) -> list[Any]:
    indices = pa.array(places)
    return [each.take(indices) if isinstance(each, pa.Array) else each[places] for each in columns]
