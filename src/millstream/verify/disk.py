"""A disk that loses what was not synced when power fails.

The files of a simulation are real ones; of each is noted what was synced, at the moment when it was::

    os.fsync(file)        its contents as they are            by inode, so that a rename changes nothing
    os.fsync(directory)   the names in it as they are

When power fails, a directory has the names that were synced, or, for some of them by chance, those that it has: a file
system may have written them by itself, all changes of a directory or none. Files have the contents that were synced;
those that never were are empty. What was removed, and the removal was not synced, may be back.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, Final

__all__ = ["Disk"]

_WRITTEN_ANYWAY: Final = 0.3
"""Probability that names of a directory that were not synced are there all the same."""

Tree = dict[str, "Tree | bytes"]


@dataclass(frozen=True, slots=True)
class _Name:
    """What a name stands for."""

    inode: int
    is_directory: bool


@dataclass(slots=True)
class _Synced:
    """What was synced, by inode. The inodes are kept from being used again."""

    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, dict[str, _Name]] = field(default_factory=dict)
    kept: ExitStack = field(default_factory=ExitStack)


class Disk:
    """Some directories whose files power loss strikes; one thread at a time makes names there, several may sync.

    Args:
        roots: The directories; they need not be there yet.
        scratch: A directory of the same file system to keep notes in.
    """

    def __init__(self, roots: Sequence[Path], scratch: Path) -> None:
        self._roots = [str(root) for root in roots]
        self._watched = tuple(f"{path}/" for root in self._roots for path in (root, os.path.dirname(root)))
        self._scratch = scratch
        self._links = 0
        self._lock = Lock()
        self._synced = _Synced()
        self._left: dict[str, Tree | None] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Note what is synced."""
        right = os.fsync
        self._scratch.mkdir(exist_ok=True)

        def fsync(file: Any) -> None:
            right(file)
            with self._lock:
                self._note(file if isinstance(file, int) else file.fileno())

        os.fsync = fsync  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync = right
            self._synced.kept.close()

    def fail(self, random: Random) -> None:
        """Let power fail now; what is left is there after `restart`."""
        now = {root: _directories(root) for root in self._roots}
        self._left = {}
        for root in self._roots:
            above = os.path.dirname(root)
            names = self._synced.names.get(os.stat(above).st_ino, {}) if os.path.isdir(above) else {}
            name = names.get(os.path.basename(root))
            if name is None:
                self._left[root] = None
            else:
                self._left[root] = self._tree(
                    name.inode, now[root], lambda: random.random() < _WRITTEN_ANYWAY
                )

    def restart(self) -> None:
        """Have the directories be what power loss left, whatever was done to them since."""
        left, self._left = self._left, None
        assert left is not None, "power has not failed"
        self._synced.kept.close()
        self._synced = _Synced()
        for root, tree in left.items():
            shutil.rmtree(root, ignore_errors=True)
            if tree is not None:
                _write(root, tree)
        for root in self._roots:
            if os.path.isdir(root):
                for directory, _, files in os.walk(root):
                    self._note_path(directory)
                    for name in files:
                        self._note_path(os.path.join(directory, name))
                self._note_path(os.path.dirname(root))

    def _tree(self, inode: int, now: dict[int, str], written_anyway: Callable[[], bool]) -> Tree:
        synced = self._synced
        names = synced.names.get(inode, {})
        if inode in now and written_anyway():
            names = _names(now[inode])
        return {
            name: self._tree(each.inode, now, written_anyway)
            if each.is_directory
            else synced.contents.get(each.inode, b"")
            for name, each in sorted(names.items())
        }

    def _note_path(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self._note(descriptor)
        finally:
            os.close(descriptor)

    def _note(self, descriptor: int) -> None:
        path = _path_of(descriptor)
        status = os.fstat(descriptor)
        if not f"{path}/".startswith(self._watched) or status.st_nlink == 0:
            return
        synced = self._synced
        if stat.S_ISDIR(status.st_mode):
            if status.st_ino not in synced.names:
                synced.kept.callback(os.close, os.open(path, os.O_RDONLY))
            synced.names[status.st_ino] = _names(path)
            return
        if status.st_ino not in synced.contents:
            self._links += 1
            os.link(path, self._scratch / str(self._links))
        synced.contents[status.st_ino] = Path(path).read_bytes()


def _path_of(descriptor: int) -> str:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _names(directory: str) -> dict[str, _Name]:
    with os.scandir(directory) as entries:
        return {entry.name: _Name(entry.inode(), entry.is_dir()) for entry in entries}


def _directories(root: str) -> dict[int, str]:
    """Return the directories that are there now, by inode."""
    return {os.stat(directory).st_ino: directory for directory, _, _ in os.walk(root)}


def _write(directory: str, tree: Tree) -> None:
    os.makedirs(directory)
    for name, content in tree.items():
        path = os.path.join(directory, name)
        if isinstance(content, bytes):
            Path(path).write_bytes(content)
        else:
            _write(path, content)
