"""Joins of append-only inputs whose times lie within bounds.

New left rows meet the right rows that are kept, then new right rows the left ones. A left row at time `l` is kept
until the watermark reaches `l + upper`, a right one at `r` until `r - lower`: nothing that comes in time can match it
then, and one without a partner is handed on by outer joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import OwnEntries
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.arrays import arrow_types, conform, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import EpochOperator, Input
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.join import joined_schema
from millstream.table.runtime.join_side import JoinSide
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.pairing import behind
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched

if TYPE_CHECKING:
    from millstream.table.runtime.join_specs import IntervalJoinSpec

__all__ = ["LEFT", "RIGHT", "IntervalJoinOperator"]

LEFT, RIGHT = "left", "right"
"""Entries of the sides: key -> [(1, whether it has a partner, time of arrival, None, row), ...]."""

_LEAST_DEAD = 1 << 14
_OUTER = {
    JoinKind.INNER: (False, False),
    JoinKind.LEFT: (True, False),
    JoinKind.RIGHT: (False, True),
    JoinKind.FULL: (True, True),
}


class IntervalJoinOperator(EpochOperator):
    """Keeps the rows of both sides for as long as they may have partners."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        kinds = [arrow_types(spec.left), arrow_types(spec.right)]
        super().__init__(kinds, [False, False])
        self._spec = spec
        self._places = [list(spec.left_keys), list(spec.right_keys)]
        self._time_places = [spec.left_time, spec.right_time]
        self._key_kinds = [kinds[0][place] for place in spec.left_keys]
        self._keys = KeySlots(self._key_kinds)
        self._sides = [JoinSide(each, None, retracts=False, ttl_ms=None) for each in kinds]
        self._times = [Lane(np.int64), Lane(np.int64)]
        self._keep_ms = [spec.upper_ms, -spec.lower_ms]
        self._outer = _OUTER[spec.join]
        schema = joined_schema(spec.left, spec.right)
        self._condition = None if spec.condition is None else Expressions([spec.condition], schema, spec.zone)
        self._touched = Touched()
        self._next_ms = MAX_TIMESTAMP

    def open(self) -> None:
        """Make the condition ready."""
        if self._condition is not None:
            self._condition.open(self.context)

    def work(self, inputs: list[Input | None]) -> None:
        """Join rows that came with those that are kept."""
        parts = []
        for index, rows in enumerate(inputs):
            if rows is not None:
                parts.append(self._meet(index, *self._added(index, rows)))
        whole = behind(parts)
        self.emit(columns_batch(whole, None, len(whole[0])))

    def _added(self, index: int, rows: Input) -> tuple[Any, Any]:
        """Keep rows of a side; return their numbers, and whether each has a key that may match."""
        if self._spec.processing:
            times = np.full(rows.count, self.context.time.now_ms)
            valid = None
        else:
            column = rows.columns[self._time_places[index]]
            times, valid = millis_of(column), validity_of(column)
        keys = [
            conform(rows.columns[place], kind)
            for place, kind in zip(self._places[index], self._key_kinds, strict=True)
        ]
        for key in keys:
            there = validity_of(key)
            if there is not None:
                valid = there if valid is None else valid & there
        slots = self._keys.of(keys, rows.count)
        self._touched.note(slots, len(self._keys))
        side = self._sides[index]
        delta = side.apply(side.change(rows, slots), 0)
        self._times[index].reach(side.rows.count)[delta.rows] = times
        if self._spec.processing:
            side.alone.array[delta.rows] = times  # for checkpoints: no column has it
        if rows.count:
            self._next_ms = min(self._next_ms, int(times.min()) + self._keep_ms[index])
        return delta.rows, np.ones(rows.count, bool) if valid is None else valid

    def _meet(self, index: int, rows: Any, valid: Any) -> list[pa.Array]:
        """Return the pairs of rows of a side and the other side's."""
        rows = rows[valid]
        own, other = self._sides[index], self._sides[1 - index]
        who, others = other.of_slots(own.slot_of.array[rows], None)
        rows = rows[who]
        left, right = (rows, others) if index == 0 else (others, rows)
        apart = self._times[1].array[right] - self._times[0].array[left]
        near = (apart >= self._spec.lower_ms) & (apart <= self._spec.upper_ms)
        left, right = left[near], right[near]
        columns = [*self._sides[0].rows.take(left), *self._sides[1].rows.take(right)]
        if self._condition is not None and len(left):
            holds = self._condition.holds(columns, len(left))
            mask = pa.array(holds)
            columns = [column.filter(mask) for column in columns]
            left, right = left[holds], right[holds]
        self._sides[0].matches.array[left] = 1
        self._sides[1].matches.array[right] = 1
        return columns

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Forget rows that have no partner to wait for."""
        if not self._spec.processing:
            self._forget(timestamp_ms)

    def on_processing_time(self) -> None:
        """Forget rows by the clock."""
        if self._spec.processing:
            self._work()
            self._forget(self.context.time.now_ms)

    def next_processing_time(self) -> int | None:
        """Return when rows without partner are handed on by the clock."""
        waits = self._spec.processing and any(self._outer) and self._next_ms != MAX_TIMESTAMP
        return self._next_ms if waits else None

    def _forget(self, time_ms: int) -> None:
        if self._next_ms > time_ms:
            return
        parts = []
        self._next_ms = MAX_TIMESTAMP
        for index, side in enumerate(self._sides):
            used = side.used
            until = self._times[index].array[used] + self._keep_ms[index]
            gone = used[until <= time_ms]
            if self._outer[index]:
                parts.append(self._padded(index, gone[side.matches.array[gone] == 0]))
            side.weights.array[gone] = 0
            self._touched.note(side.slot_of.array[gone], len(self._keys))
            left = until[until > time_ms]
            if len(left):
                self._next_ms = min(self._next_ms, int(left.min()))
        if parts:
            whole = behind(parts)
            self.emit(columns_batch(whole, None, len(whole[0])))
        self._squeeze()

    def _padded(self, index: int, rows: Any) -> list[pa.Array]:
        own = self._sides[index].rows.take(rows)
        others = [pa.nulls(len(rows), kind) for kind in self._kinds[1 - index]]
        return [*own, *others] if index == 0 else [*others, *own]

    def _squeeze(self) -> None:
        """Give back the room of rows that are gone, if they are most."""
        used = [side.used for side in self._sides]
        total = sum(side.rows.count for side in self._sides)
        if total < _LEAST_DEAD or 2 * sum(map(len, used)) >= total:
            return
        slots = [side.slot_of.array[rows] for side, rows in zip(self._sides, used, strict=True)]
        kept = np.unique(np.concatenate(slots))
        if 2 * len(kept) < len(self._keys) and not self._touched.known:
            self._keys.keep(kept)
            slots = [np.searchsorted(kept, each) for each in slots]
        for side, times, rows, of in zip(self._sides, self._times, used, slots, strict=True):
            side.keep(rows, of)
            times.keep(rows)

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; at a checkpoint give back the room of keys that are gone, if they are most."""
        super().end_epoch(report, checkpoint=checkpoint)
        if checkpoint and len(self._keys) > _LEAST_DEAD:
            used = [side.used for side in self._sides]
            slots = [side.slot_of.array[rows] for side, rows in zip(self._sides, used, strict=True)]
            kept = np.unique(np.concatenate(slots))
            if 2 * len(kept) < len(self._keys):
                self._touched.begin_again()
                self._keys.keep(kept)
                for side, times, rows, of in zip(self._sides, self._times, used, slots, strict=True):
                    side.keep(rows, np.searchsorted(kept, of))
                    times.keep(rows)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the rows of each key, side by side."""
        for index, name in enumerate((LEFT, RIGHT)):
            side = self._sides[index]
            slots = np.unique(side.slot_of.array[side.used])
            yield name, None, zip(self._keys.keys(slots), side.entries(slots), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of keys that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        keys = self._keys.keys(slots)
        for index, name in enumerate((LEFT, RIGHT)):
            for key, entry in zip(keys, self._sides[index].entries(slots), strict=True):
                if entry:
                    changes.put(name, None, key, entry)
                else:
                    changes.remove(name, None, key)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows of keys of one side."""
        if not entries:
            return
        index = 0 if name == LEFT else 1
        side = self._sides[index]
        start = side.rows.count
        side.restore(self._keys.of_keys([key for _, key, _ in entries]), [entry for _, _, entry in entries])
        rows = np.arange(start, side.rows.count)
        if self._spec.processing:
            times = side.alone.array[rows]
        else:
            times = millis_of(side.rows.columns[self._time_places[index]].take(rows))
        self._times[index].reach(side.rows.count)[rows] = times
        if len(rows):
            self._next_ms = min(self._next_ms, int(times.min()) + self._keep_ms[index])
