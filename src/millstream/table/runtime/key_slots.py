"""Key columns to slots: numbers from 0, and back to columns and to the keys that checkpoints go by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.time import Instant
from millstream.operators.columnar.key_index import KeyIndex, build_index
from millstream.state.keys import canonical_keys, original_key
from millstream.table.runtime.arrays import array_of, bits_of, conform, validity_of, values_of_fixed
from millstream.table.runtime.growing import plain_value
from millstream.types.arrow_values import values_of

__all__ = ["KeySlots"]

_ALL = 0
"""The key of rows that have no key columns."""


class KeySlots:
    """Keys by slot; NULL is a key as others are, and all NaNs are one.

    Args:
        kinds: Arrow types of the key columns; none for one key that all rows have.
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.kinds = list(kinds)
        self._held = [bits_of(pa.nulls(0, kind)).type for kind in self.kinds]
        self._index: KeyIndex | None = self._make()
        self._all = 0

    def _make(self) -> KeyIndex | None:
        names = [f"key column {place}" for place in range(len(self.kinds))]
        return build_index(names, self._held) if self.kinds else None

    def __len__(self) -> int:
        return self._all if self._index is None else len(self._index)

    def of(self, columns: Sequence[pa.Array], count: int) -> Any:
        """Return the slot of each row; keys that are new get the next ones.

        Args:
            columns: The key columns.
            count: How many rows there are.
        """
        if self._index is None:
            self._all = max(self._all, min(count, 1))
            return np.zeros(count, np.int64)
        return self._index.slots([bits_of(column) for column in columns])

    def columns(self, slots: Any) -> list[pa.Array]:
        """Return the key columns of slots."""
        if self._index is None:
            return []
        return [
            _from_bits(column, kind)
            for column, kind in zip(self._index.columns(slots), self.kinds, strict=True)
        ]

    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots, as exchanges deal them: a value, or a tuple of several."""
        columns = self.columns(slots)
        if not columns:
            return [_ALL] * len(slots)
        if len(columns) == 1:
            return canonical_keys(values_of(columns[0]))
        return canonical_keys(list(zip(*map(values_of, columns), strict=True)))

    def of_keys(self, keys: Sequence[Any]) -> Any:
        """Return the slots of canonical keys; new ones get the next."""
        if self._index is None:
            return self.of([], len(keys))
        values = [original_key(key) for key in keys]
        parts = (
            [values] if len(self.kinds) == 1 else list(zip(*values, strict=True)) or [()] * len(self.kinds)
        )
        columns = [_column_of(part, kind) for part, kind in zip(parts, self.kinds, strict=True)]
        return self.of(columns, len(keys))

    def keep(self, slots: Any) -> None:
        """Have some keys only, numbered anew in the order given."""
        kept = self.columns(slots)
        self._index, self._all = self._make(), 0
        self.of(kept, len(slots))


def _column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return the column of key values as Python has them."""
    if pa.types.is_nested(kind):
        return pa.array([plain_value(each) for each in values], kind)
    if not pa.types.is_timestamp(kind):
        return pa.array(list(values), kind)
    in_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    moments = [
        each.seconds * in_second + each.nanos * in_second // 1_000_000_000
        if isinstance(each, Instant)
        else each
        for each in values
    ]
    if any(isinstance(each, int) for each in moments):
        return pa.array(moments, pa.int64()).view(kind)
    return pa.array(moments, kind)


def _from_bits(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of what `bits_of` made."""
    if column.type == kind:
        return column
    if pa.types.is_boolean(kind):
        return column.cast(kind)
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):
        low = values_of_fixed(column)
        both = np.empty((len(low), 2), np.int64)
        both[:, 0], both[:, 1] = low, low >> 63
        return array_of(kind, both.reshape(-1).view("V16"), validity_of(column))
    if pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        width = kind.bit_width
        return column.cast(getattr(pa, f"int{width}")()).view(kind)
    return conform(column, kind)
