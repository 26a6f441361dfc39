"""Begin from a checkpoint or savepoint: find it, check that it is whole and fits, hand out what it holds."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    MillstreamError,
    StateIncompatibleError,
)
from millstream.files.stores import FileRef, FileStore, open_store
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.checkpoint.differences import describe_changes
from millstream.runtime.checkpoint.manifest import (
    MANIFEST,
    Manifest,
    OperatorEntry,
    age_of_checkpoint,
    manifest_path,
    read_manifest,
)
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader
from millstream.runtime.program.main_classes import load_state
from millstream.runtime.protocol.orders import RestoreOrder
from millstream.types.forms import describe_form, form_of, may_become

__all__ = ["Restored", "Saved", "discard", "find_saved", "fit_to_job"]

log = logging.getLogger(__name__)

_WITHOUT_RECORDS = frozenset({"SourceSpec", "WatermarksSpec"})
"""Kinds of operators of which, beside positions and declared state, only event time is kept."""


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
        CheckpointDamagedError: If it is damaged; names the damage, and the newest intact one beside it.
    """
    path = re.sub(rf"(/{MANIFEST})?/*$", "", path)
    store = open_store(path)
    if store.read_if_there(MANIFEST) is None:
        return _newest(store, store.location)  # as it is shown: a URI may hold credentials
    parent, name = posixpath.split(store.address)
    try:
        manifest = read_manifest(store, "")
    except CheckpointDamagedError as error:
        kind = "checkpoint" if _is_checkpoint(name) else "savepoint"
        raise _damaged(error, kind, store.location, open_store(parent)) from error
    assert manifest is not None
    if manifest.is_savepoint:
        return _checked(Saved(store, "", manifest), open_store(parent))
    beside = open_store(parent)
    return _checked(Saved(beside, name, manifest), beside)


def discard(saved: Saved) -> None:
    """Remove a checkpoint or savepoint, its manifest first: it is gone at once, or not at all.

    Of a checkpoint, files stay that others of its job share; all of them do if another's manifest is damaged.

    Raises:
        CheckpointStorageError: If something cannot be removed.
    """
    store = saved.store
    if saved.manifest.is_savepoint:
        store.delete(MANIFEST)
        store.delete("")
        return
    store.delete(manifest_path(saved.directory))
    store.delete(saved.directory)
    others = [name for name in store.names("") if _is_checkpoint(name)]
    try:
        kept = [manifest for name in others if (manifest := read_manifest(store, name)) is not None]
    except CheckpointDamagedError as error:
        log.warning("state files of %s stay: %s", saved.path, error.message)
        return
    if not kept:
        store.delete("")
        return
    wanted = {ref.path for manifest in kept for ref in manifest.files()}
    for ref in saved.manifest.files():
        if ref.path not in wanted:
            store.delete(ref.path, may_return=True)


def _newest(store: FileStore, path: str) -> Saved:
    names = _by_number(store)
    for name in names:
        try:
            manifest = read_manifest(store, name)
        except CheckpointDamagedError as error:
            raise _damaged(error, "checkpoint", store.describe(name), store) from error
        if manifest is not None:
            return _checked(Saved(store, name, manifest), store)
    raise CheckpointStorageError(
        f'there is no checkpoint or savepoint at "{path}"',
        detail='A checkpoint is a directory "chk-<number>", a savepoint one "savepoint-…"; both hold a '
        f'file "{MANIFEST}".',
    )


def _checked(saved: Saved, beside: FileStore) -> Saved:
    """Return what is whole; `beside` is where others like it may be."""
    try:
        saved.check()
    except CheckpointDamagedError as error:
        raise _damaged(error, saved.manifest.kind, saved.path, beside) from error
    return saved


def _damaged(
    error: CheckpointDamagedError, kind: str, path: str, beside: FileStore
) -> CheckpointDamagedError:
    intact = next((other for other in _beside(beside, kind) if other.path != path and _is_whole(other)), None)
    hint = f"No intact {kind} lies beside it."
    if intact is not None:
        hint = f"The newest intact {kind} beside it is {intact.path}"
    details = [error.message, error.detail] if error.detail else [error.message]
    return CheckpointDamagedError(f'{kind} "{path}" is damaged', detail=" ".join(details), hint=hint)


def _beside(store: FileStore, kind: str) -> Iterator[Saved]:
    """Yield the checkpoints of a job, or the savepoints in a directory, the newest first; leave out damaged ones."""
    found = []
    for name in _by_number(store) if kind == "checkpoint" else store.names(""):
        try:
            manifest = read_manifest(store, name)
        except MillstreamError:
            continue
        if manifest is not None and manifest.kind == kind:
            place = (
                Saved(open_store(f"{store.address}/{name}"), "", manifest) if manifest.is_savepoint else None
            )
            found.append(place or Saved(store, name, manifest))
    if kind == "savepoint":
        found.sort(key=lambda saved: saved.manifest.created_ms, reverse=True)
    yield from found


def _is_whole(saved: Saved) -> bool:
    try:
        saved.check()
    except MillstreamError:
        return False
    return True


