"""Look-up joins: FOR SYSTEM_TIME AS OF processing time, with a table whose connector finds rows by key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import (
    Call,
    InputRef,
    Literal,
    RowExpression,
    RowSchema,
    and_all,
    conjuncts,
    inputs_of,
    map_inputs,
)
from millstream.table.plan import physical as p
from millstream.table.plan.build.calcs import calc
from millstream.table.plan.logical import Filter, Join, LogicalNode, Project, Scan, Snapshot, Watermarks
from millstream.table.plan.rewrite.substitute import substitute

__all__ = ["lookup_join"]


def lookup_join(node: Join, left: p.PhysicalNode) -> p.PhysicalNode:
    """Return a look-up join.

    Raises:
        ValidationError: If no column of the table is compared by =.
    """
    snapshot = node.right
    assert isinstance(snapshot, Snapshot)
    scan, computed, conditions = _table(snapshot.input)
    width = len(node.left.schema)
    count = len(scan.schema)
    # The condition over the left columns and the columns that are read.
    refs: list[RowExpression] = [InputRef(place, kind) for place, kind in enumerate(node.left.schema.types)]
    moved = [map_inputs(each, lambda place: place + width) for each in computed]
    parts = [substitute(each, [*refs, *moved]) for each in conjuncts(node.condition)]
    parts += [map_inputs(each, lambda place: place + width) for each in conditions]
    keys: dict[int, int] = {}
    extra: list[RowExpression] = []
    rest = []
    for part in parts:
        pair = _equality(part, width)
        if pair is None or pair[1] in keys:
            rest.append(part)
            continue
        mine, theirs = pair
        if isinstance(mine, InputRef):
            keys[theirs] = mine.index
        else:
            extra.append(mine)
            keys[theirs] = width + len(extra) - 1
    if not keys:
        raise ValidationError(
            f'the join with table "{scan.table.full_name}" FOR SYSTEM_TIME AS OF compares no column of it by =',
            hint="Compare a key of it with a column of the left side.",
        )
    source = left
    if extra:
        names = [*left.schema.names, *(f"$f{width + place}" for place in range(len(extra)))]
        source = calc(left, [*refs, *extra], None, names)
    wide = len(source.schema)
    rest = [map_inputs(each, lambda place: place if place < width else place + wide - width) for each in rest]
    from millstream.table.plan.nodes import join_schema

    schema = replace(join_schema(source.schema, scan.schema, node.kind))
    columns = _columns(scan)
    joined = p.LookupJoin(
        schema,
        source,
        scan.table,
        columns,
        tuple(keys.values()),
        tuple(columns[each] for each in keys),
        RowSchema(scan.schema.names, scan.schema.types),
        node.kind,
        and_all(rest),
        node.hints,
    )
    shown: list[RowExpression] = [InputRef(place, schema.types[place]) for place in range(width)]
    shown += [_nullable(map_inputs(each, lambda place: place + wide), schema) for each in computed]
    if len(shown) == len(schema) and count == len(computed) and not extra and _plain(computed):
        return replace(joined, schema=replace(schema, names=node.schema.names))
    return calc(joined, shown, None, node.schema.names)


def _plain(computed: list[RowExpression]) -> bool:
    return all(isinstance(each, InputRef) and each.index == place for place, each in enumerate(computed))


def _nullable(expression: RowExpression, schema: RowSchema) -> RowExpression:
    if isinstance(expression, InputRef):
        return InputRef(expression.index, schema.types[expression.index])
    return expression


def _columns(scan: Scan) -> tuple[int, ...]:
    names: tuple[str, ...] = scan.table.schema.names
    return tuple(names.index(name) for name in scan.schema.names)


def _equality(part: RowExpression, width: int) -> tuple[RowExpression, int] | None:
    """Return the left side's expression, or a constant, and the table's column that are compared by =."""
    if not isinstance(part, Call) or part.function != "=":
        return None
    for mine, theirs in (part.operands, part.operands[::-1]):
        if not isinstance(theirs, InputRef) or theirs.index < width:
            continue
        places = inputs_of(mine)
        if isinstance(mine, Literal) or (places and all(place < width for place in places)):
            return mine, theirs.index - width
    return None


def _table(node: LogicalNode) -> tuple[Scan, list[RowExpression], list[RowExpression]]:
    """Return a table's scan, its columns as they are computed, and conditions, over the scan's columns."""
    if isinstance(node, Scan):
        return node, [InputRef(place, kind) for place, kind in enumerate(node.schema.types)], []
    if isinstance(node, Watermarks):
        return _table(node.input)
    if isinstance(node, Project):
        scan, below, conditions = _table(node.input)
        return scan, [substitute(each, below) for each in node.expressions], conditions
    if isinstance(node, Filter):
        scan, below, conditions = _table(node.input)
        return scan, below, [*conditions, *(substitute(each, below) for each in conjuncts(node.condition))]
    raise ValidationError(
        "a join by processing time FOR SYSTEM_TIME AS OF has a right side that is no table",
        detail="Only tables whose connector finds rows by key can be joined so.",
        hint="Join with the table itself, or by event time.",
    )


def can_look_up(node: Any) -> bool:
    """Whether the right side of a join is a table whose connector finds rows by key."""
    from millstream.table.connectors.registry import find_connector

    while isinstance(node, (Project, Filter, Watermarks)):
        node = node.input
    return isinstance(node, Scan) and find_connector(node.table).can_lookup
