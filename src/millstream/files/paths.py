"""Finding and opening files: local ones directly, others through pyarrow's file systems."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from millstream.base.errors import SourceError
from millstream.base.optional import load_package
from millstream.files.refusals import refusal_at
from millstream.files.remote import arrow_fs, open_remote, without_parameters

__all__ = ["FoundFile", "is_compressed", "list_files", "local_path", "open_file"]

_BUFFER_BYTES = 1 << 20
_LOCAL_BUFFER_BYTES = 128 << 10
"""Blocks, which are larger, are read past the buffer: without a copy."""
_LOOK = "Check the path; every machine that runs the job must see it under this name."
_ALLOW = "Let the user that runs the job read it, on every machine that runs the job."
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")


@dataclass(frozen=True, order=True)
class FoundFile:
    """A file that was found.

    Attributes:
        path: As it is opened.
        size_bytes: Its size.
        modified_ns: When it was changed last, epoch nanoseconds; 0 if the file system does not tell.
    """

    path: str
    size_bytes: int
    modified_ns: int


def local_path(path: str) -> str | None:
    """Return a path of the local file system, `file:` taken off; None for other file systems."""
    match = _SCHEME.match(path)
    if match is None:
        return path
    return unquote(urlsplit(path).path) if match.group(1).lower() == "file" else None


def list_files(path: str) -> list[FoundFile]:
    """Return the file, or all files below a directory whose names do not begin with `.` or `_`, by path.

    Raises:
        SourceError: If there is nothing at the path, or something below it cannot be looked into.
    """
    local = local_path(path)
    if local is None:
        return sorted(_list_remote(path))
    if os.path.isdir(local):
        return sorted(_list_directory(local))
    try:
        status = os.stat(local)
    except OSError as error:
        raise _missing(path, error) from error
    return [FoundFile(local, status.st_size, status.st_mtime_ns)]


def open_file(path: str, *, decompress: bool) -> BinaryIO:
    """Open a file, buffered and seekable.

    Raises:
        SourceError: If it cannot be opened.
    """
    try:
        local = local_path(path)
        file = _open_remote(path) if local is None else open(local, "rb", _LOCAL_BUFFER_BYTES)  # noqa: SIM115
    except OSError as error:
        raise _missing(path, error) from error
    wrap = _DECOMPRESSORS.get(_suffix(path)) if decompress else None
    return file if wrap is None else cast(BinaryIO, io.BufferedReader(wrap(file), _BUFFER_BYTES))


def is_compressed(path: str) -> bool:
    """Return whether `open_file` decompresses a file."""
    return _suffix(path) in _DECOMPRESSORS


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _list_directory(directory: str) -> list[FoundFile]:
    found = []
    for folder, folders, names in os.walk(directory, onerror=_refuse, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.startswith((".", "_")):
                continue
            file = os.path.join(folder, name)
            try:
                status = os.stat(file)
            except FileNotFoundError:  # gone since it was listed
                continue
            except OSError as error:
                raise _missing(file, error) from error
            found.append(FoundFile(file, status.st_size, status.st_mtime_ns))
    return found


def _refuse(error: OSError) -> None:
    """Let no directory be left out that is there, unlike `os.walk` by itself."""
    if not isinstance(error, FileNotFoundError):
        raise _missing(error.filename, error) from error


def _list_remote(uri: str) -> list[FoundFile]:
    fs = arrow_fs()
    try:
        file_system, root = open_remote(uri)
        info = file_system.get_file_info(root)
        if info.type == fs.FileType.NotFound:
            raise _missing(uri, None)
        entries = [info]
        if info.type == fs.FileType.Directory:
            entries = file_system.get_file_info(fs.FileSelector(root, recursive=True))
    except (OSError, ValueError) as error:
        if isinstance(error, SourceError):
            raise
        raise _missing(uri, error) from error
    place, root = without_parameters(uri), root.rstrip("/")
    return [
        FoundFile(place + entry.path[len(root) :], entry.size or 0, entry.mtime_ns or 0)
        for entry in entries
        if entry.type == fs.FileType.File and not _hidden(entry.path[len(root) :])
    ]


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/") if part)


def _open_remote(uri: str) -> BinaryIO:
    file_system, path = open_remote(uri)
    return cast(BinaryIO, io.BufferedReader(file_system.open_input_file(path), _BUFFER_BYTES))


def _missing(path: str, error: Exception | None) -> SourceError:
    shown = without_parameters(path) if local_path(path) is None else path
    message = f"no file or directory {shown!r} can be read"
    hint = _ALLOW if isinstance(error, PermissionError) else _LOOK
    if error is None:
        return SourceError(message, hint=hint)
    refusal = refusal_at(path, error, hint)
    return SourceError(refusal.after(message), detail=refusal.detail, hint=refusal.hint)


class _Deflate(io.RawIOBase):
    """A file compressed by zlib; seeking back reads again from the beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rewind()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        data = b""
        while not data and not self._zlib.eof:
            chunk = self._zlib.unconsumed_tail or self._file.read(_BUFFER_BYTES)
            if not chunk:
                if self._file.tell():  # an empty file holds nothing, and lacks nothing
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
                break
            data = self._zlib.decompress(chunk, len(target))
        target[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0:
            raise io.UnsupportedOperation("seek from the current position or the end")
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(min(_BUFFER_BYTES, offset - self._at)):
            pass
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._zlib = zlib.decompressobj()
        self._at = 0


class _Zstd(io.RawIOBase):
    """A file compressed by Zstandard, by pyarrow; seeking back reads again from the beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._pa = load_package("pyarrow", extra="parquet", what="files compressed by Zstandard")
        self._file = file
        self._rewind()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        if self._stream is None:
            return 0
        data = self._stream.read(len(target))
        target[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0:
            raise io.UnsupportedOperation("seek from the current position or the end")
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(min(_BUFFER_BYTES, offset - self._at)):
            pass
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()

    def _rewind(self) -> None:
        self._file.seek(0)
        empty = not self._file.read(1)  # it holds nothing, and lacks nothing
        self._file.seek(0)
        self._stream = None if empty else self._pa.CompressedInputStream(_Unclosed(self._file), "zstd")
        self._at = 0


class _Unclosed:
    """A file that stays open when pyarrow is done with it."""

    closed = False
    mode = "rb"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing was written."""

    def close(self) -> None:
        """It is closed by who has it."""


_DECOMPRESSORS: dict[str, Any] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".gzip": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".deflate": _Deflate,
    ".zst": _Zstd,
}