def _is_checkpoint(name: str) -> bool:
    return age_of_checkpoint(name) is not None


def _by_number(store: FileStore) -> list[str]:
    ages = {name: age for name in store.names("") if (age := age_of_checkpoint(name)) is not None}
    return sorted(ages, key=ages.__getitem__, reverse=True)


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
                _check_nothing_lost(entry, saved, job_graph)
            continue
        _check_fits(entry, node, saved)
        if entry.driver is not None:
            driver_states[node.id] = _driver_state(entry, entry.driver, node, saved)
    order = RestoreOrder(
        location=saved.store.address,
        checkpoint_id=saved.manifest.checkpoint_id,
        state=saved.manifest.state,
        parallelism={entry.operator_id: entry.parallelism for entry in saved.manifest.operators},
        versions={
            entry.operator_id: entry.versions["snapshot"]
            for entry in saved.manifest.operators
            if "snapshot" in entry.versions
        },
    )
    return Restored(order, driver_states)


def _driver_state(entry: OperatorEntry, file: FileRef, node: StreamNode, saved: Saved) -> Any:
    kept = load_state(saved.store.read(file))
    try:
        return node.spec.bring_up_driver_state(kept, entry.versions)
    except StateIncompatibleError as error:
        where = f'Operator {_describe(entry)} of {saved.manifest.kind} "{saved.path}".'
        error.detail = where if error.detail is None else f"{where} {error.detail}"
        raise


def _check_nothing_lost(entry: OperatorEntry, saved: Saved, job_graph: JobGraph) -> None:
    holds = [f'{kind} "{name}"' for name, kind in sorted(entry.states.items())]
    if entry.driver is not None:
        holds.append("what its source or sink keeps")
    if not holds and _holds_records(entry, saved):
        holds.append("records")
    if not holds:
        return
    detail = f"It holds {', '.join(holds)}."
    hint = "Give operators with state a uid(...) and keep it, or drop the state: --allow-non-restored-state."
    if entry.description is not None and entry.uid is not None:  # a query: the planner made both
        detail = f"{detail} {describe_changes(saved.manifest.operators, job_graph, entry)}"
        hint = "Keep the query as it was, or drop the state of what changed: --allow-non-restored-state."
    raise StateIncompatibleError(
        f'operator {_describe(entry)} of {saved.manifest.kind} "{saved.path}" is not in the program',
        detail=detail,
        hint=hint,
    )


def _holds_records(entry: OperatorEntry, saved: Saved) -> bool:
    """Whether an operator without declared state keeps records of its own, as windows do, or some wait for it."""
    kinds = [ChunkKind.INPUT]
    if entry.kind not in _WITHOUT_RECORDS:
        kinds += [ChunkKind.OWN, ChunkKind.ENTRIES, ChunkKind.ENTRIES_PATCH]
    return any(
        chunk.operator_id == entry.operator_id and chunk.kind in kinds
        for each in saved.manifest.state
        for chunk in StateFileReader.open(saved.store, each.file).chunks
    )


def _check_fits(entry: OperatorEntry, node: StreamNode, saved: Saved) -> None:
    if entry.max_parallelism != node.max_parallelism and node.spec.is_keyed:
        raise StateIncompatibleError(
            f"operator {_describe(entry)} has {node.max_parallelism} key groups, its state in "
            f'{saved.manifest.kind} "{saved.path}" has {entry.max_parallelism}',
            hint=f"Set its maximum parallelism to {entry.max_parallelism}: it is fixed for the life of the state.",
        )
    _check_kind(entry, node, saved)
    _check_key_type(entry, node, saved)


def _check_kind(entry: OperatorEntry, node: StreamNode, saved: Saved) -> None:
    kind, form = node.spec.kind, node.spec.state_form
    same_form = not form or not entry.form or entry.form == form
    if entry.kind == kind and same_form:
        return
    if not (entry.states or entry.driver is not None or _holds_records(entry, saved)):
        return
    if entry.kind != kind:
        old, new = entry.kind, kind
    else:
        old, new = f"{kind} with {entry.form}", f"{kind} with {form}"
    raise StateIncompatibleError(
        f"operator {_describe(entry)} is a {new}, its state in "
        f'{saved.manifest.kind} "{saved.path}" is of a {old}',
        hint="Give the operator another uid, and drop what the former one holds: --allow-non-restored-state.",
    )


def _check_key_type(entry: OperatorEntry, node: StreamNode, saved: Saved) -> None:
    old, new = entry.key_type, form_of(node.key_type)
    if may_become(old, new, exactly=True):
        return
    raise StateIncompatibleError(
        f"the keys of operator {_describe(entry)} are declared as {describe_form(new)}, in "
        f'{saved.manifest.kind} "{saved.path}" they were {describe_form(old)}',
        detail="State is found by its key: under keys of another type it would be lost.",
        hint="Give the operator another uid, and drop what the former one holds: --allow-non-restored-state.",
    )


def _describe(entry: OperatorEntry) -> str:
    return f'"{entry.name}" (uid "{entry.uid}")' if entry.uid else f'"{entry.name}"'
