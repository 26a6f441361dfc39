"""Functions that do nothing but take a field of a record: what takes it without a call of Python for each.

::

    lambda record: record[0]          itemgetter(0)
    lambda row: row.name              attrgetter("name")
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter, itemgetter
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["getter_of"]

_VARIABLE_ARGUMENTS = 0x04 | 0x08


def getter_of(function: Any, arguments: int = 1) -> Callable[[Any], Any] | None:
    """Return what gives the same field as a function does of its first argument; None if the function does more.

    Args:
        function: Any callable.
        arguments: With how many it is called.

    >>> getter_of(lambda record: record[1])((7, 8)), getter_of(lambda record: record[1] + 1)
    (8, None)
    """
    skipped = 0
    if type(function) is MethodType:
        function, skipped = function.__func__, 1
    if type(function) is not FunctionType:
        return None
    return _getter(function.__code__, skipped, skipped + arguments)


@lru_cache(maxsize=1_024)
def _getter(code: CodeType, place: int, arguments: int) -> Callable[[Any], Any] | None:
    if code.co_flags & _VARIABLE_ARGUMENTS or code.co_kwonlyargcount or code.co_argcount != arguments:
        return None
    steps = [each for each in dis.get_instructions(code) if each.opname not in _NOTHING]
    if len(steps) < 3 or steps[-1].opname != "RETURN_VALUE":
        return None
    if steps[0].opname not in _ARGUMENT or steps[0].argval != code.co_varnames[place]:
        return None
    if len(steps) == 3 and steps[1].opname == "LOAD_ATTR":
        return attrgetter(steps[1].argval)
    if len(steps) == 4 and steps[1].opname in _CONSTANT and _is_subscript(steps[2]):
        return itemgetter(steps[1].argval)
    return None


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")


_NOTHING = frozenset({"CACHE", "NOP", "RESUME"})
_ARGUMENT = frozenset({"LOAD_FAST", "LOAD_FAST_BORROW"})
_CONSTANT = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
