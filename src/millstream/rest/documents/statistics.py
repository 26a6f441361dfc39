"""Figures over subtasks, as Flink's documents aggregate them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from millstream.rest.documents.base import Document

__all__ = ["Aggregate", "aggregate", "percentile"]


class Aggregate(Document, frozen=True, kw_only=True):
    """A figure over subtasks, in whole numbers."""

    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of values in order, between two of them in proportion; 0 for none.

    >>> percentile([1, 2, 3, 4], 0.5), percentile([], 0.5)
    (2.5, 0.0)
    """
    if not ordered:
        return 0.0
    position = (len(ordered) - 1) * share
    low = math.floor(position)
    high = math.ceil(position)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def aggregate(values: Sequence[float]) -> Aggregate:
    """Return the figures over some values; zeros for none."""
    ordered = sorted(values)
    total = sum(ordered)
    return Aggregate(
        min=int(ordered[0]) if ordered else 0,
        max=int(ordered[-1]) if ordered else 0,
        avg=int(total / len(ordered)) if ordered else 0,
        sum=int(total),
        median=int(percentile(ordered, 0.5)),
        p25=int(percentile(ordered, 0.25)),
        p75=int(percentile(ordered, 0.75)),
        p95=int(percentile(ordered, 0.95)),
    )


def aggregate_each(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, Aggregate]:
    """Return the figures of each name over rows that have it."""
    return {name: aggregate([row[name] for row in rows if name in row]) for name in names}
