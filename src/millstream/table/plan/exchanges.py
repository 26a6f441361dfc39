"""How rows are dealt to the subtasks of an operator."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.plan import physical as p
from millstream.table.plan.logical import WindowKind

__all__ = ["exchanges_of"]


def exchanges_of(node: p.PhysicalNode) -> list[str | None]:
    """Return for each input how its rows are dealt: `hash[k]`, `single`, or None: as they come."""
    if isinstance(node, (p.RegularJoin, p.IntervalJoin, p.WindowJoin, p.TemporalJoin)):
        if getattr(node, "null_aware", False):
            return ["single", "single"]
        return [_hash(node.left, node.left_keys), _hash(node.right, node.right_keys)]
    keys = _keys(node)
    if keys is None:
        return [None] * len(node.inputs)
    return [_hash(node.inputs[0], keys)]


def _hash(source: p.PhysicalNode, keys: Sequence[int]) -> str:
    if not keys:
        return "single"
    return f"hash[{', '.join(source.schema.names[each] for each in keys)}]"


def _keys(node: p.PhysicalNode) -> Sequence[int] | None:
    aggregates = (p.GroupAggregate, p.GroupTableAggregate, p.WindowAggregate)
    if isinstance(node, (*aggregates, p.Deduplicate, p.WindowDeduplicate)):
        return node.keys
    if isinstance(node, (p.OverAggregate, p.Rank, p.WindowRank)):
        return node.partition
    if isinstance(node, p.MatchNode):
        return node.clause.partition
    if isinstance(node, p.ChangelogNormalize):
        return node.key
    if isinstance(node, (p.SortLimit, p.Limit, p.TemporalSort, p.SortNode)):
        return ()
    if isinstance(node, p.WindowTable) and node.window.kind is WindowKind.SESSION:
        return node.window.partition
    if isinstance(node, p.SinkNode) and node.materialize:
        names = node.table.write_schema.names
        return [names.index(name) for name in node.table.primary_key]
    return None
