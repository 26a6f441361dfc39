"""What an operator keeps, as stores (`spi.state_store`): its backends, what it keeps itself, its watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import Operator, RestoreScope
from millstream.spi.state_store import ChunkKind, SavedChunks, StateChunk, StateStore
from millstream.state.key_groups import key_group, key_group_range, subtask_of
from millstream.state.snapshots import EntriesByGroup, KeyedStatePatch, StateChanges
from millstream.state.stores import KeyedStore, SubtaskStateStore, TimerStore, chunks_of_changes

__all__ = ["OwnStateStore", "WatermarkStore", "stores_of"]


def stores_of(operator: Operator, *, is_keyed: bool) -> list[StateStore]:
    """Return all that an operator keeps, in the order in which it is written and restored.

    Args:
        operator: The operator, set up.
        is_keyed: Whether it is declared to be keyed; what others keep by no key concerns every subtask.
    """
    context = operator.context
    stores: list[StateStore] = []
    if context.keyed_state is not None:
        stores += [KeyedStore(context.keyed_state), TimerStore(context.keyed_state)]
    if context.operator_state is not None:
        stores.append(SubtaskStateStore(context.operator_state))
    return [*stores, OwnStateStore(operator, is_keyed=is_keyed), WatermarkStore(operator)]


class OwnStateStore(StateStore):
    """What an operator keeps in structures of its own: by key, and beside.

    Both are one store: an operator is given what an old subtask kept beside before the entries of that subtask.

    Args:
        operator: The operator.
        is_keyed: Whether it is declared to be keyed.
    """

    def __init__(self, operator: Operator, *, is_keyed: bool) -> None:
        self._operator = operator
        self._is_keyed = is_keyed

    def delta(self) -> Iterable[StateChunk] | None:
        """Return what is kept beside, and the entries that changed."""
        groups = self._operator.changed_groups()
        if groups is not None:
            return self._changed(groups)
        changes = StateChanges(self._operator.context.max_parallelism)
        if not self._operator.changed_entries(changes):
            return None
        changed = chunks_of_changes(changes, ChunkKind.ENTRIES_PATCHED, ChunkKind.ENTRIES_PATCH)
        return [*self._beside(), *changed]

    def _changed(self, groups: Iterator[tuple[int, KeyedStatePatch]]) -> Iterator[StateChunk]:
        yield from self._beside()
        yield StateChunk(ChunkKind.ENTRIES_PATCHED, None)
        for group, patch in groups:
            yield StateChunk(ChunkKind.ENTRIES_PATCH, patch, group)

    def snapshot(self) -> Iterator[StateChunk]:
        """Return what is kept beside, and all entries."""
        yield from self._beside()
        groups = self._operator.snapshot_groups()
        if groups is not None:
            for group, states in groups:
                yield StateChunk(ChunkKind.ENTRIES, states, group)
            return
        gathered = EntriesByGroup(self._operator.context.max_parallelism)
        for name, namespace, held in self._operator.snapshot_entries():
            for group, states in gathered.add_all(name, namespace, held):
                yield StateChunk(ChunkKind.ENTRIES, states, group)
        for group, states in gathered.rest():
            yield StateChunk(ChunkKind.ENTRIES, states, group)

    def _beside(self) -> list[StateChunk]:
        own = self._operator.snapshot_state()
        return [] if own is None else [StateChunk(ChunkKind.OWN, own)]

    def forget(self) -> None:
        """Take the entries that there are as known."""
        self._operator.forget_changes()

    def restore(self, saved: SavedChunks) -> None:
        """Give the operator what each old subtask kept, beside first."""
        olds = saved.old_subtasks if self._is_keyed else saved.written
        for old in olds:
            scope = _scope(self._operator, saved, old)
            for chunk in saved.read(ChunkKind.OWN, of=old):
                self._operator.restore_state(chunk.content, scope)
            if old in saved.old_subtasks:
                for chunk in saved.read(ChunkKind.ENTRIES, of=old):
                    for name, entries in chunk.content.items():
                        self._operator.restore_entries(name, entries)


def _scope(operator: Operator, saved: SavedChunks, old: int) -> RestoreScope:
    return RestoreScope(
        written_by=old,
        subtask_index=saved.subtask,
        parallelism=saved.parallelism,
        owns=_owns(operator, saved, old),
        rescaled=saved.old_parallelism != saved.parallelism,
        version=saved.version,
    )


def _owns(operator: Operator, saved: SavedChunks, old: int) -> Callable[[Any], bool]:
    most = operator.context.max_parallelism
    mine = key_group_range(saved.subtask, most, saved.parallelism)
    theirs = key_group_range(old, most, saved.old_parallelism)
    if mine.start <= theirs.start and theirs.stop <= mine.stop:
        return lambda key: True

    def owns(key: Any) -> bool:
        return subtask_of(key_group(key, most), most, saved.parallelism) == saved.subtask

    return owns


class WatermarkStore(StateStore):
    """How far event time has come for an operator.

    Event time goes on where it was: at the watermark of the old subtask, at the lowest of all if the parallelism is
    another.

    Args:
        operator: The operator.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def snapshot(self) -> Iterator[StateChunk]:
        """Return the watermark, if there is one."""
        if self._operator.watermark_ms != MIN_TIMESTAMP:
            yield StateChunk(ChunkKind.WATERMARKS, self._operator.watermark_ms)

    def restore(self, saved: SavedChunks) -> None:
        """Go on with the watermark that was."""
        same = saved.old_parallelism == saved.parallelism
        olds = [old for old in saved.written if old == saved.subtask or not same]
        # A subtask that had no watermark holds back as much as one with the lowest.
        marks = [
            next((chunk.content for chunk in saved.read(ChunkKind.WATERMARKS, of=old)), MIN_TIMESTAMP)
            for old in olds
        ]
        # A final one is not kept: sources that have ended say so anew, also to operators that were not there before.
        self._operator.watermark_ms = min(*marks, MAX_TIMESTAMP - 1) if marks else MIN_TIMESTAMP
