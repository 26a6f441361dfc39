"""What a driver that was lost has left in the directory of its job's checkpoints."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from millstream.common.errors import CheckpointDamagedError
from millstream.runtime.checkpoint.manifest import Manifest, read_manifest
from millstream.runtime.checkpoint.storage import FileStore

__all__ = ["LeftCheckpoints", "find_left"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeftCheckpoints:
    """The checkpoints in a directory.

    Attributes:
        manifests: Those that can be read, in the order in which they were made.
        checkpoint_ids: Of all directories of checkpoints that are there, with a manifest or without.
    """

    manifests: tuple[Manifest, ...]
    checkpoint_ids: frozenset[int]


def find_left(store: FileStore) -> LeftCheckpoints:
    """Return what is there; a manifest that is damaged is named in the log, and counts as none.

    Raises:
        CheckpointStorageError: If the directory cannot be listed or read.
    """
    manifests, checkpoint_ids = [], set()
    for name in store.names(""):
        found = re.fullmatch(r"chk-(\d+)", name)
        if found is None:
            continue
        checkpoint_ids.add(int(found[1]))
        try:
            manifest = read_manifest(store, name)
        except CheckpointDamagedError as error:
            log.warning("a checkpoint counts as not made: %s", error.message)
            continue
        if manifest is not None:
            manifests.append(manifest)
    manifests.sort(key=lambda each: each.checkpoint_id)
    return LeftCheckpoints(tuple(manifests), frozenset(checkpoint_ids))
