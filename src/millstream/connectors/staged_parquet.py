"""Parquet files of tables that have a log of their own (Delta, Iceberg): hidden until the driver adds them to the log.

::

    slot     write … write ─ prepare_commit ──► .part-….parquet.inprogress, one for each partition
    driver   checkpoint complete ─► part-….parquet ─► one commit of the log: all files, and what was committed
"""

from __future__ import annotations

import contextlib
import posixpath
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from millstream.base.errors import LostOutputError, SinkError, shorten
from millstream.files.output import OutputFiles, open_output
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.formats.row_columns import RowColumns
from millstream.spi.batch import Batch, Columns
from millstream.spi.serialization import BulkWriterFactory
from millstream.spi.sink import SinkWriter, WriterContext
from millstream.types.datatypes import RowType
from millstream.types.row import Row, RowKind

__all__ = [
    "LAST",
    "Column",
    "Layout",
    "ParquetStagingWriter",
    "StagedParquet",
    "partition_text",
    "publish_files",
    "refuse_unpublished",
]

_GATHERED_ROWS = 65_536
_NULL = "__HIVE_DEFAULT_PARTITION__"

Column = tuple[str, str]
"""Name and type of a column, the type as the log has it."""

LAST = 2**62
"""Number of what is committed at the end of a job without checkpoints."""


@dataclass(frozen=True, slots=True)
class StagedParquet:
    """A finished file that is not in the log yet.

    Attributes:
        owner: Job and sink, under which its commit is noted.
        age: Of the attempt that wrote it: generation of the driver, when it began, its number.
        staged_path: Where it is; hidden.
        final_path: Where it will be.
        path: The same below the table.
        partition: Its partition: columns (or what is made of them) and their values, as the log has them.
        columns: The columns that were written, those of the partition too.
        records: How many there are.
        size_bytes: Its size.
        written_ms: When it was finished, epoch milliseconds.
        number: Its checkpoint.
    """

    owner: str
    age: tuple[int, int, int]
    staged_path: str
    final_path: str
    path: str
    partition: tuple[tuple[str, Any], ...]
    columns: tuple[Column, ...]
    records: int
    size_bytes: int
    written_ms: int
    number: int = LAST

    @property
    def order(self) -> tuple[int, ...]:
        """What is larger for what is committed later, of the same owner."""
        return (*self.age, self.number)


class PartitionFile:
    """A hidden file that takes the records of one partition up to a checkpoint.

    Args:
        files: Where the table is.
        directory: Of the partition.
        name: That the file will have.
        formats: Writes Parquet.
    """

    def __init__(self, files: OutputFiles, directory: str, name: str, formats: BulkWriterFactory) -> None:
        self._files = files
        self.final_path = files.join(directory, name)
        self.path = self.final_path[len(files.base) + 1 :]
        self._file, self.staged_path = files.stage(
            files.join(directory, f".{name}.inprogress"), self.final_path
        )
        self._parquet = formats.create(self._file)
        self._records = 0

    def add(self, batch: Any) -> None:
        """Add records, as a record batch."""
        self._records += batch.num_rows
        self._parquet.add_columns(batch)

    def finish(
        self,
        owner: str,
        age: tuple[int, int, int],
        partition: Sequence[tuple[str, Any]],
        columns: tuple[Column, ...],
        now_ms: int,
    ) -> StagedParquet:
        """Make it durable, and return what is to be committed."""
        self._parquet.finish()
        self._files.sync(self._file)
        size = self._file.tell()
        self._file.close()
        return StagedParquet(
            owner,
            age,
            self.staged_path,
            self.final_path,
            self.path,
            tuple(partition),
            columns,
            self._records,
            size,
            now_ms,
        )

    def discard(self) -> None:
        """Close and remove it."""
        # Parquet's writer complains later if its file is closed before it; what was closed is closed.
        with contextlib.suppress(Exception):
            self._parquet.finish()
        with contextlib.suppress(OSError):
            self._file.close()
        self._files.remove(self.staged_path)


