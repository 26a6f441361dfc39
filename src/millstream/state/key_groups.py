"""Which subtask owns a key: key -> key group -> subtask, as in Flink, with half-open ranges.

The hash is made of the key's canonical bytes, so it is the same in every process, run and version.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from millstream.state.key_encoding import encode_key
from millstream.state.keys import canonical_key, canonical_keys

__all__ = ["KeyGroupMemo", "key_group", "key_group_of_bytes", "key_group_range", "subtask_of"]

_MEMO_LIMIT = 1_000_000


def key_group(key: Any, max_parallelism: int) -> int:
    """Return the key's group, in `[0, max_parallelism)`.

    >>> key_group("AA", 128) == key_group("A" + "A", 128)
    True
    """
    return key_group_of_bytes(encode_key(key), max_parallelism)


def key_group_of_bytes(encoded: bytes, max_parallelism: int) -> int:
    """Return the group of a key that is encoded already, in `[0, max_parallelism)`."""
    return ((zlib.crc32(encoded) * 0x9E3779B1 & 0xFFFFFFFF) >> 8) % max_parallelism


def subtask_of(group: int, max_parallelism: int, parallelism: int) -> int:
    """Return the subtask that owns a key group.

    >>> [subtask_of(group, 4, 2) for group in range(4)]
    [0, 0, 1, 1]
    """
    return group * parallelism // max_parallelism


def key_group_range(subtask_index: int, max_parallelism: int, parallelism: int) -> range:
    """Return the key groups that a subtask owns.

    >>> [list(key_group_range(i, 5, 2)) for i in range(2)]
    [[0, 1, 2], [3, 4]]
    """
    start = -(-subtask_index * max_parallelism // parallelism)
    return range(start, -(-(subtask_index + 1) * max_parallelism // parallelism))


class _Memo(dict[Any, int]):
    def __init__(self, max_parallelism: int, parallelism: int) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism

    def __missing__(self, key: Any) -> int:
        # A key that does not stand for itself may be equal to one of another group, or to none, as NaN: it is never
        # kept under what it is. Equal numbers of different kinds have the same group.
        canonical = canonical_key(key)
        if canonical is not key:
            return self[canonical]
        if len(self) >= _MEMO_LIMIT:
            self.clear()
        group = key_group(key, self._max_parallelism)
        subtask = self[key] = subtask_of(group, self._max_parallelism, self._parallelism)
        return subtask


class KeyGroupMemo:
    """Remembers the subtask of the keys seen lately; hashing is slow, a dict is not."""

    def __init__(self, max_parallelism: int, parallelism: int) -> None:
        self._memo = _Memo(max_parallelism, parallelism)

    def subtasks(self, keys: Sequence[Any]) -> list[int]:
        """Return the owning subtask of each key, canonical or not.

        Raises:
            ConfigurationError: If a key has no canonical form.
        """
        try:
            return list(map(self._memo.__getitem__, keys))
        except TypeError:  # not hashable
            return list(map(self._memo.__getitem__, canonical_keys(list(keys))))
