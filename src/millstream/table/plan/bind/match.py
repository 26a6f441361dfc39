"""MATCH_RECOGNIZE: from the tree of a text to a node over the relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import (
    InputRef,
    RowExpression,
    RowSchema,
    SortKey,
    inputs_of,
    map_inputs,
    transform,
)
from millstream.table.functions.registry import build_call
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.match_navigation import (
    NAVIGATION,
    MatchNames,
    MatchReferences,
    Navigations,
)
from millstream.table.plan.bind.match_pattern import bind_pattern, bind_skip
from millstream.table.plan.bind.placeholders import place_of
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode, Match
from millstream.table.plan.matching import Define, MatchClause, MatchPart
from millstream.table.sql import ast
from millstream.types.datatypes import LocalZonedTimestampType, TimestampType

__all__ = ["bind_match"]


def bind_match(
    context: PlanContext, clause: ast.MatchRecognize, relation: LogicalNode, scope: Scope
) -> LogicalNode:
    """Return the matches of a relation.

    Args:
        context: The query's surroundings.
        clause: What is searched for.
        relation: Where.
        scope: What the relation's columns are called.

    Raises:
        ValidationError: If something does not fit, or is not supported; says where.
    """
    _check_supported(clause)
    return _Binding(context, clause, relation, scope).bind()


def _check_supported(clause: ast.MatchRecognize) -> None:
    if clause.rows_per_match == "ALL ROWS PER MATCH":
        raise ValidationError(
            "MATCH_RECOGNIZE has ALL ROWS PER MATCH",
            at=clause.at,
            detail="All rows per match mode is not supported: a match gives one row.",
            hint="Leave it out, or write ONE ROW PER MATCH.",
        )
    if clause.subsets:
        raise ValidationError(
            f"MATCH_RECOGNIZE has SUBSET {clause.subsets[0][0]} = ({', '.join(clause.subsets[0][1])})",
            at=clause.at,
            detail="SUBSET is not supported.",
            hint="Name the variables one by one.",
        )


@dataclass
class _Binding:
    context: PlanContext
    clause: ast.MatchRecognize
    relation: LogicalNode
    scope: Scope
    inputs: list[RowExpression] = field(default_factory=list)

    def bind(self) -> LogicalNode:
        schema = self.relation.schema
        self.inputs = nodes.refs(schema)
        parts = bind_pattern(self.clause)
        partition = self._partition()
        order = self._order()
        time = order[0].index
        skip, variable = bind_skip(self.clause, parts)
        within_ms = self._within()
        names = MatchNames.of(schema, [part.variable for part in parts])
        found = Navigations(names, self._column, schema.types[time])
        defines = self._defines(parts, found)
        measures = [
            self._expression(each, MatchReferences("MEASURES", found), names)
            for each, _ in self.clause.measures
        ]
        source = self._source()
        width = len(source.schema)
        bound = MatchClause(
            partition,
            order,
            parts,
            skip,
            variable,
            within_ms,
            tuple(Define(name, self._placed(each, found, width, name)) for name, each in defines),
            (),
            tuple(self._placed(each, found, width, None) for each in measures),
        )
        bound = _with_navigations(bound, found, width)
        return Match(self._schema(bound, width), source, bound)

    # --- clauses

    def _column(self, expression: RowExpression) -> int:
        """Return the place of an expression over the relation's columns; one that is computed is put behind them."""
        if expression not in self.inputs:
            self.inputs.append(expression)
        return self.inputs.index(expression)

    def _source(self) -> LogicalNode:
        schema = self.relation.schema
        if len(self.inputs) == len(schema):
            return self.relation
        names = [*schema.names, *(f"$m{place}" for place in range(len(schema), len(self.inputs)))]
        return nodes.project(self.relation, self.inputs, names)

    def _partition(self) -> tuple[int, ...]:
        binder = ExpressionBinder(self.context, self.scope, Extension("PARTITION BY of MATCH_RECOGNIZE"))
        places = []
        for each in self.clause.partition:
            bound = binder.bind(each)
            if not isinstance(bound, InputRef):
                raise ValidationError(
                    "PARTITION BY of MATCH_RECOGNIZE has an expression",
                    at=each.at,
                    detail="It has columns.",
                    hint="Compute it in a subquery and partition by its column.",
                )
            places.append(bound.index)
        return tuple(dict.fromkeys(places))

    def _order(self) -> tuple[SortKey, ...]:
        binder = ExpressionBinder(self.context, self.scope, Extension("ORDER BY of MATCH_RECOGNIZE"))
        keys = []
        for item in self.clause.order:
            place = self._column(binder.bind(item.expression))
            first = not item.descending if item.nulls_first is None else item.nulls_first
            keys.append(SortKey(place, item.descending, first))
        self._check_order(keys)
        return tuple(keys)

    def _check_order(self, keys: Sequence[SortKey]) -> None:
        schema = self.relation.schema
        hint = "Order by the column with the WATERMARK, or by a PROCTIME() column, first."
        if not keys:
            raise ValidationError(
                "MATCH_RECOGNIZE has no ORDER BY",
                at=self.clause.at,
                detail="Rows are matched in the order of a time attribute.",
                hint=hint,
            )
        item, key = self.clause.order[0], keys[0]
        times = schema.rowtime | schema.proctime
        in_batch = (
            self.context.batch
            and key.index < len(schema)
            and isinstance(schema.types[key.index], (TimestampType, LocalZonedTimestampType))
        )
        if key.index not in times and not in_batch:
            name = schema.names[key.index] if key.index < len(schema) else "an expression"
            raise ValidationError(
                f'MATCH_RECOGNIZE is ordered by "{name}", which is no time attribute',
                at=item.expression.at,
                detail="You must specify either rowtime or proctime for ORDER BY, first.",
                hint=hint,
            )
        if key.descending:
            raise ValidationError(
                f'MATCH_RECOGNIZE is ordered by "{schema.names[key.index]}", descending',
                at=item.expression.at,
                detail="Primary sort order of a streaming table must be ascending on time.",
                hint="Leave out DESC.",
            )

    def _within(self) -> int | None:
        within = self.clause.within
        if within is None:
            return None
        assert isinstance(within, ast.IntervalLiteral)
        if within.months:
            raise ValidationError(
                "WITHIN has an interval of months",
                at=within.at or self.clause.at,
                detail="Only constant intervals of days to seconds are supported: months differ in length.",
            )
        if within.value <= 0:
            raise ValidationError(
                "WITHIN has an interval that is not positive", at=within.at or self.clause.at
            )
        return within.value

    def _defines(self, parts: tuple[MatchPart, ...], found: Navigations) -> list[tuple[str, RowExpression]]:
        variables = [part.variable for part in parts]
        defines: list[tuple[str, RowExpression]] = []
        for name, node in self.clause.defines:
            if name not in variables:
                raise ValidationError(
                    f'DEFINE has "{name}", which is not in the pattern',
                    at=node.at,
                    detail=f"The pattern has: {', '.join(variables)}.",
                    hint=did_you_mean(name, variables),
                )
            if name in (each for each, _ in defines):
                raise ValidationError(f'DEFINE has "{name}" twice', at=node.at)
            references = MatchReferences(f'DEFINE of "{name}"', found)
            binder = ExpressionBinder(self.context, found.names.scope, references)
            defines.append((name, binder.condition(node)))
        return defines

    def _expression(
        self, node: ast.Expression, references: MatchReferences, names: MatchNames
    ) -> RowExpression:
        return ExpressionBinder(self.context, names.scope, references).bind(node)

    # --- what conditions and measures are over

    def _placed(
        self, expression: RowExpression, found: Navigations, width: int, variable: str | None
    ) -> RowExpression:
        """Return an expression over the input's columns and navigations.

        Args:
            expression: Over names of the clause and placeholders.
            found: The navigations; more are added.
            width: How many columns the input has.
            variable: Whose condition it is, in which the row that is looked at counts as its last; None of measures.
        """

        def change(part: RowExpression) -> RowExpression | None:
            number = place_of(part, NAVIGATION)
            if number is None and isinstance(part, InputRef):
                number = found.last_of(part)
            if number is None:
                return None
            navigation = found.items[number]
            here = navigation.function == "LAST" and navigation.offset == 0
            if variable is not None and here and navigation.variable in (variable, ""):
                assert navigation.column is not None
                return InputRef(navigation.column, navigation.type)
            return InputRef(width + number, navigation.type)

        return transform(expression, change)

    def _schema(self, bound: MatchClause, width: int) -> RowSchema:
        schema = self.relation.schema
        names = [schema.names[each] for each in bound.partition] + [name for _, name in self.clause.measures]
        types = [schema.types[each] for each in bound.partition] + [each.type for each in bound.measures]
        if not names:
            raise ValidationError(
                "MATCH_RECOGNIZE gives no column: it has neither PARTITION BY nor MEASURES",
                at=self.clause.at,
                hint="Add MEASURES, such as MATCH_ROWTIME() AS at_time.",
            )
        rowtime, proctime = set(), set()
        is_rowtime = bound.order[0].index in schema.rowtime
        for place, each in enumerate(bound.measures, len(bound.partition)):
            if isinstance(each, InputRef) and bound.navigations[each.index - width].function == "ROWTIME":
                rowtime |= {place} if is_rowtime else set()
            if each == build_call("PROCTIME", []):
                proctime.add(place)
        return RowSchema(tuple(names), tuple(types), frozenset(rowtime), frozenset(proctime))


def _with_navigations(bound: MatchClause, found: Navigations, width: int) -> MatchClause:
    """Return the clause with the navigations that are read."""
    expressions = [*(each.condition for each in bound.defines), *bound.measures]
    used = sorted({place for each in expressions for place in inputs_of(each) if place >= width})
    place_of_used = {place: width + number for number, place in enumerate(used)}

    def moved(place: int) -> int:
        return place_of_used.get(place, place)

    return replace(
        bound,
        navigations=tuple(found.items[place - width] for place in used),
        defines=tuple(replace(each, condition=map_inputs(each.condition, moved)) for each in bound.defines),
        measures=tuple(map_inputs(each, moved) for each in bound.measures),
    )
