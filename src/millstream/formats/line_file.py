"""An open file of lines: read from any position at which a record begins, with a look ahead for whole blocks."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

__all__ = ["FilePrefix", "LineFile", "count_lines", "line_start"]

_BOM = b"\xef\xbb\xbf"


def line_start(file: BinaryIO, byte: int) -> int:
    """Return where the first line begins at a byte or behind it; the file's end if none does."""
    if byte == 0:
        return 0
    file.seek(byte - 1)
    file.readline()
    return file.tell()


class FilePrefix(io.RawIOBase):
    """The beginning of a file, up to a byte.

    Args:
        file: The file, which belongs to it.
        end: The byte.
    """

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file = file
        self._end = end

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, target: Any) -> int:
        """Read at most what is left before the end."""
        left = max(0, self._end - self._file.tell())
        return self._file.readinto(memoryview(target)[:left])  # type: ignore[attr-defined,no-any-return]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def count_lines(data: bytes) -> int:
    """Return the number of newlines, by numpy where it is installed: in a third of the time."""
    try:
        import numpy as np  # optional: pyarrow's only optional dependency
    except ImportError:
        return data.count(b"\n")
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))


class LineFile(ABC):
    """Reads an open file's records one by one, and lets blocks of them be looked at and taken.

    Attributes:
        position: (byte, number of lines before it) behind what was read.
    """

    position: tuple[int, int]

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self.seek((0, 0))

    def seek(self, position: tuple[int, int]) -> None:
        """Go on at a position; a byte order mark at the beginning is left out."""
        self._file.seek(position[0])
        if position[0] == 0 and self._file.peek(3)[:3] == _BOM:  # type: ignore[attr-defined]
            self._file.seek(3)
        self._ahead = io.BytesIO()  # read from the file, not yet taken
        self._begin((self._file.tell(), position[1]))

    @property
    def exhausted(self) -> bool:
        """Whether nothing follows."""
        return not self._untaken and not self._file.peek(1)  # type: ignore[attr-defined]

    @abstractmethod
    def read_columns(self, max_records: int) -> list[list[Any]]:
        """Return the values of the next records by column; no columns if there is no record.

        Raises:
            MalformedRecordError: If one of them does not parse or fit.
        """

    @abstractmethod
    def skip(self, count: int) -> None:
        """Leave out so many records."""

    def peek(self, size: int) -> tuple[bytes, bool]:
        """Return some `size` bytes from the position on, without taking them, and whether the file ends with them."""
        ahead = self._ahead.read()
        if len(ahead) < size:
            parts = [ahead, self._file.read(size - len(ahead))]
            if not parts[1].endswith(b"\n"):
                parts.append(self._file.readline())  # what reads record by record takes whole lines
            ahead = b"".join(parts)
        ends = not self._file.peek(1)  # type: ignore[attr-defined]
        self._ahead = io.BytesIO(ahead)
        self._begin(self.position)
        return ahead, ends

    def take(self, count: int, lines: int) -> None:
        """Take bytes and lines that `peek` returned; a record begins behind them."""
        self._ahead.seek(count, io.SEEK_CUR)
        self._begin((self.position[0] + count, self.position[1] + lines))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def _untaken(self) -> int:
        return self._ahead.getbuffer().nbytes - self._ahead.tell()

    @property
    def _reached(self) -> int:
        """The byte behind the lines that were taken."""
        return self._file.tell() - self._untaken

    def _lines(self) -> Iterator[bytes]:
        return chain(self._ahead, self._file)

    def _begin(self, position: tuple[int, int]) -> None:
        self.position = position
