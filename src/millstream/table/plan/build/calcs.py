"""Calcs: filters and projections, merged where one is over another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millstream.table.expressions.rex import (
    InputRef,
    RowExpression,
    RowSchema,
    and_all,
    conjuncts,
)
from millstream.table.plan import physical as p
from millstream.table.plan.rewrite.substitute import is_deterministic, may_substitute, substitute

__all__ = ["calc", "filtered", "kept_columns", "projected"]


def projected(
    source: p.PhysicalNode, expressions: Sequence[RowExpression], schema: RowSchema
) -> p.PhysicalNode:
    """Return a projection; `schema` has the names, time attributes are those that pass unchanged."""
    return calc(source, expressions, None, schema.names)


def filtered(source: p.PhysicalNode, condition: RowExpression | None) -> p.PhysicalNode:
    """Return a filter; the relation itself without a condition."""
    if condition is None:
        return source
    return calc(source, _all(source.schema), condition, source.schema.names)


def kept_columns(source: p.PhysicalNode, places: Sequence[int], names: Sequence[str]) -> p.PhysicalNode:
    """Return some columns of a relation, in an order."""
    if list(places) == list(range(len(source.schema))) and tuple(names) == source.schema.names:
        return source
    return calc(source, [InputRef(place, source.schema.types[place]) for place in places], None, names)


def _all(schema: RowSchema) -> list[RowExpression]:
    return [InputRef(place, kind) for place, kind in enumerate(schema.types)]


def calc(
    source: p.PhysicalNode,
    expressions: Sequence[RowExpression],
    condition: RowExpression | None,
    names: Sequence[str],
) -> p.PhysicalNode:
    """Return a filter with a projection behind it, merged with one below."""
    parts = expressions if condition is None else [*expressions, condition]
    if isinstance(source, p.Calc) and may_substitute(parts, source.expressions):
        lower = source.expressions
        conditions = [*conjuncts(source.condition)]
        if condition is not None:
            conditions += [substitute(each, lower) for each in conjuncts(condition)]
        merged = [substitute(each, lower) for each in expressions]
        return calc(source.input, merged, and_all(conditions), names)
    if isinstance(source, p.ChangelogNormalize) and condition is not None and is_deterministic(condition):
        conditions = [*conjuncts(source.condition), condition]
        return calc(replace(source, condition=and_all(conditions)), expressions, None, names)
    schema = calc_schema(source.schema, expressions, names)
    if condition is None and len(schema) == len(source.schema) and _is_identity(expressions):
        if schema.names == source.schema.names:
            return source
        if not isinstance(source, (p.TableScan, p.DataStreamScan)):  # keys of tables are known by name
            return renamed(source, names)
    return p.Calc(schema, source, tuple(expressions), condition)


def calc_schema(below: RowSchema, expressions: Sequence[RowExpression], names: Sequence[str]) -> RowSchema:
    """Return the columns of a projection."""
    rowtime, proctime = set(), set()
    for place, each in enumerate(expressions):
        if isinstance(each, InputRef):
            if each.index in below.rowtime:
                rowtime.add(place)
            if each.index in below.proctime:
                proctime.add(place)
        elif getattr(each, "function", "") == "PROCTIME":
            proctime.add(place)
    types = tuple(each.type for each in expressions)
    return RowSchema(tuple(names), types, frozenset(rowtime), frozenset(proctime))


def _is_identity(expressions: Sequence[RowExpression]) -> bool:
    return all(isinstance(each, InputRef) and each.index == place for place, each in enumerate(expressions))


def renamed(node: p.PhysicalNode, names: Sequence[str]) -> p.PhysicalNode:
    """Return the relation with other names; nothing runs for that."""
    return replace(node, schema=replace(node.schema, names=tuple(names)))
