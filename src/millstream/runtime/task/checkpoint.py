"""A slot's half of checkpoints: the state of its operators goes into one file, and comes back from several.

Everything that an operator keeps is in a store (`spi.state_store`), and all stores are asked in the same way. What
belongs to keys goes to the subtask that owns them now; the rest to a subtask by its old index, see `RestoreScope`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from millstream.base.errors import MillstreamError
from millstream.files.stores import FileStore, open_store
from millstream.graph.stream_graph import StreamNode
from millstream.operators.base import Operator
from millstream.operators.stores import stores_of
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.state_file import StateFileReader, StateFileWriter
from millstream.runtime.protocol.orders import CheckpointOrder, RestoreOrder
from millstream.spi.state_store import ChunkKind, SavedChunks, StateChunk
from millstream.spi.versions import FIRST_VERSION
from millstream.state.key_groups import key_group_range

__all__ = ["Changes", "SavedState", "add_operator_state", "begin_checkpoint", "restore_operator"]


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


def begin_checkpoint(operator: Operator, node: StreamNode, checkpoint_id: int, now_ms: int) -> None:
    """Have an operator put what is pending into its state, at the end of an epoch with a checkpoint."""
    for store in reversed(
        stores_of(operator, is_keyed=node.spec.is_keyed)
    ):  # functions write into what is keyed
        store.begin(checkpoint_id, now_ms)


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
        patched: Write only what changed since the slot's last checkpoint, where that is known.
        keep_changes: The next checkpoint needs what changed all the same: this is a savepoint.

    Raises:
        NotSerializableError: If something in it cannot be pickled; names the operator.
        CheckpointStorageError: If this host has no room for it.
    """
    stores = stores_of(operator, is_keyed=node.spec.is_keyed)
    states: dict[str, str] = {}
    try:
        for store in stores:
            delta = store.delta() if patched else None
            writer.add_all(node.operator_id, store.snapshot() if delta is None else delta)
            states |= store.describe()
    except MillstreamError as error:
        error.at(node.name, subtask)
        raise
    if not keep_changes:
        for store in stores:
            store.forget()
    return states


def restore_operator(saved: SavedState, node: StreamNode, subtask: int, operator: Operator) -> None:
    """Give an operator that is not open yet what it kept in a checkpoint; nothing if it was not there then.

    Raises:
        MillstreamError: If its state does not fit, or is damaged; names the operator.
    """
    if node.operator_id not in saved.order.parallelism:
        return
    chunks = _OperatorChunks(saved, node, subtask)
    try:
        for store in stores_of(operator, is_keyed=node.spec.is_keyed):
            store.restore(chunks)
    except MillstreamError as error:
        error.at(node.name, subtask)
        raise


class _OperatorChunks(SavedChunks):
    """What one operator has in the files of all slots."""

    def __init__(self, saved: SavedState, node: StreamNode, subtask: int) -> None:
        self._slots = saved.slots
        self._operator_id = node.operator_id
        self._most = node.max_parallelism
        self.checkpoint_id = saved.order.checkpoint_id
        self.version = saved.order.versions.get(node.operator_id, FIRST_VERSION)
        self.subtask = subtask
        self.parallelism = node.parallelism
        self.old_parallelism = saved.order.parallelism[node.operator_id]
        self._groups = key_group_range(subtask, self._most, self.parallelism)

    @cached_property
    def written(self) -> list[int]:  # type: ignore[override]
        """The old subtasks that a file is there of."""
        return sorted(slot for slot in self._slots if slot < self.old_parallelism)

    @cached_property
    def old_subtasks(self) -> list[int]:  # type: ignore[override]
        """The old subtasks that had keys of the new one."""
        return [old for old in self.written if self._overlap(old)]

    def _overlap(self, old: int) -> bool:
        groups = key_group_range(old, self._most, self.old_parallelism)
        return groups.start < self._groups.stop and self._groups.start < groups.stop

    def read(self, kind: ChunkKind, *, of: int | None = None) -> Iterator[StateChunk]:
        """Yield the chunks of a kind."""
        for slot in self.written if of is None else [of]:
            if slot in self._slots:
                for group, content in self._slots[slot].read(self._operator_id, kind, self._groups):
                    yield StateChunk(kind, content, group)
