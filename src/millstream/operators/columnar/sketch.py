"""Quantiles with a bounded relative error, of values that are not kept: DDSketch (Masson, Rim, Lee 2019).

Values are counted in buckets whose bounds grow by a factor, so that the middle of a bucket is within the relative error
of every value in it::

    bounds     gamma^i, gamma = (1 + error) / (1 - error)      0.01: 1.0202
    bucket i   (gamma^(i-1), gamma^i], stands for 2 * gamma^i / (gamma + 1)

Negative values have buckets of their own, mirrored; zero has one. A quantile q of n values is that of rank
floor(q * (n - 1)), so the exact one but for the error. Two sketches are merged by adding their counts: the result is
that of all values, whatever the order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["QuantileSketches"]

_POSITIVE = 1 << 20
_LEAST = float(np.finfo(np.float64).tiny)
_LARGEST = float(np.finfo(np.float64).max)
_LARGEST_LOG = math.log(_LARGEST)


class QuantileSketches:
    """A sketch for each slot: counts by bucket.

    A bucket is a number whose order is that of the values: zero is 0, positive values are above, negative ones below.

    Args:
        accuracy: The relative error.
    """

    def __init__(self, accuracy: float) -> None:
        self._gamma = (1 + accuracy) / (1 - accuracy)
        self._log_gamma = math.log(self._gamma)
        self._log_half = math.log((self._gamma + 1) / 2)
        self._counts: list[dict[int, int]] = []

    def grow(self, capacity: int) -> None:
        """Make room for slots."""
        self._counts += [{} for _ in range(capacity - len(self._counts))]

    def clear(self, slots: list[int]) -> None:
        """Have slots begin anew."""
        for slot in slots:
            self._counts[slot] = {}

    def add(self, slots: Any, numbers: Any) -> None:
        """Add numbers, none of them NaN."""
        if not len(numbers):
            return
        buckets = self._buckets(numbers)
        lowest = int(buckets.min())
        span = int(buckets.max()) - lowest + 1
        pairs, counts = np.unique(slots * span + (buckets - lowest), return_counts=True)
        held = self._counts
        places = zip((pairs // span).tolist(), (pairs % span + lowest).tolist(), counts.tolist(), strict=True)
        for slot, bucket, count in places:
            of_slot = held[slot]
            of_slot[bucket] = of_slot.get(bucket, 0) + count

    def _buckets(self, numbers: Any) -> Any:
        sizes = np.abs(numbers)
        is_zero = sizes < _LEAST
        with np.errstate(divide="ignore"):
            ranks = np.ceil(np.log(np.clip(sizes, _LEAST, _LARGEST)) / self._log_gamma)
        shifted = ranks.astype(np.int64) + _POSITIVE
        return np.where(is_zero, 0, np.where(numbers < 0, -shifted, shifted))

    def merge(self, slots: Any, other: QuantileSketches, taken: Any) -> None:
        """Add the sketches of another; see `Accumulator.merge`."""
        for slot, other_slot in zip(slots.tolist(), taken.tolist(), strict=True):
            of_slot = self._counts[slot]
            for bucket, number in other._counts[other_slot].items():
                of_slot[bucket] = of_slot.get(bucket, 0) + number

    def quantiles(self, slots: list[int], quantile: float) -> list[float | None]:
        """Return a quantile of each slot's values, None where there are none."""
        return [self._quantile(self._counts[slot], quantile) for slot in slots]

    def _quantile(self, counts: dict[int, int], quantile: float) -> float | None:
        rank = math.floor(quantile * (sum(counts.values()) - 1))
        for bucket in sorted(counts):
            rank -= counts[bucket]
            if rank < 0:
                return self._value(bucket)
        return None

    def _value(self, bucket: int) -> float:
        if bucket == 0:
            return 0.0
        size = math.exp(min((abs(bucket) - _POSITIVE) * self._log_gamma - self._log_half, _LARGEST_LOG))
        return size if bucket > 0 else -size

    def entries(self, slots: list[int]) -> list[dict[int, int]]:
        """Return the counts of slots."""
        return [dict(self._counts[slot]) for slot in slots]

    def restore(self, slots: list[int], entries: list[dict[int, int]]) -> None:
        """Take over what `entries` gave."""
        for slot, counts in zip(slots, entries, strict=True):
            self._counts[slot] = dict(counts)
