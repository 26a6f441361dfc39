"""OVER in a stream by other columns than time: all rows are kept, and results change as rows come and go.

Each epoch the partitions that got rows are worked out as a whole, as they were and as they are. What differs is
emitted: a row that came as +I, one that went as -D, one whose results changed as -U and +U.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.base.time import MIN_TIMESTAMP
from millstream.state.snapshots import Entries
from millstream.table.runtime.arrays import arrow_type, arrow_types, concat
from millstream.table.runtime.changes import net_changes
from millstream.table.runtime.epoch_operator import Input
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import runs_of
from millstream.table.runtime.ordering import stable_order
from millstream.table.runtime.over import KEPT, OverOperator
from millstream.table.runtime.over_ranks import Ordered

if TYPE_CHECKING:
    from millstream.table.runtime.aggregate_specs import OverSpec

__all__ = ["OverValuesOperator"]


class OverValuesOperator(OverOperator):
    """Adds the results of aggregates to rows, and keeps them up to date.

    An epoch costs as much as there are rows in the partitions that it touches.
    """

    def __init__(self, spec: OverSpec) -> None:
        super().__init__(spec)
        self._row_kinds = arrow_types(spec.input)

    @property
    def _whole(self) -> bool:
        return True

    def work(self, inputs: list[Input | None]) -> None:
        """Take rows in and out of their partitions, and hand on what changed."""
        (rows,) = inputs
        assert rows is not None
        came = self._keys.of([rows.columns[place] for place in self._spec.partition], rows.count)
        self._expiry.reach(len(self._keys))
        self._touched.note(came, len(self._keys))
        touched = np.unique(came)
        expired = self._expiry.touch(touched, self.context.time.now_ms)
        if expired is not None and len(expired):
            self._forget(expired)
        kept = self._kept.live
        kept = kept[np.isin(self._kept.slot_of.array[kept], touched)] if len(kept) else kept
        held = len(kept)
        columns = rows.columns
        if held:
            columns = [
                concat([was, now]) for was, now in zip(self._kept.rows.take(kept), columns, strict=True)
            ]
        slots = np.concatenate([self._kept.slot_of.array[kept], came])
        count = len(slots)
        existed = np.arange(count) < held
        exists = self._left(columns, slots, rows.weights, held)
        old = self._worked_out(columns, slots, np.flatnonzero(existed))
        new = self._worked_out(columns, slots, np.flatnonzero(exists))
        self._kept.remove(kept[~exists[:held]])
        added = np.flatnonzero(exists & ~existed)
        self._kept.add(_taken(columns, added), slots[added], np.full(len(added), MIN_TIMESTAMP))
        self.emit(
            net_changes(
                [],
                [*columns, *old],
                [*columns, *new],
                existed=existed,
                exists=exists,
                before=self._spec.before,
            )
        )

    def pass_watermark(self, timestamp_ms: int) -> None:
        """Nothing waits for time."""

    def _forget(self, slots: Any) -> None:
        live = self._kept.live
        self._kept.remove(live[np.isin(self._kept.slot_of.array[live], slots)])

    def _left(self, columns: list[pa.Array], slots: Any, weights: Any | None, held: int) -> Any:
        """Return which rows are there behind the epoch: one that goes takes the oldest one with it that is equal."""
        count = len(slots)
        left = np.ones(count, bool)
        if weights is None:
            return left
        going = np.flatnonzero(weights < 0) + held
        if not len(going):
            return left
        left[going] = False
        equal = KeySlots([pa.int64(), *self._row_kinds]).of([pa.array(slots), *columns], count)
        gone = np.bincount(equal[going], minlength=int(equal.max()) + 1)
        there = np.flatnonzero(left)
        order = there[stable_order([equal[there]])]
        starts, lengths = runs_of(equal[order])
        age = np.arange(len(order)) - np.repeat(starts, lengths)
        left[order[age < gone[equal[order]]]] = False
        return left

    def _worked_out(self, columns: list[pa.Array], slots: Any, some: Any) -> list[pa.Array]:
        """Return the results of some rows, which are all of their partitions; NULL for the others."""
        chosen = _taken(columns, some)
        numbers = self.order_numbers(chosen, len(some))
        order = stable_order([slots[some], numbers])
        ordered = Ordered(
            _taken(chosen, order), slots[some][order], numbers[order], np.ones(len(some), bool), by_row=False
        )
        where = np.zeros(len(slots), np.int64)
        where[some[order]] = np.arange(len(some))
        missing = np.ones(len(slots), bool)
        missing[some] = False
        places = pa.array(where, mask=missing)
        if not len(some):
            return [pa.nulls(len(slots), arrow_type(call.type)) for call in self._spec.calls]
        return [result.take(places) for result in self._results(ordered)]

    def _parts(self, slots: Any) -> Iterator[tuple[str, list[Any]]]:
        """Yield what keys have: when they were last touched, and their rows."""
        rows = self._kept.entries(slots)
        yield (
            KEPT,
            [
                (stamp, each) if each else None
                for stamp, each in zip(self._expiry.stamps(slots), rows, strict=True)
            ],
        )

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the rows of keys."""
        if not entries:
            return
        slots = self._keys.of_keys([key for _, key, _ in entries])
        self._expiry.reach(len(self._keys))
        self._expiry.restore(slots, [stamp for _, _, (stamp, _) in entries])
        self._kept.restore(slots, [rows for _, _, (_, rows) in entries])


def _taken(columns: list[pa.Array], places: Any) -> list[pa.Array]:
    indices = pa.array(places)
    return [column.take(indices) for column in columns]
