"""Subqueries in expressions become joins: SEMI and ANTI where they are a condition, else LEFT joins with a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    RowExpression,
    and_all,
    conjuncts,
    map_inputs,
    transform,
)
from millstream.table.functions.registry import build_call
from millstream.table.plan import nodes
from millstream.table.plan.bind.decorrelate import Decorrelated, decorrelate
from millstream.table.plan.bind.placeholders import (
    SUBQUERY,
    has_placeholder,
    lower_outer,
    place_of,
    placeholder,
    replace_placeholders,
)
from millstream.table.plan.bind.scope import type_with_nullability
from millstream.table.plan.logical import Aggregate, JoinKind, LogicalNode, Project
from millstream.table.sql import ast
from millstream.types.datatypes import BigIntType, BooleanType, IntType

__all__ = ["Pending", "Subqueries", "over_join"]

_COUNT = BigIntType(nullable=False)

Mapper = Callable[[RowExpression], RowExpression]


@dataclass(frozen=True)
class Pending:
    """A subquery that is bound and not joined yet.

    Attributes:
        kind: EXISTS, IN or SCALAR.
        node: Its relation, with `$OUTER`s.
        operands: Of IN: the values that are looked for.
        comparison: Of IN: how values are compared.
        every: Whether all rows have to compare so (ALL).
        at: Its place in the text.
    """

    kind: str
    node: LogicalNode
    operands: tuple[RowExpression, ...] = ()
    comparison: str = "="
    every: bool = False
    at: ast.Position | None = None


class Subqueries:
    """The subqueries of one SELECT."""

    def __init__(self) -> None:
        self._pending: list[Pending] = []

    def add(self, pending: Pending) -> RowExpression:
        """Note a subquery; returns what stands for its value."""
        data_type = (
            type_with_nullability(pending.node.schema.types[0], nullable=True)
            if pending.kind == "SCALAR"
            else BooleanType(nullable=pending.kind == "IN")
        )
        self._pending.append(pending)
        return placeholder(SUBQUERY, len(self._pending) - 1, data_type)

    def filter(
        self, relation: LogicalNode, condition: RowExpression, as_seen: Mapper = lambda each: each
    ) -> LogicalNode:
        """Return the relation's rows where a condition holds; its columns stay.

        Args:
            relation: The relation.
            condition: Over its columns, with placeholders of subqueries.
            as_seen: Turns expressions of the query into ones over the relation.
        """
        width = len(relation.schema)
        plain, filters = [], []
        for part in conjuncts(condition):
            negated, number = _bare(part)
            if number is not None and self._pending[number].kind != "SCALAR":
                filters.append((negated, self._pending[number]))
            else:
                plain.append(part)
        simple = [each for each in plain if not has_placeholder(each, SUBQUERY)]
        relation = nodes.filtered(relation, and_all(simple))
        for negated, pending in filters:
            relation = self._semi(relation, pending, as_seen, negated=negated)
        rest = [each for each in plain if has_placeholder(each, SUBQUERY)]
        if rest:
            relation, changed = self.resolve(relation, rest, as_seen)
            relation = nodes.filtered(relation, and_all(changed))
            relation = nodes.project(
                relation, nodes.refs(relation.schema, range(width)), relation.schema.names[:width]
            )
        return relation

    def resolve(
        self,
        relation: LogicalNode,
        expressions: Sequence[RowExpression],
        as_seen: Mapper = lambda each: each,
    ) -> tuple[LogicalNode, list[RowExpression]]:
        """Join the subqueries that expressions have; returns the wider relation and expressions over it."""
        done: dict[int, RowExpression] = {}
        for number in self._used(expressions):
            relation, done[number] = self._value(relation, self._pending[number], as_seen)
        return relation, [replace_placeholders(each, SUBQUERY, done.__getitem__) for each in expressions]

    def _used(self, expressions: Sequence[RowExpression]) -> list[int]:
        found: list[int] = []

        def note(number: int) -> RowExpression:
            found.append(number)
            return Literal(None, BooleanType())

        for each in expressions:
            replace_placeholders(each, SUBQUERY, note)
        return list(dict.fromkeys(found))

    # --- as a condition

    def _semi(
        self, relation: LogicalNode, pending: Pending, as_seen: Mapper, *, negated: bool
    ) -> LogicalNode:
        relation, operands = self.resolve(relation, [as_seen(each) for each in pending.operands])
        found = decorrelate(pending.node)
        width = len(relation.schema)
        conditions = [over_join(each, width, as_seen) for each in found.conditions]
        comparisons = [
            build_call(pending.comparison, [operand, _column(found.node, place, width)], pending.at)
            for place, operand in enumerate(operands)
        ]
        if pending.every:  # there is no row for which it does not hold
            negated = not negated
            failed = build_call("IS NOT TRUE", [_conjunction(comparisons)])
            kind = JoinKind.ANTI if negated else JoinKind.SEMI
            return nodes.join(relation, found.node, kind, and_all([*conditions, failed]))
        if found.grouped and pending.kind == "EXISTS":  # an aggregation without keys always has a row
            return relation if not negated else nodes.filtered(relation, Literal(False, BooleanType(False)))
        kind = JoinKind.ANTI if negated else JoinKind.SEMI
        null_aware = negated and any(each.type.nullable for each in comparisons)
        return nodes.join(
            relation, found.node, kind, and_all([*comparisons, *conditions]), null_aware=null_aware
        )

    # --- as a value

    def _value(
        self, relation: LogicalNode, pending: Pending, as_seen: Mapper
    ) -> tuple[LogicalNode, RowExpression]:
        if pending.kind == "SCALAR":
            return _scalar(relation, pending, as_seen)
        if pending.kind == "EXISTS":
            return _exists(relation, pending, as_seen)
        relation, operands = self.resolve(relation, [as_seen(each) for each in pending.operands])
        return _contains(relation, pending, operands, as_seen)


def _bare(part: RowExpression) -> tuple[bool, int | None]:
    if isinstance(part, Call) and part.function == "NOT":
        return True, place_of(part.operands[0], SUBQUERY)
    return False, place_of(part, SUBQUERY)


def _column(node: LogicalNode, place: int, width: int) -> InputRef:
    return InputRef(width + place, node.schema.types[place])


def over_join(condition: RowExpression, width: int, as_seen: Mapper = lambda each: each) -> RowExpression:
    """Return a subquery's condition over outer columns followed by the subquery's."""
    inner = map_inputs(condition, lambda place: place + width)
    # Inner columns are marked first, so that outer ones can be replaced as the relation shows them.
    hidden = transform(inner, _hide)
    return transform(as_seen(lower_outer(hidden)), _unhide)


_INNER = "$INNER"


def _hide(part: RowExpression) -> RowExpression | None:
    if isinstance(part, InputRef):
        return placeholder(_INNER, part.index, part.type)
    return None


def _unhide(part: RowExpression) -> RowExpression | None:
    place = place_of(part, _INNER)
    return None if place is None else InputRef(place, part.type)


def _conjunction(conditions: list[RowExpression]) -> RowExpression:
    found = and_all(conditions)
    assert found is not None, "no condition"
    return found


def _scalar(relation: LogicalNode, pending: Pending, as_seen: Mapper) -> tuple[LogicalNode, RowExpression]:
    found = decorrelate(pending.node)
    node = found.node
    width = len(relation.schema)
    if not found.conditions and not _has_one_row(node):
        value = AggregateCall(
            "SINGLE_VALUE", (0,), type_with_nullability(node.schema.types[0], nullable=True)
        )
        node = nodes.aggregate(node, (), (value,), ("value",))
    elif found.conditions and not found.grouped:
        raise ValidationError(
            "a scalar subquery may give several rows for a row of the query around",
            at=pending.at,
            detail="A subquery that refers to the query around gives one value if it aggregates without GROUP BY.",
            hint="Use MAX(...) or another aggregate in it, or write it as a join.",
        )
    conditions = [over_join(each, width, as_seen) for each in found.conditions]
    joined = nodes.join(relation, node, JoinKind.LEFT, and_all(conditions))
    value_ref: RowExpression = InputRef(width, joined.schema.types[width])
    empty = _value_of_nothing(pending.node) if found.conditions else None
    if empty is not None:
        key = len(joined.schema) - 1  # one of the columns that conditions compare, never NULL where they hold
        missing = build_call("IS NULL", [InputRef(key, joined.schema.types[key])])
        value_ref = build_call("CASE", [missing, empty, value_ref])
    return joined, value_ref


def _has_one_row(node: LogicalNode) -> bool:
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys


def _value_of_nothing(node: LogicalNode) -> RowExpression | None:
    """Return what a subquery `SELECT f(aggregates)` gives of no rows, if that is not NULL."""
    expression: RowExpression | None = None
    if isinstance(node, Project):
        expression, node = node.expressions[0], node.input
    if not isinstance(node, Aggregate) or node.keys:
        return None
    aggregation = node
    if expression is None:
        expression = InputRef(0, node.schema.types[0])
    if not any(call.function in ("COUNT", "APPROX_COUNT_DISTINCT") for call in node.calls):
        return None

    def of_nothing(part: RowExpression) -> RowExpression | None:
        if not isinstance(part, InputRef):
            return None
        call = aggregation.calls[part.index]
        return Literal(0 if "COUNT" in call.function else None, call.type)

    return transform(expression, of_nothing)


def _exists(relation: LogicalNode, pending: Pending, as_seen: Mapper) -> tuple[LogicalNode, RowExpression]:
    found = decorrelate(pending.node)
    width = len(relation.schema)
    if found.grouped:
        return relation, Literal(True, BooleanType(False))
    keys, conditions = _key_columns(found)
    count = AggregateCall("COUNT", (), _COUNT)
    grouped = nodes.aggregate(found.node, keys, (count,), ("$count",))
    mapped = [
        map_inputs(each, {key: place for place, key in enumerate(keys)}.__getitem__) for each in conditions
    ]
    joined = nodes.join(
        relation,
        grouped,
        JoinKind.LEFT,
        and_all([over_join(each, width, as_seen) for each in mapped]),
    )
    seen = InputRef(width + len(keys), joined.schema.types[width + len(keys)])
    more = build_call(">", [seen, Literal(0, IntType(False))])
    return joined, build_call("IS TRUE", [more])


def _key_columns(found: Decorrelated) -> tuple[list[int], tuple[RowExpression, ...]]:
    from millstream.table.expressions.rex import inputs_of

    keys = sorted(frozenset().union(*map(inputs_of, found.conditions)) if found.conditions else ())
    return keys, found.conditions


def _contains(
    relation: LogicalNode, pending: Pending, operands: list[RowExpression], as_seen: Mapper
) -> tuple[LogicalNode, RowExpression]:
    """IN as a value: TRUE if there is an equal row, NULL if there is none but a NULL takes part, else FALSE."""
    found = decorrelate(pending.node)
    if found.conditions or pending.comparison != "=" or pending.every or len(operands) != 1:
        raise ValidationError(
            "a subquery with IN stands where only simple ones can",
            at=pending.at,
            detail="Beside AND in WHERE and HAVING, IN takes one value and a subquery that does not refer to the query "
            "around.",
            hint="Write it as a join.",
        )
    operand, width = operands[0], len(relation.schema)
    rows = nodes.project(found.node, nodes.refs(found.node.schema, [0]), found.node.schema.names[:1])
    calls = (AggregateCall("COUNT", (), _COUNT), AggregateCall("COUNT", (0,), _COUNT))
    totals = nodes.aggregate(rows, (), calls, ("$all", "$known"))
    joined: LogicalNode = nodes.join(relation, totals, JoinKind.LEFT, None)
    value = nodes.distinct(rows)
    marked = nodes.project(
        value, [*nodes.refs(value.schema), Literal(True, BooleanType(False))], ("$value", "$found")
    )
    same = build_call("=", [operand, InputRef(width + 2, marked.schema.types[0])], pending.at)
    joined = nodes.join(joined, marked, JoinKind.LEFT, same)
    total, known, mark = (InputRef(width + each, joined.schema.types[width + each]) for each in (0, 1, 3))
    none = build_call("=", [total, Literal(0, IntType(False))])
    nulls = build_call("<", [known, total])
    unknown = build_call("OR", [build_call("IS NULL", [operand]), nulls])
    yes, no, maybe = (Literal(each, BooleanType(each is None)) for each in (True, False, None))
    parts = [none, no, build_call("IS NOT NULL", [mark]), yes, unknown, maybe, no]
    return joined, build_call("CASE", parts)
