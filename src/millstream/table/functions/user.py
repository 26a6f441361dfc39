"""Users' functions: as declared, and how columns go through them.

A `UserFunction` is what `Call.user_function` and `AggregateCall.user_function` hold: frozen, pickled with the program.
Row-wise functions (`general`) get one Python value for each argument and are called once a row; `pandas` ones get a
Series, `arrow` ones an array for each argument, and are called once a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from millstream.base.errors import TypeMismatchError
from millstream.base.optional import load_package
from millstream.operators.values import copy_of, protect
from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import Call, RowExpression
from millstream.table.functions.coercion import coerce
from millstream.table.functions.kernels.values import Kernel, Setting, Value, as_array
from millstream.table.functions.python_values import from_python, to_python
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types.further_types import RawType
from millstream.types.row import rows_of

__all__ = ["INLINE", "FunctionKind", "UserFunction", "build_user_call", "called_function", "is_changeable"]


class FunctionKind(Enum):
    """What a user's function gives."""

    SCALAR = "scalar function"
    ASYNC_SCALAR = "async scalar function"
    TABLE = "table function"
    AGGREGATE = "aggregate function"
    TABLE_AGGREGATE = "table aggregate function"
    PROCESS_TABLE = "process table function"


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A user's function with its types.

    Attributes:
        name: As messages and plans call it.
        kind: What it gives.
        function: A callable, or an object of a class of `millstream.table.udf`.
        result_type: Of a table function a ROW, one field a column.
        input_types: None: any; else arguments are cast to them.
        accumulator_type: Of aggregates; None if it was not said.
        func_type: `general` (rows), `pandas` or `arrow` (whole columns).
        deterministic: Whether equal arguments give equal results.
        takes_row: Whether it gets all arguments as one Row, or one DataFrame.
        row_names: Names of the arguments, if it takes a row.
        process: Of a process table function what it takes, a `ProcessSignature`.
    """

    name: str
    kind: FunctionKind
    function: Any
    result_type: t.DataType
    input_types: tuple[t.DataType, ...] | None = None
    accumulator_type: t.DataType | None = None
    func_type: str = "general"
    deterministic: bool = True
    takes_row: bool = False
    row_names: tuple[str, ...] = ()
    process: Any = None

    @property
    def is_aggregate(self) -> bool:
        """Whether it aggregates rows."""
        return self.kind in (FunctionKind.AGGREGATE, FunctionKind.TABLE_AGGREGATE)

    @property
    def is_table(self) -> bool:
        """Whether it gives rows for a row."""
        return self.kind is FunctionKind.TABLE

    @property
    def row_type(self) -> t.RowType:
        """The columns of what a table function gives."""
        if isinstance(self.result_type, t.RowType):
            return self.result_type
        return t.RowType([t.RowField("f0", self.result_type)])

    def column_kernel(self, call: Call, setting: Setting) -> tuple[Kernel, Callable[[], Any] | None]:
        """Open a scalar function; return what computes a call of it, and what closes it.

        Called once where the function runs.
        """
        opened = open_function(self, setting)
        types = [each.type for each in call.operands]
        invoke = _INVOCATIONS[self.func_type](self, opened, types)
        if self.kind is FunctionKind.ASYNC_SCALAR:
            invoke = _asynchronous(self, opened, types)

        def kernel(setting: Setting, count: int, *values: Value) -> Value:
            return invoke([as_array(each, count) for each in values], count)

        return kernel, opened.close

    def table_kernel(self, call: Call, setting: Setting) -> TableKernel:
        """Open a table function; return what computes a call of it."""
        return TableKernel(self, [each.type for each in call.operands], setting)


class _Opened:
    """A function that was opened: what to call, what to close."""

    def __init__(self, call: Callable[..., Any], close: Callable[[], Any]) -> None:
        self.call = call
        self.close = close


def open_function(declared: UserFunction, setting: Setting) -> _Opened:
    """Open a function's object, if it is one with `open` and `eval`."""
    function = declared.function
    if hasattr(function, "open"):
        function.open(setting.functions)
    close = getattr(function, "close", None) or _nothing
    return _Opened(function.eval if hasattr(function, "eval") else function, close)


def _nothing() -> None:
    """Close what need not be closed."""


_Invoke = Callable[[list[pa.Array], int], pa.Array]


