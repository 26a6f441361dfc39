"""Numbers for keys, before the types of the key columns are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.key_index import KeyIndex, build_index
from millstream.operators.columnar.slot_values import plain

__all__ = ["KeyNumbers"]


class KeyNumbers:
    """Keys, numbered from 0 in the order in which they came; how they are found depends on the types of the first.

    Args:
        names: Names of the key columns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._index: KeyIndex | None = None

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    @property
    def kinds(self) -> list[pa.DataType] | None:
        """The types of the key columns so far; None as long as they are not known."""
        return None if self._index is None else list(self._index.kinds)

    def learn(self, kinds: Sequence[pa.DataType] | None) -> None:
        """Take over types, of a snapshot or of other keys.

        Raises:
            TypeMismatchError: If they do not go with those that are known.
        """
        if kinds is not None:
            self._index_for(kinds).learn(kinds)

    def of(self, columns: Sequence[pa.Array]) -> Any:
        """Return the number of each row's key; keys that are new get the next ones."""
        columns = [plain(column) for column in columns]
        return self._index_for([column.type for column in columns]).slots(columns)

    def of_keys(self, keys: Sequence[Any]) -> Any:
        """Return the numbers of canonical keys; new ones get the next. The types are known."""
        assert self._index is not None, "keys without their types"
        return self._index.slots_of_keys(keys)

    def add_all(self, other: KeyNumbers) -> Any:
        """Return the number that each key of others has here, in their order; they stay as they are."""
        assert other._index is not None, "keys without their types"
        every = np.arange(len(other))
        if len(self):
            return self._index_for(other._index.kinds).slots(other._index.columns(every))
        known = self.kinds
        self._index = other._index.copy()
        self.learn(known)
        return every

    def columns(self, numbers: Any) -> list[pa.Array]:
        """Return the key columns of numbers; none if the types are not known."""
        return [] if self._index is None else self._index.columns(numbers)

    def keys(self, numbers: Any) -> list[Any]:
        """Return the canonical keys of numbers."""
        return [] if self._index is None else self._index.keys(numbers)

    def _index_for(self, kinds: Sequence[pa.DataType]) -> KeyIndex:
        if self._index is None:
            self._index = build_index(self._names, kinds)
        return self._index
