"""The manifest of a checkpoint or savepoint: one JSON file that lists all that belongs to it.

A checkpoint is there if, and only if, its manifest is: files that no manifest lists are leftovers of attempts
that failed. Paths are relative to the store, so both kinds can be moved as a whole::

    <checkpoints>/<job id>/                        the store of a job's checkpoints
                  chk-17/_metadata                 the manifest of checkpoint 17
                  shared/<name>                    state files, shared by successive checkpoints
                  chk-18.2/, shared.2/             of the driver that took the job over (its generation is 2)
    <savepoints>/savepoint-<job>-<random>/         a savepoint is a store of its own
                  _metadata, files/<name>
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from millstream.base.errors import CheckpointDamagedError
from millstream.files.stores import FileRef, FileStore, checksum
from millstream.runtime.protocol.orders import StateFile
from millstream.types.forms import TypeForm

__all__ = [
    "MANIFEST",
    "Manifest",
    "OperatorEntry",
    "age_of_checkpoint",
    "checkpoint_directory",
    "generation_of_shared",
    "manifest_path",
    "read_manifest",
    "shared_directory",
    "write_manifest",
]

MANIFEST = "_metadata"
VERSION = 1


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """One operator in a checkpoint.

    Attributes:
        operator_id: Its stable id.
        uid: The user's name for it, if any.
        name: Its name.
        kind: Kind of its spec.
        parallelism: Number of subtasks when the checkpoint was made.
        max_parallelism: Number of key groups.
        states: Kinds of its states by name, with their declared types, as text for people.
        driver: What the driver keeps of it: a source's positions, a sink's committables; None if nothing.
        form: What it keeps, where that depends on more than its kind; empty if it does not, or is not known.
        key_type: Declared type of its keys, see `common.type_forms`; None if none is.
        versions: Of which forms its connector's parts are (`OperatorSpec.versions`); those that are not there are of
            the first.
        description: What it does, as plans show it; None if nobody told.
    """

    operator_id: str
    uid: str | None
    name: str
    kind: str
    parallelism: int
    max_parallelism: int
    states: dict[str, str] = field(default_factory=dict)
    driver: FileRef | None = None
    form: str = ""
    key_type: TypeForm | None = None
    versions: dict[str, int] = field(default_factory=dict)
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint or savepoint.

    Attributes:
        checkpoint_id: Its number within the job, from 1.
        kind: "checkpoint" or "savepoint".
        job_id: Of the job that made it.
        job_name: Of that job.
        epoch: The epoch that it ends.
        created_ms: When it was made, epoch milliseconds.
        operators: All operators of the job.
        state: State files, those of one slot in the order in which they are to be read.
    """

    checkpoint_id: int
    kind: str
    job_id: str
    job_name: str
    epoch: int
    created_ms: int
    operators: tuple[OperatorEntry, ...]
    state: tuple[StateFile, ...] = ()

    @property
    def is_savepoint(self) -> bool:
        """Whether it belongs to the user, not to its job."""
        return self.kind == "savepoint"

    def files(self) -> list[FileRef]:
        """Return all files that belong to it."""
        drivers = [each.driver for each in self.operators if each.driver is not None]
        return [each.file for each in self.state] + drivers

    def size(self) -> int:
        """Return the size of all its files in bytes."""
        return sum(each.size for each in self.files())


def checkpoint_directory(checkpoint_id: int, generation: int = 0) -> str:
    """Return where the manifest of a checkpoint is within its job's store.

    Args:
        checkpoint_id: Its number.
        generation: Of the driver that makes it: two of them may give the same number.
    """
    return f"chk-{checkpoint_id}{_suffix(generation)}"


def shared_directory(generation: int = 0) -> str:
    """Return where the state files of a driver's checkpoints are within its job's store."""
    return f"shared{_suffix(generation)}"


def age_of_checkpoint(name: str) -> tuple[int, int] | None:
    """Return generation and number of a checkpoint by the name of its directory: what sorts them; None for others.

    What a driver published that was superseded, and did not know it yet, is older than all of its successor's.

    >>> age_of_checkpoint("chk-17"), age_of_checkpoint("chk-3.2"), age_of_checkpoint("shared")
    ((0, 17), (2, 3), None)
    """
    found = re.fullmatch(r"chk-(\d+)(?:\.(\d+))?", name)
    return None if found is None else (int(found[2] or 0), int(found[1]))


def generation_of_shared(name: str) -> int | None:
    """Return whose state files are in a directory, by its name; None if none are."""
    found = re.fullmatch(r"shared(?:\.(\d+))?", name)
    return None if found is None else int(found[1] or 0)


def _suffix(generation: int) -> str:
    return f".{generation}" if generation else ""


def manifest_path(directory: str) -> str:
    """Return the path of the manifest in a directory of a store; empty for the store itself."""
    return f"{directory}/{MANIFEST}" if directory else MANIFEST


def write_manifest(store: FileStore, directory: str, manifest: Manifest) -> None:
    """Publish a checkpoint: from now on it is there.

    Raises:
        CheckpointStorageError: If the manifest cannot be written; the checkpoint is not there then.
    """
    body = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
    envelope = {"format": "millstream-checkpoint", "version": VERSION, "checksum": checksum(body.encode())}
    store.write(manifest_path(directory), f"{json.dumps(envelope)}\n{body}\n".encode())


def read_manifest(store: FileStore, directory: str) -> Manifest | None:
    """Read the manifest in a directory; None if there is none.

    Raises:
        CheckpointDamagedError: If it is damaged, or of another version.
    """
    path = manifest_path(directory)
    data = store.read_if_there(path)
    if data is None:
        return None
    where = store.describe(path)
    head, _, body = data.partition(b"\n")
    try:
        envelope = json.loads(head)
        version = envelope["version"]
        intact = checksum(body.rstrip(b"\n")) == envelope["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointDamagedError(f'"{where}" is not the manifest of a checkpoint') from error
    if version != VERSION:
        raise CheckpointDamagedError(
            f'manifest "{where}" has version {version}',
            detail=f"This version of millstream reads version {VERSION}.",
            hint="Open it with the version of millstream that wrote it, or a newer one.",
        )
    if not intact:
        raise CheckpointDamagedError(
            f'manifest "{where}" was altered: its checksum is another than when written'
        )
    return _from_json(json.loads(body))


def _from_json(body: dict[str, Any]) -> Manifest:
    # Fields that came later are not in older manifests, and a reader leaves out those that it does not know.
    known = {each.name for each in fields(OperatorEntry)}
    operators = tuple(
        OperatorEntry(
            **{
                **{name: value for name, value in entry.items() if name in known},
                "driver": None if entry["driver"] is None else FileRef(**entry["driver"]),
            }
        )
        for entry in body["operators"]
    )
    state = tuple(StateFile(**{**each, "file": FileRef(**each["file"])}) for each in body["state"])
    return Manifest(**{**body, "operators": operators, "state": state})
