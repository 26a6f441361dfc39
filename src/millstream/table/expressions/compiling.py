"""Expressions computed over whole columns.

An `ExpressionProgram` is declared with expressions and the schema of its input and is pickled to where it runs; there
`open` makes steps of it, one for each distinct part of the expressions, and `evaluate` performs them once a batch.

What may fail for a row (`1 / x`, casts of text) and stands behind a condition (`CASE`, `AND`, `COALESCE`) is computed
for those rows only that the condition lets through, as Flink does row by row. Everything else is computed for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.expressions.rex import Call, InputRef, Literal, RowExpression, RowSchema
from millstream.table.functions.kernels.literals import literal_scalar
from millstream.table.functions.kernels.table import find_kernel
from millstream.table.functions.kernels.values import Setting, Value, as_array, is_constant
from millstream.table.functions.registry import is_deterministic, may_fail
from millstream.table.functions.types import arrow_type
from millstream.types.numpy_views import as_numpy

__all__ = ["ExpressionProgram", "Setting", "constant_value"]

Result = TypeVar("Result")

_BOOL = pa.bool_()


class _Frame:
    """The rows that are computed together: all of a batch, or those that a condition lets through."""

    __slots__ = ("columns", "count", "setting", "values")

    def __init__(self, columns: Sequence[pa.Array], count: int, setting: Setting) -> None:
        self.columns = columns
        self.count = count
        self.setting = setting
        self.values: dict[int, Value] = {}

    def column(self, index: int) -> pa.Array:
        """Return a column of the frame's rows."""
        return self.columns[index]

    def known(self, place: int) -> Value | None:
        """Return a step's value if it is there."""
        return self.values.get(place)

    def where(self, places: pa.Array) -> _Frame:
        """Return the rows at some places."""
        return _Part(self, lambda values: values.take(places), len(places))

    def kept(self, mask: pa.Array, count: int) -> _Frame:
        """Return the rows of a mask without NULL, of which so many are TRUE."""
        return _Part(self, lambda values: values.filter(mask), count)


class _Part(_Frame):
    """Some of the rows of another frame: what was computed for all of them is not computed again."""

    __slots__ = ("_all", "_pick")

    def __init__(self, rows: _Frame, pick: Callable[[pa.Array], pa.Array], count: int) -> None:
        super().__init__((), count, rows.setting)
        self._all = rows
        self._pick = pick

    def column(self, index: int) -> pa.Array:
        return self._pick(self._all.column(index))

    def known(self, place: int) -> Value | None:
        found = self.values.get(place)
        if found is None:
            found = self._all.known(place)
            if found is not None:
                if not is_constant(found):
                    found = self._pick(found)
                self.values[place] = found
        return found


class _Step:
    """One distinct part of the expressions."""

    __slots__ = ("compute", "fails", "kind", "place")

    def __init__(
        self,
        place: int,
        compute: Callable[[_Frame], Value],
        kind: pa.DataType,
        fails: bool,
    ) -> None:
        self.place = place
        self.compute = compute
        self.kind = kind
        self.fails = fails

    def value(self, frame: _Frame) -> Value:
        """Return the value for a frame's rows, computed once."""
        found = frame.known(self.place)
        if found is None:
            found = frame.values[self.place] = self.compute(frame)
        return found


