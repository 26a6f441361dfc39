"""Joins of rows with the version of a table that was valid at their time.

Left rows wait for the watermark. Then rows and versions of each key are put in order of time, and each row has the last
version before it. A version that was replaced before the watermark is not needed any more::

    versions of a key    v1 ------ v2 ---- deleted      v3
    left rows                 a       b          c          d       (a, v1) (b, v2) (c, -) (d, v3)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import OwnEntries
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.arrays import arrow_types, concat, conform, validity_of
from millstream.table.runtime.changes import DELETE, UPDATE_BEFORE, columns_batch
from millstream.table.runtime.epoch_operator import EpochOperator, Input
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.join import joined_schema
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.ordering import stable_order
from millstream.table.runtime.time_buffer import TimeBuffer
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched
from millstream.types.numpy_views import as_numpy

if TYPE_CHECKING:
    from millstream.table.runtime.join_specs import TemporalJoinSpec

__all__ = ["LEFT", "RIGHT", "TemporalJoinOperator"]

LEFT, RIGHT = "left", "right"
"""Entries of the sides: key -> [(time, (kind, row ...)), ...]."""

_LEAST_DEAD = 1 << 14


class TemporalJoinOperator(EpochOperator):
    """Keeps left rows until the watermark, and the versions that they may need."""

    def __init__(self, spec: TemporalJoinSpec) -> None:
        kinds = [arrow_types(spec.left), arrow_types(spec.right)]
        super().__init__(kinds, [True, True])
        self._spec = spec
        self._places = [list(spec.left_keys), list(spec.right_keys)]
        self._time_places = [spec.left_time, spec.right_time]
        self._key_kinds = [kinds[1][place] for place in spec.right_keys]
        self._keys = KeySlots(self._key_kinds)
        self._buffers = [TimeBuffer([pa.int8(), *each]) for each in kinds]
        schema = joined_schema(spec.left, spec.right)
        self._condition = None if spec.condition is None else Expressions([spec.condition], schema, spec.zone)
        self._touched = Touched()
        self._fresh = Lane(bool, fill=False)  # keys that got versions, or have some behind the watermark

    def open(self) -> None:
        """Make the condition ready."""
        if self._condition is not None:
            self._condition.open(self.context)

    def work(self, inputs: list[Input | None]) -> None:
        """Have rows wait."""
        for index, rows in enumerate(inputs):
            if rows is None:
                continue
            valid = validity_of(rows.columns[self._time_places[index]])
            if valid is not None:
                rows = rows.filter(valid)
            kinds = np.zeros(rows.count, np.int8) if rows.kinds is None else rows.kinds
            if index == 1 and rows.kinds is not None:  # the row that comes next ends the version
                rows = rows.filter(kinds != UPDATE_BEFORE)
                assert rows.kinds is not None
                kinds = rows.kinds
            keys = [
                conform(rows.columns[place], kind)
                for place, kind in zip(self._places[index], self._key_kinds, strict=True)
            ]
            slots = self._keys.of(keys, rows.count)
            self._touched.note(slots, len(self._keys))
            fresh = self._fresh.reach(len(self._keys))
            if index == 1:
                fresh[slots] = True
            times = millis_of(rows.columns[self._time_places[index]])
            self._buffers[index].add([pa.array(kinds, pa.int8()), *rows.columns], slots, times)

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Join the left rows up to a watermark."""
        left, right = self._buffers
        due, versions = left.due(timestamp_ms), right.due(timestamp_ms)
        if len(due):
            asked = np.zeros(len(self._keys), bool)
            asked[left.slot_of.array[due]] = True
            self._join(due, versions[asked[right.slot_of.array[versions]]])
            self._touched.note(left.slot_of.array[due], len(self._keys))
            left.remove(due)
        fresh = self._fresh.array
        versions = versions[fresh[right.slot_of.array[versions]]]
        if len(versions):
            self._drop_replaced(versions)
            live = right.live
            fresh[:] = False
            fresh[right.slot_of.array[live[right.times.array[live] > timestamp_ms]]] = True

    def _join(self, due: Any, versions: Any) -> None:
        left, right = self._buffers
        found = _last_versions(
            left.slot_of.array[due],
            left.times.array[due],
            right.slot_of.array[versions],
            right.times.array[versions],
        )
        kind, *columns = left.rows.take(due)
        for place in self._spec.left_keys:
            valid = validity_of(columns[place])
            if valid is not None:
                found = np.where(valid, found, -1)
        there = found >= 0
        rows = versions[found[there]]
        gone = as_numpy(right.rows.columns[0].take(rows)) == DELETE
        there[np.flatnonzero(there)[gone]] = False
        rows = rows[~gone]
        matched = np.flatnonzero(there)
        version_columns = right.rows.take(rows)[1:]
        if self._condition is not None and len(matched):
            joined = [*(column.take(pa.array(matched)) for column in columns), *version_columns]
            holds = self._condition.holds(joined, len(matched))
            matched = matched[holds]
            version_columns = [column.filter(pa.array(holds)) for column in version_columns]
        kinds = as_numpy(kind)
        if self._spec.join is JoinKind.INNER:
            columns = [column.take(pa.array(matched)) for column in columns]
            kinds = kinds[matched]
        else:
            places = np.zeros(len(due), np.int64)
            places[matched] = np.arange(len(matched))
            absent = np.ones(len(due), bool)
            absent[matched] = False
            indices = pa.array(places, mask=absent)
            version_columns = [
                concat([column, pa.nulls(1, column.type)]).take(indices) for column in version_columns
            ]
        whole = [*columns, *version_columns]
        self.emit(columns_batch(whole, kinds if kinds.any() else None, len(kinds)))

    def _drop_replaced(self, versions: Any) -> None:
        """Forget versions before the watermark but the last of each key; of a key that is deleted that one too."""
        right = self._buffers[1]
        slots, times = right.slot_of.array[versions], right.times.array[versions]
        order = np.lexsort((versions, times, slots))
        ordered = slots[order]
        last = np.concatenate([ordered[1:] != ordered[:-1], [True]])
        replaced = versions[order[~last]]
        ends = versions[order[last]]
        deleted = ends[as_numpy(right.rows.columns[0].take(ends)) == DELETE]
        gone = np.concatenate([replaced, deleted])
        if len(gone):
            self._touched.note(right.slot_of.array[gone], len(self._keys))
            right.remove(gone)

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; at a checkpoint give back the room of keys that are gone, if they are most."""
        super().end_epoch(report, checkpoint=checkpoint)
        if checkpoint and len(self._keys) > _LEAST_DEAD:
            kept = np.unique(np.concatenate([each.slot_of.array[each.live] for each in self._buffers]))
            if 2 * len(kept) < len(self._keys):
                self._keys.keep(kept)
                for buffer in self._buffers:
                    buffer.renumber(kept)
                self._touched.begin_again()
                self._fresh.keep(kept)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the rows of each key, side by side."""
        for name, buffer in zip((LEFT, RIGHT), self._buffers, strict=True):
            slots = np.unique(buffer.slot_of.array[buffer.live])
            yield name, None, zip(self._keys.keys(slots), buffer.entries(slots), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the rows of keys that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        keys = self._keys.keys(slots)
        for name, buffer in zip((LEFT, RIGHT), self._buffers, strict=True):
            for key, entry in zip(keys, buffer.entries(slots), strict=True):
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
        if entries:
            slots = self._keys.of_keys([key for _, key, _ in entries])
            self._fresh.reach(len(self._keys))[slots] = True
            self._buffers[0 if name == LEFT else 1].restore(slots, [entry for _, _, entry in entries])


def _last_versions(slots: Any, times: Any, version_slots: Any, version_times: Any) -> Any:
    """Return for each row the place of the last version of its slot that is not after its time, -1 if there is none."""
    count = len(version_slots)
    all_slots = np.concatenate([version_slots, slots])
    all_times = np.concatenate([version_times, times])
    order = stable_order([all_slots, all_times])  # versions before rows of the same time
    is_version = order < count
    last = np.maximum.accumulate(np.where(is_version, np.arange(len(order)), -1))
    version = np.where(last >= 0, order[np.maximum(last, 0)], 0)
    same = (last >= 0) & (all_slots[version] == all_slots[order])
    found = np.full(len(slots), -1, np.int64)
    of_row = ~is_version
    found[order[of_row] - count] = np.where(same, version, -1)[of_row]
    return found
