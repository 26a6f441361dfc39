"""Windows of so many records of a key, by expression.

A key has one window that is open, and a slot for it. The records of a batch are numbered by key; whose number is a
multiple of the size fills a window::

    size 3, two are there     records of a key in a batch      a  b  c  d  e  f
                              window                           0| 1  1  1| 2  2
                              a goes to the open window, which is full; b c d are one by themselves; e f open the next

There is no time: nothing is late, and what does not get full never gives a result, as with windows of rows
(`operators/windowing/counts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import Operator, OperatorSpec, OwnEntries, Reach, RestoreScope
from millstream.operators.columnar.accumulator_set import AccumulatorSet
from millstream.operators.columnar.aggregate import describe
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.groups import KeyedRows, Kinds
from millstream.operators.columnar.key_numbers import KeyNumbers
from millstream.operators.columnar.keyed_reader import KeyedReader
from millstream.operators.columnar.marks import process_whole
from millstream.operators.columnar.reading import stamps_of
from millstream.operators.columnar.slot_values import grown
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.operators.windowing.counts import COUNTS
from millstream.spi.batch import Batch, Columns
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays

__all__ = ["WINDOW_ID", "ColumnCountWindowSpec"]

WINDOW_ID = "window_id"
"""Name of the column that numbers the windows of a key, from 0."""


@dataclass(frozen=True)
class ColumnCountWindowSpec(OperatorSpec):
    """Declares aggregates over windows of so many records.

    Attributes:
        keys: Names of the key fields; none for windows of all records.
        aggregates: Names of the results, and what they are.
        size: Records in a window.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    size: int
    names: tuple[str, ...] | None = None
    is_keyed = True
    takes_columns = True
    acts_on_time = False

    @property
    def state_form(self) -> str:
        """How large windows are, and what is kept of their records."""
        return f"windows of {self.size} records, {describe(self.aggregates)}"

    def build(self) -> Operator:
        """Make the running half."""
        return CountWindowOperator(self)


