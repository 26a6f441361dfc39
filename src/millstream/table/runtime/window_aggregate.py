"""Aggregates over TUMBLE, HOP and CUMULATE windows, and over windows that rows have already.

A row is added to the accumulators of its key and slice. When the watermark passes the end of windows, all of them fire
at once: what their slices have is put together by key and window. A row all of whose windows have fired is late: it is
dropped and counted. One of which only some have fired counts in the others.
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
from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.aggregates.table import AggregateTable
from millstream.table.runtime.combine import SLICE_INPUT, partial_columns
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, Input
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import runs_of
from millstream.table.runtime.slices import Slices
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched
from millstream.table.runtime.window_base import WindowOperator
from millstream.types.numpy_views import as_numpy

if TYPE_CHECKING:
    from millstream.table.runtime.aggregate_specs import WindowAggregateSpec

__all__ = ["WINDOWS", "WindowAggregateOperator"]

WINDOWS = "windows"
"""Entries of slices: start and end of a slice -> key -> (rows, one part for each aggregate)."""

_LEAST_DEAD = 4_096


class WindowAggregateOperator(WindowOperator):
    """Keeps accumulators by slice and key."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec)
        self._key_kinds = [self._input_kinds[place] for place in spec.keys]
        self._slices = Slices(spec.windows, spec.size_ms, spec.slide_ms, spec.offset_ms)
        self._table = AggregateTable(spec.calls, spec.input, retracts=spec.retracts)
        self._slots = self._make_slots()
        self._touched = Touched()
        self._ended: set[tuple[int, int]] = set()
        self._next_ms = MAX_TIMESTAMP  # no window ends before

    def _make_slots(self) -> KeySlots:
        return KeySlots([pa.int64(), pa.int64(), *self._key_kinds][self._spec.attached is None :])

    def open(self) -> None:
        """Open users' functions."""
        self._table.open(self.context)

    def close(self) -> None:
        """Close users' functions."""
        self._table.close()

    def work(self, inputs: list[Input | None]) -> None:
        """Add rows to their slices."""
        (rows,) = inputs
        assert rows is not None
        if self._spec.attached is not None:
            first, last = self._spec.attached
            starts, ends = millis_of(rows.columns[first]), millis_of(rows.columns[last])
            last_ms = first_ms = self.last_instants(ends)
        else:
            rows, walls = self.timed(rows)
            starts = self._slices.starts(walls)
            if self._slices.has_gaps:
                inside = self._slices.last_ends(starts) > starts
                rows, starts = rows.filter(inside), starts[inside]
            ends = starts
            last_ms = self.last_instants(self._slices.last_ends(starts))
            first_ms = self.last_instants(self._slices.first_ends(starts))
        self._add_timed(rows, starts, ends, first_ms, last_ms)

    def _add_timed(self, rows: Input, starts: Any, ends: Any, first_ms: Any, last_ms: Any) -> None:
        if not self._spec.processing:
            seen = np.maximum(rows.seen, self.fired_ms)
            in_time = last_ms > seen
            if not in_time.all():
                self.count(LATE_ROWS_DROPPED, rows.count - int(np.count_nonzero(in_time)))
                rows = rows.filter(in_time)
                starts, ends, first_ms = starts[in_time], ends[in_time], first_ms[in_time]
                seen = seen[in_time] if isinstance(seen, np.ndarray) and seen.ndim else seen
            behind = first_ms <= seen
            if behind.any() and isinstance(seen, np.ndarray) and seen.ndim:
                self._add_in_turn(rows, starts, ends, first_ms, seen)
                return
        self._add(rows, starts, ends, first_ms)

    def _add_in_turn(self, rows: Input, starts: Any, ends: Any, first_ms: Any, seen: Any) -> None:
        """Add rows of which some windows fire before they came."""
        for mark in np.unique(seen).tolist():
            self._fire_until(mark)
            places = np.flatnonzero(seen == mark)
            self._add(rows.take(places), starts[places], ends[places], first_ms[places])

    def _add(self, rows: Input, starts: Any, ends: Any, first_ms: Any) -> None:
        if not rows.count:
            return
        keys = [rows.columns[place] for place in self._spec.keys]
        slots = self._slots_of(starts, ends, keys)
        self._next_ms = min(self._next_ms, int(first_ms.min()))
        self._table.add(slots, rows.weights, rows.columns)

    def _slots_of(self, starts: Any, ends: Any, keys: list[pa.Array]) -> Any:
        bounds = [pa.array(starts)]
        if self._spec.attached is not None:
            bounds.append(pa.array(ends))
        slots = self._slots.of([*bounds, *keys], len(starts))
        count = len(self._slots)
        self._table.reach(count)
        self._touched.note(slots, count)
        return slots

    def process(self, batch: Any) -> None:
        """Keep a batch; one that was put together before the exchange is added at once."""
        columns = partial_columns(batch, self._table.partial_kinds)
        if columns is None:
            super().process(batch)
            return
        self._work()
        width = len(self._spec.keys)
        starts = as_numpy(batch.data.column(batch.data.schema.get_field_index(SLICE_INPUT)))
        last_ms = self.last_instants(self._slices.last_ends(starts))
        in_time = last_ms > max(self.watermark_ms, self.fired_ms)
        partials = columns[width + 1 :]
        if not in_time.all():
            self.count(LATE_ROWS_DROPPED, int(as_numpy(partials[0])[~in_time].sum()))
            kept = pa.array(in_time)
            columns = [column.filter(kept) for column in columns]
            partials, starts = columns[width + 1 :], starts[in_time]
        if not len(starts):
            return
        if self.watermark_ms > self.fired_ms:
            self._fire_until(self.watermark_ms)
        slots = self._slots_of(starts, starts, columns[:width])
        self._next_ms = min(self._next_ms, int(self.last_instants(self._slices.first_ends(starts)).min()))
        self._table.add_partials(slots, partials)

    def fire(self, before_ms: int, time_ms: int) -> None:
        """Emit windows that ended, and forget slices whose last window has."""
        if self._next_ms > time_ms:
            return
        count = len(self._slots)
        live = np.flatnonzero(self._table.rows.array[:count] != 0)
        columns = self._slots.columns(live)
        starts = as_numpy(columns[0])
        if self._spec.attached is not None:
            ends = as_numpy(columns[1])
            keys = columns[2:]
            last_ms = self.last_instants(ends)
            self._fire_slices(live, keys, starts, ends, last_ms <= time_ms)
        elif self._spec.windows is WindowKind.TUMBLE:
            ends = starts + self._spec.size_ms
            last_ms = self.last_instants(ends)
            self._fire_slices(live, columns[1:], starts, ends, last_ms <= time_ms)
        else:
            self._fire_windows(live, columns[1:], starts, before_ms, time_ms)
            last_ms = self.last_instants(self._slices.last_ends(starts))
        gone = last_ms <= time_ms
        if self._touched.known and gone.any():
            bounds = ends if self._spec.attached is not None else starts
            self._ended.update(zip(starts[gone].tolist(), bounds[gone].tolist(), strict=True))
        self._table.clear(live[gone])
        self._drop_dead(live[~gone], count)
        self._plan_next(starts[~gone], last_ms[~gone], time_ms)

    def _fire_slices(self, live: Any, keys: list[pa.Array], starts: Any, ends: Any, due: Any) -> None:
        """Emit windows of one slice each."""
        due = due & (self._table.rows.array[live] > 0)
        slots = live[due]
        mask = pa.array(due)
        self.hand_on([key.filter(mask) for key in keys], self._table.results(slots), starts[due], ends[due])

    def _fire_windows(
        self, live: Any, keys: list[pa.Array], starts: Any, before_ms: int, time_ms: int
    ) -> None:
        """Put slices together by window and key, and emit these."""
        places, begins, ends = self._slices.windows_of(starts)
        last_ms = self.last_instants(ends)
        due = np.flatnonzero((last_ms > before_ms) & (last_ms <= time_ms))
        if not len(due):
            return
        places, begins, ends = places[due], begins[due], ends[due]
        indices = pa.array(places)
        # A number for each key and window: keys are looked up once, not once for each window.
        numbers = KeySlots(self._key_kinds)
        key_of = numbers.of(keys, len(live))
        # Windows and keys lie close together, so their numbers are found without hashes.
        low, spec = int(begins.min()), self._spec
        is_hop = spec.windows is WindowKind.HOP
        unit, parts = (spec.slide_ms, 1) if is_hop else (spec.size_ms, spec.size_ms // spec.slide_ms)
        window = (begins - low) // unit * parts
        if not is_hop:
            window += (ends - begins) // spec.slide_ms - 1
        groups = KeySlots([pa.int64()])
        slots = groups.of([pa.array(window * len(numbers) + key_of[places])], len(due))
        merged = self._table.another()
        merged.reach(len(groups))
        partials = self._table.partials(live)
        taken = [part.take(indices) if isinstance(part, pa.Array) else part[places] for part in partials]
        merged.add_partials(slots, taken)
        every = np.flatnonzero(merged.rows.array[: len(groups)] > 0)
        both = as_numpy(groups.columns(every)[0])
        window, key = np.divmod(both, len(numbers))
        begins = window // parts * unit + low
        ends = begins + (spec.size_ms if is_hop else (window % parts + 1) * spec.slide_ms)
        key_columns = numbers.columns(key)
        self.hand_on(key_columns, merged.results(every), begins, ends)

    def _drop_dead(self, live: Any, count: int) -> None:
        if count > _LEAST_DEAD and 2 * len(live) < count:
            self._slots.keep(live)
            self._table.keep(live)
            self._touched.keep(live)

    def _plan_next(self, starts: Any, last_ms: Any, time_ms: int) -> None:
        """Note before when no window ends."""
        if not len(starts):
            self._next_ms = MAX_TIMESTAMP
        elif self._spec.attached is not None or self._spec.windows is WindowKind.TUMBLE:
            self._next_ms = int(last_ms.min())
        else:
            _, _, ends = self._slices.windows_of(np.unique(starts))
            all_ms = self.last_instants(ends)
            self._next_ms = int(all_ms[all_ms > time_ms].min())

    def next_processing_time(self) -> int | None:
        """Return when the next window ends by the clock."""
        return self._next_ms if self._spec.processing and self._next_ms != MAX_TIMESTAMP else None

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each slice and key has."""
        live = np.flatnonzero(self._table.rows.array[: len(self._slots)] != 0)
        for bounds, slots in self._by_slice(live):
            yield WINDOWS, bounds, zip(self._keys(slots), self._table.entries(slots), strict=True)

    def _by_slice(self, slots: Any) -> Iterator[tuple[tuple[int, int], Any]]:
        """Yield the bounds of each slice and its slots."""
        columns = self._slots.columns(slots)
        starts = as_numpy(columns[0])
        ends = as_numpy(columns[1]) if self._spec.attached is not None else starts
        order = np.lexsort((ends, starts))
        starts, ends = starts[order], ends[order]
        changes = np.concatenate([[0], np.cumsum((starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1]))])
        if not len(order):
            return
        for first, length in zip(*runs_of(changes), strict=True):
            yield (int(starts[first]), int(ends[first])), slots[order[first : first + length]]

    def _keys(self, slots: Any) -> list[Any]:
        columns = self._slots.columns(slots)[1 + (self._spec.attached is not None) :]
        return canonical(columns, len(slots))

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what slices and keys have that came since the last checkpoint."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._slots)):
            return False
        if self._ended:
            changes.dropped[WINDOWS] = sorted(self._ended)
        there = self._table.rows.array[slots] != 0
        for bounds, gone in self._by_slice(slots[~there]):
            if bounds not in self._ended:
                for key in self._keys(gone):
                    changes.remove(WINDOWS, bounds, key)
        for bounds, held in self._by_slice(slots[there]):
            for key, entry in zip(self._keys(held), self._table.entries(held), strict=True):
                changes.put(WINDOWS, bounds, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()
        self._ended.clear()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what slices and keys have."""
        if not entries:
            return
        keys = KeySlots(self._key_kinds)
        slots = keys.of_keys([key for _, key, _ in entries])
        bounds = np.array([bounds for bounds, _, _ in entries], np.int64)
        starts, ends = bounds[:, 0], bounds[:, 1]
        held = self._slots_of(starts, ends, keys.columns(slots))
        self._table.restore(held, [entry for _, _, entry in entries])
        if self._spec.attached is not None:
            self._next_ms = min(self._next_ms, int(self.last_instants(ends).min()))
        else:
            self._next_ms = min(self._next_ms, int(self.last_instants(self._slices.first_ends(starts)).min()))


def canonical(columns: list[pa.Array], count: int) -> list[Any]:
    """Return the canonical keys of key columns, as exchanges deal them."""
    slots = KeySlots([column.type for column in columns])
    return slots.keys(slots.of(columns, count))
