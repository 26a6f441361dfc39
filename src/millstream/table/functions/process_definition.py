"""Process table functions as plans hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.table.functions.process_signature import row_type_of, signature_of
from millstream.table.functions.user import FunctionKind, UserFunction
from millstream.table.process_functions import ProcessTableFunction
from millstream.table.udf import FunctionContext

__all__ = ["as_table_function", "collected", "process_definition"]


def process_definition(function: ProcessTableFunction[Any], name: str) -> UserFunction:
    """Return the definition of a process table function.

    Args:
        function: The function.
        name: As messages and plans call it; its default uid.

    Raises:
        ValidationError: If its methods are not as they have to be.
    """
    signature = signature_of(function, name)
    return UserFunction(
        name,
        FunctionKind.PROCESS_TABLE,
        function,
        row_type_of(function, name),
        deterministic=function.is_deterministic(),
        process=signature,
    )


def collected(given: Any, collect: Any) -> None:
    """Hand on what `eval` or `on_timer` returned: the rows of an iterator, or nothing."""
    if given is None:
        return
    for each in given:
        collect(each)


class _WithoutTables:
    """A process table function of values only, as a table function.

    Args:
        function: The function.
        takes_context: Whether `eval` begins with a context, which is None here.
        defaults: Of the arguments at the end.
    """

    def __init__(self, function: ProcessTableFunction[Any], defaults: Sequence[Any]) -> None:
        self._function = function
        self._defaults = tuple(defaults)

    def open(self, function_context: FunctionContext) -> None:
        """Open the function."""
        self._function.open(function_context)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def eval(self, *values: Any) -> list[Any]:
        """Return the rows that the function gives."""
        rows: list[Any] = []
        self._function.set_collector(rows.append)
        collected(self._function.eval(*values, *self._defaults[len(values) :]), rows.append)
        return rows


def as_table_function(declared: UserFunction) -> UserFunction:
    """Return a process table function that takes no tables as a table function."""
    signature = declared.process
    return UserFunction(
        declared.name,
        FunctionKind.TABLE,
        _WithoutTables(declared.function, [each.default for each in signature.arguments]),
        declared.result_type,
        tuple(each.type for each in signature.arguments),
        deterministic=declared.deterministic,
    )
