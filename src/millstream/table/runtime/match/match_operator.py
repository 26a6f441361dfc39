"""MATCH_RECOGNIZE over columns.

::

    rows ──► waiting, by time ──watermark──► in order ──► automaton of the key ──► matches ──► measures, as columns
                                              │
                              conditions of the row alone, computed over columns

Partial matches keep the columns that navigations read, no others. By processing time rows are taken as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import OwnEntries
from millstream.operators.patterns.automaton import Found, PatternAutomaton
from millstream.operators.patterns.held import Held, restore_held
from millstream.operators.patterns.table import PatternTable
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.runtime.arrays import arrow_types, conform, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, EpochOperator, Input
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.match.match_pattern import CompiledMatch
from millstream.table.runtime.ordering import sorted_places
from millstream.table.runtime.time_buffer import TimeBuffer
from millstream.table.runtime.times import millis_of
from millstream.table.runtime.touched import Touched
from millstream.table.runtime.window_assign import NULL_TIMES_DROPPED

if TYPE_CHECKING:
    from millstream.table.runtime.match.match_spec import MatchSpec

__all__ = ["MATCHES", "WAITING", "MatchOperator"]

MATCHES, WAITING = "matches", "waiting"
"""Entries: key -> partial matches and what waits for them; key -> [(time, row), ...] that wait."""

_LEAST_DEAD = 1 << 14


class MatchOperator(EpochOperator):
    """Searches the rows of each key for a pattern."""

    whole_in_batch = True

    def __init__(self, spec: MatchSpec) -> None:
        kinds = arrow_types(spec.input)
        super().__init__([kinds], [False])
        self._spec = spec
        self._clause = spec.clause
        self._keys = KeySlots([kinds[place] for place in spec.clause.partition])
        self._buffer = TimeBuffer(kinds)
        self._held: dict[int, Held] = {}
        self._timers: list[tuple[int, int]] = []
        self._touched = Touched()
        self._passed_ms = MIN_TIMESTAMP
        self._match = CompiledMatch(spec.clause, spec.input, spec.zone)
        self._automaton = PatternAutomaton(PatternTable(self._match.pattern))
        self._match.place_in(self._automaton)

    def open(self) -> None:
        """Make expressions ready."""
        self._match.open(self.context)

    def close(self) -> None:
        """Close users' functions."""
        self._match.close()

    # Input

    def work(self, inputs: list[Input | None]) -> None:
        """Have rows wait for the watermark; by processing time take them."""
        (rows,) = inputs
        assert rows is not None
        by_clock = not self._spec.rowtime
        if by_clock:
            times = np.full(rows.count, self.context.time.now_ms)
        else:
            rows, times = self._in_time(rows)
        slots = self._keys.of([rows.columns[place] for place in self._clause.partition], rows.count)
        self._touched.note(slots, len(self._keys))
        if by_clock:
            keys = list(self._clause.order[1:])
            order = sorted_places(None, rows.columns, keys, np.arange(rows.count))
            self._take(rows.take(order).columns, slots[order], times)
        else:
            self._buffer.add(rows.columns, slots, times)

    def _in_time(self, rows: Input) -> tuple[Input, Any]:
        place = self._clause.order[0].index
        valid = validity_of(rows.columns[place])
        if valid is not None:
            self.count(NULL_TIMES_DROPPED, rows.count - int(np.count_nonzero(valid)))
            rows = rows.filter(valid)
        times = millis_of(rows.columns[place])
        if self.context.batch:
            return rows, times
        in_time = times > np.maximum(rows.seen, self._passed_ms)
        self.count(LATE_ROWS_DROPPED, rows.count - int(np.count_nonzero(in_time)))
        return rows.filter(in_time), times[in_time]

    # Time

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Take the rows up to a watermark, and end what time ends."""
        if self._spec.rowtime:  # in batch mode this is called once, when all rows are there
            self._reach(MAX_TIMESTAMP if self.context.batch else timestamp_ms)

    def finish(self) -> None:
        """In batch mode take all rows that are left, of an input without watermarks."""
        if self._spec.rowtime and self.context.batch:
            self._reach(MAX_TIMESTAMP)

    def _reach(self, time_ms: int) -> None:
        self._passed_ms = max(self._passed_ms, time_ms)
        due = self._buffer.due(time_ms)
        if len(due):
            columns = self._buffer.rows.take(due)
            slots, times = self._buffer.slot_of.array[due], self._buffer.times.array[due]
            self._buffer.remove(due)
            self._touched.note(slots, len(self._keys))
            order = sorted_places(None, columns, list(self._clause.order), np.arange(len(due)))
            indices = pa.array(order)
            self._take([column.take(indices) for column in columns], slots[order], times[order])
        self._expire(time_ms)

    def on_processing_time(self) -> None:
        """End what the clock ends."""
        if not self._spec.rowtime:
            self._expire(self.context.time.now_ms)

    def next_processing_time(self) -> int | None:
        """Return when the clock ends something next."""
        return self._timers[0][0] if self._timers and not self._spec.rowtime else None

    def _expire(self, time_ms: int) -> None:
        found: list[tuple[int, Found]] = []
        timers, slots = self._timers, []
        while timers and timers[0][0] <= time_ms:
            due_ms, slot = heappop(timers)
            held = self._held.get(slot)
            if held is None or held.timer_ms != due_ms:
                continue
            held.timer_ms = None
            ended: list[Found] = []
            self._automaton.expire(held, time_ms, ended)
            found += [(slot, each) for each in ended]
            self._keep(slot, held)
            slots.append(slot)
        if slots:
            self._touched.note(np.array(slots, np.int64), len(self._keys))
        self._emit_found(found)

    # Matching

    def _take(self, columns: list[pa.Array], slots: Any, times: Any) -> None:
        """Take rows in order."""
        rows, codes = self._match.rows(columns, times)
        automaton, table = self._automaton, self._held
        starts = automaton.starts
        found: list[tuple[int, Found]] = []
        matched: list[Found] = []
        for slot, row, code in zip(slots.tolist(), rows, codes, strict=True):
            held = table.get(slot)
            if held is None:
                if starts[code] is None:
                    continue
                held = Held()
            elif automaton.is_due(held, row[0]):
                automaton.expire(held, row[0], matched)
            if automaton.advance(held, row[0], row, matched, code) or matched:
                self._keep(slot, held)
                if matched:
                    found += [(slot, each) for each in matched]
                    matched.clear()
        self._emit_found(found)

    def _keep(self, slot: int, held: Held) -> None:
        """Keep what a key has now, and see to its timer."""
        if held.is_empty:
            self._held.pop(slot, None)
            return
        self._held[slot] = held
        due_ms = self._automaton.next_deadline(held)
        if due_ms is not None and (held.timer_ms is None or due_ms < held.timer_ms):
            held.timer_ms = due_ms
            heappush(self._timers, (due_ms, slot))

    def _emit_found(self, found: list[tuple[int, Found]]) -> None:
        if not found:
            return
        keys = self._keys.columns(np.array([slot for slot, _ in found], np.int64))
        measures = self._match.measures([each.events for _, each in found])
        columns = [conform(column, kind) for column, kind in zip(measures, self._match.kinds, strict=True)]
        self.emit(columns_batch([*keys, *columns], None, len(found)))

    # Snapshots

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; at a checkpoint give back the room of keys that are gone, if they are most."""
        super().end_epoch(report, checkpoint=checkpoint)
        if checkpoint and len(self._keys) > _LEAST_DEAD:
            kept = np.union1d(self._matching(), self._buffer.slot_of.array[self._buffer.live])
            if 2 * len(kept) < len(self._keys):
                self._compact(kept)

    def _compact(self, kept: Any) -> None:
        self._keys.keep(kept)
        self._buffer.renumber(kept)
        number = {slot: place for place, slot in enumerate(kept.tolist())}
        self._held = {number[slot]: held for slot, held in self._held.items()}
        self._timers = [
            (held.timer_ms, slot) for slot, held in self._held.items() if held.timer_ms is not None
        ]
        heapify(self._timers)
        self._touched.begin_again()

    def _matching(self) -> Any:
        """Return the slots that have partial matches, ascending."""
        return np.array(sorted(self._held), np.int64)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each key has."""
        slots = self._matching()
        held = [self._held[slot].plain() for slot in slots.tolist()]
        yield MATCHES, None, zip(self._keys.keys(slots), held, strict=True)
        slots = np.unique(self._buffer.slot_of.array[self._buffer.live])
        yield WAITING, None, zip(self._keys.keys(slots), self._buffer.entries(slots), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        held = [self._held.get(slot) for slot in slots.tolist()]
        plain = [None if each is None else each.plain() for each in held]
        waiting = self._buffer.entries(slots)
        for name, entries in ((MATCHES, plain), (WAITING, waiting)):
            for key, entry in zip(self._keys.keys(slots), entries, strict=True):
                if entry:
                    changes.put(name, None, key, entry)
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
        if name == WAITING:
            self._buffer.restore(slots, [entry for _, _, entry in entries])
            return
        for slot, (_, _, entry) in zip(slots.tolist(), entries, strict=True):
            held = restore_held(entry)
            held.timer_ms = None
            self._keep(slot, held)
