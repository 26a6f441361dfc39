"""Which bodies of functions can be written into a loop, and what they may reach from there.

A body that is written into a loop shares one frame with all other records. So it consists of statements that go
forward only - no loops, no `try`, no nested functions -, and reads no variable that it has not set before: what an
earlier record left in it is never seen. `return` becomes `continue`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from millstream.operators.value_kinds import ATOMIC

__all__ = ["PREFIX", "fits_into_loop", "goes_its_own_way", "is_simple"]

PREFIX = "_ms_"
"""Begins all names that are not the function's own."""

_LOOKS_AT_ITS_FRAME = frozenset({"dir", "eval", "exec", "locals", "super", "vars", "__class__"})

_SIMPLE = (
    ast.AnnAssign,
    ast.Assert,
    ast.Assign,
    ast.Attribute,
    ast.AugAssign,
    ast.BinOp,
    ast.BoolOp,
    ast.Call,
    ast.Compare,
    ast.Constant,
    ast.Dict,
    ast.Expr,
    ast.FormattedValue,
    ast.IfExp,
    ast.JoinedStr,
    ast.List,
    ast.Name,
    ast.Pass,
    ast.Raise,
    ast.Return,
    ast.Set,
    ast.Slice,
    ast.Starred,
    ast.Subscript,
    ast.Tuple,
    ast.UnaryOp,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
    ast.keyword,
    ast.operator,
    ast.unaryop,
)
_SIMPLE_CALLS = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "round", "str"})


def fits_into_loop(definition: ast.FunctionDef, kept: Sequence[str]) -> bool:
    """Return whether a function does the same when its body stands in a loop over records.

    Args:
        definition: The function.
        kept: Parameters that are the same for all records, and have to stay so.
    """
    arguments = definition.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        return False
    names = {each.arg for each in arguments.posonlyargs + arguments.args}
    if any(each.startswith(PREFIX) for each in names):
        return False
    local = names.copy()
    for node in ast.walk(ast.Module(definition.body, [])):
        if isinstance(node, ast.Name):
            if node.id in _LOOKS_AT_ITS_FRAME or node.id.startswith(PREFIX):
                return False
            if isinstance(node.ctx, ast.Store):
                local.add(node.id)
            if not isinstance(node.ctx, ast.Load) and node.id in kept:
                return False
    try:
        _Flow(local).follow(definition.body, names)
    except _Unfit:
        return False
    return True


class _Unfit(Exception):
    """A body that does not fit into a loop."""


class _Flow:
    """Goes through statements with the variables that are set for sure.

    Args:
        local: All variables of the function.
    """

    def __init__(self, local: set[str]) -> None:
        self._local = local

    def follow(self, body: Sequence[ast.stmt], given: set[str]) -> set[str] | None:
        """Return what is set behind some statements; None if nothing comes behind them.

        Raises:
            _Unfit: If a statement does not fit, or can never be reached.
        """
        known: set[str] | None = given.copy()
        for statement in body:
            if known is None:
                raise _Unfit
            if isinstance(statement, ast.If):
                self._check(statement.test, known)
                ends = [self.follow(each, known) for each in (statement.body, statement.orelse)]
                going = [end for end in ends if end is not None]
                known = set.intersection(*going) if going else None
            elif isinstance(statement, (ast.Return, ast.Raise)):
                self._check(statement, known)
                known = None
            else:
                self._take(statement, known)
        return known

    def _take(self, statement: ast.stmt, known: set[str]) -> None:
        """Check a statement, and add what it sets."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
            if statement.value.value is not None:
                self._check(statement.value.value, known)
            return
        self._check(statement, known)
        if isinstance(statement, ast.AugAssign):
            if isinstance(statement.target, ast.Name) and statement.target.id not in known:
                raise _Unfit
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                known |= _set_by(target)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            known |= _set_by(statement.target)

    def _check(self, tree: ast.AST, known: set[str]) -> None:
        for node in ast.walk(tree):
            if not isinstance(node, _SIMPLE) or (node is not tree and isinstance(node, ast.stmt)):
                raise _Unfit
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and self._is_unset(node.id, known)
            ):
                raise _Unfit

    def _is_unset(self, name: str, known: set[str]) -> bool:
        return name in self._local and name not in known


def _set_by(target: ast.expr) -> set[str]:
    return {
        node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def is_simple(expression: ast.expr) -> bool:
    """Return whether an expression has no functions, loops or assignments in it."""
    return all(isinstance(node, _SIMPLE) for node in ast.walk(expression))


def goes_its_own_way(tree: ast.AST, function: FunctionType, own: set[str]) -> bool:
    """Return whether an expression or statement may run code that asks for the current key: nearly any call may.

    Args:
        tree: The expression or statement.
        function: Whose it is.
        own: The record, and variables of the function.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _SIMPLE_CALLS or node.keywords:
                return True
        elif isinstance(node, ast.Attribute) or _is_strange(node, function, own):
            return True
    return False


def _is_strange(node: ast.AST, function: FunctionType, own: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id not in own and not _is_known(node.id, function)


def _is_known(name: str, function: FunctionType) -> bool:
    """Return whether a name from outside stands for a number, a string or the like, or for a builtin function."""
    missing = function
    found: Any = function.__globals__.get(name, missing)
    if found is missing:
        return name in _SIMPLE_CALLS and hasattr(builtins, name)
    return type(found) in ATOMIC
