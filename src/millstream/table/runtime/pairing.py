"""Pairs of rows that have the same slot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.arrays import concat
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.multimap import spread
from millstream.table.runtime.sorting import stable_argsort

__all__ = ["behind", "join_rows", "pairs_of"]


def pairs_of(left: Any, right: Any) -> tuple[Any, Any]:
    """Return places in two arrays whose numbers are equal, each with each, in the order of the first."""
    order = stable_argsort(right)
    ordered = right[order]
    first, last = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    lengths = last - first
    return np.repeat(np.arange(len(left)), lengths), order[spread(first, lengths)]


def join_rows(
    left: list[pa.Array],
    right: list[pa.Array],
    places: tuple[Any, Any],
    *,
    condition: Expressions | None,
    counts: tuple[int, int],
) -> tuple[list[pa.Array], Any, Any]:
    """Return the columns of pairs that fulfil a condition, and which rows of both sides are in one.

    Args:
        left: Columns of the left rows.
        right: Columns of the right rows.
        places: Of the pairs.
        condition: Over all columns; None holds for all.
        counts: How many rows there are on both sides.
    """
    mine, others = places
    columns = [column.take(pa.array(mine)) for column in left]
    columns += [column.take(pa.array(others)) for column in right]
    if condition is not None and len(mine):
        holds = condition.holds(columns, len(mine))
        if not holds.all():
            mask = pa.array(holds)
            columns = [column.filter(mask) for column in columns]
            mine, others = mine[holds], others[holds]
    matched_left, matched_right = np.zeros(counts[0], bool), np.zeros(counts[1], bool)
    matched_left[mine] = True
    matched_right[others] = True
    return columns, matched_left, matched_right


def behind(parts: list[list[pa.Array]]) -> list[pa.Array]:
    """Return rows behind each other as one."""
    return [concat(each) for each in zip(*parts, strict=True)]
