"""Where checkpoints are kept: directories of files that are written once and never changed.

A file is there completely or not at all: local files are written beside their place, made durable and renamed;
object stores make an object visible when its upload ends. Each carries size and checksum in whatever refers to
it (`FileRef`), so a file that is missing, cut or altered is recognised when it is read.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.common.crash_points import around, reach
from millstream.common.errors import CheckpointDamagedError, CheckpointStorageError
from millstream.common.ids import new_id

__all__ = ["FileRef", "FileStore", "open_store"]


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of a store.

    Attributes:
        path: Relative to the store.
        size: In bytes.
        checksum: BLAKE2b of the contents, 32 hexadecimal digits.
    """

    path: str
    size: int
    checksum: str

    def check(self, data: bytes, where: str) -> bytes:
        """Return `data`, read from `where`.

        Raises:
            CheckpointDamagedError: If it is not what was written.
        """
        if len(data) != self.size:
            raise CheckpointDamagedError(
                f'file "{where}" has {len(data)} bytes, {self.size} were written',
                detail="It was cut, or replaced by another.",
            )
        if checksum(data) != self.checksum:
            raise CheckpointDamagedError(
                f'file "{where}" was altered: its checksum is another than when written'
            )
        return data


def checksum(data: bytes) -> str:
    """Return the checksum of a file's contents."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class FileStore(ABC):
    """A directory, local or remote; every method may be called from any process.

    Attributes:
        location: How users name it.
    """

    location: str

    def write(self, path: str, data: bytes) -> FileRef:
        """Write a file; it is durable and visible as a whole when this returns.

        Raises:
            CheckpointStorageError: If it cannot be written.
        """
        try:
            around("storage.write", self.describe(path), lambda: self._put(path, data))
        except OSError as error:
            raise self._failed("written", path, error) from error
        return FileRef(path, len(data), checksum(data))

    def read(self, ref: FileRef) -> bytes:
        """Read a file and check it.

        Raises:
            CheckpointDamagedError: If it is missing or not what was written.
        """
        where = self.describe(ref.path)
        try:
            data = around("storage.read", where, lambda: self._get(ref.path))
        except FileNotFoundError:
            raise CheckpointDamagedError(f'file "{where}" is missing') from None
        except OSError as error:
            raise self._failed("read", ref.path, error) from error
        return ref.check(data, where)

    def read_if_there(self, path: str) -> bytes | None:
        """Read a file that nothing tells the checksum of; None if there is none."""
        try:
            return self._get(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", path, error) from error

    def describe(self, path: str) -> str:
        """Return a file's place as users name it."""
        return f"{self.location.rstrip('/')}/{path}"

    def _failed(self, what: str, path: str, error: OSError) -> CheckpointStorageError:
        return CheckpointStorageError(
            f'file "{self.describe(path)}" cannot be {what}: {error.strerror or error}',
            hint="Check that the directory of checkpoints exists, can be written by every host, and has space.",
        )

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None: ...

    @abstractmethod
    def _get(self, path: str) -> bytes: ...

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none.

        Raises:
            CheckpointStorageError: If they cannot be read.
        """
        try:
            return self._names(directory)
        except OSError as error:
            raise self._failed("listed", directory, error) from error

    @abstractmethod
    def _names(self, directory: str) -> list[str]: ...

    def delete(self, path: str) -> None:
        """Remove a file or directory with all in it; nothing happens if there is none.

        Raises:
            CheckpointStorageError: If it cannot be removed.
        """
        try:
            around("storage.delete", self.describe(path), lambda: self._remove(path))
        except FileNotFoundError:
            return  # somebody else removed it meanwhile
        except OSError as error:
            raise self._failed("removed", path, error) from error

    @abstractmethod
    def _remove(self, path: str) -> None: ...


def open_store(location: str) -> FileStore:
    """Return the store at a path or URI (`file://`, `s3://`, `gs://`, `hdfs://`, whatever pyarrow knows).

    Raises:
        CheckpointStorageError: If the URI cannot be used.
    """
    local = re.sub(r"^file:(//)?", "", location)
    if not re.match(r"[a-z0-9+]+://", local):
        return _LocalStore(local)
    return _ArrowStore(location)


class _LocalStore(FileStore):
    def __init__(self, location: str) -> None:
        self.location = os.path.abspath(os.path.expanduser(location))

    def _path(self, path: str) -> str:
        return os.path.join(self.location, path)

    def _put(self, path: str, data: bytes) -> None:
        target = self._path(path)
        directory = os.path.dirname(target)
        os.makedirs(directory, exist_ok=True)
        staged = f"{target}.{new_id()[:8]}.staged"
        try:
            with open(staged, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            reach("storage.staged", staged)
            os.replace(staged, target)
        except BaseException:
            Path(staged).unlink(missing_ok=True)
            raise
        _sync_directory(directory)

    def _get(self, path: str) -> bytes:
        with open(self._path(path), "rb") as file:
            return file.read()

    def _names(self, directory: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._path(directory)) if not name.endswith(".staged"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _remove(self, path: str) -> None:
        target = self._path(path)
        if os.path.isdir(target):
            shutil.rmtree(target)
        else:
            Path(target).unlink(missing_ok=True)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _ArrowStore(FileStore):
    """A store that pyarrow has a file system for; objects appear whole when their stream is closed."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._opened: tuple[Any, str] | None = None

    @property
    def _filesystem(self) -> tuple[Any, str]:
        if self._opened is None:
            try:
                from pyarrow.fs import FileSystem  # slow to import; local directories do not need it

                self._opened = FileSystem.from_uri(self.location)
            except (ImportError, ValueError, OSError) as error:
                raise CheckpointStorageError(
                    f'the location "{self.location}" cannot be used: {error}',
                    hint="Give a directory, or a URI that pyarrow.fs.FileSystem.from_uri understands.",
                ) from error
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location, "_opened": None}

    def _put(self, path: str, data: bytes) -> None:
        filesystem, root = self._filesystem
        target = f"{root}/{path}"
        filesystem.create_dir(os.path.dirname(target), recursive=True)
        with filesystem.open_output_stream(target) as stream:
            stream.write(data)

    def _get(self, path: str) -> bytes:
        filesystem, root = self._filesystem
        with filesystem.open_input_stream(f"{root}/{path}") as stream:
            return bytes(stream.read())

    def _names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        filesystem, root = self._filesystem
        found = filesystem.get_file_info(FileSelector(f"{root}/{directory}", allow_not_found=True))
        return sorted(info.base_name for info in found)

    def _remove(self, path: str) -> None:
        from pyarrow.fs import FileType

        filesystem, root = self._filesystem
        kind = filesystem.get_file_info(f"{root}/{path}").type
        if kind is FileType.Directory:
            filesystem.delete_dir(f"{root}/{path}")
        elif kind is FileType.File:
            filesystem.delete_file(f"{root}/{path}")
