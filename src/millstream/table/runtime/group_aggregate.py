"""GROUP BY: what the rows of each key have come to, kept up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from millstream.operators.base import OwnEntries
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.expressions.rex import AggregateCall, RowSchema
from millstream.table.runtime.aggregates.table import AggregateTable
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.changes import columns_batch, net_changes
from millstream.table.runtime.combine import partial_columns
from millstream.table.runtime.epoch_operator import EpochOperator, Input
from millstream.table.runtime.expiry import Expiry
from millstream.table.runtime.key_slots import KeySlots

__all__ = ["GROUPS", "GroupAggregateOperator"]

GROUPS = "groups"
"""Entries of GROUP BY: key -> (last access, (rows, one part for each aggregate))."""

_LEAST_DEAD = 1 << 16
_PORTION = 1 << 17


class GroupAggregateOperator(EpochOperator):
    """Keeps accumulators by key in numpy; see `aggregates/`.

    Args:
        schema: Columns of the input.
        keys: Places of the key columns.
        calls: The aggregates.
        retracts: Whether the input has -U or -D rows.
        before: Whether -U rows are emitted.
        ttl_ms: How long a key is kept after its last row; None for ever.
    """

    def __init__(
        self,
        schema: RowSchema,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        *,
        retracts: bool,
        before: bool,
        ttl_ms: int | None,
    ) -> None:
        kinds = arrow_types(schema)
        super().__init__([kinds], [retracts])
        self._places, self._before, self._refreshes = tuple(keys), before, ttl_ms is not None
        self._keys = KeySlots([kinds[place] for place in keys])
        self._table = AggregateTable(calls, schema, retracts=retracts)
        self._touched = TouchedSlots(known=False)
        self._expiry = Expiry(ttl_ms)

    def open(self) -> None:
        """Open users' functions."""
        self._table.open(self.context)

    def close(self) -> None:
        """Close users' functions."""
        self._table.close()

    def work(self, inputs: list[Input | None]) -> None:
        """Add rows, and hand on what changed."""
        (rows,) = inputs
        assert rows is not None
        keys = [rows.columns[place] for place in self._places]
        slots = self._keys.of(keys, rows.count)
        self._change(slots, lambda: self._table.add(slots, rows.weights, rows.columns))

    def _reached(self) -> int:
        """Make room for all keys; return how many there are."""
        count = len(self._keys)
        self._table.reach(count)
        self._expiry.reach(count)
        return count

    def _touch(self, touched: Any) -> Any:
        """Note that slots change; those that had expired begin anew."""
        self._touched.note(touched, len(self._keys))
        expired = self._expiry.touch(touched, self.context.time.now_ms)
        if expired is not None and len(expired):
            self._table.clear(expired)
        return touched

    def _change(self, slots: Any, add: Any) -> None:
        """Hand on what changes in slots when something is added."""
        touched = self._touch(distinct_slots(slots, self._reached()))
        if self.context.batch:
            add()
            return
        existed = self._table.rows.array[touched] > 0
        old = self._table.results(touched)
        add()
        exists = self._table.rows.array[touched] > 0
        new = self._table.results(touched)
        self.emit(
            net_changes(
                self._keys.columns(touched),
                old,
                new,
                existed=existed,
                exists=exists,
                before=self._before,
                # Rows whose state may expire are told of again, as Flink does.
                forced=existed & exists if self._refreshes else None,
            )
        )
        gone = touched[self._table.rows.array[touched] == 0]
        if len(gone):
            self._table.clear(gone)

    def process(self, batch: Any) -> None:
        """Keep a batch; one that was put together before the exchange is added at once."""
        columns = partial_columns(batch, self._table.partial_kinds)
        if columns is None:
            super().process(batch)
            return
        self._work()
        width = len(self._places)
        slots = self._keys.of(columns[:width], len(batch))
        self._change(slots, lambda: self._table.add_partials(slots, columns[width:]))

    def finish(self) -> None:
        """In batch mode hand on all rows; without keys there is always one."""
        if not self.context.batch:
            return
        if not self._places and self.context.subtask_index == 0:
            self._keys.of([], 1)
            self._table.reach(1)
        slots = np.arange(len(self._keys))
        if self._places:
            slots = slots[self._table.rows.array[slots] > 0]
        for start in range(0, len(slots), _PORTION):
            self._emit_results(slots[start : start + _PORTION])

    def _emit_results(self, slots: Any) -> None:
        columns = [*self._keys.columns(slots), *self._table.results(slots)]
        self.emit(columns_batch(columns, None, len(slots)))

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; now and then give back the room of keys that are gone."""
        super().end_epoch(report, checkpoint=checkpoint)
        count = len(self._keys)
        if self._expiry.is_due(self.context.time.now_ms):
            self._forget(self._expiry.expired(count, self.context.time.now_ms))
        if checkpoint and count > _LEAST_DEAD:
            alive = np.flatnonzero(self._table.rows.array[:count] > 0)
            if 2 * len(alive) < count:
                self._keep(alive)

    def _forget(self, slots: Any) -> None:
        self._table.clear(slots)
        self._touched.note(slots, len(self._keys))

    def _keep(self, alive: Any) -> None:
        """Number keys anew, without those that are gone; the next checkpoint is whole."""
        self._keys.keep(alive)
        self._table.keep(alive)
        self._expiry.keep(alive)
        self._touched = TouchedSlots(known=False)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each key has."""
        count = len(self._keys)
        slots = np.flatnonzero(self._table.rows.array[:count] > 0)
        yield GROUPS, None, zip(self._keys.keys(slots), self._entries(slots), strict=True)

    def _entries(self, slots: Any) -> list[Any]:
        return list(zip(self._expiry.stamps(slots), self._table.entries(slots), strict=True))

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        exists = self._table.rows.array[slots] > 0
        for key in self._keys.keys(slots[~exists]):
            changes.remove(GROUPS, None, key)
        slots = slots[exists]
        for key, entry in zip(self._keys.keys(slots), self._entries(slots), strict=True):
            changes.put(GROUPS, None, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what keys have."""
        if not entries:
            return
        slots = self._keys.of_keys([key for _, key, _ in entries])
        count = len(self._keys)
        self._table.reach(count)
        self._expiry.reach(count)
        self._table.restore(slots, [entry for _, _, (_, entry) in entries])
        self._expiry.restore(slots, [stamp for _, _, (stamp, _) in entries])


def distinct_slots(slots: Any, count: int) -> Any:
    """Return the different slots, ascending, of numbers below a count."""
    if len(slots) * 64 < count:
        return np.unique(slots)
    mask = np.zeros(count, bool)
    mask[slots] = True
    return np.flatnonzero(mask)
