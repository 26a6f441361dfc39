"""The state files of one slot: one that holds everything, and then what changed from checkpoint to checkpoint.

Patches exist for what belongs to keys: keyed state, what operators keep by key themselves, and timers. Everything else
is whole in each file, so the newest file says it all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader
from millstream.state.snapshots import Entries, Merged, TimerSnapshot

__all__ = ["StateChain"]

_PATCHES = {
    ChunkKind.KEYED: (ChunkKind.PATCHED, ChunkKind.PATCH),
    ChunkKind.ENTRIES: (ChunkKind.ENTRIES_PATCHED, ChunkKind.ENTRIES_PATCH),
    ChunkKind.TIMERS: (ChunkKind.TIMERS_PATCHED, ChunkKind.TIMERS_PATCH),
}
"""Kinds that may be patched, with those of what says so and of the patches."""

_WHOLE = {kind: whole for whole, kinds in _PATCHES.items() for kind in kinds}
"""What kinds of patches are merged into."""


class StateChain:
    """Reads the files of one slot as if they were one.

    Args:
        files: In the order in which they were written; the first holds everything.
    """

    def __init__(self, files: Sequence[StateFileReader]) -> None:
        self._files = list(files)

    @property
    def operator_ids(self) -> set[str]:
        """The operators that have state in the newest file."""
        return {chunk.operator_id for chunk in self._files[-1].chunks}

    def kinds(self, operator_id: str) -> set[ChunkKind]:
        """Return the kinds that an operator has, patches merged: `read` with each gives all that the chain holds."""
        return {
            _WHOLE.get(chunk.kind, chunk.kind)
            for chunk in self._files[-1].chunks
            if chunk.operator_id == operator_id
        }

    def read(
        self, operator_id: str, kind: ChunkKind, key_groups: range | None = None
    ) -> Iterator[tuple[int | None, Any]]:
        """Yield (key group, content) of an operator's chunks of a kind that belong to some key groups (None: any).

        Raises:
            CheckpointDamagedError: If a chunk was altered.
        """
        patched = self._patched(operator_id, kind) if kind in _PATCHES else []
        if not patched:
            yield from self._files[-1].read(operator_id, kind, key_groups)
            return
        whole = self._files[-len(patched) - 1]
        patch = _patch_timers if kind is ChunkKind.TIMERS else _patch
        yield from patch(whole, patched, operator_id, kind, key_groups)

    def _patched(self, operator_id: str, kind: ChunkKind) -> list[StateFileReader]:
        """Return the newest files that hold patches to an operator's contents of a kind, in order."""
        marker, _ = _PATCHES[kind]
        patched: list[StateFileReader] = []
        for file in reversed(self._files):
            if not any(chunk.kind is marker and chunk.operator_id == operator_id for chunk in file.chunks):
                break
            patched.insert(0, file)
        return patched


def _patch(
    whole: StateFileReader,
    patched: Sequence[StateFileReader],
    operator_id: str,
    kind: ChunkKind,
    key_groups: range | None,
) -> Iterator[tuple[int | None, Any]]:
    groups: dict[int | None, Merged] = {}
    for group, states in whole.read(operator_id, kind, key_groups):
        merged = groups.setdefault(group, {})
        for name, entries in states.items():
            namespaces = merged.setdefault(name, {})
            for namespace, key, entry in entries:
                namespaces.setdefault(namespace, {})[key] = entry
    marker, patch_kind = _PATCHES[kind]
    for file in patched:
        for _, dropped in file.read(operator_id, marker):
            _drop(dropped or {}, groups.values())
        for group, patch in file.read(operator_id, patch_kind, key_groups):
            patch.apply(groups.setdefault(group, {}))
    for group, held in groups.items():
        yield group, {name: _flat(namespaces) for name, namespaces in held.items()}


def _patch_timers(
    whole: StateFileReader,
    patched: Sequence[StateFileReader],
    operator_id: str,
    kind: ChunkKind,
    key_groups: range | None,
) -> Iterator[tuple[int | None, TimerSnapshot]]:
    groups: dict[int | None, TimerSnapshot] = dict(whole.read(operator_id, kind, key_groups))
    _, patch_kind = _PATCHES[kind]
    for file in patched:
        for group, patch in file.read(operator_id, patch_kind, key_groups):
            groups[group] = patch.apply(groups.get(group, TimerSnapshot()))
    for group, timers in groups.items():
        if timers.event or timers.processing:
            yield group, timers


def _drop(dropped: dict[str, list[Any]], groups: Iterable[Merged]) -> None:
    """Remove whole namespaces, from all key groups."""
    for held in groups:
        for name, namespaces in dropped.items():
            for namespace in namespaces:
                held.get(name, {}).pop(namespace, None)


def _flat(namespaces: dict[Any, dict[Any, Any]]) -> Entries:
    return [(namespace, key, entry) for namespace, held in namespaces.items() for key, entry in held.items()]
