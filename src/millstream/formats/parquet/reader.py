"""Parquet files read as rows; needs pyarrow (the extra `parquet`), loaded when it is used."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, SourceError
from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.file_columns import as_declared, file_names
from millstream.spi.formats import BulkFormat, FileRecords
from millstream.types import datatypes as types
from millstream.types.arrow_types import Form, load_arrow, load_parquet
from millstream.types.basic import TypeInformation
from millstream.types.sql_types import row_type_info

__all__ = ["ParquetColumnarRowInputFormat", "fitting_rows", "rows_within"]

_READ_ROWS = 16_384
_READ_BYTES = 4 << 20


class ParquetColumnarRowInputFormat(BulkFormat):
    """Rows of Parquet files, the columns of `row_type` by name; a position is the number of rows before it.

    Timestamps come as naive datetimes. Those that the file marks as UTC (and the old INT96 ones) are given in
    UTC if `is_utc_timestamp`, else in the machine's local zone. Only the columns of `row_type` are read, and no
    row group that ends before the position. Some thousand rows are decoded at a time: `batch_size` if that is more,
    fewer if they are large.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.datastream.connectors.file_system import FileSource
        >>> from millstream.datastream.formats.parquet import ParquetColumnarRowInputFormat
        >>> city = DataTypes.ROW([DataTypes.FIELD("city", DataTypes.STRING())])
        >>> source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(city), "data/cities").build()
    """

    def __init__(
        self,
        row_type: types.RowType,
        hadoop_config: object | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if batch_size < 1:
            raise ConfigurationError(f"batch_size is {batch_size}, must be at least 1")
        load_parquet()
        self._row_type = row_type
        self._batch_size = batch_size
        self._utc = is_utc_timestamp
        self._case_sensitive = is_case_sensitive

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows."""
        return row_type_info(self._row_type)

    @property
    def is_splittable(self) -> bool:
        """Row groups are."""
        return True

    def open_part(self, file: BinaryIO, path: str, position: Any, part: tuple[int, int]) -> FileRecords:
        """Read the rows of the row groups that begin within a range of bytes."""
        return self._open(file, path, position, part)

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read rows from a position on.

        Raises:
            SourceError: If it is no Parquet file, or a column is missing.
        """
        return self._open(file, path, position, None)

    def _open(self, file: BinaryIO, path: str, position: Any, part: tuple[int, int] | None) -> FileRecords:
        pa = load_arrow("Parquet files")
        try:
            parquet = load_parquet().ParquetFile(file)
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"file {path!r} is no Parquet file", detail=str(error)) from error
        names = file_names(
            parquet.schema_arrow.names, self._row_type, path, case_sensitive=self._case_sensitive
        )
        first, last = (0, parquet.metadata.num_rows) if part is None else rows_within(parquet.metadata, part)
        return _ParquetRecords(
            parquet,
            file,
            path,
            names,
            self._row_type,
            self._batch_size,
            self._utc,
            first if position is None else position,
            last,
        )


class _ParquetRecords(FileRecords):
    def __init__(
        self,
        parquet: Any,
        file: BinaryIO,
        path: str,
        names: list[str],
        row_type: types.RowType,
        batch_size: int,
        utc: bool,
        position: int,
        end: int,
    ) -> None:
        self._parquet = parquet
        self._file = file
        self._path = path
        self._names = names
        self._layout = BlockLayout(row_type, Form.READ)
        self._utc = utc
        self._position = position
        self._end = end
        self._int96 = _int96_columns(parquet)
        groups = [parquet.metadata.row_group(index).num_rows for index in range(parquet.num_row_groups)]
        ends = list(accumulate(groups))
        first = next((index for index, end in enumerate(ends) if end > position), len(groups))
        last = next((index for index, group_end in enumerate(ends) if group_end >= end), len(groups) - 1)
        self._skip = position - (ends[first - 1] if first else 0)
        self._batches = parquet.iter_batches(
            batch_size=fitting_rows(parquet, batch_size),
            row_groups=list(range(first, last + 1)) if position < end else [],
            columns=names,
        )
        self._block = ColumnBlock(self._layout, [[] for _ in names])  # the first records of it were given
        self._given = 0

    def read(self, max_records: int) -> list[Any]:
        rows: list[Any] = []
        while len(rows) < max_records and (more := self._take(max_records - len(rows))):
            rows += self._block.rows(*more)
        return rows

    def read_columns(self, max_records: int) -> Any:
        first, last = self._take(max_records) or (0, 0)
        return self._block.batch(first, last)

    @property
    def position(self) -> int:
        return self._position

    @property
    def exhausted(self) -> bool:
        return bool(self._position >= self._end)

    def close(self) -> None:
        self._parquet.close()
        self._file.close()

    def _take(self, max_records: int) -> tuple[int, int] | None:
        """Take the next records of a block; return their first and last number, None at the end."""
        while self._given == len(self._block):  # what is skipped may be a block
            if not self._decode():
                return None
        first = self._given
        self._given = last = min(first + max_records, len(self._block))
        self._position += last - first
        return first, last

    def _decode(self) -> bool:
        """Decode the next batch; return whether there is one."""
        pa = load_arrow("Parquet files")
        try:
            batch = next(self._batches, None)
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"file {self._path!r} does not read as Parquet", detail=str(error)) from error
        if batch is None:
            return False
        if self._skip:
            skipped = min(self._skip, batch.num_rows)
            batch = batch.slice(skipped)
            self._skip -= skipped
        columns = [
            self._column(batch.column(batch.schema.get_field_index(name)), name, field.type)
            for name, field in zip(self._names, self._layout.columns.schema, strict=True)
        ]
        self._block, self._given = ColumnBlock(self._layout, columns), 0
        return True

    def _column(self, column: Any, name: str, kind: Any) -> Any:
        """Return a column of the file in its declared type: an array, or a list of values."""
        pa = load_arrow("Parquet files")
        is_moment = pa.types.is_timestamp(column.type) and (column.type.tz is not None or name in self._int96)
        return as_declared(column, name, kind, self._path, is_moment=is_moment, in_utc=self._utc)


def fitting_rows(parquet: Any, batch_size: int) -> int:
    """Return how many rows of a file are decoded at a time."""
    metadata = parquet.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(max(batch_size, _READ_ROWS), _READ_BYTES // max(row_bytes, 1)))


def rows_within(metadata: Any, part: tuple[int, int]) -> tuple[int, int]:
    """Return the first row of the row groups that begin within a range of bytes, and the one behind their last."""
    first = last = row = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if _first_byte(group) < part[0]:
            first = row + group.num_rows
        row += group.num_rows
        if _first_byte(group) < part[1]:
            last = row
    return first, max(first, last)


def _first_byte(group: Any) -> int:
    column = group.column(0)
    pages = (column.dictionary_page_offset, column.data_page_offset)
    return int(min(offset for offset in pages if offset))


def _int96_columns(parquet: Any) -> set[str]:
    schema = parquet.schema
    return {
        schema.column(index).name
        for index in range(len(schema))
        if schema.column(index).physical_type == "INT96"
    }
