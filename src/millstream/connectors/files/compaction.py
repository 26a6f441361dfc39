"""Merging a file sink's small files before readers see them (PyFlink's `FileCompactStrategy`, `FileCompactor`).

Finished files are not published at once but wait, hidden, until enough checkpoints have passed or there are enough
bytes in their bucket; then they are merged into one hidden file, which is published as any other::

    hidden    a ──┐
    hidden    b ──┼─ merge ─► c (hidden, synced) ─► [checkpoint] ─► renamed: seen ─► a, b removed
    hidden    …                                                     ▲
                                                                    the only moment that readers can notice

Readers see neither a nor b, ever, and c at one rename. Until the checkpoint is complete nothing is removed: a failure
before it begins again from a and b. Each subtask merges its own files, bucket by bucket, on its own thread.
"""

from __future__ import annotations

import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.spi.serialization import BulkWriterFactory, Encoder

__all__ = [
    "ConcatFileCompactor",
    "FileCompactStrategy",
    "FileCompactor",
    "IdenticalFileCompactor",
]

_PARQUET = b"PAR1"
_ROW_GROUP_ROWS = 1 << 18


class FileCompactStrategyBuilder:
    """Builds a `FileCompactStrategy`; each method returns the builder."""

    def __init__(self) -> None:
        self._checkpoints: int | None = None
        self._size_threshold: int | None = None
        self._threads = 1

    def enable_compaction_on_checkpoint(
        self, num_checkpoints_before_compaction: int
    ) -> FileCompactStrategyBuilder:
        """Merge what waits after so many checkpoints.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._checkpoints = _positive(num_checkpoints_before_compaction, "number of checkpoints")
        return self

    def set_size_threshold(self, size_threshold: int) -> FileCompactStrategyBuilder:
        """Merge the files of a bucket when they have so many bytes together.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._size_threshold = _positive(size_threshold, "size threshold")
        return self

    def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategyBuilder:
        """Take note of a number of threads, which makes no difference.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._threads = _positive(num_compact_threads, "number of threads")
        return self

    def build(self) -> FileCompactStrategy:
        """Return the strategy.

        Raises:
            ConfigurationError: If it would never merge anything.
        """
        if self._checkpoints is None and self._size_threshold is None:
            raise ConfigurationError(
                "compaction is enabled neither by checkpoints nor by size",
                hint="Call enable_compaction_on_checkpoint(...) or set_size_threshold(...).",
            )
        return FileCompactStrategy(self._checkpoints, self._size_threshold, self._threads)


@dataclass(frozen=True)
class FileCompactStrategy:
    """When small files are merged; made by `FileCompactStrategy.builder()`.

    Attributes:
        checkpoints: After so many checkpoints; None for not by checkpoints.
        size_threshold: When a bucket's waiting files have so many bytes together; None for any number.
        threads: Accepted for PyFlink's sake: each subtask merges its own files.

    Example:
        >>> from millstream.datastream.connectors.file_system import FileCompactStrategy
        >>> strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).build()
        >>> strategy.checkpoints
        5
    """

    checkpoints: int | None = None
    size_threshold: int | None = None
    threads: int = 1
    Builder: ClassVar[type[FileCompactStrategyBuilder]] = FileCompactStrategyBuilder

    @staticmethod
    def builder() -> FileCompactStrategyBuilder:
        """Begin with neither; one of them has to be set."""
        return FileCompactStrategyBuilder()


class FileCompactor(ABC):
    r"""How small files are merged; subclass it for a way of your own. Small and picklable.

    Example:
        >>> import io
        >>> from millstream.datastream.connectors.file_system import FileCompactor
        >>> output = io.BytesIO()
        >>> parts = io.BytesIO(b"tea"), io.BytesIO(b"cake")
        >>> FileCompactor.concat_file_compactor(b"\n").compact(parts, output)
        >>> output.getvalue()
        b'tea\ncake'
    """

    @abstractmethod
    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        """Write what is in all inputs, in their order, to the output; called with two inputs or more.

        Args:
            inputs: Open for reading, at their beginning, seekable.
            output: Open for writing; stays open.

        Raises:
            SinkError: If they cannot be merged; the job fails and begins again from the inputs.
        """

    def for_output(self, output: Encoder | BulkWriterFactory) -> FileCompactor:
        """Return the compactor for files of a format; called when the sink is built.

        Raises:
            ConfigurationError: If it would damage such files.
        """
        return self

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Put files one behind the other, with a delimiter between neighbours if there is one."""
        return ConcatFileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Keep exactly the records of the files: Parquet by its columns, CSV with one header, rows by their bytes."""
        return IdenticalFileCompactor()


@dataclass(frozen=True)
class ConcatFileCompactor(FileCompactor):
    """Puts files one behind the other.

    Attributes:
        file_delimiter: Between neighbours.
    """

    file_delimiter: bytes = b""

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        """Copy bytes."""
        for number, file in enumerate(inputs):
            if number:
                output.write(self.file_delimiter)
            shutil.copyfileobj(file, output, 1 << 20)

    def for_output(self, output: Encoder | BulkWriterFactory) -> FileCompactor:
        """Refuse formats whose files have a head."""
        if _head_of(output):
            raise ConfigurationError(
                "concat_file_compactor would damage files of this bulk format",
                detail="Each of its files has a head of its own.",
                hint="Use FileCompactor.identical_file_compactor().",
            )
        return self


@dataclass(frozen=True)
class IdenticalFileCompactor(FileCompactor):
    """Keeps the records as they are.

    Attributes:
        head: What every file of the format begins with, such as a CSV header; None if that is not known.
    """

    head: bytes | None = None

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        """Rewrite Parquet by row groups; others with one head."""
        if all(_peek(file, len(_PARQUET)) == _PARQUET for file in inputs):
            _merge_parquet(inputs, output)
            return
        head = self.head or b""
        output.write(head)
        for file in inputs:
            if file.read(len(head)) != head:
                raise SinkError(
                    "files cannot be merged: one of them does not begin as an empty file of its format does",
                    hint="Give enable_compact(...) a FileCompactor of your own for this format.",
                )
            shutil.copyfileobj(file, output, 1 << 20)

    def for_output(self, output: Encoder | BulkWriterFactory) -> FileCompactor:
        """Learn how files of the format begin.

        Raises:
            NotSupportedError: If they have something at their end as well, and are not Parquet.
        """
        head = _head_of(output)
        if head.startswith(_PARQUET):
            return IdenticalFileCompactor()
        if not head.isascii():
            raise NotSupportedError(
                "files of this bulk format cannot be merged record by record",
                hint="Give enable_compact(...) a FileCompactor of your own.",
            )
        return IdenticalFileCompactor(head)


def _positive(value: int, what: str) -> int:
    if value <= 0:
        raise ConfigurationError(f"{what} of a compaction is {value}, must be positive")
    return value


def _peek(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    file.seek(0)
    return data


def _head_of(output: Encoder | BulkWriterFactory) -> bytes:
    """Return what an empty file of a format holds."""
    if isinstance(output, Encoder):
        return b""
    file = _KeptOpen()
    output.create(file).finish()
    return file.getvalue()


class _KeptOpen(io.BytesIO):
    """Outlives a writer that closes its file."""

    def close(self) -> None:
        """Stay open."""


def _merge_parquet(inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
    arrow, parquet = _arrow()
    files = [parquet.ParquetFile(file) for file in inputs]
    schema = files[0].schema_arrow
    if any(not each.schema_arrow.equals(schema) for each in files):
        raise SinkError("Parquet files cannot be merged: their columns differ")
    tables: list[Any] = []
    with parquet.ParquetWriter(output, schema) as writer:
        for each in files:
            for group in range(each.num_row_groups):
                tables.append(each.read_row_group(group))
                if sum(table.num_rows for table in tables) >= _ROW_GROUP_ROWS:
                    writer.write_table(arrow.concat_tables(tables).combine_chunks())
                    tables = []
        if tables:
            writer.write_table(arrow.concat_tables(tables).combine_chunks())


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # optional: the extra `parquet`
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigurationError(
            "Parquet files need the package pyarrow, which is not installed",
            hint='Install the extra: pip install "millstream[parquet]".',
        ) from error
    return pyarrow, pyarrow.parquet
