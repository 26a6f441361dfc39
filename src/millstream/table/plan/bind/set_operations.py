"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    RowExpression,
    RowSchema,
    and_all,
)
from millstream.table.functions.registry import build_call, build_cast
from millstream.table.plan import nodes
from millstream.table.plan.bind.scope import type_with_nullability
from millstream.table.plan.logical import Correlate, JoinKind, LogicalNode, SetOperation
from millstream.table.sql import ast
from millstream.types.datatypes import BigIntType, CharType, DataType, IntType, RowField, RowType, VarCharType

__all__ = ["bind_set_operation", "common_types"]


def bind_set_operation(query: ast.SetQuery, left: LogicalNode, right: LogicalNode) -> LogicalNode:
    """Return a bound set operation, of rows with common types; names are the left side's.

    Raises:
        ValidationError: If the sides do not fit together.
    """
    what = f"{query.kind} ALL" if query.all else query.kind
    if len(left.schema) != len(right.schema):
        raise ValidationError(
            f"{what} has {len(left.schema)} columns on its left and {len(right.schema)} on its right",
            at=query.at,
        )
    sides = [nodes.refs(left.schema), nodes.refs(right.schema)]
    types, cast = common_types(sides, what, query.at)
    names = left.schema.names
    one, two = (
        _cast(side, expressions, names) for side, expressions in zip((left, right), cast, strict=True)
    )
    if query.kind == "UNION":
        union = union_all([one, two], types)
        return union if query.all else nodes.distinct(union)
    if query.all:
        return _counted(query.kind, one, two, types)
    # Rows with NULLs are equal here.
    width = len(types)
    equal = [
        build_call(
            "IS NOT DISTINCT FROM", [InputRef(place, kind), InputRef(place + width, two.schema.types[place])]
        )
        for place, kind in enumerate(one.schema.types)
    ]
    kind = JoinKind.SEMI if query.kind == "INTERSECT" else JoinKind.ANTI
    return nodes.distinct(nodes.join(one, two, kind, and_all(equal)))


def union_all(relations: Sequence[LogicalNode], types: Sequence[DataType]) -> SetOperation:
    """Return UNION ALL; what is a time attribute on all sides stays one."""
    rowtime = frozenset.intersection(*(each.schema.rowtime for each in relations))
    proctime = frozenset.intersection(*(each.schema.proctime for each in relations))
    schema = RowSchema(relations[0].schema.names, tuple(types), rowtime, proctime)
    return SetOperation(schema, tuple(relations), "UNION", all=True)


def _cast(side: LogicalNode, expressions: Sequence[RowExpression], names: Sequence[str]) -> LogicalNode:
    if all(isinstance(each, InputRef) for each in expressions) and side.schema.names == tuple(names):
        return side
    return nodes.project(side, expressions, names)


def common_types(
    rows: Sequence[Sequence[RowExpression]], what: str, at: ast.Position | None
) -> tuple[tuple[DataType, ...], list[list[RowExpression]]]:
    """Return the common type of each column of rows, and the rows cast to them.

    Raises:
        ValidationError: If a column has no common type.
    """
    from millstream.table.functions.types import common_type

    types = []
    for place in range(len(rows[0])):
        seen = [row[place].type for row in rows]
        found = common_type(seen)
        if found is None:
            raise ValidationError(
                f"column {place + 1} of {what} has types without a common one: "
                f"{', '.join(dict.fromkeys(map(str, seen)))}",
                at=at,
                hint="Use CAST.",
            )
        types.append(type_with_nullability(found, nullable=any(each.nullable for each in seen)))
    cast = [[_to(each, data_type) for each, data_type in zip(row, types, strict=True)] for row in rows]
    return tuple(types), cast


def _to(expression: RowExpression, data_type: DataType) -> RowExpression:
    wanted = type_with_nullability(data_type, nullable=expression.type.nullable)
    if expression.type == wanted:
        return expression
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(None, type_with_nullability(data_type, nullable=True))
    return build_cast(expression, wanted)


def _counted(kind: str, left: LogicalNode, right: LogicalNode, types: Sequence[DataType]) -> LogicalNode:
    """INTERSECT ALL and EXCEPT ALL: how often a row is on each side, and as many copies."""
    count = BigIntType(nullable=False)
    width = len(types)

    def marked(side: LogicalNode, signs: tuple[int | None, int | None]) -> LogicalNode:
        marks = [Literal(each, BigIntType()) for each in signs]
        return nodes.project(
            side, [*nodes.refs(side.schema), *marks], [*side.schema.names, "$left", "$right"]
        )

    sides = [marked(left, (1, None)), marked(right, (None, 1))]
    union = union_all(sides, [*types, BigIntType(), BigIntType()])
    calls = [AggregateCall("COUNT", (width + side,), count) for side in (0, 1)]
    counted = nodes.aggregate(union, range(width), calls, ("$left", "$right"))
    of_left, of_right = InputRef(width, count), InputRef(width + 1, count)
    if kind == "INTERSECT":
        copies = build_call("CASE", [build_call("<", [of_left, of_right]), of_left, of_right])
    else:
        copies = build_call("-", [of_left, of_right])
    with_copies = nodes.project(
        counted, [*nodes.refs(counted.schema, range(width)), copies], [*left.schema.names, "$copies"]
    )
    more = build_call(">", [InputRef(width, copies.type), Literal(0, IntType(nullable=False))])
    some = nodes.filtered(with_copies, more)
    # As many rows as copies: a text of one comma less is split at its commas.
    comma = Literal(",", CharType(1, nullable=False))
    commas = build_cast(
        build_call("-", [InputRef(width, copies.type), Literal(1, IntType(nullable=False))]), IntType()
    )
    parts = build_call("SPLIT", [build_call("REPEAT", [comma, commas]), comma])
    text = VarCharType()
    call = Call("UNNEST", (parts,), RowType([RowField("$copy", text)], nullable=False))
    schema = RowSchema((*some.schema.names, "$copy"), (*some.schema.types, text))
    repeated = Correlate(schema, some, call, JoinKind.INNER)
    return nodes.project(repeated, nodes.refs(schema, range(width)), left.schema.names)
