"""Unique keys and upsert keys of relations.

A unique key: no two rows have the same values in its columns. An upsert key is a unique key by which changes come in
order, as rows with equal values went to the same subtask since changes were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.table.expressions.rex import Call, InputRef, RowExpression
from millstream.table.plan import physical as p
from millstream.table.plan.logical import JoinKind
from millstream.types.datatypes import BigIntType, IntType, SmallIntType, TinyIntType, VarCharType

__all__ = ["Keys", "primary_key_places", "shortest", "unique_keys", "upsert_keys"]

Keys = frozenset[frozenset[int]]
_NONE: Keys = frozenset()
_WIDENING = (TinyIntType, SmallIntType, IntType, BigIntType)


def unique_keys(node: p.PhysicalNode) -> Keys:
    """Return the unique keys of a relation as places of its columns; the empty key: it has at most one row."""
    return _keys(node, upsert=False)


def upsert_keys(node: p.PhysicalNode) -> Keys:
    """Return the upsert keys of a relation."""
    return _keys(node, upsert=True)


def shortest(keys: Keys) -> tuple[int, ...] | None:
    """Return the key with the fewest columns, the leftmost of them; None if there is no key."""
    if not keys:
        return None
    found = [tuple(sorted(key)) for key in keys]
    return min(found, key=lambda key: (len(key), key))


def primary_key_places(node: p.TableScan) -> frozenset[int] | None:
    """Return the places of a scanned table's primary key; None if it has none, or not all of it is read."""
    names = node.table.primary_key
    if not names or not all(name in node.schema.names for name in names):
        return None
    return frozenset(node.schema.names.index(name) for name in names)


def _keys(node: p.PhysicalNode, *, upsert: bool) -> Keys:
    method = _METHODS.get(type(node))
    if method is None:
        return _NONE
    return frozenset(method(node, upsert))


def _below(node: p.PhysicalNode, upsert: bool) -> Keys:
    return _keys(node.inputs[0], upsert=upsert)


def _scan(node: p.TableScan, upsert: bool) -> Iterable[frozenset[int]]:
    key = primary_key_places(node)
    return () if key is None else (key,)


def _stream(node: p.DataStreamScan, upsert: bool) -> Iterable[frozenset[int]]:
    if node.unique is not None:
        return (frozenset(node.unique),)
    declared, names = getattr(node.stream, "primary_key", ()), node.schema.names
    if not declared or not all(name in names for name in declared):
        return ()
    return (frozenset(map(names.index, declared)),)


def _same(node: p.PhysicalNode, upsert: bool) -> Keys:
    return _below(node, upsert)


def _calc(node: p.Calc, upsert: bool) -> Iterable[frozenset[int]]:
    where: dict[int, int] = {}
    for place, expression in enumerate(node.expressions):
        column = _passed_on(expression)
        if column is not None:
            where.setdefault(column, place)
    for key in _below(node, upsert):
        if all(column in where for column in key):
            yield frozenset(where[column] for column in key)


def _passed_on(expression: RowExpression) -> int | None:
    """Return the column that an expression is, or is a cast of that loses nothing."""
    if isinstance(expression, InputRef):
        return expression.index
    if isinstance(expression, Call) and expression.function == "CAST":
        inner = expression.operands[0]
        if isinstance(inner, InputRef):
            source, target = inner.type, expression.type
            if type(source) in _WIDENING and type(target) in _WIDENING:
                same = _WIDENING.index(type(source)) <= _WIDENING.index(type(target))
                return inner.index if same else None
            if isinstance(source, VarCharType) and isinstance(target, VarCharType):
                return inner.index if source.length <= target.length else None
            if type(source) is type(target) and str(source).split(" NOT")[0] == str(target).split(" NOT")[0]:
                return inner.index
    return None


def _aggregate(node: p.GroupAggregate, upsert: bool) -> Iterable[frozenset[int]]:
    return (frozenset(range(len(node.keys))),)


def _window_aggregate(node: p.WindowAggregate, upsert: bool) -> Iterable[frozenset[int]]:
    keys = frozenset(range(len(node.keys)))
    if node.attached is not None:
        return (keys,)
    start = len(node.keys) + len(node.calls)
    bounds = [start + i for i, name in enumerate(node.properties) if name in ("start", "end", "time")]
    return [keys | {bound} for bound in bounds]


def _containing(keys: Keys, columns: Iterable[int]) -> Keys:
    wanted = frozenset(columns)
    return frozenset(key for key in keys if wanted <= key)


