"""Begin from a checkpoint or savepoint: find it, check that it is whole and fits, hand out what it holds."""

from __future__ import annotations

import pickle
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millstream.common.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    MillstreamError,
    StateIncompatibleError,
)
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.checkpoint.manifest import Manifest, OperatorEntry, read_manifest
from millstream.runtime.checkpoint.orders import RestoreOrder
from millstream.runtime.checkpoint.storage import FileStore, open_store

__all__ = ["Restored", "Saved", "find_saved", "fit_to_job"]


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint or savepoint.

    Attributes:
        store: Where its files are.
        directory: Its manifest's directory within the store.
        manifest: What belongs to it.
    """

    store: FileStore
    directory: str
    manifest: Manifest

    @property
    def path(self) -> str:
        """Where it is, as users name it."""
        return self.store.describe(self.directory).rstrip("/")

    def check(self) -> None:
        """Read every file.

        Raises:
            CheckpointDamagedError: If one is missing or not what was written.
        """
        for ref in self.manifest.files():
            self.store.read(ref)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a job's attempt begins from.

    Attributes:
        order: For the slots.
        driver_states: For the driver, by node id: positions of sources, committables of sinks.
    """

    order: RestoreOrder
    driver_states: dict[int, Any]


def find_saved(path: str) -> Saved:
    """Return the checkpoint or savepoint at a path.

    Args:
        path: Its directory, its `_metadata` file, or the directory of a job's checkpoints for the newest.

    Raises:
        CheckpointStorageError: If there is none.
        CheckpointDamagedError: If it is damaged; names the damage, and the newest intact checkpoint beside it.
    """
    path = re.sub(r"(/_metadata)?/*$", "", path)
    store = open_store(path)
    manifest = read_manifest(store, "")
    if manifest is not None and manifest.is_savepoint:
        saved = Saved(store, "", manifest)
    elif manifest is not None:
        parent, name = posixpath.split(store.location)
        saved = Saved(open_store(parent), name, manifest)
    else:
        newest = next(_checkpoints(store), None)
        if newest is None:
            raise CheckpointStorageError(
                f'there is no checkpoint or savepoint at "{path}"',
                detail='A checkpoint is a directory "chk-<number>", a savepoint one "savepoint-…"; both hold a '
                'file "_metadata".',
            )
        saved = newest
    try:
        saved.check()
    except CheckpointDamagedError as error:
        raise _with_intact(error, saved) from error
    return saved


def _checkpoints(store: FileStore) -> Iterator[Saved]:
    """Yield the checkpoints in a job's store, the newest first."""
    numbers = [int(found[1]) for name in store.names("") if (found := re.fullmatch(r"chk-(\d+)", name))]
    for number in sorted(numbers, reverse=True):
        manifest = read_manifest(store, f"chk-{number}")
        if manifest is not None:
            yield Saved(store, f"chk-{number}", manifest)


def _with_intact(error: CheckpointDamagedError, damaged: Saved) -> CheckpointDamagedError:
    hint = "No intact checkpoint lies beside it."
    if not damaged.manifest.is_savepoint:
        for other in _checkpoints(damaged.store):
            try:
                other.check()
            except MillstreamError:
                continue
            hint = f"The newest intact checkpoint beside it is {other.path}"
            break
    kind = damaged.manifest.kind
    return CheckpointDamagedError(f'{kind} "{damaged.path}" is damaged', detail=error.message, hint=hint)


def fit_to_job(saved: Saved, job_graph: JobGraph, *, allow_non_restored: bool) -> Restored:
    """Return what the operators of a job take over.

    Raises:
        StateIncompatibleError: If state would be lost, or does not fit: names operator and state.
    """
    nodes = {node.operator_id: node for vertex in job_graph.vertices for node in vertex.nodes}
    driver_states: dict[int, Any] = {}
    for entry in saved.manifest.operators:
        node = nodes.get(entry.operator_id)
        if node is None:
            if not allow_non_restored:
                _check_nothing_lost(entry, saved)
            continue
        _check_fits(entry, node, saved)
        if entry.driver is not None:
            driver_states[node.id] = pickle.loads(saved.store.read(entry.driver))
    order = RestoreOrder(
        location=saved.store.location,
        checkpoint_id=saved.manifest.checkpoint_id,
        state=saved.manifest.state,
        parallelism={entry.operator_id: entry.parallelism for entry in saved.manifest.operators},
    )
    return Restored(order, driver_states)


def _check_nothing_lost(entry: OperatorEntry, saved: Saved) -> None:
    if not entry.states and entry.driver is None:
        return
    what = ", ".join(sorted(entry.states)) or "its position"
    raise StateIncompatibleError(
        f'operator {_describe(entry)} of {saved.manifest.kind} "{saved.path}" is not in the program',
        detail=f"It holds state: {what}.",
        hint="Give operators with state a uid(...) and keep it, or drop the state: --allow-non-restored-state.",
    )


def _check_fits(entry: OperatorEntry, node: StreamNode, saved: Saved) -> None:
    if entry.max_parallelism != node.max_parallelism and entry.states:
        raise StateIncompatibleError(
            f"operator {_describe(entry)} has {node.max_parallelism} key groups, its state in "
            f'{saved.manifest.kind} "{saved.path}" has {entry.max_parallelism}',
            hint=f"Set its maximum parallelism to {entry.max_parallelism}: it is fixed for the life of the state.",
        )
    kind = type(node.spec).__name__
    if entry.kind != kind and (entry.states or entry.driver is not None):
        raise StateIncompatibleError(
            f"operator {_describe(entry)} is a {kind}, its state in "
            f'{saved.manifest.kind} "{saved.path}" is of a {entry.kind}',
            hint="Give an operator of another kind another uid.",
        )


def _describe(entry: OperatorEntry) -> str:
    return f'"{entry.name}" (uid "{entry.uid}")' if entry.uid else f'"{entry.name}"'
