"""Directories for what a process needs as long as it lives; however it ends, somebody removes them.

::

    <base>/millstream-<user>/scratch/lock            held while a root is made, and while dead ones are looked for
                                     <random>/       locked by its process for life: the system lets go at its end
                                              <kind>-…/
                                     <random>.dead/  of a process that is gone: being removed

A process removes its own at its end (`atexit`, or `remove_all` where that is left out). What one left that was killed,
the next one of this user removes (`sweep`). A lock tells who lives, never a number of a process: numbers come again,
and containers that share a directory have their own. It is the directory that is locked: what tidies up temporary
directories leaves such ones alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from millstream.files.private_files import NotPrivateError, private_directory

__all__ = ["for_this_machine", "is_for_this_machine", "remove_all", "scratch_directory", "sweep"]

_DIRECTORY = "scratch"
_DEAD = ".dead"
_MOST_SWEPT = 1_000


@dataclass(frozen=True, slots=True)
class _Root:
    path: Path
    lock: int


_for_this_machine = ContextVar("for_this_machine", default=False)


@contextlib.contextmanager
def for_this_machine() -> Iterator[None]:
    """Have what is pickled meanwhile go to processes of this machine only: they see files in scratch directories."""
    token = _for_this_machine.set(True)
    try:
        yield
    finally:
        _for_this_machine.reset(token)


def is_for_this_machine() -> bool:
    """Return whether what is pickled now may name files in scratch directories rather than hold what is in them."""
    return _for_this_machine.get()


_roots: dict[str, _Root] = {}
_guard = threading.Lock()


def scratch_directory(kind: str, base: str | Path | None = None) -> str:
    """Return a new directory that is removed when this process has ended, if nobody removes it before.

    Args:
        kind: What it is for: the beginning of its name.
        base: Where; by default the system's directory of temporary files.

    Raises:
        NotPrivateError: If this user's directory there is not for this user only.
        OSError: If it cannot be made.
    """
    where = os.path.abspath(base or tempfile.gettempdir())
    with _guard:
        root = _roots.get(where)
        if root is None or not root.path.is_dir():
            if not _roots:
                atexit.register(remove_all)
            root = _roots[where] = _make_root(where)
    return tempfile.mkdtemp(prefix=f"{kind}-", dir=root.path)


def remove_all() -> None:
    """Remove this process's directories: it ends."""
    with _guard:
        roots = list(_roots.values())
        _roots.clear()
    for root in roots:
        shutil.rmtree(root.path, ignore_errors=True)
        os.close(root.lock)


def sweep(base: str | Path | None = None) -> None:
    """Remove what processes of this user have left that are gone; never waits for another that does the same.

    Args:
        base: As for `scratch_directory`.
    """
    with contextlib.suppress(
        NotPrivateError, OSError
    ):  # somebody else's, or none: nothing of ours lies there
        directory = private_directory(_DIRECTORY, base=base)
        with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
            dead = list(_bury(directory))
        for path in dead:
            shutil.rmtree(path, ignore_errors=True)


def _make_root(base: str) -> _Root:
    directory = private_directory(_DIRECTORY, base=base)
    with _locked(directory, fcntl.LOCK_EX):
        path = directory / secrets.token_hex(8)
        path.mkdir(mode=0o700)
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a file system without such locks: nobody ever takes it for dead
            fcntl.flock(lock, fcntl.LOCK_EX)
    return _Root(path, lock)


def _bury(directory: Path) -> Iterator[Path]:
    """Rename the roots of dead processes, so that others may be made meanwhile; yields what is to be removed."""
    with os.scandir(directory) as entries:
        for entry, _ in zip(entries, range(_MOST_SWEPT), strict=False):
            if not entry.is_dir(follow_symlinks=False):
                continue
            path = Path(entry.path)
            if path.suffix == _DEAD:
                yield path
            elif _is_dead(path):
                yield path.rename(path.with_suffix(_DEAD))


def _is_dead(root: Path) -> bool:
    lock = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    with open(directory / "lock", "ab") as lock:
        fcntl.flock(lock, how)
        yield


def _forget() -> None:
    """A forked child shares its parent's directories and must not remove them."""
    global _guard
    _guard = threading.Lock()
    for root in _roots.values():
        os.close(root.lock)
    _roots.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
