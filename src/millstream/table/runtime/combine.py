"""Aggregates begun where rows come from, before they are sent by key.

Instead of its rows a sender sends for each key (and slice of windows) one row of partial results: the key columns, the
slice, then what `AggregateTable.partials` gives. Whether it pays is found out as the stream runs
(`operators/combining.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.combining import Combiner
from millstream.spi.batch import Columns
from millstream.table.expressions.rex import AggregateCall, RowSchema
from millstream.table.runtime.aggregates.table import AggregateTable
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.slices import Slices
from millstream.table.runtime.times import millis_of, walls_of

__all__ = [
    "PARTIAL_INPUT",
    "SLICE_INPUT",
    "GroupCombiner",
    "WindowCombiner",
    "can_combine",
    "partial_columns",
]

PARTIAL_INPUT = "\0partials"
"""Name of the column behind the keys of a batch of partial results."""

SLICE_INPUT = "\0slice"
"""Name of the column of the slice that partial results are of."""


def can_combine(calls: Sequence[AggregateCall], schema: RowSchema, *, retracts: bool) -> bool:
    """Return whether aggregates can be begun before the exchange: sums of floats depend on the order of the rows."""
    kinds = arrow_types(schema)
    for call in calls:
        if call.user_function is not None or call.order:
            return False
        if call.distinct or call.function in ("FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE"):
            return False
        if call.function not in ("COUNT", "MIN", "MAX") and any(
            pa.types.is_floating(kinds[place]) for place in call.arguments
        ):
            return False
    return AggregateTable(calls, schema, retracts=retracts).partial_kinds is not None


def partial_columns(batch: Any, kinds: Sequence[pa.DataType] | None) -> list[pa.Array] | None:
    """Return the columns of a batch of partial results; None if it is a batch of rows."""
    if not isinstance(batch, Columns) or batch.data.schema.get_field_index(PARTIAL_INPUT) < 0:
        return None
    assert kinds is not None, "partial results of aggregates that have none"
    return list(batch.data.columns)


class GroupCombiner(Combiner):
    """Begins the aggregates of GROUP BY.

    Args:
        schema: Columns of the rows.
        keys: Places of the key columns.
        calls: The aggregates.
    """

    form = Columns

    def __init__(self, schema: RowSchema, keys: Sequence[int], calls: Sequence[AggregateCall]) -> None:
        self._schema = schema
        self._places = list(keys)
        self._calls = list(calls)
        self._kinds = arrow_types(schema)

    def combine(self, batch: Columns, sent_ms: int | None) -> Columns | None:
        """Return a row for each key, in the order of their first rows."""
        if batch.kinds is not None:
            return None
        return self._combined(batch, self._columns(batch), [])

    def _columns(self, batch: Columns) -> list[pa.Array]:
        return [conform(column, kind) for column, kind in zip(batch.data.columns, self._kinds, strict=True)]

    def _combined(self, batch: Columns, columns: list[pa.Array], more: list[pa.Array]) -> Columns:
        """Return a row for each key, and value of some more columns, which stand between keys and partial results."""
        places = self._places
        keys = KeySlots([*(self._kinds[place] for place in places), *(each.type for each in more)])
        table = AggregateTable(self._calls, self._schema, retracts=False)
        slots = keys.of([*(columns[place] for place in places), *more], len(batch))
        table.reach(len(keys))
        table.add(slots, None, columns)
        every = np.arange(len(keys))
        held = [*keys.columns(every), *table.partials(every)]
        names = [batch.data.schema.names[place] for place in places] + [SLICE_INPUT] * len(more)
        names += [PARTIAL_INPUT, *(f"\0{place}" for place in range(len(held) - len(names) - 1))]
        return Columns(pa.RecordBatch.from_arrays(held, names))


class WindowCombiner(GroupCombiner):
    """Begins the aggregates of windows.

    Args:
        schema: Columns of the rows.
        keys: Places of the key columns.
        calls: The aggregates.
        time: Place of the time attribute.
        slices: The windows.
        zone: The zone whose clocks windows go by; None for UTC.
    """

    def __init__(
        self,
        schema: RowSchema,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        *,
        time: int,
        slices: Slices,
        zone: str | None,
    ) -> None:
        super().__init__(schema, keys, calls)
        self._time, self._slices, self._zone = time, slices, zone

    def combine(self, batch: Columns, sent_ms: int | None) -> Columns | None:
        """Return a row for each key and slice."""
        if batch.kinds is not None or batch.data.column(self._time).null_count:
            return None
        columns = self._columns(batch)
        starts = self._slices.starts(walls_of(millis_of(columns[self._time]), self._zone))
        return self._combined(batch, columns, [pa.array(starts)])
