"""Expressions of the Table API as trees, the same that SQL texts become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.sql import ast

__all__ = ["expanded", "in_call", "items_of", "map_tree", "names_of", "order_of", "tree_of"]


def tree_of(expression: Any) -> ast.Expression:
    """Return an expression's tree.

    Raises:
        TypeMismatchError: If it is no expression.
    """
    if isinstance(expression, ast.Expression):
        return expression
    node = getattr(expression, "node", None)
    if isinstance(node, ast.Expression):
        return node
    if hasattr(expression, "declared") and callable(expression):
        return tree_of(expression())  # a function of the user, of no arguments
    if isinstance(expression, str):
        from millstream.table.sql.parser import parse_expression

        return parse_expression(expression)
    raise TypeMismatchError(
        f"the Table API was given {shorten(expression)}, which is no expression",
        hint='Use col("name"), lit(value), or a call of a function.',
    )


def names_of(expression: Any) -> tuple[str, ...]:
    """Return the names that `alias` gave an expression."""
    names = getattr(expression, "names", ())
    return tuple(names) if isinstance(names, tuple) else ()


def order_of(expression: Any) -> ast.OrderItem:
    """Return an expression of order_by with its direction."""
    order = getattr(expression, "order", None)
    return order if isinstance(order, ast.OrderItem) else ast.OrderItem(tree_of(expression))


def items_of(expressions: Sequence[Any]) -> tuple[ast.SelectItem, ...]:
    """Return what `select` is given as items of SELECT."""
    items = []
    for each in expressions:
        names = names_of(each)
        items.append(ast.SelectItem(tree_of(each), names[0] if names else ""))
    return tuple(items)


def map_tree(tree: Any, change: Callable[[ast.Expression], ast.Expression | None]) -> Any:
    """Return a tree with expressions replaced, top down; None leaves one (and looks into it)."""
    if isinstance(tree, ast.Expression):
        changed = change(tree)
        if changed is not None:
            return changed
    if isinstance(tree, tuple):
        return tuple(map_tree(each, change) for each in tree)
    if not is_dataclass(tree) or isinstance(tree, (type, ast.Query, ast.Relation)):
        return tree
    if not isinstance(tree, (ast.Expression, ast.OrderItem, ast.WindowSpec, ast.SelectItem, ast.FrameBound)):
        return tree
    found = {
        each.name: map_tree(getattr(tree, each.name), change)
        for each in fields(tree)
        if each.name not in ("at", "type", "name")
    }
    changes = {name: value for name, value in found.items() if value is not getattr(tree, name)}
    return replace(tree, **changes) if changes else tree


# --- with_columns, without_columns


def expanded(items: Sequence[ast.SelectItem], names: Sequence[str]) -> tuple[ast.SelectItem, ...]:
    """Return items with `with_columns(...)` and `without_columns(...)` as the columns they mean.

    Raises:
        ValidationError: If they name columns that are not there.
    """
    result: list[ast.SelectItem] = []
    for item in items:
        chosen = _chosen(item.expression, names)
        if chosen is None:
            changed = map_tree(item.expression, lambda tree: in_call(tree, names))
            result.append(item if changed is item.expression else replace(item, expression=changed))
        else:
            result += [ast.SelectItem(ast.Column((name,))) for name in chosen]
    return tuple(result)


def in_call(tree: ast.Expression, names: Sequence[str]) -> ast.Expression | None:
    """Expand column functions among a call's arguments."""
    if not isinstance(tree, ast.Function):
        return None
    arguments: list[ast.Expression] = []
    some = False
    for each in tree.arguments:
        chosen = _chosen(each, names)
        if chosen is None:
            arguments.append(each)
        else:
            some = True
            arguments += [ast.Column((name,)) for name in chosen]
    return replace(tree, arguments=tuple(arguments)) if some else None


def _word(tree: ast.Expression) -> str:
    return tree.name.replace("_", "").upper() if isinstance(tree, ast.Function) else ""


def _chosen(tree: ast.Expression, names: Sequence[str]) -> list[str] | None:
    word = _word(tree)
    if word not in ("WITHCOLUMNS", "WITHOUTCOLUMNS", "WITHALLCOLUMNS"):
        return None
    assert isinstance(tree, ast.Function)
    if word == "WITHALLCOLUMNS":
        return list(names)
    picked = [name for each in tree.arguments for name in _picked(each, names)]
    return picked if word == "WITHCOLUMNS" else [name for name in names if name not in picked]


def _picked(tree: ast.Expression, names: Sequence[str]) -> list[str]:
    if isinstance(tree, ast.Star):
        return list(names)
    if isinstance(tree, ast.Column):
        return [_known(tree.parts[0], names, tree)] if tree.parts != ("*",) else list(names)
    if isinstance(tree, ast.LiteralValue) and isinstance(tree.value, int):
        return [names[_place(tree.value, names, tree)]]
    if _word(tree) in ("RANGE", "RANGETO", "TO") and isinstance(tree, ast.Function):
        start, stop = (_bound(each, names) for each in tree.arguments)
        return list(names[start : stop + 1])
    chosen = _chosen(tree, names)
    if chosen is not None:
        return chosen
    raise ValidationError("with_columns was given something that names no column", at=tree.at)


def _bound(tree: ast.Expression, names: Sequence[str]) -> int:
    if isinstance(tree, ast.LiteralValue) and isinstance(tree.value, int):
        return _place(tree.value, names, tree)
    if isinstance(tree, ast.LiteralValue) and isinstance(tree.value, str):
        return names.index(_known(tree.value, names, tree))
    if isinstance(tree, ast.Column):
        return names.index(_known(tree.parts[0], names, tree))
    raise ValidationError("range_ was given something that names no column", at=tree.at)


def _place(number: int, names: Sequence[str], tree: ast.Expression) -> int:
    if not 1 <= number <= len(names):
        raise ValidationError(
            f"column {number} was named, but there are {len(names)}, counted from 1", at=tree.at
        )
    return number - 1


def _known(name: str, names: Sequence[str], tree: ast.Expression) -> str:
    if name not in names:
        raise ValidationError(
            f'column "{name}" was not found',
            at=tree.at,
            detail=f"There are: {', '.join(names)}.",
            hint=did_you_mean(name, names),
        )
    return name
