"""Aggregates by expression, begun before the exchange: one row for each key and slice of a batch.

A combined batch has the key columns, under their names, so that it is dealt as its records are; how many records each
row stands for; and for each aggregate what it has come to (`Accumulator.partials`). Its timestamps are those of the
last records, which lie in the same slices::

    records      k=a v=1 @3   k=b v=5 @4   k=a v=2 @5   k=a v=4 @12        slices of 10
    combined     k=a sum=3 of 2 @5         k=b sum=5 of 1 @4               k=a sum=4 of 1 @12

All that is decided of a record is decided by its slice, between two watermarks: in which windows it is, and whether it
is late. So a combined row is late where its records are, and counts as so many. Where late records are handed on or
have windows fire each by itself nothing is combined. Neither are sums of floats: they depend on the order in which
they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import NumberRangeError, TypeMismatchError
from millstream.operators.base import OperatorReport
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.groups import Groups, KeyedRows
from millstream.operators.columnar.key_index import numbered
from millstream.operators.columnar.reading import ColumnReader, stamps_of
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.slot_values import plain
from millstream.operators.combining import Combiner
from millstream.spi.batch import Batch, Columns, column_of
from millstream.types.numpy_views import as_numpy

__all__ = [
    "RECORDS_COMBINED",
    "ColumnCombiner",
    "can_combine",
    "is_combined",
    "read_rows",
    "records_of_each",
    "report_combined",
]

RECORDS_COMBINED = "numRecordsCombined"
"""Counter of the records that were put together before they came."""

_RECORDS = "\0records"
_SUMS = (AggregateKind.SUM, AggregateKind.MEAN)


def can_combine(keys: Sequence[str], aggregates: Sequence[Aggregate]) -> bool:
    """Return whether aggregates can be begun before the exchange, types apart."""
    return len(set(keys)) == len(keys) and all(each.kind is not AggregateKind.QUANTILE for each in aggregates)


def is_combined(batch: Batch) -> bool:
    """Return whether the rows of a batch stand for several records each."""
    return isinstance(batch, Columns) and batch.data.schema.get_field_index(_RECORDS) >= 0


def records_of_each(batch: Batch) -> Any:
    """Return for how many records each row of a combined batch stands."""
    assert isinstance(batch, Columns), "rows that are combined"
    return as_numpy(column_of(batch, _RECORDS))


def report_combined(report: OperatorReport, records: int) -> None:
    """Report how many records came combined in an epoch."""
    if records:
        counters = report.counters
        counters[RECORDS_COMBINED] = counters.get(RECORDS_COMBINED, 0) + records


def read_rows(reader: ColumnReader, batch: Batch, key_count: int) -> KeyedRows:
    """Return key columns and what is to be aggregated of a batch, combined or not.

    Args:
        reader: Of the key fields, then of the field of each aggregate.
        batch: The batch.
        key_count: How many key fields there are.
    """
    if is_combined(batch):
        assert isinstance(batch, Columns)
        columns = batch.data.columns
        return KeyedRows(columns[:key_count], columns[key_count + 1 :], combined=True)
    columns = reader.read(batch)
    return KeyedRows(columns[:key_count], columns[key_count:])


class ColumnCombiner(Combiner):
    """Begins aggregates.

    Args:
        keys: Names of the key fields.
        aggregates: What is computed.
        grid: The windows that the records go to; None if they go to none.
    """

    form = Columns

    def __init__(self, keys: Sequence[str], aggregates: Sequence[Aggregate], grid: SliceGrid | None) -> None:
        self._keys = list(keys)
        self._aggregates = list(aggregates)
        self._grid = grid
        self._added = [each.field for each in aggregates if each.kind in _SUMS and each.field is not None]
        self._reader = ColumnReader([*keys, *(each.field for each in aggregates)], None)

    def combine(self, batch: Columns, sent_ms: int | None) -> Columns | None:
        """Return a row for each key and slice, in the order of their first records; without windows of their last."""
        stamps = stamps_of(batch)
        if batch.kinds is not None or (self._grid is not None and stamps is None):
            return None
        try:
            rows = read_rows(self._reader, batch, len(self._keys))
            if self._depends_on_order(rows):
                return None
            return self._combined(rows, stamps)
        except (TypeMismatchError, NumberRangeError, pa.ArrowInvalid):
            return None  # the receiver gets the records as they are, and says what is wrong with them

    def may_go_on(self, batch: Columns) -> bool:
        """Return whether no floats are added up."""
        schema = batch.data.schema
        places = [schema.get_field_index(field) for field in self._added]
        return not any(place >= 0 and pa.types.is_floating(schema.types[place]) for place in places)

    def _depends_on_order(self, rows: KeyedRows) -> bool:
        return any(
            aggregate.kind in _SUMS and column is not None and pa.types.is_floating(column.type)
            for aggregate, column in zip(self._aggregates, rows.values, strict=True)
        )

    def _combined(self, rows: KeyedRows, stamps: Any) -> Columns | None:
        keys = [plain(key) for key in rows.keys]
        numbers = numbered(keys if self._grid is None else [*keys, pa.array(self._grid.starts(stamps))])
        if numbers is None:
            return None
        groups = Groups([_RECORDS], self._aggregates)
        slots = groups.add([pa.array(numbers)], rows.values)
        count = len(groups)
        order, last = groups.every(), np.empty(count, np.int64)
        last[slots] = np.arange(len(slots))
        if self._grid is None:
            order = np.argsort(last)
        last = last[order]
        kept = [key.take(pa.array(last)) for key in keys]
        kept.append(pa.array(np.bincount(slots, minlength=count)[order]))
        kept += groups.partials(order)[1:]
        values = [f"\0{place}" for place in range(len(kept) - len(self._keys) - 1)]
        data = pa.RecordBatch.from_arrays(kept, [*self._keys, _RECORDS, *values])
        return Columns(data, None if stamps is None else pa.array(stamps[last]))
