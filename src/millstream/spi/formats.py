"""The contract of file formats: how the records of one file are read.

A format opens a file at a position and gives records in batches; after each batch it knows the position
behind the last record it gave, exactly, so that reading may stop and go on anywhere. What a position is, is
the format's own affair; it must be picklable. None is the file's beginning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, BinaryIO

__all__ = ["BulkFormat", "FileFormat", "FileRecords", "StreamFileFormat"]


class FileRecords(ABC):
    """The records of one open file, from some position on."""

    @abstractmethod
    def read(self, max_records: int) -> list[Any]:
        """Return the next records, at most `max_records`; may be fewer, or none, before the end too.

        Raises:
            MalformedRecordError: If a record does not parse; names file, line and column.
            SourceError: If the file cannot be read.
        """

    @property
    @abstractmethod
    def position(self) -> Any:
        """Position behind the last record that `read` returned."""

    @property
    @abstractmethod
    def exhausted(self) -> bool:
        """Whether nothing follows."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class FileFormat(ABC):
    """What a file is made of: small, immutable, picklable.

    Attributes:
        decompress: Whether files named .gz, .bz2, .xz or .deflate are decompressed for it.
    """

    decompress: bool = False

    @abstractmethod
    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read a file from `position` on; None is its beginning.

        Args:
            file: Buffered and seekable; belongs to the records from now on.
            path: For messages.
            position: What `FileRecords.position` gave for the same file.
        """


class StreamFileFormat(FileFormat):
    """A format read from front to back as a stream of bytes."""

    decompress = True


class BulkFormat(FileFormat):
    """A format read in larger pieces, such as Parquet's row groups."""
