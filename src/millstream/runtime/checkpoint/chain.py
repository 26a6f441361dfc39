"""The state files of one slot: one that holds everything, and then what changed from checkpoint to checkpoint.

Patches exist for keyed state only. Everything else is whole in each file, so the newest file says it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader

__all__ = ["StateChain"]


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

    def read(
        self, operator_id: str, kind: ChunkKind, key_groups: range | None = None
    ) -> Iterator[tuple[int | None, Any]]:
        """Yield (key group, content) of an operator's chunks of a kind that belong to some key groups (None: any).

        Raises:
            CheckpointDamagedError: If a chunk was altered.
        """
        patched = self._patched(operator_id) if kind is ChunkKind.KEYED else []
        if not patched:
            yield from self._files[-1].read(operator_id, kind, key_groups)
            return
        whole = self._files[-len(patched) - 1]
        yield from _patch(whole, patched, operator_id, key_groups)

    def _patched(self, operator_id: str) -> list[StateFileReader]:
        """Return the newest files that hold patches to an operator's keyed state, in order."""
        patched: list[StateFileReader] = []
        for file in reversed(self._files):
            if not any(
                chunk.kind is ChunkKind.PATCHED and chunk.operator_id == operator_id for chunk in file.chunks
            ):
                break
            patched.insert(0, file)
        return patched


def _patch(
    whole: StateFileReader, patched: Sequence[StateFileReader], operator_id: str, key_groups: range | None
) -> Iterator[tuple[int | None, Any]]:
    groups: dict[int | None, dict[str, dict[tuple[Any, Any], Any]]] = {}
    for group, states in whole.read(operator_id, ChunkKind.KEYED, key_groups):
        groups[group] = {
            name: {(namespace, key): entry for namespace, key, entry in entries}
            for name, entries in states.items()
        }
    for file in patched:
        for group, patch in file.read(operator_id, ChunkKind.PATCH, key_groups):
            patch.apply(groups.setdefault(group, {}))
    for group, held in groups.items():
        yield (
            group,
            {
                name: [(namespace, key, entry) for (namespace, key), entry in entries.items()]
                for name, entries in held.items()
            },
        )
