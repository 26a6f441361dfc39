"""Table aggregate functions by key: the rows that a function gives for each key, kept up to date.

After an epoch a function is asked again for the rows of each key that changed. What it gave before and does not give
any more goes (-D), what is new comes (+I); rows that are in both stay, in whatever order they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.changes import DELETE, INSERT, columns_batch
from millstream.table.runtime.group_aggregate import GroupAggregateOperator, distinct_slots

if TYPE_CHECKING:
    from millstream.table.runtime.aggregate_specs import TableAggregateSpec

__all__ = ["TableAggregateOperator"]


class TableAggregateOperator(GroupAggregateOperator):
    """Keeps the accumulator of each key as GROUP BY does, and hands on rows."""

    def __init__(self, spec: TableAggregateSpec) -> None:
        super().__init__(
            spec.input, spec.keys, (spec.call,), retracts=spec.retracts, before=True, ttl_ms=spec.ttl_ms
        )
        self._ttl_ms = spec.ttl_ms

    def _change(self, slots: Any, add: Any) -> None:
        """Hand on which rows go and come when something is added."""
        touched = self._touch(distinct_slots(slots, self._reached()))
        if self.context.batch:
            add()
            return
        old = self._table.given_rows(0, touched)
        add()
        new = self._table.given_rows(0, touched)
        if self._ttl_ms is None:
            pairs = [_differing(was, now) for was, now in zip(old, new, strict=True)]
            old, new = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self._emit_rows(touched, [(old, DELETE), (new, INSERT)])
        gone = touched[self._table.rows.array[touched] == 0]
        if len(gone):
            self._table.clear(gone)

    def _emit_results(self, slots: Any) -> None:
        self._emit_rows(slots, [(self._table.given_rows(0, slots), INSERT)])

    def _emit_rows(self, slots: Any, parts: Sequence[tuple[list[list[Any]], int]]) -> None:
        """Hand on rows of slots: for each part those of each slot, and their kind."""
        places = [np.repeat(np.arange(len(slots)), [len(each) for each in rows]) for rows, _ in parts]
        given = [row for rows, _ in parts for each in rows for row in each]
        if not given:
            return
        kinds = np.concatenate(
            [np.full(len(place), kind, np.int8) for place, (_, kind) in zip(places, parts, strict=True)]
        )
        column = self._table.rows_column(0, given)
        columns = column.flatten() if pa.types.is_struct(column.type) else [column]
        indices = pa.array(np.concatenate(places))
        keys = [key.take(indices) for key in self._keys.columns(slots)]
        self.emit(columns_batch([*keys, *columns], kinds if kinds.any() else None, len(kinds)))


def _differing(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return what is in one list of rows and not in the other, each as often as it is there more often."""
    if old == new:
        return [], []
    gone, come = [], list(new)
    for row in old:
        if row in come:
            come.remove(row)
        else:
            gone.append(row)
    return gone, come
