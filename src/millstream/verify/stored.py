"""Looks at the checkpoints that a simulation keeps: each that is there can be restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from millstream.base.errors import CheckpointDamagedError
from millstream.files.store_local import LocalStore
from millstream.runtime.checkpoint.manifest import read_manifest

__all__ = ["broken_checkpoints"]


def broken_checkpoints(directory: Path) -> Iterator[str]:
    """Yield what is wrong with checkpoints that have a manifest: what it lists is gone, or of another size.

    Args:
        directory: Of the checkpoints of all jobs.
    """
    for path in sorted(directory.glob("*/chk-*/_metadata")):
        home = path.parent.parent
        try:
            manifest = read_manifest(LocalStore(str(home)), path.parent.name)
        except CheckpointDamagedError as error:
            yield error.message
            continue
        if manifest is None:
            continue
        for ref in manifest.files():
            file = home / ref.path
            if not file.is_file() or file.stat().st_size != ref.size:
                yield f"{path.parent} lists {file}, which is gone or cut"
