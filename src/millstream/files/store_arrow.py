"""Checkpoints in S3, and in other file systems of pyarrow.

An object is visible when its upload has ended, and replaces what was there at once: that is all that a store needs.
Directories exist by name only. None are made; pyarrow leaves an empty object "directory/" above what it removes, which
listings do not show and which goes with the directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from millstream.base.errors import CheckpointStorageError
from millstream.base.ids import new_id
from millstream.files.file_systems import Location, S3Settings
from millstream.files.refusals import refusal_of_s3
from millstream.files.remote import check_pyarrow, from_uri, s3
from millstream.files.store import FileStore

__all__ = ["ArrowStore", "S3Store"]

_ONE_REQUEST_BYTES: Final = 4 << 20
_BID: Final = ".bid"


class ArrowStore(FileStore):
    """A store that pyarrow has a file system for.

    Args:
        location: URI, as pyarrow takes it.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """

    def __init__(self, location: str) -> None:
        check_pyarrow("parquet", 15)
        self.location = location

    def _open(self) -> tuple[Any, str]:
        """Return the file system, and this directory within it.

        Raises:
            CheckpointStorageError: If there is no such file system.
        """
        try:
            file_system, root = from_uri(self.location)
        except (ValueError, OSError) as error:
            raise CheckpointStorageError(
                f'the location "{self.location}" cannot be used: {error}',
                hint="Give a directory, s3://bucket/path, hdfs://host:port/path, or another URI that "
                "pyarrow.fs.FileSystem.from_uri understands.",
            ) from error
        return file_system, root

    def _place(self, path: str) -> tuple[Any, str]:
        file_system, root = self._open()
        return file_system, f"{root}/{path}".rstrip("/")

    def _make_room(self, file_system: Any, target: str) -> None:
        """Have the directory of a file be there, where that matters."""
        if file_system.type_name in ("local", "hdfs"):
            file_system.create_dir(target.rpartition("/")[0], recursive=True)

    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None:
        file_system, target = self._place(path)
        self._make_room(file_system, target)
        _write(file_system, target, parts)

    def _put_new(self, path: str, data: bytes) -> bool:
        """Write a file if nobody else bids for it: pyarrow has no write that fails where there is an object.

        Everybody puts a bid of its own beside the place first, and looks then who else is there. Of two, one at least
        sees the other's bid or the file, and leaves it; it may be both.
        """
        directory, _, name = path.rpartition("/")
        bid = f"{name}.{new_id()[:12]}{_BID}"
        place = f"{directory}/{bid}".lstrip("/")
        self._put(place, data)
        try:
            found = self._names(directory)
            if any(other == name or (_is_bid_for(name, other) and other != bid) for other in found):
                return False
            self._put(path, data)
            return True
        finally:
            self._remove(place)

    def _get(self, path: str) -> bytes:
        file_system, target = self._place(path)
        with file_system.open_input_file(target) as file:
            return bytes(file.read())

    def _get_part(self, path: str, offset: int, length: int) -> bytes:
        file_system, target = self._place(path)
        with file_system.open_input_file(target) as file:
            return bytes(file.read_at(length, offset)) if offset < file.size() else b""

    def _names(self, directory: str) -> list[str]:
        from pyarrow import fs

        file_system, target = self._place(directory)
        wanted = fs.FileSelector(target, allow_not_found=True)
        try:
            found = file_system.get_file_info(wanted)
        except (
            FileNotFoundError
        ):  # somebody made it between pyarrow's failing to list it and its asking whether it is
            found = file_system.get_file_info(wanted)
        return sorted(info.base_name for info in found)

    def _remove(self, path: str) -> None:
        from pyarrow import fs

        file_system, target = self._place(path)
        kind = file_system.get_file_info(target).type
        if kind is fs.FileType.Directory:
            file_system.delete_dir(target)
        elif kind is fs.FileType.File:
            file_system.delete_file(target)


class S3Store(ArrowStore):
    """A store in a bucket of S3.

    Args:
        place: Bucket and path.
        settings: How to reach it.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """

    def __init__(self, place: Location, settings: S3Settings) -> None:
        check_pyarrow("s3", 21)
        self.location = str(place)
        self._address = place.address
        self._bucket = place.authority
        self._root = f"{place.authority}{place.path}"
        self._settings = settings

    @property
    def address(self) -> str:
        """The location with what its URI says: never shown, nor stored."""
        return self._address

    def _open(self) -> tuple[Any, str]:
        try:
            return s3(self._settings, self._bucket), self._root
        except OSError as error:
            raise self._failed("opened", "", error) from error

    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None:
        # A large file is announced first: pyarrow, once it has failed to do so later, might send an empty one.
        in_one = size <= _ONE_REQUEST_BYTES
        file_system = s3(self._settings, self._bucket, in_one=in_one)
        _write(file_system, f"{self._root}/{path}", parts)

    def _get(self, path: str) -> bytes:
        try:
            return super()._get(path)
        except FileNotFoundError:
            self._check_bucket(path)
            raise

    def _get_part(self, path: str, offset: int, length: int) -> bytes:
        try:
            return super()._get_part(path, offset, length)
        except FileNotFoundError:
            self._check_bucket(path)
            raise

    def _names(self, directory: str) -> list[str]:
        names = super()._names(directory)
        if not names:
            self._check_bucket(directory)
        return names

    def _check_bucket(self, path: str) -> None:
        """Tell a bucket that is not there from an object that is not."""
        from pyarrow import fs

        file_system, _ = self._open()
        try:
            found = file_system.get_file_info(self._bucket).type
        except OSError:
            return  # who may read objects need not be allowed to ask for the bucket
        if found is fs.FileType.NotFound:
            raise self._failed("read", path, OSError("AWS Error NO_SUCH_BUCKET"))

    def _failed(self, what: str, path: str, error: OSError) -> CheckpointStorageError:
        refusal = refusal_of_s3(self._settings, self._bucket, error)
        return CheckpointStorageError(
            refusal.after(f'file "{self.describe(path)}" cannot be {what}'),
            detail=refusal.detail,
            hint=refusal.hint,
        )


def _is_bid_for(name: str, other: str) -> bool:
    return other.startswith(f"{name}.") and other.endswith(_BID)


def _write(file_system: Any, target: str, parts: Iterator[bytes]) -> None:
    """Write a file; what fails publishes nothing."""
    stream = file_system.open_output_stream(target)
    try:
        for part in parts:
            stream.write(part)
        stream.close()
    finally:
        # What could not be closed is closed once more when it goes: that is to be now, not when the error is forgotten.
        del stream
