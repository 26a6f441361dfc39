"""What a store of checkpoints promises, wherever it is; `storage.open_store` opens one."""

from __future__ import annotations

import hashlib
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

from millstream.base.crash_points import around
from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError
from millstream.files.private_files import NotPrivateError

__all__ = ["STAGED", "Checksum", "FileRef", "FileStore", "LocalCopy", "PartlyRead", "StoredFile", "checksum"]

STAGED = ".staged"
"""How names of files end that are not finished yet."""


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
        self.check_checksum(checksum(data), where)
        return data

    def check_checksum(self, found: str, where: str) -> None:
        """Compare the checksum of what was read from `where`.

        Raises:
            CheckpointDamagedError: If it is not what was written.
        """
        if found != self.checksum:
            raise CheckpointDamagedError(
                f'file "{where}" was altered: its checksum is another than when written'
            )


class Checksum:
    """The checksum of contents that come in parts."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, part: bytes) -> None:
        """Add the next part."""
        self._hash.update(part)

    def text(self) -> str:
        """Return the checksum of all parts, as of `FileRef`."""
        return self._hash.hexdigest()


def checksum(data: bytes) -> str:
    """Return the checksum of a file's contents."""
    whole = Checksum()
    whole.add(data)
    return whole.text()


class FileStore(ABC):
    """A directory, local or remote; every method may be called from any process.

    Attributes:
        location: How users name it, as it is shown and stored.
    """

    location: str

    @property
    def address(self) -> str:
        """The location with what a URI says of how to reach it, to open it anew: never shown, nor stored."""
        return self.location

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

    def write_parts(self, path: str, parts: Callable[[], Iterator[bytes]], ref: FileRef) -> FileRef:
        """Write a large file, of which a part at a time is in memory; as `write`.

        Args:
            path: Where.
            parts: Gives the contents, each time that it is called.
            ref: Size and checksum of all of them.

        Raises:
            CheckpointStorageError: If it cannot be written.
        """
        try:
            around("storage.write", self.describe(path), lambda: self._put_parts(path, ref.size, parts()))
        except OSError as error:
            raise self._failed("written", path, error) from error
        return ref

    def create(self, path: str, data: bytes) -> bool:
        """Write a small file unless there is one; of all who do so at once, one at most succeeds.

        Returns:
            Whether this call wrote it. If not, there is one, or others tried at the same time.

        Raises:
            CheckpointStorageError: If it cannot be written; it may be there all the same.
        """
        try:
            return around("storage.write", self.describe(path), lambda: self._put_new(path, data))
        except OSError as error:
            raise self._failed("written", path, error) from error

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

    def read_part(self, ref: FileRef, offset: int, length: int) -> bytes:
        """Read some bytes of a file; whoever reads a part checks it by a checksum of its own.

        Raises:
            CheckpointDamagedError: If the file is missing, or too short.
        """
        where = self.describe(ref.path)
        try:
            data = around("storage.read", where, lambda: self._get_part(ref.path, offset, length))
        except FileNotFoundError:
            raise CheckpointDamagedError(f'file "{where}" is missing') from None
        except OSError as error:
            raise self._failed("read", ref.path, error) from error
        if len(data) != length:
            raise CheckpointDamagedError(
                f'file "{where}" ends before byte {offset + length}, {ref.size} bytes were written',
                detail="It was cut, or replaced by another.",
            )
        return data

    def read_if_there(self, path: str) -> bytes | None:
        """Read a file that nothing tells the checksum of; None if there is none."""
        try:
            return self._get(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", path, error) from error

    def confirm(self, ref: FileRef, writer: str) -> None:
        """Check that a file is here that was written elsewhere; what hosts reach by a network is, for all of them.

        Args:
            ref: The file.
            writer: Who wrote it, for messages.

        Raises:
            CheckpointStorageError: If it is not here.
        """

    def describe(self, path: str) -> str:
        """Return a file's place as users name it."""
        return f"{self.location.rstrip('/')}/{path}"

    def _failed(self, what: str, path: str, error: OSError) -> CheckpointStorageError:
        if isinstance(error, NotPrivateError):
            return CheckpointStorageError(error.message, detail=error.detail, hint=error.hint)
        return CheckpointStorageError(
            f'file "{self.describe(path)}" cannot be {what}: {error.strerror or error}',
            hint="Check that the directory of checkpoints exists, can be written by every host, and has space.",
        )

    def _put(self, path: str, data: bytes) -> None:
        self._put_parts(path, len(data), iter([data]))

    @abstractmethod
    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None: ...

    @abstractmethod
    def _put_new(self, path: str, data: bytes) -> bool: ...

    @abstractmethod
    def _get(self, path: str) -> bytes: ...

    @abstractmethod
    def _get_part(self, path: str, offset: int, length: int) -> bytes:
        """Return some bytes of a file; fewer, or none, where it ends before."""

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none.

        Raises:
            CheckpointStorageError: If they cannot be read.
        """
        return [name for name in self._listed(directory) if not name.endswith(STAGED)]

    def leftovers(self, directory: str) -> list[str]:
        """Return the names of files in a directory whose writer has not finished them, or was killed before.

        Raises:
            CheckpointStorageError: If they cannot be read.
        """
        return [name for name in self._listed(directory) if name.endswith(STAGED)]

    def _listed(self, directory: str) -> list[str]:
        try:
            return sorted(self._names(directory))
        except OSError as error:
            raise self._failed("listed", directory, error) from error

    @abstractmethod
    def _names(self, directory: str) -> list[str]: ...

    def delete(self, path: str, *, may_return: bool = False) -> None:
        """Remove a file or directory with all in it; nothing happens if there is none.

        Args:
            path: The file or directory.
            may_return: Whether it does no harm if power fails and it is there again: that is cheaper.

        Raises:
            CheckpointStorageError: If it cannot be removed.
        """
        try:
            around("storage.delete", self.describe(path), lambda: self._remove(path))
            if not may_return:
                self._settle(path)
        except FileNotFoundError:
            return  # somebody else removed it meanwhile
        except OSError as error:
            raise self._failed("removed", path, error) from error

    @abstractmethod
    def _remove(self, path: str) -> None: ...

    def _settle(self, path: str) -> None:
        """Make a removal durable; nothing where it is so at once."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of which parts are read.

    Attributes:
        store: Where it is.
        ref: The file.
    """

    store: FileStore
    ref: FileRef

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.ref.size

    def read(self, offset: int, length: int) -> bytes:
        """Read some bytes; see `FileStore.read_part`."""
        return self.store.read_part(self.ref, offset, length)


class PartlyRead(Protocol):
    """A file of which parts are read."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Read some bytes."""


class LocalCopy:
    """A file on this host's disk while many parts of it are read; checked as it is copied. A context manager.

    Args:
        store: Where the file is.
        ref: The file.

    Raises:
        CheckpointDamagedError: If it is missing or not what was written.
        CheckpointStorageError: If it cannot be read, or this host has no room for it.
    """

    def __init__(self, store: FileStore, ref: FileRef) -> None:
        self.size = ref.size
        self._file = tempfile.SpooledTemporaryFile(_COPIED_BYTES)  # noqa: SIM115 - closed by __exit__
        whole = Checksum()
        for offset in range(0, ref.size, _COPIED_BYTES):
            part = store.read_part(ref, offset, min(_COPIED_BYTES, ref.size - offset))
            whole.add(part)
            try:
                self._file.write(part)
            except OSError as error:
                raise CheckpointStorageError(
                    f"there is no room for {ref.size} bytes in {tempfile.gettempdir()}: {error.strerror or error}",
                    hint="Make room, or name another directory in TMPDIR.",
                ) from error
        ref.check_checksum(whole.text(), store.describe(ref.path))

    def read(self, offset: int, length: int) -> bytes:
        """Read some bytes."""
        self._file.seek(offset)
        return self._file.read(length)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


_COPIED_BYTES = 4 << 20
