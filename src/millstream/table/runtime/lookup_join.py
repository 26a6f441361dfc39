"""Joins of each row with what an outside table has for its key as the row passes.

The element of an asynchronous call is a whole batch: its different keys are looked up, some thousand at a time and
several times at once, and the batch is joined when all are there. Batches and watermarks keep their order, or not, as
`operators/async_io.py` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.common.async_functions import AsyncFunction
from millstream.common.functions import RuntimeContext
from millstream.operators.async_io import AsyncWaitOperator, AsyncWaitSpec
from millstream.operators.base import OperatorContext, Output
from millstream.operators.lookup import LookupFunction, pair
from millstream.spi.batch import Batch, Columns, Rows
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.join import joined_schema
from millstream.table.runtime.key_slots import KeySlots
from millstream.types.numpy_views import as_numpy

if TYPE_CHECKING:
    from millstream.table.runtime.join_specs import LookupJoinSpec

__all__ = ["LookupJoinOperator"]

_KEYS = 1_000


def _itself(key: Any) -> Any:
    return key


class BatchLookup(AsyncFunction[Any, Any]):
    """Looks up the keys of a batch and joins it; all on the event loop."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._spec = spec
        self._left, self._right = arrow_types(spec.input), arrow_types(spec.right)
        self._inner = LookupFunction(spec.lookup, _itself, pair, spec.cache)
        schema = joined_schema(spec.input, spec.right)
        self._condition = None if spec.condition is None else Expressions([spec.condition], schema, spec.zone)

    def ready(self, context: OperatorContext) -> None:
        """Make the condition ready."""
        if self._condition is not None:
            self._condition.open(context)

    async def open(self, runtime_context: RuntimeContext) -> None:
        """Open the look-up."""
        await self._inner.open(runtime_context)

    async def close(self) -> None:
        """Close the look-up."""
        await self._inner.close()

    async def async_invoke(self, value: Columns) -> Sequence[Columns]:
        """Return a batch joined."""
        columns = [conform(each, kind) for each, kind in zip(value.data.columns, self._left, strict=True)]
        keys = [columns[place] for place in self._spec.keys]
        slots = KeySlots([key.type for key in keys])
        slot_of = slots.of(keys, len(value))
        every = np.arange(len(slots))
        key_columns = slots.columns(every)
        nulls = np.zeros(len(slots), bool)
        for column in key_columns:
            nulls |= as_numpy(column.is_null())
        asked = every[~nulls]
        values = [column.filter(pa.array(~nulls)).to_pylist() for column in key_columns]
        wanted = values[0] if len(values) == 1 else list(zip(*values, strict=True))
        found = await self._found(wanted)
        joined = self._joined(value, columns, slot_of, dict(zip(asked.tolist(), found, strict=True)))
        return [] if joined is None else [joined]

    async def _found(self, keys: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the rows of each key."""
        portions = [keys[start : start + _KEYS] for start in range(0, len(keys), _KEYS)]
        results = await asyncio.gather(*(self._try(portion) for portion in portions))
        return [rows for each in results for rows in each]

    async def _try(self, keys: Sequence[Any]) -> list[Sequence[Any]]:
        """Look keys up; again if that fails, or those that were not found, as the settings say."""
        spec = self._spec
        found: dict[Any, Any] = {}
        wanted = list(keys)
        for attempt in range(1, spec.attempts + 1):
            last = attempt == spec.attempts
            try:
                for (result,) in await self._inner.async_invoke_batch(wanted):
                    found[result[0]] = result[1]
            except Exception:
                if last:
                    raise
            else:
                wanted = [key for key in wanted if not found[key]]
                if not wanted or not spec.retry_missing:
                    break
            if not last:
                await asyncio.sleep(spec.retry_delay_ms / 1_000)
        return [_rows_of(found[key]) for key in keys]

    def _joined(
        self, batch: Columns, columns: list[pa.Array], slot_of: Any, found: dict[int, Sequence[Any]]
    ) -> Columns | None:
        count = len(batch)
        most = int(slot_of.max()) + 1 if count else 0
        lengths = np.array([len(found.get(slot, ())) for slot in range(most)], np.int64)
        flat = [row for slot in range(most) for row in found.get(slot, ())]
        parts: Sequence[Any] = list(zip(*flat, strict=True)) if flat else [()] * len(self._right)
        right = [pa.array(list(part), kind) for part, kind in zip(parts, self._right, strict=True)]
        firsts = np.cumsum(lengths) - lengths
        often = lengths[slot_of]
        places = np.repeat(np.arange(count), often)
        begins = np.cumsum(often) - often
        rows = np.arange(len(places)) - np.repeat(begins - firsts[slot_of], often)
        joined = [column.take(pa.array(places)) for column in columns]
        joined += [column.take(pa.array(rows)) for column in right]
        if self._condition is not None and len(places):
            holds = self._condition.holds(joined, len(places))
            mask = pa.array(holds)
            joined = [column.filter(mask) for column in joined]
            places = places[holds]
        if self._spec.join is JoinKind.LEFT:
            alone = np.ones(count, bool)
            alone[places] = False
            left = np.flatnonzero(alone)
            order = np.argsort(np.concatenate([places, left]), kind="stable")
            whole = [
                pa.concat_arrays([column, columns[place].take(pa.array(left))])
                if place < len(columns)
                else pa.concat_arrays([column, pa.nulls(len(left), column.type)])
                for place, column in enumerate(joined)
            ]
            joined = [column.take(pa.array(order)) for column in whole]
            places = np.concatenate([places, left])[order]
        if not len(places):
            return None
        kinds = None if batch.kinds is None else np.asarray(batch.kinds)[places]
        return columns_batch(joined, kinds, len(places))


def _rows_of(found: Any) -> Sequence[Any]:
    if found is None:
        return ()
    return found if isinstance(found, list) else (found,)


class LookupJoinOperator(AsyncWaitOperator):
    """Runs look-ups of whole batches."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._lookup = BatchLookup(spec)
        super().__init__(AsyncWaitSpec(self._lookup, spec.ordered, spec.timeout_ms, spec.capacity))

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._lookup.ready(context)

    def process(self, batch: Batch) -> None:
        """Look a batch up, as one element."""
        if len(batch):
            columns = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
            super().process(Rows([columns]))

    def _emit(self, results: list[Any], stamps: list[int] | None) -> None:
        for batch in results:
            self.output.emit(batch)
