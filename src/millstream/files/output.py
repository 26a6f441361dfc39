"""Where a file sink's files are: a local directory, S3, or whatever else pyarrow has a file system for.

Kinds with different promises::

                       local                       S3                          pyarrow (hdfs, gs, abfs, …)
    staged file        grows on the disk           a multipart upload          is whole when its stream is closed
    publish            a rename in the directory   the upload is completed     a rename (hdfs), or the server's copy
                                                                               and a delete (gs, abfs)
    seen by readers    at the rename, whole        then, whole                 then, whole
    open over
    checkpoints        yes                         no: files are finished      no
                                                   at every checkpoint
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, cast
from urllib.parse import quote, unquote

from millstream.base.crash_points import reach
from millstream.base.errors import SinkError
from millstream.base.ids import new_id
from millstream.files.cloud_settings import CLOUD_SCHEMES
from millstream.files.durable import make_directories, sync_directory
from millstream.files.file_systems import current, parse_location
from millstream.files.paths import local_path
from millstream.files.refusals import refusal_at
from millstream.files.remote import S3_SCHEMES, arrow_fs, open_remote, without_parameters
from millstream.files.s3_uploads import S3Uploads, UploadStream

__all__ = ["OutputFiles", "open_output"]

_COPY_BYTES = 1 << 20
_UPLOAD = "?upload="


def open_output(base_path: str) -> OutputFiles:
    """Return the files below a path or URI.

    Raises:
        SinkError: If there is no file system for the URI.
        ConfigurationError: If pyarrow is needed and not installed.
    """
    local = local_path(base_path)
    if local is not None:
        return _LocalOutput(os.path.abspath(local))
    scheme = parse_location(base_path).scheme
    if scheme in S3_SCHEMES:
        return _S3Output(base_path)
    return _CloudOutput(base_path) if scheme in CLOUD_SCHEMES else _ArrowOutput(base_path)


class OutputFiles(ABC):
    """The files below a sink's base path; paths given and taken are as `base` is. Picklable.

    Different files may be synced, closed and published by several threads at once.

    Attributes:
        base: The base path, without a slash at its end.
        address: The same as it was given, with what a URI says of how to reach it; never shown.
        appends: Whether a staged file is durable up to what was synced, while it grows.
        renames: Whether what is staged is a hidden file that can be read; if not, final names tell whose they are
            (`WriterContext.new_name`).
    """

    base: str
    address: str
    appends: bool
    renames: bool = True

    def stage(self, staged: str, final: str) -> tuple[BinaryIO, str]:
        """Begin a file that is to be published; return it, and what to publish, remove and look for.

        Args:
            staged: A hidden path for it, where there are hidden files.
            final: Its final path.

        Raises:
            FileExistsError: If there is one.
        """
        return self.create(staged), staged

    @abstractmethod
    def make_directory(self, path: str) -> list[str]:
        """Make a directory with its parents; return those that were not there, outermost first.

        Their names are durable when the directories above them have been synced.
        """

    @abstractmethod
    def create(self, path: str) -> BinaryIO:
        """Begin a file.

        Raises:
            FileExistsError: If there is one.
        """

    @abstractmethod
    def sync(self, file: BinaryIO) -> None:
        """Make what was written durable; nothing where `appends` is false."""

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Open a file to be read.

        Raises:
            FileNotFoundError: If there is none.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return a file's size in bytes, None if there is none."""

    @abstractmethod
    def publish(self, staged: str, final: str) -> None:
        """Give a file its final name.

        Raises:
            FileNotFoundError: If it is not there.
        """

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""

    @abstractmethod
    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is there and empty."""

    @abstractmethod
    def hidden_files(self) -> Iterator[str]:
        """Yield the files below the base path whose names begin with a dot; none if there is no directory."""

    def join(self, *parts: str) -> str:
        """Return a path below the base path."""
        return posixpath.join(self.base, *(part for part in parts if part))

    def checksum(self, path: str, length: int) -> int | None:
        """Return the CRC of a file's first `length` bytes; None if there are fewer, or no file."""
        try:
            with self.open(path) as file:
                crc, left = 0, length
                while left and (data := file.read(min(left, _COPY_BYTES))):
                    crc, left = zlib.crc32(data, crc), left - len(data)
        except FileNotFoundError:
            return None
        return None if left else crc

    def copy_prefix(self, path: str, length: int, target: BinaryIO) -> int:
        """Append a file's first `length` bytes to another; return their CRC."""
        crc, left = 0, length
        with self.open(path) as file:
            while left and (data := file.read(min(left, _COPY_BYTES))):
                target.write(data)
                crc, left = zlib.crc32(data, crc), left - len(data)
        return crc

    def check_writable(self) -> None:
        """Write and remove a hidden file; the directory is made if it is not there.

        Raises:
            SinkError: If that fails.
        """
        probe = self.join(f".probe-{new_id()}")
        try:
            for made in self.make_directory(self.base):
                self.sync_directory(posixpath.dirname(made))
            self.create(probe).close()
            self.remove(probe)
            file, staged = self.stage(probe, probe)
            file.close()
            self.remove(staged)
        except OSError as error:
            hint = "Give a directory that this user may write to, or make it."
            refusal = refusal_at(self.address, error, hint)
            raise SinkError(
                refusal.after(f"directory {self.base!r} cannot be written"),
                detail=refusal.detail,
                hint=refusal.hint,
            ) from error


