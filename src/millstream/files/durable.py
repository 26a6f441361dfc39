"""Local files that are there after a power failure.

A file system keeps, when power fails, what was synced and nothing else for certain: a file's contents belong to the
file, its name to the directory. So whatever a checkpoint, a reader or a later driver relies on goes three steps::

    make_directories     each new directory's name is synced in its parent
    write, sync          the contents, before any name tells that they are whole
    rename, sync         the directory that holds the name, before anybody is told

`millstream verify` lets power fail between any two of them.
"""

from __future__ import annotations

import os
from contextlib import suppress

from millstream.base.ids import new_id
from millstream.files.private_files import create_own

__all__ = ["make_directories", "publish", "sync_directory", "write_file"]


def sync_directory(path: str) -> None:
    """Make the names in a directory durable.

    Raises:
        OSError: If that fails, or there is no such directory.
    """
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: str, *, mode: int = 0o777, sync: bool = True) -> list[str]:
    """Make a directory with its parents; return those that were not there, outermost first.

    Args:
        path: The directory.
        mode: Permissions of the directory itself, if it is made; the umask is taken off.
        sync: Whether to make their names durable; else the caller does, in the directories above those returned.

    Raises:
        OSError: If that fails.
    """
    missing, directory = [], path
    while directory and not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    os.makedirs(path, mode=mode, exist_ok=True)
    missing.reverse()
    if sync:
        for made in missing:
            sync_directory(os.path.dirname(made))
    return missing


def publish(staged: str, target: str) -> None:
    """Give a file, whose contents are synced, its name in the same directory, in the place of what has that name.

    Raises:
        OSError: If that fails; the file may have either name then.
    """
    os.replace(staged, target)
    sync_directory(os.path.dirname(target))


def write_file(path: str, data: bytes) -> None:
    """Write a small file in a directory that is there: it is there whole, or as it was before.

    Raises:
        OSError: If that fails.
    """
    staged = f"{path}.{new_id()[:8]}.partial"
    try:
        with create_own(staged) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        publish(staged, path)
    except BaseException:
        with suppress(OSError):  # the error that is under way says more, and may be an interruption
            os.unlink(staged)
        raise