@dataclass(frozen=True)
class Layout:
    """How records are in files: found from the table when a writer opens.

    Attributes:
        base: The directory below which files are.
        row_type: Of the records.
        partition_columns: What the table is partitioned by; they are not in the files.
        columns: All columns, with their types in the log.
    """

    base: str
    row_type: RowType
    partition_columns: tuple[str, ...]
    columns: tuple[Column, ...]

    def stored(self) -> RowType:
        """Return the type of what is in the files: without the columns of the partition."""
        return RowType([field for field in self.row_type if field.name not in self.partition_columns])


class ParquetStagingWriter(SinkWriter):
    """Writes hidden Parquet files below a table; each is finished at the next checkpoint.

    Args:
        table: Which, for messages: `the Delta table at '/data/orders'`.
        prefix: What the owner's name begins with.
        context: Where it runs.
    """

    takes_columns = True

    def __init__(self, table: str, prefix: str, context: WriterContext) -> None:
        self._table = table
        self._context = context
        # A name is job, sink, when the attempt began, its number, and what nobody else has.
        self._owner = f"{prefix}-{context.new_name().rsplit('-', 3)[0]}"
        self._age = (context.generation, context.began_ms, context.attempt)
        self._rows: list[Any] = []
        self._open: dict[tuple[Any, ...], PartitionFile] = {}
        self._finished: list[StagedParquet] = []
        self._unsynced: set[str] = set()
        self._ended = False
        self._aborted = False

    @abstractmethod
    def find_layout(self) -> Layout:
        """Look at the table.

        Raises:
            SinkError: If there is none, or it is not as the sink was told.
            NotSupportedError: If such tables are not written.
        """

    def find_formats(self, layout: Layout) -> BulkWriterFactory:
        """Return what writes the files."""
        return ParquetBulkWriters.for_row_type(layout.stored())

    def open(self) -> None:
        """Look at the table; remove what killed attempts of this job left."""
        self._layout = self.find_layout()
        self._files = open_output(self._layout.base)
        self._columns = RowColumns(self._layout.row_type)
        self._formats = self.find_formats(self._layout)
        self._remove_leftovers(or_own=False)

    def _remove_leftovers(self, *, or_own: bool) -> None:
        """Remove hidden files of former attempts: all that a checkpoint holds has been committed before."""
        context = self._context
        if context.subtask_index != 0 or (context.attempt == 0 and context.generation == 0):
            return
        try:
            for path in list(self._files.hidden_files()):
                if self._context.is_of_former(posixpath.basename(path), or_own=or_own):
                    self._files.remove(path)
        except OSError as error:
            raise self._failed(error) from error

    def write(self, batch: Batch, *, watermark_ms: int, now_ms: int) -> None:
        """Stage a batch."""
        if type(batch) is Columns and batch.kinds is None:
            self._write_rows()
            if len(batch):
                self._add(self._columns.stored(batch.data))
            return
        values = batch.to_rows().values
        for value in values:
            if isinstance(value, Row) and value.get_row_kind() is not RowKind.INSERT:
                raise SinkError(
                    f"a sink that appends to {self._table} was given a row of the kind "
                    f"{value.get_row_kind()}: {shorten(value)}",
                    hint="Keep only rows that are inserted, or write the changes with their kind as a column.",
                )
        self._rows += values
        if len(self._rows) >= _GATHERED_ROWS:
            self._write_rows()

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Finish the files if a checkpoint begins; what does not fit fails in its epoch."""
        self._ended = end_of_input
        self._write_rows()
        if not (checkpoint or end_of_input):
            return []
        try:
            while self._open:
                key = next(iter(self._open))
                partition = self.partition_of(key)
                columns = self._layout.columns
                file = self._open[key].finish(self._owner, self._age, partition, columns, now_ms)
                del self._open[key]
                self._finished.append(file)
            for directory in sorted(self._unsynced):
                self._files.sync_directory(directory)
        except OSError as error:
            raise self._failed(error) from error
        self._unsynced = set()
        finished, self._finished = self._finished, []
        return finished

    def number_committables(self, committables: list[Any], checkpoint_id: int) -> list[Any]:
        """Tell the files their checkpoint."""
        return [replace(each, number=checkpoint_id) for each in committables]

    def abort(self) -> None:
        """Remove the files that no checkpoint knows of."""
        self._aborted = True
        self._discard()

    def close(self) -> None:
        """Remove what no checkpoint knows of; at the end of the job, what zombies left too."""
        self._discard()
        if self._ended and not self._aborted:
            self._remove_leftovers(or_own=True)

    def _discard(self) -> None:
        self._rows = []
        for file in self._open.values():
            file.discard()
        for committable in self._finished:
            self._files.remove(committable.staged_path)
        self._open, self._finished = {}, []

    def _write_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._add(self._columns.batch(rows))

    def _add(self, batch: Any) -> None:
        try:
            for key, part in self.cut(batch):
                (self._open.get(key) or self._begin(key)).add(part)
        except OSError as error:
            raise self._failed(error) from error

    def cut(self, batch: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Cut a batch by partition; by default by the values of the partition's columns, which are not in the files."""
        names = self._layout.partition_columns
        if not names:
            yield (), batch
            return
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, key in enumerate(zip(*(batch.column(name).to_pylist() for name in names), strict=True)):
            groups.setdefault(key, []).append(place)
        kept = batch.select([name for name in batch.schema.names if name not in names])
        for key, places in groups.items():
            # An empty text is null in the log: both belong in one file.
            values = tuple(None if value == "" else value for value in key)
            yield values, kept if len(groups) == 1 else kept.take(places)

    def directories(self, key: tuple[Any, ...]) -> list[str]:
        """Return the directories of a partition, each in the one before it."""
        return [
            f"{quote(name, safe='')}={quote(partition_text(value) or _NULL, safe='')}"
            for name, value in zip(self._layout.partition_columns, key, strict=True)
        ]

    def partition_of(self, key: tuple[Any, ...]) -> list[tuple[str, Any]]:
        """Return what a committable says of a partition; by default its columns, with the values of the log."""
        return list(zip(self._layout.partition_columns, map(partition_text, key), strict=True))

    def _begin(self, key: tuple[Any, ...]) -> PartitionFile:
        parts = self.directories(key)
        directory = posixpath.join("", *parts)
        above = self._files.base
        for part in parts:  # another subtask may have made them a moment ago
            self._unsynced.add(above)
            above = posixpath.join(above, part)
        self._unsynced.add(above)
        self._files.make_directory(above)
        name = f"part-{self._context.subtask_index:05}-{self._context.new_name()}.parquet"
        file = self._open[key] = PartitionFile(self._files, directory, name, self._formats)
        return file

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(
            f"files of {self._table} could not be written",
            detail=str(error),
            hint="Check the disk's free space and the directory's permissions, on every machine that runs the job.",
        )