class _LocalOutput(OutputFiles):
    """A directory that every host sees under the same path."""

    appends = True

    def __init__(self, base: str) -> None:
        self.base = self.address = base

    def make_directory(self, path: str) -> list[str]:
        return make_directories(path, sync=False)

    def create(self, path: str) -> BinaryIO:
        return open(path, "xb", buffering=1 << 18)

    def sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb", buffering=_COPY_BYTES)

    def size(self, path: str) -> int | None:
        try:
            return os.path.getsize(path)
        except FileNotFoundError:
            return None

    def publish(self, staged: str, final: str) -> None:
        os.rename(staged, final)

    def sync_directory(self, path: str) -> None:
        sync_directory(path)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        with contextlib.suppress(OSError):  # it holds other files, or is gone
            os.rmdir(path)

    def hidden_files(self) -> Iterator[str]:
        for directory, _, names in os.walk(self.base):
            for name in names:
                if name.startswith("."):
                    yield os.path.join(directory, name)


class _ArrowOutput(OutputFiles):
    """A directory or prefix of a remote file system, by its URI."""

    appends = False

    def __init__(self, uri: str) -> None:
        self.address = uri
        self._opened: tuple[Any, str] | None = None
        self.base = without_parameters(uri)

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address, "_opened": None, "base": self.base}

    def _resolve(self, path: str) -> tuple[Any, str]:
        """Return the file system, and a path as it wants it."""
        if self._opened is None:
            try:
                self._opened = open_remote(self.address)
            except (OSError, ValueError) as error:
                hint = "Give a directory, or a URI that pyarrow.fs.FileSystem.from_uri understands."
                refusal = refusal_at(self.address, error, hint)
                raise SinkError(
                    refusal.after(f"file sink cannot write to {self.base!r}"),
                    detail=refusal.detail,
                    hint=refusal.hint,
                ) from error
        file_system, root = self._opened
        return file_system, posixpath.join(root, path[len(self.base) :].lstrip("/")).rstrip("/")

    def make_directory(self, path: str) -> list[str]:
        file_system, place = self._resolve(path)
        file_system.create_dir(place, recursive=True)
        return []

    def create(self, path: str) -> BinaryIO:
        if self.size(path) is not None:
            raise FileExistsError(path)
        file_system, place = self._resolve(path)
        return cast(BinaryIO, file_system.open_output_stream(place))

    def sync(self, file: BinaryIO) -> None:
        """Nothing: the file is there when it is closed."""

    def open(self, path: str) -> BinaryIO:
        file_system, place = self._resolve(path)
        return cast(BinaryIO, file_system.open_input_file(place))

    def size(self, path: str) -> int | None:
        file_system, place = self._resolve(path)
        info = file_system.get_file_info(place)
        return info.size if info.is_file else None

    def publish(self, staged: str, final: str) -> None:
        if self.size(staged) is None:
            raise FileNotFoundError(staged)
        file_system, source = self._resolve(staged)
        file_system.move(source, self._resolve(final)[1])

    def sync_directory(self, path: str) -> None:
        """Nothing: names are durable at once."""

    def remove(self, path: str) -> None:
        if self.size(path) is not None:
            file_system, place = self._resolve(path)
            with contextlib.suppress(FileNotFoundError):
                file_system.delete_file(place)

    def remove_directory(self, path: str) -> None:
        """Nothing: in an object store there is none, and an empty one does no harm elsewhere."""

    def hidden_files(self) -> Iterator[str]:
        file_system, root = self._resolve(self.base)
        selector = arrow_fs().FileSelector(root, allow_not_found=True, recursive=True)
        for info in file_system.get_file_info(selector):
            if info.is_file and info.base_name.startswith("."):
                yield self.join(info.path[len(root) :].lstrip("/"))


