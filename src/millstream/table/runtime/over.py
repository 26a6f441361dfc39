"""OVER: for each row, aggregates of a frame of rows before it.

By event time rows wait until the watermark has passed them; then those of each partition are in order, and a frame is
a range of them. Of unbounded frames one accumulator for each partition is kept, which stands before the first row as if
it were one; of bounded ones the last rows. By processing time rows are worked on as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.base import OwnEntries, RestoreScope
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.runtime.aggregates.table import AggregateTable
from millstream.table.runtime.arrays import arrow_types, concat, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, EpochOperator, Input
from millstream.table.runtime.expiry import Expiry
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.ordering import range_numbers, sort_numbers, stable_order
from millstream.table.runtime.over_frames import aggregate_ranges
from millstream.table.runtime.over_ranks import POSITIONAL, Ordered, positional
from millstream.table.runtime.time_buffer import TimeBuffer
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched
from millstream.table.runtime.window_assign import NULL_TIMES_DROPPED

if TYPE_CHECKING:
    from millstream.table.runtime.aggregate_specs import OverSpec

__all__ = ["KEPT", "STATE", "WAITING", "OverOperator"]

STATE, WAITING, KEPT = "over", "waiting", "kept"
"""Entries: key -> (last access, ranks, accumulators); key -> [(time, row), ...] that wait; that frames look back at."""


class OverOperator(EpochOperator):
    """Adds the results of aggregates to rows."""

    whole_in_batch = True

    def __init__(self, spec: OverSpec) -> None:
        kinds = arrow_types(spec.input)
        super().__init__([kinds], [spec.by_values and spec.retracts])
        self._spec = spec
        self._width = len(kinds)
        self._keys = KeySlots([kinds[place] for place in spec.partition])
        self._calls = [call for call in spec.calls if call.function not in POSITIONAL]
        self._unbounded = spec.frame.preceding is None
        self._state = AggregateTable(self._calls, spec.input, retracts=False)
        self._dense = Lane(np.int64)
        self._held, self._kept = TimeBuffer(kinds), TimeBuffer(kinds)
        self._looks_back = 0  # how many rows positional functions look back; learnt from their arguments
        self._touched = Touched()
        self._expiry = Expiry(spec.ttl_ms)
        self._passed_ms = MIN_TIMESTAMP

    @property
    def _whole(self) -> bool:
        """Whether all rows of a partition are there when one is worked on."""
        return self.context.batch

    def open(self) -> None:
        """Open users' functions."""
        self._state.open(self.context)

    def close(self) -> None:
        """Close users' functions."""
        self._state.close()

    def work(self, inputs: list[Input | None]) -> None:
        """Have rows wait for the watermark; by processing time, and in batch mode, work on them."""
        (rows,) = inputs
        assert rows is not None
        spec = self._spec
        in_order = not spec.rowtime or self.context.batch
        if in_order:
            times = np.full(rows.count, self.context.time.now_ms)
        else:
            assert spec.order is not None
            column = rows.columns[spec.order.index]
            valid = validity_of(column)
            if valid is not None:
                self.count(NULL_TIMES_DROPPED, rows.count - int(np.count_nonzero(valid)))
                rows = rows.filter(valid)
            times = millis_of(rows.columns[spec.order.index])
            in_time = times > np.maximum(rows.seen, self._passed_ms)
            self.count(LATE_ROWS_DROPPED, rows.count - int(np.count_nonzero(in_time)))
            rows, times = rows.filter(in_time), times[in_time]
        slots = self._keys.of([rows.columns[place] for place in spec.partition], rows.count)
        count = len(self._keys)
        self._state.reach(count)
        self._dense.reach(count)
        self._expiry.reach(count)
        self._touched.note(slots, count)
        if not in_order:
            self._held.add(rows.columns, slots, times)
            return
        expired = self._expiry.touch(np.unique(slots), self.context.time.now_ms)
        if expired is not None and len(expired):
            self._forget(expired)
        numbers = self.order_numbers(rows.columns, rows.count) if self.context.batch else times
        self._evaluate(rows.columns, slots, times, numbers)

    def order_numbers(self, columns: list[pa.Array], count: int) -> Any:
        """Return numbers that say in which order rows are; equal ones are peers.

        With bounds by value they are the values themselves: distances between them count.
        """
        keys = self._spec.keys
        frame = self._spec.frame
        if not frame.rows and (frame.preceding or frame.following):
            return range_numbers(columns[keys[0].index], keys[0])
        arrays = [each for key in keys for each in sort_numbers(columns[key.index], key)]
        if not arrays or not count:
            return np.zeros(count, np.int64)
        places = stable_order(arrays)
        fresh = np.zeros(count, bool)
        for each in arrays:
            ordered = each[places]
            fresh[1:] |= ordered[1:] != ordered[:-1]
        numbers = np.empty(count, np.int64)
        numbers[places] = np.cumsum(fresh)
        return numbers

    def _forget(self, slots: Any) -> None:
        self._state.clear(slots)
        self._dense.array[slots] = 0
        gone = np.isin(self._kept.slot_of.array[: self._kept.rows.count], slots)
        self._kept.remove(np.flatnonzero(gone))

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Work on the rows up to a watermark."""
        if not self._spec.rowtime or self.context.batch:
            return
        self._passed_ms = timestamp_ms
        due = self._held.due(timestamp_ms)
        if len(due):
            columns = self._held.rows.take(due)
            slots, times = self._held.slot_of.array[due], self._held.times.array[due]
            self._held.remove(due)
            self._touched.note(slots, len(self._keys))
            self._evaluate(columns, slots, times, times)
        frame = self._spec.frame
        if not frame.rows and frame.preceding is not None and not self._looks_back:
            gone = self._kept.due(timestamp_ms - frame.preceding)
            if len(gone):
                self._touched.note(self._kept.slot_of.array[gone], len(self._keys))
                self._kept.remove(gone)

    def _evaluate(self, columns: list[pa.Array], slots: Any, times: Any, numbers: Any) -> None:
        """Emit rows with their results, and note what later rows need of them."""
        kept = self._kept.live
        kept = kept[np.isin(self._kept.slot_of.array[kept], slots)] if len(kept) else kept
        held = len(kept)
        if held:
            before = self._kept.rows.take(kept)
            columns = [concat([was, now]) for was, now in zip(before, columns, strict=True)]
            slots = np.concatenate([self._kept.slot_of.array[kept], slots])
            times = np.concatenate([self._kept.times.array[kept], times])
            numbers = np.concatenate([self._kept.times.array[kept], numbers])
        order = stable_order([slots, numbers])
        is_new = order >= held
        indices = pa.array(order)
        columns = [column.take(indices) for column in columns]
        slots, times, numbers = slots[order], times[order], numbers[order]
        rows = Ordered(
            columns, slots, numbers, is_new, by_row=not self._spec.rowtime and not self.context.batch
        )
        results = self._results(rows)
        arrival = stable_order([numbers[is_new], order[is_new]])
        new = np.flatnonzero(is_new)[arrival]
        emitted = [column.take(pa.array(new)) for column in columns]
        emitted += [result.take(pa.array(arrival)) for result in results]
        self._keep_for_later(rows, times, kept)
        self.emit(columns_batch(emitted, None, len(new)))

    def _results(self, rows: Ordered) -> list[pa.Array]:
        """Return for each call its results for the new rows."""
        found = self._aggregates(rows) if self._calls else []
        results = []
        aggregates = iter(found)
        state_rows = self._state.rows.array
        for call in self._spec.calls:
            if call.function in POSITIONAL:
                self._looks_back = max(self._looks_back, rows.offset_of(call))
                whole = self._whole
                results.append(positional(call, rows, state_rows, self._dense.array, whole=whole))
            else:
                results.append(next(aggregates))
        new = np.flatnonzero(rows.is_new)
        if self._unbounded and not self._whole:
            self._state.add(rows.slots[new], None, [column.take(pa.array(new)) for column in rows.columns])
            rows.count_peers(self._dense.array)
        return results

    def _aggregates(self, rows: Ordered) -> list[pa.Array]:
        starts, stops = self._frames(rows)
        count = len(rows.slots)
        leaves = self._state.another()
        leaves.reach(count)
        leaves.add(np.arange(count), None, rows.columns)
        partials = leaves.partials(np.arange(count))
        table = aggregate_ranges(self._state.another, partials, count, starts, stops)
        every = np.arange(len(starts))
        if not self._unbounded or self._whole:
            return table.results(every)
        whole = self._state.another()
        whole.reach(max(1, len(starts)))
        of = self._state.partials(rows.slots[rows.is_new])
        whole.add_partials(every, of)
        whole.add_partials(every, table.partials(every))
        return whole.results(every)

    def _frames(self, rows: Ordered) -> tuple[Any, Any]:
        """Return the first row of the frame of each new row, and the row behind its last one."""
        frame = self._spec.frame
        places = np.flatnonzero(rows.is_new)
        first, last = rows.partition_bounds
        first, last = first[places], last[places]
        by_row = frame.rows or (rows.by_row and frame.preceding is None)
        if by_row:
            starts = first if frame.preceding is None else np.maximum(first, places - frame.preceding)
            stops = last if frame.following is None else np.minimum(last, places + 1 + frame.following)
            if self._unbounded and not self._whole:
                starts = rows.first_new[places]
            return starts, np.maximum(stops, starts)
        peers_first, peers_last = rows.peer_bounds
        if frame.preceding is None:
            starts = first if self._whole else rows.first_new[places]
        elif frame.preceding == 0:
            starts = peers_first[places]
        else:
            starts = rows.search(places, rows.numbers[places] - frame.preceding, side="left")
        if frame.following is None:
            stops = last
        elif frame.following == 0:
            stops = peers_last[places]
        else:
            stops = rows.search(places, rows.numbers[places] + frame.following, side="right")
        return starts, stops

    def _keep_for_later(self, rows: Ordered, times: Any, kept: Any) -> None:
        """Keep the rows that frames of later ones may reach."""
        if self.context.batch:
            return
        frame = self._spec.frame
        needed = np.zeros(len(times), bool)
        _, last = rows.partition_bounds
        from_end = last - np.arange(len(times))
        if not self._unbounded and frame.rows:
            needed |= from_end <= (frame.preceding or 0)
        elif not self._unbounded:
            needed |= times > times.max() - (frame.preceding or 0) - 1
            if self._spec.rowtime:
                needed |= times >= self._passed_ms + 1 - (frame.preceding or 0)
        if self._looks_back:
            needed |= from_end <= self._looks_back
        if len(kept):
            self._kept.remove(kept)
        chosen = np.flatnonzero(needed)
        if len(chosen):
            columns = [column.take(pa.array(chosen)) for column in rows.columns]
            self._kept.add(columns, rows.slots[chosen], times[chosen])

    def snapshot_state(self) -> tuple[int, int]:
        """Return until when rows have come out, and how far functions look back."""
        return self._passed_ms, self._looks_back

    def restore_state(self, snapshot: tuple[int, int], scope: RestoreScope) -> None:
        """Take over until when rows have come out: all subtasks are at the same watermark at a checkpoint."""
        self._passed_ms = max(self._passed_ms, snapshot[0])
        self._looks_back = max(self._looks_back, snapshot[1])

    def _parts(self, slots: Any) -> Iterator[tuple[str, list[Any]]]:
        """Yield for each name of entries what keys have; None or nothing where there is none."""
        rows = self._state.rows.array[slots].tolist()
        state = zip(
            rows,
            self._expiry.stamps(slots),
            self._dense.array[slots].tolist(),
            self._state.entries(slots),
            strict=True,
        )
        yield STATE, [each[1:] if each[0] else None for each in state]
        yield WAITING, self._held.entries(slots)
        yield KEPT, self._kept.entries(slots)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each key has."""
        slots = np.arange(len(self._keys))
        keys = self._keys.keys(slots)
        for name, parts in self._parts(slots):
            yield name, None, [(key, part) for key, part in zip(keys, parts, strict=True) if part]

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        keys = self._keys.keys(slots)
        for name, parts in self._parts(slots):
            for key, part in zip(keys, parts, strict=True):
                if part:
                    changes.put(name, None, key, part)
                else:
                    changes.remove(name, None, key)
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
        self._state.reach(count)
        self._dense.reach(count)
        self._expiry.reach(count)
        parts = [entry for _, _, entry in entries]
        if name == STATE:
            self._expiry.restore(slots, [stamp for stamp, _, _ in parts])
            self._dense.array[slots] = [dense for _, dense, _ in parts]
            self._state.restore(slots, [entry for _, _, entry in parts])
        else:
            (self._held if name == WAITING else self._kept).restore(slots, parts)
