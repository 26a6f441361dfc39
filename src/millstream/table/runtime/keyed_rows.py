"""One row for each key, kept up to date: deduplication, normalization of upserts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import OwnEntries, RestoreScope
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.expressions.rex import RowSchema
from millstream.table.runtime.aggregates.slot_column import SlotRows
from millstream.table.runtime.arrays import arrow_types, validity_of
from millstream.table.runtime.changes import columns_batch, net_changes
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, EpochOperator, Input
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.expiry import Expiry
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.ordering import stable_order
from millstream.table.runtime.sorting import first_places, last_places
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched

if TYPE_CHECKING:
    from millstream.table.runtime.rank_specs import DeduplicateSpec, NormalizeSpec

__all__ = ["ROWS", "DeduplicateOperator", "NormalizeOperator", "edges_of"]

ROWS = "rows"
"""Entries of one row for each key: key -> (last access, time, row)."""

_LEAST_DEAD = 1 << 14
_EMITTED = MIN_TIMESTAMP
"""The time of a first row that has come out: no row is earlier."""


class KeyedRowsOperator(EpochOperator):
    """Base of operators that keep one row for each key.

    Args:
        schema: Columns of the input.
        keys: Places of the key columns.
        retracts: Whether the input has -U or -D rows.
        ttl_ms: How long a row is kept; None for ever.
        kept: Places of the columns that are kept.
    """

    def __init__(
        self,
        schema: RowSchema,
        keys: Sequence[int],
        *,
        retracts: bool,
        ttl_ms: int | None,
        kept: Sequence[int] | None = None,
    ) -> None:
        kinds = arrow_types(schema)
        super().__init__([kinds], [retracts])
        self._places = list(keys)
        self._keys = KeySlots([kinds[place] for place in keys])
        self._kept_places = list(range(len(kinds))) if kept is None else list(kept)
        self._held = SlotRows([kinds[place] for place in self._kept_places])
        self._times = Lane(np.int64)
        self._touched = Touched()
        self._expiry = Expiry(ttl_ms)

    def slots_of(self, rows: Input) -> Any:
        """Return the slot of each row's key."""
        slots = self._keys.of([rows.columns[place] for place in self._places], rows.count)
        count = len(self._keys)
        self._held.reach(count)
        self._times.reach(count)
        self._expiry.reach(count)
        return slots

    def touch(self, slots: Any) -> None:
        """Note that rows of keys change; those that expired before are forgotten."""
        self._touched.note(slots, len(self._keys))
        expired = self._expiry.touch(slots, self.context.time.now_ms)
        if expired is not None:
            self._held.clear(expired)

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; forget what has expired, and now and then give back the room of keys that are gone."""
        super().end_epoch(report, checkpoint=checkpoint)
        now_ms, count = self.context.time.now_ms, len(self._keys)
        if self._expiry.is_due(now_ms):
            expired = self._expiry.expired(count, now_ms)
            self._held.clear(expired)
            self._touched.note(expired, count)
        if checkpoint and count > _LEAST_DEAD:
            used = np.flatnonzero(self._held.has(np.arange(count)))
            if 2 * len(used) < count:
                self._keys.keep(used)
                self._held.keep(used)
                self._times.keep(used)
                self._expiry.keep(used)
                self._touched.begin_again()

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the row of each key."""
        every = np.arange(len(self._keys))
        slots = every[self._held.has(every)]
        yield ROWS, None, zip(self._keys.keys(slots), self._entries(slots), strict=True)

    def _entries(self, slots: Any) -> list[Any]:
        times = self._times.array[slots].tolist()
        return list(zip(self._expiry.stamps(slots), times, self._held.entries(slots), strict=True))

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of keys that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        there = self._held.has(slots)
        for key in self._keys.keys(slots[~there]):
            changes.remove(ROWS, None, key)
        slots = slots[there]
        for key, entry in zip(self._keys.keys(slots), self._entries(slots), strict=True):
            changes.put(ROWS, None, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows of keys."""
        if not entries:
            return
        slots = self._keys.of_keys([key for _, key, _ in entries])
        count = len(self._keys)
        self._held.reach(count)
        self._times.reach(count)[slots] = [time for _, _, (_, time, _) in entries]
        self._expiry.reach(count)
        self._held.restore(slots, [row for _, _, (_, _, row) in entries])
        self._expiry.restore(slots, [stamp for _, _, (stamp, _, _) in entries])


def edges_of(slots: Any, *, last: bool) -> Any:
    """Return the first or last place of each slot, ascending by slot."""
    return (last_places if last else first_places)(slots)[1]


class DeduplicateOperator(KeyedRowsOperator):
    """Keeps the first or the last row of each key; of the first by arrival only that it was there."""

    whole_in_batch = True

    def __init__(self, spec: DeduplicateSpec) -> None:
        self._spec = spec
        self._waits = spec.rowtime is not None and not spec.keep_last
        self._next_ms = MAX_TIMESTAMP
        self._passed_ms = MIN_TIMESTAMP
        self._only_keys = spec.rowtime is None and not spec.keep_last
        super().__init__(
            spec.input,
            spec.keys,
            retracts=False,
            ttl_ms=spec.ttl_ms,
            kept=() if self._only_keys else None,
        )

    def work(self, inputs: list[Input | None]) -> None:
        """Hand on which rows are kept now."""
        (rows,) = inputs
        assert rows is not None
        if self._spec.rowtime is not None:
            valid = validity_of(rows.columns[self._spec.rowtime])
            if valid is not None:
                rows = rows.filter(valid)
        slots = self.slots_of(rows)
        times = np.zeros(rows.count, np.int64)
        if self._spec.rowtime is None:
            places = edges_of(slots, last=self._spec.keep_last)
        else:
            times = millis_of(rows.columns[self._spec.rowtime])
            if self._waits and not self.context.batch:
                in_time = times > np.maximum(rows.seen, self._passed_ms)
                self.count(LATE_ROWS_DROPPED, rows.count - int(np.count_nonzero(in_time)))
                rows, slots, times = rows.filter(in_time), slots[in_time], times[in_time]
            order = stable_order([slots, times])
            places = order[edges_of(slots[order], last=self._spec.keep_last)]
        slots, times = slots[places], times[places]
        self.touch(slots)
        existed = self._held.has(slots)
        better = ~existed
        if self._waits:
            better |= times < self._times.array[slots]
            slots, places, times = slots[better], places[better], times[better]
            self._held.set(slots, rows.take(places).columns)
            self._times.array[slots] = times
            self._next_ms = min(self._next_ms, int(times.min()) if len(times) else MAX_TIMESTAMP)
            return
        if self._spec.rowtime is not None:
            held = self._times.array[slots]
            better |= times >= held if self._spec.keep_last else times < held
        elif self._spec.keep_last:
            better[:] = True
        slots, places, times, existed = slots[better], places[better], times[better], existed[better]
        if not len(slots):
            return
        new = rows.take(places).columns
        if self._only_keys:
            self._held.set(slots, [])
            self.emit(columns_batch(new, None, len(slots)))
            return
        old = self._held.take(slots)
        self._held.set(slots, new)
        self._times.array[slots] = times
        self.emit(
            net_changes(
                [],
                old,
                new,
                existed=existed,
                exists=np.ones(len(slots), bool),
                before=self._spec.before,
                forced=existed,
            )
        )

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Emit the first rows of keys up to a watermark: none that is earlier will come."""
        self._passed_ms = timestamp_ms
        if not self._waits or self._next_ms > timestamp_ms:
            return
        every = np.arange(len(self._keys))
        waiting = every[self._held.has(every) & (self._times.array[: len(every)] != _EMITTED)]
        times = self._times.array[waiting]
        due, later = waiting[times <= timestamp_ms], times[times > timestamp_ms]
        self._next_ms = int(later.min()) if len(later) else MAX_TIMESTAMP
        due = due[np.argsort(self._times.array[due], kind="stable")]
        self._times.array[due] = _EMITTED
        self._touched.note(due, len(every))
        if len(due):
            self.emit(columns_batch(self._held.take(due), None, len(due)))

    def snapshot_state(self) -> int | None:
        """Return until when rows have come out."""
        return self._passed_ms if self._waits and self._passed_ms != MAX_TIMESTAMP else None

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over until when rows have come out: all subtasks are at the same watermark at a checkpoint."""
        self._passed_ms = max(self._passed_ms, snapshot)

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows of keys."""
        super().restore_entries(name, entries)
        times = [time for _, _, (_, time, _) in entries if time != _EMITTED]
        self._next_ms = min(self._next_ms, *times, MAX_TIMESTAMP)


class NormalizeOperator(KeyedRowsOperator):
    """Makes of upserts changes with the row before; deletes may have the key only."""

    whole_in_batch = True

    def __init__(self, spec: NormalizeSpec) -> None:
        self._spec = spec
        super().__init__(spec.input, spec.key, retracts=True, ttl_ms=spec.ttl_ms)
        condition = spec.condition
        self._condition = None if condition is None else Expressions([condition], spec.input, spec.zone)

    def open(self) -> None:
        """Make the condition ready."""
        if self._condition is not None:
            self._condition.open(self.context)

    def work(self, inputs: list[Input | None]) -> None:
        """Hand on what changed of the row of each key."""
        (rows,) = inputs
        assert rows is not None
        slots = self.slots_of(rows)
        places = edges_of(slots, last=True)
        slots = slots[places]
        self.touch(slots)
        existed = self._held.has(slots)
        exists = np.ones(len(slots), bool) if rows.weights is None else rows.weights[places] > 0
        if self._condition is not None:
            exists &= self._condition.holds(rows.take(places).columns, len(places))
        new, old = rows.take(places).columns, self._held.take(slots)
        come = pa.array(exists)
        self._held.set(slots[exists], [column.filter(come) for column in new])
        self._held.clear(slots[~exists])
        self.emit(
            net_changes(
                [],
                old,
                new,
                existed=existed,
                exists=exists,
                before=self._spec.before,
                forced=None if self._spec.ttl_ms is None else existed & exists,
            )
        )
