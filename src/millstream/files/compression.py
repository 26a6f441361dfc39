"""Reading compressed files by the endings of their names; all can be sought in."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from abc import abstractmethod
from typing import Any, BinaryIO, cast

from millstream.base.optional import load_package

__all__ = ["decompressed", "is_compressed"]

_BUFFER_BYTES = 1 << 20


def is_compressed(path: str) -> bool:
    """Return whether a file with such a name is decompressed."""
    return _suffix(path) in _DECOMPRESSORS


def decompressed(path: str, file: BinaryIO) -> BinaryIO:
    """Return what a file holds, decompressed as its name says; the file itself if it says nothing.

    Errors of reading are those of Python's `gzip`, `bz2`, `lzma` and `zlib`, and of pyarrow for Zstandard.
    """
    wrap = _DECOMPRESSORS.get(_suffix(path))
    return file if wrap is None else cast(BinaryIO, io.BufferedReader(wrap(file), _BUFFER_BYTES))


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


class _Decompressing(io.RawIOBase):
    """A file that is decompressed as it is read; seeking back reads again from the beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rewind()

    @abstractmethod
    def _begin(self) -> None:
        """Begin to decompress the file, which stands at its beginning."""

    @abstractmethod
    def _decompress(self, size: int) -> bytes:
        """Return up to so many further bytes; none at the end."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        data = self._decompress(len(target))
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
        self._begin()
        self._at = 0


class _Deflate(_Decompressing):
    """A file compressed by zlib."""

    def _begin(self) -> None:
        self._zlib = zlib.decompressobj()

    def _decompress(self, size: int) -> bytes:
        data = b""
        while not data and not self._zlib.eof:
            chunk = self._zlib.unconsumed_tail or self._file.read(_BUFFER_BYTES)
            if not chunk:
                if self._file.tell():  # an empty file holds nothing, and lacks nothing
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
                break
            data = self._zlib.decompress(chunk, size)
        return data


class _Zstd(_Decompressing):
    """A file compressed by Zstandard, by pyarrow."""

    def _begin(self) -> None:
        pa = load_package("pyarrow", extra="parquet", what="files compressed by Zstandard")
        empty = not self._file.read(1)  # it holds nothing, and lacks nothing
        self._file.seek(0)
        self._stream = None if empty else pa.CompressedInputStream(_Unclosed(self._file), "zstd")

    def _decompress(self, size: int) -> bytes:
        return b"" if self._stream is None else cast(bytes, self._stream.read(size))


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
