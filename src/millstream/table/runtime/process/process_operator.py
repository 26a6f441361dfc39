"""A process table function over columns: called for each row and timer, under the key of PARTITION BY. ::

    rows ──► key ──► [ORDER BY: wait for the watermark] ──► eval(ctx, state..., row..., values...) ──► rows
                                        watermark ──► timers of the key, by time ──► on_timer ──► rows

What a function gives of a batch goes on as one batch, in the order in which it was given. Key columns and columns that
are passed through are taken of the batch; only those that wait, and timers, make them of Python's values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import TypeMismatchError
from millstream.common.state import MapStateDescriptor
from millstream.operators.base import BatchHandler, Operator, OperatorReport
from millstream.operators.user_code import attach_element
from millstream.operators.values import copy_of
from millstream.spi.batch import Batch, Columns, Rows
from millstream.state.keyed import NO_KEY
from millstream.state.keys import canonical_keys
from millstream.table.changelog_mode import ChangelogMode
from millstream.table.expressions.rex import RowSchema
from millstream.table.functions.process_definition import collected
from millstream.table.functions.python_values import from_python, to_python
from millstream.table.functions.user import is_changeable
from millstream.table.plan.processing import TableInput
from millstream.table.process_functions import SortDirection, TableSemantics
from millstream.table.runtime.arrays import arrow_types, conform, validity_of
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED
from millstream.table.runtime.evaluation import Expressions, function_context
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.process.contexts import ProcessContext, Timers
from millstream.table.runtime.process.sorted_rows import SortedRows, is_sort_mark
from millstream.table.runtime.process.state_entries import open_entry
from millstream.table.runtime.times import millis_of, times_of
from millstream.table.udf import FunctionContext
from millstream.types.arrow_values import values_of
from millstream.types.datatypes import RowField, RowType
from millstream.types.row import Row, RowKind

if TYPE_CHECKING:
    from millstream.table.runtime.process.process_spec import ProcessTableSpec

__all__ = ["ProcessTableOperator"]

_KINDS = (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
_TIMERS = "$timers"
"""State: a key's timers."""


class _Table:
    """A table of the call.

    Args:
        place: Its number.
        declared: As it was bound.
        schema: Its columns.
    """

    def __init__(self, place: int, declared: TableInput, schema: RowSchema) -> None:
        self.place = place
        self.declared = declared
        self.schema = schema
        self.kinds = arrow_types(schema)
        self.names = schema.names
        whole = declared.passes_all
        self.prefix = tuple(range(len(schema))) if whole else declared.partition
        self.model = declared.argument.model

    def keys(self, columns: Sequence[pa.Array], count: int) -> list[Any]:
        """Return the canonical key of each row, as exchanges deal them."""
        partition = self.declared.partition
        if not partition:
            return [0] * count
        if len(partition) == 1:
            return canonical_keys(values_of(columns[partition[0]]))
        return canonical_keys(list(zip(*(values_of(columns[each]) for each in partition), strict=True)))

    def rows(self, columns: Sequence[pa.Array], kinds: Any | None, count: int) -> list[Any]:
        """Return what the function gets for each row."""
        values = map(to_python, columns, self.schema.types)
        each = zip(*values, strict=True) if columns else repeat((), count)
        if self.model is not None:
            return [self.model(**dict(zip(self.names, row, strict=True))) for row in each]
        if kinds is None:
            return [Row.of(self.names, row) for row in each]
        return [Row.of(self.names, row, _KINDS[kind]) for row, kind in zip(each, kinds.tolist(), strict=True)]

    def row(self, values: tuple[Any, ...]) -> Any:
        """Return what the function gets for a row that waited."""
        if self.model is not None:
            return self.model(**dict(zip(self.names, values, strict=True)))
        return Row.of(self.names, values)

    def times(self, columns: Sequence[pa.Array]) -> list[int | None] | None:
        """Return the time of each row by `on_time`; None if it names no column of this table."""
        place = self.declared.time
        if place is None:
            return None
        times: list[int | None] = millis_of(columns[place]).tolist()
        valid = validity_of(columns[place])
        return (
            times if valid is None else [t if v else None for t, v in zip(times, valid.tolist(), strict=True)]
        )


