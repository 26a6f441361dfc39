"""Functions that are one expression, and do nothing but compute, written into the loops of maps, filters and reduces.

::

    lambda number: number % 2 == 0                      [number % 2 == 0 for number in _ms_values]
    lambda a, b: (a[0], a[1] + b[1])                    see `reduce_loop`
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from millstream.operators.field_functions import getter_of
from millstream.operators.inlined.bodies import PREFIX, is_simple
from millstream.operators.inlined.body_writer import length_if_tuple, parameters
from millstream.operators.inlined.definitions import Definition, compiled, definition_of
from millstream.operators.inlined.templates import statements
from millstream.operators.plain_functions import is_plain
from millstream.operators.user_code import apply_to_each
from millstream.operators.value_kinds import ATOMIC

__all__ = ["applying", "fold_loop", "map_loop", "reduce_loop"]


class _Expression(NamedTuple):
    """What a function returns.

    Attributes:
        function: The function.
        names: Of its arguments.
        result: The expression.
        at: Its definition.
    """

    function: Any
    names: list[str]
    result: ast.expr
    at: Definition


def map_loop(callable_: Any) -> Callable[[list[Any]], list[Any]] | None:
    """Return what gives a function's result for each value; None unless it is one expression that only computes.

    What it raises says nothing of the value: call the function itself then.

    >>> map_loop(abs) is None
    True
    """
    expression = _expression_of(callable_, 1)
    if expression is None:
        return None
    (name,) = expression.names
    return _made(expression, "_ms_values", f"return [_ms_RESULT for {name} in _ms_values]", {})


def reduce_loop(callable_: Any) -> Callable[..., bool] | None:
    """Return the loop `(records, find, table, append, append_first)`; None unless the function only computes.

    It takes records with their keys, reduces each into what the table has for its key, and appends the result. First
    records of their keys are appended as `first` too. Returns whether all other results are seen to be immutable.

    Args:
        callable_: A function of what was reduced so far and the next record.
    """
    expression = _expression_of(callable_, 2)
    if expression is None:
        return None
    so_far, value = expression.names
    length = length_if_tuple(expression.result)
    parts: dict[str, ast.expr] = {}
    names, given = ["_ms_result"], "_ms_result = _ms_RESULT"
    if length is not None:
        assert isinstance(expression.result, ast.Tuple)
        names = [f"_ms_{place}" for place in range(length)]
        parts = {f"PART{place}": item for place, item in enumerate(expression.result.elts)}
        given = "; ".join(f"{name} = _ms_PART{place}" for place, name in enumerate(names))
        given += f"; _ms_result = ({', '.join(names)},)"
    text = f"""
_ms_sure = True
for {value}, _ms_key in _ms_records:
    {so_far} = _ms_find(_ms_key, _ms_missing)
    if {so_far} is _ms_missing:
        _ms_result = {value}
        _ms_append_first({value})
    else:
        {given}
        if not ({" and ".join(f"_ms_type({name}) in _ms_atomic" for name in names)}):
            _ms_sure = False
    _ms_table[_ms_key] = _ms_result
    _ms_append(_ms_result)
return _ms_sure
"""
    arguments = (
        "_ms_records, _ms_find, _ms_table, _ms_append, _ms_append_first, *, _ms_missing, _ms_type, _ms_atomic"
    )
    constants = {"_ms_missing": object(), "_ms_type": type, "_ms_atomic": ATOMIC}
    return _made(expression, arguments, text, constants, **parts)


def fold_loop(callable_: Any) -> Callable[..., None] | None:
    """Return the loop `(records, find, pane, create)`; None unless the function only computes.

    It takes records with their keys, and folds each into what the pane has for its key: at first what `create` gives.

    Args:
        callable_: A function of a record and what was folded so far.
    """
    expression = _expression_of(callable_, 2)
    if expression is None:
        return None
    value, so_far = expression.names
    text = f"""
for {value}, _ms_key in _ms_records:
    {so_far} = _ms_find(_ms_key, _ms_missing)
    if {so_far} is _ms_missing:
        {so_far} = _ms_create()
    _ms_pane[_ms_key] = _ms_RESULT
"""
    arguments = "_ms_records, _ms_find, _ms_pane, _ms_create, *, _ms_missing"
    return _made(expression, arguments, text, {"_ms_missing": object()})


def applying(function: Callable[[Any], Any]) -> Callable[[Callable[[Any], Any], list[Any]], list[Any]]:
    """Return what gives a plain function's result for each value, as `apply_to_each` does."""
    loop = map_loop(function) if getter_of(function) is None else None
    if loop is None:
        return apply_to_each

    def apply(function: Callable[[Any], Any], values: list[Any]) -> list[Any]:
        try:
            return loop(values)
        except Exception:  # noqa: BLE001 - it only computes, and calling it tells which value it is
            return apply_to_each(function, values)

    return apply


def _expression_of(callable_: Any, count: int) -> _Expression | None:
    function: Any = callable_.__func__ if isinstance(callable_, MethodType) else callable_
    if not isinstance(function, FunctionType) or not is_plain(callable_):
        return None
    definition = definition_of(function)
    if definition is None or (isinstance(definition, ast.FunctionDef) and definition.decorator_list):
        return None
    names = parameters(definition)[len(parameters(definition)) - count :]
    result = _result_of(definition)
    own = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    if result is None or len(names) != count or not is_simple(result) or any(map(_is_ours, own.union(names))):
        return None
    return _Expression(function, names, result, definition)


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX)


def _result_of(definition: Definition) -> ast.expr | None:
    if isinstance(definition, ast.Lambda):
        return definition.body
    last = definition.body[-1]
    before = definition.body[:-1]
    if isinstance(last, ast.Return) and len(before) == (ast.get_docstring(definition) is not None):
        return last.value
    return None


def _made(
    expression: _Expression, arguments: str, text: str, constants: dict[str, Any], **parts: ast.expr
) -> Callable[..., Any]:
    at = expression.at
    (loop,) = statements(f"def loop({arguments}): pass", at)
    assert isinstance(loop, ast.FunctionDef)
    loop.body = statements(text, at, RESULT=expression.result, **parts)
    made = FunctionType(compiled(loop, expression.function.__code__), expression.function.__globals__)
    made.__kwdefaults__ = constants
    return made
