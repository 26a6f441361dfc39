"""Finding and opening files: local ones directly, others through pyarrow's file systems."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from typing import BinaryIO, cast
from urllib.parse import unquote, urlsplit

from millstream.base.errors import SourceError
from millstream.files.compression import decompressed
from millstream.files.refusals import NO_BUCKET, refusal_at
from millstream.files.remote import arrow_fs, is_without_bucket, open_remote, without_parameters

__all__ = ["FoundFile", "list_files", "local_path", "open_file"]

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
    return decompressed(path, file) if decompress else file


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
            raise _missing(uri, OSError(NO_BUCKET) if is_without_bucket(uri) else None)
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