class ExpressionProgram:
    """Computes expressions of one input; picklable until it is opened, and after.

    Attributes:
        expressions: What it computes, in order.
        schema: Of the input's rows; batches have its columns by place.
        condition: Of the rows that `evaluate_kept` computes them for; None for all rows.
    """

    def __init__(
        self,
        expressions: Sequence[RowExpression],
        schema: RowSchema,
        condition: RowExpression | None = None,
    ) -> None:
        self.expressions = tuple(expressions)
        self.schema = schema
        self.condition = condition
        self._filter: _Step | None = None
        self._steps: list[_Step] | None = None
        self._setting = Setting()
        self._closing: list[Callable[[], None]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"expressions": self.expressions, "schema": self.schema, "condition": self.condition}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def open(self, setting: Setting | None = None) -> None:
        """Make the steps, and open user functions; called once before the first batch."""
        self._setting = setting or Setting()
        compiler = _Compiler(self._setting)
        self._filter = None if self.condition is None else compiler.step(self.condition)
        self._steps = [compiler.step(each) for each in self.expressions]
        self._closing = compiler.closing

    def close(self) -> None:
        """Close user functions; called once after the last batch."""
        closing, self._closing = self._closing, []
        for close in closing:
            close()

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return a column for each expression, as long as the batch.

        Raises:
            EvaluationError: If there is no result for a row.
        """
        columns, count = batch.columns, batch.num_rows
        return [as_array(value, count) for value in self.evaluate_columns(columns, count)]

    def evaluate_columns(self, columns: Sequence[pa.Array], count: int) -> list[Value]:
        """Return a column, or a constant where all rows have the same, for each expression."""
        return self._compute(lambda steps: self._values(steps, _Frame(columns, count, self._setting)))

    def evaluate_kept(
        self, columns: Sequence[pa.Array], count: int
    ) -> tuple[list[Value], np.ndarray[Any, Any] | None]:
        """Return the expressions' values of the rows for which the condition is TRUE, and whether each row is one.

        None in place of the latter if all are. Parts of the condition that the expressions have too are computed once.
        """
        return self._compute(lambda steps: self._kept_values(steps, _Frame(columns, count, self._setting)))

    def _compute(self, values: Callable[[list[_Step]], Result]) -> Result:
        if self._steps is None:
            self.open()
        assert self._steps is not None
        try:
            return values(self._steps)
        except pa.ArrowInvalid as error:
            raise EvaluationError(f"a value could not be computed: {error}") from error

    def _kept_values(
        self, steps: list[_Step], rows: _Frame
    ) -> tuple[list[Value], np.ndarray[Any, Any] | None]:
        if self._filter is None:
            return self._values(steps, rows), None
        holds = pc.fill_null(as_array(_typed(self._filter.value(rows), _BOOL), rows.count), fill_value=False)
        mask = as_numpy(holds).astype(bool, copy=False)
        kept = int(np.count_nonzero(mask))
        if kept == rows.count:
            return self._values(steps, rows), None
        return self._values(steps, rows.kept(holds, kept)), mask

    def _values(self, steps: list[_Step], frame: _Frame) -> list[Value]:
        return [_typed(step.value(frame), step.kind) for step in steps]


def _typed(value: Value, kind: pa.DataType) -> Value:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    return value if value.type == kind else pc.cast(value, kind, safe=False)


def constant_value(expression: RowExpression, setting: Setting | None = None) -> Any:
    """Return the value of an expression without columns, as Python has it.

    Raises:
        EvaluationError: If it has none.
    """
    program = ExpressionProgram([expression], RowSchema((), ()))
    program.open(setting)
    try:
        value = program.evaluate_columns([], 1)[0]
    finally:
        program.close()
    return value.as_py() if is_constant(value) else value[0].as_py()


class _Compiler:
    """Makes steps; equal deterministic parts share one."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.closing: list[Callable[[], None]] = []
        self._known: dict[Any, _Step] = {}
        self._count = 0

    def step(self, expression: RowExpression) -> _Step:
        key: tuple[Any, ...]
        if isinstance(expression, InputRef):
            return self._keep(("column", expression.index), lambda place: self._column(place, expression))
        if isinstance(expression, Literal):
            key = ("literal", type(expression.value), repr(expression.value), str(expression.type))
            return self._keep(key, lambda place: self._literal(place, expression))
        operands = [self.step(each) for each in expression.operands]
        places = tuple(each.place for each in operands)
        shared = is_deterministic(expression)
        key = (
            expression.function,
            places,
            str(expression.type),
            id(expression.user_function),
            None if shared else object(),
        )
        return self._keep(key, lambda place: self._call(place, expression, operands))

    def _keep(self, key: Any, make: Callable[[int], _Step]) -> _Step:
        found = self._known.get(key)
        if found is None:
            self._count += 1
            found = self._known[key] = make(self._count)
        return found

    def _column(self, place: int, reference: InputRef) -> _Step:
        index = reference.index
        kind = arrow_type(reference.type)
        return _Step(place, lambda frame: frame.column(index), kind, False)

    def _literal(self, place: int, literal: Literal) -> _Step:
        scalar = literal_scalar(literal)
        return _Step(place, lambda frame: scalar, scalar.type, False)

    def _call(self, place: int, call: Call, operands: list[_Step]) -> _Step:
        kind = arrow_type(call.type)
        lazy = _LAZY.get(call.function) if call.user_function is None else None
        if lazy is not None and any(each.fails for each in operands[1:]):
            compute = lazy(operands, kind)
        else:
            compute = self._eager(call, operands)
        return _Step(place, compute, kind, may_fail(call))

    def _eager(self, call: Call, operands: list[_Step]) -> Callable[[_Frame], Value]:
        kernel, close = find_kernel(call, self.setting)
        if close is not None:
            self.closing.append(close)
        if call.function in ("=", "<>", "<", "<=", ">", ">=") and operands[0] is operands[1]:
            return _same_operands(operands[0], equal=call.function in ("=", "<=", ">="))
        if len(operands) == 1:
            (only,) = operands
            return lambda frame: kernel(frame.setting, frame.count, only.value(frame))
        if len(operands) == 2:
            first, second = operands
            return lambda frame: kernel(frame.setting, frame.count, first.value(frame), second.value(frame))
        return lambda frame: kernel(frame.setting, frame.count, *[each.value(frame) for each in operands])


