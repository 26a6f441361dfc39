"""map, flat_map and filter: one call of the user's function for each record, one of ours for each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress, repeat
from typing import Any

from millstream.base.time import MIN_TIMESTAMP
from millstream.common.functions import FilterFunction, FlatMapFunction, MapFunction
from millstream.operators.base import Operator, OperatorSpec, Reach
from millstream.operators.calls import Emission
from millstream.operators.functions_adapter import (
    as_filter,
    as_flat_map,
    as_map,
    close_function,
    open_function,
)
from millstream.operators.inlined.expressions import applying
from millstream.operators.map_loops import map_protected
from millstream.operators.plain_functions import gives_atoms, is_plain
from millstream.operators.portions import LISTED, in_portions, is_brief
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import apply_to_each, attach_element, check_results, fit
from millstream.operators.values import ATOMIC, all_immutable, protect, protect_produced
from millstream.spi.batch import Batch, Marks, Rows
from millstream.types.typeinfo import TypeInformation

__all__ = ["FilterSpec", "FlatMapSpec", "IdentitySpec", "MapSpec"]


@dataclass(frozen=True)
class MapSpec(OperatorSpec):
    """Declares a map.

    Attributes:
        function: A MapFunction or a callable.
        output_type: Checked for each result; None leaves results as they are.
    """

    function: MapFunction | Callable[[Any], Any]
    output_type: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return MapOperator(self.function, self.output_type)


@dataclass(frozen=True)
class FlatMapSpec(OperatorSpec):
    """Declares a flat map.

    Attributes:
        function: A FlatMapFunction or a callable that returns an iterable or None.
        output_type: Checked for each result; None leaves results as they are.
    """

    function: FlatMapFunction | Callable[[Any], Iterable[Any] | None]
    output_type: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return FlatMapOperator(self.function, self.output_type)


@dataclass(frozen=True)
class FilterSpec(OperatorSpec):
    """Declares a filter.

    Attributes:
        function: A FilterFunction or a callable; what it returns counts as Python's truth.
        output_type: Accepted for symmetry; a filter's results are checked where they were made.
    """

    function: FilterFunction | Callable[[Any], bool]
    output_type: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return FilterOperator(self.function)


def _filter_protected(function: Callable[[Any], bool], values: list[Any]) -> list[Any]:
    """Return `function` of each value; values that it wants are protected, in their list, before the next call."""
    remaining = iter(values)

    def keep(value: Any) -> Any:
        kept = function(value)
        if kept and type(value) not in ATOMIC:
            # Held by the list and by the caller of this function.
            values[~remaining.__length_hint__()] = protect(value, 2)  # type: ignore[attr-defined]
        return kept

    return apply_to_each(keep, values, remaining=remaining)


_Apply = Callable[[Callable[[Any], Any], list[Any]], list[Any]]


class _UserFunctionOperator(Operator):
    """Opens and closes a user's function."""

    def __init__(self, function: object) -> None:
        self._function = function

    def open(self) -> None:
        """Open the function."""
        open_function(self._function, OperatorRuntimeContext(self.context))

    def close(self) -> None:
        """Close the function."""
        close_function(self._function)


class MapOperator(_UserFunctionOperator):
    """Runs a map."""

    def __init__(
        self, function: MapFunction | Callable[[Any], Any], output_type: TypeInformation | None
    ) -> None:
        super().__init__(function)
        self._map = as_map(function)
        self._apply: _Apply = applying(self._map) if is_plain(self._map) else map_protected
        self._output_type = output_type

    def process(self, batch: Rows) -> None:
        """Map a batch."""
        results = self._apply(self._map, batch.values)
        self.output.emit(Rows(fit(results, self._output_type), batch.timestamps))

    def process_marked(self, batch: Rows, reach: Reach) -> int | None:
        """Map a batch; the watermarks stay where they are."""
        results = self._apply(self._map, batch.values)
        self.output.emit(Rows(fit(results, self._output_type), batch.timestamps, batch.marks))
        self.watermark_ms = batch.last_mark_ms
        return None