class ProcessTableOperator(Operator):
    """Runs a process table function; the subtask's thread calls it."""

    def __init__(self, spec: ProcessTableSpec) -> None:
        self._spec = spec
        self._clause = spec.clause
        self._signature = spec.clause.signature
        self._function = spec.clause.function.function
        self._what = f'function "{spec.clause.function.name}"'
        self._tables = [
            _Table(place, declared, schema)
            for place, (declared, schema) in enumerate(zip(spec.clause.tables, spec.inputs, strict=True))
        ]
        self._given: Sequence[RowField] = spec.clause.function.row_type.fields
        self._sorted: dict[int, SortedRows] = {}
        # While a watermark fires, the one before it: rows of ORDER BY see that one.
        self._reached_ms: int | None = None
        self._late = 0
        # What the function gave and was not emitted yet: where each row is from, the row, its kind.
        self._rows: list[Any] = []
        self._given_kinds: list[int] = []
        self._parents: list[Any] = []
        self._stamps: list[int | None] = []
        self._parent: Any = None
        self._width = len(self._given)
        self._changeable = any(is_changeable(each.data_type) for each in self._given)
        self._allowed = _allowed_kinds(spec)

    # The life of the operator

    def open(self) -> None:
        """Open the function and its state."""
        signature, clause = self._signature, self._clause
        state = self.context.keyed_state if clause.keyed else None
        self._state = state
        entries, timers = [], None
        if state is not None:
            state.track()
            state.timer_key = _key_of
            entries = [open_entry(each, state, self._spec.ttl_ms) for each in signature.states]
            timers = Timers(state, state.get_state(MapStateDescriptor(_TIMERS)))
            for table in self._tables:
                if table.declared.order:
                    self._sorted[table.place] = SortedRows(table.place, table.declared.order, state)
        self._entries = entries
        self._timers = timers
        semantics = {
            table.declared.argument.name: _semantics(table, ChangelogMode(mode))
            for table, mode in zip(self._tables, self._spec.modes, strict=True)
        }
        mode = ChangelogMode(self._spec.mode)
        self._context = ProcessContext(
            clause.function.name, semantics, mode, entries, timers, self._no_timers()
        )
        self._function.set_collector(self._collect)
        self._scalars = self._values(function_context(self.context))
        self._function.open(function_context(self.context))
        self._before = [self._context] if signature.takes_context else []
        self._timer_before = [self._context] if signature.timer_context else []

    def _no_timers(self) -> str:
        if not self._clause.keyed:
            return "Timers are by key: they need a table of set semantics."
        if not self._signature.has_timers:
            return "The function has no method on_timer."
        if not self._clause.on_time:
            return "The call has no on_time => DESCRIPTOR(...)."
        if any(each.passes_all for each in self._clause.tables):
            return "A timer has no row whose columns could be passed through."
        return ""

    def _values(self, functions: FunctionContext) -> dict[int, Any]:
        """Return the scalar arguments by place; they are computed once."""
        found: dict[int, Any] = {}
        none = RowSchema((), ())
        for place, (argument, value) in enumerate(
            zip(self._signature.arguments, self._clause.values, strict=True)
        ):
            if argument.is_table:
                continue
            if value is None:
                found[place] = argument.default
                continue
            expression = Expressions([value], none, self._spec.zone)
            expression.open(self.context)
            (column,) = expression.evaluate([], 1)
            expression.close()
            (found[place],) = to_python(column, value.type)
        return found

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    # Input

    def batch_handlers(self) -> list[BatchHandler]:
        """Return one handler for each table."""
        return [self._handler(table) for table in self._tables]

    def _handler(self, table: _Table) -> BatchHandler:
        def take(batch: Batch) -> None:
            self._take(table, batch)

        return take

    def process(self, batch: Batch) -> None:
        """Call the function for each row of the first table."""
        self._take(self._tables[0], batch)

    def _take(self, table: _Table, batch: Batch) -> None:
        if not len(batch):
            return
        data = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        columns = [conform(each, kind) for each, kind in zip(data.data.columns, table.kinds, strict=True)]
        kinds = None if data.kinds is None else np.asarray(data.kinds)
        count = len(data)
        keys = table.keys(columns, count) if self._state is not None else repeat(NO_KEY, count)
        times = table.times(columns)
        stamps: Any = repeat(None, count) if times is None else times
        if table.place in self._sorted:
            self._wait(table, columns, keys, stamps)
            return
        rows = table.rows(columns, kinds, count)
        for place, (row, key, time_ms) in enumerate(zip(rows, keys, stamps, strict=True)):
            self._parent = place
            self._call(table.place, row, key, time_ms)
        self._emit([columns[each] for each in table.prefix], table)

    def _wait(self, table: _Table, columns: Sequence[pa.Array], keys: Any, stamps: Any) -> None:
        """Have rows wait for the watermark; those that are behind it are dropped."""
        waiting, watermark_ms, state = self._sorted[table.place], self.watermark_ms, self._state
        assert state is not None
        place = table.declared.order[0].index
        times = millis_of(columns[place]).tolist()
        valid = validity_of(columns[place])
        known = repeat(True, len(times)) if valid is None else valid.tolist()
        values = zip(*map(to_python, columns, table.schema.types), strict=True)
        for row, key, time_ms, stamp_ms, there in zip(values, keys, times, stamps, known, strict=False):
            if not there or time_ms <= watermark_ms:
                self._late += 1
                continue
            if state.touched is not None:
                state.touched.add(key)
            state.current_key = key
            waiting.add(time_ms, row, stamp_ms)
        state.current_key = NO_KEY

    def _call(self, place: int, row: Any, key: Any, time_ms: int | None) -> None:
        """Call `eval` for a row, behind the watermark that it came behind or, in an order, waited behind."""
        context, state = self._context, self._state
        if state is not None:
            state.current_key = key
            if state.touched is not None:
                state.touched.add(key)
        context.time_ms, context.timer, context.in_timer = time_ms, None, False
        context.watermark_ms = self.watermark_ms if self._reached_ms is None else self._reached_ms
        tables = {table.place: (row if table.place == place else None) for table in self._tables}
        arguments = []
        table = 0
        for at, argument in enumerate(self._signature.arguments):
            if argument.is_table:
                arguments.append(tables[table])
                table += 1
            else:
                arguments.append(self._scalars[at])
        try:
            read = [each.read() for each in self._entries]
            collected(self._function.eval(*self._before, *read, *arguments), self._collect)
            for each in self._entries:
                each.write()
        except BaseException as error:
            attach_element(error, row)
            raise
        if state is not None:
            state.current_key = NO_KEY

    def _collect(self, record: Any) -> None:
        kind = 0
        if isinstance(record, Row):
            kind = record.get_row_kind().value
            fields: Any = tuple(record)
        elif isinstance(record, tuple):
            fields = record
        elif self._width != 1 and hasattr(record, "__dataclass_fields__"):
            fields = tuple(getattr(record, each.name) for each in self._given)
        else:
            fields = (record,)
        if len(fields) != self._width:
            if self._width == 1:
                fields = (record,)
            else:
                raise TypeMismatchError(
                    f"{self._what} gave a row of {len(fields)} fields where there are {self._width}",
                    detail=f"They are: {', '.join(each.name for each in self._given)}.",
                )
        if kind not in self._allowed:
            raise TypeMismatchError(
                f"{self._what} gave a row of kind {_KINDS[kind].name}",
                detail=f"Its changelog mode is [{self._spec.mode}].",
                hint="A function that gives updates is a ChangelogFunction, and says so in get_changelog_mode.",
            )
        self._rows.append(copy_of(fields) if self._changeable else fields)
        self._given_kinds.append(kind)
        self._parents.append(self._parent)
        self._stamps.append(self._context.time_ms)

    # Time

    def process_watermark(self, timestamp_ms: int) -> None:
        """Call for rows that waited, and for timers, by time; then hand the watermark on."""
        before_ms, self.watermark_ms = self.watermark_ms, timestamp_ms
        if self._state is not None:
            self._fire(timestamp_ms, None, before_ms)
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Fire as many timers as the epoch has room for; if that is all, hand the watermark on."""
        before_ms, self.watermark_ms = self.watermark_ms, timestamp_ms
        if self._state is not None and not self._fire(
            timestamp_ms, self.context.budget.take_timers, before_ms
        ):
            self.watermark_ms = before_ms
            return False
        self.output.emit_watermark(timestamp_ms)
        return True

    def _fire(self, time_ms: int, grant: Callable[[], int] | None, before_ms: int) -> bool:
        state = self._state
        assert state is not None
        next_ms = state.event_timers.next_timestamp()
        if next_ms is None or next_ms > time_ms:
            return True
        self._reached_ms = before_ms
        done = state.event_timers.fire_until(time_ms, self._fire_one, grant)
        self._reached_ms = None
        state.current_key = NO_KEY
        self._emit_values()
        return done

    def _fire_one(self, timestamp_ms: int, timer: Any) -> None:
        key, mark = timer
        state = self._state
        assert state is not None
        state.current_key = key
        if state.touched is not None:
            state.touched.add(key)
        for place, waiting in self._sorted.items():
            table = self._tables[place]
            for row, stamp_ms in waiting.due(timestamp_ms):
                self._parent = (key, row)
                self._call(place, table.row(row), key, stamp_ms)
                state.current_key = key
        if is_sort_mark(mark):
            return  # only had rows be called for
        assert self._timers is not None
        self._timers.fired(mark)
        context = self._context
        context.time_ms, context.in_timer = timestamp_ms, True
        context.timer = mark if isinstance(mark, str) else None
        context.watermark_ms = self.watermark_ms
        self._parent = (key, ())
        try:
            read = [each.read() for each in self._entries]
            collected(self._function.on_timer(*self._timer_before, *read), self._collect)
            for each in self._entries:
                each.write()
        except BaseException as error:
            attach_element(error, f"timer {mark!r} of key {key!r} at {timestamp_ms}")
            raise

    # Output

    def _emit(self, prefix: Sequence[pa.Array], table: _Table) -> None:
        """Hand on what was given of a batch: its columns are taken for those that come before."""
        if not self._rows:
            return
        places = pa.array(np.array(self._parents, np.int64))
        before: list[pa.Array] = []
        for each in self._tables:
            if each is table:
                before += [column.take(places) for column in prefix]
            else:  # tables are dealt alike: the other's key is this one's
                own = [each.kinds[place] for place in each.prefix]
                before += [
                    conform(column.take(places), kind) for column, kind in zip(prefix, own, strict=True)
                ]
        self._hand_on(before)

    def _emit_values(self) -> None:
        """Hand on what timers, and rows that had waited, gave."""
        if not self._rows:
            return
        before: list[pa.Array] = []
        for table in self._tables:
            if table.declared.passes_all:
                columns = zip(*(row for _, row in self._parents), strict=True)
                before += [
                    from_python(values, kind, self._what)
                    for values, kind in zip(columns, table.schema.types, strict=True)
                ]
                continue
            slots = KeySlots([table.kinds[place] for place in table.declared.partition])
            before += slots.columns(slots.of_keys([key for key, _ in self._parents]))
        self._hand_on(before)

    def _hand_on(self, before: list[pa.Array]) -> None:
        parts = list(zip(*self._rows, strict=True)) or [()] * self._width
        columns = [
            from_python(part, field.data_type, self._what)
            for part, field in zip(parts, self._given, strict=True)
        ]
        if self._clause.on_time:
            kind = arrow_types(self._spec.output)[-1]
            stamps = pa.array(self._stamps, pa.int64())
            times = times_of(np.asarray(stamps.fill_null(0)), kind)
            columns.append(pc.if_else(stamps.is_valid(), times, pa.scalar(None, kind)))
        kinds = np.array(self._given_kinds, np.int8)
        batch = columns_batch([*before, *columns], kinds if kinds.any() else None, len(kinds))
        self._rows, self._given_kinds, self._parents, self._stamps = [], [], [], []
        self.output.emit(batch)

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many rows were late."""
        if self._late:
            report.counters[LATE_ROWS_DROPPED] = report.counters.get(LATE_ROWS_DROPPED, 0) + self._late
            self._late = 0


def _semantics(table: _Table, mode: ChangelogMode) -> TableSemantics:
    declared, schema = table.declared, table.schema
    fields = [RowField(name, kind) for name, kind in zip(schema.names, schema.types, strict=True)]
    directions = tuple(
        SortDirection[f"{'DESC' if key.descending else 'ASC'}_NULLS_{'FIRST' if key.nulls_first else 'LAST'}"]
        for key in declared.order
    )
    places = tuple(key.index for key in declared.order)
    time = -1 if declared.time is None else declared.time
    return TableSemantics(RowType(fields), declared.partition, places, directions, time, mode)


def _key_of(timer: Any) -> Any:
    return timer[0]


def _allowed_kinds(spec: ProcessTableSpec) -> frozenset[int]:
    mode = spec.mode
    kinds = {0}
    if mode.updates:
        kinds.add(2)
    if mode.before:
        kinds.add(1)
    if mode.deletes:
        kinds.add(3)
    return frozenset(kinds)
