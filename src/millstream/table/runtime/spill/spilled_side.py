"""A join's side of which only some rows are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.arrays import array_of, conform, values_of_fixed
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.join_side import Delta, JoinSide
from millstream.table.runtime.spill.packed_rows import LANES
from millstream.table.runtime.spill.run_store import ID, STAMP, WEIGHT, RunStore

__all__ = ["SpilledSide"]

_MATCHES, _ALONE = "matches", "alone"
_INDEX_BYTES = 64


class SpilledSide(JoinSide):
    """Rows of one side; those in memory may be on disk as well.

    A row that only comes, and of which nothing changes, is written once. Others have an id: what is written later of
    the same row counts instead.

    Args:
        kinds: Arrow types of the columns.
        unique: Places of the columns of a unique key; None if there is none.
        retracts: Whether rows are taken back.
        alone: Whether it is counted how many rows match each.
        ttl_ms: How long rows are kept; None for ever.
        keys: Places of the join's key columns.
        key_kinds: Their types, as both sides have them.
        directory: For the rows on disk; is made here.

    Attributes:
        store: The rows on disk.
        retracts: As given.
        key_kinds: As given.
        keys: As given.
    """

    def __init__(
        self,
        kinds: Sequence[pa.DataType],
        unique: Sequence[int] | None,
        *,
        retracts: bool,
        alone: bool,
        ttl_ms: int | None,
        keys: Sequence[int],
        key_kinds: Sequence[pa.DataType],
        directory: Path,
    ) -> None:
        super().__init__(kinds, unique, retracts=retracts, ttl_ms=ttl_ms)
        self.retracts, self.keys, self.key_kinds = retracts, list(keys), list(key_kinds)
        self._lanes: dict[str, Lane] = {}
        self._ids, self._stored, self._dirty = Lane(np.int64), Lane(bool), Lane(bool)
        self._next_id = 0
        if retracts or alone:
            self._lanes |= {ID: self._ids, WEIGHT: self.weights}
        if alone:
            self._lanes |= {_MATCHES: self.matches, _ALONE: self.alone}
        if ttl_ms is not None:
            assert self.expiry.lane is not None
            self._lanes[STAMP] = self.expiry.lane
        fields = [pa.field(name, pa.int64()) for name in self._lanes]
        fields += [pa.field(f"f{place}", kind) for place, kind in enumerate(kinds)]
        self._schema = pa.schema(fields)
        self.store = RunStore(directory, self._schema, ttl_ms)

    # In memory

    def _append(self, columns: Sequence[pa.Array], slots: Any) -> Any:
        rows = super()._append(columns, slots)
        count = self.rows.count
        self._ids.reach(count)[rows] = np.arange(self._next_id, self._next_id + len(rows))
        self._next_id += len(rows)
        self._stored.reach(count)[rows] = False
        self._dirty.reach(count)[rows] = True
        return rows

    def apply(self, delta: Delta, now_ms: int) -> Delta:
        """Have the rows come and go; return what that is."""
        self._dirty.array[delta.rows] = True
        return super().apply(delta, now_ms)

    def mark(self, rows: Any) -> None:
        """Note that what is kept of rows changes."""
        self._dirty.array[rows] = True

    def expire(self, now_ms: int) -> Any:
        """Forget rows that have expired; return their keys."""
        self._dirty.array[self.expiry.expired(self.rows.count, now_ms)] = False
        return super().expire(now_ms)

    def keep(self, rows: Any, slots: Any) -> None:
        """Have some rows only in memory, numbered anew in the order given."""
        for lane in (self._ids, self._stored, self._dirty):
            lane.keep(rows)
        super().keep(rows, slots)

    @property
    def held(self) -> Any:
        """The rows in memory that have to stay there, or be written, ascending."""
        count = self.rows.count
        gone = self._dirty.array[:count] & self._stored.array[:count]
        return np.flatnonzero((self.weights.array[:count] != 0) | gone)

    @property
    def stored(self) -> Any:
        """Whether each row in memory is on disk as well."""
        return self._stored.array[: self.rows.count]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        lanes = (self.weights, self.matches, self.alone, self.slot_of, self._ids, self._stored, self._dirty)
        index = self.rows.count * _INDEX_BYTES * (2 if self.retracts else 1)
        return sum(lane.array.nbytes for lane in lanes) + self.rows.nbytes + index

    # On disk

    def write(self, rows: Any, numbers: Any) -> None:
        """Write what changed of some rows.

        Args:
            rows: Numbers of rows.
            numbers: The number of the key of each row in memory, by slot.
        """
        stored = self._stored.array[rows]
        changed = self._dirty.array[rows] & (stored | (self.weights.array[rows] != 0))
        rows, stored = rows[changed], stored[changed]
        if not len(rows):
            return
        # A row that is gone does not count itself either.
        replaced = int(np.count_nonzero(stored)) + int(np.count_nonzero(self.weights.array[rows] == 0))
        columns = [array_of(pa.int64(), lane.array[rows]) for lane in self._lanes.values()]
        columns += self.rows.take(rows)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self.store.add(numbers[self.slot_of.array[rows]], batch, replaced)
        self._stored.array[rows] = True
        self._dirty.array[rows] = False

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the key columns of rows from disk."""
        skipped = len(self._lanes)
        return [
            conform(batch.column(skipped + place), kind)
            for place, kind in zip(self.keys, self.key_kinds, strict=True)
        ]

    def columns_of_keys(self, packed: pa.RecordBatch) -> list[pa.Array]:
        """Return the key columns of rows from a checkpoint."""
        return [
            conform(packed.column(len(LANES) + place), kind)
            for place, kind in zip(self.keys, self.key_kinds, strict=True)
        ]

    def load(self, batch: pa.RecordBatch, slots: Any) -> None:
        """Take rows from disk into memory."""
        rows = self._append(batch.columns[len(self._lanes) :], slots)
        self.weights.array[rows] = 1
        for place, lane in enumerate(self._lanes.values()):
            lane.array[rows] = values_of_fixed(batch.column(place))
        self._next_id -= len(rows) if ID in self._lanes else 0
        self._stored.array[rows] = True
        self._dirty.array[rows] = False
        self._learn(rows)

    def packed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows from disk as checkpoints have them: with all `LANES`."""
        count = len(batch)
        zeros = pa.array(np.zeros(count, np.int64))
        lanes = {
            WEIGHT: pa.array(np.ones(count, np.int64)),
            _MATCHES: zeros,
            _ALONE: zeros,
            STAMP: pa.nulls(count, pa.int64()),
        }
        lanes |= {name: batch.column(place) for place, name in enumerate(self._lanes) if name in lanes}
        columns = [*(lanes[name] for name in LANES), *batch.columns[len(self._lanes) :]]
        names = [*LANES, *self._schema.names[len(self._lanes) :]]
        return pa.RecordBatch.from_arrays(columns, names)

    def restore_packed(self, batch: pa.RecordBatch, slots: Any) -> None:
        """Take over rows from a checkpoint."""
        rows = self._append(batch.columns[len(LANES) :], slots)
        for place, lane in enumerate((self.weights, self.matches, self.alone)):
            lane.array[rows] = values_of_fixed(batch.column(place))
        stamps = batch.column(3)
        if self.expiry.lane is not None:
            self.expiry.lane.array[rows] = 0 if stamps.null_count else values_of_fixed(stamps)
        self._learn(rows)
