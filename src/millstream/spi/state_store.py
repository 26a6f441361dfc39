"""How whatever an operator keeps takes part in checkpoints: one protocol, of chunks.

::

    at a checkpoint                                          at a restore
      begin(checkpoint)    what is pending goes into the      restore(saved)    before the operator is opened:
                           state, once for all that is                          reads the chunks of all old subtasks
                           written with this epoch                              that have something for this one
      delta() or           chunks, one after the other:
      snapshot()           each is pickled and written
                           before the next is asked for
      forget()             what was given is known now: the
                           next delta is of what comes after

A chunk may share live objects with the store: it is pickled before anything else runs. A store gives chunks that are
small beside the whole, where it can; so a file of any size is written with little memory. A delta is what changed since
`forget`; where it is not known, or hardly smaller, it is None, and the snapshot is written.

What operators keep is in these stores: keyed state and timers (`state.stores`), state of a subtask (`state.stores`),
what operators keep themselves by key and beside (`operators.stores`), watermarks (`operators.stores`). Files are the
runtime's (`runtime.checkpoint.state_file`): stores know kinds and contents, not where chunks lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from millstream.spi.versions import FIRST_VERSION

__all__ = ["ChunkKind", "SavedChunks", "StateChunk", "StateStore"]


class ChunkKind(Enum):
    """What a chunk holds."""

    KEYED = "keyed"
    """Entries of keyed state of one key group, or some of them: state name -> [(namespace, key, entry)]."""
    PATCHED = "patched"
    """In a delta: keyed state is not here as a whole, but as patches to what the files before hold; with the
    namespaces that are gone, state name -> [namespace], or None."""
    PATCH = "patch"
    """What changed in keyed state of one key group, a `KeyedStatePatch`."""
    ENTRIES = "entries"
    """What the operator itself keeps by key, in one key group: in the form of KEYED."""
    ENTRIES_PATCHED = "entries-patched"
    """As PATCHED, of ENTRIES."""
    ENTRIES_PATCH = "entries-patch"
    """As PATCH, of ENTRIES."""
    TIMERS = "timers"
    """Timers of one key group: (event, processing), each [(timestamp, key)]."""
    TIMERS_PATCHED = "timers-patched"
    """As PATCHED, of TIMERS; without content."""
    TIMERS_PATCH = "timers-patch"
    """What changed in the timers of one key group, a `TimersPatch`."""
    SCHEMAS = "schemas"
    """Kinds of the keyed states, by name."""
    OPERATOR = "operator"
    """Operator state: what `OperatorStateBackend.snapshot` gave."""
    OWN = "own"
    """What the operator itself keeps beside: what `Operator.snapshot_state` gave."""
    WATERMARKS = "watermarks"
    """How far event time has come: the operator's watermark, and those of its inputs."""
    INPUT = "input"
    """What waits at the input of the first operator of a chain: event time of its channels, and elements by channel."""


class StateChunk(NamedTuple):
    """A part of what an operator keeps.

    Attributes:
        kind: What it holds.
        content: Picklable; may share live objects.
        key_group: The key group it belongs to; None for all. Several chunks may be of one.
    """

    kind: ChunkKind
    content: Any
    key_group: int | None = None


class SavedChunks(ABC):
    """What an operator has in a checkpoint, as one new subtask sees it.

    Attributes:
        checkpoint_id: The checkpoint.
        subtask: The new subtask's index.
        parallelism: How many new subtasks there are.
        old_parallelism: How many there were.
        written: The old subtasks that a file is there of, ascending.
        old_subtasks: Those of them that had keys of the new one, ascending.
        version: Of which form the snapshot of the operator's connector is.
    """

    checkpoint_id: int
    subtask: int
    parallelism: int
    old_parallelism: int
    written: Sequence[int]
    old_subtasks: Sequence[int]
    version: int = FIRST_VERSION

    @abstractmethod
    def read(self, kind: ChunkKind, *, of: int | None = None) -> Iterator[StateChunk]:
        """Yield the chunks of a kind, patches merged, that belong to key groups of the new subtask, or to none.

        Args:
            kind: A kind that is no patch.
            of: Only of this old subtask; None for all that there were, ascending.

        Raises:
            CheckpointDamagedError: If a chunk was altered.
        """


class StateStore(ABC):
    """Something that an operator keeps in one subtask; the subtask's thread calls it."""

    def begin(self, checkpoint_id: int, timestamp_ms: int) -> None:
        """Prepare for a checkpoint at the end of an epoch; several files may be written of it.

        Args:
            checkpoint_id: The checkpoint.
            timestamp_ms: Processing time, epoch milliseconds.
        """

    def delta(self) -> Iterable[StateChunk] | None:
        """Return what changed since `forget`; None if only a snapshot can tell, or is as good."""
        return None

    @abstractmethod
    def snapshot(self) -> Iterable[StateChunk]:
        """Return everything."""

    def forget(self) -> None:
        """Take what there is now as known: it has been written."""

    @abstractmethod
    def restore(self, saved: SavedChunks) -> None:
        """Take over what belongs to this subtask; called once, before the operator is opened.

        Raises:
            MillstreamError: If it does not fit.
        """

    def describe(self) -> Mapping[str, str]:
        """Return the kinds of named states, by name, as users read them."""
        return {}
