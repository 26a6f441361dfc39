"""A slot's half of checkpoints: the state of its operators goes into one file, and comes back from several.

What belongs to keys goes to the subtask that owns them now; the rest to a subtask by its old index, see
`RestoreScope`. Event time goes on where it was: at the watermark of the old subtask, at the lowest of all if the
parallelism is another.
"""

from __future__ import annotations

from typing import Any

from millstream.common.errors import MillstreamError
from millstream.common.time import MIN_TIMESTAMP
from millstream.graph.stream_graph import StreamNode
from millstream.operators.base import Operator, RestoreScope
from millstream.runtime.checkpoint.orders import RestoreOrder
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader, StateFileWriter
from millstream.runtime.checkpoint.storage import open_store
from millstream.state.key_groups import key_group, key_group_range, subtask_of
from millstream.state.operator_state import OperatorStateSnapshot, redistribute
from millstream.state.snapshots import KeyedStateSnapshot

__all__ = ["SavedState", "add_operator_state", "restore_operator"]


class SavedState:
    """The state files of a checkpoint, read once for all operators of a slot.

    Raises:
        CheckpointDamagedError: If a file is missing or damaged.
    """

    def __init__(self, order: RestoreOrder) -> None:
        self.order = order
        store = open_store(order.location)
        self.slots: dict[int, StateFileReader] = {
            each.slot: StateFileReader(store.read(each.file), store.describe(each.file.path))
            for each in order.state
        }


def add_operator_state(
    writer: StateFileWriter, node: StreamNode, subtask: int, operator: Operator
) -> dict[str, str]:
    """Add all that one operator keeps to a slot's file; return the kinds of its states by name, as text.

    Raises:
        NotSerializableError: If something in it cannot be pickled; names the operator.
    """
    try:
        return _add(writer, node.operator_id, operator)
    except MillstreamError as error:
        error.at(node.name, subtask)
        raise


def _add(writer: StateFileWriter, operator_id: str, operator: Operator) -> dict[str, str]:
    states: dict[str, str] = {}
    keyed = operator.context.keyed_state
    if keyed is not None:
        snapshot = keyed.snapshot()
        if snapshot.schemas:
            writer.add(operator_id, ChunkKind.SCHEMAS, snapshot.schemas)
        for group, entries in snapshot.groups.items():
            writer.add(operator_id, ChunkKind.KEYED, entries, group)
        for group, timers in snapshot.timers.items():
            writer.add(operator_id, ChunkKind.TIMERS, timers, group)
        states = {name: schema.describe() for name, schema in snapshot.schemas.items()}
    if operator.context.operator_state is not None:
        lists_and_maps = operator.context.operator_state.snapshot()
        if lists_and_maps.modes:
            writer.add(operator_id, ChunkKind.OPERATOR, lists_and_maps)
        states |= {name: f"{mode.value} state" for name, mode in lists_and_maps.modes.items()}
    own = operator.snapshot_state()
    if own is not None:
        writer.add(operator_id, ChunkKind.OWN, own)
    if operator.watermark_ms != MIN_TIMESTAMP:
        writer.add(operator_id, ChunkKind.WATERMARKS, operator.watermark_ms)
    return states


def restore_operator(saved: SavedState, node: StreamNode, subtask: int, operator: Operator) -> None:
    """Give an operator that is not open yet what it kept in a checkpoint; nothing if it was not there then.

    Raises:
        MillstreamError: If its state does not fit, or is damaged; names the operator.
    """
    try:
        _restore(saved, node, subtask, operator)
    except MillstreamError as error:
        error.at(node.name, subtask)
        raise


def _restore(saved: SavedState, node: StreamNode, subtask: int, operator: Operator) -> None:
    old_parallelism = saved.order.parallelism.get(node.operator_id)
    if old_parallelism is None:
        return
    groups = key_group_range(subtask, node.max_parallelism, node.parallelism)
    for old in range(old_parallelism):
        reader = saved.slots.get(old)
        if reader is None:
            continue
        old_groups = key_group_range(old, node.max_parallelism, old_parallelism)
        overlaps = old_groups.start < groups.stop and groups.start < old_groups.stop
        if overlaps:
            _restore_keyed(reader, node.operator_id, operator, groups)
        if overlaps or not node.spec.is_keyed:
            all_mine = groups.start <= old_groups.start and old_groups.stop <= groups.stop
            scope = _scope(node, old, subtask, all_mine=all_mine)
            for _, own in reader.read(node.operator_id, ChunkKind.OWN):
                operator.restore_state(own, scope)
    _restore_operator_state(saved, node, subtask, operator)
    _restore_watermark(saved, node, subtask, operator, same=old_parallelism == node.parallelism)


def _restore_keyed(reader: StateFileReader, operator_id: str, operator: Operator, groups: range) -> None:
    keyed = operator.context.keyed_state
    if keyed is None:
        return
    schemas: dict[str, Any] = {}
    for _, part in reader.read(operator_id, ChunkKind.SCHEMAS):
        schemas |= part
    entries = dict(reader.read(operator_id, ChunkKind.KEYED, groups))
    timers = dict(reader.read(operator_id, ChunkKind.TIMERS, groups))
    keyed.restore(KeyedStateSnapshot(schemas, entries, timers))  # type: ignore[arg-type]


def _restore_operator_state(saved: SavedState, node: StreamNode, subtask: int, operator: Operator) -> None:
    backend = operator.context.operator_state
    if backend is None:
        return
    parts = [
        content
        for _, reader in sorted(saved.slots.items())
        for _, content in reader.read(node.operator_id, ChunkKind.OPERATOR)
    ]
    part = redistribute(parts, node.parallelism)[subtask] if parts else OperatorStateSnapshot()
    backend.restore(part, checkpoint_id=saved.order.checkpoint_id)


def _restore_watermark(
    saved: SavedState, node: StreamNode, subtask: int, operator: Operator, *, same: bool
) -> None:
    marks = [
        mark
        for slot, reader in saved.slots.items()
        if slot == subtask or not same
        for _, mark in reader.read(node.operator_id, ChunkKind.WATERMARKS)
    ]
    operator.watermark_ms = min(marks, default=MIN_TIMESTAMP)


def _scope(node: StreamNode, old: int, subtask: int, *, all_mine: bool) -> RestoreScope:
    def owns(key: Any) -> bool:
        if all_mine:
            return True
        group = key_group(key, node.max_parallelism)
        return subtask_of(group, node.max_parallelism, node.parallelism) == subtask

    return RestoreScope(written_by=old, subtask_index=subtask, parallelism=node.parallelism, owns=owns)
