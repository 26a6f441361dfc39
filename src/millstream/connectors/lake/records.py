"""The rows of a data file, with exact positions.

::

    row groups ──► batches of the file ──► FileShape.convert ──► conditions ──► columns as they are read
                   row numbers                deleted rows go      rows go

A position is the number of rows of the file before it, those counted that are left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import accumulate
from typing import Any, BinaryIO

from millstream.base.errors import SourceError
from millstream.connectors.lake.conditions import Conditions
from millstream.connectors.lake.table_file import TableFile
from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.file_columns import as_declared
from millstream.formats.parquet.reader import fitting_rows, rows_within
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.formats import FileRecords
from millstream.types.arrow_types import Form, load_arrow, load_parquet
from millstream.types.datatypes import RowType
from millstream.types.row import RowKind

__all__ = ["CHANGE_COLUMN", "FileShape", "TableFileRecords"]

CHANGE_COLUMN = "_change_type"
"""The column of kinds in files that tell them, in the batches that `FileShape.convert` gives."""

_BATCH_ROWS = 2_048
_KINDS = {
    "insert": RowKind.INSERT.value,
    "update_preimage": RowKind.UPDATE_BEFORE.value,
    "update_postimage": RowKind.UPDATE_AFTER.value,
    "delete": RowKind.DELETE.value,
}


class FileShape(ABC):
    """How the rows of a table are in one data file."""

    @abstractmethod
    def names(self, schema: Any) -> list[str]:
        """Return the columns that are read of the file.

        Args:
            schema: Of the file, an Arrow schema.

        Raises:
            SourceError: If the file does not fit the table.
        """

    @abstractmethod
    def convert(self, batch: Any, first_row: int) -> tuple[Any, Any]:
        """Return rows of the table, and which of the batch they are.

        Args:
            batch: Of the file.
            first_row: Number of its first row.

        Returns:
            A record batch with all columns that are read and looked at, in the table's types; and places in `batch`,
            ascending, an array, or None for all.

        Raises:
            pyarrow.ArrowException, ValueError: If the file does not fit the table.
        """


class TableFileRecords(FileRecords):
    """The rows of one data file, from a position on.

    Args:
        stream: The open file.
        file: Which it is.
        shape: How it is made.
        row_type: What is given.
        conditions: Which rows are.
        in_utc: Whether moments are given in UTC; else in the machine's local zone.
        position: What was read before; None for nothing.

    Raises:
        SourceError: If it is no Parquet file, or does not fit the table.
    """

    def __init__(
        self,
        stream: BinaryIO,
        file: TableFile,
        shape: FileShape,
        row_type: RowType,
        conditions: Conditions,
        *,
        in_utc: bool,
        position: int | None,
    ) -> None:
        self._pa = load_arrow("tables of files")
        self._stream = stream
        self._file = file
        self._shape = shape
        self._conditions = conditions
        self._in_utc = in_utc
        self._layout = BlockLayout(row_type, Form.READ)
        try:
            self._parquet = load_parquet().ParquetFile(stream)
        except (self._pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"data file {file.path!r} is no Parquet file", detail=str(error)) from error
        metadata = self._parquet.metadata
        bounds = (0, int(metadata.num_rows)) if file.part is None else rows_within(metadata, file.part)
        self._end: int = bounds[1]
        self._position: int = bounds[0] if position is None else position
        self._next_row = self._position
        self._batches = self._begin(metadata)
        self._clear()

    def _begin(self, metadata: Any) -> Any:
        counts = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        ends = list(accumulate(counts))
        first = next((index for index, end in enumerate(ends) if end > self._position), len(ends))
        last = next((index for index, end in enumerate(ends) if end >= self._end), len(ends) - 1)
        self._next_row = ends[first - 1] if first else 0
        groups = list(range(first, last + 1)) if self._position < self._end else []
        names = self._shape.names(self._parquet.schema_arrow)
        size = fitting_rows(self._parquet, _BATCH_ROWS)
        return self._parquet.iter_batches(batch_size=size, row_groups=groups, columns=names)

    def _clear(self) -> None:
        self._block = ColumnBlock(self._layout, [[] for _ in self._layout.fields])
        self._places: Any = None
        self._kinds: Any = None
        self._given = 0
        self._count = 0
        self._first_row = self._next_row

    def read(self, max_records: int) -> list[Any]:
        """Return the next records as rows; maybe none before the end too, where rows are left out."""
        rows: list[Any] = self.read_batch(max_records, as_columns=False).to_rows().values
        return rows

    def read_columns(self, max_records: int) -> Any:
        """Return the next records as columns."""
        batch = self.read_batch(max_records, as_columns=True)
        assert isinstance(batch, Columns), "columns were asked for"
        return batch.data

    def read_batch(self, max_records: int, *, as_columns: bool) -> Batch:
        """Return the next records with their kinds; maybe none before the end too, where rows are left out."""
        if self._given == self._count and self._position < self._end:
            self._decode()
        first = self._given
        last = self._given = min(first + max_records, self._count)
        if last < self._count:
            self._position = self._first_row + int(self._places[last] if self._places is not None else last)
        else:
            self._position = self._next_row
        if as_columns:
            kinds = self._kinds.slice(first, last - first) if self._kinds is not None else None
            return Columns(self._block.batch(first, last), None, kinds)
        rows = self._block.rows(first, last)
        if self._kinds is not None:
            for row, kind in zip(rows, self._kinds.slice(first, last - first).to_pylist(), strict=True):
                row.set_row_kind(RowKind(kind))
        return Rows(rows)

    @property
    def position(self) -> int:
        """How many rows of the file come before what is read next."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Whether nothing follows."""
        return self._position >= self._end

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()
        self._stream.close()

    def _decode(self) -> None:
        """Decode rows of the file from the position on."""
        batch = next(self._batches)
        while self._next_row + batch.num_rows <= self._position:
            self._next_row += batch.num_rows
            batch = next(self._batches)
        skipped = max(0, self._position - self._next_row)
        first_row = self._next_row + skipped
        if skipped:
            batch = batch.slice(skipped)
        self._next_row = first_row
        self._clear()
        self._next_row = first_row + batch.num_rows
        try:
            rows, self._places = self._shape.convert(batch, first_row)
            if self._conditions and rows.num_rows:
                rows = self._choose(rows)
            columns = [
                self._column(rows.column(rows.schema.get_field_index(field.name)), field)
                for field in self._layout.columns.schema
            ]
            self._kinds = self._find_kinds(rows)
        except (self._pa.ArrowException, ValueError, TypeError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(
                f"data file {self._file.path!r} does not fit the table as it was when the source began",
                detail=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}",
                hint="If a column was changed since, begin anew: without the state of this source, under another uid.",
            ) from error
        self._block = ColumnBlock(self._layout, columns)
        self._count = rows.num_rows

    def _choose(self, rows: Any) -> Any:
        """Leave out the rows that are not wanted."""
        pa = self._pa
        mask = self._conditions.mask(rows)
        if mask.true_count == len(mask):
            return rows
        places = pa.array(range(rows.num_rows)) if self._places is None else self._places
        self._places = places.filter(mask)
        return rows.filter(mask)

    def _column(self, column: Any, field: Any) -> Any:
        is_moment = self._pa.types.is_timestamp(column.type) and column.type.tz is not None
        path = self._file.path
        return as_declared(column, field.name, field.type, path, is_moment=is_moment, in_utc=self._in_utc)

    def _find_kinds(self, rows: Any) -> Any:
        pa, kind = self._pa, self._file.kind
        if kind is RowKind.INSERT:
            return None
        if kind is not None:
            return pa.array([kind.value] * rows.num_rows, pa.int8())
        told = rows.column(rows.schema.get_field_index(CHANGE_COLUMN)).to_pylist()
        others = set(told) - _KINDS.keys()
        if others:
            raise SourceError(f"data file {self._file.path!r} tells the change {others.pop()!r}")
        return pa.array([_KINDS[each] for each in told], pa.int8())
