"""The contract of formats: bytes in, rows or columns out, and the position behind them.

::

    file      FileFormat.open ──► FileRecords  read(n)          rows          position: exact, after each batch
                                               read_columns(n)  RecordBatch
    messages  BlockDecoder.join ──► a block ──► Block           rows(), batch()

A format opens a file at a position and gives records in batches; after each batch it knows the position
behind the last record it gave, exactly, so that reading may stop and go on anywhere. What a position is, is
the format's own affair; it must be picklable. None is the file's beginning.

Rows and columns are the same records: what `read_columns` gives is, as rows (`records_of`), what `read` would have
given. Formats whose records are no rows (lines of text) say so in the schema (`bare_schema`).

Whole blocks of records are decoded at once, by a `BlockDecoder`: a piece of a file, or messages joined to one. It may
refuse a block (None): then the records are read one by one, which says what they mean, and what is wrong with which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol

from millstream.base.errors import NotSupportedError
from millstream.types.basic import TypeInformation

__all__ = ["Block", "BlockDecoder", "BulkFormat", "FileFormat", "FileRecords", "StreamFileFormat"]


class Block(Protocol):
    """Decoded records, given away piece by piece, as rows or as columns.

    Attributes:
        lines: How many line breaks they were made of, if that was counted.
    """

    lines: int | None

    def __len__(self) -> int:
        """Return the number of records."""

    def rows(self, first: int, last: int) -> list[Any]:
        """Return the records `[first, last)`."""

    def batch(self, first: int, last: int) -> Any:
        """Return the records `[first, last)` as a `pyarrow.RecordBatch`."""


class BlockDecoder(ABC):
    """Makes columns of whole blocks of records; needs pyarrow."""

    @abstractmethod
    def whole_records(self, data: bytes) -> int:
        """Return the number of bytes up to the end of the last record that ends in `data`; 0 if none does.

        Args:
            data: From the beginning of a record on.
        """

    @abstractmethod
    def decode(self, block: bytes) -> Block | None:
        """Return whole records; None if they have to be read one by one.

        Args:
            block: Whole records; an end mark of the last one may be missing.
        """

    @abstractmethod
    def join(self, messages: Sequence[bytes]) -> bytes | None:
        """Return messages of one record each as a block; None if they have to be read one by one."""


class FileRecords(ABC):
    """The records of one open file, from some position on; one may be asked for rows and for columns in turn."""

    @abstractmethod
    def read(self, max_records: int) -> list[Any]:
        """Return the next records, at most `max_records`; may be fewer, or none, before the end too.

        Raises:
            MalformedRecordError: If a record does not parse; names file, line and column.
            SourceError: If the file cannot be read.
        """

    @abstractmethod
    def read_columns(self, max_records: int) -> Any:
        """Return the next records as a `pyarrow.RecordBatch`, at most `max_records`, as `read` does.

        Raises:
            MalformedRecordError: If a record does not parse; names file, line and column.
            SourceError: If the file cannot be read.
            ConfigurationError: If pyarrow is not installed.
        """

    @property
    @abstractmethod
    def position(self) -> Any:
        """Position behind the last record that was returned."""

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
        decompress: Whether files named .gz, .bz2, .xz, .zst or .deflate are decompressed for it.
        gives_columns: Whether its records can be columns: `FileRecords.read_columns` is called only then.
        byte_positions: Whether positions are tuples that begin with a byte of the (decompressed) file.
    """

    decompress: bool = False
    byte_positions: bool = False
    gives_columns: bool = True

    @abstractmethod
    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read a file from `position` on; None is its beginning.

        Args:
            file: Buffered and seekable; belongs to the records from now on.
            path: For messages.
            position: What `FileRecords.position` gave for the same file.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None if it is not known before a file is read."""
        return None

    @property
    def is_splittable(self) -> bool:
        """Whether `open_part` can be called, for files that are not compressed."""
        return False

    def open_part(self, file: BinaryIO, path: str, position: Any, part: tuple[int, int]) -> FileRecords:
        """Read the records that begin within a range of a file's bytes; those of all parts are the file's, once each.

        Args:
            file: As of `open`.
            path: As of `open`.
            position: What `FileRecords.position` gave for the same part.
            part: Its first byte, and the one behind its last.
        """
        raise NotSupportedError(f"{type(self).__name__} cannot read a part of a file")


class StreamFileFormat(FileFormat):
    """A format read from front to back as a stream of bytes."""

    decompress = True


class BulkFormat(FileFormat):
    """A format read in larger pieces, such as Parquet's row groups.

    Example:
        >>> from millstream.datastream.connectors.file_system import BulkFormat
        >>> from millstream.datastream.formats.parquet import ParquetColumnarRowInputFormat
        >>> issubclass(ParquetColumnarRowInputFormat, BulkFormat)
        True
    """
