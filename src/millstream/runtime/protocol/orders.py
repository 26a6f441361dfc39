"""What driver and slots tell each other about checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millstream.files.stores import FileRef

__all__ = [
    "CheckpointDeclined",
    "CheckpointOrder",
    "Compacted",
    "CompactionOrder",
    "RestoreOrder",
    "StateFile",
    "WrittenState",
]


@dataclass(frozen=True, slots=True)
class StateFile:
    """One state file.

    Attributes:
        file: Where it is.
        slot: The slot that wrote it.
        is_delta: Whether it holds only what changed since the file before it in the list.
    """

    file: FileRef
    slot: int
    is_delta: bool = False


@dataclass(frozen=True, slots=True)
class CompactionOrder:
    """What a slot is told: merge these files.

    Attributes:
        location: Of the store, as it is opened: a URI may hold credentials.
        files: A chain, or its beginning, in order.
        target: Path of the merged file within the store; no other attempt writes there.
    """

    location: str = field(repr=False)
    files: tuple[FileRef, ...]
    target: str

    @property
    def through(self) -> str:
        """Path of the last file that goes in."""
        return self.files[-1].path


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of an order.

    Attributes:
        through: Path of the last file that went in.
        file: The merged file; None if there is none.
        error: Why there is none.
    """

    through: str
    file: FileRef | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointOrder:
    """What the slots are told: write your state.

    Attributes:
        checkpoint_id: Number of the checkpoint.
        location: Of the store, as it is opened: a URI may hold credentials.
        directory: Where state files go within it.
        manifest_directory: Where the manifest goes within it; empty for the store itself.
        is_savepoint: Whether it belongs to the user.
        base: The checkpoint that a slot may write only the changes to; None wants everything.
        whole: Slots that write everything all the same.
        compactions: Chains of files to be merged beside, by slot.
        timeout_s: A slot that does not have its file written after so many seconds gives it up.
    """

    checkpoint_id: int
    location: str = field(repr=False)
    directory: str
    manifest_directory: str
    is_savepoint: bool = False
    base: int | None = None
    whole: frozenset[int] = frozenset()
    compactions: Mapping[int, CompactionOrder] = field(default_factory=dict)
    timeout_s: float = math.inf

    @property
    def kind(self) -> str:
        """What it is called in manifests."""
        return "savepoint" if self.is_savepoint else "checkpoint"

    def of_slot(self, slot: int) -> CheckpointOrder:
        """Return what concerns one slot."""
        base = None if slot in self.whole else self.base
        compactions = {slot: self.compactions[slot]} if slot in self.compactions else {}
        return replace(self, base=base, whole=frozenset(), compactions=compactions)


@dataclass(frozen=True, slots=True)
class WrittenState:
    """What a slot wrote for a checkpoint.

    Attributes:
        slot: The slot.
        file: Its state file.
        states: Kinds of the states of each operator by name, as text, by node id.
        is_delta: Whether the file holds changes to the order's base.
        compacted: What became of an earlier order to merge files.
    """

    slot: int
    file: FileRef
    states: Mapping[int, Mapping[str, str]]
    is_delta: bool = False
    compacted: Compacted | None = None


@dataclass(frozen=True, slots=True)
class CheckpointDeclined:
    """A slot could not write its state now: it was left in the middle of a record. The checkpoint is made later.

    Attributes:
        slot: The slot.
        operator: What it is in the middle of.
    """

    slot: int
    operator: str


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """What an attempt begins from.

    Attributes:
        location: Of the store, as it is opened: a URI may hold credentials.
        checkpoint_id: The checkpoint.
        state: Its state files.
        parallelism: Of each operator when the checkpoint was made, by operator id.
        versions: Of which form the snapshots of connectors are, by operator id; those that are not there are of the
            first.
    """

    location: str = field(repr=False)
    checkpoint_id: int
    state: tuple[StateFile, ...]
    parallelism: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
