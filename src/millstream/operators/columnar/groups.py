"""Aggregates by key: slots for keys, accumulators for slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.accumulator_set import AccumulatorSet, KeptKinds
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.key_numbers import KeyNumbers
from millstream.operators.columnar.slot_values import plain

__all__ = ["Groups", "KeyedRows", "Kinds"]

Kinds = tuple[list[pa.DataType] | None, KeptKinds]
"""Types of the key columns, None as long as there is no key, and of what each accumulator keeps."""


class KeyedRows(NamedTuple):
    """Columns of rows that are to be aggregated.

    Attributes:
        keys: The key columns.
        values: For each aggregate its column, or None; of combined rows what `Groups.partials` gave of it.
        combined: Whether a row stands for several records.
    """

    keys: list[pa.Array]
    values: list[pa.Array | None]
    combined: bool = False

    def take(self, places: Any) -> KeyedRows:
        """Return the rows in some places, an array of integers."""
        rows = pa.array(places)
        keys, values = (
            [None if column is None else column.take(rows) for column in columns] for columns in self[:2]
        )
        return KeyedRows(keys, values, self.combined)

    @property
    def nbytes(self) -> int:
        """How many bytes the columns have."""
        return sum(column.nbytes for column in (*self.keys, *self.values) if column is not None)

    @property
    def form(self) -> tuple[bool, list[pa.DataType | None]]:
        """What rows that are put behind each other have in common."""
        columns = [*self.keys, *self.values]
        return self.combined, [None if column is None else column.type for column in columns]


class Groups:
    """What some aggregates have come to for each key.

    Args:
        key_names: Names of the key columns.
        aggregates: What is computed.
    """

    def __init__(self, key_names: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        self._accumulators = AccumulatorSet(aggregates)
        self._keys = KeyNumbers(key_names)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def kinds(self) -> Kinds:
        """The types that were learnt from the columns so far."""
        return self._keys.kinds, self._accumulators.kinds

    def learn(self, kinds: Kinds) -> None:
        """Take over types, of a snapshot or of other groups.

        Raises:
            TypeMismatchError: If they do not go with those that are known.
        """
        keys, kept = kinds
        self._keys.learn(keys)
        self._accumulators.learn(kept)

    def add(self, keys: Sequence[pa.Array], columns: Sequence[pa.Array | None]) -> Any:
        """Add rows, in order.

        Args:
            keys: The key columns.
            columns: For each aggregate its column, or None.

        Returns:
            The slot of each row.

        Raises:
            TypeMismatchError: If a column is of a type that does not fit.
            NumberRangeError: If a sum leaves the range of its type.
        """
        return self.add_rows(KeyedRows(list(keys), list(columns)))

    def add_rows(self, rows: KeyedRows) -> Any:
        """Add rows, combined or not, in order; as `add`."""
        slots = self._keys.of(rows.keys)
        self._accumulators.reach(len(self))
        self._accumulators.add(slots, rows.values, combined=rows.combined)
        return slots

    def partials(self, slots: Any) -> list[pa.Array]:
        """Return the key columns of slots, and what stands for their records: `add_rows` takes it as combined."""
        return [*self._keys.columns(slots), *self._accumulators.partials(slots)]

    def merge(self, other: Groups) -> None:
        """Add what other groups have, which count as later and stay as they are."""
        if other._keys.kinds is None:
            return
        slots = self._keys.add_all(other._keys)
        self._accumulators.reach(len(self))
        self._accumulators.merge(slots, other._accumulators, other.every())

    def slots_of(self, keys: Sequence[Any]) -> Any:
        """Return the slots of canonical keys that are there."""
        return self._keys.of_keys(keys)

    def every(self) -> Any:
        """Return all slots, in the order in which their keys came."""
        return np.arange(len(self))

    def columns(self, slots: Any, keys: Sequence[pa.Array] | None = None) -> list[pa.Array]:
        """Return the key columns and the results of slots.

        Args:
            slots: The slots.
            keys: Their keys as they came in columns, where these are at hand.
        """
        kinds = self._keys.kinds
        if keys is None or kinds is None:
            keys = self._keys.columns(slots)
        else:
            keys = [plain(key).cast(kind) for key, kind in zip(keys, kinds, strict=True)]
        return [*keys, *self._accumulators.results(slots)]

    def keys(self, slots: Any) -> list[Any]:
        """Return the canonical keys of slots."""
        return self._keys.keys(slots)

    def entries(self, slots: Any) -> list[tuple[Any, ...]]:
        """Return what the slots have, as plain values: for each a tuple with one part for each aggregate."""
        return self._accumulators.entries(slots)

    def restore(self, keys: Sequence[Any], entries: Sequence[tuple[Any, ...]]) -> None:
        """Take over what `entries` gave, of keys that are not there yet; `learn` was called before."""
        if not keys:
            return
        slots = self._keys.of_keys(keys)
        self._accumulators.reach(len(self))
        self._accumulators.restore(slots, entries)
