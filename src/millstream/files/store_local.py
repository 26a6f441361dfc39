"""Checkpoints in a directory that all hosts see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from millstream.base.crash_points import reach
from millstream.base.errors import CheckpointStorageError
from millstream.base.ids import new_id
from millstream.files.durable import make_directories, publish, sync_directory
from millstream.files.private_files import Trust, create_own, open_own
from millstream.files.store import STAGED, FileRef, FileStore

__all__ = ["LocalStore"]


class LocalStore(FileStore):
    """A file is written beside its place, made durable and renamed; directories are durable with their names.

    Args:
        location: The directory.
        trust: Whose files are read beside this user's: what is read is unpickled.
    """

    def __init__(self, location: str, trust: Trust | None = None) -> None:
        self.location = os.path.abspath(os.path.expanduser(location))
        self._trust = trust or Trust()

    def _path(self, path: str) -> str:
        return os.path.join(self.location, path)

    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None:
        self._stage(path, parts, publish)

    def _put_new(self, path: str, data: bytes) -> bool:
        try:
            self._stage(path, iter([data]), _link)
        except FileExistsError:
            return False
        return True

    def _stage(self, path: str, parts: Iterator[bytes], give_name: Callable[[str, str], None]) -> None:
        target = self._path(path)
        directory = os.path.dirname(target)
        make_directories(directory)
        staged = f"{target}.{new_id()[:8]}{STAGED}"
        try:
            with create_own(staged) as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            reach("storage.staged", staged)
            give_name(staged, target)
        except BaseException:
            with suppress(OSError):  # the error that is under way says more, and may be an interruption
                os.unlink(staged)
            raise

    def _get(self, path: str) -> bytes:
        with open_own(self._path(path), self._trust) as file:
            return file.read()

    def _get_part(self, path: str, offset: int, length: int) -> bytes:
        with open_own(self._path(path), self._trust) as file:
            file.seek(offset)
            return file.read(length)

    def confirm(self, ref: FileRef, writer: str) -> None:
        """Check that a file is here that was written elsewhere: the directory may be another one on another host."""
        try:
            size = os.stat(self._path(ref.path)).st_size
        except FileNotFoundError:
            size = None
        except OSError as error:
            raise self._failed("read", ref.path, error) from error
        if size != ref.size:
            raise CheckpointStorageError(
                f'file "{self.describe(ref.path)}", which {writer} wrote, '
                + (
                    "is not there for the driver"
                    if size is None
                    else f"has {size} of {ref.size} bytes for the driver"
                ),
                hint="Name a directory that all hosts share: execution.checkpointing.dir.",
            )

    def _names(self, directory: str) -> list[str]:
        try:
            return os.listdir(self._path(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _remove(self, path: str) -> None:
        target = self._path(path).rstrip("/")
        if os.path.isdir(target):
            shutil.rmtree(target)
        else:
            Path(target).unlink(missing_ok=True)

    def _settle(self, path: str) -> None:
        with suppress(FileNotFoundError):  # the directory went as well, with whoever removed it
            sync_directory(os.path.dirname(self._path(path).rstrip("/")))


def _link(staged: str, target: str) -> None:
    """Give a file its name, durably, unless another one has it.

    Raises:
        FileExistsError: If another one has.
    """
    try:
        os.link(staged, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the name first, with nothing in the file
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(staged, target)
    else:
        os.unlink(staged)
    sync_directory(os.path.dirname(target))
