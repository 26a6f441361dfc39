"""Stable sorts of integers in numpy.

numpy sorts integers of 64 bits several times as quickly as it finds their order. So the place of each number is put
behind it, in the same 64 bits, if both fit::

    numbers     7 3 7 3          sorted with places   3|1 3|3 7|0 7|2       order 1 3 0 2
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["distinct_sorted", "first_places", "last_places", "stable_argsort"]

_MOST = 1 << 62


def stable_argsort(numbers: Any) -> Any:
    """Return the order of integers; equal ones as they are."""
    count = len(numbers)
    if count < 2:
        return np.arange(count)
    if numbers.dtype == bool or numbers.dtype.kind not in "iu":
        return np.argsort(numbers, kind="stable")
    low, high = int(numbers.min()), int(numbers.max())
    bits = count.bit_length()
    if (high - low + 1) << bits >= _MOST:
        return np.argsort(numbers, kind="stable")
    packed = (numbers.astype(np.int64) - low) << bits
    packed |= np.arange(count)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def distinct_sorted(numbers: Any) -> Any:
    """Return the different numbers, ascending: numpy's `unique` hashes them first, which takes far longer."""
    ordered = np.sort(numbers)
    if len(ordered) < 2:
        return ordered
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def first_places(slots: Any) -> tuple[Any, Any]:
    """Return the different numbers, ascending, and the first place of each."""
    order = stable_argsort(slots)
    ordered = slots[order]
    first = np.ones(len(order), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first], order[first]


def last_places(slots: Any) -> tuple[Any, Any]:
    """Return the different numbers, ascending, and the last place of each."""
    order = stable_argsort(slots)
    ordered = slots[order]
    last = np.ones(len(order), bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return ordered[last], order[last]
