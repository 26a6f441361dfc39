"""The state files of one slot: one that holds everything, and then what changed from checkpoint to checkpoint.

Patches exist for what belongs to keys: keyed state, what operators keep by key themselves, and timers. Everything else
is whole in each file, so the newest file says it all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader
from millstream.state.snapshots import (
    Entries,
    KeyedStatePatch,
    Merged,
    States,
    TimerSnapshot,
    patch_packed,
)

__all__ = ["StateChain"]

_PATCHES = {
    ChunkKind.KEYED: (ChunkKind.PATCHED, ChunkKind.PATCH),
    ChunkKind.ENTRIES: (ChunkKind.ENTRIES_PATCHED, ChunkKind.ENTRIES_PATCH),
    ChunkKind.TIMERS: (ChunkKind.TIMERS_PATCHED, ChunkKind.TIMERS_PATCH),
}
"""Kinds that may be patched, with those of what says so and of the patches."""

_PORTION_BYTES = 64 << 20

_WHOLE = {kind: whole for whole, kinds in _PATCHES.items() for kind in kinds}
"""What kinds of patches are merged into."""


class StateChain:
    """Reads the files of one slot as if they were one.

    Args:
        files: In the order in which they were written; the first holds everything.
        portion_bytes: How much of the files is in memory at once, where key groups are not larger.
    """

    def __init__(self, files: Sequence[StateFileReader], *, portion_bytes: int = _PORTION_BYTES) -> None:
        self._files = list(files)
        self._portion_bytes = portion_bytes

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
        if kind is ChunkKind.TIMERS:
            yield from _patch_timers(whole, patched, operator_id, kind, key_groups)
            return
        kinds = (kind, _PATCHES[kind][1])
        for groups in _portions([whole, *patched], operator_id, kinds, key_groups, self._portion_bytes):
            yield from _patch(whole, patched, operator_id, kind, groups)

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
    marker, patch_kind = _PATCHES[kind]
    held: dict[int | None, list[States]] = {}
    for group, states in whole.read(operator_id, kind, key_groups):
        held.setdefault(group, []).append(states)
    if any(dropped for file in patched for _, dropped in file.read(operator_id, marker)):
        yield from _patch_dropping(held, patched, operator_id, kind, key_groups)
        return
    patches: dict[int | None, list[KeyedStatePatch]] = {group: [] for group in held}
    for file in patched:
        for group, patch in file.read(operator_id, patch_kind, key_groups):
            patches.setdefault(group, []).append(patch)
    for group, changes in patches.items():
        states_of = held.pop(group, [])
        packed = patch_packed(states_of, changes)
        yield group, _merged(states_of, changes) if packed is None else packed


def _portions(
    files: Sequence[StateFileReader],
    operator_id: str,
    kinds: Sequence[ChunkKind],
    key_groups: range | None,
    portion_bytes: int,
) -> Iterator[range | None]:
    """Yield ranges of key groups that are read together: so many that they fit into memory."""
    sizes: dict[int | None, int] = {}
    for chunk in (chunk for file in files for chunk in file.chunks):
        group = chunk.key_group
        wanted = key_groups is None or group is None or group in key_groups
        if wanted and chunk.operator_id == operator_id and chunk.kind in kinds:
            sizes[group] = sizes.get(group, 0) + chunk.length
    if None in sizes or sum(sizes.values()) <= portion_bytes:
        yield key_groups
        return
    first = last = -1
    size = 0
    for group in sorted(group for group in sizes if group is not None):
        if first >= 0 and size + sizes[group] > portion_bytes:
            yield range(first, last + 1)
            first, size = -1, 0
        if first < 0:
            first = group
        last, size = group, size + sizes[group]
    yield range(first, last + 1)


def _merged(whole: Sequence[States], patches: Sequence[KeyedStatePatch]) -> States:
    merged: Merged = {}
    _add(merged, whole)
    for patch in patches:
        patch.apply(merged)
    return {name: _flat(namespaces) for name, namespaces in merged.items()}


def _add(merged: Merged, whole: Sequence[States]) -> None:
    for states in whole:
        for name, entries in states.items():
            namespaces = merged.setdefault(name, {})
            for namespace, key, entry in entries:
                namespaces.setdefault(namespace, {})[key] = entry


def _patch_dropping(
    held: dict[int | None, list[States]],
    patched: Sequence[StateFileReader],
    operator_id: str,
    kind: ChunkKind,
    key_groups: range | None,
) -> Iterator[tuple[int | None, Any]]:
    """Apply patches of which some drop namespaces from all key groups."""
    groups: dict[int | None, Merged] = {}
    for group, whole in held.items():
        _add(groups.setdefault(group, {}), whole)
    marker, patch_kind = _PATCHES[kind]
    for file in patched:
        for _, dropped in file.read(operator_id, marker):
            _drop(dropped or {}, groups.values())
        for group, patch in file.read(operator_id, patch_kind, key_groups):
            patch.apply(groups.setdefault(group, {}))
    for group, merged in groups.items():
        yield group, {name: _flat(namespaces) for name, namespaces in merged.items()}


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
