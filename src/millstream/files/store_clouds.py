"""Checkpoints in Google Cloud Storage and in Azure Blob Storage.

Google's objects are there when their upload has ended. pyarrow makes a blob of Azure's, empty, as soon as it is opened,
and what was there is gone: so a small one, which may replace another, is written beside its place and copied by the
server, in one step. A large one is written in its place: its name is new, and nobody refers to it before it is whole.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from millstream.base.crash_points import reach
from millstream.base.errors import CheckpointStorageError
from millstream.base.ids import new_id
from millstream.files.cloud_settings import AzureSettings, GcsSettings
from millstream.files.file_systems import Location
from millstream.files.refusals import NO_BUCKET, Refusal, refusal_of_azure, refusal_of_gcs
from millstream.files.remote import arrow_fs, azure, check_pyarrow, gcs
from millstream.files.store import STAGED
from millstream.files.store_arrow import ArrowStore

__all__ = ["AzureStore", "GcsStore"]

_AT_ONCE_BYTES: Final = 4 << 20


class _CloudStore(ArrowStore):
    """A store in a bucket or container; `_open` and `_refusal` tell whose."""

    _extra: str
    _least: int

    def __init__(self, place: Location) -> None:
        check_pyarrow(self._extra, self._least)
        self.location = str(place)
        self._bucket = place.bucket
        self._root = f"{place.bucket}{place.path}"

    @abstractmethod
    def _refusal(self, error: OSError) -> Refusal:
        """Return what an error of the service means."""

    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None:
        file_system, target = self._place(path)
        if size <= _AT_ONCE_BYTES:
            self._put_small(file_system, target, b"".join(parts))
            return
        stream = file_system.open_output_stream(target)
        try:
            for part in parts:
                stream.write(part)
            stream.close()
        except BaseException:
            # pyarrow ends the upload of what is thrown away: half a file would be there.
            with suppress(OSError):
                stream.close()
            with suppress(OSError):
                file_system.delete_file(target)
            raise

    def _put_small(self, file_system: Any, target: str, data: bytes) -> None:
        with file_system.open_output_stream(target) as stream:
            stream.write(data)

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

    def _remove(self, path: str) -> None:
        """Remove a file, or all files of a directory: pyarrow fails for those that no empty object stands for."""
        fs = arrow_fs()
        file_system, target = self._place(path)
        kind = file_system.get_file_info(target).type
        if kind is fs.FileType.File:
            file_system.delete_file(target)
        elif kind is fs.FileType.Directory:
            try:
                file_system.delete_dir(target)
            except FileNotFoundError:
                if file_system.get_file_info(target).type is not fs.FileType.NotFound:
                    raise

    def _check_bucket(self, path: str) -> None:
        """Tell a bucket that is not there from an object that is not."""
        file_system, _ = self._open()
        try:
            found = file_system.get_file_info(self._bucket).type
        except OSError:
            return  # who may read objects need not be allowed to ask for the bucket
        if found is arrow_fs().FileType.NotFound:
            raise self._failed("read", path, OSError(NO_BUCKET))

    def _failed(self, what: str, path: str, error: OSError) -> CheckpointStorageError:
        refusal = self._refusal(error)
        return CheckpointStorageError(
            refusal.after(f'file "{self.describe(path)}" cannot be {what}'),
            detail=refusal.detail,
            hint=refusal.hint,
        )


class GcsStore(_CloudStore):
    """A store in a bucket of Google Cloud Storage.

    Args:
        place: Bucket and path.
        settings: How to reach it.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """

    _extra, _least = "gcs", 21

    def __init__(self, place: Location, settings: GcsSettings) -> None:
        super().__init__(place)
        self._settings = settings

    def _open(self) -> tuple[Any, str]:
        return gcs(self._settings), self._root

    def _names(self, directory: str) -> list[str]:
        """Return the names in a directory; pyarrow lists no directories that no empty object stands for."""
        file_system, target = self._place(directory)
        found = file_system.get_file_info(
            arrow_fs().FileSelector(target, allow_not_found=True, recursive=True)
        )
        names = {info.path[len(target) + 1 :].partition("/")[0] for info in found}
        if not names:
            self._check_bucket(directory)
        return sorted(names)

    def _put_small(self, file_system: Any, target: str, data: bytes) -> None:
        try:
            super()._put_small(file_system, target, data)
        except FileNotFoundError as error:
            raise OSError(str(error)) from error  # the bucket is not there, as the refusal will say

    def _refusal(self, error: OSError) -> Refusal:
        return refusal_of_gcs(self._settings, self._bucket, error)


class AzureStore(_CloudStore):
    """A store in a container of Azure Blob Storage.

    Args:
        place: Container, account and path.
        settings: How to reach it.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """

    _extra, _least = "azure", 26

    def __init__(self, place: Location, settings: AzureSettings) -> None:
        super().__init__(place)
        self._settings = settings

    def _open(self) -> tuple[Any, str]:
        try:
            return azure(self._settings, self._bucket), self._root
        except OSError as error:
            raise self._failed("opened", "", error) from error

    def _put_small(self, file_system: Any, target: str, data: bytes) -> None:
        staged = f"{target}.{new_id()[:8]}{STAGED}"
        try:
            super()._put_small(file_system, staged, data)
            reach("storage.staged", staged)
            file_system.copy_file(staged, target)
        finally:
            with suppress(OSError):
                file_system.delete_file(staged)

    def _refusal(self, error: OSError) -> Refusal:
        return refusal_of_azure(self._settings, self._bucket, error)
