"""Functions that take whole batches: map, filter, and with keyed state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import StateAccessError, TypeMismatchError, shorten
from millstream.common.batch_functions import KeyedBatchFunction
from millstream.common.state import ValueState
from millstream.operators.base import Operator, OperatorSpec, Reach
from millstream.operators.columnar.forms import (
    BatchForm,
    as_mask,
    as_record_batch,
    in_form,
    name_of,
)
from millstream.operators.columnar.marks import kept_between, process_whole
from millstream.operators.columnar.reading import as_columns, taken
from millstream.operators.functions_adapter import close_function, open_function
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Batch, Columns, column_of
from millstream.state.key_groups import key_group, key_groups_of_columns
from millstream.state.keyed import NO_KEY, KeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.types.arrow_values import values_of
from millstream.types.numpy_views import as_numpy

__all__ = ["FilterBatchesSpec", "MapBatchesSpec", "ProcessBatchesSpec"]


@dataclass(frozen=True)
class MapBatchesSpec(OperatorSpec):
    """Declares a function from batches to batches.

    Attributes:
        function: Takes and returns a batch, or None for nothing.
        form: The form in which it wants batches, as `form_of` finds it where the function is declared: the annotation
            does not come with the function.
        timestamp: Field of the results that is their timestamp; None goes by the rows of the input.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    function: Callable[[Any], Any]
    form: BatchForm = BatchForm.RECORD_BATCH
    timestamp: str | None = None
    names: tuple[str, ...] | None = None
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return MapBatchesOperator(self)


@dataclass(frozen=True)
class FilterBatchesSpec(OperatorSpec):
    """Declares a function from batches to one boolean for each row.

    Attributes:
        function: Takes a batch.
        form: As for `MapBatchesSpec`.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    function: Callable[[Any], Any]
    form: BatchForm = BatchForm.RECORD_BATCH
    names: tuple[str, ...] | None = None
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return FilterBatchesOperator(self)


@dataclass(frozen=True)
class ProcessBatchesSpec(OperatorSpec):
    """Declares a function of batches with keyed state.

    Attributes:
        function: The function.
        keys: Names of the key fields.
        form: As for `MapBatchesSpec`.
        timestamp: As for `MapBatchesSpec`.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    function: KeyedBatchFunction
    keys: tuple[str, ...]
    form: BatchForm = BatchForm.RECORD_BATCH
    timestamp: str | None = None
    names: tuple[str, ...] | None = None
    is_keyed = True
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return ProcessBatchesOperator(self)


class _BatchFunctionOperator(Operator):
    """Opens, calls and closes a user's function.

    Args:
        function: The object to open and close.
        call: What is called with batches.
        spec: Says the rest.
    """

    def __init__(
        self,
        function: object,
        call: Callable[..., Any],
        spec: MapBatchesSpec | FilterBatchesSpec | ProcessBatchesSpec,
    ) -> None:
        self._function = function
        self._call = call
        self._form = spec.form
        self._what = name_of(function)
        self._timestamp = None if isinstance(spec, FilterBatchesSpec) else spec.timestamp
        self._names = spec.names

    def open(self) -> None:
        """Open the function."""
        open_function(self._function, OperatorRuntimeContext(self.context))

    def close(self) -> None:
        """Close the function."""
        close_function(self._function)

    def _ask(self, data: pa.RecordBatch, *arguments: Any) -> Any:
        """Return what the function makes of some rows.

        Raises:
            BaseException: What it raised; the rows are noted on it.
        """
        try:
            return self._call(in_form(data, self._form), *arguments)
        except BaseException as error:
            attach_element(error, _Excerpt(data, self._form))
            raise

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Process a batch that has watermarks between its records: they do not matter here."""
        process_whole(self, batch, reach)
        return None

    def _results(self, given: Columns, returned: Any) -> Columns | None:
        """Return what the function has made of a batch; None for nothing."""
        data = None if returned is None else as_record_batch(self._what, returned)
        return Columns(data, self._stamps(given, data)) if data is not None and data.num_rows else None

    def _hand_on(self, given: Columns, returned: Any) -> None:
        """Emit what the function has returned for a batch."""
        results = self._results(given, returned)
        if results is not None:
            self.output.emit(results)

    def _stamps(self, given: Columns, data: pa.RecordBatch) -> pa.Array | None:
        if self._timestamp is not None:
            return _time_column(self._what, data, self._timestamp)
        stamps = given.timestamps
        if stamps is None or len(stamps) == data.num_rows:
            return stamps
        return pa.repeat(pc.max(stamps), data.num_rows)


class _Excerpt:
    """Shows the rows that a function was called with, in messages."""

    def __init__(self, data: pa.RecordBatch, form: BatchForm) -> None:
        self._data = data
        self._form = form

    def __repr__(self) -> str:
        first = self._data.slice(0, 1).to_pylist()
        what = f"batch of {self._data.num_rows} rows, a {self._form.value}"
        return f"{what}, the first: {shorten(first[0] if first else None)}"


def _time_column(what: str, data: pa.RecordBatch, field: str) -> pa.Array:
    place = data.schema.get_field_index(field)
    if place < 0:
        raise TypeMismatchError(
            f"what {what} returned has no field {field!r} for the timestamp",
            detail=f"It has: {', '.join(data.schema.names)}.",
        )
    column = data.column(place)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise TypeMismatchError(
            f"field {field!r} of what {what} returned is of type {column.type}, not a timestamp",
            detail="Timestamps are integers, epoch milliseconds, or of a timestamp type.",
        )
    if column.null_count:
        raise TypeMismatchError(
            f"field {field!r} of what {what} returned is null in {column.null_count} rows"
        )
    return column.cast(pa.int64())


class MapBatchesOperator(_BatchFunctionOperator):
    """Runs a map of batches."""

    def __init__(self, spec: MapBatchesSpec) -> None:
        super().__init__(spec.function, spec.function, spec)

    def process(self, batch: Batch) -> None:
        """Map a batch.

        Raises:
            TypeMismatchError: If the function returns no batch.
        """
        if len(batch):
            given = as_columns(batch, self._names)
            self._hand_on(given, self._ask(given.data))

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Map a batch; the watermarks stay where they are if there are as many results as records."""
        if not len(batch):
            return super().process_marked(batch, reach)
        assert batch.marks is not None
        given = as_columns(batch, self._names)
        results = self._results(given, self._ask(given.data))
        if results is None or len(results) != len(batch):
            if results is not None:
                self.output.emit(results)
            reach(batch.last_mark_ms)
            return None
        self.watermark_ms = batch.last_mark_ms
        results.marks = batch.marks
        self.output.emit(results)
        return None


