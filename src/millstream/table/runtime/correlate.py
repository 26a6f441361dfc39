"""Each row joined with the rows that a function gives of it: UNNEST, users' table functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import NotSupportedError
from millstream.table.expressions.rex import Call
from millstream.table.plan.logical import JoinKind
from millstream.table.runtime.arrays import arrow_types, conform
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.multimap import spread
from millstream.table.runtime.row_operator import RowOperator
from millstream.types.datatypes import DataType
from millstream.types.further_types import MultisetType
from millstream.types.numpy_views import as_numpy

if TYPE_CHECKING:
    from millstream.table.runtime.row_specs import CorrelateSpec

__all__ = ["CorrelateOperator"]


class CorrelateOperator(RowOperator):
    """Calls the function for a batch at a time."""

    def __init__(self, spec: CorrelateSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._spec = spec
        self._given = arrow_types(spec.output)[len(spec.input) :]
        call = spec.call
        self._unnests = call.user_function is None
        operands = call.operands if call.function.startswith("UNNEST") or not self._unnests else (call,)
        self._operand_types: list[DataType] = [each.type for each in operands]
        self._operands = Expressions(operands, spec.input, spec.zone)
        self._kernel: Any = None
        condition = spec.condition
        self._condition = None if condition is None else Expressions([condition], spec.output, spec.zone)

    def open(self) -> None:
        """Make the arguments ready, and open the function."""
        self._operands.open(self.context)
        if self._condition is not None:
            self._condition.open(self.context)
        if not self._unnests:
            self._kernel = self._spec.call.user_function.table_kernel(self._spec.call, self._operands.setting)

    def close(self) -> None:
        """Close the function."""
        self._operands.close()
        if self._kernel is not None:
            self._kernel.close()

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return rows with what the function gives of them, those of a row together."""
        values = self._operands.evaluate(columns, count)
        if self._unnests:
            places, given = unnested(self._spec.call, values, self._operand_types, count)
        else:
            parents, given = self._kernel.evaluate(values, count)
            places = np.asarray(parents)
        given = [conform(column, kind) for column, kind in zip(given, self._given, strict=True)]
        joined = [*(column.take(pa.array(places)) for column in columns), *given]
        if self._condition is not None:
            holds = self._condition.holds(joined, len(places))
            mask = pa.array(holds)
            joined, places = [column.filter(mask) for column in joined], places[holds]
        if self._spec.join is JoinKind.LEFT:
            return self._padded(columns, joined, places, count)
        return joined, places

    def _padded(
        self, columns: list[pa.Array], joined: list[pa.Array], places: Any, count: int
    ) -> tuple[list[pa.Array], Any]:
        alone = np.ones(count, bool)
        alone[places] = False
        left = np.flatnonzero(alone)
        if not len(left):
            return joined, places
        padding = [column.take(pa.array(left)) for column in columns]
        padding += [pa.nulls(len(left), kind) for kind in self._given]
        both = np.concatenate([places, left])
        order = np.argsort(both, kind="stable")
        whole = [
            pa.concat_arrays([column, pad.cast(column.type)]).take(pa.array(order))
            for column, pad in zip(joined, padding, strict=True)
        ]
        return whole, both[order]


def unnested(
    call: Call, values: Sequence[pa.Array], kinds: Sequence[DataType], count: int
) -> tuple[Any, list[pa.Array]]:
    """Return the place of the row of each element, and the elements' columns; of several arrays side by side."""
    flat = [_elements(value, kind) for value, kind in zip(values, kinds, strict=True)]
    lengths = np.max([each[1] for each in flat], axis=0) if flat else np.zeros(count, np.int64)
    places = np.repeat(np.arange(count), lengths)
    ordinals = spread(np.zeros(count, np.int64), lengths)
    columns = []
    for starts, own, parts in flat:
        there = ordinals < own[places]
        indices = pa.array(np.where(there, starts[places] + ordinals, 0), mask=~there)
        columns += [part.take(indices) for part in parts]
    if call.function.endswith("ORDINALITY"):
        columns.append(pa.array(ordinals + 1, pa.int32()))
    return places, columns


def _elements(value: pa.Array, kind: DataType) -> tuple[Any, Any, list[pa.Array]]:
    """Return for each row where its elements begin and how many there are, and the columns of all elements.

    Raises:
        NotSupportedError: If the value is no list or map.
    """
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    is_map = pa.types.is_map(value.type)
    if not (is_map or pa.types.is_list(value.type) or pa.types.is_large_list(value.type)):
        raise NotSupportedError(
            f"a lateral join with a function that gives {value.type} is not there",
            detail="It has to be an array.",
        )
    offsets = np.asarray(value.offsets).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if value.null_count:
        lengths = np.where(as_numpy(value.is_valid()), lengths, 0)
    if not is_map:
        return starts, lengths, _fields(value.values)
    if not isinstance(kind, MultisetType):
        return starts, lengths, [value.keys, value.items]
    # A multiset is a map of how often each element is there.
    often = np.asarray(value.items.fill_null(0)).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(often)])
    repeated = value.keys.take(pa.array(np.repeat(np.arange(len(often)), often)))
    return ends[starts], ends[starts + lengths] - ends[starts], _fields(repeated)


def _fields(elements: pa.Array) -> list[pa.Array]:
    """Return the columns of elements: rows have several."""
    if not pa.types.is_struct(elements.type):
        return [elements]
    return [pc.struct_field(elements, [place]) for place in range(elements.type.num_fields)]
