"""Background compaction: a slot's chain of state files becomes one file, while the job goes on.

A chain begins with a file that holds everything; each checkpoint adds one with what changed (`StateChain`). Long
chains take long to restore and keep old files alive. So from time to time the driver orders a slot to merge what
there is (`ChainKeeper`), a process beside the slot does so at low priority, and a later checkpoint's manifest has
the merged file in the place of those it was made of::

    manifest 10   whole, Δ2 … Δ10          order: merge these ─┐
    manifest 11   whole, Δ2 … Δ10, Δ11                         │ process of its own
    manifest 12   merged, Δ11, Δ12    ◄─── report: merged ─────┘   (then tidy removes whole, Δ2 … Δ10)

Nothing waits for it, and nothing is lost if it fails: the chain is as good as before. LSM trees compact their runs in
this way (O'Neil et al., The log-structured merge-tree, 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from millstream.base.crash_points import reach
from millstream.files.stores import FileRef, LocalCopy, open_store
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader, StateFileWriter
from millstream.runtime.protocol.orders import CompactionOrder

__all__ = ["compact"]

_BY_KEY = (ChunkKind.KEYED, ChunkKind.ENTRIES)
"""Kinds that are large and come by key group: merged one group at a time, so that one is in memory as objects."""


def compact(order: CompactionOrder) -> FileRef:
    """Merge files, one key group after the other; return the merged file.

    Raises:
        CheckpointDamagedError: If one of them is missing or damaged.
        CheckpointStorageError: If the merged one cannot be written.
    """
    store = open_store(order.location)
    reach("compaction.read", order.through)
    with ExitStack() as copies:
        readers = [
            StateFileReader(copies.enter_context(LocalCopy(store, ref)), store.describe(ref.path))
            for ref in order.files
        ]
        writer = _merged(readers)
    reach("compaction.write", order.target)
    return writer.write_to(store, order.target)


def _merged(readers: Sequence[StateFileReader]) -> StateFileWriter:
    chain = StateChain(readers)
    writer = StateFileWriter()
    for operator_id in sorted(chain.operator_ids):
        for kind in sorted(chain.kinds(operator_id), key=lambda kind: kind.value):
            for groups in _groups(readers, operator_id) if kind in _BY_KEY else [None]:
                for group, content in chain.read(operator_id, kind, groups):
                    writer.add(operator_id, kind, content, group)
    return writer


def _groups(readers: Sequence[StateFileReader], operator_id: str) -> list[range]:
    """Return the key groups that an operator has anything in, each for itself."""
    groups = {
        chunk.key_group
        for reader in readers
        for chunk in reader.chunks
        if chunk.operator_id == operator_id and chunk.key_group is not None
    }
    return [range(group, group + 1) for group in sorted(groups)]