def _argument_rows(
    declared: UserFunction, types: Sequence[t.DataType], columns: Sequence[pa.Array], count: int
) -> Iterable[tuple[Any, ...]]:
    """Return the arguments of each call in turn."""
    if not columns:
        return [()] * count
    rows = zip(*map(to_python, columns, types), strict=True)
    if declared.takes_row:
        return ((row,) for row in rows_of(declared.row_names or None, rows))
    return rows


def _row_wise(declared: UserFunction, opened: _Opened, types: Sequence[t.DataType]) -> _Invoke:
    call, kind, what = opened.call, declared.result_type, f'function "{declared.name}"'

    def invoke(columns: list[pa.Array], count: int) -> pa.Array:
        rows = _argument_rows(declared, types, columns, count)
        return from_python(results(rows), kind, what)

    def results(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        if not is_changeable(kind):
            return [call(*row) for row in rows]
        found = []
        for row in rows:
            value = call(*row)
            found.append(protect(value))  # the function may change it when it is called again
        return found

    return invoke


def _asynchronous(declared: UserFunction, opened: _Opened, types: Sequence[t.DataType]) -> _Invoke:
    """All rows of a batch wait together; results stand in the rows' order."""
    kind, what = declared.result_type, f'function "{declared.name}"'

    def invoke(columns: list[pa.Array], count: int) -> pa.Array:
        import asyncio  # is large, and few functions need it

        rows = list(_argument_rows(declared, types, columns, count))

        async def all_rows() -> list[Any]:
            return list(await asyncio.gather(*(opened.call(*row) for row in rows)))

        return from_python(asyncio.run(all_rows()), kind, what)

    return invoke


def _frames(declared: UserFunction, types: Sequence[t.DataType], columns: list[pa.Array]) -> list[Any]:
    pandas = load_package("pandas", extra="pandas", what=f'function "{declared.name}"')
    series = [
        column.to_pandas(date_as_object=True, integer_object_nulls=False)
        if not pa.types.is_nested(column.type)
        else pandas.Series(to_python(column, kind))
        for column, kind in zip(columns, types, strict=True)
    ]
    if not declared.takes_row:
        return series
    names = declared.row_names or tuple(f"f{place}" for place in range(len(series)))
    return [pandas.concat(series, axis=1, keys=names)] if series else []


def _pandas(declared: UserFunction, opened: _Opened, types: Sequence[t.DataType]) -> _Invoke:
    def invoke(columns: list[pa.Array], count: int) -> pa.Array:
        result = opened.call(*_frames(declared, types, columns))
        return _column_of(declared, result, count)

    return invoke


def _column_of(declared: UserFunction, result: Any, count: int) -> pa.Array:
    """Return what a function of columns gave as a column, checked."""
    kind = arrow_type(declared.result_type)
    what = f'function "{declared.name}"'
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if type(result).__name__ == "DataFrame" and isinstance(declared.result_type, t.RowType):
        fields = zip(result.columns, declared.result_type.fields, strict=True)
        parts = [_converted(result[name], arrow_type(field.data_type), what) for name, field in fields]
        column = pa.StructArray.from_arrays(parts, fields=list(kind))
    else:
        column = _converted(result, kind, what)
    if len(column) != count:
        raise TypeMismatchError(
            f"{what} gave {len(column)} values for {count} rows",
            hint="Return one value for each row, in the rows' order.",
        )
    return column


def _converted(result: Any, kind: pa.DataType, what: str) -> pa.Array:
    try:
        column = result if isinstance(result, pa.Array) else pa.array(result, from_pandas=True)
        return column if column.type == kind else column.cast(kind)
    except (pa.ArrowException, TypeError) as error:
        try:
            return pa.array(result, kind, from_pandas=True)
        except (pa.ArrowException, TypeError):
            raise TypeMismatchError(
                f"{what} gave a {type(result).__name__} that does not fit Arrow's type {kind}",
                detail=str(error),
                hint="Declare the type that the function gives.",
            ) from error


def _arrow(declared: UserFunction, opened: _Opened, types: Sequence[t.DataType]) -> _Invoke:
    def invoke(columns: list[pa.Array], count: int) -> pa.Array:
        return _column_of(declared, opened.call(*columns), count)

    return invoke


_INVOCATIONS: dict[str, Callable[[UserFunction, _Opened, Sequence[t.DataType]], _Invoke]] = {
    "general": _row_wise,
    "pandas": _pandas,
    "arrow": _arrow,
}


class TableKernel:
    """A table function that was opened; one thread calls it."""

    def __init__(self, declared: UserFunction, types: Sequence[t.DataType], setting: Setting) -> None:
        self._declared = declared
        self._types = types
        self._opened = open_function(declared, setting)

    def evaluate(self, values: Sequence[Value], count: int) -> tuple[pa.Array, list[pa.Array]]:
        """Return the rows the function gives.

        Args:
            values: The arguments, columns or constants.
            count: Rows of the input.

        Returns:
            For each row given, the place of the input row it came from (int64, ascending), and the columns.
        """
        columns = [as_array(each, count) for each in values]
        call = self._opened.call
        kind = self._declared.row_type
        width = len(kind.fields)
        what = f'function "{self._declared.name}"'
        changeable = any(is_changeable(field.data_type) for field in kind.fields)
        places: list[int] = []
        rows: list[tuple[Any, ...]] = []
        for place, arguments in enumerate(_argument_rows(self._declared, self._types, columns, count)):
            for row in _rows_of(call(*arguments)):
                # The function may change what it gave when it goes on: fields are taken, and copied, at once.
                fields = _fields(row, width, what)
                rows.append(copy_of(fields) if changeable else fields)
                places.append(place)
        parts = list(zip(*rows, strict=True)) if rows else [()] * width
        arrays = [
            from_python(part, field.data_type, what) for part, field in zip(parts, kind.fields, strict=True)
        ]
        return pa.array(places, pa.int64()), arrays

    def close(self) -> None:
        """Close the function; called once, after the last row."""
        self._opened.close()


def is_changeable(kind: t.DataType) -> bool:
    """Return whether a function may change a value of a type that it has given."""
    return pa.types.is_nested(arrow_type(kind)) or isinstance(kind, RawType)


def _rows_of(given: Any) -> Iterable[Any]:
    """Return the rows that a call gives, each as the function comes to it."""
    if given is None:
        return []
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or type(given).__name__ == "Row":
        return [given]
    if isinstance(given, tuple):
        return [given]
    return given


def _fields(row: Any, width: int, what: str) -> tuple[Any, ...]:
    if width == 1 and (isinstance(row, str | bytes) or not isinstance(row, Sequence) or len(row) != 1):
        if type(row).__name__ == "Row" and len(row) == 1:
            return tuple(row)
        return (row,)
    fields = tuple(row)
    if len(fields) != width:
        raise TypeMismatchError(f"{what} gave a row of {len(fields)} fields where there are {width}")
    return fields


INLINE = "USER FUNCTION"
"""Clause of a call in the tree whose value is the function itself: what the Table API makes of `f(col("a"))`."""


def called_function(call: Any, catalog: Any) -> UserFunction | None:
    """Return the user's function that a call in the tree means; None if it means a built-in one.

    Args:
        call: An `ast.Function`.
        catalog: Finds functions by name (`find_user_function`).
    """
    for name, value in call.clauses:
        if name == INLINE:
            declared: UserFunction = value.declared()
            return declared
    found: UserFunction | None = catalog.find_user_function(call.name)
    return found


def build_user_call(declared: UserFunction, operands: Sequence[RowExpression], at: Any = None) -> Call:
    """Return the expression of a call of a user's function; operands are cast to its declared types.

    Raises:
        ValidationError: If their number does not fit, or it is a function of tables.
    """
    if declared.kind is FunctionKind.PROCESS_TABLE:
        raise ValidationError(
            f'process table function "{declared.name}" was used as a value',
            at=at,
            hint=f"Call it behind FROM: SELECT * FROM {declared.name}(...).",
        )
    if declared.input_types is not None and not declared.takes_row:
        if len(declared.input_types) != len(operands):
            raise ValidationError(
                f'function "{declared.name}" takes {len(declared.input_types)} arguments, not {len(operands)}',
                at=at,
            )
        operands = [coerce(each, kind) for each, kind in zip(operands, declared.input_types, strict=True)]
    _check_arity(declared, operands, at)
    return Call(declared.name, tuple(operands), declared.result_type, declared)


def _check_arity(declared: UserFunction, operands: Sequence[RowExpression], at: Any) -> None:
    function = declared.function
    if declared.is_aggregate or declared.takes_row:
        return
    called = function.eval if hasattr(function, "eval") else function
    try:
        inspect.signature(called).bind(*operands)
    except TypeError as error:
        raise ValidationError(
            f'function "{declared.name}" cannot be called with {len(operands)} arguments: {error}', at=at
        ) from error
    except ValueError:
        return  # a built-in without a signature
