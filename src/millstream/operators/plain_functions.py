"""Which functions can be seen to do nothing but compute: their results need no look.

A plain function indexes, calculates, compares and builds tuples, lists and dicts, from its arguments and constants. It
calls nothing but a few builtins, and uses no names from outside but those of numbers and strings, no attributes and no
members. So it keeps nothing, and what it returns consists of its arguments, which are the pipeline's alone, and of what
it has just made. Most lambdas are like that::

    lambda n: (n % 10, 1, n)          plain
    lambda record: record[0]          plain
    lambda line: line.split()         not plain: whose `split`, and what does it keep?
    lambda n: cache[n]                not plain, unless `cache` is a string

Such names are expected not to be bound to something else while the job runs, and operators of the user's own classes to
keep nothing: an `__add__` that keeps its arguments and changes them later goes unseen.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Hashable, Iterable
from operator import itemgetter
from types import BuiltinFunctionType, CellType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

from millstream.operators.value_kinds import ATOMIC

__all__ = ["changes_nothing", "gives_atoms", "is_plain", "only_reads", "overlooks"]

_INSTRUCTIONS = """
BINARY_OP BINARY_SLICE BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP BUILD_SET BUILD_SLICE BUILD_STRING
BUILD_TUPLE CACHE CALL COMPARE_OP CONTAINS_OP CONVERT_VALUE COPY COPY_FREE_VARS FORMAT_SIMPLE FORMAT_VALUE
FORMAT_WITH_SPEC IS_OP JUMP_BACKWARD JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP LIST_EXTEND LOAD_CONST
LOAD_FAST
LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_SMALL_INT NOP
NOT_TAKEN POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP
PRECALL RESUME RETURN_CONST RETURN_VALUE STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST SWAP TO_BOOL
UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNPACK_SEQUENCE
"""
_PLAIN_INSTRUCTIONS = frozenset(_INSTRUCTIONS.split())
"""Those of all versions of Python; one that is not here makes a function not plain."""

_GENERATOR_INSTRUCTIONS = _PLAIN_INSTRUCTIONS | {
    "CALL_INTRINSIC_1",
    "RERAISE",
    "RETURN_GENERATOR",
    "YIELD_VALUE",
}
"""Those of generators besides: of `yield`, and of the end of every generator."""

_BUILTINS = frozenset({abs, bool, chr, divmod, float, hash, int, len, max, min, ord, repr, round, str, sum})
_PLAIN_CALLABLES = _BUILTINS | {bytes, dict, list, set, tuple}
_GENERATOR = 0x20
_NOT_SIMPLE = (
    0x04 | 0x08 | _GENERATOR | 0x80 | 0x200
)  # *args, **kwargs, generators, coroutines, asynchronous generators


def is_plain(function: Any) -> bool:
    """Return whether a callable keeps nothing, and returns nothing but its arguments and what it makes of them.

    >>> is_plain(lambda n: (n % 10, n)), is_plain(lambda n: print(n)), is_plain(str)
    (True, False, True)
    """
    if isinstance(function, MethodType):
        return _is_plain_code(function.__func__, skipped=1)
    if isinstance(function, FunctionType):
        return _is_plain_code(function, skipped=0)
    if isinstance(function, (type, BuiltinFunctionType)):
        return function in _PLAIN_CALLABLES
    return type(function) is itemgetter or gives_atoms(function)


def changes_nothing(function: Any) -> bool:
    """Return whether a callable is plain and does not change its arguments either, as `one += other` does of lists.

    >>> changes_nothing(lambda one, other: (one[0], one[1] + other[1])), changes_nothing(min)
    (True, True)
    """
    return not _has_in_place(function) and is_plain(function)


def only_reads(function: Any) -> bool:
    """Return whether a callable keeps and changes none of its arguments; a generator does so until it has ended.

    >>> def both(one, other): yield one[0]; yield other[0]
    >>> def longer(one, other): one += other; yield one
    >>> only_reads(both), only_reads(longer), is_plain(both)
    (True, False, False)
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & _GENERATOR:
        return changes_nothing(function)
    skipped = 1 if isinstance(function, MethodType) else 0
    inner = getattr(function, "__func__", function)
    return not _has_in_place(function) and _is_plain_code(inner, skipped=skipped, generator=True)


def _has_in_place(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and any(map(_is_in_place, dis.get_instructions(code)))


def _is_in_place(instruction: dis.Instruction) -> bool:
    return instruction.opname.startswith("INPLACE_") or (
        instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
    )


def overlooks(method: Any, position: int) -> bool:
    """Return whether a method does not even look at one of its arguments, so it can neither keep nor change that.

    Args:
        method: A bound method.
        position: Of the argument, from 0; `self` is not counted.

    >>> class Counter:
    ...     def see(self, value, time): self.latest = time
    >>> overlooks(Counter().see, 0), overlooks(Counter().see, 1)
    (True, False)
    """
    function = getattr(method, "__func__", None)
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    if code.co_flags & _NOT_SIMPLE or code.co_argcount < position + 2 or "locals" in code.co_names:
        return False
    argument = code.co_varnames[position + 1]
    if argument in code.co_cellvars:
        return False
    for instruction in dis.get_instructions(code):
        found = instruction.argval
        if found == argument or (isinstance(found, tuple) and argument in found):
            return False
    return True


def gives_atoms(function: Any) -> bool:
    """Return whether a callable gives only what cannot change, or new lists of that: methods such as `str.split`."""
    return type(function) is MethodDescriptorType and function.__objclass__ in (bytes, float, int, str)


def _is_plain_code(function: Any, *, skipped: int, generator: bool = False) -> bool:
    """Tell it by the instructions; `skipped` first arguments must not be used."""
    code = getattr(function, "__code__", None)
    known = _GENERATOR_INSTRUCTIONS if generator else _PLAIN_INSTRUCTIONS
    refused = _NOT_SIMPLE & ~_GENERATOR if generator else _NOT_SIMPLE
    if code is None or code.co_flags & refused or function.__defaults__ or function.__kwdefaults__:
        return False
    hidden = set(code.co_varnames[:skipped])
    names = function.__globals__
    if code.co_freevars:
        names = {**names, **_contents(code.co_freevars, function.__closure__)}
    return all(_is_plain_instruction(each, names, hidden, known) for each in dis.get_instructions(code))


def _contents(names: Iterable[str], cells: Iterable[CellType]) -> dict[str, Any]:
    """Return what variables of enclosing functions hold; one that is not bound yet counts as something mutable."""
    contents: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            contents[name] = cell.cell_contents
        except ValueError:
            contents[name] = []
    return contents


def _is_plain_instruction(
    instruction: dis.Instruction, names: dict[str, Any], hidden: set[str], known: frozenset[str]
) -> bool:
    operation, argument = instruction.opname, instruction.argval
    if operation in ("LOAD_GLOBAL", "LOAD_DEREF"):
        found = names.get(argument, getattr(builtins, argument, names))
        return type(found) in ATOMIC or (isinstance(found, Hashable) and found in _BUILTINS)
    if "LOAD_FAST" in operation and hidden & set(argument if isinstance(argument, tuple) else (argument,)):
        return False
    return operation in known