class FilterBatchesOperator(_BatchFunctionOperator):
    """Runs a filter of batches; rows that stay are what they were, in the form in which they came."""

    def __init__(self, spec: FilterBatchesSpec) -> None:
        super().__init__(spec.function, spec.function, spec)

    def process(self, batch: Batch) -> None:
        """Filter a batch.

        Raises:
            TypeMismatchError: If the function does not return a boolean for each row.
        """
        if not len(batch):
            return
        places = self._wanted(batch)
        if len(places) == len(batch):
            self.output.emit(batch)
        elif len(places):
            self.output.emit(taken(batch, places))

    def _wanted(self, batch: Batch) -> Any:
        """Return the places of the rows that stay."""
        given = as_columns(batch, self._names)
        mask = as_mask(self._what, self._ask(given.data), len(batch))
        return np.flatnonzero(as_numpy(mask.fill_null(False)))

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Filter a batch; each watermark stays between those rows that are left."""
        places = self._wanted(batch) if len(batch) else ()
        if not len(places):
            reach(batch.last_mark_ms)
            return None
        assert batch.marks is not None
        self.watermark_ms = batch.last_mark_ms
        if len(places) < len(batch):
            marks = kept_between(batch.marks, places)
            batch = taken(batch, places)
            batch.marks = marks
        self.output.emit(batch)
        return None


class ProcessBatchesOperator(_BatchFunctionOperator):
    """Calls the function once for each key group in a batch."""

    def __init__(self, spec: ProcessBatchesSpec) -> None:
        super().__init__(spec.function, spec.function.process_batch, spec)
        self._keys = spec.keys

    def open(self) -> None:
        """Open the function."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        state.track()
        self._state = state
        super().open()

    def process(self, batch: Batch) -> None:
        """Process a batch, key group by key group, in the order of their numbers.

        Raises:
            TypeMismatchError: If a key field is missing, or the function returns no batch.
        """
        if not len(batch):
            return
        given = as_columns(batch, self._names)
        for group, rows in self._by_group(given):
            context = _Context(
                self._state,
                group,
                self.context.max_parallelism,
                [rows.data.column(key) for key in self._keys],
            )
            try:
                returned = self._ask(rows.data, context)
            finally:
                self._state.current_key = NO_KEY
            self._hand_on(rows, returned)

    def _by_group(self, given: Columns) -> Iterator[tuple[int, Columns]]:
        columns = [column_of(given, key, " for the key") for key in self._keys]
        groups = key_groups_of_columns(columns, self.context.max_parallelism)
        order = np.argsort(groups, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            yield int(groups[rows[0]]), given.take(pa.array(rows))


class _Context(KeyedBatchFunction.Context):
    def __init__(
        self, state: KeyedStateBackend, group: int, max_parallelism: int, columns: Sequence[pa.Array]
    ) -> None:
        self.key_group = group
        self._state = state
        self._max_parallelism = max_parallelism
        self._columns = columns

    def row_keys(self) -> list[Any]:
        values = [values_of(column) for column in self._columns]
        return values[0] if len(values) == 1 else list(zip(*values, strict=True))

    def set_current_key(self, key: Any) -> None:
        group = key_group(key, self._max_parallelism)
        if group != self.key_group:
            raise StateAccessError(
                f"state of key {shorten(key)} was asked for, which is of key group {group}",
                detail=f"The call is for rows of key group {self.key_group}.",
                hint="Use the keys of the rows: ctx.row_keys().",
            )
        canonical = self._state.current_key = canonical_key(key)
        if self._state.touched is not None:
            self._state.touched.add(canonical)

    def values(self, state: ValueState[Any], keys: Sequence[Any]) -> list[Any]:
        values = []
        for key in keys:
            self.set_current_key(key)
            values.append(state.value())
        return values

    def update(self, state: ValueState[Any], keys: Sequence[Any], values: Sequence[Any]) -> None:
        if len(keys) != len(values):
            raise ValueError(f"{len(values)} values were given for {len(keys)} keys")
        for key, value in zip(keys, values, strict=True):
            self.set_current_key(key)
            state.update(value)
