"""Joins of the rows of equal windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.arrays import arrow_types, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import Input
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.growing import GrowingRows, Lane
from millstream.table.runtime.join import joined_schema
from millstream.table.runtime.pairing import behind, join_rows, pairs_of
from millstream.table.runtime.window_rows import WindowRowsOperator

if TYPE_CHECKING:
    from millstream.table.runtime.join_specs import WindowJoinSpec

__all__ = ["WindowJoinOperator"]


class _Rows:
    """Rows of one side by slot."""

    def __init__(self, kinds: list[pa.DataType]) -> None:
        self._kinds = kinds
        self.rows = GrowingRows(kinds)
        self.slot_of = Lane(np.int64)

    def add(self, columns: list[pa.Array], slots: Any) -> None:
        rows = self.rows.append(columns, len(slots))
        self.slot_of.reach(self.rows.count)[rows] = slots

    def of(self, slots: Any, count: int) -> tuple[Any, Any]:
        """Return the numbers and slots of the rows of slots."""
        mask = np.zeros(count, bool)
        mask[slots] = True
        of = self.slot_of.array[: self.rows.count]
        rows = np.flatnonzero(mask[of])
        return rows, of[rows]

    def remove(self, rows: Any) -> None:
        kept = np.ones(self.rows.count, bool)
        kept[rows] = False
        left = np.flatnonzero(kept)
        self.rows.keep(left)
        self.slot_of.keep(left)

    def renumber(self, slots: Any) -> None:
        of = self.slot_of.array[: self.rows.count]
        self.slot_of.array[: self.rows.count] = np.searchsorted(slots, of)

    def entries(self, slots: Any, count: int) -> list[list[Any]]:
        rows, of = self.of(slots, count)
        entries: list[list[Any]] = [[] for _ in range(len(slots))]
        for place, row in zip(np.searchsorted(slots, of).tolist(), self.rows.entries(rows), strict=True):
            entries[place].append(row)
        return entries

    def restore(self, slots: Any, entries: list[list[Any]]) -> None:
        flat = [row for each in entries for row in each]
        if flat:
            held = GrowingRows(self._kinds)
            rows = held.restore(flat)
            self.add(held.take(rows), np.repeat(slots, [len(each) for each in entries]))


class WindowJoinOperator(WindowRowsOperator):
    """Keeps the rows of both sides until their window ends, then joins them."""

    def __init__(self, spec: WindowJoinSpec) -> None:
        kinds = [arrow_types(spec.left), arrow_types(spec.right)]
        super().__init__(
            kinds,
            [spec.left_keys, spec.right_keys],
            [spec.left_window, spec.right_window],
            processing=spec.processing,
            zone=spec.shift_zone,
        )
        self._spec = spec
        self._held = [_Rows(each) for each in kinds]
        schema = joined_schema(spec.left, spec.right)
        self._condition = None if spec.condition is None else Expressions([spec.condition], schema, spec.zone)

    def open(self) -> None:
        """Make the condition ready."""
        if self._condition is not None:
            self._condition.open(self.context)

    def add(self, index: int, rows: Input, slots: Any) -> None:
        """Keep rows of a side."""
        self._held[index].add(rows.columns, slots)

    def fire(self, slots: Any) -> None:
        """Join the rows of windows."""
        count = len(self.slots)
        (left, left_slots), (right, right_slots) = (held.of(slots, count) for held in self._held)
        columns = [held.rows.take(rows) for held, rows in zip(self._held, (left, right), strict=True)]
        pairable = [
            slots_of
            if (valid := self._valid(index, columns[index])) is None
            else np.where(valid, slots_of, nothing)
            for index, (slots_of, nothing) in enumerate(((left_slots, -1), (right_slots, -2)))
        ]
        joined, matched_left, matched_right = join_rows(
            columns[0],
            columns[1],
            pairs_of(*pairable),
            condition=self._condition,
            counts=(len(left), len(right)),
        )
        join = self._spec.join
        parts: list[list[pa.Array]] = []
        if join in (JoinKind.SEMI, JoinKind.ANTI):
            mask = pa.array(matched_left if join is JoinKind.SEMI else ~matched_left)
            parts.append([column.filter(mask) for column in columns[0]])
        else:
            parts.append(joined)
            if join in (JoinKind.LEFT, JoinKind.FULL):
                parts.append(self._padded(0, columns[0], ~matched_left))
            if join in (JoinKind.RIGHT, JoinKind.FULL):
                parts.append(self._padded(1, columns[1], ~matched_right))
        whole = behind(parts)
        self.emit(columns_batch(whole, None, len(whole[0])))
        self._held[0].remove(left)
        self._held[1].remove(right)

    def _valid(self, index: int, columns: list[pa.Array]) -> Any | None:
        """Return which rows have no NULL in their key; None if all have none."""
        valid = None
        for place in self._places[index]:
            there = validity_of(columns[place])
            if there is not None:
                valid = there if valid is None else valid & there
        return valid

    def _padded(self, index: int, columns: list[pa.Array], alone: Any) -> list[pa.Array]:
        mask = pa.array(alone)
        own = [column.filter(mask) for column in columns]
        count = int(np.count_nonzero(alone))
        others = [pa.nulls(count, kind) for kind in self._kinds[1 - index]]
        return [*own, *others] if index == 0 else [*others, *own]

    def renumber(self, slots: Any) -> None:
        """Have some slots only."""
        for held in self._held:
            held.renumber(slots)

    def entries(self, slots: Any) -> list[Any]:
        """Return the rows of both sides."""
        return list(zip(*(held.entries(slots, len(self.slots)) for held in self._held), strict=True))

    def restore(self, slots: Any, entries: list[Any]) -> None:
        """Take over the rows of both sides."""
        for held, part in zip(self._held, zip(*entries, strict=True), strict=True):
            held.restore(slots, list(part))
