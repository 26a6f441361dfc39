"""Keeps the chains of state files short: which slot writes everything, and which chain is to be compacted."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millstream.base.ids import new_id
from millstream.runtime.checkpoint.manifest import Manifest
from millstream.runtime.protocol.orders import CompactionOrder, StateFile, WrittenState

__all__ = ["ChainKeeper", "ChainPlan"]

log = logging.getLogger(__name__)

_SMALL_CHAIN_FILES = 20
"""How many files with changes follow one with everything, where everything is little."""
_LONGEST_CHAIN_FILES = 100
"""How many there may be at all, if compaction fails or is slow."""


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """What slots do at a checkpoint besides writing what changed.

    Attributes:
        whole: Slots that write everything.
        compactions: Chains to be merged, by slot.
    """

    whole: frozenset[int]
    compactions: Mapping[int, CompactionOrder]


class ChainKeeper:
    """The chains of one attempt; the coordinator's thread calls it.

    A small chain is written anew as a whole now and then, in the foreground: that takes milliseconds. A large one is
    compacted in the background.

    Args:
        compact_from_bytes: Size from which on a chain is large.
        compact_after: How many files with changes a large one gets before it is compacted.
    """

    def __init__(self, *, compact_from_bytes: int, compact_after: int) -> None:
        self._compact_from_bytes = compact_from_bytes
        self._compact_after = compact_after
        self._ordered: dict[int, CompactionOrder] = {}
        self._compacted: dict[int, tuple[str, StateFile]] = {}

    @property
    def in_progress(self) -> set[str]:
        """Paths of files that no manifest lists yet and that are wanted all the same."""
        merged = {file.file.path for _, file in self._compacted.values()}
        return merged | {order.target for order in self._ordered.values()}

    def begin_attempt(self) -> None:
        """Forget what slots of earlier attempts were told."""
        self._ordered.clear()
        self._compacted.clear()

    def plan(self, last: Manifest, location: str, directory: str, checkpoint_id: int) -> ChainPlan:
        """Decide for the checkpoint behind `last`.

        Args:
            last: The last completed one.
            location: Of the store.
            directory: Where state files go within it.
            checkpoint_id: Of the checkpoint that begins.
        """
        whole: set[int] = set()
        compactions: dict[int, CompactionOrder] = {}
        for slot, chain in _by_slot(last.state).items():
            sizes = [each.file.size for each in chain]
            changes, count = sum(sizes[1:]), len(chain) - 1
            if sum(sizes) < self._compact_from_bytes:
                if changes > sizes[0] or count >= _SMALL_CHAIN_FILES:
                    whole.add(slot)
            elif count >= _LONGEST_CHAIN_FILES:
                whole.add(slot)
            elif slot not in self._ordered and (changes > sizes[0] / 2 or count >= self._compact_after):
                name = f"{directory}/{checkpoint_id}-{slot}-merged-{new_id()[:8]}"
                compactions[slot] = CompactionOrder(location, tuple(each.file for each in chain), name)
        self._ordered.update(compactions)
        return ChainPlan(frozenset(whole), compactions)

    def learn(self, written: Sequence[WrittenState]) -> None:
        """Take note of what became of compactions, whatever becomes of the checkpoint."""
        for each in written:
            compacted = each.compacted
            if compacted is None:
                continue
            order = self._ordered.pop(each.slot, None)
            if order is None or order.through != compacted.through:
                continue  # of an attempt before
            if compacted.file is None:
                log.warning("state files of slot %d were not compacted: %s", each.slot, compacted.error)
            else:
                self._compacted[each.slot] = (compacted.through, StateFile(compacted.file, each.slot))

    def extend(self, last: Manifest | None, written: WrittenState) -> list[StateFile]:
        """Return a slot's chain: what it wrote, behind the files that this holds the changes to."""
        own = StateFile(written.file, written.slot, written.is_delta)
        if not written.is_delta:
            return [own]
        assert last is not None, "changes to nothing"
        chain = [file for file in last.state if file.slot == written.slot]
        if written.slot in self._compacted:
            through, merged = self._compacted[written.slot]
            paths = [each.file.path for each in chain]
            if through in paths:
                chain = [merged, *chain[paths.index(through) + 1 :]]
        return [*chain, own]

    def published(self, manifest: Manifest) -> None:
        """Learn that a manifest is there: what it lists needs no other care."""
        listed = {each.file.path for each in manifest.state}
        paths = {slot: [each.file.path for each in chain] for slot, chain in _by_slot(manifest.state).items()}
        for slot, (through, merged) in list(self._compacted.items()):
            # Listed, or its chain was written anew meanwhile.
            if merged.file.path in listed or through not in paths.get(slot, ()):
                del self._compacted[slot]


def _by_slot(files: Sequence[StateFile]) -> dict[int, list[StateFile]]:
    chains: dict[int, list[StateFile]] = {}
    for file in files:
        chains.setdefault(file.slot, []).append(file)
    return chains
