"""Which subtask owns a key: key -> key group -> subtask, as in Flink, with half-open ranges.

The hash (`key_hash.py`) is the same in every process, run and version, for single keys and for columns of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.state.key_hash import key_group, key_groups_of_columns
from millstream.state.keys import canonical_key, canonical_keys

__all__ = ["KeyGroupMemo", "key_group", "key_group_range", "key_groups_of_columns", "subtask_of"]

_MEMO_LIMIT = 1_000_000


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
