"""Running aggregates by expression: for each key, one row with what its records have come to so far.

A batch gives one row for each key in it, with the timestamp of the key's last record there: what happened to a key
within the batch is netted. Flink's own `reduce` gives one for each record; here each record gives one where batches
are of one record. In batch mode each key gives one row, at the end of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import Operator, OperatorReport, OperatorSpec, OwnEntries, Reach, RestoreScope
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.combining import (
    ColumnCombiner,
    can_combine,
    read_rows,
    records_of_each,
    report_combined,
)
from millstream.operators.columnar.groups import Groups, Kinds
from millstream.operators.columnar.marks import process_whole
from millstream.operators.columnar.reading import ColumnReader, stamps_of
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.operators.combining import Combiner
from millstream.spi.batch import Batch, Columns
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays

__all__ = ["AGGREGATES", "ColumnAggregateSpec", "describe"]

AGGREGATES = "aggregates"
"""Entries of running aggregates: key -> one part for each aggregate."""

_PORTION = 32_768


def describe(aggregates: tuple[tuple[str, Aggregate], ...]) -> str:
    """Return aggregates as text, without their names: what is kept does not depend on those."""
    return ", ".join(str(aggregate) for _, aggregate in aggregates)


@dataclass(frozen=True)
class ColumnAggregateSpec(OperatorSpec):
    """Declares running aggregates.

    Attributes:
        keys: Names of the key fields.
        aggregates: Names of the results, and what they are.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    names: tuple[str, ...] | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept for each key."""
        return describe(self.aggregates)

    def build(self) -> Operator:
        """Make the running half."""
        return ColumnAggregateOperator(self)

    def build_combiner(self) -> Combiner | None:
        """Make what begins the aggregates where records come from."""
        aggregates = [aggregate for _, aggregate in self.aggregates]
        return ColumnCombiner(self.keys, aggregates, None) if can_combine(self.keys, aggregates) else None


class ColumnAggregateOperator(Operator):
    """Keeps the aggregates of all keys in columns."""

    def __init__(self, spec: ColumnAggregateSpec) -> None:
        aggregates = [aggregate for _, aggregate in spec.aggregates]
        self._reader = ColumnReader([*spec.keys, *(each.field for each in aggregates)], spec.names)
        self._key_count = len(spec.keys)
        self._names = [*spec.keys, *(name for name, _ in spec.aggregates)]
        self._groups = Groups(spec.keys, aggregates)
        self._touched = TouchedSlots(known=False)
        self._last = np.empty(0, np.int32)
        self._stamps = np.zeros(0, np.int64)
        self._stamped = np.zeros(0, bool)
        self._combined = 0

    def process(self, batch: Batch) -> None:
        """Add a batch, and hand on what its keys have come to."""
        if not len(batch):
            return
        keyed = read_rows(self._reader, batch, self._key_count)
        if keyed.combined:
            self._combined += int(records_of_each(batch).sum())
        slots = self._groups.add_rows(keyed)
        self._touched.note(slots, len(self._groups))
        stamps = stamps_of(batch)
        if self.context.batch:
            self._keep_stamps(slots, stamps)
            return
        rows = self._last_rows(slots)
        self._emit(
            slots[rows],
            None if stamps is None else stamps[rows],
            [column.take(pa.array(rows)) for column in keyed.keys],
        )

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records: they do not matter here."""
        process_whole(self, batch, reach)
        return None

    def _emit(self, slots: Any, stamps: Any, keys: Sequence[pa.Array] | None = None) -> None:
        """Hand on results; `keys` are the key columns, where they are at hand."""
        data = pa.RecordBatch.from_arrays(self._groups.columns(slots, keys), self._names)
        self.output.emit(Columns(data, None if stamps is None else pa.array(stamps, pa.int64())))

    def _last_rows(self, slots: Any) -> Any:
        """Return the last row of each slot, in the order of the rows."""
        if len(self._groups) > len(self._last):
            self._last = np.empty(2 * len(self._groups), np.int32)
        rows = np.arange(len(slots), dtype=np.int32)
        self._last[slots] = rows
        return np.flatnonzero(self._last[slots] == rows)

    def _keep_stamps(self, slots: Any, stamps: Any) -> None:
        count = len(self._groups)
        if count > len(self._stamps):
            self._stamps = np.append(self._stamps, np.zeros(count, np.int64))
            self._stamped = np.append(self._stamped, np.zeros(count, bool))
        if stamps is not None:
            self._stamps[slots] = stamps
            self._stamped[slots] = True

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many records came combined in the epoch."""
        report_combined(report, self._combined)
        self._combined = 0

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand the watermark on; in batch mode the results before the final one."""
        if timestamp_ms == MAX_TIMESTAMP and self.context.batch:
            every = self._groups.every()
            stamped = self._stamped[: len(every)]
            for slots, has_stamps in ((every[~stamped], False), (every[stamped], True)):
                for start in range(0, len(slots), _PORTION):
                    portion = slots[start : start + _PORTION]
                    self._emit(portion, self._stamps[portion] if has_stamps else None)
        super().process_watermark(timestamp_ms)

    def snapshot_state(self) -> Kinds:
        """Return the types of what is kept."""
        return self._groups.kinds

    def restore_state(self, snapshot: Kinds, scope: RestoreScope) -> None:
        """Take over types."""
        self._groups.learn(snapshot)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each key has."""
        every = self._groups.every()
        yield AGGREGATES, None, zip(self._groups.keys(every), self._groups.entries(every), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._groups)):
            return False
        for key, entry in zip(self._groups.keys(slots), self._groups.entries(slots), strict=True):
            changes.put(AGGREGATES, None, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what keys have."""
        self._groups.restore([key for _, key, _ in entries], [entry for _, _, entry in entries])