def partition_text(value: Any) -> str | None:
    """Return a partition's value as the log has it; None for null, which the empty text is too, by the protocol."""
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def publish_files(table: str, files: Sequence[StagedParquet], output: OutputFiles) -> None:
    """Give files their names; nobody reads them before they are in the log. On the driver.

    Raises:
        SinkError: If that fails.
    """
    try:
        for file in files:
            if output.size(file.final_path) is None:
                _rename(file, output)
        for directory in sorted({posixpath.dirname(file.final_path) for file in files}):
            output.sync_directory(directory)
    except OSError as error:
        raise SinkError(
            f"files of {table} could not be published",
            detail=str(error),
            hint="Check the directory's permissions; the files are kept for the next attempt.",
        ) from error


def _rename(file: StagedParquet, output: OutputFiles) -> None:
    try:
        output.publish(file.staged_path, file.final_path)
    except FileNotFoundError as error:
        if output.size(file.final_path) is not None:  # by another driver, a moment ago
            return
        raise LostOutputError(
            f"staged file {file.staged_path!r} is gone before it was committed",
            detail=f"It should have become {file.final_path!r}.",
            hint="Keep the table in a directory that all hosts share, and leave files alone that begin with a "
            "dot while a job may be resumed.",
        ) from error


def refuse_unpublished(table: str, files: Sequence[StagedParquet], output: OutputFiles) -> None:
    """See that what counts as committed was: files have their names before they are in the log.

    Raises:
        SinkError: If not.
    """
    for file in files:
        if output.size(file.staged_path) is not None:
            raise SinkError(
                f"file {file.staged_path!r} is not in {table}, though its checkpoint {file.number} counts as committed",
                detail=f"It is noted for {file.owner!r}.",
                hint="This must not happen; please report it. Nothing was removed.",
            )
