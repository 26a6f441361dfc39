"""A slot's half of checkpoints: the state of its operators goes into one file, and comes back from several.

What belongs to keys goes to the subtask that owns them now; the rest to a subtask by its old index, see
`RestoreScope`. Event time goes on where it was: at the watermark of the old subtask, at the lowest of all if the
parallelism is another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.files.stores import FileStore, open_store
from millstream.graph.stream_graph import StreamNode
from millstream.operators.base import Operator, RestoreScope
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader, StateFileWriter
from millstream.runtime.protocol.orders import CheckpointOrder, RestoreOrder
from millstream.state.key_groups import key_group, key_group_range, subtask_of
from millstream.state.operator_state import OperatorStateSnapshot, redistribute
from millstream.state.snapshots import Entries, GroupMemo, KeyedStateSnapshot, StateChanges

__all__ = ["Changes", "SavedState", "add_operator_state", "restore_operator"]


class SavedState:
    """The state files of a checkpoint, opened once for all operators of a slot.

    Args:
        order: What is restored.
        open_store: Opens the store that the files are in.

    Raises:
        CheckpointDamagedError: If a file is missing or damaged.
    """

    def __init__(self, order: RestoreOrder, open_store: Callable[[str], FileStore] = open_store) -> None:
        self.order = order
        store = open_store(order.location)
        files: dict[int, list[StateFileReader]] = {}
        for each in order.state:
            files.setdefault(each.slot, []).append(StateFileReader.open(store, each.file))
        self.slots = {slot: StateChain(readers) for slot, readers in files.items()}


class Changes:
    """Whether a slot's next file may hold changes only; the operators know which."""

    def __init__(self) -> None:
        self._written: int | None = None

    def suffice(self, order: CheckpointOrder) -> bool:
        """Return whether the file may hold changes only: they are those to what was written last."""
        return order.base is not None and order.base == self._written

    def wrote(self, order: CheckpointOrder) -> None:
        """Take note that a file has been written."""
        if not order.is_savepoint:
            self._written = order.checkpoint_id


def add_operator_state(
    writer: StateFileWriter,
    node: StreamNode,
    subtask: int,
    operator: Operator,
    *,
    patched: bool = False,
    keep_changes: bool = False,
) -> dict[str, str]:
    """Add all that one operator keeps to a slot's file; return the kinds of its states by name, as text.

    Args:
        writer: Of the slot's file.
        node: The operator, declared.
        subtask: Its subtask.
        operator: The operator.
        patched: Of what belongs to keys, write only what changed since the slot's last checkpoint, if that is known.
        keep_changes: The next checkpoint needs what changed all the same: this is a savepoint.

    Raises:
        NotSerializableError: If something in it cannot be pickled; names the operator.
    """
    try:
        states = _add_keyed(writer, node.operator_id, operator, patched=patched)
        states |= _add_operator_state(writer, node.operator_id, operator)
        _add_own(writer, node.operator_id, operator, patched=patched)
    except MillstreamError as error:
        error.at(node.name, subtask)
        raise
    if not keep_changes:
        operator.forget_changes()
        if operator.context.keyed_state is not None:
            operator.context.keyed_state.forget_changes()
    return states


def _add_keyed(
    writer: StateFileWriter, operator_id: str, operator: Operator, *, patched: bool
) -> dict[str, str]:
    keyed = operator.context.keyed_state
    if keyed is None:
        return {}
    changes = keyed.patch() if patched else None
    timers = keyed.patch_timers() if patched else None
    snapshot = (keyed.snapshot if changes is None else keyed.outline)(timers=timers is None)
    if snapshot.schemas:
        writer.add(operator_id, ChunkKind.SCHEMAS, snapshot.schemas)
    if changes is not None:
        _add_changes(writer, operator_id, changes, ChunkKind.PATCHED, ChunkKind.PATCH)
    for group, entries in sorted(snapshot.groups.items()):
        writer.add(operator_id, ChunkKind.KEYED, entries, group)
    if timers is not None:
        writer.add(operator_id, ChunkKind.TIMERS_PATCHED, None)
        for group, patch in sorted(timers.items()):
            writer.add(operator_id, ChunkKind.TIMERS_PATCH, patch, group)
    for group, waiting in sorted(snapshot.timers.items()):
        writer.add(operator_id, ChunkKind.TIMERS, waiting, group)
    return {name: schema.describe() for name, schema in snapshot.schemas.items()}


