"""Operations of the Table API on bound plans: the trees of SQL, bound over a relation that is bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import AggregateCall, InputRef, RowExpression
from millstream.table.functions.registry import is_aggregate
from millstream.table.functions.user import FunctionKind, called_function
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.queries import QueryBinder
from millstream.table.plan.bind.relations import Bound, RelationBinder
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.bind.select import SelectBinder
from millstream.table.plan.bind.set_operations import bind_set_operation
from millstream.table.plan.bind.table_expressions import (
    expanded,
    in_call,
    items_of,
    map_tree,
    order_of,
    tree_of,
)
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import JoinKind, LogicalNode, Sort
from millstream.table.sql import ast

__all__ = ["TableOperations", "window_property"]


@dataclass(frozen=True)
class TableOperations:
    """Makes plans of plans.

    Attributes:
        context: The session's surroundings.
        node: The relation.
    """

    context: PlanContext
    node: LogicalNode

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self.node.schema.names

    def _nested(self, query: ast.Query, parent: Scope | None) -> LogicalNode:
        return QueryBinder(self.context, None, parent).bind(query)

    def bind(self, select: ast.Select) -> LogicalNode:
        """Return a SELECT over the relation."""
        select = replace(select, items=expanded(select.items, self.names))
        return SelectBinder(self.context, self._nested, self.node, Scope.of(self.node.schema)).bind(select)

    # --- rows

    def select(self, expressions: Sequence[Any], windows: Sequence[Any] = ()) -> LogicalNode:
        """Return columns that are computed; `windows` are those that `over` may refer to."""
        named = tuple((each.name, each.window) for each in windows)
        items = tuple(_with_over(each) for each in items_of(expressions))
        return self.bind(ast.Select(items, windows=named))

    def filter(self, predicate: Any) -> LogicalNode:
        """Return the rows where a condition holds."""
        return self.bind(ast.Select((ast.SelectItem(ast.Star()),), where=tree_of(predicate)))

    def distinct(self) -> LogicalNode:
        """Return distinct rows."""
        return nodes.distinct(self.node)

    def renamed(self, names: Sequence[str]) -> LogicalNode:
        """Return the first columns under other names.

        Raises:
            ValidationError: If there are more names than columns, or a name comes twice.
        """
        if len(names) > len(self.names):
            raise ValidationError(f"alias was given {len(names)} names for {len(self.names)} columns")
        every = [*names, *self.names[len(names) :]]
        twice = sorted({name for name in every if every.count(name) > 1})
        if twice:
            raise ValidationError(f'alias gives the name "{twice[0]}" twice')
        return nodes.project(self.node, nodes.refs(self.node.schema), every)

    # --- groups

    def grouped(
        self, keys: Sequence[Any], expressions: Sequence[Any], windows: Sequence[Any] = ()
    ) -> LogicalNode:
        """Return aggregates by keys; keys that are names of `windows` stand for these."""
        calls = {each.name: each.call for each in windows}

        def key(tree: ast.Expression) -> ast.Expression:
            if isinstance(tree, ast.Column) and len(tree.parts) == 1:
                found: ast.Expression = calls.get(tree.parts[0], tree)
                return found
            return tree

        trees = tuple(key(each.expression) for each in expanded(items_of(keys), self.names))
        aliases = {
            names[0]: tree
            for each, tree in zip(keys, trees, strict=False)
            if (names := getattr(each, "names", ())) and len(keys) == len(trees)
        }

        def change(tree: ast.Expression) -> ast.Expression | None:
            if isinstance(tree, ast.Column) and tree.parts[0] in aliases and tree.parts[0] not in self.names:
                return aliases[tree.parts[0]]
            return window_property(tree, calls)

        items: list[ast.SelectItem] = []
        aggregates = 0
        for item in items_of(expressions):
            changed = map_tree(item.expression, change)
            name = item.alias
            if self._is_aggregate(item.expression):
                name = name or f"EXPR${aggregates}"  # Flink numbers aggregates, not columns
                aggregates += 1
            if not name and changed is not item.expression and isinstance(item.expression, ast.Column):
                name = item.expression.parts[-1]
            items.append(ast.SelectItem(changed, name))
        return self.bind(ast.Select(tuple(items), group=trees))

    def _is_aggregate(self, tree: ast.Expression) -> bool:
        """Whether an expression is an aggregate, not one of aggregates."""
        if not isinstance(tree, ast.Function):
            return False
        definition = called_function(tree, self.context.catalog)
        return is_aggregate(tree.name) if definition is None else definition.is_aggregate

    def table_aggregated(self, keys: Sequence[Any], call: Any) -> LogicalNode:
        """Return the keys, and the rows that a table aggregate function gives for each.

        Raises:
            ValidationError: If the call is none of such a function.
        """
        binder = ExpressionBinder(self.context, Scope.of(self.node.schema), Extension("flat_aggregate"))
        tree = map_tree(tree_of(call), lambda each: in_call(each, self.names))
        definition = called_function(tree, self.context.catalog) if isinstance(tree, ast.Function) else None
        if definition is None or definition.kind is not FunctionKind.TABLE_AGGREGATE:
            raise ValidationError(
                "flat_aggregate was given something that is no call of a table aggregate function",
                at=tree.at,
                hint="Make one with udtaf(...); an aggregate function belongs to aggregate(...).",
            )
        items = expanded(items_of(keys), self.names)
        inputs = [binder.bind(each.expression) for each in items]
        names = [
            each.alias
            or (each.expression.parts[-1] if isinstance(each.expression, ast.Column) else f"key{i}")
            for i, each in enumerate(items)
        ]
        arguments = [binder.bind(each) for each in tree.arguments]
        source = nodes.project(
            self.node,
            [*inputs, *arguments],
            nodes.unique_names([*names, *(f"$f{i}" for i in range(len(arguments)))]),
        )
        places = tuple(range(len(inputs), len(inputs) + len(arguments)))
        result = definition.result_type
        aggregate = AggregateCall(definition.name, places, result, user_function=definition)
        return nodes.table_aggregate(source, len(inputs), aggregate)

    # --- joins

    def join(self, right: LogicalNode, kind: str, predicate: Any) -> LogicalNode:
        """Return a join.

        Raises:
            ValidationError: If both sides have a column of the same name.
        """
        both = set(self.names) & set(right.schema.names)
        if both:
            raise ValidationError(
                f"join of tables that both have the column {', '.join(sorted(both))}",
                hint="Rename it on one side first: table.rename_columns(col(...).alias(...)) or alias(...).",
            )
        scope = Scope.of(self.node.schema).joined(Scope.of(right.schema), len(self.names))
        condition = None
        if predicate is not None:
            extension = Extension("the condition of a join")
            condition = ExpressionBinder(self.context, scope, extension).condition(tree_of(predicate))
        return nodes.join(self.node, right, JoinKind[kind], condition)

    def lateral(self, call: Any, names: Sequence[str], kind: str, predicate: Any) -> LogicalNode:
        """Return each row joined with what a table function gives of it."""
        tree = map_tree(tree_of(call), lambda each: in_call(each, self.names))
        if not isinstance(tree, ast.Function):
            raise ValidationError("join_lateral was given something that is no call of a table function")
        relation: ast.Relation = ast.TableFunction(tree)
        if names:
            relation = ast.Alias(relation, "$lateral", tuple(names))
        binder = RelationBinder(self.context, self._nested)
        left = Bound(self.node, Scope.of(self.node.schema))
        condition = None if predicate is None else tree_of(predicate)
        return binder.lateral_join(left, ast.JoinRelation(ast.TableName(()), relation, kind, condition)).node

    # --- sets

    def combined(self, right: LogicalNode, kind: str, *, every: bool) -> LogicalNode:
        """Return UNION, INTERSECT or EXCEPT."""
        empty = ast.ValuesQuery(())
        return bind_set_operation(ast.SetQuery(empty, empty, kind, every), self.node, right)

    # --- order

    def ordered(self, expressions: Sequence[Any]) -> LogicalNode:
        """Return rows in an order."""
        items = tuple(order_of(each) for each in expressions)
        return self.bind(ast.Select((ast.SelectItem(ast.Star()),), order=items))

    def limited(self, offset: int | None, fetch: int | None) -> LogicalNode:
        """Return some rows, of the order that was asked for just before.

        Raises:
            ValidationError: If a number is less than 0.
        """
        for name, value in (("offset", offset), ("fetch", fetch)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ValidationError(f"{name} was given {value!r}", detail="It is a whole number from 0.")
        node = self.node
        if isinstance(node, Sort) and node.fetch is None and (offset is None or not node.offset):
            return replace(node, offset=node.offset if offset is None else offset, fetch=fetch)
        return nodes.sort(node, (), offset or 0, fetch)

    # --- columns

    def added(self, expressions: Sequence[Any], *, replacing: bool) -> LogicalNode:
        """Return the columns with further ones; of `replacing` those of the same name take their place.

        Raises:
            ValidationError: If there is one of that name, and none is to be replaced.
        """
        items = list(items_of(expressions))
        columns = [ast.SelectItem(ast.Column((name,)), name) for name in self.names]
        for item in items:
            name = item.alias or (
                item.expression.parts[-1] if isinstance(item.expression, ast.Column) else ""
            )
            if name in self.names and not replacing:
                raise ValidationError(
                    f'column "{name}" is there already', hint="Use add_or_replace_columns, or another name."
                )
            if name in self.names:
                columns[self.names.index(name)] = ast.SelectItem(item.expression, name)
            else:
                columns.append(item)
        return self.bind(ast.Select(tuple(columns)))

    def with_names(self, expressions: Sequence[Any]) -> LogicalNode:
        """Return the columns, some under other names: `col("a").alias("b")`.

        Raises:
            ValidationError: If there is no such column.
        """
        names = list(self.names)
        for item in items_of(expressions):
            column = self._column(item.expression, "rename_columns")
            if not item.alias:
                raise ValidationError(f'rename_columns gives "{column}" no new name', hint="Add .alias(...).")
            names[self.names.index(column)] = item.alias
        return nodes.project(self.node, nodes.refs(self.node.schema), names)

    def without(self, expressions: Sequence[Any]) -> LogicalNode:
        """Return the columns but some.

        Raises:
            ValidationError: If there is no such column.
        """
        items = expanded(items_of(expressions), self.names)
        dropped = {self._column(item.expression, "drop_columns") for item in items}
        places = [place for place, name in enumerate(self.names) if name not in dropped]
        return nodes.project(
            self.node, nodes.refs(self.node.schema, places), [self.names[place] for place in places]
        )

    def _column(self, tree: ast.Expression, method: str) -> str:
        if not isinstance(tree, ast.Column) or len(tree.parts) != 1:
            raise ValidationError(f"{method} was given something that names no column", at=tree.at)
        name = tree.parts[0]
        if name not in self.names:
            raise ValidationError(
                f'{method} names the column "{name}", which is not there',
                detail=f"There are: {', '.join(self.names)}.",
                hint=did_you_mean(name, self.names),
            )
        return name

    # --- row functions

    def flattened(self, node: LogicalNode, place: int) -> LogicalNode:
        """Return a relation with a column of a row type as its fields."""
        from millstream.table.plan.bind.scope import field_of
        from millstream.types.datatypes import RowType

        schema = node.schema
        expressions: list[RowExpression] = []
        names: list[str] = []
        for index, kind in enumerate(schema.types):
            column = InputRef(index, kind)
            if index == place and isinstance(kind, RowType):
                expressions += [field_of(column, each.name, None) for each in kind.fields]
                names += kind.field_names()
            else:
                expressions.append(column)
                names.append(schema.names[index])
        return nodes.project(node, expressions, nodes.unique_names(names))


def window_property(tree: ast.Expression, windows: dict[str, ast.Function]) -> ast.Expression | None:
    """Return `col("w").start` and its like as SQL's functions of the window."""
    if not isinstance(tree, ast.Function) or len(tree.arguments) != 1:
        return None
    words = {"START": "START", "END": "END", "ROWTIME": "ROWTIME", "PROCTIME": "PROCTIME"}
    word = words.get(tree.name.upper().removeprefix("WINDOW").strip("_").removeprefix("WINDOW"))
    argument = tree.arguments[0]
    if word is None or not isinstance(argument, ast.Column) or argument.parts[-1] not in windows:
        return None
    call = windows[argument.parts[-1]]
    return ast.Function(f"{call.name}_{word}", call.arguments)


def _with_over(item: ast.SelectItem) -> ast.SelectItem:
    """Turn `agg.over(col("w"))` written as a call OVER(agg, w) into an aggregate with OVER."""

    def change(tree: ast.Expression) -> ast.Expression | None:
        if not isinstance(tree, ast.Function) or tree.name.upper() != "OVER" or len(tree.arguments) != 2:
            return None
        call, window = tree.arguments
        if isinstance(call, ast.Function) and isinstance(window, ast.Column):
            return replace(call, over=window.parts[-1])
        return None

    return ast.SelectItem(map_tree(item.expression, change), item.alias)
