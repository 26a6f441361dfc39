"""Top-N: rows whose ROW_NUMBER() is within bounds, and ORDER BY with FETCH."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import OwnEntries
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    columns_batch,
    weighted,
)
from millstream.table.runtime.epoch_operator import EpochOperator, Input
from millstream.table.runtime.expiry import Expiry
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.top_table import TopChange, TopTable
from millstream.table.runtime.touched import Touched

if TYPE_CHECKING:
    from millstream.table.runtime.rank_specs import RankSpec

__all__ = ["PARTITIONS", "MaterializeOperator", "RankOperator"]

PARTITIONS = "partitions"
"""Entries of Top-N: key -> (last access, (last number, [rows, ...]))."""

_NONE = -1
_ANY_END = 1 << 40


class RankOperator(EpochOperator):
    """Keeps the first rows of each partition.

    Args:
        spec: What is declared.
        newest: Whether equal rows are in the reverse of the order in which they came.
    """

    whole_in_batch = True

    def __init__(self, spec: RankSpec, *, newest: bool = False) -> None:
        kinds = arrow_types(spec.input)
        super().__init__([kinds], [spec.retracts])
        self._spec = spec
        self._keys = KeySlots([kinds[place] for place in spec.partition])
        self._top = TopTable(
            kinds,
            spec.order,
            spec.end if spec.end_column is None else _ANY_END,
            retracts=spec.retracts,
            unique=spec.unique_keys or None,
            end_column=spec.end_column,
            newest=newest,
        )
        self._touched = Touched()
        self._expiry = Expiry(spec.ttl_ms)

    def work(self, inputs: list[Input | None]) -> None:
        """Add rows, and hand on which are among the first now."""
        (rows,) = inputs
        assert rows is not None
        slots = self._keys.of([rows.columns[place] for place in self._spec.partition], rows.count)
        count = len(self._keys)
        self._top.reach(count)
        self._expiry.reach(count)
        self._touched.note(slots, count)
        expired = self._expiry.touch(np.unique(slots), self.context.time.now_ms)
        if expired is not None and len(expired):
            self._top.clear(expired)
        change = self._top.add(slots, rows)
        if change is not None:
            self.emit(self.told(change))

    def told(self, change: TopChange) -> Any:
        """Return a batch of what is told of a change; None for nothing."""
        return self._numbered(change) if self._spec.with_number else self._unnumbered(change)

    def _bounded(self, change: TopChange) -> tuple[Any, Any]:
        first = self._spec.start - 1
        return change.before[:, first:], change.now[:, first:]

    def _numbered(self, change: TopChange) -> Any:
        """Return what changed at each number."""
        was, now = self._bounded(change)
        unlike = was != now
        gone = np.nonzero(unlike & (was != _NONE) & ((now == _NONE) | self._spec.before))
        come = np.nonzero(unlike & (now != _NONE))
        kinds = np.concatenate(
            [
                np.where(now[gone] == _NONE, np.int8(DELETE), np.int8(UPDATE_BEFORE)),
                np.where(was[come] == _NONE, np.int8(INSERT), np.int8(UPDATE_AFTER)),
            ]
        )
        if not len(kinds):
            return None
        columns = self._top.pool.rows.take(np.concatenate([was[gone], now[come]]))
        numbers = np.concatenate([gone[1], come[1]]) + self._spec.start
        columns.append(pa.array(numbers, pa.int64()))
        return columns_batch(columns, kinds if kinds.any() else None, len(kinds))

    def _unnumbered(self, change: TopChange) -> Any:
        """Return which rows are not among those within bounds any more, and which are now."""
        was, now = self._bounded(change)
        was, now = was[was != _NONE], now[now != _NONE]
        rows, places = np.unique(np.concatenate([was, now]), return_inverse=True)
        net = np.zeros(len(rows), np.int64)
        np.add.at(net, places, np.concatenate([np.full(len(was), -1), np.ones(len(now), np.int64)]))
        moved = np.flatnonzero(net)
        return weighted(self._top.pool.rows.take(rows[moved]), net[moved]) if len(moved) else None

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; forget what has expired, and now and then give back the room of rows that are gone."""
        super().end_epoch(report, checkpoint=checkpoint)
        now_ms = self.context.time.now_ms
        if self._expiry.is_due(now_ms):
            expired = self._expiry.expired(len(self._keys), now_ms)
            self._top.clear(expired)
            self._touched.note(expired, len(self._keys))
        if self._top.is_wasteful:
            used = np.unique(self._top.pool.slot_of.array[self._top.pool.used])
            if 2 * len(used) >= len(self._keys) or not checkpoint:
                used = np.arange(len(self._keys))
            else:
                self._keys.keep(used)
                self._expiry.keep(used)
                self._touched.begin_again()
            self._top.keep(used)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the rows of each partition."""
        slots = np.unique(self._top.pool.slot_of.array[self._top.pool.used])
        yield PARTITIONS, None, zip(self._keys.keys(slots), self._entries(slots), strict=True)

    def _entries(self, slots: Any) -> list[Any]:
        return list(zip(self._expiry.stamps(slots), self._top.entries(slots), strict=True))

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of partitions that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        for key, entry in zip(self._keys.keys(slots), self._entries(slots), strict=True):
            if entry[1][1]:
                changes.put(PARTITIONS, None, key, entry)
            else:
                changes.remove(PARTITIONS, None, key)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows of partitions."""
        if not entries:
            return
        slots = self._keys.of_keys([key for _, key, _ in entries])
        self._top.reach(len(self._keys))
        self._expiry.reach(len(self._keys))
        self._top.restore(slots, [entry for _, _, (_, entry) in entries])
        self._expiry.restore(slots, [stamp for _, _, (stamp, _) in entries])


class MaterializeOperator(RankOperator):
    """Tells a sink of the last row of each of its keys that is still there.

    Changes of rows that have the same key may come in any order, as they come from several subtasks: so all rows of a
    key are kept, and the sink is given the one that came last.
    """

    def told(self, change: TopChange) -> Any:
        """Return what the row of each key is now."""
        was, now = change.before[:, 0], change.now[:, 0]
        gone = np.flatnonzero((was != _NONE) & (now == _NONE))
        come = np.flatnonzero((now != _NONE) & (now != was))
        kinds = np.concatenate(
            [
                np.full(len(gone), DELETE, np.int8),
                np.where(was[come] == _NONE, np.int8(INSERT), np.int8(UPDATE_AFTER)),
            ]
        )
        if not len(kinds):
            return None
        columns = self._top.pool.rows.take(np.concatenate([was[gone], now[come]]))
        return columns_batch(columns, kinds if kinds.any() else None, len(kinds))
