"""Full names in queries: a view means the same tables whatever is current when it is used."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from millstream.table.catalog.manager import CatalogManager
from millstream.table.sql import ast

__all__ = ["with_full_names"]


def with_full_names(query: ast.Query, catalogs: CatalogManager) -> ast.Query:
    """Return a query whose tables have their full names; names of WITH stay as they are."""
    found: ast.Query = _renamed(query, catalogs, frozenset())
    return found


def _renamed(node: Any, catalogs: CatalogManager, own: frozenset[str]) -> Any:
    if isinstance(node, ast.TableName):
        if (len(node.parts) == 1 and node.parts[0] in own) or catalogs.find(node.parts) is None:
            return node
        full = replace(node, parts=catalogs.qualify(node.parts))
        # The short name stays what columns can be qualified by.
        return full if len(node.parts) > 1 else ast.Alias(full, node.parts[0], at=node.at)
    if isinstance(node, ast.Alias) and isinstance(node.relation, ast.TableName):
        inner = _renamed(node.relation, catalogs, own)
        return replace(node, relation=inner.relation if isinstance(inner, ast.Alias) else inner)
    if isinstance(node, ast.With):
        own = own | {cte.name for cte in node.ctes}
    if isinstance(node, tuple):
        return tuple(_renamed(each, catalogs, own) for each in node)
    if not is_dataclass(node) or isinstance(node, (type, ast.Position)):
        return node
    if not isinstance(
        node, (ast.Query, ast.Relation, ast.Expression, ast.SelectItem, ast.Cte, ast.OrderItem)
    ):
        return node
    changes = {}
    for field in fields(node):
        value = getattr(node, field.name)
        changed = _renamed(value, catalogs, own)
        if changed is not value:
            changes[field.name] = changed
    return replace(node, **changes) if changes else node
