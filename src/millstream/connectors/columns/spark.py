"""A Spark DataFrame as a source: through Parquet files, past the driver.

::

    df.write.parquet ──► part-00000-….parquet … ──► one split for each, read in parallel by the slots

Spark writes what each of its partitions holds once, before the job starts. So a job that goes on from a checkpoint
reads the same rows in the same order, whatever the DataFrame is made of. Nothing here imports pyspark: a DataFrame is
asked what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import (
    JobDefinitionError,
    NotSupportedError,
    SessionLostError,
    SourceError,
    TypeMismatchError,
)
from millstream.connectors.columns.event_time import EventTime
from millstream.connectors.columns.frames import plain_table
from millstream.connectors.columns.kept import KeptDirectory
from millstream.connectors.columns.parts import PartsEnumerator, PartsReader, batch_rows
from millstream.files.paths import list_files, open_file
from millstream.files.remote import with_parameters, without_parameters
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator, SplitRange
from millstream.types.arrow_typeinfo import plain_schema
from millstream.types.arrow_types import load_arrow, load_parquet

__all__ = ["FramesSource", "check_frame", "frames_source"]

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
_NOT_PARQUET = re.compile(r'"(?:type|\w+Type)":"(interval[^"]*|variant|geometry[^"]*|geography[^"]*)"')


def check_frame(frame: Any) -> None:
    """Check that a job can read a DataFrame.

    Raises:
        TypeMismatchError: If it is no Spark DataFrame.
        SessionLostError: If its session was stopped.
        JobDefinitionError: If it is a stream of Spark's.
        NotSupportedError: If it has a column of a type that Parquet files do not keep.
    """
    if not all(hasattr(frame, name) for name in ("isStreaming", "sparkSession", "schema")):
        raise TypeMismatchError(f"from_spark was given a {type(frame).__name__}, not a Spark DataFrame")
    context = getattr(frame.sparkSession, "_sc", None)  # none with Spark Connect
    if context is not None and context._jsc is None:
        raise SessionLostError(
            "the Spark session of the DataFrame has been stopped",
            hint="Make the DataFrame again, in the session that SparkSession.builder.getOrCreate() gives.",
        )
    if frame.isStreaming:
        raise JobDefinitionError(
            "from_spark was given a streaming DataFrame",
            detail="It has no end, and Spark alone knows how to run it.",
            hint="Read its source with millstream, or write it with Spark's writeStream to files and follow them "
            "with a FileSource.",
        )
    found = _NOT_PARQUET.search(frame.schema.json())
    if found is not None:
        raise NotSupportedError(
            f"the DataFrame has a column of type {found[1]}, which no type of records stands for",
            hint="Cast the column, or leave it out with df.drop(...).",
        )


def frames_source(frame: Any, kept: KeptDirectory, event_time: EventTime | None) -> FramesSource:
    """Have Spark write a DataFrame, and return the source of what it wrote.

    Raises:
        SourceError: If it cannot be read.
        ConfigurationError: If pyarrow is not installed, no type of records stands for a column's type, or there is no
            such column of event time.
    """
    load_parquet()
    _write(frame, kept.uri)
    # The names begin with the number of the partition.
    paths = [with_parameters(found.path, [kept.path]) for found in list_files(kept.path)]
    files = tuple(_Part(path, _metadata(path).num_rows) for path in paths)
    if not files:
        raise SourceError(
            f"Spark wrote no files to {without_parameters(kept.path)!r} that this process sees",
            hint="Give from_spark a location= that the driver and all of Spark's executors share.",
        )
    schema = plain_schema(_metadata(files[0].path).schema.to_arrow_schema())
    if event_time is not None:
        event_time.check(schema)
    return FramesSource(files, schema, event_time, kept)


def _write(frame: Any, uri: str) -> None:
    """Write; timestamps so that they say whether they are in UTC, which Spark's own default does not."""
    conf = frame.sparkSession.conf
    before = conf.get(_TIMESTAMPS, None)
    conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        frame.write.mode("overwrite").parquet(uri)
    finally:
        if before is None:
            conf.unset(_TIMESTAMPS)
        else:
            conf.set(_TIMESTAMPS, before)


