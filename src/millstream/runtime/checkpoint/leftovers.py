"""What drivers that were lost have left in the directory of their job's checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.base.errors import CheckpointDamagedError
from millstream.files.stores import FileStore
from millstream.runtime.checkpoint.manifest import Manifest, age_of_checkpoint, read_manifest
from millstream.runtime.checkpoint.restore import Saved

__all__ = ["LeftCheckpoint", "find_left", "made_up_to"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeftCheckpoint:
    """A directory of a checkpoint.

    Attributes:
        directory: Its name.
        generation: Of the driver that made it.
        checkpoint_id: Its number.
        manifest: None if it has none that can be read.
    """

    directory: str
    generation: int
    checkpoint_id: int
    manifest: Manifest | None


def find_left(store: FileStore) -> list[LeftCheckpoint]:
    """Return what is there, the oldest first; a manifest that is damaged is named in the log, and counts as none.

    Raises:
        CheckpointStorageError: If the directory cannot be listed or read.
    """
    found = []
    for name in store.names(""):
        age = age_of_checkpoint(name)
        if age is None:
            continue
        try:
            manifest = read_manifest(store, name)
        except CheckpointDamagedError as error:
            log.warning("a checkpoint counts as not made: %s", error.message)
            manifest = None
        found.append(LeftCheckpoint(name, *age, manifest))
    return sorted(found, key=lambda each: (each.generation, each.checkpoint_id))


def made_up_to(saved: Saved, left: Sequence[LeftCheckpoint]) -> list[tuple[str, Manifest]]:
    """Return the checkpoints that were made one after the other up to one of them, or to a savepoint; oldest first.

    Numbers go on from driver to driver. What a driver published behind the checkpoint that its successor began from
    has a number that the successor gave again, or a larger one: it does not count.

    Args:
        saved: The last.
        left: What is there, the oldest first.

    Returns:
        Directory and manifest of each.
    """
    newest = age_of_checkpoint(saved.directory)
    number = saved.manifest.checkpoint_id + 1
    counted = []
    for each in reversed(left):
        is_newer = newest is not None and (each.generation, each.checkpoint_id) > newest
        if each.manifest is not None and not is_newer and each.checkpoint_id < number:
            number = each.checkpoint_id
            counted.append((each.directory, each.manifest))
    return counted[::-1]