class _CloudOutput(_ArrowOutput):
    """A prefix of a bucket of Google's, or of a container of Azure's: what is staged is a hidden object."""

    def make_directory(self, path: str) -> list[str]:
        """Nothing: directories are there by the names of objects. pyarrow would make buckets, too."""
        return []

    def publish(self, staged: str, final: str) -> None:
        """Have the server copy it, see that this has ended, and remove the hidden object.

        pyarrow's `move` does the same at Google's, and nothing in most accounts of Azure's.
        """
        size = self.size(staged)
        if size is None:
            raise FileNotFoundError(staged)
        file_system, source = self._resolve(staged)
        target = self._resolve(final)[1]
        file_system.copy_file(source, target)
        with file_system.open_input_file(target) as file:
            state = (file.metadata() or {}).get(b"Copy-Status", b"success")  # Azure's tells
            if state != b"success" or file.size() != size:
                raise OSError(f"the copy has the state {state.decode()} and {file.size()} bytes of {size}")
        reach("sink.publish", f"{final}, copied")
        file_system.delete_file(source)


class _S3Output(_ArrowOutput):
    """A prefix of a bucket: what is staged is an upload of the final object, named `<final path>?upload=<id>`.

    Hidden objects are there as well: what waits to be merged, and what older versions have staged.
    """

    renames = False

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._uploads: S3Uploads | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_uploads": None}

    def stage(self, staged: str, final: str) -> tuple[BinaryIO, str]:
        uploads, key = self._upload_of(final)
        upload_id = uploads.begin(key)
        stream = cast(BinaryIO, UploadStream(uploads, key, upload_id))
        return stream, f"{final}{_UPLOAD}{quote(upload_id, safe='')}"

    def size(self, path: str) -> int | None:
        final, mark, upload_id = path.partition(_UPLOAD)
        if not mark:
            return super().size(path)
        uploads, key = self._upload_of(final)
        return uploads.size(key, unquote(upload_id))

    def publish(self, staged: str, final: str) -> None:
        named, mark, upload_id = staged.partition(_UPLOAD)
        if not mark:
            super().publish(staged, final)
            return
        uploads, key = self._upload_of(named)
        uploads.complete(key, unquote(upload_id))

    def remove(self, path: str) -> None:
        final, mark, upload_id = path.partition(_UPLOAD)
        if not mark:
            super().remove(path)
            return
        uploads, key = self._upload_of(final)
        uploads.abort(key, unquote(upload_id))

    def hidden_files(self) -> Iterator[str]:
        yield from super().hidden_files()
        uploads, root = self._upload_of(self.base)
        prefix = f"{root}/" if root else ""
        for key, upload_id in list(uploads.below(prefix)):
            yield f"{self.join(key[len(prefix) :])}{_UPLOAD}{quote(upload_id, safe='')}"

    def _upload_of(self, path: str) -> tuple[S3Uploads, str]:
        """Return the bucket's uploads, and the key of a path."""
        bucket, _, key = self._resolve(path)[1].partition("/")
        if self._uploads is None:
            self._uploads = S3Uploads(current().s3_for(parse_location(self.address)), bucket)
        return self._uploads, key