def _same_operands(step: _Step, *, equal: bool) -> Callable[[_Frame], Value]:
    """`x = x` holds wherever x is not NULL, for NaN too: Flink's planner has it so."""

    def compute(frame: _Frame) -> Value:
        value = step.value(frame)
        return pc.if_else(pc.is_valid(value), pa.scalar(equal), pa.scalar(None, pa.bool_()))

    return compute


# --- parts behind conditions that may fail


class _Rest:
    """The rows of a frame that no branch has taken yet, and the parts that were."""

    def __init__(self, frame: _Frame, kind: pa.DataType) -> None:
        self.frame = frame
        self.kind = kind
        self.places = pa.array(range(frame.count), pa.int64())
        self.parts: list[tuple[pa.Array, pa.Array]] = []

    def value(self, step: _Step) -> pa.Array:
        """Return a step's value for the rows that are left."""
        rows = self.frame if len(self.places) == self.frame.count else self.frame.where(self.places)
        return as_array(_typed(step.value(rows), step.kind), rows.count)

    def give(self, mask: pa.Array, make: Callable[[pa.Array], pa.Array]) -> None:
        """Give rows that are left their results; `mask` has no NULL."""
        taken = self.places.filter(mask)
        if len(taken):
            self.parts.append((taken, make(taken)))
        self.places = self.places.filter(pc.invert(mask))

    def result(self) -> pa.Array:
        """Return all parts in the order of the rows."""
        if not self.parts:
            return pa.nulls(0, self.kind)
        places = pa.concat_arrays([each[0] for each in self.parts])
        values = pa.concat_arrays([each[1] for each in self.parts])
        return values.take(pc.sort_indices(places))

    def rows(self, step: _Step, places: pa.Array) -> pa.Array:
        """Return a step's value for some rows, in the result's type."""
        frame = self.frame.where(places)
        return as_array(_typed(step.value(frame), self.kind), frame.count)


def _lazy_case(operands: list[_Step], kind: pa.DataType) -> Callable[[_Frame], Value]:
    def compute(frame: _Frame) -> Value:
        rest = _Rest(frame, kind)
        for condition, value in zip(operands[:-1:2], operands[1::2], strict=True):
            mask = pc.fill_null(rest.value(condition), False)
            rest.give(mask, lambda places, value=value: rest.rows(value, places))  # type: ignore[misc]
        every = pa.repeat(pa.scalar(True), len(rest.places))
        rest.give(every, lambda places: rest.rows(operands[-1], places))
        return rest.result()

    return compute


def _lazy_connective(operands: list[_Step], *, ends: bool) -> Callable[[_Frame], Value]:
    """AND ends where an operand is FALSE, OR where one is TRUE."""

    def compute(frame: _Frame) -> Value:
        rest = _Rest(frame, pa.bool_())
        unknown = pa.repeat(pa.scalar(False), frame.count)
        for operand in operands:
            value = rest.value(operand)
            decided = pc.fill_null(pc.equal(value, pa.scalar(ends)), False)
            unknown = pc.or_(unknown.filter(pc.invert(decided)), pc.is_null(value).filter(pc.invert(decided)))
            rest.give(decided, lambda places: pa.repeat(pa.scalar(ends), len(places)))
        left = pc.if_else(unknown, pa.scalar(None, pa.bool_()), pa.scalar(not ends))
        rest.give(pa.repeat(pa.scalar(True), len(rest.places)), lambda places: left)
        return rest.result()

    return compute


def _lazy_coalesce(operands: list[_Step], kind: pa.DataType) -> Callable[[_Frame], Value]:
    def compute(frame: _Frame) -> Value:
        rest = _Rest(frame, kind)
        for operand in operands:
            value = _typed(rest.value(operand), kind)
            valid = pc.is_valid(value)
            kept = value.filter(valid)
            rest.give(valid, lambda places, kept=kept: kept)  # type: ignore[misc]
        rest.give(pa.repeat(pa.scalar(True), len(rest.places)), lambda places: pa.nulls(len(places), kind))
        return rest.result()

    return compute


_LAZY: dict[str, Callable[[list[_Step], pa.DataType], Callable[[_Frame], Value]]] = {
    "CASE": _lazy_case,
    "COALESCE": _lazy_coalesce,
    "AND": lambda operands, kind: _lazy_connective(operands, ends=False),
    "OR": lambda operands, kind: _lazy_connective(operands, ends=True),
}
