"""Queries of all kinds: SELECT, VALUES, set operations, WITH."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import RowExpression, RowSchema
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.relations import RelationBinder
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.bind.select import SelectBinder, sort_by_output
from millstream.table.plan.bind.set_operations import bind_set_operation, common_types
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode, Values
from millstream.table.sql import ast

__all__ = ["QueryBinder", "bind_query"]


def bind_query(query: ast.Query, context: PlanContext) -> LogicalNode:
    """Return the bound plan of a query; its schema has the names of the result.

    Raises:
        ValidationError: If something in it does not fit; says where.
    """
    return QueryBinder(context).bind(query)


class QueryBinder:
    """Binds queries, one inside the other.

    Args:
        context: Their surroundings.
        with_queries: Bound queries of WITH, by name.
        parent: Scope of the query around, for subqueries.
    """

    def __init__(
        self,
        context: PlanContext,
        with_queries: Mapping[str, LogicalNode] | None = None,
        parent: Scope | None = None,
    ) -> None:
        self._context = context
        self._with = dict(with_queries or {})
        self._parent = parent

    def bind(self, query: ast.Query) -> LogicalNode:
        """Return the bound plan.

        Raises:
            ValidationError: If something does not fit.
        """
        if isinstance(query, ast.Select):
            return self._select(query)
        if isinstance(query, ast.SetQuery):
            sides = (self.bind(query.left), self.bind(query.right))
            return sort_by_output(query, bind_set_operation(query, *sides), self._context)
        if isinstance(query, ast.ValuesQuery):
            return sort_by_output(query, self._values(query), self._context)
        if isinstance(query, ast.With):
            return self._with_query(query)
        raise ValidationError(f"{type(query).__name__} is no query that can run", at=query.at)

    def _nested(self, query: ast.Query, parent: Scope | None) -> LogicalNode:
        """Bind a query inside; without a scope of its own it sees what this one sees around."""
        return QueryBinder(self._context, self._with, parent or self._parent).bind(query)

    def _select(self, select: ast.Select) -> LogicalNode:
        relations = RelationBinder(self._context, self._nested, self._with, self._parent, select.hints)
        bound = relations.bind_source(select.source)
        return SelectBinder(self._context, self._nested, bound.node, bound.scope).bind(select)

    def _with_query(self, query: ast.With) -> LogicalNode:
        named = dict(self._with)
        for each in query.ctes:
            node = QueryBinder(self._context, named, self._parent).bind(each.query)
            if each.columns:
                if len(each.columns) != len(node.schema):
                    raise ValidationError(
                        f'"{each.name}" of WITH names {len(each.columns)} columns, but its query has '
                        f"{len(node.schema)}",
                        at=query.at,
                    )
                node = nodes.project(node, nodes.refs(node.schema), each.columns)
            named[each.name] = node
        result = QueryBinder(self._context, named, self._parent).bind(query.query)
        return sort_by_output(query, result, self._context)

    def _values(self, query: ast.ValuesQuery) -> LogicalNode:
        binder = ExpressionBinder(self._context, Scope((), self._parent), Extension("VALUES"))
        rows: list[list[RowExpression]] = []
        for row in query.rows:
            parts = row
            if len(row) == 1 and isinstance(row[0], ast.Function) and row[0].name.upper() == "ROW":
                parts = row[0].arguments
            rows.append([binder.bind(each) for each in parts])
        if len({len(row) for row in rows}) > 1:
            raise ValidationError("rows of VALUES have different numbers of columns", at=query.at)
        names = tuple(f"EXPR${place}" for place in range(len(rows[0])))
        return values(rows, names, query.at)


def values(
    rows: list[list[RowExpression]], names: tuple[str, ...], at: ast.Position | None = None
) -> LogicalNode:
    """Return constant rows, their columns brought to common types.

    Raises:
        ValidationError: If there is no common type.
    """
    types, cast_rows = common_types(rows, "VALUES", at)
    schema = RowSchema(names, types)
    node: LogicalNode = Values(schema, tuple(map(tuple, cast_rows)))
    return replace(node)
