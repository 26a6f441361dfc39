"""A Bloom filter of 64-bit numbers that numpy asks for many at once.

All bits of a number lie in one word of 64 bits, so that a question touches one place in memory (blocked Bloom filters:
Putze, Sanders, Singler, Cache-, hash- and space-efficient Bloom filters, 2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BloomFilter"]

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_PER_WORD = 5
_BITS = 5
_PART = 6


class BloomFilter:
    """Tells which numbers are certainly not there; of others about one in fifty passes.

    Args:
        count: How many numbers there will be.
    """

    def __init__(self, count: int) -> None:
        self._words = np.zeros(max(count // _PER_WORD, 1), np.uint64)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return int(self._words.nbytes)

    def add(self, numbers: Any) -> None:
        """Add numbers, an array of uint64."""
        places, bits = self._split(numbers)
        np.bitwise_or.at(self._words, places, bits)

    def may_have(self, numbers: Any) -> Any:
        """Return for each number whether it may be there."""
        places, bits = self._split(numbers)
        return (self._words[places] & bits) == bits

    def _split(self, numbers: Any) -> tuple[Any, Any]:
        mixed = numbers * _FIRST
        mixed ^= mixed >> _SHIFT
        mixed *= _SECOND
        mixed ^= mixed >> _SHIFT
        places = (mixed >> _SHIFT) * np.uint64(len(self._words)) >> _SHIFT
        mixed &= _LOW
        bits = np.zeros(len(numbers), np.uint64)
        for _ in range(_BITS):
            bits |= np.uint64(1) << (mixed & np.uint64(63))
            mixed >>= np.uint64(_PART)
        return places.astype(np.int64), bits