class FilterOperator(_UserFunctionOperator):
    """Runs a filter."""

    def __init__(self, function: FilterFunction | Callable[[Any], bool]) -> None:
        super().__init__(function)
        self._filter = as_filter(function)
        self._plain = is_plain(self._filter)
        self._apply: _Apply = applying(self._filter) if self._plain else apply_to_each

    def process(self, batch: Rows) -> None:
        """Keep those records of a batch that the function wants."""
        values, timestamps = batch.values, batch.timestamps
        kept = self._wanted(values)
        stamps = None if timestamps is None else list(compress(timestamps, kept))
        self.output.emit(Rows(list(compress(values, kept)), stamps))

    def process_marked(self, batch: Rows, reach: Reach) -> int | None:
        """Keep some records of a batch; each watermark stays between those that are left."""
        values, timestamps, marks = batch.values, batch.timestamps, batch.marks
        assert marks is not None
        kept = self._wanted(values)
        stamps = None if timestamps is None else list(compress(timestamps, kept))
        before = list(accumulate(map(bool, kept), initial=0))
        moved = Marks([before[position] for position in marks.positions], marks.watermarks)
        self.output.emit(Rows(list(compress(values, kept)), stamps, moved))
        self.watermark_ms = marks.watermarks[-1]
        return None

    def _wanted(self, values: list[Any]) -> list[Any]:
        apply = self._apply if self._plain or all_immutable(values) else _filter_protected
        return apply(self._filter, values)


class FlatMapOperator(_UserFunctionOperator):
    """Runs a flat map; results have the timestamp of the record they were made of."""

    def __init__(
        self,
        function: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__(function)
        self._flat_map = as_flat_map(function)
        self._gives_atoms = gives_atoms(self._flat_map)
        self.stamp = MIN_TIMESTAMP  # of the record that the function has
        self._output_type = output_type

    def process(self, batch: Rows) -> None:
        """Turn a batch into the results of all its records."""
        values, timestamps = batch.values, batch.timestamps
        flat_map, gives_atoms = self._flat_map, self._gives_atoms
        results: list[Any] = []
        append = results.append
        stamps: list[int] | None = None if timestamps is None else []
        emission = Emission(self, self._output_type)
        brief, hand_on = is_brief(flat_map), partial(emission.hand_on, self, results, stamps, [])
        value = produced = None
        try:
            for value, self.stamp in zip(values, timestamps or repeat(MIN_TIMESTAMP), strict=False):
                produced = flat_map(value)
                if produced is None:
                    continue
                whole = brief or type(produced) in LISTED
                if gives_atoms and whole:
                    results.extend(produced)
                else:
                    for result in produced if whole else in_portions(produced, hand_on):
                        if type(result) is tuple:
                            for item in result:
                                if type(item) not in ATOMIC:
                                    break
                            else:
                                append(result)
                                continue
                            item = None  # it counts as a reference
                        elif type(result) in ATOMIC:
                            append(result)
                            continue
                        append(protect_produced(result, produced, []))
                if stamps is not None:
                    stamps.extend(repeat(self.stamp, len(results) - len(stamps)))
        except BaseException as error:
            attach_element(error, value)
            check_results("flat_map", produced, value)
            raise
        self.output.emit(Rows(fit(results, self._output_type), stamps))


@dataclass(frozen=True)
class IdentitySpec(OperatorSpec):
    """Declares an operator that hands its input on."""

    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return IdentityOperator()


class IdentityOperator(Operator):
    """Hands its input on."""

    @property
    def wants_columns(self) -> bool:
        """Whether who reads it does best with columns."""
        return self.output.wants_columns

    def process(self, batch: Batch) -> None:
        """Hand a batch on."""
        self.output.emit(batch)

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Hand a batch on."""
        watermark_ms = batch.last_mark_ms
        self.output.emit(batch)
        self.watermark_ms = watermark_ms
        return None