def _add_operator_state(writer: StateFileWriter, operator_id: str, operator: Operator) -> dict[str, str]:
    if operator.context.operator_state is None:
        return {}
    lists_and_maps = operator.context.operator_state.snapshot()
    if lists_and_maps.modes:
        writer.add(operator_id, ChunkKind.OPERATOR, lists_and_maps)
    return {name: lists_and_maps.describe(name) for name in lists_and_maps.modes}


def _add_own(writer: StateFileWriter, operator_id: str, operator: Operator, *, patched: bool) -> None:
    own = operator.snapshot_state()
    if own is not None:
        writer.add(operator_id, ChunkKind.OWN, own)
    changes = StateChanges(operator.context.max_parallelism)
    if patched and operator.changed_entries(changes):
        _add_changes(writer, operator_id, changes, ChunkKind.ENTRIES_PATCHED, ChunkKind.ENTRIES_PATCH)
    else:
        for group, entries in sorted(_by_group(operator).items()):
            writer.add(operator_id, ChunkKind.ENTRIES, entries, group)
    if operator.watermark_ms != MIN_TIMESTAMP:
        writer.add(operator_id, ChunkKind.WATERMARKS, operator.watermark_ms)


def _add_changes(
    writer: StateFileWriter, operator_id: str, changes: StateChanges, marker: ChunkKind, kind: ChunkKind
) -> None:
    writer.add(operator_id, marker, changes.dropped or None)
    for group, patch in sorted(changes.patches.items()):
        writer.add(operator_id, kind, patch, group)


def _by_group(operator: Operator) -> dict[int, dict[str, Entries]]:
    """Return what an operator itself keeps by key, as keyed state is written: by key group and name."""
    groups: dict[int, dict[str, Entries]] = {}
    group_of = GroupMemo(operator.context.max_parallelism)
    for name, namespace, held in operator.snapshot_entries():
        lists: dict[int, Entries] = {}
        for key, entry in held:
            group = group_of[key]
            entries = lists.get(group)
            if entries is None:
                entries = lists[group] = groups.setdefault(group, {}).setdefault(name, [])
            entries.append((namespace, key, entry))
    return groups


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
            scope = _scope(
                node, old, subtask, all_mine=all_mine, rescaled=old_parallelism != node.parallelism
            )
            for _, own in reader.read(node.operator_id, ChunkKind.OWN):
                operator.restore_state(own, scope)
        if overlaps:
            for _, states in reader.read(node.operator_id, ChunkKind.ENTRIES, groups):
                for name, entries in states.items():
                    operator.restore_entries(name, entries)
    _restore_operator_state(saved, node, subtask, operator)
    _restore_watermark(saved, node, subtask, operator, same=old_parallelism == node.parallelism)


def _restore_keyed(reader: StateChain, operator_id: str, operator: Operator, groups: range) -> None:
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
    parallelism = saved.order.parallelism[node.operator_id]
    # A subtask that had no watermark holds back as much as one with the lowest.
    marks = [
        next((mark for _, mark in reader.read(node.operator_id, ChunkKind.WATERMARKS)), MIN_TIMESTAMP)
        for slot, reader in saved.slots.items()
        if slot < parallelism and (slot == subtask or not same)
    ]
    # A final one is not kept: sources that have ended say so anew, also to operators that were not there before.
    operator.watermark_ms = min(*marks, MAX_TIMESTAMP - 1) if marks else MIN_TIMESTAMP


def _scope(node: StreamNode, old: int, subtask: int, *, all_mine: bool, rescaled: bool) -> RestoreScope:
    def owns(key: Any) -> bool:
        if all_mine:
            return True
        group = key_group(key, node.max_parallelism)
        return subtask_of(group, node.max_parallelism, node.parallelism) == subtask

    return RestoreScope(
        written_by=old, subtask_index=subtask, parallelism=node.parallelism, owns=owns, rescaled=rescaled
    )