def _metadata(path: str) -> Any:
    with open_file(path, decompress=False) as file:
        return load_parquet().read_metadata(file)


@dataclass(frozen=True, slots=True)
class _Part:
    """A file that Spark wrote.

    Attributes:
        path: Its path, as it is opened.
        rows: How many rows are in it.
    """

    path: str = field(repr=False)
    rows: int


@dataclass(frozen=True)
class FramesSource(Source):
    """The rows of Parquet files, those of each in order, as many files at a time as there are subtasks.

    Attributes:
        parts: The files.
        schema: The plain schema of their rows.
        event_time: Which column holds event time; None if none does.
        kept: Where the files are, as long as somebody may read them; None in slots.
    """

    parts: tuple[_Part, ...]
    schema: Any
    event_time: EventTime | None
    kept: KeptDirectory | None = None

    def __reduce__(self) -> Any:
        return type(self), (self.parts, self.schema, self.event_time)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Plan the rows of the files, or go on where a snapshot ends.

        Raises:
            SourceError: If the snapshot is of partitions of other sizes.
        """
        sizes = tuple(part.rows for part in self.parts)
        return PartsEnumerator([range(rows) for rows in sizes], parallelism, sizes, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return _FramesReader(self)


class _FramesReader(PartsReader):
    """Reads files; keeps the one that it is in open between epochs."""

    def __init__(self, source: FramesSource) -> None:
        super().__init__(source.event_time)
        self._source = source
        self._open: _OpenPart | None = None

    def batches(self, split_range: SplitRange) -> Iterator[Any]:
        """Give the rows of a range."""
        part = self._source.parts[int(split_range.split_id)]
        opened = self._open
        if opened is None or (opened.path, opened.position) != (part.path, split_range.start):
            self.close()
            opened = self._open = _OpenPart(part.path, split_range.start)
        while opened.position < split_range.stop:
            yield self._plain(opened.take(split_range.stop - opened.position))
        if opened.position == part.rows:
            self.close()

    def _plain(self, batch: Any) -> Any:
        pa = load_arrow("Spark's DataFrames")
        table = plain_table(pa.Table.from_batches([batch]))
        return table.combine_chunks().to_batches()[0]

    def close(self) -> None:
        """Close the open file."""
        if self._open is not None:
            self._open.close()
            self._open = None


class _OpenPart:
    """An open file, read from some row on.

    Attributes:
        path: The file.
        position: How many rows are before the next one.
    """

    def __init__(self, path: str, position: int) -> None:
        self.path = path
        self.position = position
        self._file = open_file(path, decompress=False)
        self._parquet = load_parquet().ParquetFile(self._file)
        metadata = self._parquet.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        first, before = 0, 0
        while first < len(groups) and before + groups[first].num_rows <= position:
            before += groups[first].num_rows
            first += 1
        row_bytes = sum(group.total_byte_size for group in groups) // max(metadata.num_rows, 1)
        self._batches = self._parquet.iter_batches(
            batch_size=batch_rows(row_bytes), row_groups=list(range(first, len(groups)))
        )
        self._rest: Any = None
        self._skip(position - before)

    def take(self, most: int) -> Any:
        """Return the next rows, at least one and at most so many.

        Raises:
            SourceError: If there are none: the file is not what it was.
        """
        batch = self._rest if self._rest is not None else self._next()
        self._rest = batch.slice(most) if batch.num_rows > most else None
        taken = batch.slice(0, most)
        self.position += taken.num_rows
        return taken

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()
        self._file.close()

    def _skip(self, rows: int) -> None:
        while rows:
            batch = self._next()
            self._rest = batch.slice(rows) if batch.num_rows > rows else None
            rows -= min(rows, batch.num_rows)

    def _next(self) -> Any:
        pa = load_arrow("Spark's DataFrames")
        try:
            batch = next(batch for batch in self._batches if batch.num_rows)
        except (StopIteration, pa.ArrowException, OSError) as error:
            raise SourceError(
                f"file {without_parameters(self.path)!r} ends before its last row", detail=str(error)
            ) from error
        return batch
