"""The writer half of the Delta sink: the Parquet files of one subtask, one for each partition and checkpoint."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from millstream.base.errors import ConfigurationError, SinkError, shorten
from millstream.connectors.delta.columns import can_partition, partition_text
from millstream.connectors.delta.files import Column, DeltaCommittable, PartitionFile
from millstream.connectors.delta.table import Table, columns_of
from millstream.files.output import open_output
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.formats.row_columns import RowColumns
from millstream.spi.batch import Batch, Columns
from millstream.spi.sink import SinkWriter, WriterContext
from millstream.types.datatypes import RowType
from millstream.types.row import Row, RowKind

__all__ = ["DeltaWriter", "Layout", "check_partitions"]

_GATHERED_ROWS = 65_536
_NULL = "__HIVE_DEFAULT_PARTITION__"


def check_partitions(row_type: RowType, partition_columns: tuple[str, ...]) -> None:
    """See whether rows can be written to a table that is partitioned so.

    Raises:
        ConfigurationError: If not.
    """
    types = {field.name: field.data_type for field in row_type}
    for name in partition_columns:
        if name not in types:
            raise ConfigurationError(
                f"partition column {name!r} is no field of the records",
                detail=f"These are {', '.join(types)}.",
            )
        if not can_partition(types[name]):
            raise ConfigurationError(
                f"a Delta table is not partitioned by column {name!r} of the type {types[name]}",
                hint="Partition by texts, whole numbers, dates or booleans.",
            )
    if len(types) == len(partition_columns):
        raise ConfigurationError("a Delta table needs a column that it is not partitioned by")


@dataclass(frozen=True)
class Layout:
    """How records are in files: found from the table when a writer opens.

    Attributes:
        row_type: Of the records.
        partition_columns: What the table is partitioned by.
        columns: All columns, with their types in the log.
    """

    row_type: RowType
    partition_columns: tuple[str, ...]
    columns: tuple[Column, ...]

    @staticmethod
    def find(path: str, row_type: RowType | None, partition_columns: tuple[str, ...] | None) -> Layout:
        """Look at a table.

        Raises:
            SinkError: If there is none, or it is not as the sink was told.
            NotSupportedError: If such tables are not written.
        """
        table = Table(path)
        table.refuse_computed()
        found = table.row_type() if row_type is None else row_type
        partitions = table.partition_columns if partition_columns is None else partition_columns
        columns = columns_of(RowColumns(found).schema)
        table.check_fits(columns, partitions)
        table.check_nulls([field.name for field in found if field.data_type.nullable])
        check_partitions(found, partitions)
        return Layout(found, partitions, columns)

    def stored(self) -> RowType:
        """Return the type of what is in the files: without the columns of the partition."""
        return RowType([field for field in self.row_type if field.name not in self.partition_columns])


class DeltaWriter(SinkWriter):
    """Writes hidden Parquet files below the table; each is finished at the next checkpoint."""

    takes_columns = True

    def __init__(
        self,
        path: str,
        row_type: RowType | None,
        partition_columns: tuple[str, ...] | None,
        application: str,
        context: WriterContext,
    ) -> None:
        self._path = path
        self._declared = row_type, partition_columns
        self._context = context
        self._application = f"{application}-{context.new_name().rpartition('-')[0]}"
        self._files = open_output(path)
        self._rows: list[Any] = []
        self._open: dict[tuple[Any, ...], PartitionFile] = {}
        self._finished: list[DeltaCommittable] = []
        self._unsynced: set[str] = set()
        self._ended = False
        self._aborted = False

    def open(self) -> None:
        """Look at the table; remove what killed attempts of this job left."""
        self._layout = Layout.find(self._path, *self._declared)
        self._columns = RowColumns(self._layout.row_type)
        self._formats = ParquetBulkWriters.for_row_type(self._layout.stored())
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
                    f"a sink that appends to a Delta table was given a row of the kind "
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
                values = map(partition_text, key)
                partition = list(zip(self._layout.partition_columns, values, strict=True))
                columns = self._layout.columns
                file = self._open[key].finish(self._application, partition, columns, now_ms)
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
            for key, part in self._by_partition(batch):
                # An empty text is null in the log: both belong in one file.
                values = tuple(None if value == "" else value for value in key)
                (self._open.get(values) or self._begin(values)).add(part)
        except OSError as error:
            raise self._failed(error) from error

    def _by_partition(self, batch: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Cut a batch by the values of the partition's columns, which are not in the files."""
        names = self._layout.partition_columns
        if not names:
            yield (), batch
            return
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, key in enumerate(zip(*(batch.column(name).to_pylist() for name in names), strict=True)):
            groups.setdefault(key, []).append(place)
        kept = batch.select([name for name in batch.schema.names if name not in names])
        for key, places in groups.items():
            yield key, kept if len(groups) == 1 else kept.take(places)

    def _begin(self, key: tuple[Any, ...]) -> PartitionFile:
        parts = [
            f"{quote(name, safe='')}={quote(partition_text(value) or _NULL, safe='')}"
            for name, value in zip(self._layout.partition_columns, key, strict=True)
        ]
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
            f"files of the Delta table at {self._path!r} could not be written",
            detail=str(error),
            hint="Check the disk's free space and the directory's permissions, on every machine that runs the job.",
        )
