"""SELECT: FROM, WHERE, GROUP BY, HAVING, OVER, SELECT, DISTINCT, ORDER BY, LIMIT, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    InputRef,
    Literal,
    RowExpression,
    SortKey,
    conjuncts,
)
from millstream.table.plan import nodes
from millstream.table.plan.bind.aggregation import Aggregation
from millstream.table.plan.bind.collector import Collector
from millstream.table.plan.bind.expressions import ExpressionBinder
from millstream.table.plan.bind.hints import ttl_of
from millstream.table.plan.bind.over import add_overs
from millstream.table.plan.bind.placeholders import OVER, replace_placeholders
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.bind.subqueries import Subqueries
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode
from millstream.table.sql import ast
from millstream.types.datatypes import IntType

__all__ = ["SelectBinder", "limits_of", "sort_by_output"]

BindQuery = Callable[[ast.Query, Scope], LogicalNode]


@dataclass
class SelectBinder:
    """Binds one SELECT over a relation that is bound.

    Attributes:
        context: The query's surroundings.
        bind_query: Binds subqueries, given the scope around them.
        relation: What FROM gives; without FROM one row without columns.
        scope: Its columns.
    """

    context: PlanContext
    bind_query: BindQuery
    relation: LogicalNode
    scope: Scope

    def bind(self, select: ast.Select) -> LogicalNode:
        """Return the bound query, with the names of its result."""
        subqueries = Subqueries()
        if select.where is not None:
            self._where(select.where)
        items = self._expand(select.items)
        grouped = select.group is not None or select.having is not None
        collector = self._collector("SELECT", subqueries, select)
        aggregation = None
        if select.group is not None:
            aggregation = Aggregation(self.context, self.relation, self.scope, self.bind_query)
            aggregation.keys_of(select.group)
            collector.group_window = aggregation.window_property
            collector.groupings = aggregation.groupings
        collector.may_be_empty = not select.group
        binder = ExpressionBinder(self.context, self.scope, collector)
        bound = [self._item(each, binder) for each in items]
        names = [name for _, name in bound]
        values = [expression for expression, _ in bound]
        collector.clause = "HAVING"
        overs, collector.overs = collector.overs, None
        having = None if select.having is None else binder.condition(select.having)
        collector.overs, collector.clause = overs, "QUALIFY"
        qualify = None if select.qualify is None else binder.condition(select.qualify)
        collector.clause = "ORDER BY"
        order = [self._order_item(each, items, values, names, binder) for each in select.order]
        if collector.aggregates or grouped:
            aggregation = aggregation or Aggregation(self.context, self.relation, self.scope, self.bind_query)
            aggregation.ttl_ms = ttl_of(select.hints, self.scope)
            return self._grouped(select, aggregation, collector, values, names, having, qualify, order)
        return self._finish(select, self.relation, collector, values, names, qualify, order)

    # --- clauses

    def _collector(self, clause: str, subqueries: Subqueries, select: ast.Select) -> Collector:
        return Collector(
            clause, self.bind_query, subqueries, aggregates=[], overs=[], windows=dict(select.windows)
        )

    def _where(self, where: ast.Expression) -> None:
        subqueries = Subqueries()
        binder = ExpressionBinder(self.context, self.scope, Collector("WHERE", self.bind_query, subqueries))
        self.relation = subqueries.filter(self.relation, binder.condition(where))

    def _expand(self, items: Sequence[ast.SelectItem]) -> list[ast.SelectItem | tuple[RowExpression, str]]:
        expanded: list[ast.SelectItem | tuple[RowExpression, str]] = []
        for each in items:
            if isinstance(each.expression, ast.Star):
                expanded += self.scope.star(each.expression.qualifier, each.expression.at)
            else:
                expanded.append(each)
        return expanded

    def _item(
        self, item: ast.SelectItem | tuple[RowExpression, str], binder: ExpressionBinder
    ) -> tuple[RowExpression, str]:
        if isinstance(item, tuple):
            return item
        bound = binder.bind(item.expression)
        return bound, item.alias or _name_of(item.expression)

    def _order_item(
        self,
        item: ast.OrderItem,
        items: Sequence[object],
        values: Sequence[RowExpression],
        names: Sequence[str],
        binder: ExpressionBinder,
    ) -> tuple[RowExpression, ast.OrderItem]:
        """Return what ORDER BY names: a column of the result by place or alias, or any expression."""
        expression = item.expression
        if isinstance(expression, ast.LiteralValue) and isinstance(expression.type, IntType):
            if not 1 <= expression.value <= len(values):
                raise ValidationError(
                    f"ORDER BY {expression.value} was used, but the result has {len(values)} columns",
                    at=expression.at,
                )
            return values[expression.value - 1], item
        if isinstance(expression, ast.Column) and len(expression.parts) == 1:
            matches = [place for place, name in enumerate(names) if name == expression.parts[0]]
            if matches:
                return values[matches[0]], item
        return binder.bind(expression), item

    # --- with aggregates

    def _grouped(
        self,
        select: ast.Select,
        aggregation: Aggregation,
        collector: Collector,
        values: Sequence[RowExpression],
        names: Sequence[str],
        having: RowExpression | None,
        qualify: RowExpression | None,
        order: list[tuple[RowExpression, ast.OrderItem]],
    ) -> LogicalNode:
        relation = aggregation.build(collector.aggregates or [], collector.properties)
        places = [each.at for each in map(_expression_of, select.items)]

        def seen(expression: RowExpression, at: ast.Position | None = None) -> RowExpression:
            return aggregation.over_result(expression, at)

        subqueries = collector.subqueries
        if having is not None:
            at = None if select.having is None else select.having.at
            for part in conjuncts(having):
                relation = subqueries.filter(relation, seen(part, at), seen)
        exact = len(places) == len(values)
        shown = [seen(each, places[place] if exact else None) for place, each in enumerate(values)]
        ordered = [(seen(each, item.expression.at), item) for each, item in order]
        filtered = None if qualify is None else seen(qualify)
        for index, each in enumerate(collector.overs or []):
            assert collector.overs is not None
            collector.overs[index] = aggregation.over_call(each)
        return self._finish(select, relation, collector, shown, names, filtered, ordered, seen)

    # --- the rest

    def _finish(
        self,
        select: ast.Select,
        relation: LogicalNode,
        collector: Collector,
        values: Sequence[RowExpression],
        names: Sequence[str],
        qualify: RowExpression | None,
        order: list[tuple[RowExpression, ast.OrderItem]],
        as_seen: Callable[[RowExpression], RowExpression] = lambda each: each,
    ) -> LogicalNode:
        count = len(values)
        expressions = [*values, *(each for each, _ in order), *([] if qualify is None else [qualify])]
        if collector.overs:
            relation, results = add_overs(self.context, relation, collector.overs)
            expressions = [replace_placeholders(each, OVER, results.__getitem__) for each in expressions]
        relation, expressions = collector.subqueries.resolve(relation, expressions, as_seen)
        if qualify is not None:
            relation = nodes.filtered(relation, expressions.pop())
        return _ordered(select, relation, expressions[:count], names, expressions[count:], order)


def _ordered(
    select: ast.Select,
    relation: LogicalNode,
    values: list[RowExpression],
    names: Sequence[str],
    sorts: list[RowExpression],
    order: list[tuple[RowExpression, ast.OrderItem]],
) -> LogicalNode:
    """Project, sort and limit; what is sorted by and not shown is dropped behind it."""
    shown = _output_names(names)
    keys: list[SortKey] = []
    hidden: list[RowExpression] = []
    for expression, (_, item) in zip(sorts, order, strict=True):
        if isinstance(expression, Literal):
            continue
        if expression in values:
            place = values.index(expression)
        else:
            if select.distinct:
                raise ValidationError(
                    "ORDER BY names something that SELECT DISTINCT does not give", at=item.expression.at
                )
            if expression not in hidden:
                hidden.append(expression)
            place = len(values) + hidden.index(expression)
        keys.append(sort_key(place, item))
    all_names = [*shown, *(f"$sort{each}" for each in range(len(hidden)))]
    result: LogicalNode = nodes.project(relation, [*values, *hidden], all_names)
    if select.distinct:
        result = nodes.distinct(result)
    offset, fetch = limits_of(select)
    if keys or fetch is not None or offset:
        result = nodes.sort(result, keys, offset, fetch)
    if hidden:
        result = nodes.project(result, nodes.refs(result.schema, range(len(values))), shown)
    return result


def _expression_of(item: ast.SelectItem) -> ast.Expression:
    return item.expression


def _name_of(expression: ast.Expression) -> str:
    if isinstance(expression, ast.Column):
        return expression.parts[-1]
    if isinstance(expression, ast.Function) and expression.name == "FIELD":
        named = expression.arguments[1]
        return str(named.value) if isinstance(named, ast.LiteralValue) else ""
    return ""


def _output_names(names: Sequence[str]) -> list[str]:
    """Return names, `EXPR$n` where there is none, as Flink names columns."""
    filled = [name or f"EXPR${place}" for place, name in enumerate(names)]
    return list(nodes.unique_names(filled))


def sort_key(place: int, item: ast.OrderItem) -> SortKey:
    """Return a key of ORDER BY; NULLs are smallest unless it says otherwise."""
    nulls_first = not item.descending if item.nulls_first is None else item.nulls_first
    return SortKey(place, item.descending, nulls_first)


def limits_of(query: ast.Query) -> tuple[int, int | None]:
    """Return OFFSET and LIMIT as numbers.

    Raises:
        ValidationError: If one is no constant number from 0.
    """
    found: list[int | None] = []
    for name, expression in (("OFFSET", query.offset), ("LIMIT", query.limit)):
        if expression is None:
            found.append(None)
            continue
        value = expression.value if isinstance(expression, ast.LiteralValue) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValidationError(f"{name} is no whole number from 0", at=expression.at)
        found.append(value)
    return found[0] or 0, found[1]


def sort_by_output(query: ast.Query, node: LogicalNode, context: PlanContext) -> LogicalNode:
    """Sort and limit a query by columns of its result (set operations, VALUES, WITH).

    Raises:
        ValidationError: If ORDER BY names something else.
    """
    from millstream.table.plan.bind.expressions import Extension

    offset, fetch = limits_of(query)
    if not query.order and fetch is None and not offset:
        return node
    binder = ExpressionBinder(context, Scope.of(node.schema), Extension("ORDER BY"))
    keys = []
    for item in query.order:
        expression = item.expression
        if isinstance(expression, ast.LiteralValue) and isinstance(expression.type, IntType):
            place = expression.value - 1
            if not 0 <= place < len(node.schema):
                raise ValidationError(
                    f"ORDER BY {expression.value} was used, but the result has {len(node.schema)} columns",
                    at=expression.at,
                )
        else:
            bound = binder.bind(expression)
            if not isinstance(bound, InputRef):
                raise ValidationError(
                    "ORDER BY behind a set operation names no column of the result", at=expression.at
                )
            place = bound.index
        keys.append(sort_key(place, item))
    return nodes.sort(node, keys, offset, fetch)
