"""Keyed state, timers and state of a subtask as stores (`spi.state_store`): how they take part in checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from millstream.spi.state_store import ChunkKind, SavedChunks, StateChunk, StateStore
from millstream.state.keyed import KeyedStateBackend
from millstream.state.operator_state import OperatorStateBackend, OperatorStateSnapshot, redistribute
from millstream.state.snapshots import KeyedStateSnapshot, StateChanges, TimerSnapshot

__all__ = ["KeyedStore", "SubtaskStateStore", "TimerStore", "chunks_of_changes"]


class KeyedStore(StateStore):
    """The entries of a keyed backend; its timers are a store of their own.

    Args:
        backend: The backend.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def begin(self, checkpoint_id: int, timestamp_ms: int) -> None:
        """Have what is cached written out."""
        self._backend.end_epoch(checkpoint=True)

    def delta(self) -> Iterable[StateChunk] | None:
        """Return what touched keys have, or what was written."""
        changes = self._backend.patch()
        if changes is None:
            return None
        return [*self._schemas(), *chunks_of_changes(changes, ChunkKind.PATCHED, ChunkKind.PATCH)]

    def snapshot(self) -> Iterator[StateChunk]:
        """Return the kinds of the states, and all entries."""
        yield from self._schemas()
        for group, states in self._backend.entries_by_group():
            yield StateChunk(ChunkKind.KEYED, states, group)

    def _schemas(self) -> list[StateChunk]:
        schemas = self._backend.schemas
        return [StateChunk(ChunkKind.SCHEMAS, schemas)] if schemas else []

    def forget(self) -> None:
        """Take what there is now as known."""
        self._backend.forget_changes()

    def restore(self, saved: SavedChunks) -> None:
        """Take over the entries of this subtask's key groups."""
        for old in saved.old_subtasks:
            for schemas in saved.read(ChunkKind.SCHEMAS, of=old):
                self._backend.restore(KeyedStateSnapshot(schemas.content))
            for chunk in saved.read(ChunkKind.KEYED, of=old):
                assert chunk.key_group is not None
                self._backend.restore(KeyedStateSnapshot({}, {chunk.key_group: chunk.content}))

    def describe(self) -> Mapping[str, str]:
        """Return the kinds of the states."""
        return {name: schema.describe() for name, schema in self._backend.schemas.items()}


class TimerStore(StateStore):
    """The timers of a keyed backend.

    Args:
        backend: The backend.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def delta(self) -> Iterable[StateChunk] | None:
        """Return the timers that came and went."""
        patches = self._backend.patch_timers()
        if patches is None:
            return None
        changed = [
            StateChunk(ChunkKind.TIMERS_PATCH, patch, group) for group, patch in sorted(patches.items())
        ]
        return [StateChunk(ChunkKind.TIMERS_PATCHED, None), *changed]

    def snapshot(self) -> Iterator[StateChunk]:
        """Return all timers."""
        for group, timers in sorted(self._backend.timers_by_group().items()):
            yield StateChunk(ChunkKind.TIMERS, timers, group)

    def forget(self) -> None:
        """Take the timers that there are as known."""
        self._backend.forget_timer_changes()

    def restore(self, saved: SavedChunks) -> None:
        """Register the timers of this subtask's key groups."""
        for old in saved.old_subtasks:
            for chunk in saved.read(ChunkKind.TIMERS, of=old):
                timers: TimerSnapshot = chunk.content
                timers.restore(self._backend.event_timers, self._backend.processing_timers)


class SubtaskStateStore(StateStore):
    """Operator state: lists and broadcast maps of a subtask. Whole at each checkpoint.

    Args:
        backend: The backend.
    """

    def __init__(self, backend: OperatorStateBackend) -> None:
        self._backend = backend

    def begin(self, checkpoint_id: int, timestamp_ms: int) -> None:
        """Let functions put what they hold into their state."""
        self._backend.prepare_snapshot(checkpoint_id, timestamp_ms)

    def snapshot(self) -> Iterator[StateChunk]:
        """Return all lists and maps."""
        lists_and_maps = self._backend.snapshot()
        if lists_and_maps.modes:
            yield StateChunk(ChunkKind.OPERATOR, lists_and_maps)

    def restore(self, saved: SavedChunks) -> None:
        """Take over this subtask's share of what all old subtasks had."""
        parts = [chunk.content for chunk in saved.read(ChunkKind.OPERATOR)]
        dealt = redistribute(parts, saved.parallelism)[saved.subtask] if parts else OperatorStateSnapshot()
        self._backend.restore(dealt, checkpoint_id=saved.checkpoint_id)

    def describe(self) -> Mapping[str, str]:
        """Return how each state is dealt out, and of what type it is."""
        lists_and_maps = self._backend.snapshot()
        return {name: lists_and_maps.describe(name) for name in lists_and_maps.modes}


def chunks_of_changes(changes: StateChanges, marker: ChunkKind, kind: ChunkKind) -> Iterator[StateChunk]:
    """Yield what changed in contents by key: what says so, then a patch for each key group.

    Args:
        changes: What changed.
        marker: Says that the contents are patched.
        kind: Of the patches.
    """
    yield StateChunk(marker, changes.dropped or None)
    for group, patch in sorted(changes.patches.items()):
        yield StateChunk(kind, patch, group)
