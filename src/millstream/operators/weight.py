"""How many bytes values are worth on their way: an estimate from samples, cheap enough for every batch.

The estimate is of what travels, not of what Python's objects take in memory: about the size of the pickled values.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.types.row import Row

__all__ = ["estimate_bytes", "weigh"]

_SAMPLES = 5
_DEPTH = 4
_FIXED = {bool: 1, int: 5, float: 9, type(None): 1}


def estimate_bytes(values: Sequence[Any]) -> int:
    """Return about how many bytes a batch is worth, from a few of its values.

    >>> estimate_bytes(["x" * 1000] * 50)
    50100
    >>> estimate_bytes([])
    0
    """
    count = len(values)
    if count <= _SAMPLES:
        return sum(map(weigh, values))
    step = (count - 1) / (_SAMPLES - 1)
    return sum(weigh(values[round(place * step)]) for place in range(_SAMPLES)) * count // _SAMPLES


def weigh(value: Any, depth: int = _DEPTH) -> int:
    """Return about how many bytes one value is worth; of what is nested deeper than four, the shell's only.

    >>> weigh((1, "abc", None))
    15
    """
    kind = type(value)
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    if kind is str or kind is bytes or kind is bytearray:
        return len(value) + 2
    if depth:
        if isinstance(value, Mapping):
            return 4 + _sampled(
                [part for pair in _some(value.items()) for part in pair], 2 * len(value), depth
            )
        if isinstance(value, (list, tuple, set, frozenset)):
            return 4 + _sampled(_some(value), len(value), depth)
        inside = _attributes(value)
        if inside:
            return 20 + _sampled(inside, len(inside), depth)
    return sys.getsizeof(value, 64)


def _attributes(value: Any) -> list[Any]:
    """Return what a Row or an object of a user's class holds."""
    if isinstance(value, Row):
        return list(value._values)
    slots = getattr(type(value), "__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in names)]


def _some(values: Any) -> list[Any]:
    return [value for value, _ in zip(values, range(20), strict=False)]


def _sampled(some: list[Any], count: int, depth: int) -> int:
    return sum(weigh(value, depth - 1) for value in some) * count // len(some) if some else 0