def _rank(node: Any, upsert: bool) -> Iterable[frozenset[int]]:
    partition = frozenset(node.partition)
    if isinstance(node, p.WindowRank):
        partition |= frozenset(node.window)
    below = _below(node, upsert)
    found = set(_containing(below, partition) if upsert else below)
    if node.end == 1 and getattr(node, "end_column", None) is None:
        found.add(partition)
    if node.with_number and getattr(node, "function", "ROW_NUMBER") == "ROW_NUMBER":
        found.add(partition | {len(node.schema) - 1})
    return found


def _deduplicate(node: Any, upsert: bool) -> Iterable[frozenset[int]]:
    keys = frozenset(node.keys)
    return (keys | frozenset(node.window),) if isinstance(node, p.WindowDeduplicate) else (keys,)


def _join(node: Any, upsert: bool) -> Iterable[frozenset[int]]:
    left = _keys(node.left, upsert=upsert)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return _containing(left, node.left_keys) if upsert else left
    right = _keys(node.right, upsert=upsert)
    left_one = any(key <= frozenset(node.left_keys) for key in unique_keys(node.left))
    right_one = any(key <= frozenset(node.right_keys) for key in unique_keys(node.right))
    if upsert:
        left = _containing(left, node.left_keys)
        right = _containing(right, node.right_keys)
    return _joined(node.kind, left, right, (left_one, right_one), len(node.left.schema))


def _joined(
    kind: JoinKind, left: Keys, right: Keys, one: tuple[bool, bool], width: int
) -> Iterable[frozenset[int]]:
    left_one, right_one = one
    moved = [frozenset(place + width for place in key) for key in right]
    found: set[frozenset[int]] = {a | b for a in left for b in moved}
    if right_one and kind in (JoinKind.INNER, JoinKind.LEFT):
        found |= set(left)
    if left_one and kind in (JoinKind.INNER, JoinKind.RIGHT):
        found |= set(moved)
    return found


def _temporal(node: p.TemporalJoin, upsert: bool) -> Iterable[frozenset[int]]:
    return _containing(_keys(node.left, upsert=upsert), node.left_keys if upsert else ())


def _lookup(node: p.LookupJoin, upsert: bool) -> Iterable[frozenset[int]]:
    names = node.table.schema.names
    keys = {names[place] for place in node.table_keys}
    if node.table.primary_key and set(node.table.primary_key) <= keys:
        return _below(node, upsert)
    return ()


def _expand(node: p.ExpandNode, upsert: bool) -> Iterable[frozenset[int]]:
    number = len(node.schema) - 1
    free = [key for key in _below(node, upsert) if not key & set(node.keys)]
    return [key | {number} for key in free]


def _normalize(node: p.ChangelogNormalize, upsert: bool) -> Iterable[frozenset[int]]:
    return (frozenset(node.key),)


def _process(node: p.ProcessTableNode, upsert: bool) -> Iterable[frozenset[int]]:
    """Updates by key are by that of PARTITION BY."""
    from millstream.table.plan.function_modes import function_mode  # which asks for keys in turn

    mode = function_mode(node, before=False)
    return (frozenset(node.clause.tables[0].key_places),) if mode.updates and not mode.before else ()


def _from_changelog(node: p.FromChangelogNode, upsert: bool) -> Iterable[frozenset[int]]:
    return (frozenset(range(len(node.partition))),) if node.partition else ()


_METHODS: dict[type, Callable[[Any, bool], Iterable[frozenset[int]]]] = {
    p.Calc: _calc,
    p.ChangelogNormalize: _normalize,
    p.DataStreamScan: _stream,
    p.Deduplicate: _deduplicate,
    p.DropUpdateBefore: _same,
    p.ExpandNode: _expand,
    p.FromChangelogNode: _from_changelog,
    p.GroupAggregate: _aggregate,
    p.IntervalJoin: _join,
    p.Limit: _same,
    p.LookupJoin: _lookup,
    p.OverAggregate: _same,
    p.ProcessTableNode: _process,
    p.Rank: _rank,
    p.RegularJoin: _join,
    p.SortLimit: _same,
    p.SortNode: _same,
    p.TableScan: _scan,
    p.TemporalJoin: _temporal,
    p.TemporalSort: _same,
    p.WatermarkAssigner: _same,
    p.WindowAggregate: _window_aggregate,
    p.WindowDeduplicate: _deduplicate,
    p.WindowJoin: _join,
    p.WindowRank: _rank,
}
