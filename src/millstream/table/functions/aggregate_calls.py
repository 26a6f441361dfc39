"""Users' aggregate functions as operators call them: over rows of Python values, with a state that pickles.

An operator makes one `UserAggregate` for each call, opens it, and keeps what `create` gave for each key: it changes in
place, or is replaced by what `accumulate` and `retract` return.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from millstream.base.errors import NotSupportedError
from millstream.operators.values import copy_of
from millstream.table.expressions.rex import AggregateCall
from millstream.table.functions.kernels.values import Setting
from millstream.table.functions.python_values import from_python, to_python
from millstream.table.functions.types import arrow_type
from millstream.table.functions.user import FunctionKind, UserFunction, _frames, is_changeable
from millstream.types import datatypes as t
from millstream.types.row import rows_of

__all__ = ["UserAggregate", "user_aggregate"]


def user_aggregate(call: AggregateCall, argument_types: Sequence[t.DataType]) -> UserAggregate:
    """Return what computes a call of a user's aggregate; `argument_types` are those of `call.arguments`."""
    declared: UserFunction = call.user_function
    kind = PandasAggregate if declared.func_type in ("pandas", "arrow") else UserAggregate
    return kind(declared, argument_types)


class UserAggregate:
    """A row-wise aggregate function; one thread calls it.

    Attributes:
        declared: The function with its types.
        retracts: Whether it can take rows back.
        merges: Whether it can put states together (session windows, local aggregation).
        gives_rows: Whether it is a table aggregate: `rows` instead of `value`.
    """

    whole_groups = False  # whether a state is all rows of its group

    def __init__(self, declared: UserFunction, argument_types: Sequence[t.DataType]) -> None:
        self.declared = declared
        self._types = tuple(argument_types)
        self._function = declared.function
        self.retracts = _overrides(self._function, "retract")
        self.merges = _overrides(self._function, "merge")
        self.gives_rows = declared.kind is FunctionKind.TABLE_AGGREGATE
        self._changeable = is_changeable(declared.result_type)

    def open(self, setting: Setting) -> None:
        """Open the function; called once before anything else."""
        if hasattr(self._function, "open"):
            self._function.open(setting.functions)

    def close(self) -> None:
        """Close the function; called once at the end."""
        if hasattr(self._function, "close"):
            self._function.close()

    def rows_of(self, columns: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        """Return the argument columns of `count` rows as rows for `accumulate` and `retract`."""
        if not columns:
            return [()] * count
        rows = zip(*map(to_python, columns, self._types), strict=True)
        if self.declared.takes_row:
            return [(row,) for row in rows_of(self.declared.row_names or None, rows)]
        return list(rows)

    def create(self) -> Any:
        """Return the state of a group without rows."""
        return self._function.create_accumulator()

    def accumulate(self, state: Any, row: tuple[Any, ...]) -> Any:
        """Add a row to a state; return the state to keep."""
        replaced = self._function.accumulate(state, *row)
        return state if replaced is None else replaced

    def retract(self, state: Any, row: tuple[Any, ...]) -> Any:
        """Take a row back; return the state to keep.

        Raises:
            NotSupportedError: If the function has no `retract`.
        """
        if not self.retracts:
            raise NotSupportedError(
                f'aggregate function "{self.declared.name}" cannot take rows back',
                detail="Its input has updates or deletions, and it has no method retract.",
                hint="Define retract(accumulator, *args).",
            )
        replaced = self._function.retract(state, *row)
        return state if replaced is None else replaced

    def merge(self, state: Any, others: Iterable[Any]) -> Any:
        """Put further states into one; return the state to keep.

        Raises:
            NotSupportedError: If the function has no `merge`.
        """
        if not self.merges:
            raise NotSupportedError(
                f'aggregate function "{self.declared.name}" cannot be put together from parts',
                detail="Session windows merge, and it has no method merge.",
                hint="Define merge(accumulator, accumulators).",
            )
        replaced = self._function.merge(state, list(others))
        return state if replaced is None else replaced

    def value(self, state: Any) -> Any:
        """Return the result for a state, a Python value."""
        value = self._function.get_value(state)
        return copy_of(value) if self._changeable else value

    def rows(self, state: Any) -> list[Any]:
        """Return the rows that a table aggregate gives for a state; each a value, Row or tuple."""
        return [copy_of(row) for row in self._function.emit_value(state) or ()]

    def results(self, values: Sequence[Any]) -> pa.Array:
        """Return results as a column of the function's type.

        Raises:
            TypeMismatchError: If one does not fit.
        """
        return from_python(values, self.declared.result_type, f'function "{self.declared.name}"')


class PandasAggregate(UserAggregate):
    """An aggregate of whole columns: its state is the rows of the group, and it is called once for each result."""

    whole_groups = True

    def __init__(self, declared: UserFunction, argument_types: Sequence[t.DataType]) -> None:
        super().__init__(declared, argument_types)
        self.retracts = self.merges = True

    def create(self) -> Any:
        """Return no rows."""
        return []

    def accumulate(self, state: Any, row: tuple[Any, ...]) -> Any:
        """Add a row."""
        state.append(row)
        return state

    def retract(self, state: Any, row: tuple[Any, ...]) -> Any:
        """Take an equal row back, if there is one."""
        if row in state:
            state.remove(row)
        return state

    def merge(self, state: Any, others: Iterable[Any]) -> Any:
        """Add the rows of other groups."""
        for other in others:
            state.extend(other)
        return state

    def value(self, state: Any) -> Any:
        """Return the result for a group's rows."""
        parts = zip(*state, strict=True) if state else [()] * len(self._types)
        name = f'argument of function "{self.declared.name}"'
        columns = [from_python(part, kind, name) for part, kind in zip(parts, self._types, strict=True)]
        return self.value_of(columns)

    def value_of(self, columns: Sequence[pa.Array]) -> Any:
        """Return the result for a group's argument columns: the cheap way, without rows of Python."""
        arguments = list(columns)
        if self.declared.func_type == "pandas":
            arguments = _frames(self.declared, self._types, arguments)
        function = self._function
        if hasattr(function, "accumulate"):
            accumulator = function.create_accumulator()
            function.accumulate(accumulator, *arguments)
            result = function.get_value(accumulator)
        else:
            result = function(*arguments)
        return _plain(result, arrow_type(self.declared.result_type))

    def rows_of(self, columns: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        """Return rows of the plain arguments; whole frames are made when the function is called."""
        if not columns:
            return [()] * count
        return list(zip(*map(to_python, columns, self._types), strict=True))


def _plain(result: Any, kind: pa.DataType) -> Any:
    """Return a result of numpy, pandas or Arrow as Python's."""
    if isinstance(result, pa.Scalar):
        return result.as_py()
    if pa.types.is_floating(kind) or not hasattr(result, "item"):
        missing = result is None or (result != result if isinstance(result, float) else False)
        return None if missing and not pa.types.is_floating(kind) else result
    return result.item()


def _overrides(function: Any, name: str) -> bool:
    """Whether a function's class has a method of its own, not the one that only raises."""
    method = getattr(type(function), name, None)
    return method is not None and not getattr(method, "__millstream_missing__", False)
