"""What a function does, as a syntax tree: found in its file, and compared with the code that runs.

The file may have changed since it was imported, or not be on this machine: a definition that does not compile to
exactly the function's code is not given.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from copy import deepcopy
from functools import lru_cache
from types import CodeType, FunctionType

__all__ = ["Definition", "compiled", "definition_of"]

_MOST_CHARACTERS = 1 << 20
"""Longer files are not parsed: that would take longer than most jobs gain by it."""

Definition = ast.FunctionDef | ast.Lambda


def definition_of(function: FunctionType) -> Definition | None:
    """Return the definition of a function or lambda, a tree of the caller's own; None if it cannot be told for sure."""
    code = function.__code__
    if code.co_freevars:
        return None
    found = _definitions_in("".join(linecache.getlines(code.co_filename, function.__globals__)))
    for definition in found.get(code.co_firstlineno, ()):
        alone = deepcopy(definition)
        if _is_same(compiled(alone, code), code):
            return alone
    return None


def compiled(definition: Definition, like: CodeType) -> CodeType:
    """Return the code of a definition, in the file and under the name of another one."""
    tree: ast.Module | ast.Expression
    if isinstance(definition, ast.Lambda):
        tree, mode = ast.Expression(definition), "eval"
    else:
        tree, mode = ast.Module([definition], []), "exec"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its author saw them when the file was imported
        whole = compile(tree, like.co_filename, mode, dont_inherit=True)
    code = next(each for each in whole.co_consts if isinstance(each, CodeType))
    return code.replace(co_name=like.co_name, co_qualname=like.co_qualname)


def _is_same(one: CodeType, other: CodeType) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED) and (
        repr(one.co_consts) == repr(other.co_consts)  # 1 is not True
    )


_COMPARED = (
    "co_name",
    "co_code",
    "co_names",
    "co_varnames",
    "co_argcount",
    "co_kwonlyargcount",
    "co_linetable",
)


@lru_cache(maxsize=16)
def _definitions_in(text: str) -> dict[int, list[Definition]]:
    """Return the functions and lambdas of a file by their first lines."""
    found: dict[int, list[Definition]] = {}
    if not text or len(text) > _MOST_CHARACTERS:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # not Python alone: a cell of a notebook with magic
        return found
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            found.setdefault(node.lineno, []).append(node)
    return found