class CountWindowOperator(Operator):
    """For each key how many windows were filled, how many records the open one has, and what they come to."""

    def __init__(self, spec: ColumnCountWindowSpec) -> None:
        self._size = spec.size
        self._aggregates = [aggregate for _, aggregate in spec.aggregates]
        self._reader = KeyedReader(spec.keys, self._aggregates, spec.names)
        self._key_count = len(spec.keys)
        self._names = [*spec.keys, WINDOW_ID, *(name for name, _ in spec.aggregates)]
        self._keys = KeyNumbers(self._reader.key_names)
        self._open = AccumulatorSet(self._aggregates)
        self._filled, self._held = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._touched = TouchedSlots(known=False)

    def process(self, batch: Batch) -> None:
        """Add a batch, and hand on the windows that it fills, in the order of the records that fill them.

        Raises:
            TypeMismatchError: If a field is missing, or of a type that cannot be aggregated so.
        """
        if not len(batch):
            return
        rows = self._reader.read(batch)
        slots = self._keys.of(rows.keys)
        self._reach()
        self._touched.note(slots, len(self._keys))
        order = np.argsort(slots, kind="stable")
        firsts = np.flatnonzero(np.append(True, np.diff(slots[order]) > 0))
        own, counts = slots[order[firsts]], np.diff(firsts, append=len(slots))
        after = self._held[own] + counts
        places, stay = np.empty(len(slots), np.int64), np.empty(len(slots), bool)
        places[order] = np.arange(len(slots)) - np.repeat(firsts - self._held[own], counts)
        windows = places // self._size
        stay[order] = windows[order] == np.repeat(after // self._size, counts)
        last = places % self._size == self._size - 1
        filling, results = self._add(slots, windows, stay, last, order, rows)
        if len(filling):
            ids = self._filled[slots[filling]] + windows[filling]
            self._emit(filling, ids, slots[filling], results, stamps_of(batch))
        self._filled[own] += after // self._size
        self._held[own] = after % self._size

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records: they do not matter here."""
        process_whole(self, batch, reach)
        return None

    def _add(
        self, slots: Any, windows: Any, stay: Any, last: Any, order: Any, rows: KeyedRows
    ) -> tuple[Any, list[pa.Array]]:
        """Add rows: to windows that are open, to such as begin and end among them, and to those that stay open.

        Args:
            slots: The slot of each row's key.
            windows: Its window, from 0, the one that is open.
            stay: Whether this stays open.
            last: Whether the row fills it.
            order: Rows in the order of their keys.
            rows: The columns.

        Returns:
            The rows that fill windows, in order, and what these have come to.
        """
        self._add_to_open(slots, np.flatnonzero(windows == 0), rows)
        filling = np.flatnonzero(last & (windows == 0))
        results = self._open.results(slots[filling])
        self._open.clear(slots[filling])
        whole = (windows > 0) & ~stay
        if whole.any():
            in_order = order[whole[order]]  # windows one after the other, each of so many rows
            numbers = np.empty(len(slots), np.int64)
            numbers[in_order] = np.arange(len(in_order)) // self._size
            made = AccumulatorSet(self._aggregates)
            made.learn(self._open.kinds)
            made.reach(len(in_order) // self._size)
            places = np.flatnonzero(whole)
            made.add(numbers[places], rows.take(places).values)
            fillers = np.flatnonzero(whole & last)
            results = [
                pa.concat_arrays(each) for each in zip(results, made.results(numbers[fillers]), strict=True)
            ]
            filling = np.append(filling, fillers)
        self._add_to_open(slots, np.flatnonzero(stay & (windows > 0)), rows)
        sorting = np.argsort(filling)
        return filling[sorting], [column.take(pa.array(sorting)) for column in results]

    def _add_to_open(self, slots: Any, places: Any, rows: KeyedRows) -> None:
        if len(places):
            taken = rows if len(places) == len(slots) else rows.take(places)
            self._open.add(slots[places], taken.values)

    def _emit(self, filling: Any, ids: Any, slots: Any, results: Sequence[pa.Array], stamps: Any) -> None:
        keys = self._keys.columns(slots)[: self._key_count]
        data = pa.RecordBatch.from_arrays([*keys, pa.array(ids), *results], self._names)
        self.output.emit(Columns(data, None if stamps is None else pa.array(stamps[filling], pa.int64())))

    def _reach(self) -> None:
        """Make room for the keys that there are."""
        count = len(self._keys)
        self._open.reach(count)
        if count > len(self._held):
            self._filled, self._held = (grown(each, 2 * count) for each in (self._filled, self._held))

    def snapshot_state(self) -> Kinds:
        """Return the types of what is kept."""
        return self._keys.kinds, self._open.kinds

    def restore_state(self, snapshot: Kinds, scope: RestoreScope) -> None:
        """Take over types."""
        keys, kept = snapshot
        self._keys.learn(keys)
        self._open.learn(kept)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return by key [windows that were filled, records in the open one, what they come to or None]."""
        yield COUNTS, None, self._entries(np.arange(len(self._keys)))

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        for key, entry in self._entries(slots):
            changes.put(COUNTS, None, key, entry)
        return True

    def _entries(self, slots: Any) -> Iterator[tuple[Any, list[Any]]]:
        columns = self._filled[slots].tolist(), self._held[slots].tolist(), self._open.entries(slots)
        for key, filled, held, entry in zip(self._keys.keys(slots), *columns, strict=True):
            yield key, [filled, held, entry if held else None]

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what keys have."""
        if not entries:
            return
        slots = self._keys.of_keys([key for _, key, _ in entries])
        self._reach()
        self._filled[slots] = [filled for _, _, (filled, _, _) in entries]
        self._held[slots] = [held for _, _, (_, held, _) in entries]
        kept = [place for place, (_, _, (_, held, _)) in enumerate(entries) if held]
        self._open.restore(slots[kept], [entries[place][2][2] for place in kept])
