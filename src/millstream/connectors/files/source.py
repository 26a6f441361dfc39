"""The file source (PyFlink's `FileSource`)."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.files.enumerator import FileEnumerator, FileSplit
from millstream.connectors.files.providers import (
    FileEnumeratorProvider,
    FileSplitAssignerProvider,
    check_provider,
)
from millstream.connectors.turn_reader import TurnReader
from millstream.files.compression import is_compressed
from millstream.files.paths import FoundFile, local_path, open_file
from millstream.files.remote import with_parameters, without_parameters
from millstream.formats.metadata import FormatWithMetadata, MetadataFields
from millstream.spi.batch import Batch
from millstream.spi.formats import BulkFormat, FileFormat, FileRecords, StreamFileFormat
from millstream.spi.source import (
    Boundedness,
    Source,
    SourceReader,
    SplitEnumerator,
)
from millstream.types.basic import TypeInformation

__all__ = ["FileSource", "FileSourceBuilder"]


class FileSource(Source):
    r"""Records in files; a path may be a file or a directory, which is searched with all below it.

    Names that begin with `.` or `_` are left out. A static set of files is read by path, and the source ends.
    A followed directory (`monitor_continuously`) is read by time of change, and names that end in `.tmp` or
    `.inprogress` are left out too. A file is read once, as it is: move finished files into a followed
    directory; what is added to a file later is not read. The names of files read are kept for the job's life.

    Example:
        >>> import pathlib, tempfile
        >>> from millstream.common import WatermarkStrategy
        >>> from millstream.datastream.connectors.file_system import FileSource, StreamFormat
        >>> from millstream.testing import MiniCluster
        >>> with tempfile.TemporaryDirectory() as path, MiniCluster() as cluster:
        ...     written = pathlib.Path(path, "lines.txt").write_text("to be\nor not\n")
        ...     source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
        ...     env = cluster.environment()
        ...     cluster.collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "lines"))
        ['to be', 'or not']
    """

    def __init__(
        self,
        file_format: FileFormat,
        paths: tuple[str, ...],
        discovery_interval_ms: int | None = None,
        split_bytes: int | None = None,
        pattern: str | None = None,
    ) -> None:
        self._format = file_format
        self._paths = paths
        self._interval_ms = discovery_interval_ms
        self._split_bytes = split_bytes
        self._pattern = pattern

    @staticmethod
    def for_record_stream_format(stream_format: StreamFileFormat, *paths: str) -> FileSourceBuilder:
        """Read files record by record (text lines, CSV, JSON lines).

        Raises:
            ConfigurationError: If it is no such format, or there is no path.
        """
        return FileSourceBuilder(_check_format(stream_format, StreamFileFormat, "stream"), paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Read files in larger pieces (Parquet).

        Raises:
            ConfigurationError: If it is no such format, or there is no path.
        """
        return FileSourceBuilder(_check_format(bulk_format, BulkFormat, "bulk"), paths)

    def get_boundedness(self) -> Boundedness:
        """Return whether the set of files is static."""
        return Boundedness.BOUNDED if self._interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the format tells it."""
        return self._format.get_produced_type()

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """List the files.

        Raises:
            SourceError: If there is nothing at a path.
        """
        return FileEnumerator(
            self._paths,
            parallelism,
            interval_ms=self._interval_ms,
            restored=restored,
            split_bytes=self._bytes_of_parts,
            byte_positions=self._format.byte_positions,
            pattern=self._pattern,
        )

    def _bytes_of_parts(self, file: FoundFile) -> int | None:
        """Return how large the parts of a file are; None if it is not cut."""
        compressed = self._format.decompress and is_compressed(file.path)
        return None if compressed or not self._format.is_splittable else self._split_bytes

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return _FileReader(self._format, self._paths)


class FileSourceBuilder:
    """Builds a `FileSource`; each method returns the builder.

    Example:
        >>> from millstream.common import Duration
        >>> from millstream.datastream.connectors.file_system import FileSource, StreamFormat
        >>> builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/lines")
        >>> source = builder.monitor_continuously(Duration.of_seconds(5)).build()
        >>> source.get_boundedness()
        <Boundedness.CONTINUOUS_UNBOUNDED: 'unbounded'>
    """

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...]) -> None:
        if not paths:
            raise ConfigurationError("file source has no path", hint="Give at least one file or directory.")
        self._format = file_format
        self._paths = tuple(map(str, paths))
        self._interval_ms: int | None = None
        self._split_bytes: int | None = None
        self._metadata: MetadataFields | None = None
        self._pattern: str | None = None

    def set_path_pattern(self, pattern: str) -> FileSourceBuilder:
        """Read only files whose whole path, without the scheme of a URI, fits a regular expression (millstream's own).

        Raises:
            ConfigurationError: If it is no regular expression.
        """
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"{pattern!r} is no regular expression: {error}") from error
        self._pattern = pattern
        return self

    def set_split_size(self, size_bytes: int) -> FileSourceBuilder:
        """Have files that are larger read in parts of at most so many bytes, by several subtasks (millstream's own).

        Lines of text, JSON lines, CSV without quotes and escapes, Parquet (by row groups), Avro (by blocks) and ORC (by
        stripes) are cut; other files, and compressed ones, are read whole, as all are by default. The parts of a file
        are splits of their own: the order of its records is kept within each.

        Raises:
            ConfigurationError: If the size is not positive.
        """
        if size_bytes < 1:
            raise ConfigurationError(f"split size is {size_bytes} bytes, must be positive")
        self._split_bytes = size_bytes
        return self

    def add_metadata(
        self, file_path: str = "file_path", record_number: str = "record_number"
    ) -> FileSourceBuilder:
        """Have each record tell its file, and how many records of the file come before it (millstream's own).

        Rows and dicts get two fields more; other records, such as lines of text, become rows of `value` and these two.

        Args:
            file_path: Name of the field for the path.
            record_number: Name of the field for the number, from 0.

        Raises:
            ConfigurationError: If a name is empty, or both are the same.
        """
        self._metadata = MetadataFields(file_path, record_number)
        return self

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Follow the paths: look for new files each `discovery_interval`, without end.

        Raises:
            ConfigurationError: If the interval is not positive.
        """
        interval_ms = to_milliseconds(discovery_interval)
        if interval_ms <= 0:
            raise ConfigurationError(f"discovery interval is {interval_ms} ms, must be positive")
        self._interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts; the default."""
        self._interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Choose how files are found; there is one way.

        Raises:
            ConfigurationError: If it is no FileEnumeratorProvider.
        """
        check_provider(file_enumerator, FileEnumeratorProvider)
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Choose who reads which file; there is one way.

        Raises:
            ConfigurationError: If it is no FileSplitAssignerProvider.
        """
        check_provider(split_assigner, FileSplitAssignerProvider)
        return self

    def build(self) -> FileSource:
        """Return the source.

        Raises:
            ConfigurationError: If files are to be cut, and records numbered.
        """
        if self._metadata is None:
            return FileSource(self._format, self._paths, self._interval_ms, self._split_bytes, self._pattern)
        if self._split_bytes is not None:
            raise ConfigurationError(
                "a file source has a split size and metadata",
                detail="Which number a record has is not known where a file is begun in the middle.",
                hint="Leave out set_split_size(...) or add_metadata(...).",
            )
        numbered = FormatWithMetadata(self._format, self._metadata)
        return FileSource(numbered, self._paths, self._interval_ms, None, self._pattern)


class _FileReader(TurnReader):
    """Reads the files of one subtask."""

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...]) -> None:
        super().__init__(gives_columns=file_format.gives_columns)
        self._format = file_format
        self._paths = paths

    def identify(self, split: FileSplit) -> Any:
        return split.path, split.part

    def reading(self, split: FileSplit) -> AbstractContextManager[None]:
        return _reading(split.path)

    def read_some(self, records: FileRecords, split: FileSplit, most: int) -> Batch:
        try:
            return super().read_some(records, split, most)
        except MalformedRecordError as error:
            if split.part is None or split.part[0] == 0:
                raise
            counted = f"Lines are counted from the first that begins at byte {split.part[0]} or behind it."
            detail = counted if error.detail is None else f"{error.detail} {counted}"
            raise MalformedRecordError(error.message, detail=detail, hint=error.hint) from error

    def open_split(self, split: FileSplit, position: Any) -> FileRecords:
        file = open_file(with_parameters(split.path, self._paths), decompress=self._format.decompress)
        try:
            if split.part is None:
                return self._format.open(file, split.path, position)
            return self._format.open_part(file, split.path, position, split.part)
        except BaseException:
            file.close()
            raise


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Name the file that cannot be read on, or is not compressed as its name says."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        shown = path if local_path(path) is not None else without_parameters(path)
        hint = "Check that the file is whole and was not changed while it was read."
        if is_compressed(path):
            hint = "Check that the file is whole, and compressed as the end of its name says."
        raise SourceError(
            f"file {shown!r} cannot be read", detail=f"{type(error).__name__}: {error}", hint=hint
        ) from error


def _check_format(file_format: Any, kind: type, name: str) -> Any:
    if not isinstance(file_format, kind):
        raise ConfigurationError(f"{type(file_format).__name__} is no {name} format of files")
    return file_format
