"""Statements made of text, with parts of a user's function in their places, as if they stood in its lines."""

from __future__ import annotations

import ast
from copy import deepcopy
from functools import lru_cache

__all__ = ["around", "expression", "statements"]


def statements(text: str, at: ast.AST, **parts: ast.expr) -> list[ast.stmt]:
    """Return statements in which each name of a part, behind `_ms_`, stands for a copy of that part.

    Args:
        text: The statements.
        at: Where errors in them are shown.
        parts: By name; a part may stand in several places.
    """
    tree = deepcopy(_parsed(text))
    for node in ast.walk(tree):
        ast.copy_location(node, at)
    filled: ast.Module = _Filling(parts).visit(tree)
    return filled.body


def expression(text: str, at: ast.AST, **parts: ast.expr) -> ast.expr:
    """Return an expression, made as `statements` are."""
    (statement,) = statements(text, at, **parts)
    assert isinstance(statement, ast.Expr)
    return statement.value


def around(text: str, at: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements, made as `statements` does, with a body in the place of `pass`."""
    return [_Nesting(body).visit(statement) for statement in statements(text, at)]


class _Nesting(ast.NodeTransformer):
    def __init__(self, body: list[ast.stmt]) -> None:
        self._body = body

    def visit_Pass(self, node: ast.Pass) -> list[ast.stmt]:
        return self._body


class _Filling(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        part = self._parts.get(node.id.removeprefix("_ms_"))
        return node if part is None else deepcopy(part)


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)
