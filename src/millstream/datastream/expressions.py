"""Aggregates by expression, computed on whole columns: no function is called for a record. PyFlink has none.

::

    from millstream.datastream.expressions import count, mean, sum_

    stream.key_by("user").aggregate(total=sum_("price"), n=count())
    stream.key_by("user").window(TumblingEventTimeWindows.of(Time.hours(1))).aggregate(typical=mean("price"))

`sum`, `min` and `max` are there under these names too, for `from millstream.datastream import expressions as e`.
Null is skipped by all but `first` and `last`, which give what came first and last; `count()` counts records.
"""

from __future__ import annotations

from millstream.operators.columnar.aggregates import Aggregate, AggregateKind

__all__ = [
    "Aggregate",
    "count",
    "first",
    "last",
    "max",
    "max_",
    "mean",
    "median",
    "min",
    "min_",
    "quantile",
    "sum",
    "sum_",
]


def count(field: str | None = None) -> Aggregate:
    """Count records, or values of a field that are not null."""
    return Aggregate(AggregateKind.COUNT, field)


def sum_(field: str) -> Aggregate:
    """Add up a field: integers and booleans in 64 bits, floats, decimals; null if there is no value.

    Floats are added in the order of the records. A sum of integers beyond 64 bits fails the job.
    """
    return Aggregate(AggregateKind.SUM, field)


def min_(field: str) -> Aggregate:
    """Return the least value of a field of any type that has an order; NaN is skipped."""
    return Aggregate(AggregateKind.MIN, field)


def max_(field: str) -> Aggregate:
    """Return the greatest value of a field of any type that has an order; NaN is skipped."""
    return Aggregate(AggregateKind.MAX, field)


def mean(field: str) -> Aggregate:
    """Return the mean of a field's numbers as a float."""
    return Aggregate(AggregateKind.MEAN, field)


def first(field: str) -> Aggregate:
    """Return a field of the first record."""
    return Aggregate(AggregateKind.FIRST, field)


def last(field: str) -> Aggregate:
    """Return a field of the last record."""
    return Aggregate(AggregateKind.LAST, field)


def quantile(field: str, q: float, accuracy: float = 0.01) -> Aggregate:
    """Return a quantile of a field's numbers, of a sketch: none of them is kept.

    Args:
        field: Its name.
        q: From 0, the least, to 1, the greatest.
        accuracy: Relative error: with 0.01 the result is within one per cent of the value whose rank among n is
            floor(q * (n - 1)). A key's sketch has a bucket for each range of that width in which it has values.
    """
    return Aggregate(AggregateKind.QUANTILE, field, quantile=q, accuracy=accuracy)


def median(field: str, accuracy: float = 0.01) -> Aggregate:
    """Return the quantile 0.5."""
    return quantile(field, 0.5, accuracy)


sum = sum_
min = min_
max = max_
