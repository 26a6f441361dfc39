"""Directories for Parquet files that Spark and a job hand each other."""

from __future__ import annotations

import logging
import os
import shutil
import weakref
from pathlib import Path

from millstream.base.errors import ConfigurationError
from millstream.base.ids import new_id
from millstream.files.paths import local_path
from millstream.files.remote import open_remote, without_parameters
from millstream.files.scratch import scratch_directory

__all__ = ["KeptDirectory"]

_log = logging.getLogger(__name__)
_KIND = "millstream-frame"


class KeptDirectory:
    """A new directory that driver, slots and Spark's executors see; not for slots, which know its path.

    On one machine it is in the system's directory of temporary files, for this user only, and goes with the process,
    however that ends. Elsewhere it goes with the object, or with a process that ends well.

    Attributes:
        path: Absolute, or a URI.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._finalizer = weakref.finalize(self, _remove, path, os.getpid())

    @staticmethod
    def make(location: str | None, *, master: str, checkpoints: str | None) -> KeptDirectory:
        """Choose a directory: below `location`, else a temporary one, else below the directory of checkpoints.

        Args:
            location: Where the user wants it.
            master: Spark's master: on one machine a temporary directory is good enough.
            checkpoints: Directory of checkpoints, which all hosts share.

        Raises:
            ConfigurationError: If there are several hosts and nothing says what they share.
        """
        if location is None and master.startswith("local"):
            return KeptDirectory(scratch_directory("frame"))
        base = location or checkpoints
        if base is None:
            raise ConfigurationError(
                f"Spark and the job hand each other files, and no directory is named that all hosts of {master} share",
                hint="Give the call a location=, or set execution.checkpointing.dir.",
            )
        local = local_path(base)
        name = f"{_KIND}-{new_id()}"
        if local is None:
            return KeptDirectory(f"{base.rstrip('/')}/{name}")
        return KeptDirectory(os.path.join(os.path.abspath(local), name))

    @property
    def uri(self) -> str:
        """The path as Spark takes it, whose default file system may be another."""
        local = local_path(self.path)
        return self.path if local is None else Path(local).as_uri()

    def remove(self) -> None:
        """Remove it now."""
        self._finalizer()

    def keep_for_process(self) -> None:
        """Remove it when the process ends, and not before."""
        _of_process.append(self)


_of_process: list[KeptDirectory] = []


def _remove(path: str, process: int) -> None:
    if os.getpid() != process:  # a forked child
        return
    if local_path(path) is not None:
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        file_system, root = open_remote(path)
        file_system.delete_dir(root)
    except OSError as error:  # nobody waits for this, and the next may do without it
        _log.warning("directory %s could not be removed: %s", without_parameters(path), error)
