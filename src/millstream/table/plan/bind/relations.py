"""FROM: tables, views, subqueries, joins, table functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import InputRef, Literal, RowExpression, RowSchema, and_all
from millstream.table.plan import nodes
from millstream.table.plan.bind.changelog_functions import bind_changelog_function, is_changelog_function
from millstream.table.plan.bind.decorrelate import decorrelate
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.hints import Hints, check_hints, lookup_hint, side_ttls
from millstream.table.plan.bind.match import bind_match
from millstream.table.plan.bind.process_functions import bind_process_function, is_process_function
from millstream.table.plan.bind.scope import Scope, ScopeColumn
from millstream.table.plan.bind.subqueries import over_join
from millstream.table.plan.bind.table_functions import bind_table_function, correlate
from millstream.table.plan.bind.tables import scan_of
from millstream.table.plan.bind.window_functions import bind_window_function, is_window_function
from millstream.table.plan.context import PlanContext, ViewDefinition
from millstream.table.plan.logical import JoinKind, LogicalNode, Snapshot, Values
from millstream.table.sql import ast
from millstream.types.datatypes import IntType

__all__ = ["Bound", "RelationBinder"]

BindQuery = Callable[[ast.Query, "Scope | None"], LogicalNode]

_KINDS = {
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
}


@dataclass(frozen=True)
class Bound:
    """A relation with what its columns are called."""

    node: LogicalNode
    scope: Scope


@dataclass
class RelationBinder:
    """Binds what stands behind FROM.

    Attributes:
        context: The query's surroundings.
        bind_query: Binds a query; a scope is given where it may refer to what is around.
        with_queries: Bound queries of WITH, by name.
        parent: Scope of the query around.
        hints: Of the SELECT, for joins.
    """

    context: PlanContext
    bind_query: BindQuery
    with_queries: Mapping[str, LogicalNode] = field(default_factory=dict)
    parent: Scope | None = None
    hints: Hints = ()

    def __post_init__(self) -> None:
        self._names: list[str] = []
        self._looked_up: list[str] = []

    def bind_source(self, relation: ast.Relation | None) -> Bound:
        """Return a bound FROM, whose tables the hints name.

        Raises:
            ValidationError: If something in it, or a hint, does not fit.
        """
        bound = self.bind(relation)
        self._names += [part for each in bound.scope.columns for part in each.qualifiers[-1:]]
        check_hints(self.hints, self._names, self._looked_up)
        return bound

    def bind(self, relation: ast.Relation | None) -> Bound:
        """Return a bound relation; without FROM one row without columns."""
        if relation is None:
            return self._one_row()
        if isinstance(relation, ast.BoundRelation):
            return Bound(relation.node, Scope.of(relation.node.schema, (), self.parent))
        if isinstance(relation, ast.TableName):
            node = self._table(relation)
            return Bound(node, Scope.of(node.schema, relation.parts, self.parent))
        if isinstance(relation, ast.Alias):
            return self._alias(relation, self.bind(relation.relation))
        if isinstance(relation, ast.Derived):
            node = self.bind_query(relation.query, None)
            return Bound(node, Scope.of(node.schema, (), self.parent))
        if isinstance(relation, ast.JoinRelation):
            return self._join(relation)
        if isinstance(relation, ast.TableFunction):
            return self._function(relation.call)
        if isinstance(relation, ast.Lateral):
            return self.bind(relation.relation)
        if isinstance(relation, ast.Unnest):
            return self._lateral(self._one_row(), relation)
        if isinstance(relation, ast.MatchRecognize):
            searched = self.bind(relation.relation)
            node = bind_match(self.context, relation, searched.node, searched.scope)
            return Bound(node, Scope.of(node.schema, (), self.parent))
        raise ValidationError(
            f"{_word(relation)} cannot stand here", at=relation.at, hint="See docs/sql/queries.md."
        )

    # --- tables

    def _table(self, relation: ast.TableName) -> LogicalNode:
        if len(relation.parts) == 1 and relation.parts[0] in self.with_queries:
            return self.with_queries[relation.parts[0]]
        found = self.context.catalog.find_relation(relation.parts)
        name = ".".join(relation.parts)
        if found is None:
            names = [*self.with_queries, *self.context.catalog.relation_names()]
            raise ValidationError(
                f'table "{name}" was not found',
                at=relation.at,
                detail=f"There are: {', '.join(names) or 'none'}.",
                hint=did_you_mean(relation.parts[-1], names),
            )
        if isinstance(found, LogicalNode):
            return found
        if isinstance(found, ViewDefinition):
            return self._view(found, name)
        return scan_of(self.context, found, relation.hints)

    def _view(self, view: ViewDefinition, name: str) -> LogicalNode:
        if isinstance(view.query, LogicalNode):
            node = view.query
        else:
            from millstream.table.plan.bind.queries import QueryBinder

            try:
                node = QueryBinder(self.context).bind(view.query)
            except ValidationError as error:
                error.position = None
                error.message = f'view "{name}": {error.message}'
                raise
        if view.columns:
            if len(view.columns) != len(node.schema):
                raise ValidationError(
                    f'view "{name}" has {len(view.columns)} names for {len(node.schema)} columns'
                )
            return nodes.project(node, nodes.refs(node.schema), view.columns)
        return node

    def _alias(self, relation: ast.Alias, bound: Bound) -> Bound:
        columns = relation.columns
        visible = [each for each in bound.scope.columns if not each.hidden]
        if columns and len(columns) != len(visible):
            raise ValidationError(
                f'"{relation.name}" names {len(columns)} columns, but the relation has {len(visible)}',
                at=relation.at,
                detail=f"It has: {', '.join(each.name for each in visible)}.",
            )
        if columns:
            node = nodes.project(bound.node, [InputRef(each.index, each.type) for each in visible], columns)
            return Bound(node, Scope.of(node.schema, (relation.name,), self.parent))
        scope = Scope(
            tuple(ScopeColumn((relation.name,), each.name, each.index, each.type) for each in visible),
            self.parent,
        )
        return Bound(bound.node, scope)

    def _function(self, call: ast.Function) -> Bound:
        if is_changelog_function(call, self.context):
            node = bind_changelog_function(self.context, call, lambda each: self.bind(each).node)
            return Bound(node, Scope.of(node.schema, (), self.parent))
        if is_process_function(call, self.context):
            node = bind_process_function(self.context, call, lambda each: self.bind(each).node)
            return Bound(node, Scope.of(node.schema, (), self.parent))
        if is_window_function(call):
            node = bind_window_function(self.context, call, lambda each: self.bind(each).node)
            return Bound(node, Scope.of(node.schema, (), self.parent))
        return self._lateral(self._one_row(), ast.TableFunction(call, at=call.at))

    def _one_row(self) -> Bound:
        """Return one row, whose only column cannot be named."""
        number = IntType(nullable=False)
        node = Values(RowSchema(("ZERO",), (number,)), ((Literal(0, number),),))
        return Bound(node, Scope((), self.parent))

    # --- joins

    def _join(self, relation: ast.JoinRelation) -> Bound:
        left = self.bind(relation.left)
        if self._is_lateral(relation.right, left):
            return self.lateral_join(left, relation)
        temporal = _temporal(relation.right)
        if temporal is not None:
            return self._temporal_join(left, relation, temporal)
        right = self.bind(relation.right)
        if relation.natural or relation.using:
            return self._using(left, right, relation)
        kind = _KINDS[relation.kind]
        both = left.scope.joined(right.scope, len(left.node.schema))
        condition = self._condition(relation.condition, both)
        return self._joined(left, right, kind, condition)

    def _joined(self, left: Bound, right: Bound, kind: JoinKind, condition: RowExpression | None) -> Bound:
        self._names += [part for each in right.scope.columns for part in each.qualifiers[-1:]]
        node = nodes.join(left.node, right.node, kind, condition)
        node = replace(node, ttls=side_ttls(self.hints, left.scope, right.scope))
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return Bound(node, left.scope)
        return Bound(node, _typed(left.scope.joined(right.scope, len(left.node.schema)), node))

    def _condition(self, condition: ast.Expression | None, scope: Scope) -> RowExpression | None:
        if condition is None:
            return None
        binder = ExpressionBinder(self.context, scope, Extension("the condition of a join"))
        return binder.condition(condition)

    def _using(self, left: Bound, right: Bound, relation: ast.JoinRelation) -> Bound:
        """JOIN USING and NATURAL JOIN: equal columns come once, first."""
        from millstream.table.functions.registry import build_call

        names = relation.using or tuple(
            dict.fromkeys(
                each.name
                for each in left.scope.columns
                if any(each.name == other.name for other in right.scope.columns)
            )
        )
        width = len(left.node.schema)
        kind = _KINDS[relation.kind]
        conditions, pairs = [], []
        for name in names:
            one = left.scope.resolve((name,), relation.at)
            two = nodes.moved(right.scope.resolve((name,), relation.at), lambda place: place + width)
            conditions.append(build_call("=", [one, two], relation.at))
            pairs.append((one, two))
        bound = self._joined(left, right, kind, and_all(conditions))
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return bound
        schema = bound.node.schema

        def typed(expression: RowExpression) -> RowExpression:
            assert isinstance(expression, InputRef)
            return InputRef(expression.index, schema.types[expression.index])

        shared: list[RowExpression] = []
        for one, two in pairs:
            if kind is JoinKind.RIGHT:
                shared.append(typed(two))
            elif kind is JoinKind.FULL:
                shared.append(build_call("COALESCE", [typed(one), typed(two)], relation.at))
            else:
                shared.append(typed(one))
        expressions = [*shared, *nodes.refs(schema)]
        node = nodes.project(bound.node, expressions, [*names, *schema.names])
        count = len(names)
        hidden = {each.index for pair in pairs for each in pair if isinstance(each, InputRef)}
        columns = tuple(
            ScopeColumn((), name, place, expression.type)
            for place, (name, expression) in enumerate(zip(names, shared, strict=True))
        ) + tuple(
            replace(each, index=each.index + count, hidden=each.hidden or each.index in hidden)
            for each in bound.scope.columns
        )
        return Bound(node, Scope(columns, self.parent))

    # --- temporal and look-up joins

    def _temporal_join(
        self, left: Bound, relation: ast.JoinRelation, temporal: tuple[ast.TemporalTable, ast.Alias | None]
    ) -> Bound:
        table, alias = temporal
        versioned = self.bind(table.relation)
        if alias is not None:
            versioned = self._alias(alias, versioned)
        period = ExpressionBinder(self.context, left.scope, Extension("FOR SYSTEM_TIME AS OF")).bind(
            table.period
        )
        kind = _KINDS[relation.kind]
        if kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise ValidationError(
                f"{relation.kind} JOIN has FOR SYSTEM_TIME AS OF",
                at=relation.at,
                detail="INNER and LEFT joins can have it.",
            )
        snapshot = Snapshot(versioned.node.schema, versioned.node, period)
        both = left.scope.joined(versioned.scope, len(left.node.schema))
        condition = self._condition(relation.condition, both)
        self._looked_up += [part for each in versioned.scope.columns for part in each.qualifiers[-1:]]
        hints = lookup_hint(self.hints, versioned.scope)
        node = nodes.join(left.node, snapshot, kind, condition, hints=hints)
        return Bound(node, _typed(both, node))

    # --- lateral

    def _is_lateral(self, relation: ast.Relation, left: Bound) -> bool:
        inner = _without_alias(relation)
        if isinstance(inner, ast.TableFunction):
            return not self._takes_tables(inner.call)
        return isinstance(inner, (ast.Lateral, ast.Unnest))

    def _takes_tables(self, call: ast.Function) -> bool:
        return (
            is_window_function(call)
            or is_changelog_function(call, self.context)
            or is_process_function(call, self.context)
        )

    def lateral_join(self, left: Bound, relation: ast.JoinRelation) -> Bound:
        """Return a join whose right side refers to the left."""
        kind = _KINDS[relation.kind]
        if kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise ValidationError(
                f"{relation.kind} JOIN has a right side that refers to the left",
                at=relation.at,
                detail="INNER, CROSS and LEFT joins can have it.",
            )
        inner = _without_alias(relation.right)
        if isinstance(inner, ast.Lateral):
            deeper = _without_alias(inner.relation)
            if isinstance(deeper, ast.Derived):
                return self._lateral_query(left, relation, deeper, kind)
            inner = deeper
        if isinstance(inner, ast.TableFunction) and self._takes_tables(inner.call):
            raise ValidationError(
                f'function "{inner.call.name}" takes tables, and was called behind LATERAL',
                at=inner.call.at or relation.at,
                hint="Join what it gives: ... JOIN f(TABLE t) ON ...",
            )
        return self._lateral(left, inner, relation.right, kind, relation.condition)

    def _lateral_query(
        self, left: Bound, relation: ast.JoinRelation, derived: ast.Derived, kind: JoinKind
    ) -> Bound:
        node = self.bind_query(derived.query, left.scope)
        found = decorrelate(node)
        width, count = len(left.node.schema), len(node.schema)
        conditions = [over_join(each, width) for each in found.conditions]
        named = self._named(relation.right, replace(node.schema))
        both = left.scope.joined(named, width)
        own = self._condition(relation.condition, both)
        condition = and_all([*conditions, *([] if own is None else [own])])
        joined = nodes.join(left.node, found.node, kind, condition)
        if len(found.node.schema) > count:
            shown = range(width + count)
            joined_node: LogicalNode = nodes.project(
                joined, nodes.refs(joined.schema, shown), joined.schema.names[: width + count]
            )
        else:
            joined_node = joined
        return Bound(joined_node, _typed(both, joined_node))

    def _named(self, relation: ast.Relation, schema: RowSchema) -> Scope:
        """Return a scope of columns with the aliases that stand around a relation."""
        scope = Scope.of(schema, (), self.parent)
        aliases = []
        while isinstance(relation, (ast.Alias, ast.Lateral)):
            if isinstance(relation, ast.Alias):
                aliases.append(relation)
            relation = relation.relation
        for alias in reversed(aliases):
            if alias.columns and len(alias.columns) != len(schema):
                raise ValidationError(
                    f'"{alias.name}" names {len(alias.columns)} columns, but the relation has {len(schema)}',
                    at=alias.at,
                    detail=f"It has: {', '.join(schema.names)}.",
                )
            schema = replace(schema, names=alias.columns or schema.names)
            scope = Scope.of(schema, (alias.name,), self.parent)
        return scope

    def _lateral(
        self,
        left: Bound,
        relation: ast.Relation,
        named: ast.Relation | None = None,
        kind: JoinKind = JoinKind.INNER,
        condition: ast.Expression | None = None,
    ) -> Bound:
        around = Scope(left.scope.columns, self.parent)
        if isinstance(relation, ast.Unnest):
            name = "UNNEST WITH ORDINALITY" if relation.ordinality else "UNNEST"
            call = ast.Function(name, relation.arguments, at=relation.at)
        elif isinstance(relation, ast.TableFunction):
            call = relation.call
        else:
            raise ValidationError(f"{_word(relation)} cannot follow LATERAL", at=relation.at)
        bound_call, schema = bind_table_function(self.context, call, around, self)
        scope = self._named(named or relation, schema)
        both = left.scope.joined(scope, len(left.node.schema))
        bound_condition = self._condition(condition, both)
        node = correlate(left.node, bound_call, schema, kind, bound_condition)
        names = (*left.node.schema.names, *(each.name for each in scope.columns))
        node = replace(node, schema=replace(node.schema, names=names))
        return Bound(node, _typed(both, node))


def _typed(scope: Scope, node: LogicalNode) -> Scope:
    """Return a scope whose types are those of the relation (outer joins make columns nullable)."""
    return replace(
        scope,
        columns=tuple(replace(each, type=node.schema.types[each.index]) for each in scope.columns),
    )


def _without_alias(relation: ast.Relation) -> ast.Relation:
    while isinstance(relation, ast.Alias):
        relation = relation.relation
    return relation


def _temporal(relation: ast.Relation) -> tuple[ast.TemporalTable, ast.Alias | None] | None:
    if isinstance(relation, ast.TemporalTable):
        return relation, None
    if isinstance(relation, ast.Alias) and isinstance(relation.relation, ast.TemporalTable):
        return relation.relation, relation
    return None


def _word(relation: ast.Relation) -> str:
    words = {
        ast.TemporalTable: "FOR SYSTEM_TIME AS OF",
        ast.Unnest: "UNNEST",
    }
    return words.get(type(relation), type(relation).__name__)
